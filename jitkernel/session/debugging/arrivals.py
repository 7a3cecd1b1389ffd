"""Where control may come back to frames further out without a return: exceptions, and `longjmp`.
Start from `arrivals`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jitkernel.linker import Image
from jitkernel.linker.cfi import landing_pads
from jitkernel.linker.records import sites
from jitkernel.session.debugging.frames import LiveFrame

if TYPE_CHECKING:
    from jitkernel.session.core import Core

#: What returns once more: the C library's, as its headers call them.
_RETURN_TWICE = frozenset(("setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp"))
_FIELD = 4  # bytes of a call's displacement


def arrivals(core: Core, frames: Iterable[LiveFrame]) -> dict[int, str]:
    """The landing pads of the functions of these frames ("pad"), and the places behind their calls
    of `setjmp` ("return"), by address."""
    linker = core.program.linker
    found: dict[int, str] = {}
    seen: set[int] = set()
    for frame in frames:
        fde = 0 if frame.frame.library else linker.unwind.find(frame.at)
        if not fde or fde in seen:
            continue
        seen.add(fde)
        found |= dict.fromkeys(landing_pads(linker.arena.read, fde), "pad")
        if (image := _image(core, frame)) is not None:
            behind = [at for at in _returns(core, image) if linker.unwind.find(at) == fde]
            found |= dict.fromkeys(behind, "return")
    return found


def _image(core: Core, frame: LiveFrame) -> Image | None:
    if frame.place is not None:
        return frame.place.part.image
    owner = core.places.owner(frame.at)
    cell = core.program.cells.get(owner[0]) if owner is not None else None
    return cell.image if cell is not None else None


def _returns(core: Core, image: Image) -> Iterator[int]:
    """The places behind an image's calls of what returns twice."""
    base = core.engine.arena.base
    for symbol in image.refs:
        if symbol.name in _RETURN_TWICE and symbol.users is not None:
            yield from (base + s.offset + _FIELD for s in sites(symbol.users.get(image, b"")))
