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
from time import monotonic, perf_counter_ns

from jitkernel.errors import CompileError, Interrupted

__all__ = ["Transformed", "transform"]

_OUTPUT = 1 << 16  # bytes of what a pass prints that are kept
_STEP = 0.05  # seconds between two looks at `stopped`


@dataclass(frozen=True, slots=True)
class Transformed:
    """The module's text as the pass got it and as it left it, what it printed, and nanoseconds
    (with the start of its process)."""

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
    began = perf_counter_ns()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(json.dumps({"name": name, "code": code, "module": module}).encode())
        given.seek(0)
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("script.py")), str(writing)],
            stdin=given,
            stdout=printed,
            stderr=printed,
            pass_fds=(writing,),
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        )
        os.close(writing)
        try:
            answer = _read(reading, name, timeout, stopped)
        finally:
            os.close(reading)
            with suppress(ProcessLookupError):  # and what it started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        output = printed.read(_OUTPUT).decode("utf-8", "replace")
    spent = perf_counter_ns() - began
    if not answer:
        words = output.strip().rpartition("\n")[2]
        raise CompileError(f"the process of the pass {name} ended: {words or process.returncode}")
    found = json.loads(answer)
    if "error" in found:
        raise CompileError(f"the pass {name} failed: {found['error']}")
    return Transformed(found["before"], found["after"], output, spent)


def _read(reading: int, name: str, timeout: float, stopped: Callable[[], bool]) -> bytes:
    """All that comes, until the other end closes."""
    deadline = monotonic() + timeout
    parts = []
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
