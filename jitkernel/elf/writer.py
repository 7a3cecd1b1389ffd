"""A relocatable object that was put together: records to bytes.  Start from `BuiltObject`.

Whoever places it needs the records alone; its bytes are for whoever keeps it, and put together when
somebody asks for them.  Layouts: System V gABI, chapter 4 (object files).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property, partial

from jitkernel.elf import constants as c
from jitkernel.elf.constants import HEADER, RELA, SECTION, SYMBOL
from jitkernel.elf.reader import ElfObject, SectionTuple, SymbolTuple
from jitkernel.elf.relocations import Relocations

_Content = bytes | bytearray | Callable[[], bytes]


class BuiltObject(ElfObject):
    """Sections one behind the other, as they are `put`, those of the symbols at the `end`.

    `shared` are the names of the symbols that are not local, as the table `strings` has them.
    """

    def __init__(
        self,
        machine: int,
        symbols: list[SymbolTuple],
        local: int,
        strings: bytes,
        shared: list[str],
        kind: int = c.ET_REL,
    ):
        self._kind, self._shared = kind, shared
        self.machine, self.symbols, self.locals, self.strings = machine, symbols, local, strings
        self.sections: list[SectionTuple] = [(0,) * 10]
        self.tables: dict[int, Relocations] = {}
        self.groups: list[tuple[int, list[int]]] = []
        self._contents: list[_Content] = [b""]
        self._names: dict[str, int] = {}  # of sections, with their places in the table of those
        self._end, self._length = HEADER.size, 1

    def put(self, name: str, content: _Content, head: SectionTuple) -> None:
        """One more section; of its header the name and the place are filled in."""
        _, kind, flags, address, _, size, link, info, align, entry = head
        place = self._names.get(name)
        if place is None:
            place = self._names[name] = self._length
            self._length += len(_raw(name)) + 1
        at = self._end
        at += -at % (align or 1)
        self.sections.append((place, kind, flags, address, at, size, link, info, align, entry))
        self._contents.append(content)
        self._end = at if kind == c.SHT_NOBITS else at + size

    def put_relocations(self, name: str, rows: Relocations, flags: int, link: int, of: int) -> None:
        """One more section: relocations of section `of`, against the symbols of section `link`."""
        self.tables[of] = rows
        size = RELA.size * len(rows)
        head = 0, c.SHT_RELA, flags, 0, 0, size, link, of, 8, RELA.size
        self.put(name, lambda: rows.table, head)

    def put_group(self, signature: int, members: list[int], link: int) -> None:
        """One more section: a COMDAT group, called as a symbol of section `link`."""
        self.groups.append((signature, members))
        words = struct.pack(f"<{1 + len(members)}I", c.GRP_COMDAT, *members)
        self.put(".group", words, (0, c.SHT_GROUP, 0, 0, 0, len(words), link, signature, 4, 4))

    def end(self) -> None:
        """Put the tables of symbols and of names."""
        put, symbols, strings = self.put, self.symbols, self.strings
        number, size = len(self.sections), len(symbols)
        rows, beside = partial(_symbol_table, symbols), partial(_extended, symbols)
        put(
            ".symtab", rows,
            (0, c.SHT_SYMTAB, 0, 0, 0, 24 * size, number + 1, self.locals, 8, SYMBOL.size),
        )  # fmt: skip
        put(".strtab", strings, (0, c.SHT_STRTAB, 0, 0, 0, len(strings), 0, 0, 1, 0))
        if number > c.RESERVED and any(c.RESERVED <= s[3] < c.SHN_LORESERVE for s in symbols):
            head = 0, c.SHT_SYMTAB_SHNDX, 0, 0, 0, 4 * size, number, 0, 4, 4
            put(".symtab_shndx", beside, head)
        length = self._length + len(".shstrtab") + 1
        put(".shstrtab", b"", (0, c.SHT_STRTAB, 0, 0, 0, length, 0, 0, 1, 0))
        self.names = b"\0".join([b"", *map(_raw, self._names), b""])
        self._contents[-1] = self.names
        if (count := len(self.sections)) >= c.RESERVED:  # gABI "ELF Header", e_shnum
            self.sections[0] = 0, 0, 0, 0, 0, count, count - 1, 0, 0, 0

    def content(self, index: int) -> bytes:
        """The bytes of section `index`; none for SHT_NOBITS."""
        content = self._contents[index]
        if callable(content):
            return content()
        return content if isinstance(content, bytes) else bytes(content)

    def __len__(self) -> int:
        """The number of its bytes."""
        return self._end + -self._end % 8 + SECTION.size * len(self.sections)

    @cached_property
    def data(self) -> bytes:
        """The object's bytes."""
        sections, at = self.sections, HEADER.size
        parts: list[bytes] = []
        for index, (_, kind, _, _, offset, size, _, _, _, _) in enumerate(sections):
            if index and kind != c.SHT_NOBITS:
                parts += (bytes(offset - at), self.content(index))
                at = offset + size
        gap = -at % 8
        wide = len(sections) >= c.RESERVED
        count = len(sections)
        ident = b"\x7fELF\2\1\1" + bytes(9)
        header = HEADER.pack(
            ident, self._kind, self.machine, 1, 0, 0, at + gap, 0, 64, 0, 0, 64,
            0 if wide else count, c.SHN_XINDEX if wide else count - 1,
        )  # fmt: skip
        return b"".join([header, *parts, bytes(gap), *[SECTION.pack(*row) for row in sections]])


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _symbol_table(symbols: Sequence[SymbolTuple]) -> bytes:
    """The symbols as a file has them."""
    pack, rows = SYMBOL.pack, []
    for name, info, other, section, value, size in symbols:
        if section >= c.SHN_LORESERVE:
            section -= c.SHN_LORESERVE - c.RESERVED
        elif section >= c.RESERVED:
            section = c.SHN_XINDEX
        rows.append(pack(name, info, other, section, value, size))
    return b"".join(rows)


def _extended(symbols: Sequence[SymbolTuple]) -> bytes:
    """The section indices that 16 bits cannot hold: a table beside that of the symbols."""
    words = [s[3] if c.RESERVED <= s[3] < c.SHN_LORESERVE else 0 for s in symbols]
    return struct.pack(f"<{len(words)}I", *words)
