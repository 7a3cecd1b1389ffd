"""The frames of a program that stands, with the registers that each has.  Start from `stack`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.elf.registers import KEPT
from jitkernel.languages.llvm.plan import ENTRY
from jitkernel.linker.backtrace import MAX_FRAMES, StackFrame, walk
from jitkernel.session.debugging.code import Code, Place

if TYPE_CHECKING:
    from jitkernel.linker import Linker
    from jitkernel.session.core import Core

Read = Callable[[int, int], bytes]
_STACK_READ = 1 << 20  # bytes of the stack that are looked at
_PIECE = 1 << 12  # and are read at once


class LiveFrame(NamedTuple):
    """A frame: where its code stands or goes on, its registers as far as they are known, and its
    place in code that can be debugged."""

    pc: int
    registers: Mapping[str, int]
    frame: StackFrame
    place: Place | None
    exact: bool  # `pc` is where it stands, else where it goes on

    @property
    def at(self) -> int:
        """An address in the instruction that it is at."""
        return self.pc if self.exact else self.pc - 1


def stack(
    registers: Mapping[str, int], top: int, read: Read, linker: Linker, code: Code,
    most: int = MAX_FRAMES,
) -> list[LiveFrame]:  # fmt: skip
    """The frames of a thread, the innermost first, and not more than `most`; `top` is where its
    stack begins."""
    low = registers["rsp"]
    high = low + (min(top - low, _STACK_READ) if top > low else _STACK_READ)
    pieces: dict[int, bytes] = {}

    def words(address: int, size: int) -> bytes | None:
        if not low <= address <= high - size:
            return None
        at = address % _PIECE
        if at + size > _PIECE:
            data = read(address, size)
            return data if len(data) == size else None
        if (piece := pieces.get(address - at)) is None:
            piece = pieces[address - at] = read(address - at, _PIECE)
        return piece[at : at + size] if at + size <= len(piece) else None

    found: list[LiveFrame] = []
    now = dict(registers)
    for frame in walk(registers, words, linker, most):
        exact = not found
        now["rip"] = frame.pc
        found_places = code.places(frame.pc if exact else frame.pc - 1)
        places: list[Place | None] = [*found_places] or [None]
        known = dict(now)
        found += [LiveFrame(frame.pc, known, frame, place, exact) for place in places]
        # What a call may change is not known in its caller.
        now = {name: now[name] for name in KEPT if name in now} if frame.certain else {}
        now["rsp"] = frame.stop
        for name, at in frame.saved.items():
            if (word := words(at, 8)) is not None:
                now[name] = int.from_bytes(word, "little")
    return found


def frame_of(registers: Mapping[str, int], read: Read, linker: Linker) -> int:
    """A number that tells the innermost frame from others of the same function: where it ends (its
    canonical frame address); 0 where that is not known."""

    def words(address: int, size: int) -> bytes | None:
        data = read(address, size)
        return data if len(data) == size else None

    frames = walk(registers, words, linker, 1)
    return frames[0].stop if frames and frames[0].certain else 0


def name_of(core: Core, live: LiveFrame) -> str:
    """The name of the function that a frame is of."""
    if live.place is not None:
        name = live.place.name
        cell = live.place.part.image.cell
        if name.lstrip("@").startswith(("__jk", ENTRY)):
            return f"cell {cell}"
        return core.program.called(name, cell)
    owner = core.places.owner(live.at)
    if owner is not None and owner[1] is not None:
        return core.program.called(owner[1].name, owner[0])
    return core.places.name(live.pc, not live.exact) or f"{live.pc:#x}"
