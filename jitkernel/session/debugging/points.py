"""The breakpoints that are asked for: what is to be met, and whether a stop at one counts.  Start
from `Points`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from jitkernel.errors import UsageError
from jitkernel.regex import regex
from jitkernel.session.debugging.code import Code
from jitkernel.session.debugging.records import Breakpoint
from jitkernel.session.debugging.wholes import bodies

__all__ = ["Points"]

_COUNT = regex(r"\s*(==|>=|>|<=|<|%)?\s*(\d+)\s*\Z")
_PIECE = regex(r"\{([^{}]*)\}")
NOT_RUN = "it is set as soon as code of this cell runs"
NO_LINE = "no code comes from this line or those behind it"


class Points:
    """The breakpoints of a session, by number."""

    def __init__(self) -> None:
        self.known: dict[int, Breakpoint] = {}
        self._last = 0
        self._asked: dict[int, int] = {}  # lines that were asked for, by number
        self._lines: dict[str, set[int]] = {}  # of the parts of a text that have had code

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self.known.values())

    def add(self, wanted: Breakpoint) -> Breakpoint:
        """One more; raises UsageError where it does not say where, or not how often."""
        _check(wanted)
        made = self._made(wanted)
        self.known[made.number] = made
        return made

    def _made(self, wanted: Breakpoint) -> Breakpoint:
        self._last += 1
        made = replace(wanted, number=self._last, hits=0)
        self._asked[made.number] = made.line  # before it is known: whoever ends this, it is whole
        return made

    def remove(self, number: int) -> None:
        """One less; raises UsageError where there is none of this number."""
        if number not in self.known:
            there = ", ".join(map(str, self.known)) or "none"
            raise UsageError(f"there is no breakpoint {number}; there are: {there}")
        del self.known[number]
        del self._asked[number]

    def set_in(self, source: str, wanted: Sequence[Breakpoint]) -> list[Breakpoint]:
        """All of a whole cell's lines, in place of those before.  One at the same line keeps its
        number, its hits and what it was given otherwise."""
        wanted = [replace(point, source=source) for point in wanted]
        for point in wanted:
            _check(point)
        there = [p for p in self.known.values() if p.source == source and not p.function]
        before = {p.line: p for p in there} | {self._asked[p.number]: p for p in there}
        gone = {p.number for p in there}
        known = {n: p for n, p in self.known.items() if n not in gone}
        found = []
        for point in wanted:
            old = before.get(point.line)
            plain = not (point.condition or point.hit_condition or point.log)
            is_same = old is not None and old.number not in known and plain
            made = old if is_same and old is not None else self._made(point)
            known[made.number] = made
            found.append(made)
        self.known = known
        return found

    def texts(self) -> set[str]:
        """The texts that the session may have of the cells that have some."""
        return {body for p in self if p.source for body, _ in bodies(p.source)}

    def resolve(
        self, code: Code, reasons: Mapping[str, str], unreached: Callable[[int], str]
    ) -> tuple[dict[int, list[Breakpoint]], list[Breakpoint]]:
        """The places of those in code, by address; and those that are told otherwise than
        before.  `reasons` are why a cell has none to be debugged, by its text, or a function by its
        name; `unreached` says why nothing leads to code at an address, "" where something does."""
        found: dict[int, list[Breakpoint]] = {}
        changed = []
        for point in self:
            if point.watch:
                continue
            was = point.verified, point.line, point.message
            places = self._places(point, code, reasons)
            for address in places:
                found.setdefault(address, []).append(point)
            if point.verified and (why := [unreached(at) for at in places]) and all(why):
                point.verified, point.message = False, why[0]
            if (point.verified, point.line, point.message) != was:
                changed.append(point)
        return found, changed

    def _places(self, point: Breakpoint, code: Code, reasons: Mapping[str, str]) -> list[int]:
        if point.address:
            point.verified = True
            return [point.address]
        if point.function:
            name = point.function.lstrip("@")
            places = code.bodies(name)
            point.verified = bool(places)
            why = reasons.get(point.function, f"{point.function} has no code to be debugged")
            point.message = "" if places else why
            return places
        there = {part.source for part in code.parts}
        for body, above in bodies(point.source):
            if body in there:
                asked = self._asked[point.number] - above
                line, places = code.starts(body, asked)
                # A cell's code comes in several parts: what one has is not looked for in others.
                lines = self._lines.setdefault(body, set())
                lines |= code.lines(body)
                first = min((known for known in lines if known >= asked), default=0)
                point.verified, point.message = bool(first), "" if first else NO_LINE
                if first:
                    point.line = first + above
                return places if line == first else []
            if body in reasons and not self._lines.get(body):
                point.verified, point.message = False, reasons[body]
                return []
        if not point.verified:
            point.message = NOT_RUN
        return []


def _check(wanted: Breakpoint) -> None:
    """Raises UsageError where one does not say where, or not how often."""
    is_line = wanted.source and wanted.line > 0
    if not (wanted.function or wanted.address or wanted.watch or is_line):
        raise UsageError("a breakpoint is at a line of a cell, a function or an address")
    if wanted.hit_condition and _COUNT.match(wanted.hit_condition) is None:
        raise UsageError(f"'{wanted.hit_condition}' is no count of hits: write 5, >= 5 or % 5")


def count_of(text: str) -> tuple[str, int]:
    """The sign and the number of a count of hits: `5` is `== 5`; no count is always."""
    match = _COUNT.match(text)
    return (match[1] or "==", int(match[2])) if match is not None else (">=", 0)


def counts(point: Breakpoint) -> bool:
    """One more hit; True where that many count."""
    point.hits += 1
    sign, number = count_of(point.hit_condition)
    return {
        "==": point.hits == number, ">=": point.hits >= number, ">": point.hits > number,
        "<": point.hits < number, "<=": point.hits <= number,
        "%": number > 0 and point.hits % number == 0,
    }[sign]  # fmt: skip


def message(text: str, value: Callable[[str], str]) -> str:
    """A log message with the values of the expressions in braces."""
    return _PIECE.sub(lambda piece: value(piece[1]), text)
