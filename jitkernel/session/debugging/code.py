"""Where the code that can be stepped through is: which cell, function and line an address is of.

A cell is found by its text.  Start from `Code`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.elf import read_object
from jitkernel.elf.dwarf import DebugInfo, Function, Local
from jitkernel.ir.marks import are_marked
from jitkernel.linker import Image
from jitkernel.linker.layout import arrange
from jitkernel.recent import Recent
from jitkernel.session.debugging.types import Types

if TYPE_CHECKING:
    from jitkernel.session.core import Core

_KEPT = 128  # objects whose debug information has been read
_OWN_FILE = "cell"  # the names of files that are a cell's text begin so


class Part(NamedTuple):
    """Code of a cell that is in memory, its debug information with the types in it, and the cell's
    text; `marked` where that is of a language that says in LLVM IR which line it comes from."""

    image: Image
    info: DebugInfo
    types: Types
    source: str
    marked: bool = False


class Place(NamedTuple):
    """A place in the code: its part, its function, and its line in the part's source (0: none).

    Where the body of another function is a part of that one, there is a place for each: of `level`
    0 is the innermost, `name` is what each is called, and the last one's is the function's.
    """

    part: Part
    function: Function
    line: int
    name: str
    level: int = 0
    levels: int = 0

    @property
    def inlined(self) -> bool:
        """True if its body is a part of the function."""
        return self.level < self.levels


class Code:
    """The code in memory that was compiled to be debugged."""

    def __init__(self, core: Core):
        self._core = core
        self._known: Recent[tuple[int, int], tuple[bytes, Mapping[str, int], DebugInfo, Types]] = (
            Recent(_KEPT)
        )
        self._locals: dict[tuple[int, int, int], dict[str, Local]] = {}  # by what they are asked by
        self._places: dict[int, list[Place]] = {}  # by the address that was asked about
        self.parts: list[Part] = []

    def find(self, placed: Iterable[tuple[Image, bytes, Mapping[str, int]]]) -> None:
        """Learn what is in memory now: images, their objects, and where others' symbols are."""
        self._locals.clear()
        self._places.clear()
        self.parts = [
            Part(image, *self._read(image, code, names), *self._source(image))
            for image, code, names in placed
            if image.text is not None and b".debug_info" in code
        ]  # fmt: skip

    def _source(self, image: Image) -> tuple[str, bool]:
        """The text that an image is of, and whether its lines are marked."""
        running = (ran for image_, _, ran in self._core.places.lines.running if image_ is image)
        record = next(running, None) or self._core.store.get(image.cell)
        if record is None:
            return "", False
        return record.source, are_marked(record.module, record.first_line, record.source)

    def _read(self, image: Image, code: bytes, names: Mapping[str, int]) -> tuple[DebugInfo, Types]:
        key = id(code), image.text.start if image.text is not None else 0
        known = self._known.get(key)
        if known is None or known[0] is not code or known[1] != names:
            info = DebugInfo(code, _addresses(image, code), names)
            known = self._known[key] = code, names, info, Types(info)
        return known[2:]

    def at(self, pc: int) -> Place | None:
        """The place of an instruction; None where it is not of a function that can be debugged."""
        return next(iter(self.places(pc)), None)

    def places(self, pc: int) -> list[Place]:
        """The same, and those of the functions that its code is a part of, from the innermost."""
        if (known := self._places.get(pc)) is None:
            known = self._places[pc] = self._places_at(pc)
        return known

    def _places_at(self, pc: int) -> list[Place]:
        for part in self.parts:
            if part.image.has_code_at(pc):
                function = part.info.function(pc)
                if function is None:
                    return []
                row = part.info.row(pc)
                at = (row.line, row.file) if row is not None else (0, "")
                inlined = part.info.inlined(pc)
                lines = [at, *((one.line, one.file) for one in inlined)]
                names = [*(one.name for one in inlined), function.name]
                return [
                    Place(
                        part, function, line if file.startswith(_OWN_FILE) else 0, name, level,
                        len(inlined),
                    )
                    for level, ((line, file), name) in enumerate(zip(lines, names, strict=True))
                ]  # fmt: skip
        return []

    def locals(self, place: Place, pc: int) -> dict[str, Local]:
        """The variables that are known at an address, by name; the parameters first."""
        info = place.part.info
        key = id(info), pc, place.level
        if (found := self._locals.get(key)) is None:
            sure = not info.keeps_frame(place.function)
            every = info.variables(place.function, pc, place.level, sure=sure)
            found = self._locals[key] = {local.name: local for local in reversed(every)}
            found = self._locals[key] = dict(reversed(found.items()))
        return found

    def starts(self, source: str, line: int) -> tuple[int, list[int]]:
        """The first line of a source from `line` on that has code, and where it begins; 0 where
        none has."""
        found: list[tuple[int, list[int]]] = []
        for part in self.parts:
            if part.source == source:
                found += [part.info.starts(line, file) for file in _files(part)]
        least = min((at for at, places in found if places), default=0)
        return least, sorted({p for at, places in found if at == least for p in places})

    def lines(self, source: str) -> set[int]:
        """The lines of a source that have code here."""
        return {
            row.line for part in self.parts if part.source == source
            for row in part.info.lines.rows if row.line and row.file.startswith(_OWN_FILE)
        }  # fmt: skip

    def functions(self, name: str = "") -> Iterator[Function]:
        """The functions that can be debugged, of a name or all."""
        for part in self.parts:
            for function in part.info.functions:
                if not name or function.name == name:
                    yield function

    def bodies(self, name: str) -> list[int]:
        """The place where a function's body begins, and those of its copies in others."""
        found = [function.body for function in self.functions(name)]
        return found + [at for part in self.parts for at in part.info.copies(name)]


def _files(part: Part) -> list[str]:
    return sorted({row.file for row in part.info.lines.rows if row.file.startswith(_OWN_FILE)})


def _addresses(image: Image, code: bytes) -> dict[int, int]:
    """The addresses of an object's sections, by their numbers."""
    starts = {zone: block.extent.start for zone, block in image.own.items()}
    if image.text is not None:
        starts["text"] = image.text.start
    found = {}
    for index, place in enumerate(arrange(read_object(code)).places):
        if place is not None and place[0] in starts:
            found[index] = starts[place[0]] + place[1]
    return found
