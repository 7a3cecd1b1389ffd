"""What perf and gdb are told of code: read as they read it, and by themselves."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from jitkernel import Session
from jitkernel.elf import read_object
from jitkernel.errors import Fault
from tests.busy import until

SPIN = """\
volatile int go = 1, there;
static __attribute__((noinline)) long inner(long i) {
    long r = 0;
    for (there = 1; go; i++)
        r ^= i;
    return r;
}
long outer(long n) {
    return inner(n) + 1;
}
"""


class Loaded(NamedTuple):
    """A JIT_CODE_LOAD record, with the lines that came before it."""

    time: int
    process: int
    name: str
    start: int
    code: bytes
    lines: list[tuple[int, int, str]]


def dump(path: Path) -> Iterator[Loaded]:
    """The records of a jitdump, as its specification has them."""
    data = path.read_bytes()
    magic, version, at, machine, _, process, _, flags = struct.unpack_from("<6I2Q", data)
    assert (magic, version, machine, flags) == (0x4A695444, 1, 62, 0)
    lines: list[tuple[int, int, str]] = []
    indices = set()
    while at < len(data):
        kind, size, now = struct.unpack_from("<2IQ", data, at)
        body, at = data[at + 16 : at + size], at + size
        if kind == 2:
            (_, count), place = struct.unpack_from("<2Q", body), 16
            for _ in range(count):
                address, line, _ = struct.unpack_from("<Q2i", body, place)
                end = body.index(b"\0", place + 16)
                lines.append((address, line, body[place + 16 : end].decode()))
                place = end + 1
            assert place == len(body)
        elif kind == 0:
            pid, _, start, again, length, index = struct.unpack_from("<2I4Q", body)
            name, code = body[40:-length].rstrip(b"\0").decode(), body[-length:]
            assert pid == process and start == again and len(code) == length
            assert index not in indices
            indices.add(index)
            yield Loaded(now, pid, name, start, code, lines)
            lines = []
        else:
            assert kind == 4 and size % 8 == 0
    assert at == len(data)


def folder_of(session: Session, parent: Path) -> Path:
    return parent / str(session.inspect.executor[0])


def loads(session: Session, parent: Path) -> list[Loaded]:
    folder = folder_of(session, parent)
    return list(dump(folder / f"jit-{folder.name}.dump"))


def named(session: Session, parent: Path) -> dict[int, str]:
    """What gdb's file says of now."""
    data = bytearray((folder_of(session, parent) / "symbols").read_bytes())
    assert data[16] == 2  # ET_EXEC: addresses are what they say; the reader takes ET_REL
    data[16] = 1
    obj = read_object(bytes(data))
    return {obj.symbol(i).value: obj.symbol_name(i) for i in range(1, len(obj.symbols))}


def test_nothing_is_written_unless_asked(s: Session, tmp_path: Path) -> None:
    s.run("define i32 @f() {\n  ret i32 1\n}\n@f()")
    assert "symbol_files" not in s._core.__dict__


def test_what_is_told_of_functions(tmp_path: Path) -> None:
    parent = tmp_path / "new"
    with Session(symbol_folder=parent) as s:
        s.run(SPIN, language="c")
        s.run(
            "declare i32 @getppid()\ndefine i32 @ir() {\n  %r = call i32 @getppid()\n  ret i32 %r\n}"
        )
        assert s.call("ir") == os.getpid()
        found = {one.name: one for one in loads(s, parent)}
        assert {"inner", "outer", "ir", "getppid@plt", "jk_thunk", "jk_enter", "jk_handler"} <= {
            *found
        }
        for one in found.values():
            assert s.read(one.start, len(one.code)) == one.code
        file = str(folder_of(s, parent) / "cell-1.c")
        assert Path(file).read_text() == SPIN
        assert {path for _, _, path in found["inner"].lines} == {file}
        assert {line for _, line, _ in found["inner"].lines} <= {2, 3, 4, 5, 6}
        assert {5} <= {line for _, line, _ in found["inner"].lines}
        assert [a for a, _, _ in found["inner"].lines] == sorted(
            a for a, _, _ in found["inner"].lines
        )
        own = [p for p in parent.rglob("*") if p.is_file()]
        assert {stat.S_IMODE(p.stat().st_mode) for p in own} == {0o600}
        assert {stat.S_IMODE(p.stat().st_mode) for p in (parent, *parent.iterdir())} == {0o700}
        dumped = next(p for p in own if p.suffix == ".dump")
        maps = Path(f"/proc/{s.inspect.executor[0]}/maps").read_text()
        shown = next(line for line in maps.splitlines() if line.endswith(str(dumped)))
        assert " r-xp " in shown  # nobody writes it by that
    assert all(p.exists() for p in own)


def test_names_follow_what_comes_and_goes(tmp_path: Path) -> None:
    with Session(symbol_folder=tmp_path) as s:
        s.run("define i32 @f() {\n  ret i32 1\n}\n@f()")
        was = s.symbols["f"].address
        assert named(s, tmp_path)[was] == "f"
        s.run("define i32 @f() {\n  ret i32 2\n}\n@f()")
        now = s.symbols["f"].address
        assert {a for a, name in named(s, tmp_path).items() if name == "f"} == {now} != {was}
        s.evict("f", force=True)
        s.run("define i32 @h() {\n  ret i32 3\n}\n@h()")
        told = [one.name for one in loads(s, tmp_path) if one.start == s.symbols["h"].address]
        assert told[-1] == "h" and named(s, tmp_path)[s.symbols["h"].address] == "h"
        assert "f" not in named(s, tmp_path).values()
        s.undo()  # h
        s.undo()  # the eviction
        assert s.call("f") == 2
        assert named(s, tmp_path)[s.symbols["f"].address] == "f"
        last = [one for one in loads(s, tmp_path) if one.start == s.symbols["f"].address][-1]
        assert (last.name, last.code) == ("f", s.read(last.start, len(last.code)))
        assert "h" not in named(s, tmp_path).values()


def test_code_that_comes_back_while_a_call_runs(tmp_path: Path) -> None:
    with Session(symbol_folder=tmp_path, inlining=False) as s:
        s.run("define i32 @f() {\n  ret i32 1\n}")
        s.run("define i32 @g() {\n  %r = call i32 @f()\n  ret i32 %r\n}\n@g()")
        s.hibernate("f")
        s.run("define void @k() {\n  ret void\n}\n@k()")
        assert "f" not in named(s, tmp_path).values()
        assert s.call("g") == 1
        assert named(s, tmp_path)[s.symbols["f"].address] == "f"


def test_what_fails_leaves_no_name(tmp_path: Path) -> None:
    bad = "__attribute__((constructor)) static void bad(void) { *(volatile int *)8 = 1; }\nint b;"
    with Session(symbol_folder=tmp_path) as s:
        with pytest.raises(Fault):
            s.run(bad, language="c")
        assert "bad" in named(s, tmp_path).values()  # it ran
        s.run("define i32 @f() {\n  ret i32 1\n}\n@f()")
        assert "bad" not in named(s, tmp_path).values()


def test_a_process_that_takes_over_has_files_of_its_own(tmp_path: Path) -> None:
    with Session(symbol_folder=tmp_path) as s:
        s.run("define i32 @f() {\n  ret i32 1\n}\n@f()")
        before = folder_of(s, tmp_path)
        os.kill(s.inspect.executor[0], signal.SIGKILL)
        assert s.call("f") == 1
        assert folder_of(s, tmp_path) != before
        assert "f" in named(s, tmp_path).values()
        assert "f" in {one.name for one in loads(s, tmp_path)}


def test_switched_on_later_and_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Session() as s:
        s.run("define i32 @f() {\n  ret i32 1\n}\n@f()")
        s.configure("symbol_folder", str(tmp_path / "file" / "below"))
        said = s.run("@f()")
        assert "nothing more is written for perf and gdb" in "".join(s._core.engine.notices) or said
        assert s.settings.symbol_folder == ""
        s.configure("symbol_folder", str(tmp_path))
        s.run("@f()")
        assert "f" in named(s, tmp_path).values()


def test_inline_sessions_of_one_process(tmp_path: Path) -> None:
    ir = "define i32 @f() {\n  ret i32 1\n}\n@f()"
    with Session(executor="inline", symbol_folder=tmp_path) as one:
        one.run(ir)
        with Session(executor="inline", symbol_folder=tmp_path) as two:
            two.run(ir)
            names = {p.name for p in tmp_path.iterdir()}
            assert names == {f"{os.getpid()}", f"{os.getpid()}-2"}


def output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"{words[0]} may not: {done.stderr.strip()[-200:]}")
    return done.stdout


def gdb(session: Session, parent: Path, *commands: str) -> str:
    if shutil.which("gdb") is None:
        pytest.skip("there is no gdb")
    process, file = str(session.inspect.executor[0]), str(folder_of(session, parent) / "gdb")
    each = [word for command in commands for word in ("-ex", command)]
    said = output(
        "gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no", "-p", process, "-x", file, *each
    )
    if "add symbol table from file" not in said:
        pytest.skip(f"gdb may not: {said[-200:]}")
    return said


def running(session: Session) -> threading.Thread:
    """A thread in which `outer` runs, in `inner`'s loop."""
    there = session.symbols["there"].address
    thread = threading.Thread(target=lambda: session.call("outer", 3))
    thread.start()
    assert until(lambda: any(session.inspect.engine.arena.read(there, 4)))
    return thread


def test_gdb_has_names_lines_and_callers(tmp_path: Path) -> None:
    with Session(symbol_folder=tmp_path) as s:
        s.run(SPIN, language="c")
        thread = running(s)
        try:
            said = gdb(s, tmp_path, "bt 4", "list outer")
        finally:
            s["go"].value = 0
            thread.join(30)
        frames = [line for line in said.splitlines() if line.startswith("#")]
        assert " inner () at " in frames[0] and frames[0].endswith(("cell-1.c:4", "cell-1.c:5"))
        assert " outer () at " in frames[1] and frames[1].endswith("cell-1.c:9")
        assert " in jk_thunk ()" in frames[2] and " in jk_enter ()" in frames[3]


def test_perf_names_what_was_there_then(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("there is no perf")
    samples, own = str(tmp_path / "samples"), str(tmp_path / "named")
    with Session(symbol_folder=tmp_path) as s:
        s.run("define void @start() {\n  ret void\n}\n@start()")
        process = str(s.inspect.executor[0])
        told, control = os.pipe()
        said, answer = os.pipe()
        words = ["perf", "record", "-q", "-k", "1", "-e", "cpu-clock", "-F", "999", "-p", process]
        words += ["-D", "-1", "--control", f"fd:{told},{answer}", "-o", samples]
        perf = subprocess.Popen(words, stderr=subprocess.PIPE, pass_fds=(told, answer))
        for end in (told, answer):
            os.close(end)
        with suppress(BrokenPipeError):
            os.write(control, b"enable\n")
        if b"ack" not in os.read(said, 16):
            pytest.skip(f"perf may not: {perf.communicate()[1]!r}")
        try:
            for name in ("first", "second"):  # one after the other, at one place
                s.run(
                    f"long {name}(long n) {{\n long r = 0;\n for (long i = 0; i < n; i++)\n"
                    f'  {{ r ^= i; asm volatile(""); }}\n return r; }}\n{name}(100000000);',
                    language="c",
                )
                s.evict(name)
        finally:
            perf.send_signal(signal.SIGINT)
            perf.communicate(timeout=60)
            os.close(control), os.close(said)
        output("perf", "inject", "--jit", "-i", samples, "-o", own)
        report = output("perf", "report", "--stdio", "-q", "--sort", "symbol,srcline", "-i", own)
        assert " first " in report and " second " in report
        assert "cell-2.c:" in report and "cell-3.c:" in report
        # What perf made of the records of frames, as readelf has it.
        if shutil.which("readelf"):
            made = next(
                p for p in folder_of(s, tmp_path).glob("jitted-*.so") if b"first" in p.read_bytes()
            )
            frames = output("readelf", "-wF", str(made))
            assert "pc=0000000000000080.." in frames and "rsp+8" in frames
