"""The live ranges of a function's virtual registers beside its machine instructions, before
registers are allocated.  Start from `live_ranges`; `live_ranges_of` gives the record.

A range has a column of its own from its first instruction to its last; columns are used again, by
the left-edge algorithm, so that there are as many as intervals overlap (Hashimoto, Stevens, 1971),
where each begins an instruction early: its name is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.compiler.allocation import STACK
from jitkernel.compiler.live_ranges import LiveRanges, Range, read
from jitkernel.errors import UsageError
from jitkernel.views.diagram import LINE, PAGE
from jitkernel.views.figure import figure
from jitkernel.views.room import Room, size_of
from jitkernel.views.svg import INK, LETTER, SHEET, image
from jitkernel.views.view import View, folding, join, listing, paragraph, prose, shorten, table
from jitkernel.views.watched import Watched, watched
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

_ROWS = (
    300,
    250,
    200,
    150,
    100,
    50,
)  # instructions that are drawn, the most of which there is room
_WIDE = 60  # columns that are drawn
_LISTED = 30  # ranges in the table
_LETTERS = 64  # of an instruction in the picture
_LARGEST = 120_000  # bytes of HTML
_GAP = "\u00a0\u00a0"  # two spaces that SVG keeps
_PITCH = 18  # pixels from column to column
#: Of x86-64, by bank: the registers that can be allocated, and those that survive a call.
_KNOWN = {"general": (15, 6), "vector": (16, 0), "mask": (7, 0)}
_EVEX = 32  # vector registers where a class has them all: its name ends with x
# How bars are drawn: what has one register, several, a place on the stack.
_LOOKS = (
    'stroke="#00568a"',
    'stroke="#6a1f6a" stroke-dasharray="9 2"',
    'stroke="#8f3d00" stroke-dasharray="3 3"',
)
_SIGNS = {(True, True): "│", (False, True): "╷", (True, False): "╵"}


def live_ranges_of(session: Session, target: int | str | None = None) -> dict[str, LiveRanges]:
    """The live ranges of a function, or of each function of a cell, by name.  Raises UsageError."""
    return _read(watched(session, target, standing=True))


def _read(made: Watched) -> dict[str, LiveRanges]:
    found = {name: read(*texts) for name, texts in made.allocation.items()}
    if not found:
        what = f"{made.called} has no machine IR"
        raise UsageError(f"{what}: no function of it reached code generation")
    return found


def live_ranges(
    session: Session,
    target: int | str | None = None,
    around: int | None = None,
    tick: Callable[[str], None] | None = None,
) -> View:
    """The live ranges of virtual registers of a function, or of each function of a cell: which are
    live at once, and where register allocation put them.

    Of a function with more instructions than can be drawn: those `around` one, by its number, or
    where most are live.  `tick` is told twice a second how far LLVM is.  Raises UsageError.
    """
    made = watched(session, target, tick, standing=True)
    program = session.inspect.program
    views, room, every = list[View](), Room(size=_LARGEST * 2), _read(made)
    for at, (name, found) in enumerate(every.items()):
        called = program.called(name, made.cell)
        if not found.ranges:
            views.append(paragraph(f"{called} has no virtual registers: it needs no allocation."))
            continue
        for rows in _ROWS:
            view = _Picture(called, made.cell, found, around, rows).view()
            if len(view.html.encode()) <= _LARGEST:
                break
        views.append(view)
        if not room.take([size_of(view.html)]):
            left = len(every) - at - 1
            views += [paragraph(f"{said}: name one") for said in room.said(left, "function")]
            break
    return join(views)


class _Column(NamedTuple):
    """The ranges that share a column, in order."""

    bank: str
    ranges: list[Range]

    @property
    def stop(self) -> int:
        return self.ranges[-1].stop


class _Picture:
    """A function's ranges, of which those at the instructions from `first` on, and in front of
    `last`, are shown."""

    def __init__(self, called: str, cell: int, found: LiveRanges, around: int | None, most: int):
        self.called, self.cell, self.found = called, cell, found
        count = len(found.instructions)
        if around is not None and not 0 <= around < count:
            raise UsageError(
                f"{called} has no instruction {around}: they are numbered from 0 to {count - 1}"
            )
        self.banks = found.banks
        self.widest = {bank: found.widest(bank) for bank in self.banks}
        middle = self.widest[self.banks[0]][1] if around is None else around
        self.first = max(0, min(middle - most // 2, count - most))
        self.last = min(count, self.first + most)
        self.ranges = [
            r for r in found.ranges if r.stop > 2 * self.first and r.start < 2 * self.last
        ]
        columns = list(_columns(self.ranges, self.banks))
        self.columns, self.left = columns[:_WIDE], len(columns[_WIDE:])

    # -- words ---------------------------------------------------------------------------------

    def view(self) -> View:
        """The picture, and the same in words."""
        found, count = self.found, len(self.found.instructions)
        title = f"Live ranges of {self.called}, cell {self.cell}, before registers are allocated"
        pairs = sum(map(len, found.interference.values())) // 2
        said = (
            f"{counted(len(found.ranges), 'virtual register')} in "
            f"{counted(count, 'instruction')}, {counted(pairs, 'pair')} of them "
            f"interfere{'s' * (pairs == 1)}."
        )
        most = ", ".join(f"{n} {bank}" for bank, (n, _) in self.widest.items())
        at = self.widest[self.banks[0]][1]
        where = f"at instruction {at}" if len(self.banks) == 1 else "each at its widest place"
        said += f" Needed at once: {most}, {where}."
        part = ""
        if self.last - self.first < count:
            part = (
                f"Instructions {self.first} to {self.last - 1} of {count} are shown, with "
                f"{len(self.ranges)} of {len(found.ranges)} registers; --around N shows others."
            )
        if self.left:
            part += f" {_WIDE} columns are drawn, and {self.left} are not: that is too wide."
        banks = self._banks(title, f"{said} {part}".strip())
        legend = (
            "A bar is a virtual register, from the instruction that writes it to the last that "
            "reads it, with a tick at each that mentions it; where it is thin, its value is not "
            "needed. Solid: it got one register. Long dashes: several, or its value is computed "
            "again. Short dashes: a place on the stack, at least for a while. Grey: calls, and the "
            "widest place."
        )
        picture = self._drawn(f"{title}: {said} {part}".strip())
        code = listing("", "\n".join(self._lines()))
        known = self._table()
        text = f"{banks.text}\n\n{code.text}\n\n{known.text}"
        html = f"{picture}<p>{prose(legend)}</p>{banks.html}{known.html}"
        html += folding(f"{counted(self.last - self.first, 'instruction')} as text", code).html
        return View(text, html)

    def _banks(self, title: str, note: str) -> View:
        """Numbers of registers by bank: needed at once, across a call, and there."""
        rows = []
        for bank, (count, at) in self.widest.items():
            own = [r for r in self.found.ranges if r.bank == bank]
            usable, saved = _KNOWN.get(bank, ("", ""))
            if bank == "vector" and any(r.kind.endswith("x") for r in own):
                usable = _EVEX
            across = [
                (sum(r.bank == bank for r in self.found.across(call)), call)
                for call in self.found.calls
            ]
            most, call = max(across, key=lambda pair: pair[0], default=("", ""))
            rows.append((bank, len(own), count, at, most, call if most else "", usable, saved))
        columns = (
            "registers", "#virtual", "#at once", "#at", "#across a call", "#at",
            "#there are", "#survive a call",
        )  # fmt: skip
        return table(title, columns, rows, note)

    def _table(self) -> View:
        """The ranges, where there are many those that others are in the way of most."""
        shown, near = self.ranges, self.found.interference
        note = ""
        if len(shown) > _LISTED:
            shown = sorted(shown, key=lambda r: -len(near[r.name]))[:_LISTED]
            shown.sort(key=lambda r: r.start)
            note = f"The {_LISTED} of {len(self.ranges)} registers with most overlaps are listed."
        rows = [
            (r.name, r.kind, r.start // 2, (r.stop - 1) // 2, _length(r), len(r.mentions),
             len(near[r.name]), self._crossed(r) or "", ", ".join(r.homes))
            for r in shown
        ]  # fmt: skip
        columns = (
            "register", "class", "#from", "#to", "#live at", "#mentions", "#overlaps", "#calls",
            "allocated to",
        )  # fmt: skip
        return table("", columns, rows, note)

    def _crossed(self, one: Range) -> int:
        """The number of calls that a range is live across."""
        return sum(one.live(2 * call) and one.live(2 * call + 1) for call in self.found.calls)

    def _lines(self) -> Iterator[str]:
        """The instructions with their numbers, how many registers are needed there, and a letter
        for each column."""
        wide = len(str(len(self.found.instructions)))
        counts = [max(len(bank[:3]), 2) for bank in self.banks]
        head = " ".join(f"{bank[:3]:>{n}}" for bank, n in zip(self.banks, counts, strict=True))
        yield f"{'':>{wide}}  {head}"
        blank = " " * (wide + 2 + sum(counts) + len(counts) - 1)
        for n, text in self._rows():
            if n < 0:
                place = 2 * ~n
                yield f"{blank}  {self._signs(place, place)}  {text}"
                continue
            needed = " ".join(
                f"{self.found.pressure(n, bank):>{width}}"
                for bank, width in zip(self.banks, counts, strict=True)
            )
            mark = "*" if n in (at for _, at in self.widest.values()) else " "
            yield f"{n:>{wide}}{mark} {needed}  {self._signs(2 * n, 2 * n + 1)}  {text}"
        yield "* the widest place"

    def _signs(self, before: int, after: int) -> str:
        signs = []
        bank = self.columns[0].bank
        for column in self.columns:
            if column.bank != bank:
                signs.append(" ")
                bank = column.bank
            sign = " "
            for r in column.ranges:
                live = r.live(before), r.live(after)
                if any(live):
                    sign = _SIGNS[live]
                elif r.start <= after < r.stop:
                    sign = "┊"
            signs.append(sign)
        return "".join(signs)

    # -- what is drawn -------------------------------------------------------------------------

    def _drawn(self, alt: str) -> str:
        rows = list(self._rows())
        top = {n: y for y, (n, _) in enumerate(rows) if n >= 0}
        gutter = (len(str(self.last)) + 1 + 4 * len(self.banks)) * LETTER
        left = gutter + _PITCH / 2
        gaps = [column.bank for column in self.columns]
        at = [left + _PITCH * (i + len(set(gaps[: i + 1])) - 1) for i in range(len(self.columns))]
        code = at[-1] + _PITCH
        wide = round(code + _LETTERS * LETTER)
        tall = LINE * (len(rows) + 1)

        def y(place: int) -> float:
            n, low = divmod(max(place, 2 * self.first), 2)
            if n >= self.last:
                return float(tall)
            # What is read ends in the middle of its line, what is written begins there.
            return LINE * (top[n] + (1.5 if low else 1.0))

        parts = []
        for _, n in self.widest.values():
            if n in top:
                parts.append(_stripe(LINE * (top[n] + 1), wide, SHEET))
        parts += [
            f'<path d="M0 {LINE * (top[n] + 1.5):.0f}H{code:.0f}" stroke="{INK}"'
            ' stroke-opacity="0.35"/>'
            for n in self.found.calls if n in top
        ]  # fmt: skip
        bars: list[list[str]] = [[] for _ in _LOOKS]
        thin, ticks, names = [], [], []
        for x, column in zip(at, self.columns, strict=True):
            for r in column.ranges:
                thin.append(f"M{x:.0f} {y(r.start):.0f}V{y(r.stop):.0f}")
                look = 2 if STACK in r.homes else len(r.homes) > 1
                for start, stop in r.pieces:
                    if stop > 2 * self.first and start < 2 * self.last:
                        bars[look].append(f"M{x:.0f} {y(start):.0f}V{y(stop):.0f}")
                for n in r.mentions:
                    if n in top:
                        ticks.append(f"M{x - 4:.0f} {LINE * (top[n] + 1.5):.0f}h8")
                if r.start >= 2 * self.first:
                    high = y(r.start) - 3  # above the tick
                    names.append(f'<tspan x="{x:.0f}" y="{high:.0f}">{r.name[1:]}</tspan>')
        parts.append(f'<path d="{"".join(thin)}" stroke="{INK}" stroke-width="1"/>')
        parts += [
            f'<path d="{"".join(path)}" {look} stroke-width="6"/>'
            for look, path in zip(_LOOKS, bars, strict=True) if path
        ]  # fmt: skip
        parts.append(f'<path d="{"".join(ticks)}" stroke="{INK}" stroke-width="2"/>')
        parts.append(f'<g font-family="monospace" fill="{INK}"><text font-size="9"'
                     f' text-anchor="middle">{"".join(names)}</text>')  # fmt: skip
        heads = "".join(f"{bank[:3]:>4}" for bank in self.banks)
        # Where scripts run, the picture is shown from its numbers on.
        numbers = _text(gutter - 4, [heads, *(self._numbers(n) for n, _ in rows)], "end")
        parts.append(f'<g data-k="0">{numbers}</g>')
        lines = ["", *(shorten(text, _LETTERS) for _, text in rows)]
        parts.append(_text(code, lines, "start") + "</g>")
        drawn = image(parts, wide, tall, alt)
        return drawn if wide <= PAGE and tall <= PAGE else figure(drawn)

    def _rows(self) -> Iterator[tuple[int, str]]:
        """The lines that are shown, with the number of the instruction; where a block begins, ~n
        for that of its first one."""
        labels = dict[int, list[str]]()
        for first, label in self.found.blocks:
            labels.setdefault(first, []).append(label)
        for n in range(self.first, self.last):
            for label in labels.get(n, ()):
                yield ~n, f"{label}:"
            yield n, "  " + self.found.instructions[n].partition(" :: ")[0]

    def _numbers(self, n: int) -> str:
        if n < 0:
            return ""
        needed = "".join(f"{self.found.pressure(n, bank):>4}" for bank in self.banks)
        return f"{n}{needed}"


def _columns(ranges: Sequence[Range], banks: Sequence[str]) -> Iterator[_Column]:
    """The ranges in as few columns as there are, bank by bank."""
    for bank in banks:
        columns: list[_Column] = []
        for one in ranges:
            if one.bank != bank:
                continue
            free = next((c for c in columns if c.stop <= one.start - 2), None)
            if free is None:
                columns.append(_Column(bank, [one]))
            else:
                free.ranges.append(one)
        yield from columns


def _length(one: Range) -> int:
    """The number of instructions that a range is live at."""
    return len({n for start, stop in one.pieces for n in range(start // 2, (stop - 1) // 2 + 1)})


def _stripe(y: float, wide: float, colour: str) -> str:
    return f'<rect y="{y:.0f}" width="{wide:.0f}" height="{LINE}" fill="{colour}"/>'


def _text(x: float, lines: Sequence[str], anchor: str) -> str:
    """Lines of text, one below the other, each of its own: a search goes to one."""
    texts = [
        f'<text x="{x:.0f}" y="{LINE * n + 11}">'
        f"{escape(line, quote=False).replace('  ', _GAP)}</text>"
        for n, line in enumerate(lines) if line
    ]  # fmt: skip
    return f'<g font-size="11" text-anchor="{anchor}">{"".join(texts)}</g>'
