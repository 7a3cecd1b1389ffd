"""Where a step ends.  Start from `Step`.

A step is made by breakpoints of its own where the lines of its function begin, where the function
returns to, and, to step in, where the bodies of others begin: one trap a step, and whatever runs
between runs at full speed.  A frame is told from another one of the same function, which recursion
makes, by its `rbp`, where functions keep it there (`frame-pointer=all`), else by where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jitkernel.elf.dwarf import Function
from jitkernel.session.debugging.records import Motion

__all__ = ["Around", "Step", "Target"]


class Target(NamedTuple):
    """The place where a step may end: of a `line` in the frame that is stepped, of the `body` of a
    function that is called, or the `return` into a frame whose stack pointer is at least
    `stack`, or the `pad` there where an exception lands.  A line where control may arrive in such
    a frame has a `stack`, too."""

    kind: str
    stack: int = 0


class Around(NamedTuple):
    """The surroundings of the frame of a `function` that ends at `stop`, in a `thread`: they are
    the same as long as `saved`, what the frame goes back to, is.  `returns` is where the next frame
    goes on that somebody has written, and the end of the one within; `arrivals` see
    `Step.arrivals`; `cell` is the outermost frame's."""

    function: Function | None
    stop: int
    thread: int
    saved: bytes
    returns: tuple[int, int] | None
    arrivals: Mapping[int, str]
    cell: int


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

    def arrivals(self, addresses: Mapping[int, str], stack: int) -> None:
        """It may end where control arrives in frames further out without a return: the kinds of
        targets, by address."""
        for address, kind in addresses.items():
            known = self.targets.get(address, Target(kind))
            self.targets[address] = known._replace(stack=stack)

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
            return frame() == self.frame or 0 < target.stack <= registers["rsp"]
        if target.kind in ("return", "pad"):
            return registers["rsp"] >= target.stack
        return True
