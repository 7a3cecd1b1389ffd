"""A pass or an analysis in a process of its own.  Start from `transform` and `analysed`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from jitkernel.children import Child
from jitkernel.errors import CompileError, Interrupted

_OUTPUT = 1 << 16  # bytes of what a pass prints that are kept
_STEP = 0.05  # seconds between two looks at `stopped`


@dataclass(frozen=True, slots=True)
class Transformed:
    """The module's text as the pass got it and as it left it, what it printed, and the nanoseconds
    that it took (its process's start apart).

    `statements` are the pass's own that made or changed an instruction, by the line of `after` that
    it is in: `line 3, in fold: i.replace_with(c)`.
    """

    before: str
    after: str
    output: str
    nanoseconds: int
    statements: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Analysed:
    """The results of an analysis: rows, each with the same names, a text, and what it printed; the
    nanoseconds that it took; and `html` of what shows itself in notebooks."""

    rows: list[dict[str, Any]]
    text: str
    output: str
    nanoseconds: int
    html: str = ""


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
    order = {"name": name, "code": code, "module": module, "what": "pass"}
    found, output = _answer(order, timeout, stopped)
    statements = {int(line): words for line, words in found["statements"].items()}
    return Transformed(found["before"], found["after"], output, found["spent"], statements)


def analysed(
    code: str,
    name: str,
    module: str,
    timeout: float = 10.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Analysed:
    """Apply the Python function in `code` to a module's text, of which it gives, or yields, texts
    and rows (dicts).  Raises as `transform` does."""
    order = {"name": name, "code": code, "module": module, "what": "analysis"}
    found, output = _answer(order, timeout, stopped)
    return Analysed(found["rows"], found["text"], output, found["spent"], found["html"])


def _answer(
    order: dict[str, str], timeout: float, stopped: Callable[[], bool]
) -> tuple[dict[str, Any], str]:
    """The answer of the process, and what was printed there."""
    called = f"the {order['what']} {order['name']}"
    command = [sys.executable, str(Path(__file__).with_name("script.py"))]
    deadline = monotonic() + timeout
    with Child(command, {**os.environ, "PYTHONIOENCODING": "utf-8"}) as process:
        process.give(json.dumps(order).encode())
        while not process.wait(_STEP):
            if stopped():
                raise Interrupted(f"interrupted in {called}; the session is as it was")
            if monotonic() > deadline:
                raise CompileError(f"{called} took longer than {timeout:g} s and was stopped")
        status, answer = process.finish(), process.output()
        output = process.errors()[:_OUTPUT].decode("utf-8", "replace")
    if not answer:
        words = output.strip().rpartition("\n")[2]
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        raise CompileError(f"the process of {called} ended ({how}){words and ': '}{words}")
    found: dict[str, Any] = json.loads(answer)
    if "error" in found:
        raise CompileError(f"{called} failed: {found['error']}")
    return found, output
