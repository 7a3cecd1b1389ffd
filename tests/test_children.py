"""Processes that are given a text, whatever else this process does meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from processes import gone

from jitkernel.children import Child, ask
from jitkernel.languages.c import clang
from jitkernel.languages.c.resident import Resident
from tests.busy import meanwhile, until

PYTHON = [sys.executable, "-I", "-S", "-c"]
COUNT = "import sys, time; time.sleep(0.3); print(len(sys.stdin.buffer.read()))"
NAP = "import time; time.sleep(1000)"


@pytest.mark.parametrize("size", [0, 1, 1000, 65536, 65537, 5_000_000])
def test_all_of_it_is_given_whenever_somebody_looks(size):
    with Child([*PYTHON, COUNT]) as child:
        child.give(b"x" * size)
        while not child.wait(0.01):
            pass
        assert (child.finish(), int(child.output())) == (0, size)


@pytest.mark.parametrize("size", [10, 5_000_000])
@pytest.mark.parametrize("program", ["", "import os; os.close(0); os.abort()"])
def test_a_child_that_reads_nothing(size, program):
    with Child([*PYTHON, program]) as child:
        child.wait(60)
        child.give(b"x" * size)
        assert child.wait(60) and child.output() == b""
        assert child.finish() == (-signal.SIGABRT if program else 0)


def test_what_it_says_is_kept_apart_and_whole():
    with Child([*PYTHON, "import sys; print('x' * 5_000_000); print('y', file=sys.stderr)"]) as it:
        it.give(b"")
        assert it.wait(60)
        assert len(it.output()) == 5_000_001 and it.errors() == b"y\n"


def test_a_compiler_is_given_its_text_however_late_it_reads():
    status, out, _ = clang._ask([sys.executable, "-c", COUNT], "x" * 300_000, 30.0, clang.nothing)
    assert (status, int(out)) == (0, 300_000)


def test_nobody_waits_for_copies_of_its_descriptors():
    """A fork, which has them all, is no reason to wait."""
    with Child([*PYTHON, COUNT]) as child:
        fork = os.fork()
        if not fork:
            time.sleep(1000)
            os._exit(0)
        try:
            child.give(b"x" * 300_000)
            assert child.wait(60) and int(child.output()) == 300_000
        finally:
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)


def test_forks_at_every_moment():
    """Each keeps copies of what is open just then."""
    forks = []

    def fork():
        pid = os.fork()
        if not pid:
            signal.pause()
        forks.append(pid)

    try:
        with meanwhile(fork, 0.002):
            for size in range(0, 300_000, 10_000):
                with Child([*PYTHON, "import sys; print(len(sys.stdin.read()))"]) as child:
                    child.give(b"x" * size)
                    assert child.wait(60) and int(child.output()) == size
    finally:
        for pid in forks:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert forks


#: A fork at each start of a process, which has all descriptors of then, and stays.
FORKING = """
import os, signal, sys
forks = []
def fork(event, arguments):
    if event in ("os.posix_spawn", "subprocess.Popen"):
        pid = os.fork()
        if not pid:
            signal.pause()
        forks.append(pid)
sys.addaudithook(fork)
try:
    {}
finally:
    for pid in forks:
        os.kill(pid, signal.SIGKILL)
assert forks
"""
ASKED = {
    "flags of clang": "from jitkernel.languages.c.clang import find_clang\n"
    "    from jitkernel.languages.c.flags import flags_of\n"
    "    assert flags_of(find_clang().program, '', '-fwrapv').more == ('-fwrapv',)",
    "a processor": "from dataclasses import replace\n"
    "    from jitkernel.languages.c.clang import _processor, find_clang\n"
    "    clang = replace(find_clang(), program=(find_clang().program[0], 'clang'))\n"
    "    assert _processor(clang, 'haswell +avx')[-1] == '+avx'",
    "another clang": "from jitkernel.languages.c.clang import find_clang\n"
    "    try:\n        find_clang('/bin/true')\n"
    "    except Exception as error:\n        assert 'is no clang' in str(error), error",
    "the manual": "import shutil\n    shutil.which = lambda name: '/bin/echo'\n"
    "    from jitkernel.languages.c.completion import _manual\n"
    "    assert _manual('puts').endswith('puts')",
    "a linker": "from jitkernel import Session\n"
    "    s = Session(spare=False)\n"
    "    s.run('define i32 @f() { ret i32 7 }')\n"
    "    s.export(['f'], 'lib.so')",
}


@pytest.mark.parametrize("asked", [pytest.param(text, id=name) for name, text in ASKED.items()])
def test_a_fork_of_the_users_keeps_no_answer_back(asked, tmp_path):
    begun = time.monotonic()
    command = [sys.executable, "-c", FORKING.replace("{}", asked)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begun < 15, "it waited until the fork's copies were closed"


def test_a_question_has_its_time():
    assert ask([*PYTHON, "print(input.__name__)"], 60) == (0, "input\n", "")
    assert ask([*PYTHON, "import sys; sys.exit(sys.stdin.read() or '3')"], 60).errors == "3\n"
    with pytest.raises(TimeoutError, match=r"it needs more than 0\.1 s and was ended"):
        ask([*PYTHON, NAP], 0.1)


def test_it_waits_for_text_no_longer_than_it_was_told():
    begun = time.monotonic()
    with Child([*PYTHON, "import sys; sys.stdin.buffer.raw.read(1) is None and print('none')"],
               patience=0.2) as child:  # fmt: skip
        assert child.wait(60) and child.output() == b"none\n"
    assert time.monotonic() - begun >= 0.2


def test_unread_text_is_known():
    with Child([*PYTHON, NAP]) as deaf, Child([*PYTHON, f"input();{NAP}"]) as other:
        for child in (deaf, other):
            child.give(b"x\n")
        until(lambda: not other.unread)
        assert deaf.unread and not other.unread


def test_its_end_and_that_of_what_it_has_started():
    program = "import os, time; print(os.fork(), flush=True); time.sleep(60)"
    with Child([*PYTHON, program]) as child:
        while b"0\n" not in child.output():
            time.sleep(0.01)
        grandchild = max(map(int, child.output().split()))
        assert child.finish() == -signal.SIGKILL
    assert gone(grandchild)


@pytest.mark.parametrize("how", ["waited for", "ignored"])
def test_somebody_else_has_waited_for_it(how):
    before = signal.getsignal(signal.SIGCHLD)
    try:
        if how == "ignored":
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with Child([*PYTHON, "print(1)"]) as child:
            child.give(b"")
            if how == "waited for":
                os.waitpid(child.pid, 0)
            assert child.wait(60) and child.finish() == 0 and child.output() == b"1\n"
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_fork_does_not_end_it():
    with Child([*PYTHON, COUNT]) as child:
        fork = os.fork()
        if not fork:
            child.close()
            os._exit(0)
        os.waitpid(fork, 0)
        assert not child.wait(0.05)
        child.give(b"abc")
        assert child.wait(60) and int(child.output()) == 3


def test_nothing_is_left_where_it_cannot_be_started():
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            Child(["/nowhere/at/all"])
    assert os.listdir("/proc/self/fd") == before


def test_without_standard_descriptors():
    """What is opened then has their numbers."""
    program = (
        "import os\nfor file in 0, 1, 2: os.close(file)\n"
        "from jitkernel.children import Child\nimport sys\n"
        "child = Child([sys.executable, '-c', 'print(input())'])\n"
        "child.give(b'hello'); child.wait(60)\n"
        "os._exit(child.output() != b'hello\\n' or child.finish())"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize("kind", ["child", "resident"])
def test_no_destructor_runs_of_one_that_is_closed(kind):
    """What a handler of a signal raises in one is lost: a Ctrl-C, say."""
    command = [*PYTHON, NAP]
    one = Child(command) if kind == "child" else Resident([*command, "-"], ())
    assert not one.ended()
    one.close()
    one.close()
    ran: list[str] = []
    sys.setprofile(lambda frame, event, argument: ran.append(frame.f_code.co_name))
    del one
    sys.setprofile(None)
    assert "__del__" not in ran and "close" not in ran
    left = Child(command) if kind == "child" else Resident([*command, "-"], ())
    pid = left.pid
    del left
    assert gone(pid)
