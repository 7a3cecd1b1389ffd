"""Whether code wrote past the end of a variable, told by the bytes behind.  Start from `overruns`.

An extent of the data zone ends at a multiple of 16 bytes, and what is left behind its last variable
holds poison that nothing of the program's has a use for.  Only pages that have changed are looked
at, and the rest of the last one; what is found is told once, and poison again.  Beyond that page
nothing is accessible (executor/native/serve.ll, `open_data`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jitkernel.arena.slab import PAGE
from jitkernel.arena.zone import Zone
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.arena import Arena
    from jitkernel.linker import Symbol
    from jitkernel.session.program.program import Program

_MOST = 4  # names that are told


def overruns(program: Program, pages: Sequence[tuple[int, bytes]]) -> str:
    """The overrun variables, in words, and their neighbours; `pages` are those that have changed,
    with their old bytes. Empty where nothing was."""
    arena = program.linker.arena
    zone = arena.zones["data"]
    fill = bytes([zone.poison or 0])
    found: list[tuple[int, int]] = []
    for stop, end, was in _paddings(zone, pages) if pages else ():
        now = arena.read(stop, end - stop)
        if now != was and now != fill * len(now):
            found.append((stop, end))
    end = zone.high + -zone.high % PAGE
    rest = arena.read(zone.high, end - zone.high) if end > zone.high else b""
    if rest.strip(b"\0"):  # it was never used
        found.append((zone.high, end))
    if not found:
        return ""
    text = _told(program, _origin(arena, dict(pages), found[0][0]), *found[0], found[-1][1])
    for stop, end in found:
        zone.fill(stop, min(end, zone.high))
    arena.write(zone.high, bytes(len(rest)))
    return text


def _origin(arena: Arena, old: dict[int, bytes], at: int) -> int:
    """The start of the bytes that have changed without a gap up to an address; a word that is as it
    was may be one that was written, too."""
    same, first, stop = 0, at, at
    while same < 2 and (was := old.get((at - 4) & -PAGE, b"")[(at - 4) % PAGE :][:4]):
        at -= 4
        same = same + 1 if arena.read(at, 4) == was else 0
        first = first if same else at
    return first if first < stop else stop - 1


def _paddings(zone: Zone, pages: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """The bytes behind live extents in some pages: start, stop, and what they were."""
    live = sorted(zone.list.live.items())
    for page, old in sorted(pages):
        at = bisect_right(live, (page, 1 << 64)) - 1
        for start, size in live[max(at, 0) :]:
            if start >= page + PAGE:
                break
            stop = start + size
            end = start + zone.list.room(size)
            if stop < end and page <= stop < page + PAGE:
                yield stop, end, old[stop - page : end - page]


def _told(program: Program, origin: int, start: int, stop: int, last: int) -> str:
    """The variable that an overrun ran from, and those that it has reached: from `origin` on bytes
    have changed, and `[start, stop)` and others up to `last` are nobody's."""
    known = [
        s for s in program.linker.symbols.values() if s.image is not None and not s.is_function
    ]
    known.sort(key=lambda s: s.address)
    own = [s for s in known if s.address <= origin][-1:]
    reached = [s for s in known if origin < s.address < last]
    beyond = next((s for s in known if s.address >= last), None)
    text = f"a write ran past the end of {_names(program, own) if own else 'a variable'}"
    if reached:
        text += f", over {_names(program, reached)}"
    text += f", into the {counted(stop - start, 'byte')} behind"
    if beyond is not None:
        text += f"; {_names(program, [beyond])} comes next"
    return f"{text}; %undo gives variables back what they held"


def _names(program: Program, symbols: Sequence[Symbol]) -> str:
    """`@a or @b (cell 1)`, the first few."""
    cells = {symbol.cell: None for symbol in symbols if symbol.cell}
    text = cut_list([program.called(symbol.name) for symbol in symbols], _MOST)
    if not cells:
        return text
    numbers = ", ".join(str(n) for n in list(cells)[:_MOST]) + (
        " ..." if len(cells) > _MOST else ""
    )
    return f"{text} (cell{'s' * (len(cells) > 1)} {numbers})"
