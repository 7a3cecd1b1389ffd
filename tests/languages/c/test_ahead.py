"""The clang that is started before its text is known: used where it fits, and never left behind."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path

import pytest
from processes import gone, runs

from jitkernel import Session
from jitkernel.languages.c import ahead

pytest.importorskip("ziglang")


@pytest.fixture
def taken(monkeypatch):
    """Whether each run of clang found a process that waited."""
    found = []
    take = ahead.take

    def noted(command):
        child = take(command)
        found.append(child is not None)
        return child

    monkeypatch.setattr(ahead, "take", noted)
    yield found
    ahead.end()


def waits():
    """The process that waits."""
    return ahead._waiting[0].child


def reads():
    """The process that waits, once it has been loaded and waits for its text."""
    child = waits()
    call = Path(f"/proc/{child.pid}/syscall")  # read is 0, and so is standard input
    deadline = time.monotonic() + 30
    while call.read_text().split()[:2] != ["0", "0x0"]:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return child


def test_the_next_cell_finds_a_process_that_waits(taken):
    with Session() as s:
        for number in range(4):
            s.run(f"int f{number}(int x) {{ return x + {number}; }}", "c")
            waits()
            assert s.call(f"f{number}", 1) == 1 + number
        assert taken == [False, True, True, True]


def test_mistakes_are_told_as_ever(taken):
    with Session() as s:
        s.run("int x = 1;", "c")
        waits()
        with pytest.raises(Exception, match="undeclared identifier 'nope'"):
            s.run("int y(void) { return nope; }", "c")
        waits()
        assert s.run("x + 1", "c").text == "(int) 2"
        assert any(taken)


def test_another_command_starts_another_process(taken, tmp_path, monkeypatch):
    text = "#ifdef A\nA\n#else\n0\n#endif"
    with Session() as s:
        s.run("int x;", "c")
        pid = waits().pid
        s.configure("clang_flags", "-D A=5")
        assert s.run(text, "c").text == "(int) 5"
        assert gone(pid)
        pid = waits().pid
        monkeypatch.setenv("CPATH", str(tmp_path))
        taken.clear()
        s.run("int y;", "c")
        assert True not in taken
        assert gone(pid)


def test_a_folder_of_headers_that_has_come_since_is_seen(taken, tmp_path):
    folder = tmp_path / "mine"
    with Session() as s:
        s.configure("clang_flags", f"-I {folder}")
        s.run("int x;", "c")
        pid = waits().pid
        folder.mkdir()
        (folder / "mine.h").write_text("enum { ANSWER = 42 };\n")
        assert s.run('#include "mine.h"\nANSWER', "c").text == "(int) 42"
        assert gone(pid)


def test_it_ends_where_nobody_asks(taken, monkeypatch):
    monkeypatch.setattr(ahead, "_IDLE", 0.2)
    with Session() as s:
        s.run("int x;", "c")
        assert gone(waits().pid)
        assert s.run("x", "c").text == "(int) 0"


def test_a_session_that_ends_leaves_none(taken):
    with Session() as s:
        s.run("int x;", "c")
        pid = waits().pid
        assert runs(pid)
    assert not runs(pid)


def test_one_that_was_killed_is_not_used(taken):
    with Session() as s:
        s.run("int x;", "c")
        child = waits()
        os.kill(child.pid, signal.SIGKILL)
        child.wait(60)
        assert s.run("x", "c").text == "(int) 0"
        assert True not in taken


def test_a_forked_child_leaves_it_to_its_parent(taken):
    with Session() as s:
        s.run("int x;", "c")
        waits()
        pid = os.fork()
        if not pid:
            os._exit(bool(ahead._waiting))
        assert os.waitpid(pid, 0)[1] == 0
        s.run("int y;", "c")
        assert taken[-1]


def test_a_folder_that_comes_after_it_was_started_is_looked_into(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Session(clang_flags="-Iinc") as s:
        s.run("int x = 1;", "c")
        s.run("int y = 1;", "c")
        waits()
        (tmp_path / "inc").mkdir()
        (tmp_path / "inc" / "foo.h").write_text("#define FOO 42\n")
        assert s.run('#include "foo.h"\nFOO', "c").value == 42


def test_one_that_does_not_answer_is_replaced_at_once(taken):
    with Session(timeout=30) as s:
        s.run("int x = 1;", "c")
        os.kill(waits().pid, signal.SIGSTOP)
        begun = time.monotonic()
        assert s.run("x + 1", "c").text == "(int) 2"
        assert taken[-1] and time.monotonic() - begun < 15


def test_one_that_ends_before_it_has_read_is_replaced(taken):
    with Session() as s:
        s.run("int x = 1;", "c")
        resource.prlimit(reads().pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        assert s.run("x + 1", "c").text == "(int) 2"
        assert taken[-1]


def nothing(number):
    return number + 1


def pools(count):
    """Cells of C while processes that were forked in between live on: the longest, in seconds."""
    longest = 0.0
    context = multiprocessing.get_context("fork")
    with Session(timeout=30) as s:
        s.run("int x = 1;", "c")
        for number in range(count):
            waits()
            with context.Pool(2) as pool:
                assert pool.map(nothing, [1, 2]) == [2, 3]
                begun = time.monotonic()
                s.run(f"int f{number}(int y) {{ return x + y + {number}; }}", "c")
                assert s.run(f"f{number}(1)", "c").value == number + 2
                longest = max(longest, time.monotonic() - begun)
    return longest


def test_forked_pools_between_cells():
    assert pools(3) < 5


@pytest.mark.soak
def test_many_forked_pools_between_cells():
    assert pools(100) < 5
