"""The relocations of one section, one by one or by columns.  Start from `Relocations`.

Of a large object there are tens of thousands, and what is asked of them all is asked of a column:
in an archive that is linked as a whole that takes a third of what it takes to look at each.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import compress, count
from typing import NamedTuple

from jitkernel.elf.constants import RELA

#: A relocation as the file has it: offset, info, addend.
RelocationTuple = tuple[int, int, int]
_FEW = 12 * RELA.size  # bytes of a table that is read row by row: that begins at once


class Columns(NamedTuple):
    """The fields of relocations, each of all of them in file order; `symbols` are indices.

    `types` are bytes, but where one of them is more than 255.
    """

    offsets: list[int]
    types: bytes | array[int]
    symbols: list[int]
    addends: list[int]

    def symbols_of(self, kinds: frozenset[int]) -> set[int]:
        """The symbols that relocations of some types refer to."""
        return set(compress(self.symbols, self._are(kinds)))

    def numbers_of(self, kinds: frozenset[int]) -> Iterator[int]:
        """The numbers of the relocations of some types."""
        return compress(count(), self._are(kinds))

    def _are(self, kinds: frozenset[int]) -> Iterable[int]:
        """By relocation: not 0 where it is of one of the types."""
        if isinstance(self.types, bytes):
            return self.types.translate(_chosen(kinds))
        return [kind in kinds for kind in self.types]


class Relocations:
    """Relocations of a section in file order, `count` of them, of a file's `table` or of
    `columns`."""

    __slots__ = ("_columns", "_table", "count")

    def __init__(self, table: bytes = b"", columns: Columns | None = None):
        self._table, self._columns = table, columns
        self.count = len(table) // RELA.size if columns is None else len(columns[0])

    @property
    def columns(self) -> Columns:
        """All of them, by columns."""
        if self._columns is None:
            self._columns = _columns(self._table)
        return self._columns

    @property
    def table(self) -> bytes:
        """All of them as a file has them."""
        if not self._table and self._columns is not None:
            offsets, types, symbols, addends = self._columns
            halves = array("I", bytes(RELA.size * len(offsets)))
            halves[2::6], halves[3::6] = array("I", list(types)), array("I", symbols)
            words = array("q", halves.tobytes())
            words[::3], words[2::3] = array("q", offsets), array("q", addends)
            self._table = words.tobytes()
        return self._table

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[RelocationTuple]:
        if self._table or self._columns is None:
            return RELA.iter_unpack(self._table)
        offsets, types, symbols, addends = self._columns
        infos = [symbol << 32 | type for symbol, type in zip(symbols, types, strict=True)]
        return zip(offsets, infos, addends, strict=True)


def _columns(table: bytes) -> Columns:
    if 0 < len(table) <= _FEW:
        offsets, infos, addends = map(list, zip(*RELA.iter_unpack(table), strict=True))
        if max(kinds := [info & 0xFFFF_FFFF for info in infos]) < 256:
            return Columns(offsets, bytes(kinds), [info >> 32 for info in infos], addends)
    view = memoryview(table)
    words, halves = view.cast("Q"), view.cast("I")
    types: bytes | array[int] = table[8::24]
    wide = table[9::24] + table[10::24] + table[11::24]
    if wide != bytes(len(wide)):
        types = array("I", halves[2::6].tolist())
    addends = view.cast("q")[2::3].tolist()
    return Columns(words[::3].tolist(), types, halves[3::6].tolist(), addends)


@lru_cache(maxsize=16)
def _chosen(kinds: Collection[int]) -> bytes:
    """A table for `bytes.translate`: 1 for some bytes, 0 for all others."""
    return bytes([kind in kinds for kind in range(256)])
