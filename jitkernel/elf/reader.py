"""Bytes of an ELF64 relocatable file to records.  Start from `read_object`.

It reads tables and checks that they lie inside the file; what relocations mean is the linker's
business.  Layouts: System V gABI, chapter 4 (object files).  The path is plain, `iter_unpack` over
the tables, because every cell goes through it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from jitkernel.elf import constants as c
from jitkernel.errors import LinkError

__all__ = ["ElfObject", "Section", "SymbolEntry", "read_object"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_WORD = struct.Struct("<I")


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
    """A relocatable object: `sections`, `symbols` and, by section index, `relocations`.

    `relocations[i]` are `(offset, info, addend)` to apply to section i.  `groups` are COMDAT
    groups as `(signature symbol index, member section indices)`.
    """

    __slots__ = ("data", "groups", "machine", "names", "relocations", "sections", "strings", "symbols")

    def __init__(self, data: bytes):
        self.data = data
        try:
            self._read(data)
        except (struct.error, IndexError, ValueError) as error:
            raise LinkError(f"not a whole ELF object: {error}") from error

    def _read(self, data: bytes) -> None:
        if data[:4] != b"\x7fELF":
            raise LinkError(f"not an ELF object: it begins with {data[:4]!r}")
        (ident, kind, machine, _, _, _, offset, _, _, _, _, entry, count, names) = _HEADER.unpack_from(data)
        if ident[4] != 2 or ident[5] != 1:
            raise LinkError("not a 64-bit little-endian ELF object")
        if kind != c.ET_REL:
            raise LinkError(f"ELF type {kind} is not a relocatable object")
        self.machine = machine
        if entry != 64:
            raise LinkError(f"section headers of {entry} bytes; 64 are expected")
        if count == 0 and offset:  # more sections than fit in the header: gABI "Section Header"
            count = _SECTION.unpack_from(data, offset)[5]
        if offset + 64 * count > len(data):
            raise LinkError("the section headers lie outside the file")
        sections = [*map(Section._make, _SECTION.iter_unpack(data[offset : offset + 64 * count]))]
        if names == c.SHN_XINDEX:
            names = sections[0].link
        self.sections = sections
        self.symbols: list[tuple[int, int, int, int, int, int]] = []
        self.relocations: dict[int, list[tuple[int, int, int]]] = {}
        self.groups: list[tuple[int, list[int]]] = []
        self.strings = b""
        extended: Section | None = None
        limit = len(data)
        for s in sections:
            kind = s.type
            if kind == c.SHT_NOBITS or kind == 0:
                continue
            start, size = s.offset, s.size
            if start + size > limit:
                raise LinkError(f"section {self.sections.index(s)} lies outside the file")
            if kind == c.SHT_RELA:
                self.relocations.setdefault(s.info, []).extend(_RELA.iter_unpack(data[start : start + size]))
            elif kind == c.SHT_SYMTAB:
                self.symbols = [*_SYMBOL.iter_unpack(data[start : start + size])]
                strings = sections[s.link]
                self.strings = data[strings.offset : strings.offset + strings.size]
            elif kind == c.SHT_GROUP:
                words = [w for (w,) in _WORD.iter_unpack(data[start : start + size])]
                if words and words[0] & c.GRP_COMDAT:
                    self.groups.append((s.info, words[1:]))
            elif kind == c.SHT_REL:
                raise LinkError("SHT_REL relocations are not used on this machine")
            elif kind == c.SHT_SYMTAB_SHNDX:
                extended = s
        if extended is not None:
            indices = data[extended.offset : extended.offset + extended.size]
            self.symbols = [
                s if s[3] != c.SHN_XINDEX else (*s[:3], index, *s[4:])
                for s, (index,) in zip(self.symbols, _WORD.iter_unpack(indices), strict=True)
            ]
        header = sections[names]
        self.names = data[header.offset : header.offset + header.size]

    def section_name(self, index: int) -> str:
        """The name of section `index`."""
        return _text(self.names, self.sections[index].name)

    def symbol_name(self, index: int) -> str:
        """The name of symbol `index`; that of its section for a section symbol."""
        symbol = self.symbols[index]
        if symbol[1] & 15 == c.STT_SECTION and symbol[3] < len(self.sections):
            return self.section_name(symbol[3])
        return _text(self.strings, symbol[0])

    def content(self, index: int) -> bytes:
        """The bytes of section `index`; none for SHT_NOBITS."""
        s = self.sections[index]
        return b"" if s.type == c.SHT_NOBITS else self.data[s.offset : s.offset + s.size]


def read_object(data: bytes) -> ElfObject:
    """Read a relocatable object.  Raises `LinkError` for anything else."""
    return ElfObject(data)


def _text(table: bytes, offset: int) -> str:
    end = table.index(b"\0", offset)
    return table[offset:end].decode("utf-8", "surrogateescape")
