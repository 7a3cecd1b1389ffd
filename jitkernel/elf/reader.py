"""Bytes of an ELF64 relocatable file to records.  Start from `read_object`.

It reads tables and checks that they lie inside the file and point into each other; what
relocations mean is the linker's business.  Layouts: System V gABI, chapter 4 (object files).  The
path is plain, `iter_unpack` over the tables, because every cell goes through it.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import NamedTuple

from jitkernel.elf import constants as c
from jitkernel.elf.constants import HEADER, RELA, SECTION, SYMBOL
from jitkernel.errors import LinkError

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
#: A relocation as the file has it: offset, info, addend.
RelocationTuple = tuple[int, int, int]


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
    a section index that exists or is one of `constants` (from SHN_LORESERVE on).  `tables[i]` are
    the bytes of those to apply to section i, in file order: in large objects they are looked at in
    bulk.  `groups` are COMDAT groups as `(signature symbol index, member section indices)`.
    """

    def __init__(self, data: bytes):
        self.data = data
        self.machine, offset, count, names = _header(data)
        self.sections: list[SectionTuple] = [
            *SECTION.iter_unpack(data[offset : offset + 64 * count])
        ]
        self.symbols: list[SymbolTuple] = []
        self.tables: dict[int, bytes] = {}
        self.groups: list[tuple[int, list[int]]] = []
        self.strings = b""
        extended = b""
        limit = len(data)
        index = -1
        for _, kind, _, _, start, size, link, info, _, _ in self.sections:
            index += 1
            if kind == c.SHT_NOBITS or kind == 0:
                continue
            if start + size > limit:
                raise LinkError(f"section {index} lies outside the file")
            if kind == c.SHT_PROGBITS:
                continue
            if kind == c.SHT_RELA:
                if info >= count:
                    raise LinkError(f"section {index} relocates section {info}, which is not there")
                if size % _RELA_SIZE:
                    raise LinkError(f"section {index} has {size} bytes of relocations")
                table = data[start : start + size]
                self.tables[info] = self.tables[info] + table if info in self.tables else table
            elif kind == c.SHT_SYMTAB:
                self.symbols = [*SYMBOL.iter_unpack(data[start : start + size])]
                strings = self.sections[link]
                self.strings = data[strings[4] : strings[4] + strings[5]]
            elif kind == c.SHT_GROUP:
                words = [w for (w,) in _WORD.iter_unpack(data[start : start + size])]
                if words and words[0] & c.GRP_COMDAT:
                    self.groups.append((info, words[1:]))
            elif kind == c.SHT_SYMTAB_SHNDX:
                extended = data[start : start + size]
            elif kind in _REFUSED:
                raise LinkError(_REFUSED[kind])
        header = self.sections[names]
        self.names = data[header[4] : header[4] + header[5]]
        self._place_symbols(extended)

    def _place_symbols(self, extended: bytes) -> None:
        """See to symbols whose section's number is in another table, and to those of groups."""
        first = min(len(self.sections), c.RESERVED)
        for index, symbol in enumerate(self.symbols):
            if symbol[3] >= first:
                self.symbols[index] = self._placed(index, symbol, extended)
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
        return {index: [*RELA.iter_unpack(table)] for index, table in self.tables.items()}

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

    @cached_property
    def symbol_texts(self) -> list[str | None]:
        """The names of all symbols at once; None where `symbol_name` tells more: for a section's
        symbol, and where a name does not end."""
        table = self.strings
        if table.isascii() and table[-1:] == b"\0":
            text, limit = table.decode("ascii"), len(table)
            index = text.index
            return [
                text[name : index("\0", name)]
                if name < limit and info & 15 != c.STT_SECTION
                else None
                for name, info, _, _, _, _ in self.symbols
            ]
        return [
            None if (end := table.find(0, name)) < 0 or info & 15 == c.STT_SECTION
            else table[name:end].decode("utf-8", "surrogateescape")
            for name, info, _, _, _, _ in self.symbols
        ]  # fmt: skip

    def content(self, index: int) -> bytes:
        """The bytes of section `index`; none for SHT_NOBITS."""
        _, kind, _, _, offset, size, _, _, _, _ = self.sections[index]
        return b"" if kind == c.SHT_NOBITS else self.data[offset : offset + size]


def _header(data: bytes) -> tuple[int, int, int, int]:
    """The machine, where the section headers are, how many, and which has their names."""
    if data[:4] != b"\x7fELF":
        raise LinkError(f"not an ELF object: it begins with {data[:4]!r}")
    ident, kind, machine, _, _, _, offset, _, _, _, _, entry, count, names = (
        HEADER.unpack_from(data)
    )  # fmt: skip
    if ident[4] != 2 or ident[5] != 1:
        raise LinkError("not a 64-bit little-endian ELF object")
    if kind != c.ET_REL:
        raise LinkError(f"ELF type {kind} is not a relocatable object")
    if entry != 64:
        raise LinkError(f"section headers of {entry} bytes; 64 are expected")
    if offset and (count == 0 or names == c.SHN_XINDEX):
        # What 16 bits cannot hold is in the first header (gABI "ELF Header", e_shnum).
        first = SECTION.unpack_from(data, offset)
        count = count or first[5]
        names = first[6] if names == c.SHN_XINDEX else names
    if offset + 64 * count > len(data):
        raise LinkError("the section headers lie outside the file")
    return machine, offset, count, names


def read_object(data: bytes) -> ElfObject:
    """Read a relocatable object.  Raises `LinkError` for anything else."""
    try:
        return ElfObject(data)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise LinkError(f"not a whole ELF object: {error}") from error


def _text(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if end < 0 or offset > len(table):
        raise LinkError(f"a name at {offset} does not end inside its string table")
    return table[offset:end].decode("utf-8", "surrogateescape")
