"""A relocatable object that is put together, and several that become one (`ld -r`).

Start from `Builder`: `add` objects, change what is there, `write`.  Layouts: System V gABI, chapter
4 (object files); rules of what may be defined twice: gABI "Symbol Table", `ld` on common symbols.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import NamedTuple

from jitkernel.elf import constants as c
from jitkernel.elf.constants import (
    COMMON,
    HEADER,
    RELA,
    RELA_SYMBOLS,
    RELA_TYPES,
    SECTION,
    SYMBOL,
)
from jitkernel.elf.reader import ElfObject, SectionTuple, SymbolTuple
from jitkernel.errors import LinkError
from jitkernel.ir.names import written
from jitkernel.linker.x86_64 import GOTPCRELX, REX_GOTPCRELX, TABLE

_TABLES = frozenset(
    (c.SHT_SYMTAB, c.SHT_STRTAB, c.SHT_RELA, c.SHT_REL, c.SHT_GROUP, c.SHT_SYMTAB_SHNDX)
)
#: What is more is damaged: bytes of a section, and what it may be aligned to.
_LARGEST, _MOST_ALIGNED = 1 << 31, 1 << 20
_TYPE, _WIDEST = 0xFFFF_FFFF, 8  # of a relocation; bytes of its field
#: bytes before a field that are written with it: opcode, ModRM, REX
_BEFORE = {GOTPCRELX: 2, REX_GOTPCRELX: 3}
#: bytes between two offsets that are enough for all types
_FAR_APART = 11


class SectionDraft:
    """A section: `content` are its bytes, `size` their number where it has none (SHT_NOBITS).

    `relocations` are made of those that its object had when somebody asks for them: most sections
    go as they came.  `link` is the one that a section with SHF_LINK_ORDER belongs to.
    """

    __slots__ = (
        "_own", "_read", "align", "content", "entry_size", "flags", "link", "name", "size", "type",
    )  # fmt: skip

    def __init__(
        self, name: str, type: int, flags: int, content: bytes | bytearray, size: int, align: int,
        entry_size: int = 0,
    ):  # fmt: skip
        self.name, self.type, self.flags, self.content = name, type, flags, content
        self.size, self.align, self.entry_size = size, align, entry_size
        self.link: SectionDraft | None = None
        self._read: _Read | None = None
        self._own: list[Relocation] | None = None

    @property
    def relocations(self) -> list[Relocation]:
        """The fields to be written into its bytes; the list may be changed."""
        if self._own is None:
            self._own = []
            if self._read is not None:
                words, _, symbols = self._read
                self._own = [
                    (at, i & _TYPE, symbols[i >> 32], more)
                    for at, i, more in RELA.iter_unpack(words)
                ]
                self._read = None
        return self._own

    @relocations.setter
    def relocations(self, relocations: list[Relocation]) -> None:
        self._own, self._read = relocations, None

    def references(self, kinds: frozenset[int]) -> list[Relocation]:
        """The relocations of some types, against symbols that are defined nowhere."""
        if self._own is None:
            if self._read is None:
                return []
            words, halves, symbols = self._read
            if kinds.isdisjoint(halves[RELA_TYPES]):
                return []
            undefined = {n for n, symbol in enumerate(symbols) if symbol.section == 0}
            places = [n for n, symbol in enumerate(halves[RELA_SYMBOLS]) if symbol in undefined]
            return [
                (at, i & _TYPE, symbols[i >> 32], addend)
                for at, i, addend in [RELA.unpack_from(words, RELA.size * n) for n in places]
                if i & _TYPE in kinds
            ]
        return [r for r in self._own if r[1] in kinds and r[2].section == 0]

    def read(self, words: array[int], halves: array[int], symbols: list[SymbolDraft]) -> None:
        """It has the relocations of an object with these symbols, as that has them, in words of 64
        bits and of 32."""
        self._read = words, halves, symbols

    @property
    def is_related(self) -> bool:
        """True if it has relocations."""
        return bool(self._own if self._own is not None else self._read)

    def rows(self, numbers: _Numbers) -> bytes:
        """Its relocations as the object has them.  Raises LinkError where code or data refer to
        a symbol that has no number."""
        loaded = self.flags & c.SHF_ALLOC
        if self._own is None and self._read is not None:
            _, halves, symbols = self._read
            of = numbers.of(symbols)
            found = [of[symbol] for symbol in halves[RELA_SYMBOLS]]
            if not loaded or min(found) >= 0:
                known = found if loaded else [max(number, 0) for number in found]
                halves = halves[:]
                halves[RELA_SYMBOLS] = array("I", known)
                return halves.tobytes()
        index, pack = numbers.index, RELA.pack
        if loaded and any(symbol not in index for _, _, symbol, _ in self.relocations):
            raise LinkError(f"section {self.name} refers to a symbol that is nowhere")
        return b"".join(
            [pack(o, index.get(s, 0) << 32 | kind, a) for o, kind, s, a in self.relocations]
        )


class _Head(NamedTuple):
    """The fields of a section's header (System V gABI, Sections) that are not places."""

    kind: int
    flags: int = 0
    link: int = 0
    info: int = 0
    align: int = 8
    entry: int = 0


@dataclass(slots=True, eq=False)
class SymbolDraft:
    """A symbol; `section` is a draft, or a reserved index (0 where it is not defined).

    `origin` is what defines it, for messages.
    """

    name: str
    info: int
    other: int
    section: SectionDraft | int
    value: int
    size: int
    origin: str = ""

    @property
    def is_defined(self) -> bool:
        """True if it is, if only as a common symbol."""
        return self.section != 0


#: offset in its section, relocation type, what it refers to, addend
Relocation = tuple[int, int, SymbolDraft, int]
_Read = tuple["array[int]", "array[int]", list[SymbolDraft]]


class _Numbers:
    """The number that each symbol has in the object that is written."""

    def __init__(self, symbols: list[SymbolDraft]):
        self.index = {symbol: at for at, symbol in enumerate(symbols)}
        self._of: dict[int, list[int]] = {}

    def of(self, symbols: list[SymbolDraft]) -> list[int]:
        """The same of an object's symbols; negative for those that are gone."""
        found = self._of.get(id(symbols))
        if found is None:
            get = self.index.get
            found = self._of[id(symbols)] = [get(symbol, -1) for symbol in symbols]
        return found


class Builder:
    """Sections, symbols and groups of an object to be; `globals` are symbols by name.

    `groups` are COMDAT groups by name: the symbol that names it and its sections.
    """

    def __init__(self) -> None:
        self.sections: list[SectionDraft] = []
        self.symbols: list[SymbolDraft] = []
        self.globals: dict[str, SymbolDraft] = {}
        self.groups: dict[str, tuple[SymbolDraft, list[SectionDraft]]] = {}
        self._machine = c.EM_X86_64
        self._nowhere: SymbolDraft | None = None

    def add(self, obj: ElfObject, label: str, loaded: bool = False) -> None:
        """Add an object, called `label` in messages; only what is `loaded` of it, if so asked.

        Of COMDAT groups of one name the first is taken.  Sections that are compressed, which hold
        debug information, are left out: their relocations are for what they hold.  Raises LinkError
        where a name has two strong definitions, and for relocations that cannot be.
        """
        self._machine = obj.machine
        signatures = [(obj.symbol_name(s), s, members) for s, members in obj.groups]
        dropped = {i for name, _, found in signatures if name in self.groups for i in found}
        drafts: list[SectionDraft | None] = []
        for index, (_, kind, flags, _, _, size, _, _, align, entry) in enumerate(obj.sections):
            left_out = kind in _TABLES or not kind or index in dropped
            left_out = left_out or bool(flags & c.SHF_COMPRESSED)
            if left_out or (loaded and not flags & c.SHF_ALLOC):
                drafts.append(None)
                continue
            name, content = obj.section_name(index), obj.content(index)
            if align & (align - 1) or align > _MOST_ALIGNED or size > _LARGEST:
                raise LinkError(
                    f"{label}: section {name} has {size} bytes aligned to {align}, which cannot be"
                )
            section = SectionDraft(name, kind, flags, content, size, align, entry)
            self.sections.append(section)
            drafts.append(section)
        for draft, (_, _, flags, _, _, _, link, _, _, _) in zip(drafts, obj.sections, strict=True):
            if draft is not None and flags & c.SHF_LINK_ORDER and link < len(drafts):
                draft.link = drafts[link]
        symbols = self._add_symbols(obj, drafts, label)
        for index, table in obj.tables.items():
            draft = drafts[index]
            if draft is not None and table:
                words, halves = array("Q", table), array("I", table)
                offsets = words[::3].tolist()
                beyond = max(halves[RELA_SYMBOLS]) >= len(symbols)
                if beyond or max(offsets) + _WIDEST > draft.size:
                    _check(obj, label, index, words, draft.size)
                if draft.flags & c.SHF_ALLOC:
                    _check_apart(words, halves[RELA_TYPES], offsets, f"{label}: {draft.name}")
                draft.read(words, halves, symbols)
        for name, signature, members in signatures:
            if name not in self.groups:
                kept = [d for i in members if i < len(drafts) and (d := drafts[i]) is not None]
                self.groups[name] = symbols[signature], kept

    def _add_symbols(
        self, obj: ElfObject, drafts: list[SectionDraft | None], label: str
    ) -> list[SymbolDraft]:
        """Add what the entries of its symbol table become."""
        found: list[SymbolDraft] = []
        known, added = self.globals, self.symbols
        texts = obj.symbol_texts
        index = -1
        for _, info, other, section, value, size in obj.symbols:
            index += 1
            where: SectionDraft | int = section
            gone = False
            if 0 < section < c.SHN_LORESERVE:
                draft = drafts[section]
                where, gone = draft or 0, draft is None
            name = texts[index]
            if info >> 4 == c.STB_LOCAL:
                if gone:
                    found.append(self._gone())
                    continue
                if name is None:
                    name = "" if info & 15 == c.STT_SECTION else obj.symbol_name(index)
                symbol = SymbolDraft(name, info, other, where, value, size, label)
                added.append(symbol)
            else:
                if name is None:
                    name = obj.symbol_name(index)
                if gone:  # in a group that another object has: that one's definition
                    value = size = 0
                if name not in known:
                    symbol = SymbolDraft(name, info, other, where, value, size, label)
                    known[name] = symbol
                    added.append(symbol)
                elif where == 0 and not other & 3:  # most are of this kind
                    symbol = known[name]
                    _refer(symbol, info)
                else:
                    symbol = known[name]
                    _merge(symbol, SymbolDraft(name, info, other, where, value, size, label))
            found.append(symbol)
        return found

    def _gone(self) -> SymbolDraft:
        """The symbol for what refers into sections that were left out: it is not loaded."""
        if self._nowhere is None:
            section = SectionDraft(".dropped", c.SHT_PROGBITS, 0, b"", 0, 1)
            self.sections.append(section)
            self._nowhere = self.add_symbol("", c.STT_SECTION, section)
        return self._nowhere

    def add_section(
        self, name: str, flags: int, content: bytes | bytearray, align: int = 16,
        kind: int = c.SHT_PROGBITS,
    ) -> SectionDraft:  # fmt: skip
        """One more section, with bytes."""
        section = SectionDraft(name, kind, flags, content, len(content), align)
        self.sections.append(section)
        return section

    def add_symbol(
        self, name: str, kind: int, section: SectionDraft | int, value: int = 0, size: int = 0
    ) -> SymbolDraft:
        """One more symbol, which no other object sees."""
        symbol = SymbolDraft(name, kind, 0, section, value, size)
        self.symbols.append(symbol)
        return symbol

    # -- writing ---------------------------------------------------------------------------------

    def write(self) -> bytes:
        """The bytes of the object."""
        related = [s for s in self.sections if s.is_related]
        groups = [(s, m) for s, m in self.groups.values() if m]
        numbers = {s: 1 + len(groups) + i for i, s in enumerate(self.sections)}
        relas = {s: 1 + len(groups) + len(self.sections) + i for i, s in enumerate(related)}
        tables = 1 + len(groups) + len(self.sections) + len(related)
        ordered, local = self._ordered()
        at = _Numbers(ordered)
        strings, string_table = _string_table([s.name for s in ordered])
        names, name_table = _string_table(
            [
                ".group", *[s.name for s in self.sections], *[".rela" + s.name for s in related],
                ".symtab", ".strtab", ".symtab_shndx", ".shstrtab",
            ]
        )  # fmt: skip
        symbols, extended = _symbol_table([
            (
                strings[s.name], s.info, s.other,
                s.section if s.section.__class__ is int else numbers[s.section],  # type: ignore[index]
                s.value, s.size,
            )
            for s in ordered
        ])  # fmt: skip
        count = tables + 3 + bool(extended)
        out = bytearray(64)
        headers: list[SectionTuple] = []

        def put(
            name: str, head: _Head, content: bytes | bytearray, size: int | None = None
        ) -> None:
            kind, flags, link, info, align, entry = head
            out.extend(bytes(-len(out) % max(align, 1)))
            total = len(content) if size is None else size
            headers.append((names[name], kind, flags, 0, len(out), total, link, info, align, entry))
            out.extend(content)

        for signature, members in groups:
            words = [c.GRP_COMDAT, *(numbers[m] for m in members)]
            words += [relas[m] for m in members if m in relas]
            content = struct.pack(f"<{len(words)}I", *words)
            put(".group", _Head(c.SHT_GROUP, 0, tables, at.index[signature], 4, 4), content)
        for s in self.sections:
            link = numbers[s.link] if s.link is not None else 0
            flags = s.flags if s.link is not None else s.flags & ~c.SHF_LINK_ORDER
            size = s.size if s.type == c.SHT_NOBITS else None
            put(s.name, _Head(s.type, flags, link, 0, s.align, s.entry_size), s.content, size)
        for s in related:
            flags = c.SHF_INFO_LINK | (s.flags & c.SHF_GROUP)
            put(".rela" + s.name, _Head(c.SHT_RELA, flags, tables, numbers[s], 8, 24), s.rows(at))
        put(".symtab", _Head(c.SHT_SYMTAB, 0, tables + 1, local, 8, 24), symbols)
        put(".strtab", _Head(c.SHT_STRTAB, align=1), string_table)
        if extended:
            put(".symtab_shndx", _Head(c.SHT_SYMTAB_SHNDX, 0, tables, 0, 4, 4), extended)
        put(".shstrtab", _Head(c.SHT_STRTAB, align=1), name_table)
        out.extend(bytes(-len(out) % 8))
        wide = count >= c.RESERVED
        first = (0, 0, 0, 0, 0, count if wide else 0, count - 1 if wide else 0, 0, 0, 0)
        ident = b"\x7fELF\2\1\1" + bytes(9)
        HEADER.pack_into(
            out, 0, ident, c.ET_REL, self._machine, 1, 0, 0, len(out), 0, 64, 0, 0, 64,
            0 if wide else count, c.SHN_XINDEX if wide else count - 1,
        )  # fmt: skip
        out += b"".join([SECTION.pack(*header) for header in (first, *headers)])
        return bytes(out)

    def _ordered(self) -> tuple[list[SymbolDraft], int]:
        """The symbols as a table has them, the local ones first, and how many are local."""
        ordered = [s for s in self.symbols if s.info >> 4 == c.STB_LOCAL]
        local = len(ordered)
        ordered += [s for s in self.symbols if s.info >> 4 != c.STB_LOCAL]
        if not ordered or ordered[0].name or ordered[0].info or ordered[0].section != 0:
            ordered.insert(0, SymbolDraft("", 0, 0, 0, 0, 0))
            local += 1
        return ordered, local


def _check(obj: ElfObject, label: str, section: int, words: array[int], size: int) -> None:
    """Raises LinkError for relocations of nothing, or against nothing."""
    count, last = len(obj.symbols), size - _WIDEST
    infos = words[1::3]
    doubtful = [n for n, offset in enumerate(words[::3]) if offset > last]
    if max(infos) >> 32 >= count:
        doubtful += [n for n, info in enumerate(infos) if info >> 32 >= count]
    for number in doubtful:
        offset, info = words[3 * number], infos[number]
        row = TABLE.get(info & _TYPE)
        if info >> 32 < count and offset + (row.field if row is not None else 0) <= size:
            continue
        where = f"{label}: {obj.section_name(section)}+{offset:#x}"
        if info >> 32 >= count:
            raise LinkError(f"{where}: a relocation against symbol {info >> 32} of {count}")
        raise LinkError(f"{where}: the section ends before the field of a relocation: {size} bytes")


def _check_apart(words: array[int], types: array[int], offsets: list[int], where: str) -> None:
    """Each field is written for one relocation: psABI 4.4.1 knows no others for this machine."""
    ordered = sorted(offsets)
    apart = min(map(sub, ordered[1:], ordered), default=_FAR_APART)
    if apart >= _FAR_APART:
        return
    kinds = set(types)
    widest = max([row.field if (row := TABLE.get(kind)) is not None else 0 for kind in kinds])
    if apart >= widest:
        some = not kinds.isdisjoint(_BEFORE)
        begun = [n for n, kind in enumerate(types) if kind in _BEFORE] if some else []
        if all(_is_apart(ordered, offsets[n], types[n], widest) for n in begun):
            return
    end = -3
    for offset, info, _ in sorted(RELA.iter_unpack(words)):
        if (row := TABLE.get(info & _TYPE)) is None:
            continue
        if offset - _BEFORE.get(row.number, 0) < end:
            raise LinkError(f"{where}+{offset:#x}: two relocations of one field")
        end = offset + row.field


def _is_apart(offsets: list[int], offset: int, type: int, widest: int) -> bool:
    """True if the bytes before a field that are written with it are in no field of the others, at
    these offsets, in order."""
    number = bisect_left(offsets, offset)
    return not number or offset - _BEFORE[type] >= offsets[number - 1] + widest


def _string_table(texts: Iterable[str]) -> tuple[dict[str, int], bytes]:
    """The places of texts in a table that has each once, and the table."""
    found = dict.fromkeys(["", *texts], 0)
    raw = [text.encode("utf-8", "surrogateescape") for text in found]
    places = accumulate([len(text) + 1 for text in raw], initial=0)
    return dict(zip(found, places, strict=False)), b"\0".join([*raw, b""])


def _symbol_table(symbols: list[SymbolTuple]) -> tuple[bytes, bytes]:
    """The table, and the one beside it of section indices that 16 bits cannot hold, if any."""
    if all(section < c.RESERVED for _, _, _, section, _, _ in symbols):
        return b"".join([SYMBOL.pack(*row) for row in symbols]), b""
    rows: list[bytes] = []
    extended: dict[int, int] = {}
    for at, (name, info, other, section, value, size) in enumerate(symbols):
        if section >= c.SHN_LORESERVE:
            section -= c.SHN_LORESERVE - c.RESERVED
        elif section >= c.RESERVED:
            extended[at], section = section, c.SHN_XINDEX
        rows.append(SYMBOL.pack(name, info, other, section, value, size))
    words = [extended.get(i, 0) for i in range(len(symbols))] if extended else []
    return b"".join(rows), struct.pack(f"<{len(words)}I", *words)


def _refer(known: SymbolDraft, info: int) -> None:
    """Let a symbol stand for one of its name that is not defined, too."""
    if known.section == 0 and known.info >> 4 == c.STB_WEAK and info >> 4 != c.STB_WEAK:
        known.info = info


def _merge(known: SymbolDraft, fresh: SymbolDraft) -> None:
    """Let one symbol stand for two of a name."""
    if fresh.other & 3:  # gABI: the strictest
        known.other = known.other & ~3 | min(v for v in (known.other & 3, fresh.other & 3) if v)
    weak, was_weak = fresh.info >> 4 == c.STB_WEAK, known.info >> 4 == c.STB_WEAK
    if fresh.section == 0:
        _refer(known, fresh.info)
        return
    common, was_common = fresh.section in COMMON, known.section in COMMON
    if known.is_defined:
        if common and was_common:
            known.value, known.size = max(known.value, fresh.value), max(known.size, fresh.size)
            return
        if weak or (common and not was_weak):
            return
        if not was_weak and not was_common:
            raise LinkError(
                f"{written(known.name)} is defined in {known.origin} and in {fresh.origin}"
            )
    other = known.other
    for name in ("info", "section", "value", "size", "origin"):
        setattr(known, name, getattr(fresh, name))
    known.other = other
