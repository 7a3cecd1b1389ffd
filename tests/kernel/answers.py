"""Answers to the course's exercises, from `tools/course/answers/*.md`: wrong ones, each with what its
check says, and right ones in other shapes than the solution's.

A fence is `wrong NAME: words of the message` or `right NAME`.  It holds a cell, or what differs from
the solution, `old => new`; a line that ends with a backslash goes on in the next.  Start from
`answers`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.kernel.conftest import ROOT

_FENCE = re.compile(r"^```(wrong|right) (\w+)(?:: ?([^\n]*))?\n(.*?)\n```$", re.M | re.S)

_SHOWN = re.compile(r"^(?:%\w+ @.*|@[\w.]+(?:\(.*\))?)\n?", re.M)  # what only looks at a solution


class Answer(NamedTuple):
    """A cell, and the words with which it is refused; empty where it is right."""

    exercise: str
    right: bool
    words: str
    cell: str


def answers(path: Path, solutions: dict[str, str]) -> Iterator[Answer]:
    """Those to a lesson's exercises."""
    for kind, name, words, body in _FENCE.findall(path.read_text(encoding="utf-8")):
        yield Answer(name, kind == "right", words, _cell(body, solutions[name]))


def _cell(body: str, solution: str) -> str:
    old, arrow, new = body.replace("\\\n", "\n").rstrip("\\").partition(" =>")
    if not arrow:
        return body
    assert old in solution, old
    return solution.replace(old, new[1:], 1)


def maker() -> Any:
    """The module `tools/make_course.py`."""
    tools = str(ROOT / "tools")
    if tools not in sys.path:
        sys.path.insert(0, tools)
    return importlib.import_module("make_course")


def parts(lesson: Any) -> tuple[list[str], dict[str, str]]:
    """The cells that must have run before a lesson's exercises, and the solutions of those."""
    setup = [p.body for p in lesson.parts if p.kind == "code" and "setup" in p.words]
    return setup, {p.name: _SHOWN.sub("", p.body) for p in lesson.parts if p.kind == "solution"}
