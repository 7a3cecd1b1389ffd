"""An object's call frame information on its way into the unwind region.  Start from `place_frames`.

Records are copied one by one: those of functions that are not loaded (another copy of a COMDAT
group is) are left out, and CIEs that every object brings are there once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from jitkernel.errors import LinkError
from jitkernel.linker.binding import Target
from jitkernel.linker.symbols import Symbol
from jitkernel.linker.unwind import pad, split
from jitkernel.linker.x86_64 import TABLE
from jitkernel.rollback import set_first

if TYPE_CHECKING:
    from jitkernel.linker.placing import Placing

__all__ = ["place_frames"]

_I32 = struct.Struct("<i")
Entries = list[tuple[int, int, int]]


def place_frames(placing: Placing, section: int) -> None:
    """Put the records of `.eh_frame` section number `section` into the unwind region.

    Raises LinkError, or ArenaFull.
    """
    obj, image, unwind = placing.obj, placing.image, placing.linker.unwind
    targets, frames = placing.targets, obj.content(section)
    entries = obj.relocations.get(section, [])
    if len(entries) > 1:
        entries = sorted(entries)
    cies: dict[int, int] = {}
    kept: list[tuple[int, int, bytes, Entries]] = []  # offset there, CIE, bytes, relocations
    size = first = 0
    for at, length, cie in split(frames):
        last = first
        while last < len(entries) and entries[last][0] < at + length:
            last += 1
        mine = entries[first:last]
        first = last
        if cie < 0:
            if not mine and (shared := unwind.shared_cie(frames[at : at + length])):
                cies[at] = shared
                continue
        elif not mine or _function(placing, targets, mine[0]) is None:
            continue  # of a function that is not loaded
        content = frames[at : at + length]
        if length & 7:
            content = pad(content)
        kept.append((at, cie, content, mine))
        size += len(content)
    if first < len(entries):
        raise LinkError(f".eh_frame+{entries[first][0]:#x}: a relocation behind the last record")
    if not size:
        return
    extent = unwind.reserve(size)
    if image.unwind is None:
        set_first(image, "unwind", extent)
    else:
        image.extra += (extent,)
    address, base, view = extent[1], placing.base, placing.view
    for at, cie, content, mine in kept:
        here, length = address - base, len(content)
        view[here : here + length] = content
        if cie < 0:
            cies[at] = address
        elif cie in cies:
            _I32.pack_into(view, here + 4, address + 4 - cies[cie])
        else:
            raise LinkError(f".eh_frame+{at:#x} names no CIE before it")
        for entry in mine:
            within = entry[0] - at
            if within < 8 or (within + 8 > length and _ends_behind(entry, within, length)):
                raise LinkError(f".eh_frame+{entry[0]:#x}: a relocation of no field of its record")
            if cie >= 0 and entry is mine[0]:
                target: Target | None = _function(placing, targets, entry)
            else:
                target = targets[entry[1] >> 32] if entry[1] >> 32 < len(targets) else None
            placing.site(target, here + within, section, entry)
        address += length


def _ends_behind(entry: tuple[int, int, int], within: int, length: int) -> bool:
    row = TABLE.get(entry[1] & 0xFFFF_FFFF)
    return row is not None and within + row.field > length


def _function(
    placing: Placing, targets: list[Target | None], entry: tuple[int, int, int]
) -> int | None:
    """The address an FDE's first field refers to: code of this object, never a canonical entry."""
    number = entry[1] >> 32
    target = targets[number] if number < len(targets) else None
    if isinstance(target, Symbol):
        return target.address if target.image is placing.image else None
    return target
