"""The main way: how many functions of Python's an operation passes that is done again and again.

Counts are no times: they are the same on every machine, and go up where a layer is added that each
cell passes, or something is done twice.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import count
from types import FrameType

import pytest

from jitkernel import Session
from tests.busy import within


def calls(step: Callable[[], object]) -> int:
    """How many frames of Python's a step begins, its own not counted."""
    found = -1

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return found


DEFINITION = "define i32 @s{0}(i32 %x) {{\n  %r = add i32 %x, {0}\n  ret i32 %r\n}}\n@s{0}(5)"


@pytest.mark.parametrize(
    ("operation", "most"),
    [("a call line", 200), ("define and call", 400), ("undo", 235), ("a call from Python", 52)],
)
def test_an_operation_passes_no_more_functions_than_it_needs(operation: str, most: int) -> None:
    number = count(1)
    with Session() as s:
        for _ in range(12):
            s.run(DEFINITION.format(next(number)))
        s.call("s2", 5)
        steps: dict[str, Callable[[], object]] = {
            "a call line": lambda: s.run("@s2(5)"),
            "define and call": lambda: s.run(DEFINITION.format(next(number))),
            "undo": s.undo,
            "a call from Python": lambda: s.call("s2", 5),
        }
        s.inspect.observers.log.due = math.inf  # memory is looked at as time goes by
        step = steps[operation]
        step()
        within(lambda: calls(step), most, 10)  # who waits long for an answer asks more often
