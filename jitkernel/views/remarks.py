"""What LLVM says of a cell's or a function's code, beside the lines that it speaks of: what was
inlined, vectorised, hoisted, what not, and why.  Start from `remarks`; `remarks_of` gives records.

The cell is compiled again with a location at each instruction, which leaves its code as it is: so
lines are known in cells of any language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from jitkernel.compiler.remarks import (
    ALLOCATION,
    DONE,
    NOT_DONE,
    SAID,
    Remark,
    Remarks,
    inlined,
)
from jitkernel.regex import regex
from jitkernel.views.inlining import reason
from jitkernel.views.room import Room, size_of
from jitkernel.views.view import View, fold, folding, join, paragraph, prose, table
from jitkernel.views.watched import Watched, shown_in_part, watched
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session

#: Passes that say of each load and each call what kept them from moving it.
_NOISY = ("gvn", "licm", "early-cse", "dse", ALLOCATION)
_SPILLS = regex(r"\b(?:spills|reloads)\b")
_COSTS = regex(r" -?\d\.\d+e[+-]\d+ total [\w ]+? cost")
_PLACE = regex(r"\bcell\.ll:(\d+):\d+")
_BARE = "loop not vectorized"  # why stands beside it
_OF_LINE = 8  # remarks of a line, without --all
_LINES = 150  # of source, without --all
_CHIPS = {  # text and background that are readable wherever they stand
    DONE: "color:#0b3d17;background:#bfe8c8",
    NOT_DONE: "color:#5c2600;background:#f8d9b8",
}
_CODE = "white-space:pre;text-align:left;vertical-align:top;max-width:60em;overflow-x:auto"
_SIDE = "text-align:left;vertical-align:top"


@dataclass(frozen=True, slots=True)
class Said:
    """A remark at its place: the cell and its line, 0 where unknown, and the function there, as it
    is shown; `text` in fewer words.  `noisy`: one of those that are told of every load."""

    cell: int
    line: int
    where: str
    text: str
    noisy: bool
    remark: Remark


def remarks_of(
    session: Session, target: int | str | None = None, tick: Callable[[str], None] | None = None
) -> list[Said]:
    """The remarks of LLVM's passes on a function or a cell, in the order of its lines; those on
    other functions' lines, which became part of it, come last.

    `tick` is told twice a second how far LLVM works.  Raises UsageError where the cell has no IR.
    """
    made = watched(session, target, tick)
    return _placed(made, session.inspect.traced(lambda of: of.remarks(made.request, tick)))


def _placed(made: Watched, given: Iterable[Remark]) -> list[Said]:
    """The remarks at their places, in order."""
    session, inspect = made.session, made.session.inspect
    place = cache(inspect.places.lines.sources(made.cell, made.request).function)
    found = []
    for remark in given:
        name, cell, line = place(remark.line)
        if made.symbol and (remark.function or name) != made.symbol:
            continue
        called = inspect.program.called(name) if name else ""
        words = _PLACE.sub(lambda m: _line(made, *place(int(m[1]))[1:]), _words(session, remark))
        found.append(Said(cell or made.cell, line, called, words, _noisy(remark), remark))
    own = made.called if made.symbol else ""
    order = {DONE: 0, NOT_DONE: 1}
    found.sort(
        key=lambda s: (
            s.cell != made.cell or (own not in ("", s.where) and s.line > 0), s.cell, s.line,
            order.get(s.remark.tells, 2),
        )
    )  # fmt: skip
    return found


def _line(made: Watched, cell: int, line: int) -> str:
    """The words for a place that a remark speaks of."""
    where = f" of cell {cell}" if cell not in (0, made.cell) else ""
    return f"line {line}{where}" if line else "a line that is not known"


def _words(session: Session, remark: Remark) -> str:
    if calls := inlined([remark]):
        callee, caller, done, why = calls[0]
        called = session.inspect.program.called
        return (
            f"{called(callee)} {'' if done else 'not '}inlined into {called(caller)}: {reason(why)}"
        )
    return _COSTS.sub("", remark.text)


def _noisy(remark: Remark) -> bool:
    if remark.name == ALLOCATION:
        return not _SPILLS.search(remark.text)
    return remark.name in _NOISY and remark.tells != DONE


def remarks(
    session: Session,
    target: int | str | None = None,
    everything: bool = False,
    tick: Callable[[str], None] | None = None,
) -> View:
    """The remarks of LLVM's passes on a function or a cell, beside its lines.

    What some passes say of each load that they could not move, and what is said of more than the
    first lines, is only counted, unless `everything` is asked for.  `tick` is told twice a second
    how far LLVM works.  Raises UsageError; an interruption has a `view` of what was said until
    then, if anything was.
    """
    made = watched(session, target)

    def until_then(part: Remarks) -> View:
        shown = _view(made, _placed(made, part.found), everything)
        if not part.stopped:  # all of it was there
            return shown
        return join([shown, paragraph(f"Stopped at {part.stopped}: this was said until then.")])

    with shown_in_part(session, until_then):
        found = remarks_of(session, target, tick)
    return _view(made, found, everything)


def _view(made: Watched, found: list[Said], everything: bool) -> View:
    session = made.session
    head = f"{made.called}, cell {made.cell}" if made.symbol else made.called
    if not found:
        return paragraph(f"LLVM says nothing of {head}. {made.untouched}".strip())
    views = [_by_pass(head, found, everything)]
    rest = []
    source = {made.cell: session.source(made.cell).split("\n")}
    own = [s for s in found if s.cell == made.cell and s.line]
    if made.symbol:
        rest = [s for s in own if s.where != made.called]
        own = [s for s in own if s.where == made.called]
    if own:
        views.append(_beside(own, source[made.cell], everything))
    rest += [s for s in found if s.cell != made.cell or not s.line]
    rest.sort(key=lambda s: (s.where != made.called, not s.where, s.cell, s.where, s.line))
    for (cell, where, known), group in groupby(rest, lambda s: (s.cell, s.where, s.line > 0)):
        others = [s for s in group if everything or not s.noisy]
        if not others:
            continue
        if cell not in source:
            source[cell] = session.source(cell).split("\n")
        what = f"Lines of {where}, cell {cell}" if known else f"Of all of {where}"
        if known and made.symbol:
            what += f", as part of {made.called}"
        what = what if where else "Of no line that is known"
        views.append(folding(what, _beside(others, source[cell], everything), is_open=True))
    return join(views, Room("--all", everything))


def _by_pass(head: str, found: Sequence[Said], everything: bool) -> View:
    """A table of how much each pass said."""
    counts: dict[str, Counter[str]] = {}
    folded: Counter[str] = Counter()
    for said in found:
        counts.setdefault(said.remark.name, Counter())[said.remark.tells] += 1
        folded[said.remark.name] += said.noisy and not everything
    rows = [
        (name, *(n[what] or "" for what in (DONE, NOT_DONE, SAID)), folded[name] or "")
        for name, n in sorted(counts.items(), key=lambda item: -item[1][DONE])
    ]
    columns = ("pass", "#done", "#not done", "#else", "#folded")
    note = ""
    if folded.total():
        names = cut_list([name for name in counts if folded[name]], 6)
        note = (
            f"Folded: {counted(folded.total(), 'remark')} on single loads and copies ({names}); "
            "--all shows them all."
        )
    passes = f"{len(counts)} pass{'es' * (len(counts) != 1)}"
    title = f"{head}: {counted(len(found), 'remark')} of {passes}"
    return table(title, columns, rows, note)


def _beside(found: Sequence[Said], source: Sequence[str], everything: bool) -> View:
    """Lines of source with what is said of each."""
    by_line: dict[int, list[Said]] = {}
    for said in found:
        by_line.setdefault(said.line, []).append(said)
    shown = {n: s for n, s in by_line.items() if everything or any(not x.noisy for x in s)}
    lines = sorted(shown)
    texts, rows, room = list[str](), list[str](), Room("", everything, lines=_LINES)
    width = len(str(max(lines, default=0)))
    for number in lines:
        code = source[number - 1] if 0 < number <= len(source) else ""
        words = list(_said(shown[number], everything))
        row = _row(number, code, words)
        if not room.take([size_of(row)]):
            break
        rows.append(row)
        if number:
            texts.append(f"{number:>{width}}  {code}".rstrip())
        texts += [f"{'':>{width}}    {tells}{name}: {text}" for tells, name, text in words]
    left = lines[len(rows) :]
    if quiet := len(by_line) - len(shown):
        texts.append(f"{counted(quiet, 'more line')} with folded remarks only; --all shows them")
    if left:
        texts.append(f"{counted(len(left), 'more line')} from line {left[0]} on; --all shows them")
    more = "".join(f"<p>{prose(t)}</p>" for t in texts[len(texts) - bool(quiet) - bool(left) :])
    columns = ("line", "code", "remarks") if any(lines) else ("remarks",)
    head = "<thead><tr>" + "".join(
        f'<th scope="col" style="{_SIDE}">{name}</th>' for name in columns
    )
    html = f"<table>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"
    return View(fold(texts), html if rows else more)


def _said(found: Sequence[Said], everything: bool) -> Iterator[tuple[str, str, str]]:
    """For each remark whether it was done, the pass and its words, what is said twice once."""
    kept = [s for s in found if everything or not s.noisy]
    if any(s.text.startswith(f"{_BARE}: ") for s in kept):
        kept = [s for s in kept if s.text != _BARE]
    most = len(kept) if everything else _OF_LINE
    counts = Counter((s.remark.tells, s.remark.name, s.text) for s in kept)
    for (tells, name, text), times in list(counts.items())[:most]:
        word = f"{tells}, " if tells in _CHIPS else ""
        yield word, name, text + (f" (× {times})" if times > 1 else "")
    if len(counts) > most:
        yield "", "…", f"{len(counts) - most} more; --all shows them"
    if folded := Counter(s.remark.name for s in found if s.noisy and not everything):
        words = ", ".join(f"{n} of {name}" for name, n in folded.items())
        yield "", "folded", words


def _row(number: int, code: str, said: Sequence[tuple[str, str, str]]) -> str:
    parts = []
    for word, name, text in said:
        tells = word.removesuffix(", ")
        chip = f'<b style="{_CHIPS[tells]}">{tells}</b> ' if tells else ""
        parts.append(f"{chip}{prose(name)}: {prose(text)}")
    place = (
        f'<th scope="row" style="{_SIDE}">{number}</th>'
        f'<td style="{_CODE}"><code style="white-space:pre">{escape(code)}</code></td>'
    )
    return f'<tr>{place if number else ""}<td style="{_SIDE}">{"<br>".join(parts)}</td></tr>'
