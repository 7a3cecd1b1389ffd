"""Requests that cannot be met, and a process that ends where it is least expected."""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from jitkernel.errors import JitError, UsageError
from jitkernel.executor import peek, spawn

from . import programs as p
from .conftest import Lab
from .programs import program


def test_many_long_names(lab: Lab) -> None:
    """As a C++ object has them: far more bytes than one message."""
    pid = lab.executor.pid
    names = [f"_Z{'x' * 300}{i}" for i in range(3000)]
    found = lab.executor.services.lookup([*names, "puts", "y" * 1_000_000, "exit"])
    assert found[:3000] == [0] * 3000 and found[3001] == 0
    assert found[3000] and found[3002]
    assert lab.executor.pid == pid


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("A=B", "x", "no name of a variable"),
        ("", "x", "no name of a variable"),
        ("A", "x\0y", "NUL"),
        ("A\0B", "x", "NUL"),
        ("A", "x" * 300_000, "300000 bytes are too many"),
    ],
)
def test_variables_that_cannot_be_set(lab: Lab, name: str, value: str, words: str) -> None:
    pid = lab.executor.pid
    with pytest.raises(OSError, match=words):
        lab.executor.services.setenv(name, value)
    assert lab.square(3) == 9 and lab.executor.pid == pid


def test_paths_that_cannot_be(lab: Lab) -> None:
    pid = lab.executor.pid
    for ask in (lab.executor.services.chdir, lab.executor.services.library):
        for path in ("/tmp\0/x", "/" + "x" * 300_000):
            with pytest.raises(OSError, match=r"there is a NUL|bytes are too many"):
                ask(path)
    assert lab.square(3) == 9 and lab.executor.pid == pid


def test_the_number_of_a_process_that_ended_is_not_given_away(fresh: Lab) -> None:
    """Until its group has been ended by that number."""
    assert fresh.square(2) == 4
    pid = fresh.executor.pid
    os.kill(pid, signal.SIGKILL)
    while fresh.executor.alive:
        time.sleep(0.001)
    assert os.path.exists(f"/proc/{pid}"), "its parent has not waited for it"
    fresh.executor.respawn()
    assert not os.path.exists(f"/proc/{pid}") and fresh.square(2) == 4


def test_a_process_that_ends_before_it_is_spoken_to(
    fresh: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = marshal.dumps

    def late(setup: Any) -> bytes:
        time.sleep(0.3)
        return written(setup)

    with monkeypatch.context() as patch:
        patch.setattr(spawn, "_CHILD", "import os; os._exit(3)")
        patch.setattr(marshal, "dumps", late)
        assert fresh.executor.call(0, 0).kind in ("died", "exit")
    fresh.executor.respawn()
    assert fresh.square(2) == 4


@pytest.mark.parametrize("failing", [1, 2])
def test_a_start_without_descriptors_leaves_none(
    fresh: Lab, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    real, calls = os.pidfd_open, []

    def refuse(pid: int) -> int:
        calls.append(pid)
        if len(calls) == failing:
            raise OSError(24, "Too many open files")
        return real(pid)

    before = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)
        with pytest.raises(JitError, match="Too many open files"):
            fresh.executor.start()
    assert set(os.listdir("/proc/self/fd")) == before
    assert fresh.square(2) == 4


def test_whoever_looks_does_not_take_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it is held has been killed, not ended with 0."""
    real = ctypes.CDLL(None, use_errno=True)

    class Ptrace:
        """ptrace(2), with a murderer near."""

        restype: Any = None
        argtypes: Any = None

        def __call__(self, request: int, pid: int, *rest: Any) -> int:
            real.ptrace.restype, real.ptrace.argtypes = self.restype, self.argtypes
            if request == peek._INTERRUPT:
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.1)
            return real.ptrace(request, pid, *rest)

    class Library:
        ptrace = Ptrace()

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library())
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(UsageError):
            peek.peek(process.pid, 0, 0)
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def test_a_callback_cannot_replace_the_process_that_runs(fresh: Lab) -> None:
    """It is told so, and the call goes on."""
    told = []

    def replace(name: str, data: bytes) -> None:
        with pytest.raises(JitError, match="runs a call") as caught:
            fresh.executor.respawn()
        told.append(caught)

    fresh.run(p.KEEP)
    pid, fresh.executor.on_output = fresh.executor.pid, replace
    assert fresh.run(program('puts("here");\nusleep(100000);')).kind == "ok"
    fresh.executor.on_output = fresh.output
    assert len(told) == 1 and fresh.executor.pid == pid
    fresh.assert_sound()


def test_a_callback_that_closes_the_executor_ends_the_call() -> None:
    for seconds in (0.0, 0.1):
        lab = Lab()
        lab.executor.on_output = lambda name, data, lab=lab: lab.executor.close()
        go = program(f'puts("here");\nusleep({int(1e6 * seconds)});')
        with pytest.raises(JitError, match="closed while it ran a call"):
            lab.run(go)
        with pytest.raises(JitError, match="executor is closed"):
            lab.square(3)
        lab.close()
