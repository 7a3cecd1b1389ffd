"""Bytes of an ELF64 relocatable file to records.  Start from `read_object`.

It reads tables and checks that they lie inside the file and point into each other; what
relocations mean is the linker's business.  Layouts: System V gABI, chapter 4 (object files).  The
path is plain, `iter_unpack` over the tables, because every cell goes through it.
"""

from __future__ import annotations

import struct
from functools import cached_property

from jitkernel.elf import constants as c
from jitkernel.elf.constants import HEADER, RELA, SECTION, SYMBOL
from jitkernel.elf.relocations import Relocations, RelocationTuple
from jitkernel.errors import LinkError
from jitkernel.record import NamedTuple

_WORD = struct.Struct("<I")
_RELA_SIZE = RELA.size
_REFUSED = {
    c.SHT_REL: "SHT_REL relocations are not used on this machine",
    c.SHT_CREL: "its relocations are compact (CREL): assemble it without --crel",
}

#: A section header as the file has it; `Section` names the fields.
SectionTuple = tuple[int, int, int, int, int, int, int, int, int, int]
#: A symbol table entry as the file has it; `SymbolEntry` names the fields.
SymbolTuple = tuple[int, int, int, int, int, int]
_LOCAL = bytes(range(16))  # what `info` of a local symbol may be


class Section(NamedTuple):
    """A section header (gABI "Section Header"); `name` is an offset into the section names."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class SymbolEntry(NamedTuple):
    """A symbol table entry (gABI "Symbol Table"); `name` is an offset into the symbol names."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


class ElfObject:
    """A relocatable object: `sections`, `symbols`, and `tables` of relocations by section index.

    Sections and symbols are plain tuples in the order of `Section` and `SymbolEntry`, symbols with
    a section index that exists or is one of `constants` (from SHN_LORESERVE on).  `locals` is how
    many of the symbols, from the first on, are local.  `tables[i]` are the relocations to apply to
    section i.  `groups` are COMDAT groups as `(signature symbol index, member section indices)`.

    It is read where it is in `file`, from `at` on, of which it takes `size` bytes.
    """

    _shared: list[str] | None = None

    def __init__(self, file: bytes, at: int, size: int):
        self._file, self._at, self._size = file, at, size
        self._shared = None
        self.machine, offset, count, names = _header(file, at, size)
        offset += at
        self.sections: list[SectionTuple] = [
            *SECTION.iter_unpack(file[offset : offset + 64 * count])
        ]
        self.symbols: list[SymbolTuple] = []
        self.locals = 0
        self.tables: dict[int, Relocations] = {}
        self.groups: list[tuple[int, list[int]]] = []
        self.strings = b""
        extended = b""
        highest = 0
        index = -1
        for _, kind, _, _, start, length, link, info, _, _ in self.sections:
            index += 1
            if kind == c.SHT_NOBITS or kind == 0:
                continue
            if start + length > size:
                raise LinkError(f"section {index} lies outside the file")
            if kind == c.SHT_PROGBITS:
                continue
            start += at
            if kind == c.SHT_RELA:
                if info >= count:
                    raise LinkError(f"section {index} relocates section {info}, which is not there")
                if length % _RELA_SIZE:
                    raise LinkError(f"section {index} has {length} bytes of relocations")
                before = self.tables[info].table if info in self.tables else b""
                self.tables[info] = Relocations(before + file[start : start + length])
            elif kind == c.SHT_SYMTAB:
                self.strings = self._bytes(link)
                highest = self._read_symbols(file[start : start + length])
            elif kind == c.SHT_GROUP:
                words = [w for (w,) in _WORD.iter_unpack(file[start : start + length])]
                if words and words[0] & c.GRP_COMDAT:
                    self.groups.append((info, words[1:]))
            elif kind == c.SHT_SYMTAB_SHNDX:
                extended = file[start : start + length]
            elif kind in _REFUSED:
                raise LinkError(_REFUSED[kind])
        self.names = self._bytes(names)
        if highest >= min(count, c.RESERVED):
            self._place_symbols(extended)
        if self.groups:
            self._check_groups()

    @property
    def data(self) -> bytes:
        """The object's bytes."""
        return self._file[self._at : self._at + self._size]

    def __len__(self) -> int:
        """The number of its bytes."""
        return self._size

    def _bytes(self, section: int) -> bytes:
        """The bytes of a section, as far as they lie in the object."""
        _, _, _, _, offset, size, _, _, _, _ = self.sections[section]
        begin = self._at + offset
        return self._file[begin : min(begin + size, self._at + self._size)]

    def _read_symbols(self, table: bytes) -> int:
        """Read the table of symbols; the highest section index that it has."""
        self.symbols = [*SYMBOL.iter_unpack(table)]
        last = max(memoryview(table).cast("I")[::6].tolist(), default=0)
        if last and last >= len(self.strings):
            raise LinkError(f"a name at {last} does not end inside its string table")
        infos = table[4::24]
        self.locals = len(infos) - len(infos.lstrip(_LOCAL))
        if min(infos[self.locals :], default=16) < 16:
            raise LinkError("symbols that are local are behind others")
        return max(memoryview(table).cast("H")[3::12].tolist(), default=0)

    def _place_symbols(self, extended: bytes) -> None:
        """See to symbols whose section's number is reserved, or in another table."""
        first = min(len(self.sections), c.RESERVED)
        for index, symbol in enumerate(self.symbols):
            if symbol[3] >= first:
                self.symbols[index] = self._placed(index, symbol, extended)

    def _check_groups(self) -> None:
        for signature, _ in self.groups:
            if signature >= len(self.symbols):
                raise LinkError(f"a group is named by symbol {signature}, which is not there")

    def _placed(self, index: int, symbol: SymbolTuple, extended: bytes) -> SymbolTuple:
        """A symbol whose section's number is none of the file's first 65,280."""
        name, info, other, section, value, size = symbol
        if section == c.SHN_XINDEX:  # gABI "Sections", SHT_SYMTAB_SHNDX
            section = _WORD.unpack_from(extended, 4 * index)[0]
        elif section >= c.RESERVED:
            return name, info, other, section - c.RESERVED + c.SHN_LORESERVE, value, size
        if section >= len(self.sections):
            raise LinkError(f"a symbol lies in section {section} of {len(self.sections)}")
        return name, info, other, section, value, size

    @cached_property
    def relocations(self) -> dict[int, list[RelocationTuple]]:
        """By section index `(offset, info, addend)` of each relocation, read when asked for."""
        return {index: [*table] for index, table in self.tables.items()}

    def section(self, index: int) -> Section:
        """Section header `index`, its fields by name."""
        return Section._make(self.sections[index])

    def symbol(self, index: int) -> SymbolEntry:
        """Symbol table entry `index`, its fields by name."""
        return SymbolEntry._make(self.symbols[index])

    def section_name(self, index: int) -> str:
        """The name of section `index`."""
        return _text(self.names, self.sections[index][0])

    def symbol_name(self, index: int) -> str:
        """The name of symbol `index`; that of its section for a section symbol."""
        name, info, _, section, _, _ = self.symbols[index]
        if info & 15 == c.STT_SECTION and section < len(self.sections):
            return self.section_name(section)
        return _text(self.strings, name)

    @property
    def shared_names(self) -> list[str]:
        """The names of the symbols that are not local, from symbol `locals` on."""
        if self._shared is None:
            first, table = self.locals, self.strings
            if table.isascii() and table.endswith(b"\0"):  # as nearly always: cut out of one text
                text = table.decode("ascii")
                find = text.find
                self._shared = [
                    text[name : find("\0", name)]
                    if info & 15 != c.STT_SECTION
                    else self.symbol_name(index)
                    for index, (name, info, _, _, _, _) in enumerate(self.symbols[first:], first)
                ]
            else:
                names = range(first, len(self.symbols))
                self._shared = [self.symbol_name(index) for index in names]
        return self._shared

    def content(self, index: int) -> bytes:
        """The bytes of section `index`; none for SHT_NOBITS."""
        _, kind, _, _, offset, size, _, _, _, _ = self.sections[index]
        begin = self._at + offset
        end = begin if kind == c.SHT_NOBITS else min(begin + size, self._at + self._size)
        return self._file[begin:end]


def _header(data: bytes, at: int, size: int) -> tuple[int, int, int, int]:
    """The machine, where the section headers are, how many, and which has their names."""
    if data[at : at + 4] != b"\x7fELF":
        raise LinkError(f"not an ELF object: it begins with {data[at : at + min(4, size)]!r}")
    if size < HEADER.size:
        raise LinkError(f"not a whole ELF object: it has {size} bytes")
    ident, kind, machine, _, _, _, offset, _, _, _, _, entry, count, names = (
        HEADER.unpack_from(data, at)
    )  # fmt: skip
    if ident[4] != 2 or ident[5] != 1:
        raise LinkError("not a 64-bit little-endian ELF object")
    if kind != c.ET_REL:
        raise LinkError(f"ELF type {kind} is not a relocatable object")
    if entry != 64:
        raise LinkError(f"section headers of {entry} bytes; 64 are expected")
    if offset and offset + 64 <= size and (count == 0 or names == c.SHN_XINDEX):
        # What 16 bits cannot hold is in the first header (gABI "ELF Header", e_shnum).
        first = SECTION.unpack_from(data, at + offset)
        count = count or first[5]
        names = first[6] if names == c.SHN_XINDEX else names
    if offset + 64 * count > size:
        raise LinkError("the section headers lie outside the file")
    return machine, offset, count, names


def read_object(data: bytes, at: int = 0, size: int | None = None) -> ElfObject:
    """Read a relocatable object, of `size` bytes from `at` on.  Raises `LinkError` for anything
    else."""
    try:
        return ElfObject(data, at, len(data) - at if size is None else size)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise LinkError(f"not a whole ELF object: {error}") from error


def _text(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if end < 0 or offset > len(table):
        raise LinkError(f"a name at {offset} does not end inside its string table")
    return table[offset:end].decode("utf-8", "surrogateescape")
