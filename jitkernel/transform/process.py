"""A pass in a process of its own.  Start from `transform`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from jitkernel.errors import CompileError, Interrupted

__all__ = ["Transformed", "transform"]

_OUTPUT = 1 << 16  # bytes of what a pass prints that are kept
_GRACE = 1.0  # seconds
_STEP = 0.05  # seconds between two looks at `stopped`


@dataclass(frozen=True, slots=True)
class Transformed:
    """The module's text as the pass got it and as it left it, what it printed, and the nanoseconds
    that it took (its process's start apart)."""

    before: str
    after: str
    output: str
    nanoseconds: int


def transform(
    code: str,
    name: str,
    module: str,
    timeout: float = 10.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Transformed:
    """What the Python function in `code` makes of a module's text.

    Raises CompileError with the pass's own lines where it fails or takes longer than `timeout`
    seconds, Interrupted once `stopped` says so.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(json.dumps({"name": name, "code": code, "module": module}).encode())
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("script.py")), str(writing)],
            stdin=given,
            stdout=printed,
            stderr=printed,
            pass_fds=(writing,),
            start_new_session=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        os.close(writing)
        status: int | None = None
        try:
            answer = _read(reading, name, timeout, stopped)
            with suppress(subprocess.TimeoutExpired):  # it has closed its end: it is ending
                status = process.wait(_GRACE)
        finally:
            os.close(reading)
            with suppress(ProcessLookupError):  # and what it started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        output = printed.read(_OUTPUT).decode("utf-8", "replace")
    if not answer:
        words = output.strip().rpartition("\n")[2]
        raise CompileError(
            f"the process of the pass {name} ended ({_how(status)}){words and ': '}{words}"
        )
    found = json.loads(answer)
    if "error" in found:
        raise CompileError(f"the pass {name} failed: {found['error']}")
    return Transformed(found["before"], found["after"], output, found["spent"])


def _how(status: int | None) -> str:
    if status is None or status >= 0:
        return f"exit status {status}"
    return signal.Signals(-status).name


def _read(reading: int, name: str, timeout: float, stopped: Callable[[], bool]) -> bytes:
    """All that comes, until the other end closes."""
    deadline = monotonic() + timeout
    parts: list[bytes] = []
    while True:
        if select.select([reading], [], [], _STEP)[0]:
            part = os.read(reading, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
        elif stopped():
            raise Interrupted(f"interrupted in the pass {name}; the session is as it was")
        elif monotonic() > deadline:
            raise CompileError(f"the pass {name} took longer than {timeout:g} s and was stopped")
