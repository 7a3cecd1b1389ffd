"""Threads that are looked at end when they want to, and so do their processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from jitkernel.errors import UsageError
from jitkernel.executor import peek

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
            assert child.wait(timeout=20) == -9
        finally:
            child.kill()
