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
from jitkernel.linker.unwind import Record, pad, split
from jitkernel.linker.x86_64 import TABLE

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
    targets = placing.targets
    records = split(obj.content(section))
    entries = _by_record(records, sorted(obj.relocations.get(section, ())))
    cies: dict[int, int] = {}
    kept: list[tuple[int, int, bytes]] = []  # place in `records`, offset in the extent, bytes
    size = 0
    for i, record in enumerate(records):
        mine = entries[i]
        if record.cie < 0:
            if not mine and (shared := unwind.shared_cie(record.content)):
                cies[record.offset] = shared
                continue
        elif not mine or _function(placing, targets, mine[0]) is None:
            continue  # of a function that is not loaded
        content = record.content if len(record.content) % 8 == 0 else pad(record.content)
        kept.append((i, size, content))
        size += len(content)
    if not size:
        return
    extent = unwind.reserve(size)
    if image.unwind is None:
        image.unwind = extent
    else:
        image.extra += (extent,)
    start, base, view = extent[1], placing.base, placing.view
    for i, offset, content in kept:
        record, address = records[i], start + offset
        at = address - base
        view[at : at + len(content)] = content
        if record.cie < 0:
            cies[record.offset] = address
        else:
            cie = cies.get(record.cie)
            if cie is None:
                raise LinkError(f".eh_frame+{record.offset:#x} names no CIE before it")
            _I32.pack_into(view, at + 4, address + 4 - cie)
        for position, entry in enumerate(entries[i]):
            within = entry[0] - record.offset
            row = TABLE.get(entry[1] & 0xFFFF_FFFF)
            if within < 8 or (row is not None and within + row.field > len(record.content)):
                raise LinkError(f".eh_frame+{entry[0]:#x}: a relocation of no field of its record")
            target = targets[entry[1] >> 32] if entry[1] >> 32 < len(targets) else None
            if record.cie >= 0 and position == 0:
                target = _function(placing, targets, entry)
            placing.site(target, at + within, section, entry)


def _function(
    placing: Placing, targets: list[Target | None], entry: tuple[int, int, int]
) -> int | None:
    """The address an FDE's first field refers to: code of this object, never a canonical entry."""
    number = entry[1] >> 32
    target = targets[number] if number < len(targets) else None
    if isinstance(target, Symbol):
        return target.address if target.image is placing.image else None
    return target


def _by_record(records: list[Record], entries: Entries) -> list[Entries]:
    """The relocations of each record."""
    found: list[Entries] = []
    position = 0
    for record in records:
        end = record.offset + len(record.content)
        first = position
        while position < len(entries) and entries[position][0] < end:
            position += 1
        found.append(entries[first:position])
    if position < len(entries):
        raise LinkError(f".eh_frame+{entries[position][0]:#x}: a relocation behind the last record")
    return found
