"""Fields that refer to what their own object defines, many at once.

Such a field is final as soon as the object's place is known, and of a large object nearly all are
of this kind.  What they refer to is worked out once for each symbol.  Start from
`OwnFields.write`; what it leaves is `Content.add_field`'s.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

from jitkernel.arena import Arena
from jitkernel.elf.relocations import Relocations
from jitkernel.linker.content import Entry
from jitkernel.linker.records import SITE, Symbol, SymbolState
from jitkernel.linker.resolution import Resolution
from jitkernel.linker.x86_64 import BRANCH, PC32

_I32, _U64 = struct.Struct("<i"), struct.Struct("<Q")
_ABSOLUTE = 1  # R_X86_64_64
_NEAR = 1 << 31
_WORD = (1 << 64) - 1
_CALL = array("I", SITE.pack(0, BRANCH, 0, 0, 0, -4))


class OwnFields:
    """By a symbol's number: where its fields lead, and the calls that are noted."""

    def __init__(self, resolution: Resolution, arena: Arena):
        self._targets, self._base = resolution.targets, arena.base
        #: an offset into the slab, None where that is not known yet, or its fields not for here
        self._places: list[int | None] = []
        #: where in the slab there are fields of calls with the usual addend, None where none are
        #: noted
        self._calls: list[list[int] | None] = []
        # Whatever a call goes to, its field can hold the distance.
        all_near = arena.capacity < _NEAR
        for target in self._targets:
            place: int | None = None
            noted: list[int] | None = None
            if target.__class__ is int:
                place = target - self._base
            elif target is not None:
                own = resolution.exports.get(target)  # type: ignore[arg-type]
                if own is None:
                    noted = [] if all_near else None
                elif own[0] is SymbolState.DEFINED:
                    place, noted = own[1] - self._base, []
            self._places.append(place)
            self._calls.append(noted)

    def write(self, table: Relocations, buffer: bytearray, start: int) -> list[Entry]:
        """Write the fields into a section's bytes, which will be at `start` in the slab; the
        relocations of the others."""
        columns = table.columns
        if max(columns.symbols) >= len(self._places):
            return [*table]
        left: list[Entry] = []
        places, calls, pack_into = self._places, self._calls, _I32.pack_into
        last, after = len(buffer) - 4, start + 4  # of a call's field
        for offset, type, number, addend in zip(*columns, strict=True):
            try:
                if (noted := calls[number]) is None:
                    if (place := places[number]) is not None:
                        if type == PC32 or type == BRANCH:
                            pack_into(buffer, offset, place + addend - start - offset)
                            continue
                        if type == _ABSOLUTE:
                            _U64.pack_into(buffer, offset, place + self._base + addend & _WORD)
                            continue
                elif type == BRANCH and addend == -4 and offset <= last:
                    if (place := places[number]) is not None:
                        pack_into(buffer, offset, place - after - offset)
                    noted.append(start + offset)
                    continue
            except struct.error:  # it does not fit its field, or that the section
                pass
            left.append((offset, number << 32 | type, addend))
        return left

    def calls(self) -> Iterator[tuple[Symbol, list[int]]]:
        """Symbols of others, and where in the slab the fields of calls of them are, addend -4."""
        for target, place, noted in zip(self._targets, self._places, self._calls, strict=True):
            if noted and place is None:
                yield target, noted  # type: ignore[misc]

    def uses(self) -> Iterator[tuple[Symbol, bytes]]:
        """The symbols that are called, and packed sites of each."""
        for target, noted in zip(self._targets, self._calls, strict=True):
            if noted:
                words = _CALL * len(noted)
                words[::4] = array("I", noted)
                yield target, words.tobytes()  # type: ignore[misc]
