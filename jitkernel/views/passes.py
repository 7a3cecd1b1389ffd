"""What each pass changed of a cell or a function, `passes`; the passes over one loop, `loop`.

The cell is compiled again, watched, from the same text with the same options, but that values which
have only a number get a name first: so what passes did stands out from LLVM's numbering anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from html import escape
from typing import TYPE_CHECKING

from jitkernel.compiler.pass_log import functions_of
from jitkernel.compiler.pass_trace import LoopTrace, PassTrace
from jitkernel.compiler.passes import name_of
from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.ir.printed import matching
from jitkernel.views.room import Room
from jitkernel.views.sides import Piece, sides
from jitkernel.views.slider import slider
from jitkernel.views.view import (
    View,
    fold,
    folding,
    join,
    listing,
    paragraph,
    table,
    time_text,
)
from jitkernel.views.watched import (
    STEP_COLUMNS,
    Changed,
    Watched,
    changed_steps,
    shown_in_part,
    watched,
)
from jitkernel.wording import counted, cut_list, did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

_STEPS = 60  # in a table
_LINES = 120  # of a step's difference, where others are shown too
_MOST = 1000  # where it is the one that is asked for
_WHOLE = 150_000  # letters of what a step left that are shown for sure
_ROOM = 70_000  # letters that the differences of all steps may take as HTML


def passes(
    session: Session,
    target: int | str | None = None,
    only: str = "",
    stop_after: int | str | None = None,
    tick: Callable[[str], None] | None = None,
    *,
    step: int | str | None = None,
    everything: bool = False,
) -> View:
    """Each pass that changed a function or a cell: what it ran on, what it changed, what was left
    then, and its time.

    `only` shows the steps of one pass (a name, or a pattern as `lo*`); `step` one step, by its
    number or the first one of a pass; `stop_after` ends after a step, by its number or the last one
    of a pass, and shows the module as it was then.  `everything`: metadata, attributes and debug
    records too.  `tick` is told twice a second how far LLVM is.  Of more than 100,000 lines of IR
    the passes are only listed.  Raises UsageError; an interruption has a `view` of the steps until
    then, if there were any.
    """
    made = watched(session, target, tick)
    if made.too_much and not (only or step is not None or stop_after is not None):
        return _runs(made)

    def until_then(part: PassTrace) -> View:
        vars(made)["trace"] = part
        every = list(changed_steps(part, everything))
        return join(
            [_table(made, every, every, None, everything), *_steps(made, every, False, everything)]
        )

    with shown_in_part(session, until_then):
        made.trace  # noqa: B018  (which takes long)
    every = list(changed_steps(made.trace, everything))
    chosen = every
    until = _named(every, str(stop_after), -1) if stop_after is not None else None
    if until is not None:
        chosen = every[: until.number]
    if step is not None:
        chosen = [_named(every, str(step), 0)]
    elif only:
        chosen = [s for s in chosen if fnmatchcase(s.step.name, only)]
        if not chosen:
            raise UsageError(_no_such(only, every))
    views = [_table(made, every, chosen, until, everything)]
    views += _steps(made, chosen, bool(only) or step is not None, everything)
    if until is not None:
        title = f"after step {until.number}, {until.step.name}"
        names = [written(made.symbol)] if made.symbol else list(until.after)
        body = "\n\n".join("\n".join(until.after.get(n, [])).strip("\n") for n in names).strip()
        more = _with_all(made, until) if len(body) > _WHOLE and not everything else ""
        shown = listing(title, body, Room(more, everything))
        views.append(View(fold(shown.text.splitlines()), shown.html))
    return join(views, Room("", everything))


def _with_all(made: Watched, until: Changed) -> str:
    """The command that shows all that a step left: with `--all` it may have another number."""
    every = changed_steps(made.trace, everything=True)
    number = next(one.number for one in every if one.step is until.step)
    return f"%passes {made.called.removeprefix('cell ')} --stop-after {number} --all"


def _runs(made: Watched) -> View:
    """The passes alone, where it would be too much what each did."""
    runs = made.session.inspect.traced(lambda of: of.pass_runs(made.request, made.tick))
    if made.symbol:
        runs = tuple(run for run in runs if made.symbol in functions_of(run.unit))
    times: dict[str, list[int]] = {}
    for run in runs:
        times.setdefault(name_of(run.title), []).append(max(run.nanoseconds, 0))
    rows = [
        (name, len(spent), time_text(sum(spent)))
        for name, spent in sorted(times.items(), key=lambda row: -sum(row[1]))
    ]
    spent = time_text(sum(map(sum, times.values())))
    head = f"{made.called}: {len(runs):,} runs of {len(times)} passes, which took {spent}"
    return table(head, ("pass", "#runs", "#time"), rows, made.too_much)


def _table(
    made: Watched, every: list[Changed], chosen: list[Changed], until: Changed | None, whole: bool
) -> View:
    """The steps that are shown, in numbers, and what is to be said of all."""
    trace = made.trace
    shown = f"{made.called}, cell {made.cell}" if made.symbol else made.called
    what = "changed it" if made.symbol else "changed the module"
    head = f"{shown}: {counted(len(every), 'step')} {what}, of {trace.ran} passes; {made.spent}"
    listed = chosen[:_STEPS] if until is None else chosen[-_STEPS:]
    left = chosen[_STEPS:] if until is None else chosen[:-_STEPS]
    sentences = [made.untouched or ("" if every else "No pass changed anything.")]
    if left:
        sentences.append(
            f"{len(left)} steps, {left[0].number} to {left[-1].number}, are not listed: "
            "%passes NAME shows those of one function, --only those of one pass."
        )
    sentences += _notes(trace, whole)
    return table(head, STEP_COLUMNS, [s.row for s in listed], "\n".join(filter(None, sentences)))


def _notes(trace: PassTrace, whole: bool) -> Iterator[str]:
    """Sentences on all steps."""
    loops = [s for s in trace.steps if len(s.ran) > 1 or any(times > 1 for _, times in s.ran)]
    if loops:
        yield (
            "Passes over loops run on each loop, so they are one step with those that ran with "
            "them: %passes NAME --loop shows what each did to one loop."
        )
    silent = [s.name for s in trace.steps if s.silent]
    if silent and not whole:
        names = cut_list(list(dict.fromkeys(silent)), 6)
        yield (
            f"{counted(len(silent), 'more step')} changed only metadata, attributes or debug "
            f"records ({names}): --all shows those too."
        )
    if trace.named:
        yield "What has only a number in the cell is called by it here: %7 is %v7, block 8 is b8."
    if trace.stopped:
        yield f"Stopped at {trace.stopped}: this is what passes had changed until then."
    elif not trace.verified:
        yield "LLVM refuses what the last pass left: it is not well formed."
    elif trace.steps:
        yield "What the last pass left is well formed."


def _steps(
    made: Watched, chosen: Sequence[Changed], alone: bool, everything: bool
) -> Iterator[View]:
    """The change of each step, as far as there is room, that of the smallest ones first; the first
    one is open."""
    what = f"%passes {made.called.removeprefix('cell ')}{' --all' * everything}"
    room = _ROOM if not alone else 4 * _ROOM
    limit = _MOST if len(chosen) == 1 else _LINES
    shown: dict[int, View] = {}
    for one in sorted(chosen[:_STEPS], key=lambda one: sum(sum(p.counts) for p in one.pieces)):
        more = f"{what} --step {one.number}" if len(chosen) > 1 else ""
        view = sides(one.pieces, Room(more, lines=limit))
        room -= len(view.html) + len(view.text)
        if room < 0 and shown:
            break
        shown[one.number] = view
    folds: list[View] = []
    for one in chosen:
        if one.number in shown:
            folds.append(folding(one.title, shown[one.number], is_open=not folds))
    if folds:
        yield slider(folds, "step")
    if out := [one.number for one in chosen if one.number not in shown]:
        yield paragraph(
            f"What {counted(len(out), 'more step')} changed, {cut_list(list(map(str, out)), 8)}, "
            f"is not shown: {what} --step {out[0]} shows the one."
        )


def _named(steps: list[Changed], which: str, end: int) -> Changed:
    """The step of that number, or the first or last one (`end`) of that pass."""
    if which.isdigit():
        if not 1 <= int(which) <= len(steps):
            raise UsageError(f"there is no step {which}: {len(steps)} steps changed something")
        return steps[int(which) - 1]
    found = [s for s in steps if s.step.name == which]
    if not found:
        names = list(dict.fromkeys(s.step.name for s in steps))
        raise UsageError(f"no step is called {which}; there are {', '.join(names) or 'none'}")
    return found[end]


def _no_such(only: str, steps: Sequence[Changed]) -> str:
    names = list(dict.fromkeys(s.step.name for s in steps))
    words = did_you_mean(only, names)
    if any(only in dict(s.step.ran) for s in steps):
        return f"{only} runs on each loop: %passes NAME --loop shows what it did to one"
    listed = f": those were {', '.join(names)}" if names else ""
    return f"no pass called {only} changed anything{words}{listed}"


def loop(
    session: Session,
    target: int | str | None = None,
    header: str = "",
    tick: Callable[[str], None] | None = None,
) -> View:
    """The passes over one loop of a function and what each changed.  A label of its header says
    which (`%for.body`), else it is the first; with a list of all.  Raises UsageError; an
    interruption has a `view` as that of `passes` has."""
    made = watched(session, target, tick)
    symbol = made.symbol or _only(made)
    label = f"%{header.removeprefix('%')}" if header else ""
    called = session.inspect.program.called(symbol)

    def told(trace: LoopTrace) -> View:
        return join([_loops(called, made, trace), *_story(called, label, trace)])

    with shown_in_part(session, told):
        trace = session.inspect.traced(lambda of: of.loop(made.request, symbol, label, tick))
        if not trace.loops:
            return paragraph(f"No pass ran over a loop of {called}, cell {made.cell}.")
        if not label:
            label = trace.loops[0][0][0]
            trace = session.inspect.traced(lambda of: of.loop(made.request, symbol, label, tick))
    if not any(label in labels for labels, _ in trace.loops):
        words = cut_list([labels[0] for labels, _ in trace.loops], 8)
        raise UsageError(f"{called} has no loop whose header is {label} at any time: {words}")
    return told(trace)


def _only(made: Watched) -> str:
    """The one function of a cell."""
    names = made.session.inspect.cell_of(made.cell)[1]
    found = [n for n in names if made.session.symbols[n].kind == "function"]
    if len(found) != 1:
        raise UsageError(f"cell {made.cell} has {len(found)} functions: name one")
    return found[0]


def _loops(called: str, made: Watched, trace: LoopTrace) -> View:
    listed = trace.loops[:_STEPS]
    rows = [(n, " then ".join(labels), ran) for n, (labels, ran) in enumerate(listed, 1)]
    note = f"{len(trace.loops) - len(listed)} more are not listed." if trace.loops[_STEPS:] else ""
    columns = ("#loop", "header", "#passes")
    return table(f"Loops of {called}, cell {made.cell}", columns, rows, note)


def _story(called: str, label: str, trace: LoopTrace) -> Iterator[View]:
    folds: list[View] = []
    room = _ROOM
    for number, step in enumerate(trace.steps, 1):
        old, new = _text(step.before), _text(step.after)
        piece = Piece("", old, new, matching(old, new))
        gone, came = piece.counts
        title = f"{number}. {step.name}, −{gone} +{came} lines"
        if not step.after:
            title += ": it is no loop any more"
        view = sides([piece], Room(lines=_LINES))
        room -= len(view.html) + len(view.text)
        if room < 0 and folds:
            yield paragraph(f"{len(trace.steps) - number + 1} more steps are not shown.")
            break
        folds.append(folding(title, view, is_open=not folds))
    head = f"The loop {label} of {called}: {len(trace.steps)} of {trace.ran} passes changed it"
    if trace.stopped:
        head += f". Stopped at {trace.stopped}."
    yield View(head, f"<p><b>{escape(head)}</b></p>")
    if folds:
        yield slider(folds, "pass")


def _text(text: str) -> list[str]:
    return text.split("\n") if text else []
