"""Start, respawn, close; nothing is left behind, whoever dies first; W^X; the books of pages."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from processes import gone, runs

from jitkernel import procfs
from jitkernel.errors import JitError
from tests.busy import until

from . import programs as p
from .conftest import Lab
from .programs import program


def test_code_and_globals_survive_a_respawn(fresh: Lab) -> None:
    count = program("*ret = ++n;", "long n;")
    answers = []
    for _ in range(3):
        answers.append(struct.unpack("<q", fresh.run(count, ret_size=8).result)[0])
        fresh.executor.respawn()
    assert answers == [1, 2, 3]
    assert fresh.executor.generation == 3


def test_every_mapping_has_its_protection(fresh: Lab) -> None:
    fresh.square(2)
    found = []
    for line in fresh.maps():
        span, flags = line.split()[:2]
        assert not ("w" in flags and "x" in flags), line
        if "memfd" in line:
            start, stop = (int(n, 16) for n in span.split("-"))
            found.append((start, stop, flags))
    regions = fresh.arena.regions
    assert found[0][0] == regions[0].start and found[-1][1] == regions[-1].stop
    for region in regions:
        here = [f for a, b, f in found if a < region.stop and region.start < b]
        wanted = {"rx": "r-xs", "rw": "rw-s", "r": "r--s"}[region.prot]
        assert here == (["---s"] if region.name == "data" else [wanted])  # there are no data yet


STORE = program("**(volatile char **)args = 1;")


def test_pages_of_data_that_nothing_has_are_not_accessible(fresh: Lab) -> None:
    zone = fresh.arena.zones["data"]
    fresh.place(STORE)
    assert fresh.run(STORE, struct.pack("<Q", zone.start)).kind == "fault"
    for size in (1, 4096, 4096, 100_000, 8 << 20):
        extent = fresh.arena.reserve("data", size)
        for at in (extent.start, extent.stop - 1):
            assert fresh.run(STORE, struct.pack("<Q", at)).kind == "ok"
        beyond = zone.high + -zone.high % 4096
        outcome = fresh.run(STORE, struct.pack("<Q", beyond))
        assert outcome.kind == "fault" and outcome.record is not None
        assert outcome.record.address == beyond and not outcome.respawned
    mappings = len(fresh.maps())
    fresh.executor.respawn()
    assert fresh.run(STORE, struct.pack("<Q", extent.stop - 1)).kind == "ok"
    assert len(fresh.maps()) <= mappings + 1


PROTECT = program(
    "*ret = syscall(SYS_mprotect, *args & -4096, 4096L, PROT_READ | PROT_WRITE | PROT_EXEC);"
)


@pytest.mark.parametrize("region", ["runtime.text", "text", "rodata", "unwind"])
def test_the_system_refuses_to_make_code_and_constants_writable(fresh: Lab, region: str) -> None:
    """mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), from a cell."""
    fresh.place(PROTECT)
    [start] = [r.start for r in fresh.arena.regions if r.name == region]
    outcome = fresh.run(PROTECT, struct.pack("<Q", start), 8)
    assert outcome.kind == "ok" and struct.unpack("<q", outcome.result)[0] == -1
    assert not [line for line in fresh.maps() if "rwx" in line.split()[1]]
    assert fresh.square(3) == 9


def test_calls_leave_no_mappings_and_no_descriptors(fresh: Lab) -> None:
    fresh.square(1)
    fresh.run(p.NULL)
    mappings = len(fresh.maps())
    descriptors = len(os.listdir("/proc/self/fd"))
    theirs = len(os.listdir(f"/proc/{fresh.executor.pid}/fd"))
    for i in range(50):
        assert fresh.square(i) == i * i
        assert fresh.run(p.NULL).kind == "fault"
    assert len(fresh.maps()) == mappings
    for _ in range(3):
        fresh.executor.respawn()
        fresh.square(1)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert len(os.listdir(f"/proc/{fresh.executor.pid}/fd")) == theirs


def test_memory_of_the_process_is_small(fresh: Lab) -> None:
    fresh.square(1)
    private = sum(
        int(line.split()[1])
        for line in Path(f"/proc/{fresh.executor.pid}/smaps_rollup").read_text().splitlines()
        if line.startswith("Private_")
    )
    assert private < 8000  # KB


def test_close_ends_what_cells_started() -> None:
    lab = Lab()
    lab.run(program('system("sleep 1000 & echo $!");'))
    plain = int(lab.out)
    lab.run(program("""system("setsid sh -c 'setsid sleep 1000 & echo $!'");"""))
    hidden = int(lab.out)
    executor = lab.executor.pid
    assert runs(plain) and runs(hidden)
    lab.close()
    assert gone(plain) and gone(hidden) and gone(executor)


OWNER = """
import os, sys, time
sys.path[:0] = {path!r}
from {package}.conftest import Lab
from {package}.programs import program
lab = Lab()
for command in "sleep 1000 & echo $!", "setsid sh -c 'setsid sleep 1000 & echo $!'":
    lab.run(program('system("' + command + '");'))
    print(int(lab.out))
print(lab.executor.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end", ["killed", "exits", "running a call", "stopped", "descriptors closed"]
)
def test_nothing_outlives_the_kernel_process(tmp_path: Path, end: str) -> None:
    """The executor and its children go when their owner goes, however it goes."""
    here = Path(__file__).parent
    finish = {
        "killed": "time.sleep(100)",
        "exits": "os._exit(0)",
        "running a call": 'lab.run(program("sleep(1000);"))',
        "stopped": 'lab.run(program("raise(SIGSTOP);"))',
        "descriptors closed": (
            'lab.run(program("for (int fd = 0; fd < 30000; fd++) close(fd); sleep(1000);"))'
        ),
    }[end]
    text = OWNER.format(
        path=[str(here.parent), str(here.parent.parent)],
        package=here.name,
        end=finish,
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(owner.stdout.readline()) for _ in range(3)]
        if end != "exits":
            assert all(runs(pid) for pid in pids)
            if end == "stopped":
                assert until(lambda: procfs.first_thread(pids[2]) == "T", 60)
            time.sleep(0.1)
            owner.kill()
        owner.wait()
        assert all(gone(pid) for pid in pids)


def test_groupwide_sigint_does_not_reach_the_executor(fresh: Lab) -> None:
    fresh.square(1)
    assert os.getsid(fresh.executor.pid) == fresh.executor.pid != os.getsid(0)


def test_limits() -> None:
    with closing(Lab(executor_memory_limit=64 << 20, stack_size=1 << 20)) as lab:
        two = program("ret[0] = (long)malloc(100000000);\nret[1] = (long)malloc(1000000);")
        large, small = struct.unpack("<2Q", lab.run(two, ret_size=16).result)
        assert large == 0 and small
        record = lab.run(p.RECURSE).record
        assert record is not None
        assert 900 << 10 < record.stack_top - record.sp < 1100 << 10
        limits = Path(f"/proc/{lab.executor.pid}/limits").read_text()
        assert "Max core file size        0 " in limits


def test_a_working_directory_that_is_not_there(tmp_path: Path) -> None:
    lab = Lab(cwd=str(tmp_path / "nowhere"))
    with pytest.raises(JitError, match="nowhere"):
        lab.square(1)
    lab.close()
    lab = Lab(cwd=str(tmp_path))
    assert lab.square(1) == 1
    tmp_path.rmdir()
    lab.executor.respawn()
    assert lab.square(2) == 4
    lab.close()


def test_a_range_that_is_taken() -> None:
    """The words of the process, not a time-out."""
    lab = Lab()
    lab.arena.regions = tuple(
        r._replace(start=r.start, stop=0x7FFF_FFFF_F000) if r.name == "data" else r
        for r in lab.arena.regions
    )
    try:
        for pause in (0.0, 0.2):
            lab.executor.start()
            time.sleep(pause)
            with pytest.raises(JitError, match="cannot be mapped"):
                lab.executor.call(0, 0)
    finally:
        lab.close()


def test_lookup(lab: Lab) -> None:
    puts, nothing, python, errno, out = lab.executor.services.lookup(
        ["puts", "no_such_symbol", "PyList_New", "__errno_location", "stdout"]
    )
    assert puts and errno and out
    assert (nothing, python) == (0, 0)
    assert lab.executor.services.lookup([]) == []
    many = [f"no_{i}" for i in range(5000)] + ["puts"]
    assert lab.executor.services.lookup(many) == [0] * 5000 + [puts]


def test_empty_names(fresh: Lab) -> None:
    """They are nobody's, and end nothing."""
    assert fresh.square(2) == 4
    pid = fresh.executor.pid
    assert fresh.executor.services.lookup([""]) == [0]
    with pytest.raises(OSError, match="has a name"):
        fresh.executor.services.library("")
    with pytest.raises(OSError, match="No such file"):
        fresh.executor.services.chdir("")
    with pytest.raises(OSError, match="is no name of a variable"):
        fresh.executor.services.setenv("", "x")
    assert fresh.executor.pid == pid and fresh.square(3) == 9


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc to make a shared library")
def test_library(fresh: Lab, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no_such"):
        fresh.executor.services.library("libno_such.so")
    source = tmp_path / "answer.s"
    source.write_text(
        ".globl answer\n.type answer, @function\nanswer: mov $42, %eax\nret\n.size answer, 6\n"
        '.section .note.GNU-stack, "", @progbits\n'  # else glibc from 2.41 on refuses to load it
    )
    subprocess.run(
        ["gcc", "-shared", "-nostdlib", "-o", tmp_path / "libanswer.so", source], check=True
    )
    assert fresh.executor.services.lookup(["answer"]) == [0]
    fresh.executor.services.library(str(tmp_path / "libanswer.so"))
    [at] = fresh.executor.services.lookup(["answer"])
    assert fresh.executor.services.locate([at + 2]) == ["answer+0x2, libanswer.so"]
    fresh.executor.respawn()
    assert fresh.executor.services.lookup(["answer"])[0]


def test_call_many(lab: Lab) -> None:
    steps = [f"void f{i}(void) {{ trace = 10 * trace + {i}; }}" for i in (1, 2, 3)]
    lab.place(program("", "long trace;", *steps, f"void bad(void) {{ {p.FAULT} }}"))
    at = {n: lab.linker.symbols[n].address for n in ("f1", "f2", "f3", "bad", "trace")}

    def trace() -> int:
        return int.from_bytes(lab.arena.read(at["trace"], 8), "little")

    outcome = lab.executor.call_many([at["f1"], at["f2"], at["f3"]])
    assert (outcome.kind, outcome.done, trace()) == ("ok", 3, 123)
    lab.arena.write(at["trace"], bytes(8))
    outcome = lab.executor.call_many([at["f3"], at["f1"], at["bad"], at["f2"]])
    assert (outcome.kind, outcome.done, trace()) == ("fault", 2, 31)
    assert lab.executor.call_many([]).kind == "ok"
    assert lab.executor.call_many([at["f1"]] * 40_000).done == 40_000


def test_arguments_and_results(lab: Lab) -> None:
    data = os.urandom(65536)
    assert lab.run(program("memcpy(ret, args, 65536);"), data, 65536).result == data
    with pytest.raises(JitError, match="65536"):
        lab.executor.call(0, 0, bytes(65537))
    with pytest.raises(JitError, match="65536"):
        lab.executor.call(0, 0, b"", 65537)


def test_a_large_stack() -> None:
    with closing(Lab(stack_size=300 << 20)) as lab:
        large = program("volatile char room[250000000];\n*room = 1;\n*ret = 7;")
        outcome = lab.run(large, ret_size=1)
        assert (outcome.kind, outcome.result) == ("ok", b"\7")


def test_the_unwinder_knows_session_code(lab: Lab) -> None:
    """What has come since the last call is found in the next one."""
    frames = program(
        "*ret = 0;\nlevel1(ret);",
        """_Unwind_Reason_Code step(struct _Unwind_Context *context, void *to) {
  long *found = to;
  found[++*found] = _Unwind_GetIP(context);
  return _URC_NO_REASON;
}
long level2(long *to) { return _Unwind_Backtrace(step, to) + 1; }
long level1(long *to) { return level2(to) + 1; }""",
    )
    for i in range(3):
        text = f"{frames}  // {i}"
        lab.place(text)
        lab.executor.tell_unwind(lab.linker.unwind.publish())
        outcome = lab.run(text, ret_size=88)
        count, *ips = struct.unpack("<11Q", outcome.result)
        assert count >= 3
        span = lab.cache[text][1]
        assert [ip in span for ip in ips[:3]] == [True] * 3
        lab.executor.respawn()


@pytest.mark.parametrize("closed", [(0,), (0, 1, 2)], ids=str)
def test_an_owner_without_standard_streams(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """Then its own descriptors have the numbers that the program's streams will have."""
    here = Path(__file__).parent
    text = f"""
import os, sys
for fd in {closed!r}:
    os.close(fd)
sys.path[:0] = {[str(here.parent), str(here.parent.parent)]!r}
from {here.name}.conftest import Lab
from {here.name}.programs import GETCHAR, program
lab = Lab()
lab.run(program('puts("hello");'))
assert lab.out == b"hello\\n" and lab.square(5) == 25
lab.lines = ["x"]
assert lab.run(GETCHAR, ret_size=1).result == b"x"
lab.close()
open({str(tmp_path / "done")!r}, "w").close()
"""
    subprocess.run([sys.executable, "-c", text], timeout=60, check=False)
    assert (tmp_path / "done").exists()
