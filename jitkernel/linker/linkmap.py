"""The link map of an object: each section, symbol and relocation of it, as they are in the arena.

The bytes are read back from the slab and decoded, so this says what stands there now, after later
cells have moved symbols; it is not a record kept from linking.  Start from `read_link_map`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jitkernel.elf import ElfObject, read_object
from jitkernel.elf import constants as c
from jitkernel.linker.disassembly import plain
from jitkernel.linker.layout import (
    PRIVATE,
    PinnedRange,
    arrange,
    pinned_ranges,
    pinned_sections,
    read_names,
)
from jitkernel.linker.linker import Linker
from jitkernel.linker.records import Image, Symbol, SymbolState
from jitkernel.linker.unwind import split
from jitkernel.linker.x86_64 import GOTPCRELX, REX_GOTPCRELX, TABLE, is_branch

_KINDS = {
    c.SHT_PROGBITS: "bits", c.SHT_SYMTAB: "symbols", c.SHT_STRTAB: "strings",
    c.SHT_RELA: "relocations", c.SHT_NOBITS: "zeros", c.SHT_NOTE: "note", c.SHT_GROUP: "group",
    c.SHT_INIT_ARRAY: "constructors", c.SHT_FINI_ARRAY: "destructors",
    c.SHT_X86_64_UNWIND: "unwind",
}  # fmt: skip
_FLAGS = ((c.SHF_WRITE, "W"), (c.SHF_ALLOC, "A"), (c.SHF_EXECINSTR, "X"))
_BINDINGS = {0: "local", 1: "global", 2: "weak", 10: "unique"}
_TYPES = {0: "none", 1: "object", 2: "function", 3: "section", 4: "file", 5: "common"}


@dataclass(frozen=True, slots=True)
class MappedSection:
    """A section of the object; `zone` is empty and `why` says the reason where it is not loaded.

    `address` is 0 where it has none of its own: not loaded, or in pieces (see `why`).
    """

    index: int
    name: str
    kind: str
    flags: str
    size: int
    align: int
    zone: str
    address: int
    why: str


@dataclass(frozen=True, slots=True)
class MappedSymbol:
    """A symbol table entry; `address` is where this object has it, 0 for what it only refers to.

    `symbol` is the session's record of a global name.
    """

    name: str
    binding: str
    kind: str
    section: str
    offset: int
    size: int
    address: int
    symbol: Symbol | None


@dataclass(frozen=True, slots=True)
class MappedRelocation:
    """A relocation and what the linker made of it.

    `at` is the address of its field, `size` bytes wide, which holds the number `value`.  `how` is
    one of `direct`, `relaxed` (to a `form` without the GOT), `GOT slot`, `canonical entry`, `stub`,
    `far stub`, `raising stub`, `size`, `GOT`, `nothing`, `not loaded`, and `stored over` (the
    program has put something else there).  `refers_to` is the address (or the size) that the field
    expresses: of a symbol, an entry or a slot without the addend, of a local symbol with it;
    `final` is the address behind that: what a slot holds, what a stub jumps to.
    """

    section: int
    offset: int
    type: str
    symbol: str
    addend: int
    at: int
    size: int
    value: int
    how: str
    form: str
    refers_to: int
    final: int
    target: Symbol | None


@dataclass(frozen=True, slots=True)
class LinkMap:
    """All of an object, as it stands in the arena."""

    sections: tuple[MappedSection, ...]
    symbols: tuple[MappedSymbol, ...]
    relocations: tuple[MappedRelocation, ...]


def read_link_map(linker: Linker, image: Image, data: bytes) -> LinkMap:
    """A map of what became of the object `data`, whose image is `image`.

    Raises LinkError where `data` is no object.
    """
    return _Reader(linker, image, read_object(data)).read()


def read_symbols(linker: Linker, image: Image, data: bytes) -> tuple[MappedSymbol, ...]:
    """The symbols of a link map alone."""
    return _Reader(linker, image, read_object(data)).symbols()


class LinkedVariable(NamedTuple):
    """A variable of an object, where it stands; `is_local`: nobody else sees it.  `is_first`: it
    still has the value that it was linked with."""

    name: str
    address: int
    size: int
    is_local: bool
    is_first: bool


def linked_variables(linker: Linker, image: Image, data: bytes) -> list[LinkedVariable]:
    """The variables in the data zone that the object `data` of an image defines."""
    obj = read_object(data)
    found = [i for i in range(1, len(obj.symbols)) if _is_variable(obj, i)]
    if not found:
        return []
    reader = _Reader(linker, image, obj)
    relocations = reader.read().relocations
    return [reader.variable(index, relocations) for index in found]


def _is_variable(obj: ElfObject, index: int) -> bool:
    entry = obj.symbol(index)
    if entry.info & 15 != c.STT_OBJECT or not 0 < entry.section < c.SHN_LORESERVE:
        return False
    return bool(obj.section(entry.section).flags & c.SHF_WRITE) and entry.size > 0


class _Reader:
    """The place of each part of one object: the layout made again from the object and its image."""

    def __init__(self, linker: Linker, image: Image, obj: ElfObject):
        self.linker, self.image, self.obj = linker, image, obj
        names = read_names(obj)
        copies = set(image.copies)
        self.other = {i for s, m in obj.groups if obj.symbol_name(s) in copies for i in m}
        self.pieces: dict[int, list[PinnedRange]] = {}
        if image.pins:
            self.pieces = pinned_ranges(obj, names, dict(image.pins))
        self.pinned = pinned_sections(obj, self.pieces)
        self.layout = arrange(obj, frozenset(self.other) | self.pinned)
        blocks = (image.rodata, image.data)
        extents = (image.text, *(block.extent for block in blocks if block is not None))
        self.starts = {extent.zone: extent.start for extent in extents if extent is not None}
        self.own = {symbol.name: address for symbol, address, _ in image.exports}
        # A symbol whose type has changed since is known to those who use it, not by its name.
        self.known = {symbol.name: symbol for symbol in image.refs}
        self.bodies: dict[int, int] = {}
        self.ends: dict[int, list[int]] = {}  # of instructions, by section

    def read(self) -> LinkMap:
        sections = tuple(self._section(i) for i in range(1, len(self.obj.sections)))
        symbols = self.symbols()
        self.bodies = {i: s.address for i, s in enumerate(symbols, 1)}
        return LinkMap(sections, symbols, tuple(self._relocations()))

    def symbols(self) -> tuple[MappedSymbol, ...]:
        return tuple(self._symbol(i) for i in range(1, len(self.obj.symbols)))

    def variable(self, index: int, relocations: Sequence[MappedRelocation]) -> LinkedVariable:
        """A symbol that is a variable, and whether it has its first value."""
        entry, symbol = self.obj.symbol(index), self._symbol(index)
        at, size = symbol.address, entry.size
        now, first = bytearray(self.linker.arena.read(at, size)), bytearray(size)
        if self.obj.section(entry.section).type != c.SHT_NOBITS:
            first[:] = self.obj.content(entry.section)[entry.value : entry.value + size]
        fields = [r for r in relocations if at <= r.at < at + size]
        for field in fields:
            span = slice(field.at - at, field.at - at + field.size)
            now[span] = first[span] = bytes(field.size)
        same = now == first and all(field.how != "stored over" for field in fields)
        return LinkedVariable(symbol.name, at, size, symbol.binding == "local", same)

    def _start(self, section: int) -> int:
        place = self.layout.places[section]
        return (
            0 if place is None or place[0] not in self.starts else self.starts[place[0]] + place[1]
        )

    def _section(self, index: int) -> MappedSection:
        header = self.obj.section(index)
        flags = "".join(letter for bit, letter in _FLAGS if header.flags & bit)
        place, zone, address, why = self.layout.places[index], "", self._start(index), ""
        if place is not None:
            zone = place[0]
            if not header.size:
                address, why = 0, "empty"
        elif index in self.layout.frames:
            zone, why = "unwind", "record by record"
            address = self.image.unwind.start if self.image.unwind is not None else 0
        elif index in self.other:
            why = "another cell has its group"
        elif index in self.pinned:
            zone, why = "data", "in its old place"
            address = min(piece.address for piece in self.pieces[index])
        else:
            why = "not loaded"
        if index in self.pieces and not why:
            why = "partly in its old place"
        return MappedSection(
            index, self.obj.section_name(index), _KINDS.get(header.type, f"type {header.type:#x}"),
            flags, header.size, header.align, zone, address, why,
        )  # fmt: skip

    def _symbol(self, index: int) -> MappedSymbol:
        entry, name = self.obj.symbol(index), self.obj.symbol_name(index)
        binding, kind = entry.info >> 4, entry.info & 15
        known = None
        if binding and not name.startswith(PRIVATE):
            known = self.known.get(name) or self.linker.symbols.get(name)
        if entry.section == 0:
            section, address = "", 0
        elif entry.section == c.SHN_ABS:
            section, address = "absolute", entry.value
        elif entry.section in c.COMMON:
            section, address = "common", 0
        else:
            section = self.obj.section_name(entry.section)
            start = self._start(entry.section)
            loaded = self.layout.places[entry.section] is not None
            address = start + entry.value if loaded else 0
        if binding and name in self.own:
            address = self.own[name]
        return MappedSymbol(
            name, _BINDINGS.get(binding, str(binding)), _TYPES.get(kind, str(kind)), section,
            entry.value, entry.size, address, known,
        )  # fmt: skip

    def _relocations(self) -> Iterator[MappedRelocation]:
        for index, entries in self.obj.relocations.items():
            if not self.obj.section(index).flags & c.SHF_ALLOC:
                continue
            if index in self.layout.frames:
                yield from self._frames(index, entries)
                continue
            start = self._start(index)
            for entry in entries:
                at = start + entry[0] if self.layout.places[index] is not None else 0
                for low, high, address in self.pieces.get(index, ()):
                    if low <= entry[0] < high:
                        at = address + entry[0] - low
                yield self._made(index, entry, at)

    def _frames(
        self, index: int, entries: list[tuple[int, int, int]]
    ) -> Iterator[MappedRelocation]:
        """Those of unwind records: a record lies where the region has the one of its function."""
        where: dict[int, int] = {}
        records = split(self.obj.content(index))
        begins = [begin for begin, _, _ in records]
        within: list[list[tuple[int, int, int]]] = [[] for _ in records]
        for entry in entries:
            number = bisect_right(begins, entry[0]) - 1
            if number >= 0 and entry[0] < begins[number] + records[number][1]:
                within[number].append(entry)
        for (begin, _, cie), mine in zip(records, within, strict=True):
            if cie < 0 or not mine:
                continue
            number, addend = mine[0][1] >> 32, mine[0][2]
            body = self.bodies.get(number, 0)
            fde = self.linker.unwind.find(body + addend) if body else 0
            if fde:
                where[begin] = fde
                back = int.from_bytes(self.linker.arena.read(fde + 4, 4), "little")
                where.setdefault(cie, fde + 4 - back)
        for begin, mine in zip(begins, within, strict=True):
            for entry in mine:
                at = where[begin] + entry[0] - begin if begin in where else 0
                yield self._made(index, entry, at)

    # -- one field -------------------------------------------------------------------------------

    def _made(self, section: int, entry: tuple[int, int, int], at: int) -> MappedRelocation:
        offset, info, addend = entry
        number, type = info >> 32, info & 0xFFFF_FFFF
        row, name = TABLE.get(type), self.obj.symbol_name(number)
        target = None
        if self.obj.symbol(number).info >> 4 and not name.startswith(PRIVATE):
            target = self.known.get(name)
        size, value, how, form, refers_to, final = row.field if row else 0, 0, "nothing", "", 0, 0
        if not at:
            how = "not loaded"
        elif row is not None:
            field = self.linker.arena.read(at, row.field)
            signed = row.relative or row.low < 0 <= row.high < 1 << 8 * row.field - 1
            value = int.from_bytes(field, "little", signed=signed)
            relaxed = self._relaxed(section, offset, type, at)
            if relaxed:
                how, (form, refers_to, at, value) = "relaxed", relaxed
            else:
                refers_to = (
                    value - addend + (at if row.relative else 0) - row.got * self.linker.bind.got
                )
                refers_to &= (1 << 64) - 1
                code = self.obj.section(section).flags & c.SHF_EXECINSTR
                branch = code and is_branch(type, self.obj.content(section), offset)
                base = "L" if branch else row.base
                how, refers_to, final = self._plain(base, type, target, number, refers_to, at)
        if how == "relaxed" and target is not None:
            final = self._beyond(target, refers_to)
        if how == "direct" and target is None and row is not None:
            code = bool(self.obj.section(section).flags & c.SHF_EXECINSTR) and row.relative
            if not code:
                refers_to += addend
            elif self.obj.symbol(number).info & 15 == c.STT_SECTION:
                # It counts from the end of the instruction: `.rodata+0x1c` means +0x20.
                if section not in self.ends:
                    found = plain(self.obj.content(section), 0)
                    self.ends[section] = [at + size for at, size, _, _ in found]
                ends = self.ends[section]
                refers_to += addend + ends[bisect_left(ends, offset + 4)] - offset
        return MappedRelocation(
            section, offset, row.name.removeprefix("R_X86_64_") if row else f"type {type}", name,
            addend, at, size, value, how, form, refers_to, final, target,
        )  # fmt: skip

    def _plain(
        self, base: str, type: int, target: Symbol | None, number: int, refers_to: int, at: int
    ) -> tuple[str, int, int]:
        """The form of a field as its formula has it, where it leads, and where that does."""
        if base == "Z":
            return "size", refers_to, 0
        if base == "0":
            return "GOT", self.linker.bind.got, 0
        slots = self.linker.arena.zones["rodata"]
        in_slot = target is not None and refers_to == target.slot != 0
        if base == "G" or (type in (10, 11) and in_slot):
            held = 0
            if slots.start <= refers_to <= slots.stop - 8:
                held = int.from_bytes(self.linker.arena.read(refers_to, 8), "little")
            return "GOT slot", refers_to, held
        if target is None:
            stored = refers_to != self.bodies.get(number) and self._is_data(at)
            return ("stored over" if stored else "direct"), refers_to, 0
        if refers_to == target.stub and target.stub:
            return self._entry(target, base == "L"), refers_to, self._beyond(target, refers_to)
        if refers_to == target.address or target.state is SymbolState.NULL:
            return "direct", refers_to, 0
        if target.state is SymbolState.MISSING:
            return "nothing", refers_to, 0
        return ("stored over" if self._is_data(at) else "direct"), refers_to, 0

    def _entry(self, target: Symbol, branch: bool) -> str:
        """The name of a field that leads to a symbol's stub."""
        if not branch:
            return "canonical entry"
        if target.state is SymbolState.MISSING:
            return "raising stub"
        return "far stub" if target.state is SymbolState.FAR else "stub"

    def _beyond(self, target: Symbol, refers_to: int) -> int:
        """The address that a symbol's stub jumps to."""
        return target.address if refers_to == target.stub and target.stub else 0

    def _is_data(self, at: int) -> bool:
        zone = self.linker.arena.zones["data"]
        return zone.start <= at < zone.stop

    def _relaxed(
        self, section: int, offset: int, type: int, at: int
    ) -> tuple[str, int, int, int] | None:
        """The way an instruction lost its slot, where it leads, its field and the number there."""
        rexed = type == REX_GOTPCRELX
        if (type != GOTPCRELX and not rexed) or offset < 2 + rexed:
            return None
        was = self.obj.content(section)[offset - 2 : offset]
        read = self.linker.arena.read
        now = read(at - 2, 2)
        distance = int.from_bytes(read(at, 4), "little", signed=True)
        if was == b"\xff\x25" and now[0] == 0xE9:  # its distance begins a byte earlier
            early = int.from_bytes(read(at - 1, 4), "little", signed=True)
            return "jmp", at + 3 + early, at - 1, early
        if now == was:
            return None
        if was == b"\xff\x15":
            return "call", at + 4 + distance, at, distance
        if was[0] == 0x8B:
            return "lea", at + 4 + distance, at, distance
        return "immediate", distance & 0xFFFF_FFFF, at, distance & 0xFFFF_FFFF
