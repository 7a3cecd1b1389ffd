"""The later runs that build on an earlier one, so that it cannot be taken back by itself.

Start from `obstacles`.  Taking a run back is a merge: what it changed becomes what it was before,
and what later runs changed stays.  One that has changed the same facts or data is in the way, and
so is one that rests on facts of the run, or has changed those that what would come back rests on.
That it computed with a value that the other stored is nothing that could be known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from jitkernel.arena.ranges import Range, overlapping
from jitkernel.elf import read_object
from jitkernel.languages.llvm.plan import name_of
from jitkernel.linker import Block, Image
from jitkernel.linker.layout import read_names
from jitkernel.session.history.snapshot import CHUNK
from jitkernel.session.program.cell import Cell, Change, Definition
from jitkernel.session.program.signatures import same_type

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program
    from jitkernel.session.program.state import Kind

#: Up to so many bytes a variable is one value; in a larger one, words are told apart.
_VALUE = 16
#: Facts that two changes cannot both say, and how that is told.  Who defined a type last gives way.
_AGAIN: Mapping[Kind, str] = {
    "name": "defines {} again", "cell": "took cell {} out",
    "id": "is the same notebook cell, run again", "type": "defines %{} again",
    "note": "declares {} again", "below": "declares {} again", "archive": "links {} again",
    "object": "compiled the same cells again",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A change that builds on an earlier one, and how: `defines @f again`."""

    change: Change
    why: str


def obstacles(program: Program, changes: Sequence[Change], index: int) -> list[Obstacle]:
    """The later ones of `changes` that build on `changes[index]` or on one that does; in order."""
    every = changes[index:]
    if len(every) < 2:
        return []
    data, facts = _Data(program, changes), _Facts(program, every)
    written = data.writes(every)
    own = [data.own(change) for change in every]
    taken = [0]
    found: list[Obstacle] = []
    for at, other in enumerate(every[1:], 1):
        born = _within(r for ranges in own[at:] for r in ranges)
        held = _within(data.held(other))
        for base in taken:
            why = facts.conflict(every[base], other)
            if not why and (gone := [r for r in written[base] if held(r)]):
                why = f"took out what has {data.name(gone)}, which it wrote"
            if not why:
                mine = _within(own[base])
                both = [r for r in written[at] if (r in written[base] or mine(r)) and not born(r)]
                why = f"writes {data.name(both)} too" if both else ""
            if why:
                found.append(Obstacle(other, why))
                taken.append(at)
                break
    return found


def overwritten(program: Program, change: Change, later: Sequence[Change]) -> dict[int, bytes]:
    """The data that a change wrote, as it was before, by address; `later` are those after it."""
    data = _Data(program, [change, *later])
    born = _within(r for c in later for r in data.own(c))
    written = sorted(r for r in data.writes([change, *later])[0] if not born(r))
    found: dict[int, bytes] = {}
    for address, old in change.pages.items():
        last = address
        for low, high in overlapping(written, address, address + len(old)):
            start, stop = max(low, address), min(high, address + len(old))
            piece = old[start - address : stop - address]
            if last + len(found.get(last, b"")) == start and last in found:
                found[last] += piece
            else:
                last = start
                found[last] = piece
    return found


def patch(other: Change, old: dict[int, bytes]) -> None:
    """Put bytes into what a later change keeps, as if the earlier one had never been."""
    places = sorted((at, at + len(piece)) for at, piece in old.items())
    for address, page in other.pages.items():
        fresh: bytearray | None = None
        for place, end in overlapping(places, address, address + len(page)):
            start, stop = max(place, address), min(end, address + len(page))
            fresh = fresh if fresh is not None else bytearray(page)
            fresh[start - address : stop - address] = old[place][start - place : stop - place]
        if fresh is not None:
            other.pages[address] = bytes(fresh)


class _Facts:
    """The facts that a row of changes wrote, and what those rest on."""

    def __init__(self, program: Program, changes: Sequence[Change]):
        self._program, self._called = program, program.called
        self._gone = {was.cell.number: was.infos for c in changes for was in c.removed}
        self._after: dict[int, dict[str, Definition]] = {}
        self._reads = cache(self._read)
        later: dict[str, Definition] = {}
        for change in reversed(changes):
            names = change.facts("name")
            self._after[id(change)] = {n: later.get(n) or program.definition(n) for n in names}
            later |= names

    def conflict(self, first: Change, other: Change) -> str:
        """The reason why `other` rests on the facts of `first`, or the empty string."""
        return self._same(first, other) or self._rests(first, other) or self._lacks(first, other)

    def _same(self, first: Change, other: Change) -> str:
        """A fact that both say, or one of the cells that `first` took names from and `other`
        removed."""
        for kind, words in _AGAIN.items():
            for key in other.facts(kind):
                if (kind, key) not in first.before:
                    continue
                if kind == "object" and first.before[kind, key].lent:
                    continue  # of the same source: with what there is to lend, made anew once more
                if kind == "name":
                    called = self._called(key)
                    return words.format(called) if other.arrived else f"evicts {called}"
                noted = kind in ("note", "below")
                return words.format(name_of(key).rpartition(":")[2] if noted else key)
        heirs = {was.cell for was in first.facts("name").values()} | {*first.facts("id").values()}
        remade = {number for number, was in first.facts("object").items() if not was.lent}
        for was in other.removed:
            if was.cell.number in heirs:
                return f"took cell {was.cell.number} out, which would get names back"
            if was.cell.number in remade:
                return f"took cell {was.cell.number} out, which was compiled again"
        return ""

    def _rests(self, first: Change, other: Change) -> str:
        """A name that the cells of `other` use and that would be missing, or of another type."""
        types, declared = first.facts("type").keys(), first.facts("note").keys()
        for cell in other.arrived if types else ():
            for name in sorted(types & cell.types):
                return f"uses %{name}"
        for key in other.facts("note") if declared else ():
            note = self._program.state.notes.found.get(key)
            for needed in sorted(note.needs & declared) if note is not None else ():
                return f"uses {needed.rpartition(':')[2]}"
        names, numbers = first.facts("name"), {cell.number for cell in first.arrived}
        new = {
            name for name, was in names.items()
            if (now := self._program.definition(name)).cell in numbers
            and not (was.cell and same_type(was.info, now.info))
        }  # fmt: skip
        back = {name: was.info for name, was in names.items() if was.cell}
        for was in first.removed:
            back |= was.taken
        back |= {stale.name: stale.info for stale, was in first.facts("stale").items() if not was}
        for cell in other.arrived if new or back else ():
            for name, info in sorted(self._reads(cell).items()):
                if name in new:
                    return f"uses {self._called(name)}"
                if name in back and not _agree(info, back[name]):
                    called = self._called(name)
                    return f"uses {called} as {info}; that would be {back[name]} again"
        return ""

    def _lacks(self, first: Change, other: Change) -> str:
        """The reason why what would come back does not fit the meaning of names since `other`."""
        after = {n: now for n, now in self._after[id(other)].items() if now.cell}
        lost = {n for n, was in other.facts("name").items() if was.cell and n not in after}
        for was in first.removed if after or lost else ():
            number, stale = was.cell.number, {symbol.name for symbol in was.stale}
            for name in sorted((self._reads(was.cell).keys() & lost) - stale):
                called = self._called(name)
                return f"took {called} away, which cell {number} uses: that would come back"
            for name, info in was.taken.items():
                if name in after and not _agree(info, after[name].info):
                    return (
                        f"defines {self._called(name)} as {after[name].info}; cell {number}, which "
                        f"would come back, uses it as {info}"
                    )
        return ""

    def _read(self, cell: Cell) -> dict[str, Any]:
        """The names that a cell's code may refer to (its own may be others' by now), each with the
        type that it is taken for, where that is known."""
        found: dict[str, Any] = {}
        record = self._program.store.get(cell.number)
        if record is not None:
            known = read_names(read_object(record.object))
            found = dict.fromkeys([name for _, name, _ in known.imports])
            found |= dict.fromkeys([export.name for export in known.exports])
        if cell.image is None:
            return {**found, **self._gone.get(cell.number, {})}
        return found | {symbol.name: symbol.info for symbol in cell.image.refs if symbol.name}


def _agree(one: Any, other: Any) -> bool:
    """True if two types are the same as far as they are known."""
    return one is None or other is None or same_type(one, other)


class _Data:
    """The writes of changes to the data zone, by address ranges: each is a value."""

    def __init__(self, program: Program, changes: Iterable[Change]):
        self._called = program.called
        self._arena = program.linker.arena
        zone = self._zone = self._arena.zones["data"]
        self._is_live = _within((at, at + size) for at, size in zone.list.live.items())
        #: By number, the images of cells that have left, and earlier ones of those made anew.
        self._former: dict[int, list[Image]] = {}
        for was in chain.from_iterable([*c.removed, *c.facts("object").values()] for c in changes):
            if was.image is not None:
                self._former.setdefault(was.cell.number, []).append(was.image)
        images = [cell.image for cell in program.cells.values()]
        images += chain.from_iterable(self._former.values())
        self._variables = sorted(
            {
                (address, address + size, symbol.name)
                for image in images if image is not None
                for symbol, address, size in image.exports if zone.start <= address < zone.stop
            }
        )  # fmt: skip

    def writes(self, changes: Sequence[Change]) -> list[set[Range]]:
        """By change: the live values that it wrote; `changes` end with the last."""
        pages: dict[int, bytearray] = {}  # as they were after the change
        found: list[set[Range]] = []
        for change in reversed(changes):
            values: set[Range] = set()
            for address, old in change.pages.items():
                at = address & -CHUNK
                if at not in pages:
                    pages[at] = bytearray(self._arena.read(at, min(CHUNK, self._zone.stop - at)))
                place = slice(address - at, address - at + len(old))
                now, pages[at][place] = bytes(pages[at][place]), old
                values.update(self._differing(address, old, now) if now != old else ())
            found.append({value for value in values if self._is_live(value)})
        return found[::-1]

    def _differing(self, address: int, old: bytes, now: bytes) -> Iterator[Range]:
        at = 0
        while at < len(old):
            if old[at : at + 8] == now[at : at + 8]:
                at += 8
                continue
            at += next(i for i in range(8) if old[at + i] != now[at + i])
            value = self._value(address + at)
            yield value
            at = value[1] - address

    def _value(self, address: int) -> Range:
        """The range that is one value: a small variable, or a word of a larger one or of none."""
        word = address & -8
        for start, stop, _ in self._around(address):
            if stop - start <= _VALUE:
                return start, stop
            return max(word, start), min(word + 8, stop)
        return word, word + 8

    def _around(self, address: int) -> list[tuple[int, int, str]]:
        """The variable at an address, if there is one."""
        at = bisect_right(self._variables, (address, 1 << 64))
        return [found for found in self._variables[max(at - 1, 0) : at] if address < found[1]]

    def own(self, change: Change) -> list[Range]:
        """The data that belongs to the cells that a change brought, also of those that left."""
        numbers = {cell.number for cell in change.arrived}
        images = chain.from_iterable(self._former.get(number, ()) for number in numbers)
        blocks = [block for cell in change.arrived for block in cell.data]
        return _data_of([*blocks, *(image.data for image in images if image.data is not None)])

    def held(self, change: Change) -> list[Range]:
        """The data of the cells that a change took out."""
        return _data_of(block for was in change.removed for block in was.held)

    def name(self, ranges: Iterable[Range]) -> str:
        """A variable that lies in the ranges."""
        found = (name for start, _ in sorted(ranges) for _, _, name in self._around(start))
        name = next(found, None)
        return "the same data" if name is None else self._called(name)


def _data_of(blocks: Iterable[Block]) -> list[Range]:
    extents = {block.extent for block in blocks}
    return [(e.start, e.stop) for e in extents if e.zone == "data"]


def _within(ranges: Iterable[Range]) -> Callable[[Range], bool]:
    """A test of whether a value is in one of the ranges, which do not meet."""
    every = sorted(ranges)
    return lambda value: bool(overlapping(every, *value))
