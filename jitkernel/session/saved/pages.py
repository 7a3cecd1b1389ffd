"""Which pages of constants and globals changed since they were last written.  Start from `Pages`.

What threads of the program write meanwhile is there as of some moment of the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitkernel.arena import Arena
from jitkernel.arena.mirror import Mirror

__all__ = ["PAGE", "Pages", "put_back"]

PAGE = 4096
#: Code and unwind records are not here: they are in the rows of the cells they belong to.
ZONES = ("rodata", "data")


class Pages:
    """The pages of an arena's constants and globals as they are in the file."""

    def __init__(self, arena: Arena):
        self._mirrors = [(arena.zones[name], Mirror(arena, name)) for name in ZONES]

    def note(self, number: int, content: bytes) -> None:
        """Page `number` (its address / 4096) is in the file with this content."""
        at = number * PAGE
        for zone, mirror in self._mirrors:
            if zone.start <= at < zone.stop:
                mirror.note(at, content)

    def changes(self) -> tuple[list[tuple[int, bytes]], list[int]]:
        """Pages to write, zeros at their ends left out, and numbers of pages to delete."""
        write: list[tuple[int, bytes]] = []
        gone: list[int] = []
        for _, mirror in self._mirrors:
            for address, was, now in mirror.look():
                content = now.rstrip(b"\0")
                if content:
                    write.append((address // PAGE, content))
                elif was.strip(b"\0"):
                    gone.append(address // PAGE)
        return write, gone


def put_back(arena: Arena, pages: Iterable[tuple[int, bytes]], ends: Mapping[str, int]) -> None:
    """Write pages into a slab that has never been used, up to where each zone's extents end."""
    zones = [(arena.zones[name].start, ends.get(name, 0)) for name in ZONES]
    for number, content in pages:
        at = number * PAGE
        for start, stop in zones:
            if start <= at < stop:
                arena.write(at, content[: stop - at])
