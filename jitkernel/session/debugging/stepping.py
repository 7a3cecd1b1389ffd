"""Where a step ends.  Start from `Step`.

A step is made by breakpoints of its own where the lines of its function begin, where the function
returns to, and, to step in, where the bodies of others begin: one trap a step, and whatever runs
between runs at full speed.  A frame is told from another one of the same function, which recursion
makes, by its `rbp`, where functions keep it there (`frame-pointer=all`), else by where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jitkernel.session.debugging.records import Motion

__all__ = ["Step", "Target"]


class Target(NamedTuple):
    """The place where a step may end: of a `line` in the frame that is stepped, of the `body` of a
    function that is called, or the `return` into a frame whose stack pointer is at least
    `stack`."""

    kind: str
    stack: int = 0


class Step:
    """A step in progress: what was asked, in which frame of which thread, the address where it
    began, and those where it may end."""

    def __init__(self, motion: Motion, frame: int, thread: int, start: int):
        self.motion, self.frame, self.thread, self.start = motion, frame, thread, start
        self.targets: dict[int, Target] = {}

    def lines(self, starts: list[tuple[int, int]], body: int, line: int) -> None:
        """It may end where another line begins, or where the loop comes back to its own first
        address: `starts` are (address, line) of the function's statements."""
        before = 0
        for address, of in starts:
            if of and address >= body and (of != line or address == body) and of != before:
                self.targets[address] = Target("line")
            before = of

    def places(self, addresses: list[int]) -> None:
        """It may end there, in its frame."""
        self.targets.update({address: Target("line") for address in addresses})

    def returns(self, address: int, stack: int) -> None:
        """It may end where the function returns to."""
        self.targets[address] = Target("return", stack)

    def calls(self, bodies: list[int]) -> None:
        """It may end where other functions begin."""
        for address in bodies:
            self.targets[address] = Target("body")

    def ends(self, pc: int, registers: Mapping[str, int], frame: Callable[[], int]) -> bool:
        """True if what has been met at `pc` is the end of the step; `frame` tells which frame that
        is in."""
        target = self.targets.get(pc)
        if target is None:
            return False
        if target.kind == "line":
            return frame() == self.frame
        if target.kind == "return":
            return registers["rsp"] >= target.stack
        return True
