"""Threads that are looked at end when they want to, and so do their processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from jitkernel.errors import UsageError
from jitkernel.executor import peek
from jitkernel.procfs import threads_that_block

_THREADS = """
import sys, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("there", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("when", ["before it stops", "while it stands still"])
def test_a_process_that_is_killed_while_a_thread_is_looked_at_ends(which, when, monkeypatch):
    with subprocess.Popen([sys.executable, "-c", _THREADS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"there\n"
        threads = sorted(map(int, os.listdir(f"/proc/{child.pid}/task")))
        thread = threads[0] if which == "first" else threads[-1]
        try:
            if when == "before it stops":
                waitid = os.waitid

                def late(*arguments):
                    monkeypatch.undo()
                    os.kill(child.pid, signal.SIGKILL)
                    return waitid(*arguments)

                monkeypatch.setattr(os, "waitid", late)
                with contextlib.suppress(UsageError), peek._stopped(thread):
                    pass
            else:
                with peek._stopped(thread):
                    os.kill(child.pid, signal.SIGKILL)
            assert child.wait(timeout=60) == -9
        finally:
            child.kill()


#: A thread that blocks all, as while it is started, and then what a program can block.
_STARTED = """
import ctypes, sys, threading
def block(signals):
    word = ctypes.c_uint64(signals)
    ctypes.CDLL(None).syscall(14, 2, ctypes.byref(word), None, 8)  # rt_sigprocmask, SIG_SETMASK
def run():
    block(2**64 - 1)
    print("begun", flush=True)
    sys.stdin.readline()
    block(2**64 - 1 & ~(3 << 31))
    print("started", flush=True)
    sys.stdin.readline()
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def test_a_thread_that_waits_for_a_processor_is_started_before_its_signals_are_unblocked(
    monkeypatch,
):
    looks, sleep = 0, time.sleep

    def look(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            child.stdin.write(b"\n")
            child.stdin.flush()
        sleep(seconds)

    with subprocess.Popen(
        [sys.executable, "-c", _STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        monkeypatch.setattr(time, "sleep", look)
        monkeypatch.setattr(peek, "_STARTED", 60)
        peek.unblock_faults(child.pid, 0)
        monkeypatch.undo()
        assert looks >= 3 and child.stdout.readline() == b"started\n"
        assert not threads_that_block(child.pid, peek._FAULTS)
        child.stdin.write(b"\n")
