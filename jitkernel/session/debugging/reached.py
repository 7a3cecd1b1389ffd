"""The cells that a call may come to.  Start from `reached`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitkernel.session.program.cell import CellState

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session.core import Core

__all__ = ["reached"]

_MOST = 8  # cells
_SIZE = 1 << 15  # bytes of their code, all together


def reached(core: Core, function: int) -> set[int]:
    """The cells in memory whose functions a call may run: of what runs once, and of the `function`
    at an address (0: none), then what their code refers to, the nearest first: as many as are soon
    compiled another time.  Pointers to functions that are in data are not followed."""
    program = core.program
    images = [image for image, *_ in core.places.lines.running]
    owner = core.places.owner(function) if function else None
    cells = [owner[0]] if owner is not None else []
    found: set[int] = set()
    size = 0
    while images or cells:
        near = {*cells, *_called(images)} - found
        images, cells = [], []
        for number in sorted(near, reverse=True):
            cell = program.cells.get(number)
            image = cell.image if cell is not None and cell.state is CellState.LIVE else None
            if image is None or image.text is None:
                continue
            size += image.text.size
            if len(found) == _MOST or size > _SIZE:
                return found
            found.add(number)
            images.append(image)
    return found


def _called(images: Iterable[Image]) -> Iterable[int]:
    for image in images:
        for symbol in image.refs:
            if symbol.is_function and symbol.image is not None:
                yield symbol.image.cell
