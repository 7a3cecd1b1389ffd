"""The processes of a session: what they map, what they leave behind, what threads may do."""

from __future__ import annotations

import gc
import os
import random
import re
import threading
import time
from pathlib import Path

import pytest
from processes import gone
from programs import SQ, caller, constant, interrupting

from jitkernel import Session
from jitkernel.errors import Fault, Interrupted, JitError
from jitkernel.session.run.results import Collector
from tests.busy import meanwhile, until

pytestmark = pytest.mark.process


def maps(pid) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def pids(s: Session) -> list[int]:
    return [os.getpid(), s.inspect.engine.executor.pid, *(w["pid"] for w in s.memory()["workers"])]


def descendants(pid: int) -> set[int]:
    """Every process below one, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


#: How long its processes are to sleep: another run of these tests has others.
SECONDS = str(1_000_000 + os.getpid())


def sleepers(seconds: str) -> set[int]:
    """Processes that sleep so many seconds, whoever their parent is now."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                if (entry / "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                    found.add(int(entry.name))
        except OSError:
            continue
    return found


# -- what is mapped --------------------------------------------------------------------------------


def writable_and_executable(s: Session) -> list[str]:
    found = []
    for pid in pids(s):
        try:
            found += [
                f"{pid}: {line}" for line in maps(pid) if re.match(r"\S+ .w.?x|\S+ .wx", line)
            ]
        except OSError:
            continue
    return found


def test_no_page_is_ever_writable_and_executable(s):
    s.run("define void @spin() {\nentry:\n  br label %l\nl:\n  br label %l\n}\n@g = global i32 1")
    seen: list[str] = []
    others = set(writable_and_executable(s))  # LLJIT's, where a test before this one asked it
    assert all(line.startswith(f"{os.getpid()}: ") for line in others)
    looks = 0

    def look() -> None:
        nonlocal looks
        seen.extend(writable_and_executable(s))
        looks += 1

    with meanwhile(look):
        for n in range(1000):
            if n >= 15 and looks > 10:
                break
            s.run(constant("f", n) + "\n" + caller("u", "f") + "\n@u()")
            with pytest.raises(Fault):
                s.run("store volatile i32 1, ptr null")
            s.undo()
        with interrupting(s), pytest.raises(Interrupted):
            s.run("@spin()")
        s.respawn()
        s.evict(*s.cells)
    assert set(seen) <= others and looks > 10


def _views(s, pid):
    """The mappings of a session's slab: others' may come and go in this process."""
    inode = str(os.fstat(s.inspect.engine.arena.fd).st_ino)
    return [line for line in maps(pid) if line.split()[4] == inode]


def test_this_process_has_no_executable_view_of_the_slab(s):
    s.run(SQ + "\n@sq(3)")
    ours = _views(s, os.getpid())
    assert ours and all(" rw-s " in line for line in ours)
    theirs = [
        line.split()[1] for line in maps(s.inspect.engine.executor.pid) if "memfd:jitkernel" in line
    ]
    assert sorted(set(theirs)) == ["---s", "r--s", "r-xs", "rw-s"]


# -- threads ---------------------------------------------------------------------------------------


def test_a_session_made_by_a_short_lived_thread(fresh):
    made = []

    def make():
        s = fresh()
        s.run(SQ)
        made.append(s)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    time.sleep(0.2)
    s = made[0]
    assert s.call("sq", 3) == 9
    pid = s.inspect.engine.executor.pid
    time.sleep(0.2)
    assert s.call("sq", 4) == 16 and s.inspect.engine.executor.pid == pid, (
        "nothing was started again"
    )
    assert s.run(constant("f", 1) + "\n@f()").value == 1


def test_threads_wait_for_each_other(s):
    s.run(
        "@n = global i32 0\ndefine void @up() {\n  %v = load volatile i32, ptr @n\n  %w = add i32 %v, 1\n  store volatile i32 %w, ptr @n\n  ret void\n}"
    )
    errors = []

    def work(number):
        try:
            for k in range(10):
                s.call("up")
                s.run(constant(f"t{number}", k))
                assert s.call(f"t{number}") == k
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == [] and s["n"].value == 40
    s.check()


# -- what is left behind ---------------------------------------------------------------------------


def test_close_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    tempfile.tempdir = None
    try:
        gc.collect()
        before = descendants(os.getpid())
        fds = len(os.listdir("/proc/self/fd"))
        threads = threading.active_count()
        slabs = len([line for line in maps(os.getpid()) if "memfd:jitkernel" in line])
        for _ in range(3):
            with Session(capacity=64 << 20) as s:
                s.run(SQ + "\n@sq(3)")
                s.run(f'declare i32 @system(ptr)\n@system("sleep {SECONDS} &")')
                assert until(lambda: sleepers(SECONDS))  # the shell's child has yet to become it
                assert len(sleepers(SECONDS)) == 1
                with pytest.raises(Fault):
                    s.run("@strlen(null)")
                mine = descendants(os.getpid()) - before
                assert len(mine) >= 2
            assert all(gone(pid) for pid in mine), mine
            assert until(lambda: not sleepers(SECONDS))
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= fds + 1
        assert threading.active_count() <= threads
        assert [p for p in tmp_path.iterdir() if "jitkernel" in p.name] == []
        assert len([line for line in maps(os.getpid()) if "memfd:jitkernel" in line]) <= slabs
    finally:
        tempfile.tempdir = None


def test_a_session_that_cannot_start_leaves_nothing():
    before = descendants(os.getpid())
    with pytest.raises(JitError):
        Session(capacity=1 << 40)
    with pytest.raises(JitError):
        Session(capacity=64 << 20, store_path="/no/such/folder/x.jks")
    assert all(gone(pid) for pid in descendants(os.getpid()) - before)


def test_the_store_file_has_no_name(s):
    for number in range(40):  # more than SQLite keeps in memory
        noise = random.Random(number).randbytes(200_000).hex()
        s.run(f"; {noise}\n@g{number} = global i32 {number}")
    s.inspect.store.flush()
    held = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)
    ]
    stores = [path for path in held if "/etilqs_" in path]  # what SQLite calls its own
    assert stores and all(path.endswith("(deleted)") for path in stores)
    assert not [path for path in held if ".jks" in path]


def _is_link(fd: str) -> bool:
    try:
        os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False
    return True


def test_settings_of_the_executor(fresh, tmp_path):
    s = fresh(env={"JK_TEST": "hello"}, cwd=str(tmp_path))
    assert s.run('declare ptr @getenv(ptr)\n@puts(@getenv("JK_TEST"))').stdout == "hello\n"
    s.run('declare i32 @creat(ptr, i32)\n@creat("made.txt", 420)')
    assert (tmp_path / "made.txt").exists()
    s.setenv("JK_OTHER", "x")
    s.respawn()
    assert s.run('@puts(@getenv("JK_OTHER"))').stdout == "x\n"
    s.chdir("/")
    with pytest.raises(JitError, match=r"[Nn]o such"):
        s.chdir("/no/such/folder")
    with pytest.raises(JitError):
        s.run('@puts(@getenv("JK_NOTHING"))')


def test_an_interrupt_between_reading_a_cell_and_compiling_it(s):
    class Sink(Collector):
        """Its magic, the first thing in the cell, stands for a key that was pressed then."""

        def magic(self, action, run=None):
            s.interrupt()

    with pytest.raises(Interrupted, match="interrupted"):
        s.run("%pressed\n" + SQ, sink=Sink())
    assert "sq" not in s
    s.run(SQ)
    assert s.call("sq", 5) == 25
