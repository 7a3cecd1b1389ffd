"""Fields that refer to what their own object defines, many at once.

Such a field is final as soon as the object's place is known, and of a large object nearly all are
of this kind.  What they refer to is worked out once for each symbol and relocation type.  Start
from `OwnFields.write`; what it leaves is `Content.add_field`'s.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable

from jitkernel.linker.binding import Target
from jitkernel.linker.content import Entry
from jitkernel.linker.records import Symbol, SymbolState
from jitkernel.linker.resolution import Resolution
from jitkernel.linker.x86_64 import BRANCH, PC32

__all__ = ["OwnFields"]

_I32, _U64 = struct.Struct("<i"), struct.Struct("<Q")
_ABSOLUTE = 1  # R_X86_64_64
_TYPE, _WORD = 0xFFFF_FFFF, (1 << 64) - 1


class OwnFields(dict[int, "int | None"]):
    """By a relocation's info: what its field counts from, an offset into the slab; None where it
    is none of those that are written here.

    `base` is the slab's address.
    """

    def __init__(self, resolution: Resolution, base: int):
        self._targets, self._exports, self._base = resolution.targets, resolution.exports, base
        self._absolute: dict[int, int] = {}
        #: by info, of symbols: two words for each field, as `records.SITE` has them
        self._sites: dict[int, list[int]] = {}

    def __missing__(self, info: int) -> int | None:
        number, type, found = info >> 32, info & _TYPE, None
        target: Target | None = self._targets[number] if number < len(self._targets) else None
        if isinstance(target, int):
            if type == PC32 or type == BRANCH:
                found = target - self._base
            elif type == _ABSOLUTE:
                self._absolute[info] = target
        elif target is not None and type == BRANCH and (own := self._exports.get(target)):
            if own[0] is SymbolState.DEFINED:
                found, self._sites[info] = own[1] - self._base, []
        self[info] = found
        return found

    def write(self, entries: Iterable[Entry], buffer: bytearray, start: int) -> list[Entry]:
        """Write the fields into a section's bytes, which will be at `start` in the slab; the
        relocations of the others."""
        left: list[Entry] = []
        sites, absolute = self._sites, self._absolute
        pack_into, site = _I32.pack_into, start | BRANCH << 32
        for entry in entries:
            offset, info, addend = entry
            place = self[info]
            try:
                if place is not None:
                    pack_into(buffer, offset, place + addend - start - offset)
                    if info in sites:
                        sites[info] += (site + offset, addend)
                elif info in absolute:
                    _U64.pack_into(buffer, offset, absolute[info] + addend & _WORD)
                else:
                    left.append(entry)
            except struct.error:  # it does not fit its field, or that the section
                left.append(entry)
        return left

    def uses(self) -> list[tuple[Symbol, bytes]]:
        """The symbols that were referred to, and packed sites of each."""
        targets = self._targets
        return [
            (targets[info >> 32], array("q", words).tobytes())  # type: ignore[misc]
            for info, words in self._sites.items()
            if words
        ]
