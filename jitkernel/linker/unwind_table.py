"""The table by which the unwinder of the program's process finds a function's record.

`libgcc` would make such a table itself: it walks what is registered, counts, sorts and keeps a
copy, when a thread first looks for something; and frees the copy where that is deregistered, with
no regard to threads that look into it.  Neither can be had while threads throw and code comes.
So one *object* is registered when the process starts, for all of the text and for good
(executor/child.py, `KnownCode`), and what it points at is made here, sorted already: one table
after the other in the region `unwind.table`.

The rule, for all that threads may look at while it changes (`Engine.tell_unwind` follows it):

1. records and code are written, while nobody can reach the code
2. the table that lists them is `publish`ed: behind the end of the one in use, or as another one
3. the runtime points the object there (native/serve.ll, `renew_unwind`)
4. threads go on, and may reach the code
5. records and code go when no thread is left that was there before (`Arena.defer`), so that a
   table that was in use lists nothing that is gone

A table that was in use is not written over before many others have been made, or, where only one
thread runs, another one.  Source: GCC, libgcc/unwind-dw2-fde.h, `struct object` and `fde_vector`,
which every program's start-up code has had room for since GCC 3.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from jitkernel.arena import Arena
from jitkernel.errors import ArenaFull

#: struct fde_vector: what was registered, which matters where it is deregistered; the number
_HEAD = struct.Struct("<QQ")
_COUNT = struct.Struct("<Q")
_SIZE, _LEAST = 8, 4096  # bytes of an entry; the least that a table has room for
_TABLES = 4  # that there is room for: so another one fits beside that in use
_FEW = 64  # entries that are put in one by one
#: struct object: bits of its word `s`, and the encoding of most records' addresses (DW_EH_PE)
_SORTED, _MIXED, _ENCODING, _PC_RELATIVE = 1, 4, 3, 0x1B

#: A function: where it begins, and the address of its FDE.
Row = tuple[int, int]


class UnwindTable:
    """Functions in order of address, and the tables made of them.

    `address` is where the last one is, 0 while there is none; `flags` is what the unwinder has to
    know of it.
    """

    def __init__(self, arena: Arena):
        self._arena = arena
        self._area = next(r for r in arena.regions if r.name == "unwind.table")
        #: so many functions at most: a quarter of the region
        self.most = ((self._area.stop - self._area.start) // _TABLES - _HEAD.size) // _SIZE
        self.starts, self.fdes = array("Q"), array("Q")
        self.address, self.flags = 0, _SORTED | _PC_RELATIVE << _ENCODING
        self._used = self._room = 0  # bytes of entries, and what they may become

    def mix(self) -> None:
        """From now on records are asked one by one how they write addresses."""
        if not self.flags & _MIXED:
            self.flags |= _MIXED
            self._room = 0  # the runtime has to say so before such a record is listed

    def full(self, more: int) -> ArenaFull:
        """The error where so many functions more would be too many."""
        return ArenaFull(
            f"the unwind zone has no room for the table of {len(self.fdes) + more} functions: "
            f"it has for {self.most}",
            "unwind", _SIZE * more,
        )  # fmt: skip

    def add(self, rows: list[Row]) -> None:
        """List functions."""
        if len(rows) > _FEW:
            self.list_all([*zip(self.starts, self.fdes, strict=True), *rows])
            return
        for start, fde in rows:
            at = bisect_right(self.starts, start)
            self.starts.insert(at, start)
            self.fdes.insert(at, fde)

    def remove(self, rows: Iterable[Row]) -> None:
        """List functions no more; those that are not listed are passed over."""
        for start, fde in rows:
            at = bisect_left(self.starts, start)
            while at < len(self.starts) and self.starts[at] == start:
                if self.fdes[at] == fde:
                    del self.starts[at], self.fdes[at]
                    break
                at += 1

    def list_all(self, rows: list[Row]) -> None:
        """List these and no others."""
        rows.sort()
        self.starts = array("Q", [start for start, _ in rows])
        self.fdes = array("Q", [fde for _, fde in rows])

    def find(self, address: int) -> int:
        """The FDE of the last function that begins at `address` or before; 0 where none does."""
        at = bisect_right(self.starts, address) - 1
        return self.fdes[at] if at >= 0 else 0

    def publish(self) -> None:
        """Make a table of what is listed, or add to the one in use what comes behind its end."""
        entries, view, at = self.fdes.tobytes(), self._arena.view, self.address - self._arena.base
        first, used = at + _HEAD.size, self._used
        if len(entries) <= self._room and entries[:used] == view[first : first + used]:
            view[first + used : first + len(entries)] = entries[used:]
            # last, and at once (`pack_into` makes it zero first): then they are found
            view[at + 8 : first] = _COUNT.pack(len(self.fdes))
        else:
            self._place(len(entries))
            at = self.address - self._arena.base
            _HEAD.pack_into(view, at, 0, len(self.fdes))
            view[at + _HEAD.size : at + _HEAD.size + len(entries)] = entries
        self._used = len(entries)

    def _place(self, size: int) -> None:
        """Find a place for entries of so many bytes, and some more, beside the table in use."""
        area, wanted = self._area, _HEAD.size + max(size + size // 4, _LEAST)
        first, last = self.address, self.address + _HEAD.size + self._room
        if not self.address:
            first = last = area.start
        places = [(area.start, first), (last, area.stop)]
        if self._arena.shared:  # go on round the area
            places.reverse()
        fitting = [place for place in places if place[1] - place[0] >= wanted]
        start, stop = fitting[0] if fitting else max(places, key=lambda p: p[1] - p[0])
        self.address, self._room = start, (min(stop - start, wanted) - _HEAD.size) & -_SIZE
