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
from jitkernel.elf.constants import RELA, RELA_SYMBOLS, RELA_TYPES
from jitkernel.linker.content import Entry
from jitkernel.linker.records import Symbol, SymbolState
from jitkernel.linker.resolution import Resolution
from jitkernel.linker.x86_64 import BRANCH, PC32

_I32, _U64 = struct.Struct("<i"), struct.Struct("<Q")
_ABSOLUTE = 1  # R_X86_64_64
_NEAR = 1 << 31
_OFFSET, _WORD = 0xFFFF_FFFF, (1 << 64) - 1


class OwnFields:
    """By a symbol's number: where its fields lead, and the sites of calls that are noted."""

    def __init__(self, resolution: Resolution, arena: Arena):
        self._targets, self._base = resolution.targets, arena.base
        #: an offset into the slab, None where that is not known yet, or its fields not for here
        self._places: list[int | None] = []
        #: words of sites, None where none are noted
        self._sites: list[list[int] | None] = []
        # Whatever a call goes to, its field can hold the distance.
        all_near = arena.capacity < _NEAR
        for target in self._targets:
            place: int | None = None
            words: list[int] | None = None
            if isinstance(target, int):
                place = target - self._base
            elif target is not None:
                own = resolution.exports.get(target)
                if own is None:
                    words = [] if all_near else None
                elif own[0] is SymbolState.DEFINED:
                    place, words = own[1] - self._base, []
            self._places.append(place)
            self._sites.append(words)

    def write(self, table: bytes, buffer: bytearray, start: int) -> list[Entry]:
        """Write the fields into a section's bytes, which will be at `start` in the slab; the
        relocations of the others."""
        words, halves = array("Q", table), array("I", table)
        addends = array("q", table)[2::3].tolist()
        numbers = halves[RELA_SYMBOLS].tolist()
        if max(numbers) >= len(self._places):
            return [*RELA.iter_unpack(table)]
        left: list[int] = []
        places, sites, base, last = self._places, self._sites, self._base, len(buffer) - 4
        pack_into, site, n = _I32.pack_into, start | BRANCH << 32, -1
        for offset, type, number, addend in zip(
            words[::3].tolist(), halves[RELA_TYPES], numbers, addends, strict=True
        ):
            n += 1
            place, noted = places[number], sites[number]
            try:
                if type == BRANCH:
                    if place is not None:
                        pack_into(buffer, offset, place + addend - start - offset)
                        if noted is not None:
                            noted += site + offset, addend
                    elif noted is not None and addend == -4 and offset <= last:
                        noted += site + offset, -4
                    else:
                        left.append(n)
                elif place is None or noted is not None:
                    left.append(n)
                elif type == PC32:
                    pack_into(buffer, offset, place + addend - start - offset)
                elif type == _ABSOLUTE:
                    _U64.pack_into(buffer, offset, place + base + addend & _WORD)
                else:
                    left.append(n)
            except struct.error:  # it does not fit its field, or that the section
                left.append(n)
        return [RELA.unpack_from(table, RELA.size * n) for n in left]

    def calls(self) -> Iterator[tuple[Symbol, list[int]]]:
        """Symbols of others, and where in the slab the fields of calls of them are, addend -4."""
        for target, place, words in zip(self._targets, self._places, self._sites, strict=True):
            if words and place is None and isinstance(target, Symbol):
                yield target, [word & _OFFSET for word in words[::2]]

    def uses(self) -> list[tuple[Symbol, bytes]]:
        """The symbols that were referred to, and packed sites of each."""
        return [
            (target, array("q", words).tobytes())
            for target, words in zip(self._targets, self._sites, strict=True)
            if words and isinstance(target, Symbol)
        ]
