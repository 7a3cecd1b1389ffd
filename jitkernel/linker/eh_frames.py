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
from jitkernel.elf.relocations import Relocations
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
_LEADS = struct.Struct("<ii")  # of a FDE: distance back to the CIE, distance to the function
_INDIRECT = 0x80
_FEW = 8  # records that are copied one by one: what is asked of all of them takes as long

#: The records that are taken, one behind the other, and by their offsets there: FDEs, each with its
#: CIE's address or offset; and what refers to something.
_Records = tuple[bytearray, list[tuple[int, int]], list[tuple["Target | None", int, Entry]]]


def add_frames(
    job: Job, resolution: Resolution, unwind: UnwindRegion, section: int, content: Content
) -> None:
    """Add the records of `.eh_frame` section number `section`, in an extent of the unwind region.

    Raises LinkError, or ArenaFull.
    """
    table = job.obj.tables.get(section)
    if (
        table is not None
        and table.count > _FEW
        and _add_plain(job, resolution, unwind, section, content)
    ):
        return
    found, backs, fields = _taken(job, resolution, unwind, section)
    if not found:
        return
    start = _place(found, unwind, content)
    for here, cie in backs:
        if cie < len(found):  # an offset: far below all addresses
            cie += start
        _I32.pack_into(found, here + 4, start + here + 4 - cie)
    start -= job.bind.base
    for target, offset, entry in fields:
        content.add_field(target, start + offset, found, offset, 0, section, entry)


def _place(found: bytearray, unwind: UnwindRegion, content: Content) -> int:
    """The address at which records will be."""
    extent = unwind.reserve(len(found))
    content.frames.append(extent)
    content.bytes.append((extent[1], found))
    return extent[1]


def _add_plain(
    job: Job, resolution: Resolution, unwind: UnwindRegion, section: int, content: Content
) -> bool:
    """The same for a CIE, and FDEs that tell of nothing but a function of the object's own each: as
    compilers of C write them.  False, and nothing done, where there is anything else."""
    frames, table = job.obj.content(section), job.obj.tables.get(section)
    records = split(frames)
    if not table or len(records) != 1 + len(table):
        return False
    (cie, first, none), *fdes = records
    offsets, types, symbols, addends = table.columns
    if offsets != [at + 8 for at, _, _ in fdes] or {*types} != {PC32}:
        return False
    if none != -1 or any(of != cie for _, _, of in fdes):
        return False
    targets, arena = resolution.targets, job.bind.arena
    own = [targets[n] if n < len(targets) else None for n in symbols]
    begins = [at + more for at, more in zip(own, addends, strict=True) if isinstance(at, int)]
    if len(begins) < len(own) or min(begins) not in arena or max(begins) not in arena:
        return False
    if not (shared := unwind.shared_cie(frames[:first])):
        return False
    last, size, _ = fdes[-1]
    found = pad(bytearray(frames[first : last + size]), last - first)
    start, pack = _place(found, unwind, content), _LEADS.pack_into
    for (at, _, _), begin in zip(fdes, begins, strict=True):
        here = at - first + 4
        place = start + here
        pack(found, here, place - shared, begin - place - 4)
    return True


def _taken(job: Job, resolution: Resolution, unwind: UnwindRegion, section: int) -> _Records:
    """The records of a section but for those of functions that are not loaded, and shared CIEs."""
    frames, targets = job.obj.content(section), resolution.targets
    entries = sorted(iter(job.obj.tables.get(section, ())))
    cies: dict[int, int] = {}  # by offset in the object: its address, or its offset in `found`
    records: _Records = bytearray(), [], []
    found, backs, fields = records
    first = here = 0
    for at, length, cie in split(frames):
        last = first
        while last < len(entries) and entries[last][0] < at + length:
            last += 1
        mine = entries[first:last]
        first = last
        function: int | None = None
        if cie < 0:
            if not mine and (shared := unwind.shared_cie(frames[at : at + length])):
                cies[at] = shared
                continue
            cies[at] = len(found)
        else:
            if not mine or (function := _function(resolution, mine[0])) is None:
                continue  # of a function that is not loaded
            if cie not in cies:
                raise LinkError(f".eh_frame+{at:#x} names no CIE before it")
            backs.append((len(found), cies[cie]))
        here = len(found)
        found += frames[at : at + length]
        for entry in mine:
            within = entry[0] - at
            if within < 8 or (within + 8 > length and ends_behind(entry, within, length)):
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
    pad(found, here)
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
) -> Relocations:
    """The relocations of a `.gcc_except_table` at `address`, far types reached through GOT slots.

    The encoding bytes of its tables are changed in `content`, which is what will be there.
    """
    table, targets = job.obj.tables[section], resolution.targets
    entries = [*table]
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
    return Relocations(b"".join([
        RELA.pack(offset, info & ~0xFFFF_FFFF | SLOT32, addend)
        if info & 0xFFFF_FFFF in (R_32, R_32S) and any(a < offset < b for a, b in changed)
        else RELA.pack(offset, info, addend)
        for offset, info, addend in entries
    ]))  # fmt: skip


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
