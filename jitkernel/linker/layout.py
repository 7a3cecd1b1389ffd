"""Which part of an object goes to which zone.  Start from `arrange`.

Sections are told apart by their flags, not their names: compilers call code `.text`, `.ltext` or
`.text.unlikely`.  Sizes and offsets are known before anything is placed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping

from jitkernel.arena import Arena
from jitkernel.elf import ElfObject, read_object
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.ir.names import BOUNDS, written
from jitkernel.linker.x86_64 import REGISTERING
from jitkernel.record import NamedTuple

#: Indirect pointers to personality routines: every object has its own copy, in a COMDAT group.
#: Sharing them would make cells depend on each other that have nothing in common.
PRIVATE = "DW.ref."

#: Names that the linker may give a meaning: an address, and no symbol.
SPECIAL = ("_GLOBAL_OFFSET_TABLE_", "__dso_handle", *REGISTERING)
_HELD = c.HELD + b"\0"

#: Tables of addresses of code, for who looks at code from outside: LLVM's stack maps, fault maps
#: and basic blocks, XRay's and patchable entries.
_TABLES = (
    b".llvm_stackmaps\0", b".llvm_faultmaps\0", b".llvm_bb_addr_map\0", b"xray_instr_map\0",
    b"__patchable_function_entries\0",
)  # fmt: skip
_LABELS = tuple(label.encode() + b"\0" for label in c.TABLE_LABELS)

_UNSIZED = (c.STT_FUNC, c.STT_NOTYPE, c.STT_OBJECT)
_SECTION_ALLOC, _SECTION_WRITE, _SECTION_CODE = c.SHF_ALLOC, c.SHF_WRITE, c.SHF_EXECINSTR


class Export(NamedTuple):
    """A global definition of an object, as its symbol table has it; `number` is its index there."""

    number: int
    name: str
    binding: int
    type: int
    section: int
    value: int
    size: int


class Names(NamedTuple):
    """The names that an object defines and asks for: `imports` are `(symbol index, name, weak)`.

    `private` are indices of global symbols that no other object is to see; `tentative` those of the
    `exports` that are in no section yet: whoever defines them elsewhere provides them.
    """

    exports: list[Export]
    imports: list[tuple[int, str, bool]]
    private: list[int]
    tentative: list[Export]


class Layout(NamedTuple):
    """The place of each section: `places[i]` is `(zone, offset)`, None where it is not loaded.

    `needs` maps a zone to `(size, alignment)` in bytes; `frames` are sections of unwind records.
    """

    places: list[tuple[str, int] | None]
    needs: dict[str, tuple[int, int]]
    frames: list[int]


class ReadObject(NamedTuple):
    """An object that has been read, and its names."""

    object: ElfObject
    names: Names

    @classmethod
    def of(cls, data: bytes | ElfObject) -> ReadObject:
        """Read an object, or the names of one.  Raises LinkError."""
        obj = read_object(data) if isinstance(data, bytes) else data
        return cls(obj, read_names(obj))

    def near(self) -> frozenset[str]:
        """The symbols that it refers to as if they were its own."""
        obj = self.object
        return frozenset(
            obj.symbol_name(index) for index, (_, info, other, section, _, _)
            in enumerate(obj.symbols) if info >> 4 and not section and other & 3
        )  # fmt: skip

    def bounded(self) -> frozenset[str]:
        """The symbols of sections that it asks for the bounds of."""
        wanted = {
            name.removeprefix(bound) for _, name, _ in self.names.imports for bound in BOUNDS
            if name.startswith(bound)
        }  # fmt: skip
        return frozenset(
            export.name for export in (self.names.exports if wanted else ())
            if export.section < len(self.object.sections)
            and self.object.section_name(export.section) in wanted
        )  # fmt: skip

    def held(self) -> frozenset[str]:
        """The symbols whose bodies or values the object says it has in its code."""
        obj = self.object
        return frozenset(
            obj.symbol_name(info >> 32)
            for index, table in obj.tables.items() if holds(obj, index)
            for _, info, _ in table
        )  # fmt: skip


def read_names(obj: ElfObject) -> Names:
    """The global symbols of an object.  Raises LinkError for kinds that are not supported."""
    exports: list[Export] = []
    imports: list[tuple[int, str, bool]] = []
    private: list[int] = []
    tentative: list[Export] = []
    symbols, first = obj.symbols, obj.locals
    for symbol in symbols[:first]:
        if symbol[1] == c.STT_GNU_IFUNC:
            raise LinkError("a local symbol is an ifunc, which `prepared` makes ordinary")
    index = first - 1
    for text, (_, info, _, section, value, size) in zip(
        obj.shared_names, symbols[first:], strict=True
    ):
        index += 1
        binding, kind = info >> 4, info & 15
        if kind == c.STT_TLS:
            raise LinkError(f"{written(text)} is thread-local: `prepared` gives it a control block")
        if kind == c.STT_GNU_IFUNC:
            raise LinkError(f"{written(text)} is an ifunc, which `prepared` makes ordinary")
        if section:
            if text.startswith(PRIVATE):
                private.append(index)
            else:
                export = Export(index, text, binding, kind, section, value, size)
                exports.append(export)
                if section == c.SHN_COMMON or section == c.SHN_X86_64_LCOMMON:
                    tentative.append(export)
        elif text:
            imports.append((index, text, binding == c.STB_WEAK))
    for label in _LABELS:
        if (at := obj.strings.find(label)) >= 0:
            exports += _labelled(obj, at, label)
    return Names(exports, imports, private, tentative)


def _labelled(obj: ElfObject, name: int, label: bytes) -> list[Export]:
    """A table's label as a name of the session's: another cell may read the table by it.  LLVM
    makes it local, so the object's own references are to its own table."""
    return [
        Export(index, label[:-1].decode(), c.STB_WEAK, c.STT_OBJECT, section, value, size - value)
        for index, (offset, info, _, section, value, _) in enumerate(obj.symbols)
        if offset == name and not info >> 4 and 0 < section < len(obj.sections)
        for size in [obj.sections[section][5]]
    ]


def is_special(name: str) -> bool:
    """True if the linker may supply what a name means: an address, and no symbol."""
    return name in SPECIAL or name.startswith(BOUNDS)


def holds(obj: ElfObject, section: int) -> bool:
    """True if a section says whose bodies and values the code of an object has."""
    name, _, flags, *_ = obj.sections[section]
    return not flags & _SECTION_ALLOC and obj.names.startswith(_HELD, name)


def describes_code(obj: ElfObject, section: int) -> bool:
    """True if the addresses in a section say where code is, as those of unwind records do: they are
    of the code itself, whoever has redefined the function.

    A section that goes with one of code (gABI "Section Attribute Flags", SHF_LINK_ORDER) does,
    unless a variable is in it: a program's pointers lead to canonical entries.
    """
    name, _, flags, _, _, _, link, _, _, _ = obj.sections[section]
    if any(obj.names.startswith(table, name) for table in _TABLES):
        return True
    return (
        bool(flags & c.SHF_LINK_ORDER)
        and link < len(obj.sections)
        and bool(obj.sections[link][2] & _SECTION_CODE)
        and all(s[3] != section or s[1] & 15 != c.STT_OBJECT for s in obj.symbols)
    )


def arrange(obj: ElfObject, dropped: frozenset[int] = frozenset()) -> Layout:
    """Offsets for every loaded section, packed in file order; `dropped` sections are left out."""
    places: list[tuple[str, int] | None] = []
    needs: dict[str, tuple[int, int]] = {}
    frames: list[int] = []
    ends = _ends(obj)
    index = -1
    for name, kind, flags, _, _, size, _, _, align, _ in obj.sections:
        index += 1
        if not flags & _SECTION_ALLOC or index in dropped or kind == c.SHT_NOTE or not kind:
            places.append(None)
            continue
        if flags & c.SHF_TLS:
            raise LinkError(f"section {obj.section_name(index)} is thread-local: see `prepared`")
        if flags & _SECTION_CODE:
            zone = "text"
        elif kind == c.SHT_X86_64_UNWIND or (
            kind == c.SHT_PROGBITS
            and not flags & _SECTION_WRITE
            and obj.names.startswith(b".eh_frame\0", name)
        ):
            frames.append(index)
            places.append(None)
            continue
        elif not flags & _SECTION_WRITE or kind == c.SHT_INIT_ARRAY or kind == c.SHT_FINI_ARRAY:
            zone = "rodata"
        elif kind == c.SHT_PREINIT_ARRAY:
            raise LinkError(f"section {obj.section_name(index)} is for programs, not for cells")
        else:
            zone = "rodata" if obj.names.startswith((b".ctors", b".dtors"), name) else "data"
        if align & (align - 1):
            raise LinkError(
                f"section {obj.section_name(index)}: alignment {align} is not a power of 2"
            )
        if (zone == "text" or not size) and (index, size) in ends:
            size += 1  # a function without code: a trap is what its callers reach; an empty struct
        if size == 0:
            places.append((zone, 0))
            continue
        align = align or 1
        used, most = needs.get(zone, (0, 1))
        offset = (used + align - 1) & -align
        needs[zone] = (offset + size, align if align > most else most)
        places.append((zone, offset))
    return Layout(places, needs, frames)


def _ends(obj: ElfObject) -> set[tuple[int, int]]:
    """The places of symbols without a size: section and offset.  A function that is just
    `unreachable` is such a one."""
    return {
        (section, value)
        for _, info, _, section, value, size in obj.symbols
        if not size and section and info & 15 in _UNSIZED
    }


def initialisers(
    obj: ElfObject, layout: Layout, starts: Mapping[str, int], arena: Arena
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Constructors and destructors of a linked object, each in the order they run.

    Constructors run by ascending priority, destructors the other way round.  The number that ends
    the name of an `.init_array` section is its priority, and its functions run from the first to
    the last (gABI "Initialization and Termination Functions").  The older `.ctors`, which LLVM
    uses unless told otherwise, count from 65535 down, and run from the last to the first.
    """
    found: dict[bool, list[tuple[int, tuple[int, ...]]]] = {}
    for index, (name, kind, flags, _, _, size, _, _, _, _) in enumerate(obj.sections):
        if kind == c.SHT_INIT_ARRAY or kind == c.SHT_FINI_ARRAY:
            begins, old = kind == c.SHT_INIT_ARRAY, False
        elif flags & _SECTION_WRITE and obj.names.startswith((b".ctors", b".dtors"), name):
            begins, old = obj.names.startswith(b".ctors", name), True
        else:
            continue
        place = layout.places[index]
        if place is None or not size:
            continue
        text = obj.section_name(index)
        if size % 8:
            raise LinkError(f"section {text}: {size} bytes are not a number of addresses")
        content = arena.read(starts[place[0]] + place[1], size)
        functions = struct.unpack(f"<{size // 8}Q", content)
        suffix, priority = text.rpartition(".")[2], 1 << 16
        if suffix.isdecimal() and suffix.isascii():
            priority = 65535 - int(suffix) if old else int(suffix)
        found.setdefault(begins, []).append((priority, functions[::-1] if old else functions))
    if not found:
        return (), ()
    init, fini = (
        tuple(a for _, array in sorted(found.get(k, ()), key=lambda p: p[0]) for a in array)
        for k in (True, False)
    )
    return init, fini[::-1]


def same_places(one: bytes, other: bytes) -> frozenset[str]:
    """The zones of data that two objects lay out alike, so that one can use the other's extents."""
    pictures: list[dict[str, list[tuple[object, ...]]]] = []
    for data in (one, other):
        obj, _ = ReadObject.of(data)
        picture: dict[str, list[tuple[object, ...]]] = {"data": [], "rodata": []}
        places = arrange(obj).places
        for index, place in enumerate(places):
            if place is not None and place[0] in picture:
                size = obj.sections[index][5]
                picture[place[0]].append((obj.section_name(index), place[1], size))
        for index, (_, info, _, section, value, size) in enumerate(obj.symbols):
            place = places[section] if section < c.SHN_LORESERVE else None
            if place is not None and place[0] in picture and info & 15 != c.STT_SECTION:
                picture[place[0]].append((obj.symbol_name(index), info, place[1] + value, size))
        pictures.append(picture)
    return frozenset(z for z in ("data", "rodata") if pictures[0][z] == pictures[1][z])


def group_members(data: bytes, groups: Collection[str]) -> frozenset[str]:
    """The global names that an object defines in some of its COMDAT groups."""
    obj = read_object(data)
    sections = {
        index
        for signature, members in obj.groups
        if obj.symbol_name(signature) in groups
        for index in members
    }
    return frozenset(
        obj.symbol_name(i) for i, s in enumerate(obj.symbols) if s[1] >> 4 and s[3] in sections
    )


#: The widest gap that alignment leaves between two variables of one section.
_GAP = 15


class PinnedRange(NamedTuple):
    """Bytes `[start, stop)` of a section that lie at `address`, whatever becomes of the rest.

    A cell that is run again keeps the addresses of its variables, so that pointers to them stay
    right: its object's bytes for them go to the old place instead of a new one.
    """

    start: int
    stop: int
    address: int


def pinned_ranges(
    obj: ElfObject, names: Names, pins: Mapping[str, int]
) -> dict[int, list[PinnedRange]]:
    """By section: what belongs to symbols whose addresses are given."""
    found: dict[int, list[PinnedRange]] = {}
    for e in names.exports:
        if e.name in pins and e.section < c.SHN_LORESERVE:
            if e.value + e.size > obj.sections[e.section][5]:
                raise LinkError(f"{written(e.name)} does not end inside its section")
            found.setdefault(e.section, []).append(
                PinnedRange(e.value, e.value + e.size, pins[e.name])
            )
    for ranges in found.values():
        ranges.sort()
    return found


def pinned_sections(obj: ElfObject, moved: Mapping[int, list[PinnedRange]]) -> frozenset[int]:
    """Sections all of whose bytes belong to pinned symbols: they need no extent."""
    if not moved:
        return frozenset()
    referred = {info >> 32 for entries in obj.relocations.values() for _, info, _ in entries}
    private = {
        s[3] for i, s in enumerate(obj.symbols)
        if s[1] >> 4 == 0 and (s[1] & 15 != c.STT_SECTION or i in referred)
    }  # fmt: skip
    whole: set[int] = set()
    for index, ranges in moved.items():
        if sum(1 for s in obj.symbols if s[3] == index and s[1] >> 4) > len(ranges):
            continue  # another variable is there, perhaps in a gap
        at = 0
        for start, stop, _ in ranges:
            if start > at + _GAP:
                break
            at = max(at, stop)
        else:
            alone = index not in private and not _between(obj.relocations.get(index, ()), ranges)
            if at >= obj.sections[index][5] and alone:
                whole.add(index)
    return frozenset(whole)


def _between(entries: Iterable[tuple[int, int, int]], ranges: list[PinnedRange]) -> bool:
    """True if a gap has a relocation: a variable is there, without a symbol and never used."""
    return any(not any(p.start <= at < p.stop for p in ranges) for at, _, _ in entries)
