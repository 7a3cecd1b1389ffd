"""Variables that stay where they are when the object that defines them is linked again.

A cell that is run again keeps the addresses of its variables, so that pointers to them stay right:
its object's bytes for them go to the old place instead of a new one.  Start from `pinned_sections`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.ir.names import written
from jitkernel.linker.layout import Names

__all__ = ["Piece", "pieces", "pinned_sections"]

#: The widest gap that alignment leaves between two variables of one section.
_GAP = 15


class Piece(NamedTuple):
    """Bytes `[start, stop)` of a section that belong at `address`."""

    start: int
    stop: int
    address: int


def pieces(obj: ElfObject, names: Names, pins: Mapping[str, int]) -> dict[int, list[Piece]]:
    """By section: what pinned symbols put elsewhere."""
    found: dict[int, list[Piece]] = {}
    for e in names.exports:
        if e.name in pins and e.section < c.SHN_LORESERVE:
            if e.value + e.size > obj.sections[e.section][5]:
                raise LinkError(f"{written(e.name)} does not end inside its section")
            found.setdefault(e.section, []).append(Piece(e.value, e.value + e.size, pins[e.name]))
    for ranges in found.values():
        ranges.sort()
    return found


def pinned_sections(obj: ElfObject, moved: Mapping[int, list[Piece]]) -> frozenset[int]:
    """Sections all of whose bytes belong to pinned symbols: they need no extent."""
    if not moved:
        return frozenset()
    referred = {info >> 32 for entries in obj.relocations.values() for _, info, _ in entries}
    private = {
        s[3] for i, s in enumerate(obj.symbols)
        if s[1] >> 4 == 0 and (s[1] & 15 != c.STT_SECTION or i in referred)
    }  # fmt: skip
    whole: set[int] = set()
    for index, ranges in moved.items():
        if sum(1 for s in obj.symbols if s[3] == index and s[1] >> 4) > len(ranges):
            continue  # another variable is there, perhaps in a gap
        at = 0
        for start, stop, _ in ranges:
            if start > at + _GAP:
                break
            at = max(at, stop)
        else:
            alone = index not in private and not _between(obj.relocations.get(index, ()), ranges)
            if at >= obj.sections[index][5] and alone:
                whole.add(index)
    return frozenset(whole)


def _between(entries: Iterable[tuple[int, int, int]], ranges: list[Piece]) -> bool:
    """Whether a gap has a relocation: a variable is there, without a symbol and never used."""
    return any(not any(p.start <= at < p.stop for p in ranges) for at, _, _ in entries)
