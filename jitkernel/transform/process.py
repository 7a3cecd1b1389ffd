"""A pass in a process of its own.  Start from `transform`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from jitkernel.children import Child
from jitkernel.errors import CompileError, Interrupted

_OUTPUT = 1 << 16  # bytes of what a pass prints that are kept
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
    """Apply the Python function in `code` to a module's text.

    Raises CompileError with the pass's own lines where it fails or takes longer than `timeout`
    seconds, Interrupted once `stopped` says so.
    """
    order = json.dumps({"name": name, "code": code, "module": module}).encode()
    command = [sys.executable, str(Path(__file__).with_name("script.py"))]
    deadline = monotonic() + timeout
    with Child(command, {**os.environ, "PYTHONIOENCODING": "utf-8"}) as process:
        process.give(order)
        while not process.wait(_STEP):
            if stopped():
                raise Interrupted(f"interrupted in the pass {name}; the session is as it was")
            if monotonic() > deadline:
                raise CompileError(
                    f"the pass {name} took longer than {timeout:g} s and was stopped"
                )
        status, answer = process.finish(), process.output()
        output = process.errors()[:_OUTPUT].decode("utf-8", "replace")
    if not answer:
        words = output.strip().rpartition("\n")[2]
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        raise CompileError(f"the process of the pass {name} ended ({how}){words and ': '}{words}")
    found = json.loads(answer)
    if "error" in found:
        raise CompileError(f"the pass {name} failed: {found['error']}")
    return Transformed(found["before"], found["after"], output, found["spent"])
