"""Which line of which text the lines of a request to the compiler were written as: the cell's own
text, a file that it includes, and the same of the bodies that other cells lend to it.

Start from `Sources`.  Lines are those of `CompilerPool.lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import TYPE_CHECKING

from jitkernel.compiler.records import BODY
from jitkernel.errors import JitError
from jitkernel.ir.marks import begins_at, cell_places
from jitkernel.ir.module import Entity, functions
from jitkernel.record import NamedTuple

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.session.program.program import Program
    from jitkernel.session.saved.store import Record

_MOST = 4_000_000  # bytes of a file that is read to show lines of it


class Place(NamedTuple):
    """A line of a cell's text, or, where `file` is not empty, of a file that it includes; the
    function that it is part of has the symbol `function`."""

    cell: int
    file: str
    line: int
    function: str


class _Span(NamedTuple):
    """A function of a module: its lines, the first and the last, where it says it begins, and the
    line of its head, 0 where other code of it comes from the same line of its source."""

    name: str
    first: int
    last: int
    begins: int
    head: int


class Text:
    """A module and what it was written as; `line` of it is counted from where the cell begins."""

    def __init__(self, text: str, first_line: int, source: str, cell: int):
        self._text, self._first, self.source, self.cell = text, first_line, source, cell

    @cached_property
    def places(self) -> Callable[[int], tuple[str, int]]:
        return cell_places(self._text, self._first, self.source)

    @cached_property
    def spans(self) -> list[_Span]:
        """The functions, in order; lines counted from where the cell begins."""
        return _spans(functions(self._text, "define"), self._first)

    def find(self, line: int) -> Place | None:
        """The place of a line; None where it is of none."""
        file, at = self.places(line)
        span = next((s for s in self.spans if s.first <= line <= s.last), None)
        return Place(self.cell, file, at, span.name if span is not None else "") if at else None


def _spans(found: Iterable[Entity], first: int) -> list[_Span]:
    spans, counted, line = [], 0, 2 - first
    for entity in found:
        line += entity.source.count("\n", counted, entity.start)
        counted, text = entity.start, entity.text
        begins = begins_at(text)
        head = 0 if f"; line {begins}\n" in text else line + bool(begins)
        spans.append(_Span(entity.name, line, line + text.count("\n"), begins, head))
    return spans


def _whole(source: list[str], begins: int, last: int) -> range:
    """The lines of a function of C from the one that its name is in to the last that has code:
    with what stands above of its head, and below of its end."""
    while begins > 1 and _is_head(source[begins - 2]):
        begins -= 1
    end = min(max(last, begins), len(source))
    if source[end - 1].startswith("}") or (
        source[end - 1].rstrip().endswith("}") and end == begins
    ):
        return range(begins, end + 1)
    for at in range(end, len(source)):
        if source[at].startswith("}"):
            return range(begins, at + 2)
        if source[at][:1].isalnum():  # the next one begins
            break
    return range(begins, end + 1)


def _is_head(line: str) -> bool:
    """True of a line that goes on with the next one: a function's type on a line of its own."""
    bare = line.strip()
    return bare[:1].isalpha() and bare[-1:] not in ("}", ";", "/", "\\", ",", ":", "{")


class Sources:
    """Places of the lines of a request: those of the cell whose `record` it is, from 1, and of its
    k-th body, k * BODY more."""

    def __init__(self, program: Program, request: Request, record: Record):
        self._program, self._request = program, request
        self.own = Text(request.source, request.first_line, record.source, record.number)
        self.find = cache(self._find)
        self._body, self._lines = cache(self._read_body), cache(self._read_lines)

    def _find(self, line: int) -> Place | None:
        if line < BODY:
            return self.own.find(line)
        _, owner, spans = self._body(line // BODY - 1)
        line %= BODY
        span = next((s for s in spans if s.first <= line <= s.last), None)
        if owner is None or span is None:
            return None
        there = next((s for s in owner.spans if s.name == span.name), None)
        return owner.find(there.first + line - span.first) if there is not None else None

    def _read_body(self, number: int) -> tuple[str, Text | None, list[_Span]]:
        lent = self._request.bodies[number]
        spans = _spans(functions(lent.text, "define"), 1)
        record = self._program.store.get(self._program.owner(lent.name))
        if record is None:
            return lent.name, None, spans
        text = Text(record.module, record.first_line, record.source, record.number)
        return lent.name, text, spans

    def function(self, line: int) -> tuple[str, int, int]:
        """The function that a line is in, "" where that is not known, its cell, and the line there,
        0 where it is of none or of a file."""
        text: Text | None = self.own
        spans = self.own.spans
        if line >= BODY:
            _, text, spans = self._body(line // BODY - 1)
        if text is None:
            return "", 0, 0
        found = next((s.name for s in spans if s.first <= line % BODY <= s.last), "")
        place = self.find(line)
        return found, text.cell, place.line if place is not None and not place.file else 0

    def is_head(self, line: int) -> bool:
        """True of the line with which a function of the cell begins, and no other code of it."""
        return any(line == span.head for span in self.own.spans)

    def extent(self, name: str) -> tuple[str, range]:
        """The file ("": the cell's text) and the lines that a function of the cell was written as,
        its head and its end too; no lines where that is not known."""
        span = next((s for s in self.own.spans if s.name == name), None)
        if span is None:
            return "", range(0)
        places = [self.own.places(line) for line in range(span.first, span.last + 1)]
        file = next((file for file, at in places if at), "")
        own = [at for where, at in places if at and where == file]
        if not own:
            return "", range(0)
        source = self._lines(self.own.cell, file) if span.begins else []
        if source:
            return file, _whole(source, span.begins, max(own))
        return file, range(min(own), max(own) + 1)

    def text(self, place: Place) -> str:
        """The text of a line, "" where it is not known any more."""
        lines = self._lines(place.cell, place.file)
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""

    def _read_lines(self, cell: int, file: str) -> list[str]:
        if file:
            try:
                with open(file, encoding="utf-8", errors="surrogateescape") as stream:
                    return stream.read(_MOST).split("\n")
            except OSError:
                return []
        try:
            record = self._program.store.get(cell)
        except JitError:
            record = None
        return record.source.split("\n") if record is not None else []
