"""An object's unwind tables on their way into the arena.  Start from `add_frames`.

Records of `.eh_frame` are copied one by one: those of functions that are not loaded (another copy
of a COMDAT group is) are left out, and CIEs that every object brings are there once.

Code that is not position independent lists the types that a function catches as 32-bit addresses
(`.gcc_except_table`, its "TType" encoding `udata4`).  `_ZTIi` and its like are in libstdc++, out
of their reach.  The encoding knows an indirect form, in which entries are addresses of words that
hold the address: GOT slots serve as those.

Sources: Linux Standard Base, "Exception Frames" and "DWARF Exception Header Encoding"; Itanium C++
ABI, "Exception Handling Tables".
"""

from __future__ import annotations

import struct
from bisect import bisect_right

from jitkernel.elf.constants import RELA
from jitkernel.errors import LinkError
from jitkernel.linker.binding import Target
from jitkernel.linker.cfi import FORMATS, OMIT, RecordCursor
from jitkernel.linker.content import Content, Entry, ends_behind
from jitkernel.linker.layout import Layout
from jitkernel.linker.records import Symbol
from jitkernel.linker.resolution import Job, Resolution
from jitkernel.linker.unwind import UnwindRegion, pad, split
from jitkernel.linker.x86_64 import PC32, R_32, R_32S, SLOT32

_I32 = struct.Struct("<i")
_FDE = struct.Struct("<Iii")  # length, distance back to the CIE, distance to the function
_INDIRECT = 0x80
_PADDING = [bytes(n) for n in range(8)]  # DW_CFA_nop


#: The records that are taken, one behind the other, and by their offsets there: FDEs, each with its
#: CIE's address or offset; such FDEs as have one field, with that, what they tell of of the object,
#: and what their length says; what else refers to something.
_Records = tuple[
    bytearray, list[tuple[int, int]], list[tuple[int, int, int, int, Entry]],
    list[tuple["Target | None", int, Entry]],
]  # fmt: skip


def add_frames(
    job: Job, resolution: Resolution, unwind: UnwindRegion, section: int, content: Content
) -> None:
    """Add the records of `.eh_frame` section number `section`, in an extent of the unwind region.

    Raises LinkError, or ArenaFull.
    """
    found, backs, plain, fields = _taken(job, resolution, unwind, section)
    if not found:
        return
    extent = unwind.reserve(len(found))
    content.frames.append(extent)
    start = extent[1]
    content.bytes.append((start, found))
    for here, cie in backs:
        if cie < len(found):  # an offset: far below all addresses
            cie += start
        _I32.pack_into(found, here + 4, start + here + 4 - cie)
    size, fde = len(found), _FDE.pack_into
    for here, cie, length, begin, entry in plain:
        back = start + here + 4 - (cie if cie >= size else cie + start)
        try:
            fde(found, here, length, back, begin + entry[2] - start - here - 8)
        except struct.error:  # it is too far for the field
            fde(found, here, length, back, 0)
            fields.append((begin, here + 8, entry))
    start -= job.bind.base
    for target, offset, entry in fields:
        content.add_field(target, start + offset, found, offset, 0, section, entry)


def _taken(job: Job, resolution: Resolution, unwind: UnwindRegion, section: int) -> _Records:
    """The records of a section but for those of functions that are not loaded, and shared CIEs."""
    frames, targets = job.obj.content(section), resolution.targets
    entries = sorted(RELA.iter_unpack(job.obj.tables.get(section, b"")))
    cies: dict[int, int] = {}  # by offset in the object: its address, or its offset in `found`
    records: _Records = bytearray(), [], [], []
    found, backs, plain, fields = records
    first, count, padding = 0, len(entries), _PADDING
    for at, length, cie in split(frames):
        if cie in cies and first < count and entries[first][0] == at + 8:
            if first + 1 == count or entries[first + 1][0] >= at + length:
                entry = entries[first]
                if entry[1] & 0xFFFF_FFFF == PC32 and entry[1] >> 32 < len(targets):
                    begin = targets[entry[1] >> 32]
                    if begin.__class__ is int:
                        here, first, more = len(found), first + 1, -length & 7
                        found += frames[at : at + length]
                        found += padding[more]
                        plain.append((here, cies[cie], length - 4 + more, begin, entry))
                        continue
        last = first
        while last < len(entries) and entries[last][0] < at + length:
            last += 1
        mine = entries[first:last]
        first = last
        here = len(found)
        function: int | None = None
        if cie < 0:
            if not mine and (shared := unwind.shared_cie(frames[at : at + length])):
                cies[at] = shared
                continue
            cies[at] = here
        else:
            if not mine or (function := _function(resolution, mine[0])) is None:
                continue  # of a function that is not loaded
            if cie not in cies:
                raise LinkError(f".eh_frame+{at:#x} names no CIE before it")
            backs.append((here, cies[cie]))
        record = frames[at : at + length]
        found += pad(record) if length & 7 else record
        size = len(found) - here
        for entry in mine:
            within = entry[0] - at
            if within < 8 or (within + 8 > size and ends_behind(entry, within, size)):
                raise LinkError(f".eh_frame+{entry[0]:#x}: a relocation of no field of its record")
            if function is not None:
                fields.append((function, here + within, entry))
                function = None
            else:
                number = entry[1] >> 32
                target = targets[number] if number < len(targets) else None
                fields.append((target, here + within, entry))
    if first < len(entries):
        raise LinkError(f".eh_frame+{entries[first][0]:#x}: a relocation behind the last record")
    return records


def _function(resolution: Resolution, entry: Entry) -> int | None:
    """The address an FDE's first field refers to: code of this object, never a canonical entry."""
    number, targets = entry[1] >> 32, resolution.targets
    target = resolution.body(targets[number] if number < len(targets) else None)
    return None if isinstance(target, Symbol) else target


# -- types that are caught ---------------------------------------------------------------------


def indirect_types(
    job: Job,
    layout: Layout,
    resolution: Resolution,
    section: int,
    address: int,
    content: bytearray | None,
) -> bytes:
    """The relocations of a `.gcc_except_table` at `address`, far types reached through GOT slots.

    The encoding bytes of its tables are changed in `content`, which is what will be there.
    """
    table, targets = job.obj.tables[section], resolution.targets
    entries = [*RELA.iter_unpack(table)]
    far = [
        offset
        for offset, info, _ in entries
        if info & 0xFFFF_FFFF in (R_32, R_32S)
        and info >> 32 < len(targets)
        and resolution.is_far_data(targets[info >> 32])
    ]
    if not far:
        return table
    if content is None:  # it is there already
        content = bytearray(job.obj.content(section))
    starts = _tables(job, layout, targets, address, len(content))
    changed: list[tuple[int, int]] = []
    for offset in far:
        index = bisect_right(starts, offset) - 1
        if index < 0:
            continue
        found = _types(content, starts[index])
        if found is None or found in changed or not found[0] < offset < found[1]:
            continue
        if content[found[0]] & 0x7F in (0x03, 0x0B):  # udata4, sdata4
            changed.append(found)
            content[found[0]] |= _INDIRECT
    return b"".join(
        RELA.pack(offset, info & ~0xFFFF_FFFF | SLOT32, addend)
        if info & 0xFFFF_FFFF in (R_32, R_32S) and any(a < offset < b for a, b in changed)
        else RELA.pack(offset, info, addend)
        for offset, info, addend in entries
    )


def _tables(
    job: Job, layout: Layout, targets: list[Target | None], address: int, size: int
) -> list[int]:
    """The places of the functions' tables in the section: what the frame records point to."""
    found: set[int] = set()
    for index in layout.frames:
        for _, info, addend in job.obj.relocations.get(index, ()):
            target = targets[info >> 32] if info >> 32 < len(targets) else None
            if isinstance(target, int) and 0 <= target + addend - address < size:
                found.add(target + addend - address)
    return sorted(found)


def _types(content: bytearray, at: int) -> tuple[int, int] | None:
    """The offsets of a table's type encoding and of the end of its list of types."""
    cursor = RecordCursor(content, 0, at)
    try:
        if (start := cursor.byte()) != OMIT:
            cursor.at += FORMATS[start & 0x0F][0]
        encoding = cursor.at
        if cursor.byte() == OMIT:
            return None
        size = cursor.uleb()
        return encoding, cursor.at + size
    except (IndexError, KeyError):
        return None
