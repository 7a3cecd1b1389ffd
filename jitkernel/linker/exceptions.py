"""Tables of exception types whose entries lie in a library, out of the reach of 32 bits.

Code that is not position independent lists the types that a function catches as 32-bit addresses
(`.gcc_except_table`, its "TType" encoding `udata4`).  `_ZTIi` and its like are in libstdc++, far
away.  The encoding knows an indirect form, in which entries are addresses of words that hold the
address: GOT slots serve as those.  Start from `through_slots`.  Source: Itanium C++ ABI, "Exception
Handling Tables"; Linux Standard Base, "DWARF Exception Header Encoding".
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from jitkernel.linker.symbols import Symbol, SymbolKind, SymbolState
from jitkernel.linker.x86_64 import R_32, R_32S, SLOT32

if TYPE_CHECKING:
    from jitkernel.linker.placing import Placing

__all__ = ["through_slots"]

_OMIT, _INDIRECT = 0xFF, 0x80
#: Bytes of an encoded pointer by format; the others have no fixed size.
_SIZES = {0x0: 8, 0x2: 2, 0x3: 4, 0x4: 8, 0xA: 2, 0xB: 4, 0xC: 8}

Entries = list[tuple[int, int, int]]


def through_slots(placing: Placing, section: int, address: int, entries: Entries) -> Entries:
    """The relocations of `.gcc_except_table`, far types reached through GOT slots.

    The section is at `address`; the encoding bytes of its tables are changed there.
    """
    far = [
        offset
        for offset, info, _ in entries
        if info & 0xFFFF_FFFF in (R_32, R_32S) and _is_far(placing, info >> 32)
    ]
    if not far:
        return entries
    content = placing.obj.content(section)
    starts = _tables(placing, address, len(content))
    changed: list[tuple[int, int]] = []
    for offset in far:
        index = bisect_right(starts, offset) - 1
        if index < 0:
            continue
        found = _types(content, starts[index])
        if found is None or found in changed or not found[0] < offset < found[1]:
            continue
        encoding = content[found[0]]
        if encoding & 0x7F in (0x03, 0x0B):  # udata4, sdata4
            changed.append(found)
            placing.view[address - placing.base + found[0]] = encoding | _INDIRECT
    return [
        (offset, info & ~0xFFFF_FFFF | SLOT32, addend)
        if info & 0xFFFF_FFFF in (R_32, R_32S) and any(a < offset < b for a, b in changed)
        else (offset, info, addend)
        for offset, info, addend in entries
    ]


def _is_far(placing: Placing, number: int) -> bool:
    target = placing.targets[number] if number < len(placing.targets) else None
    return (
        isinstance(target, Symbol)
        and target.state is SymbolState.FAR
        and target.kind is SymbolKind.DATA
    )


def _tables(placing: Placing, address: int, size: int) -> list[int]:
    """Where the functions' tables begin in the section: what the frame records point to."""
    found: set[int] = set()
    for index in placing.layout.frames:
        for _, info, addend in placing.obj.relocations.get(index, ()):
            target = placing.targets[info >> 32] if info >> 32 < len(placing.targets) else None
            if isinstance(target, int) and 0 <= target + addend - address < size:
                found.add(target + addend - address)
    return sorted(found)


def _types(content: bytes, at: int) -> tuple[int, int] | None:
    """The offsets of a table's type encoding and of the end of its list of types."""
    try:
        if content[at] != _OMIT:
            at += _SIZES[content[at] & 0x0F]
        encoding = at = at + 1
        if content[encoding] == _OMIT:
            return None
        at += 1
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return encoding, at + value
    except (IndexError, KeyError):
        return None
