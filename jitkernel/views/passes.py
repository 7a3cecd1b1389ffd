"""Which pass changed what, step by step: `passes`.

The cell is compiled again, watched, from the same text with the same options; what the last step
leaves is what was compiled, and the view says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from jitkernel.compiler.debug_info import has_locations, without_metadata
from jitkernel.compiler.pass_trace import PassTrace, Step
from jitkernel.errors import UsageError
from jitkernel.ir.names import bare, written
from jitkernel.views.diff import (
    REST,
    counts,
    difference,
    difference_view,
    optnone,
    parts,
    shown_unit,
)
from jitkernel.views.view import View, fold, folding, join, listing, table, time_text
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = [
    "STEP_COLUMNS", "Changed", "changed_steps", "trace_of", "object_note", "passes", "spent_text",
    "untouched",
]  # fmt: skip

_LINES = 200  # of a step's diff
_STEPS = 400  # shown
STEP_COLUMNS = ("#step", "pass", "on", "#lines −", "#lines +", "#time", "verified")


@dataclass(frozen=True, slots=True)
class Changed:
    """A step with its number, what it changed of what is looked at, and all text after it."""

    number: int
    step: Step
    lines: list[str]
    after: dict[str, str]

    @property
    def unit(self) -> str:
        """What the pass ran on, as IR writes names."""
        return shown_unit(self.step.unit)

    @property
    def title(self) -> str:
        """`3. sroa on @sum, 12 us`."""
        spent = self.step.nanoseconds
        time = f", {time_text(spent)}" if spent >= 0 else ""
        return f"{self.number}. {self.step.name} on {self.unit}{time}"

    @property
    def row(self) -> tuple[object, ...]:
        """What stands in a table beneath `STEP_COLUMNS`."""
        minus, plus = counts(self.lines)
        verdict = {True: "yes", False: "NO", None: "not tried"}[self.step.verified]
        spent = self.step.nanoseconds
        time = time_text(spent) if spent >= 0 else ""
        return self.number, self.step.name, self.unit, minus, plus, time, verdict


def trace_of(
    session: Session, target: int | str | None, tick: Callable[[], None] | None = None
) -> tuple[int, str, PassTrace]:
    """The cell that is meant, the function in it that is asked for ("": all), its pass trace."""
    cell, _ = session.inspect.cell_of(target)
    only = bare(target) if isinstance(target, str) and not target.isdigit() else ""
    if only and session.symbols[only].kind != "function":
        only = ""
    return cell.number, only, session.inspect.passes(cell.number, tick)


def changed_steps(inspection: PassTrace, only: str = "") -> Iterator[Changed]:
    """The steps over IR, numbered from 1, with their diffs; `only` is a function's bare name.

    Where there is debug information, the texts are those without it.
    """
    name = written(only) if only else ""
    quiet = without_metadata if has_locations(inspection.before) else str
    now = parts(quiet(inspection.before))
    for number, step in enumerate(inspection.ir, 1):
        found = parts(quiet(step.text))
        if inspection.whole or step.unit == "[module]":
            after = found
        else:
            found.pop(REST)
            after = now | found
        yield Changed(number, step, difference(now, after, name), after)
        now = after
    # Pass managers, too, take out functions that nobody uses any more, and log nothing.
    after = parts(quiet(inspection.after))
    if lines := difference(now, after):
        title = "end of the pipeline"
        last = Step(title, title, "[module]", False, inspection.after, True, -1)
        yield Changed(
            len(inspection.ir) + 1, last, difference(now, after, name) if name else lines, after
        )


def passes(
    session: Session,
    target: int | str | None = None,
    only: str = "",
    stop_after: int | str | None = None,
    tick: Callable[[], None] | None = None,
) -> View:
    """Each pass that changed a function or a cell: what it ran on, its diff, its time, and whether
    the module was well formed after it.

    `only` shows the steps of one pass (a name, or a pattern as `loop-*`); `stop_after` ends after a
    step's number or the last step of a pass, and shows the module as it was then.  `tick` is called
    twice a second while LLVM works.  Raises UsageError.
    """
    number, symbol, trace = trace_of(session, target, tick)
    steps = list(changed_steps(trace, symbol))
    every = len(steps)
    note = untouched(trace, symbol)
    until: Changed | None = None
    if stop_after is not None:
        until = _until(steps, str(stop_after))
        steps = [s for s in steps if s.number <= until.number]
    if only:
        steps = [s for s in steps if fnmatchcase(s.step.name, only) or s.step.title == only]
        if not steps:
            raise UsageError(_no_such(only, trace))
    elif symbol:
        steps = [s for s in steps if s.lines]
    shown = (written(symbol) + ", " if symbol else "") + f"cell {number}"
    head = f"{shown}: {every} of {trace.ran} passes changed the module; {spent_text(trace)}"
    left = steps[_STEPS:] if until is None else steps[:-_STEPS]
    steps = steps[:_STEPS] if until is None else steps[-_STEPS:]
    rows = [step.row for step in steps]
    sentences = [note, object_note(session, number, trace) if until is None and not only else ""]
    if has_locations(trace.before):
        sentences.append("Debug information and other metadata (!12) are left out here.")
    if left:
        sentences.append(
            f"{len(left)} steps, {left[0].number} to {left[-1].number}, are not listed: "
            "%passes @name shows those of one function, --only those of one pass."
        )
    views = [table(head, STEP_COLUMNS, rows, "\n".join(filter(None, sentences)))]
    limit = 20_000 if only else _LINES
    for step in steps:
        more = f"; %passes --only {step.step.name} shows them"
        changed = difference_view(step.lines or ["(outside what is shown)"], limit, more)
        views.append(folding(step.title, changed, is_open=len(step.lines) <= 12))
    if until is not None:
        title = f"after step {until.number}, {until.step.name}"
        kept = [until.after.get(written(symbol), "")] if symbol else until.after.values()
        body = "\n\n".join(filter(None, kept))
        views.append(View(f"{title}\n{fold(body.splitlines())}", listing(title, body).html))
    return join(views)


def _until(steps: list[Changed], which: str) -> Changed:
    if which.isdigit():
        if not 1 <= int(which) <= len(steps):
            raise UsageError(f"there is no step {which}: {len(steps)} passes changed something")
        return steps[int(which) - 1]
    found = [s for s in steps if s.step.name == which]
    if not found:
        names = list(dict.fromkeys(s.step.name for s in steps))
        raise UsageError(f"no step is called {which}; there are {', '.join(names) or 'none'}")
    return found[-1]


def _no_such(only: str, trace: PassTrace) -> str:
    names = list(dict.fromkeys(step.name for step in trace.ir))
    words = did_you_mean(only, names)
    listed = f": those were {', '.join(names)}" if names else ""
    return f"no pass called {only} changed anything{words}{listed}"


def spent_text(trace: PassTrace) -> str:
    """How long all passes took, where the system told."""
    if trace.spent < 0 and trace.ran:
        return "their times could not be measured"
    return f"all passes took {time_text(max(trace.spent, 0))}"


def untouched(trace: PassTrace, symbol: str = "") -> str:
    """Why nothing happens where nothing does; empty where something may."""
    frozen = optnone(trace.before)
    if symbol and written(symbol) in frozen:
        frozen = [written(symbol)]
    elif symbol:
        frozen = []
    if frozen:
        names = ", ".join(frozen)
        verb = "is" if len(frozen) == 1 else "are"
        return (
            f"{names} {verb} optnone: no pass touches such a function. "
            "%%llvm --ignore-optnone drops it."
        )
    if not trace.ir:
        return "No pass changed anything."
    return ""


def object_note(session: Session, number: int, trace: PassTrace) -> str:
    """Whether what was watched is what was compiled, by the object's bytes."""
    size = len(trace.object)
    if session.inspect.object(number) == trace.object:
        return f"The last step is what was compiled: its object has the same {size} bytes."
    return "This is not what was compiled: the object differs. The compiler has changed since."
