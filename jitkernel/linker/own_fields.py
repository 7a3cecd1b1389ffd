"""Fields that refer to what their own object defines, many at once.

Such a field is final as soon as the object's place is known, and of a large object nearly all are
of this kind.  What they refer to is worked out once for each symbol and relocation type.  Start
from `OwnFields.write`; what it leaves is `Content.add_field`'s.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator

from jitkernel.arena import Arena
from jitkernel.linker.binding import Target
from jitkernel.linker.content import Entry
from jitkernel.linker.records import Symbol, SymbolState
from jitkernel.linker.resolution import Resolution
from jitkernel.linker.x86_64 import BRANCH, PC32

_I32, _U64 = struct.Struct("<i"), struct.Struct("<Q")
_ABSOLUTE = 1  # R_X86_64_64
_NEAR = 1 << 31
_TYPE, _WORD = 0xFFFF_FFFF, (1 << 64) - 1


#: What fields count from, an offset into the slab, and the words of the sites that are noted:
#: what is None is not written, or not noted, here.
_Place = tuple["int | None", "list[int] | None"]


class OwnFields(dict[int, _Place]):
    """By a relocation's info: how such fields are written."""

    def __init__(self, resolution: Resolution, arena: Arena):
        self._targets, self._exports = resolution.targets, resolution.exports
        self._base = arena.base
        #: whatever a call goes to, its field can hold the distance
        self._all_near = arena.capacity < _NEAR
        self._absolute: dict[int, int] = {}

    def __missing__(self, info: int) -> _Place:
        number, type = info >> 32, info & _TYPE
        target: Target | None = self._targets[number] if number < len(self._targets) else None
        found: _Place = None, None
        if isinstance(target, int):
            if type == PC32 or type == BRANCH:
                found = target - self._base, None
            elif type == _ABSOLUTE:
                self._absolute[info] = target
        elif target is not None and type == BRANCH:
            own = self._exports.get(target)
            if own is None:
                if self._all_near:
                    found = None, []
            elif own[0] is SymbolState.DEFINED:
                found = own[1] - self._base, []
        self[info] = found
        return found

    def write(self, entries: Iterable[Entry], buffer: bytearray, start: int) -> list[Entry]:
        """Write the fields into a section's bytes, which will be at `start` in the slab; the
        relocations of the others."""
        left: list[Entry] = []
        absolute, size = self._absolute, len(buffer) - 4
        pack_into, site = _I32.pack_into, start | BRANCH << 32
        for entry in entries:
            offset, info, addend = entry
            place, words = self[info]
            try:
                if place is not None:
                    pack_into(buffer, offset, place + addend - start - offset)
                    if words is not None:
                        words += site + offset, addend
                elif words is not None and addend == -4 and offset <= size:
                    words += site + offset, -4
                elif info in absolute:
                    _U64.pack_into(buffer, offset, absolute[info] + addend & _WORD)
                else:
                    left.append(entry)
            except struct.error:  # it does not fit its field, or that the section
                left.append(entry)
        return left

    def calls(self) -> Iterator[tuple[Symbol, list[int]]]:
        """Symbols of others, and where in the slab the fields of calls of them are, addend -4."""
        for info, (place, words) in self.items():
            symbol = self._targets[info >> 32] if words and place is None else None
            if words and isinstance(symbol, Symbol):
                yield symbol, [word & _TYPE for word in words[::2]]

    def uses(self) -> list[tuple[Symbol, bytes]]:
        """The symbols that were referred to, and packed sites of each."""
        found: list[tuple[Symbol, bytes]] = []
        for info, (_, words) in self.items():
            if words and isinstance(symbol := self._targets[info >> 32], Symbol):
                found.append((symbol, array("q", words).tobytes()))
        return found
