"""All that placing an object will do, found out before any of it is done.  Start from `make_plan`.

The phases, each from what the ones before it gave: COMDAT groups, layout, extents, symbols, bytes
with the fields that refer to something.  Extents are reserved, and given back with everything else
where the operation fails; nothing else that the session has is changed before `Linker` commits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from jitkernel.arena import Extent
from jitkernel.elf import constants as c
from jitkernel.errors import ArenaFull, LinkError
from jitkernel.linker import x86_64
from jitkernel.linker.binding import Target
from jitkernel.linker.content import Content, Entry, ends_behind, refusal
from jitkernel.linker.eh_frames import add_frames, indirect_types
from jitkernel.linker.layout import (
    Layout,
    PinnedRange,
    arrange,
    describes_code,
    holds,
    pinned_ranges,
    pinned_sections,
)
from jitkernel.linker.own_fields import OwnFields
from jitkernel.linker.pinning import may_escape
from jitkernel.linker.records import Block, Image, Symbol
from jitkernel.linker.resolution import (
    Groups,
    Job,
    Resolution,
    local_targets,
    place_commons,
    resolve,
    resolve_again,
    select_groups,
)
from jitkernel.linker.unwind import UnwindRegion
from jitkernel.linker.x86_64 import BRANCH
from jitkernel.record import NamedTuple

_I32 = struct.Struct("<i")
_FEW = 16  # relocations of a section that are looked at one by one
_NO_GROUPS = Groups()
_NO_COMMONS: dict[int, tuple[int, int]] = {}
_NO_RANGES: Mapping[int, list[PinnedRange]] = {}


class Extents(NamedTuple):
    """The places where the zones of an object begin, and what is there: `own` are its constants and
    variables by zone, `shared` blocks of others, which it holds as well."""

    starts: dict[str, int]
    text: Extent | None
    own: dict[str, Block]
    adopted: tuple[Block, ...]
    shared: tuple[Block, ...]


class Plan(NamedTuple):
    """The results of each phase."""

    job: Job
    groups: Groups
    layout: Layout
    extents: Extents
    resolution: Resolution
    content: Content


def make_plan(job: Job, providers: Mapping[str, Image], unwind: UnwindRegion) -> Plan:
    """Plan what placing an object will do; `providers` are the images that have COMDAT groups.

    Raises LinkError or ArenaFull.
    """
    obj, names, pins = job.obj, job.names, job.pins
    groups = select_groups(job, providers) if obj.groups else _NO_GROUPS
    ranges = pinned_ranges(obj, names, pins) if pins else _NO_RANGES
    dropped = groups.dropped | pinned_sections(obj, ranges) if pins else groups.dropped
    layout, commons = arrange(obj, dropped), _NO_COMMONS
    image = job.former.image
    if names.tentative and image is None:
        layout, commons = place_commons(job, layout)
    extents = _reserve(job, layout)
    if image is None:
        resolution = resolve(job, layout, extents.starts, commons, groups.forced)
    else:
        resolution = resolve_again(job, layout, extents.starts, image)
    content = fill(job, layout, extents, resolution, ranges, unwind)
    for offset, size in commons.values():
        content.zeroed.append((extents.starts["data"] + offset, size))
    return Plan(job, groups, layout, extents, resolution, content)


def plan_runtime(job: Job, unwind: UnwindRegion, control: int) -> tuple[Content, dict[str, int]]:
    """The executor's runtime, at fixed addresses before any cell: what its own regions will hold,
    and the addresses of what it exports.

    Its only import is `jk_control`, which is at `control`.  Raises LinkError where it does not fit
    or has writable data.
    """
    obj, names, arena = job.obj, job.names, job.bind.arena
    room = next(r for r in arena.regions if r.name == "runtime.text")
    layout = arrange(obj)._replace(frames=[])
    if "data" in layout.needs:
        raise LinkError("the runtime has writable data of its own")
    constants = room.start + (layout.needs.get("text", (0, 1))[0] + 255 & -256)
    if constants + layout.needs.get("rodata", (0, 1))[0] > arena.slots[0]:
        raise LinkError("the runtime is too large for its region")
    starts = {"text": room.start, "rodata": constants}
    targets = local_targets(obj, names, layout, starts)
    for index, name, _ in names.imports:
        if name != "jk_control":
            raise LinkError(f"the runtime asks for {name}")
        targets[index] = control
    exports: dict[str, int] = {}
    for e in names.exports:
        place = layout.places[e.section] if e.section < len(layout.places) else None
        address = e.value if place is None else starts[place[0]] + place[1] + e.value
        targets[e.number] = exports[e.name] = address
    extents = Extents(starts, None, {}, (), ())
    resolution = Resolution(targets, {}, {}, {}, 0, {})
    return fill(job, layout, extents, resolution, {}, unwind), exports


# -- extents -----------------------------------------------------------------------------------


def _reserve(job: Job, layout: Layout) -> Extents:
    arena = job.bind.arena
    starts: dict[str, int] = {}
    text: Extent | None = None
    own: dict[str, Block] = {}
    shared: list[Block] = []
    for zone, (size, align) in layout.needs.items():
        if zone == "text":
            text = _reserve_text(job, size, align)
            starts[zone] = text[1]
            continue
        block = job.former.blocks.get(zone)
        if block is None:
            block = Block(arena.reserve(zone, size, align))
        elif block.extent.size < size or block.extent.start & (align - 1):
            raise LinkError(
                f"{size} bytes of {zone} aligned to {align} do not fit the extent they had"
            )
        else:
            shared.append(block)
        own[zone], starts[zone] = block, block.extent[1]
    adopted = _owners_of_pins(job) if job.pins else ()
    return Extents(starts, text, own, adopted, (*shared, *adopted))


def _reserve_text(job: Job, size: int, align: int) -> Extent:
    """Room for the code: where it was before, if it fills a hole there, or if the program may have
    pointers into it.  To cut up a larger hole only to be back would waste text."""
    arena, was = job.bind.arena, job.former.text
    if was and was & (align - 1) == 0 and (arena.fills("text", was, size) or may_escape(job.obj)):
        try:
            return arena.reserve_at("text", was, size)
        except ArenaFull:
            pass
    return arena.reserve("text", size, align)


def _owners_of_pins(job: Job) -> tuple[Block, ...]:
    """The blocks that pinned symbols lie in."""
    found: dict[Block, None] = {}
    for name, address in job.pins.items():
        symbol = job.resolver.symbols.get(name)
        owner = symbol.image if symbol is not None else None
        for block in owner.blocks if owner is not None else ():
            start, size = block.extent[1], block.extent[2]
            if start <= address < start + size:
                found[block] = None
    return tuple(found)


# -- bytes -------------------------------------------------------------------------------------


def fill(
    job: Job,
    layout: Layout,
    extents: Extents,
    resolution: Resolution,
    ranges: Mapping[int, list[PinnedRange]],
    unwind: UnwindRegion,
) -> Content:
    """Compute what the sections will be in memory, and the fields of them that refer to something.

    Fields that count from their own place to the object's own are final here already: most are.
    """
    found = Content(job, extents.text)
    buffers = _copy(job, layout, extents, found)
    obj, targets, starts = job.obj, resolution.targets, extents.starts
    base, count = job.bind.base, len(resolution.targets)
    own: OwnFields | None = None
    for index, table in obj.tables.items():
        place = layout.places[index]
        moved = ranges.get(index)
        if place is None and moved is None:
            _hold(job, index, targets, found)
            continue
        if place is None and "data" not in job.former.keeps:
            buffers[index] = bytearray(obj.content(index))
        start = starts.get(place[0], 0) + place[1] - base if place is not None else 0
        buffer = buffers.get(index)
        name, _, flags, _, _, size, _, _, _, _ = obj.sections[index]
        if layout.frames and obj.names.startswith(b".gcc_except_table", name):
            table = indirect_types(job, layout, resolution, index, start + base, buffer)
        of_code = place is not None and place[0] != "text" and describes_code(obj, index)
        bulk = own is not None or table.count > _FEW
        if bulk and buffer is not None and moved is None and not of_code:
            own = own or OwnFields(resolution, job.bind.arena)
            entries: Iterable[Entry] = own.write(table, buffer, start)
        else:
            entries = table
        for entry in entries:
            offset, info, _ = entry
            if offset + 8 > size or info >> 32 >= count:
                _check_entry(job, index, entry)
            at = start + offset
            if moved is not None:
                at = next((a + offset - p - base for p, q, a in moved if p <= offset < q), at)
            target = targets[info >> 32]
            if of_code:
                target = resolution.body(target)
            found.add_field(target, at, buffer, offset, flags, index, entry)
    if own is not None:
        found.calls = list(own.calls())
        for symbol, packed in own.uses():
            found.uses[symbol] = found.uses[symbol] + packed if symbol in found.uses else packed
    for index in () if "data" in job.former.keeps else ranges:
        data = buffers.get(index) or obj.content(index)
        found.pinned += [(at, high - low, data[low:high]) for low, high, at in ranges[index]]
    for index in layout.frames:
        add_frames(job, resolution, unwind, index, found)
    if resolution.stubs:
        _add_stubs(resolution, base, found)
    return found


def _hold(job: Job, section: int, targets: Sequence[Target | None], found: Content) -> None:
    """Note the symbols whose bodies and values the code has, where a section says that."""
    for _, info, addend in job.obj.tables[section] if holds(job.obj, section) else ():
        if info >> 32 >= len(targets):
            raise LinkError(f"cell {job.cell}: it holds symbol {info >> 32} of {len(targets)}")
        job.bind.holding = True
        if isinstance(target := targets[info >> 32], Symbol):
            found.hold(target, addend)


def _check_entry(job: Job, section: int, entry: Entry) -> None:
    """Raises LinkError for a relocation of a field that its section ends before, or against
    nothing."""
    obj, (offset, info, _) = job.obj, entry
    size, count = obj.sections[section][5], len(obj.symbols)
    if ends_behind(entry, offset, size):
        why = f"the section ends before the field: {size} bytes"
        raise refusal(job, section, entry, why)
    if info >> 32 >= count:
        raise LinkError(
            f"cell {job.cell}: {obj.section_name(section)}+{offset:#x}: "
            f"a relocation against symbol {info >> 32} of {count}"
        )


def _add_stubs(resolution: Resolution, base: int, found: Content) -> None:
    """The object's own `x86_64.REGISTERING`, which branch to what libc has."""
    for name, (stub, register) in resolution.stubs.items():
        code, offset = x86_64.registering_stub(name, stub.start, resolution.dso)
        found.bytes.append((stub.start, code))
        at = stub.start - base + offset
        found.add_field(register, at, bytearray(code), offset, 0, 0, (0, BRANCH, -4))


def _copy(job: Job, layout: Layout, extents: Extents, found: Content) -> dict[int, bytearray]:
    """The sections at their places; what lies between two of them, or behind code, is int3 or
    zero.  Those that have relocations, by index."""
    obj, starts, content = job.obj, extents.starts, found.bytes
    sections, related = obj.sections, obj.tables
    buffers: dict[int, bytearray] = {}
    ends = dict(starts)
    index = -1
    for place in layout.places:
        index += 1
        if place is None:
            continue
        zone, offset = place
        _, kind, _, _, _, size, _, _, _, _ = sections[index]
        if not size or zone in job.former.keeps:
            continue
        address = starts[zone] + offset
        if (gap := address - ends[zone]) > 0:
            content.append((ends[zone], (b"\xcc" if zone == "text" else b"\0") * gap))
        ends[zone] = address + size
        if kind == c.SHT_NOBITS:
            found.zeroed.append((address, size))
        elif index in related:
            buffer = buffers[index] = bytearray(obj.content(index))
            content.append((address, buffer))
        else:
            content.append((address, obj.content(index)))
    if (text := extents.text) is not None and (gap := text[1] + text[2] - ends["text"]) > 0:
        content.append((ends["text"], b"\xcc" * gap))
    return buffers
