"""What a debugger's prompt shows of a program, as lines of text.  Start from `place`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.session.debugging.records import (
        Breakpoint,
        Frame,
        Motion,
        Scope,
        Stopped,
        Variable,
    )

__all__ = ["Seen", "back_trace", "disassembly", "listing", "local_values", "place", "value"]

_ADDRESS = regex(r"(?<![\w+-])0x[0-9a-f]{4,}\b")
_MOST_FRAMES = 64
#: Where a frame's variables are not known.
NOT_KNOWN = (
    "nothing is known of this frame's variables: it was not compiled to be debugged, as it is "
    "where a breakpoint is in it when the cell begins"
)
#: Where LLVM's values are not.
_NO_VALUES = (
    "of optimised LLVM IR lines and registers are known, and no values: `%debug -O0` has them from "
    "the next call on"
)
_AROUND = 12  # instructions where a function's end is not known
_REASONS = {"pause": "paused", "goto": "", "step": "", "data breakpoint": "watchpoint"}


class Seen(Protocol):
    """Something that can be looked at, and told to go on: a program that stands, or what one has
    left."""

    @property
    def stop(self) -> Stopped | None: ...
    @property
    def breakpoints(self) -> list[Breakpoint]: ...
    def add(self, wanted: Breakpoint) -> Breakpoint: ...
    def remove(self, number: int) -> None: ...
    def go(self, motion: Motion = "continue") -> None: ...
    def end(self) -> None: ...
    def frames(self) -> list[Frame]: ...
    def scopes(self, frame: int = 0) -> list[Scope]: ...
    def variables(self, reference: int, start: int = 0, count: int = 0) -> list[Variable]: ...
    def evaluate(self, text: str, frame: int = 0, *, calls: bool = False) -> Variable: ...
    def globals(self) -> list[Variable]: ...
    def registers(self, frame: int = 0) -> dict[str, int]: ...
    def threads(self) -> list[tuple[int, str]]: ...
    @property
    def thread(self) -> int: ...
    def choose(self, thread: int) -> None: ...
    def disassemble(self, address: int, count: int) -> list[tuple[int, str]]: ...
    def read(self, address: int, size: int) -> bytes: ...
    def name_of(self, address: int) -> str: ...
    def address_of(self, name: str) -> int: ...
    def function(self, frame: int = 0) -> tuple[str, int, int] | None: ...
    def cell_of(self, source: str) -> int: ...
    def source_of(self, cell: int = 0) -> str: ...


def place(stop: Stopped, frame: Frame) -> str:
    """The reason why it stands, and where: `breakpoint 1: sq, cell 1, line 2`."""
    why = _REASONS.get(stop.reason, stop.text)
    if stop.breakpoints:
        kind = "watchpoint" if stop.reason == "data breakpoint" else "breakpoint"
        why = f"{kind} {', '.join(map(str, stop.breakpoints))}"
    if stop.reason == "data breakpoint" and stop.text:
        why = f"{why}, {stop.text}"
    return f"{why}: {where(frame)}" if why else where(frame)


def where(frame: Frame) -> str:
    """A frame's place: `sq, cell 1, line 2`."""
    parts = [frame.name]
    if frame.cell and frame.name != f"cell {frame.cell}" and f"cell {frame.cell}" not in frame.name:
        parts.append(f"cell {frame.cell}")
    if frame.line:
        parts.append(f"line {frame.line}")
    return ", ".join(parts) + " (optimised)" * frame.optimised


def text_of(frame: Frame) -> str:
    """The line of the source that a frame is at; "" where there is none."""
    lines = frame.source.split("\n")
    return lines[frame.line - 1] if 0 < frame.line <= len(lines) else ""


def back_trace(frames: Sequence[Frame], chosen: int) -> Iterator[str]:
    """The frames, innermost first, the chosen one marked."""
    for frame in frames[:_MOST_FRAMES]:
        mark = "=>" if frame.index == chosen else "  "
        text = text_of(frame).strip()
        yield f"{mark} #{frame.index:<2} {where(frame)}{f':  {text}' if text else ''}"
    if len(frames) > _MOST_FRAMES:
        yield f"   and {len(frames) - _MOST_FRAMES} more"


def threads(seen: Seen) -> Iterator[str]:
    """The threads that stand, each by its number, with its place; the one that is looked at is
    marked."""
    known, chosen = sorted(seen.threads()), seen.thread
    for number, (thread, name) in enumerate(known, 1):
        seen.choose(thread)
        frames = seen.frames()
        place = next((where(f) for f in frames if f.source), where(frames[0]) if frames else "")
        yield f"{'=>' if thread == chosen else '  '} {number}  {name}, id {thread}: {place}"
    if known:
        seen.choose(chosen)


def listing(frame: Frame, first: int, last: int, points: Sequence[Breakpoint]) -> Iterator[str]:
    """Lines of a frame's source: `=>` marks the one that it is at, `*` those with breakpoints."""
    lines = frame.source.rstrip("\n").split("\n")
    marked = {point.line for point in points if point.source and point.source == frame.source}
    for number in range(max(first, 1), min(last, len(lines)) + 1):
        here = "=>" if number == frame.line else "  "
        star = "*" if number in marked else " "
        yield f"{here}{star}{number:>4}  {lines[number - 1]}".rstrip()


def value(variable: Variable, bare: bool = False) -> str:
    """A value with its type, as cells show it: `i32 49`, `(int) 49`."""
    if variable.name.startswith("$"):
        number = int(variable.value, 0)
        return f"{number:#x}" if bare else f"{number:#x} ({number})"
    if variable.value.startswith("<") or variable.type in ("", "void"):
        return variable.value
    if variable.name.lstrip("*&(").startswith(("%", "@")):
        return f"{variable.type} {variable.value}"
    return variable.value if bare else f"({variable.type}) {variable.value}"


def local_values(seen: Seen, frame: int) -> Iterator[str]:
    """The variables of a frame: `x = 3`, `%x = i32 3`."""
    locals = next((s for s in seen.scopes(frame) if s.name == "Locals"), None)
    found = seen.variables(locals.reference) if locals is not None else []
    for variable in found:
        yield f"{variable.name} = {value(variable, bare=True)}"
    if locals is None:
        yield NOT_KNOWN
    elif not found:
        here = seen.frames()[frame]
        yield _NO_VALUES if here.optimised and here.name[:1] == "@" else "it has no variables"


def disassembly(seen: Seen, frame: Frame, address: int | None = None) -> Iterator[str]:
    """The instructions of a frame's function, or those from an address on; `=>` marks the one that
    comes next."""
    found = seen.function(frame.index) if address is None else None
    if found is not None:
        name, low, high = found
        instructions = [i for i in seen.disassemble(low, high - low) if i[0] < high]
        yield f"{name}, {high - low} bytes at {low:#x}"
    else:
        low = frame.address if address is None else address
        instructions = seen.disassemble(low, _AROUND)
    for at, text in instructions:
        mark = "=>" if at == frame.address else "  "
        names = [name for word in _ADDRESS.findall(text) if (name := seen.name_of(int(word, 16)))]
        line = f"{mark} {at:#x} {f'<+{at - low}>':<6} {text}"
        yield f"{line:<60} ; {names[0]}" if names else line
