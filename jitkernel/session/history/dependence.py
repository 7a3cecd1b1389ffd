"""Which later runs build on an earlier one, so that it cannot be taken back by itself.

Start from `obstacles`.  A run builds on another where it defines, replaces or evicts the same
names, uses what the other defined, or writes the same data.  That it computed with a value that the
other stored is nothing that could be known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitkernel.arena import Arena
from jitkernel.elf import read_object
from jitkernel.linker import Block, SymbolState
from jitkernel.linker.layout import read_names
from jitkernel.session.history.snapshot import CHUNK
from jitkernel.session.program.cell import Cell, Change
from jitkernel.session.program.signatures import same_type

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = ["Obstacle", "obstacles", "overwritten", "patch"]

#: Up to so many bytes a variable is one value; in a larger one, words are told apart.
_VALUE = 16
Range = tuple[int, int]
#: What two changes cannot both say, and how that is told.  Who defined a type last gives way.
_AGAIN = {
    "id": "is the same notebook cell, run again", "type": "defines %{} again",
    "note": "declares {} again", "archive": "links {} again",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A change that builds on an earlier one, and how: `defines @f again`."""

    change: Change
    why: str


def obstacles(program: Program, changes: Sequence[Change], index: int) -> list[Obstacle]:
    """The later ones of `changes` that build on `changes[index]` or on one that does; in order."""
    later = changes[index + 1 :]
    if not later:
        return []
    data = _Data(program, changes)
    written = data.writes(changes[index:])
    own = [data.own(c) for c in changes[index:]]
    types = _Types(program, changes[index:])
    taken = [0]
    found: list[Obstacle] = []
    for at, other in enumerate(later, 1):
        born = [r for ranges in own[at:] for r in ranges]
        for base in taken:
            first = changes[index + base]
            why = _builds_on(program, first, other, types)
            if not why and (gone := _common(_merge(written[base]), data.held(other))):
                why = f"took out what has {data.name(gone)}, which it wrote"
            if not why:
                touched = _apart(_merge([*written[base], *own[base]]), _merge(born))
                shared = _common(touched, _merge(written[at]))
                why = f"writes {data.name(shared)} too" if shared else ""
            if why:
                found.append(Obstacle(other, why))
                taken.append(at)
                break
    return found


def overwritten(program: Program, change: Change, later: Sequence[Change]) -> dict[int, bytes]:
    """The data that a change wrote, as it was before, by address; `later` are those after it."""
    data = _Data(program, [change, *later])
    written = _merge(data.writes([change, *later])[0])
    born = _merge([r for c in later for r in data.own(c)])
    found: dict[int, bytes] = {}
    for low, high in _apart(written, born):
        for address, old in change.pages.items():
            start, stop = max(low, address), min(high, address + len(old))
            if start < stop:
                found[start] = old[start - address : stop - address]
    return found


def patch(other: Change, old: dict[int, bytes]) -> None:
    """Put bytes into what a later change keeps, as if the earlier one had never been."""
    places = sorted(old)
    for address, page in other.pages.items():
        at = max(bisect_right(places, address) - 1, 0)
        fresh: bytearray | None = None
        for index in range(at, len(places)):
            place = places[index]
            if place >= address + len(page):
                break
            piece = old[place]
            start, stop = max(place, address), min(place + len(piece), address + len(page))
            if start < stop:
                fresh = fresh if fresh is not None else bytearray(page)
                fresh[start - address : stop - address] = piece[start - place : stop - place]
        if fresh is not None:
            other.pages[address] = bytes(fresh)


def _builds_on(program: Program, first: Change, other: Change, types: _Types) -> str:
    """How the definitions of `other` rest on those of `first`, or the empty string."""
    moved = first.facts("name")
    for name in other.facts("name"):
        if name in moved:
            verb = "defines" if other.arrived else "evicts"
            return f"{verb} {program.called(name)}{' again' * bool(other.arrived)}"
    numbers = {c.number for c in first.arrived}
    heirs = {was.cell for was in moved.values()} | set(first.facts("id").values())
    for removed in other.removed:
        number = removed.cell.number
        if number in numbers:
            return f"took cell {number} out"
        if number in heirs:
            return f"took cell {number} out, which would get names back"
    for kind, key in first.before:
        if (kind, key) in other.before and kind in _AGAIN:
            return _AGAIN[kind].format(key.rpartition(":")[2] if kind == "note" else key)
    defined = first.facts("type").keys()
    for cell in other.arrived if defined else ():
        for name in sorted(defined & cell.types):
            return f"uses %{name}"
    if why := _needs_notes(program, first, other):
        return why
    if first.facts("object").keys() & other.facts("object").keys():
        return "compiled the same cells again"
    new = _introduced(program, first)
    for cell in other.arrived if new else ():
        for name in sorted(_uses(program, cell) & new):
            return f"uses {program.called(name)}"
    return _disagrees(program, first, other, types)


def _needs_notes(program: Program, first: Change, other: Change) -> str:
    """Which declaration of `first` one of `other` needs."""
    declared = first.facts("note").keys()
    for key in other.facts("note") if declared else ():
        note = program.state.notes.found.get(key)
        for needed in sorted(note.needs & declared) if note is not None else ():
            return f"uses {needed.rpartition(':')[2]}"
    return ""


def _disagrees(program: Program, first: Change, other: Change, types: _Types) -> str:
    """How what would come back does not fit what names have meant since `other`."""
    after = types.after(other)
    lost = {n for n, was in other.facts("name").items() if was.cell and n not in after}
    for removed in first.removed:
        number, stale = removed.cell.number, {s.name for s in removed.stale}
        for name in sorted((_uses(program, removed.cell) & lost) - stale):
            called = program.called(name)
            return f"took {called} away, which cell {number} uses: that would come back"
        for name, info in removed.infos.items():
            if name not in stale and name in after and not _agree(info, after[name]):
                return (
                    f"defines {program.called(name)} as {after[name]}; cell {number}, which would "
                    f"come back, uses it as {info}"
                )
    back = {n: was.info for n, was in first.facts("name").items() if was.cell}
    back |= {
        name: info
        for r in first.removed
        for name, info in r.infos.items()
        if name not in {s.name for s in r.stale}
    }
    back |= {s.name: s.info for s, was in first.facts("stale").items() if was is None}
    for cell in other.arrived:
        for name, info in types.taken(cell).items():
            if name in back and not _agree(info, back[name]):
                return f"uses {program.called(name)} as {info}; that would be {back[name]} again"
    return ""


def _introduced(program: Program, change: Change) -> set[str]:
    """Names that would be missing, or of another type, without the change."""
    new: set[str] = set()
    numbers = {c.number for c in change.arrived}
    for name, (owner, info, _) in change.facts("name").items():
        symbol = program.symbol(name)
        if symbol is None or symbol.image is None or symbol.image.cell not in numbers:
            continue
        if not owner or not same_type(info, symbol.info):
            new.add(name)
    return new


def _agree(one: Any, other: Any) -> bool:
    """Whether two types are the same as far as they are known."""
    return one is None or other is None or same_type(one, other)


def _uses(program: Program, cell: Cell) -> set[str]:
    """The names that a cell's code may refer to; its own may be others' by now."""
    names = {s.name for s in cell.image.refs} if cell.image is not None else set()
    record = program.store.get(cell.number)
    if record is not None:
        known = read_names(read_object(record.object))
        names |= {name for _, name, _ in known.imports} | {e.name for e in known.exports}
    return names


class _Types:
    """What names meant after each of a row of changes, and what cells took them for."""

    def __init__(self, program: Program, changes: Sequence[Change]):
        self._program = program
        self._gone = {r.cell.number: r.infos for c in changes for r in c.removed}
        self._after: dict[int, dict[str, Any]] = {}
        later: dict[str, tuple[bool, Any]] = {}
        for change in reversed(changes):
            found = self._after[id(change)] = {}
            for name, (owner, info, _) in change.facts("name").items():
                defined, type = later.get(name) or self._now(name)
                if defined:
                    found[name] = type
                later[name] = bool(owner), info

    def after(self, change: Change) -> Mapping[str, Any]:
        """The types of what a change moved and somebody defined after it."""
        return self._after[id(change)]

    def taken(self, cell: Cell) -> Mapping[str, Any]:
        """The types that a cell takes names for."""
        if cell.image is None:
            return self._gone.get(cell.number, {})
        return {s.name: s.info for s in cell.image.refs if s.name}

    def _now(self, name: str) -> tuple[bool, Any]:
        symbol = self._program.symbol(name)
        if symbol is None or symbol.state is not SymbolState.DEFINED:
            return False, None
        return True, symbol.info


class _Data:
    """What changes did to the data zone, by address ranges."""

    def __init__(self, program: Program, changes: Iterable[Change]):
        self._called = program.called
        arena = self._arena = program.linker.arena
        zone = arena.zones["data"]
        self._extents = sorted((a, a + n) for a, n in zone.list.live.items())
        self._gone = {r.cell.number: r for c in changes for r in c.removed}
        images = [cell.image for cell in program.cells.values()]
        images += [removed.image for removed in self._gone.values()]
        self._variables = sorted(
            {
                (address, address + size, symbol.name)
                for image in images if image is not None
                for symbol, address, size in image.exports if zone.start <= address < zone.stop
            }
        )  # fmt: skip

    def writes(self, changes: Sequence[Change]) -> list[list[Range]]:
        """By change: the live data that it wrote, whole values; `changes` end with the last."""
        past = _Past(self._arena)
        found: list[list[Range]] = []
        for change in reversed(changes):
            ranges: list[Range] = []
            for address, old in change.pages.items():
                now = past.read(address, len(old))
                if now != old:
                    ranges += self._values(_differing(address, old, now))
            found.append(ranges)
            for address, old in change.pages.items():
                past.write(address, old)
        return found[::-1]

    def own(self, change: Change) -> list[Range]:
        """The data that belongs to the cells that a change brought."""
        blocks = {
            block
            for cell in change.arrived
            for block in (
                *cell.strings,
                *(e[3] for e in cell.extras),
                cell.image.data if cell.image is not None else self._left(cell),
            )
        }
        extents = (b.extent for b in blocks if b is not None)
        return [(e.start, e.stop) for e in extents if e.zone == "data"]

    def held(self, change: Change) -> list[Range]:
        """The data of the cells that a change took out."""
        extents = (b.extent for r in change.removed for b in r.held)
        return _merge((e.start, e.stop) for e in extents if e.zone == "data")

    def _left(self, cell: Cell) -> Block | None:
        gone = self._gone.get(cell.number)
        return gone.former.blocks.get("data") if gone is not None else None

    def name(self, ranges: Sequence[Range]) -> str:
        """A variable that lies in the ranges."""
        for low, high, name in self._variables:
            at = bisect_left(ranges, (high, 0)) - 1
            if at >= 0 and ranges[at][1] > low:
                return self._called(name)
        return "the same data"

    def _values(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Ranges widened to whole values, and cut where nothing is live."""
        for low, high in ranges:
            at = bisect_right(self._variables, (low, 1 << 64, "")) - 1
            start, stop = low, high
            for index in range(max(at, 0), len(self._variables)):
                first, last, _ = self._variables[index]
                if first >= high:
                    break
                if last > low:
                    small = last - first <= _VALUE
                    start = min(start, first if small else max(low & -8, first))
                    stop = max(stop, last if small else min((high + 7) & -8, last))
            at = bisect_right(self._extents, (start, 1 << 64)) - 1
            for index in range(max(at, 0), len(self._extents)):
                first, last = self._extents[index]
                if first >= stop:
                    break
                if last > start:
                    yield max(first, start), min(last, stop)


class _Past:
    """The data zone as it was before changes that are reverted one by one, on a copy."""

    def __init__(self, arena: Arena):
        self._arena = arena
        self._pages: dict[int, bytearray] = {}

    def read(self, address: int, size: int) -> bytes:
        """Bytes as they were."""
        return b"".join(
            bytes(self._page(at)[low - at : high - at])
            for at, low, high in _pieces(address, address + size)
        )

    def write(self, address: int, data: bytes) -> None:
        """They were those."""
        for at, low, high in _pieces(address, address + len(data)):
            self._page(at)[low - at : high - at] = data[low - address : high - address]

    def _page(self, at: int) -> bytearray:
        page = self._pages.get(at)
        if page is None:
            stop = min(at + CHUNK, self._arena.base + self._arena.capacity)
            page = self._pages[at] = bytearray(self._arena.read(at, stop - at))
        return page


def _pieces(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The pages of a range: where each begins, and what of it is meant."""
    for at in range(start - start % CHUNK, stop, CHUNK):
        yield at, max(at, start), min(at + CHUNK, stop)


def _differing(address: int, old: bytes, now: bytes) -> Iterator[Range]:
    """Where two versions differ: ranges of whole bytes, each inside eight."""
    for at in range(0, len(old), 8):
        one, other = old[at : at + 8], now[at : at + 8]
        if one != other:
            wrong = [i for i in range(len(one)) if one[i] != other[i]]
            yield address + at + wrong[0], address + at + wrong[-1] + 1


def _merge(ranges: Iterable[Range]) -> list[Range]:
    """The same addresses as ranges that do not meet, ascending."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _apart(ranges: Sequence[Range], other: Sequence[Range]) -> list[Range]:
    """`ranges` without `other`; both are merged."""
    found: list[Range] = []
    for low, high in ranges:
        for index in range(max(bisect_left(other, (low, 0)) - 1, 0), len(other)):
            first, last = other[index]
            if first >= high:
                break
            if last > low:
                if first > low:
                    found.append((low, first))
                low = last
        if low < high:
            found.append((low, high))
    return found


def _common(ranges: Sequence[Range], other: Sequence[Range]) -> list[Range]:
    """What is in both; both are merged."""
    return _apart(ranges, _apart(ranges, other))
