"""A relocatable object that is put together, and several that become one (`ld -r`).

Start from `Builder`: `add` objects, change what is there, `write`.  Layouts: System V gABI, chapter
4 (object files); rules of what may be defined twice: gABI "Symbol Table", `ld` on common symbols.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from jitkernel.elf import constants as c
from jitkernel.elf.reader import ElfObject
from jitkernel.errors import LinkError
from jitkernel.ir.names import written
from jitkernel.linker.x86_64 import TABLE

__all__ = ["Builder", "Relocation", "SectionDraft", "SymbolDraft"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")

_TABLES = frozenset(
    (c.SHT_SYMTAB, c.SHT_STRTAB, c.SHT_RELA, c.SHT_REL, c.SHT_GROUP, c.SHT_SYMTAB_SHNDX)
)
_COMMON = (c.SHN_COMMON, c.SHN_X86_64_LCOMMON)
#: What is more is damaged: bytes of a section, and what it may be aligned to.
_LARGEST, _MOST_ALIGNED = 1 << 31, 1 << 20


@dataclass(slots=True, eq=False)
class SectionDraft:
    """A section: `content` are its bytes, `size` their number where it has none (SHT_NOBITS)."""

    name: str
    type: int
    flags: int
    content: bytes | bytearray
    size: int
    align: int
    entry_size: int = 0
    relocations: list[Relocation] = field(default_factory=list)
    #: of a section with SHF_LINK_ORDER: the one that it belongs to
    link: SectionDraft | None = None


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
        """Whether it is, if only as a common symbol."""
        return self.section != 0


#: offset in its section, relocation type, what it refers to, addend
Relocation = tuple[int, int, SymbolDraft, int]


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

        Of COMDAT groups of one name the first is taken.  Raises LinkError where a name has two
        strong definitions.
        """
        self._machine = obj.machine
        signatures = [(obj.symbol_name(s), s, members) for s, members in obj.groups]
        dropped = {i for name, _, found in signatures if name in self.groups for i in found}
        drafts: list[SectionDraft | None] = []
        for index, (_, kind, flags, _, _, size, _, _, align, entry) in enumerate(obj.sections):
            left_out = kind in _TABLES or not kind or index in dropped
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
        symbols = [self._symbol(obj, i, drafts, label) for i in range(len(obj.symbols))]
        for index, entries in obj.relocations.items():
            draft = drafts[index]
            if draft is None:
                continue
            for offset, info, addend in entries:
                if info >> 32 >= len(symbols):
                    raise LinkError(
                        f"{label}: {obj.section_name(index)}+{offset:#x}: a relocation against "
                        f"symbol {info >> 32} of {len(symbols)}"
                    )
                row = TABLE.get(info & 0xFFFF_FFFF)
                if offset + (row.field if row is not None else 0) > draft.size:
                    raise LinkError(
                        f"{label}: {obj.section_name(index)}+{offset:#x}: the section ends before "
                        f"the field of a relocation: {draft.size} bytes"
                    )
                found = symbols[info >> 32]
                draft.relocations.append((offset, info & 0xFFFF_FFFF, found, addend))
        for name, signature, members in signatures:
            if name not in self.groups:
                kept = [d for i in members if i < len(drafts) and (d := drafts[i]) is not None]
                self.groups[name] = symbols[signature], kept

    def _symbol(
        self, obj: ElfObject, index: int, drafts: list[SectionDraft | None], label: str
    ) -> SymbolDraft:
        """What a symbol table entry becomes."""
        _, info, other, section, value, size = obj.symbols[index]
        where: SectionDraft | int = section
        gone = False
        if 0 < section < c.SHN_LORESERVE:
            draft = drafts[section]
            where, gone = draft or 0, draft is None
        if info >> 4 == c.STB_LOCAL:
            if gone:
                return self._gone()
            name = "" if info & 15 == c.STT_SECTION else obj.symbol_name(index)
            symbol = SymbolDraft(name, info, other, where, value, size, label)
            self.symbols.append(symbol)
            return symbol
        name = obj.symbol_name(index)
        if gone:  # in a group that another object has: that one's definition
            value = size = 0
        fresh = SymbolDraft(name, info, other, where, value, size, label)
        known = self.globals.get(name)
        if known is None:
            self.globals[name] = fresh
            self.symbols.append(fresh)
            return fresh
        _merge(known, fresh)
        return known

    def _gone(self) -> SymbolDraft:
        """What refers into sections that were left out refers to: it is not loaded."""
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
        """The object."""
        related = [s for s in self.sections if s.relocations]
        groups = [(s, m) for s, m in self.groups.values() if m]
        numbers = {s: 1 + len(groups) + i for i, s in enumerate(self.sections)}
        relas = {s: 1 + len(groups) + len(self.sections) + i for i, s in enumerate(related)}
        tables = 1 + len(groups) + len(self.sections) + len(related)
        ordered = sorted(self.symbols, key=lambda s: s.info >> 4 != c.STB_LOCAL)
        if not ordered or ordered[0].name or ordered[0].info or ordered[0].section != 0:
            ordered.insert(0, SymbolDraft("", 0, 0, 0, 0, 0))
        index = {symbol: at for at, symbol in enumerate(ordered)}
        local = sum(s.info >> 4 == c.STB_LOCAL for s in ordered)
        names, strings = _Strings(), _Strings()
        symbols, extended = _symbol_table(ordered, numbers, strings)
        count = tables + 3 + bool(extended)
        out = bytearray(64)
        headers: list[tuple[int, ...]] = []

        def put(
            name: str, kind: int, flags: int, content: bytes | bytearray, link: int = 0,
            info: int = 0, align: int = 8, entry: int = 0, size: int | None = None,
        ) -> None:  # fmt: skip
            out.extend(bytes(-len(out) % max(align, 1)))
            total = len(content) if size is None else size
            headers.append(
                (names.add(name), kind, flags, 0, len(out), total, link, info, align, entry)
            )
            out.extend(content)

        for signature, members in groups:
            words = [c.GRP_COMDAT, *(numbers[m] for m in members)]
            words += [relas[m] for m in members if m in relas]
            content = struct.pack(f"<{len(words)}I", *words)
            put(".group", c.SHT_GROUP, 0, content, tables, index[signature], 4, 4)
        for s in self.sections:
            link = numbers[s.link] if s.link is not None else 0
            flags = s.flags if s.link is not None else s.flags & ~c.SHF_LINK_ORDER
            size = s.size if s.type == c.SHT_NOBITS else None
            put(s.name, s.type, flags, s.content, link, 0, s.align, s.entry_size, size)
        for s in related:
            if s.flags & c.SHF_ALLOC and any(sym not in index for _, _, sym, _ in s.relocations):
                raise LinkError(f"section {s.name} refers to a symbol that is nowhere")
            rows = b"".join(
                [
                    _RELA.pack(o, index.get(sym, 0) << 32 | kind, a)
                    for o, kind, sym, a in s.relocations
                ]
            )
            flags = c.SHF_INFO_LINK | (s.flags & c.SHF_GROUP)
            put(".rela" + s.name, c.SHT_RELA, flags, rows, tables, numbers[s], 8, 24)
        put(".symtab", c.SHT_SYMTAB, 0, symbols, tables + 1, local, 8, 24)
        put(".strtab", c.SHT_STRTAB, 0, bytes(strings.table), align=1)
        if extended:
            put(".symtab_shndx", c.SHT_SYMTAB_SHNDX, 0, extended, tables, 0, 4, 4)
        names.add(".shstrtab")
        put(".shstrtab", c.SHT_STRTAB, 0, bytes(names.table), align=1)
        out.extend(bytes(-len(out) % 8))
        wide = count >= c.RESERVED
        first = (0, 0, 0, 0, 0, count if wide else 0, count - 1 if wide else 0, 0, 0, 0)
        ident = b"\x7fELF\2\1\1" + bytes(9)
        _HEADER.pack_into(
            out, 0, ident, c.ET_REL, self._machine, 1, 0, 0, len(out), 0, 64, 0, 0, 64,
            0 if wide else count, c.SHN_XINDEX if wide else count - 1,
        )  # fmt: skip
        return bytes(out + b"".join(_SECTION.pack(*h) for h in [first, *headers]))


class _Strings:
    """A string table: each string is in it once."""

    def __init__(self) -> None:
        self.table = bytearray(b"\0")
        self._at: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        at = self._at.get(text)
        if at is None:
            at = self._at[text] = len(self.table)
            self.table += text.encode("utf-8", "surrogateescape") + b"\0"
        return at


def _symbol_table(
    symbols: list[SymbolDraft], numbers: dict[SectionDraft, int], strings: _Strings
) -> tuple[bytes, bytes]:
    """The table, and the one beside it of section indices that 16 bits cannot hold, if any."""
    rows: list[bytes] = []
    extended: dict[int, int] = {}
    for at, s in enumerate(symbols):
        if isinstance(s.section, int):
            section = s.section - c.SHN_LORESERVE + c.RESERVED if s.section else 0
        else:
            section = numbers[s.section]
            if section >= c.RESERVED:
                extended[at], section = section, c.SHN_XINDEX
        rows.append(_SYMBOL.pack(strings.add(s.name), s.info, s.other, section, s.value, s.size))
    words = [extended.get(i, 0) for i in range(len(symbols))] if extended else []
    return b"".join(rows), struct.pack(f"<{len(words)}I", *words)


def _merge(known: SymbolDraft, fresh: SymbolDraft) -> None:
    """Let one symbol stand for two of a name."""
    visibility = [v for v in (known.other & 3, fresh.other & 3) if v]
    known.other = known.other & ~3 | (min(visibility) if visibility else 0)  # gABI: the strictest
    weak, was_weak = fresh.info >> 4 == c.STB_WEAK, known.info >> 4 == c.STB_WEAK
    if not fresh.is_defined:
        if not known.is_defined and was_weak and not weak:
            known.info = fresh.info
        return
    common, was_common = fresh.section in _COMMON, known.section in _COMMON
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
