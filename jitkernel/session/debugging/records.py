"""Records of the debugger: what it is told and what it tells.

The words are those of the Debug Adapter Protocol (microsoft.github.io/debug-adapter-protocol),
less its numbers for clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Reason: TypeAlias = Literal["breakpoint", "step", "pause", "exception", "goto", "data breakpoint"]
Motion: TypeAlias = Literal["continue", "next", "step_in", "step_out", "instruction"]


@dataclass(slots=True)
class Breakpoint:
    """A place to stop at: a `line` (from 1) of a cell's whole `source`, a `function`, or an
    `address`; or an expression to `watch`, of `size` bytes at `address`, which stops who does the
    `access`: "write", or "readWrite" (see `Debugger.watch`).

    `condition` is an expression of the cell's language (C, or an IR value with `==` and the like)
    that must hold; `hit_condition` is a count (`5`, `>= 5`, `% 5`); with `log` a message is shown,
    `{x}` replaced by values, and nothing stops.  `temporary` ones go when they are met.
    `verified` is true when there is code for it, else `message` says why not; `line` is then the
    line that has code.
    """

    source: str = ""
    line: int = 0
    function: str = ""
    address: int = 0
    watch: str = ""
    size: int = 0
    access: str = "write"
    condition: str = ""
    hit_condition: str = ""
    log: str = ""
    temporary: bool = False
    number: int = 0
    verified: bool = False
    message: str = ""
    hits: int = 0


class Stopped(NamedTuple):
    """The reason why, and the place where, the program stands: `breakpoints` are the numbers of
    those that were met, `text` says what happened at a fault, or to a variable that is watched (`g:
    5 -> 6`), `thread` is the id of the stopped thread."""

    reason: Reason
    thread: int
    text: str = ""
    breakpoints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the stack, the innermost first: `index` counts from 0.  `source` is the text of
    the whole cell ("" in a library), `line` counts from 1 in it (0: not known), `address` is where
    it goes on.  `inlined` where its body is part of the next frame's function; `optimised` where
    what is known of its variables is what the optimiser has left."""

    index: int
    name: str
    source: str
    line: int
    address: int
    cell: int = 0
    library: str = ""
    inlined: bool = False
    optimised: bool = False


class Scope(NamedTuple):
    """A part of what a frame has: "Locals", "Registers", "Globals"."""

    name: str
    reference: int
    expensive: bool = False


@dataclass(slots=True)
class Variable:
    """A value with a name.  `reference` (0: none) is what `variables` shows its parts by; of parts
    there are `named` members, or `indexed` elements.  `expression` names it for `evaluate`."""

    name: str
    value: str
    type: str
    reference: int = 0
    named: int = 0
    indexed: int = 0
    expression: str = ""
    address: int = 0


def register(name: str, value: int) -> Variable:
    """A register as a variable."""
    return Variable(name, f"{value:#x}", "i64", expression=f"${name}")


@dataclass(slots=True)
class Event:
    """Something that happened: `stopped` with what stands, `continued`, `output` with its text,
    `breakpoint` with one that has changed, `ended` when a call is over in which something stood."""

    kind: Literal["stopped", "continued", "output", "breakpoint", "ended"]
    stopped: Stopped | None = None
    text: str = ""
    breakpoint: Breakpoint | None = None
