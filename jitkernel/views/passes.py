"""What the compiler made of a cell: its IR, `ir`; what each pass changed, `passes`; its machine IR
after instruction selection, after register allocation and final, `mir`.

The cell is compiled again, watched, from the same text with the same options; what the last step
leaves is what was compiled, and the views say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from jitkernel.compiler.machine_ir import LEFT_OUT, STAGES, Stage, stages_of
from jitkernel.compiler.pass_trace import PassTrace, Step
from jitkernel.errors import UsageError
from jitkernel.ir.debug_info import has_locations, without_metadata
from jitkernel.ir.module import functions, global_values
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
from jitkernel.views.view import (
    View,
    fold,
    folding,
    join,
    listing,
    paragraph,
    preformatted,
    table,
    time_text,
    titled,
)
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

_LINES = 200  # of a step's diff
_STEPS = 400  # shown
_STAGE_LINES = 400  # of a stage, where all are shown
_IR_STAGES = {
    "raw": "before the first pass",
    "opt": "after the last pass",
    "diff": "what changed",
}
# Dark on amber: it catches the eye on a white page and does not glare on a black one.
_MARK = "color:#1a1a1a;background:#d9a94a"
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
        """The unit that the pass ran on, as IR writes names."""
        return shown_unit(self.step.unit)

    @property
    def title(self) -> str:
        """`3. sroa on @sum, 12 us`."""
        spent = self.step.nanoseconds
        time = f", {time_text(spent)}" if spent >= 0 else ""
        return f"{self.number}. {self.step.name} on {self.unit}{time}"

    @property
    def row(self) -> tuple[object, ...]:
        """The row of a table beneath `STEP_COLUMNS`."""
        minus, plus = counts(self.lines)
        verdict = {True: "yes", False: "NO", None: "not tried"}[self.step.verified]
        spent = self.step.nanoseconds
        time = time_text(spent) if spent >= 0 else ""
        return self.number, self.step.name, self.unit, minus, plus, time, verdict


@dataclass(frozen=True)
class Watched:
    """A cell that was compiled again, watched: its number, the function that is asked for, "" for
    all, and what each pass did."""

    session: Session
    cell: int
    symbol: str
    trace: PassTrace

    @property
    def called(self) -> str:
        """The function as it is written, or the cell."""
        called = self.session.inspect.program.called
        return called(self.symbol) if self.symbol else f"cell {self.cell}"

    @cached_property
    def machine(self) -> dict[str, list[Stage]]:
        """The stages of each function that reached code generation, or of the one."""
        every = stages_of(self.trace)
        return {name: found for name, found in every.items() if self.symbol in ("", name)}

    @property
    def spent(self) -> str:
        """The time that all passes took, where the system told."""
        if self.trace.spent < 0 and self.trace.ran:
            return "their times could not be measured"
        return f"all passes took {time_text(max(self.trace.spent, 0))}"

    @property
    def untouched(self) -> str:
        """The reason that nothing happens where nothing does; empty where something may."""
        own = written(self.symbol)
        if frozen := [n for n in optnone(self.trace.before) if not self.symbol or n == own]:
            verb = "is" if len(frozen) == 1 else "are"
            return (
                f"{', '.join(frozen)} {verb} optnone: no pass touches such a function. "
                "%%llvm --ignore-optnone drops it."
            )
        return "" if self.trace.ir else "No pass changed anything."

    @property
    def note(self) -> str:
        """A note on whether what was watched is what was compiled, by the object's bytes."""
        size = len(self.trace.object)
        if self.session.inspect.object(self.cell) == self.trace.object:
            return f"The last step is what was compiled: its object has the same {size} bytes."
        return "This is not what was compiled: the object differs. The compiler has changed since."


def watched(
    session: Session, target: int | str | None, tick: Callable[[], None] | None = None
) -> Watched:
    """The cell or the function that is meant, compiled again."""
    cell, _ = session.inspect.cell_of(target)
    only = bare(target) if isinstance(target, str) and not target.isdigit() else ""
    if only and session.symbols[only].kind != "function":
        only = ""
    trace = session.inspect.passes(session.inspect.request(cell.number), tick)
    return Watched(session, cell.number, only, trace)


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
    made = watched(session, target, tick)
    symbol, trace = made.symbol, made.trace
    steps = list(changed_steps(trace, symbol))
    every = len(steps)
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
    shown = f"{made.called}, cell {made.cell}" if symbol else made.called
    head = f"{shown}: {every} of {trace.ran} passes changed the module; {made.spent}"
    left = steps[_STEPS:] if until is None else steps[:-_STEPS]
    steps = steps[:_STEPS] if until is None else steps[-_STEPS:]
    rows = [step.row for step in steps]
    sentences = [made.untouched, made.note if until is None and not only else ""]
    if has_locations(trace.before):
        sentences.append("Debug information and other metadata (!12) are left out here.")
    if left:
        sentences.append(
            f"{len(left)} steps, {left[0].number} to {left[-1].number}, are not listed: "
            "%passes NAME shows those of one function, --only those of one pass."
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


def ir(session: Session, target: int | str | None = None, stage: str = "") -> View:
    """The module of a cell, or one function or global of it; without a target the last cell's.

    As it was written; or, with a `stage`, as LLVM printed it: `raw` before the first pass, `opt`
    after the last, `diff` what the passes changed between.  Raises UsageError.
    """
    if not stage:
        cell, _ = session.inspect.cell_of(target)
        module = session.inspect.module(cell.number)
        if isinstance(target, str):
            name = bare(target)
            title = f"{session.inspect.program.called(name)}, cell {cell.number}"
            return listing(title, entity(module, name) or module)
        return listing(f"cell {cell.number}, {cell.options}".rstrip(", "), module)
    if stage not in _IR_STAGES:
        raise UsageError(f"there is no IR called {stage!r}; there are {', '.join(_IR_STAGES)}")
    made = watched(session, target)
    symbol, trace = made.symbol, made.trace
    name = written(bare(target)) if isinstance(target, str) else ""
    where = f"{name}, cell {made.cell}" if name else f"cell {made.cell}"
    if stage == "diff":
        before, after = parts(trace.before), parts(trace.after)
        lines = difference(before, after, written(symbol) if symbol else "")
        gone, new = counts(lines)
        title = f"{where}: -{gone} +{new} lines from the first pass to the last"
        shown = titled(title, difference_view(lines))
        return join([shown, paragraph(made.untouched)]) if made.untouched else shown
    module = trace.before if stage == "raw" else trace.after
    body = entity(module, bare(name)) if name else module.strip()
    if name and not body:
        raise UsageError(
            f"{name} is not there any more {_IR_STAGES[stage]}: it was inlined or unused"
        )
    return listing(f"{where}, {_IR_STAGES[stage]}", body)


def entity(module: str, name: str) -> str:
    """The text of the function or global called `name`; empty where the module defines none."""
    for found in (*functions(module, "define"), *global_values(module)):
        if found.name == name:
            return found.text.strip()
    return ""


def mir(
    session: Session,
    target: int | str | None = None,
    stage: str = "",
    tick: Callable[[], None] | None = None,
) -> View:
    """The machine IR of a function, or of every function of a cell.

    `stage` is `isel`, `regalloc` or `final`; without it all three.  Stores to and loads from stack
    slots that register allocation made are marked.  `tick` is called twice a second while LLVM
    works.  Raises UsageError.
    """
    if stage and stage not in STAGES:
        raise UsageError(f"there is no stage {stage!r}; there are {', '.join(STAGES)}")
    made = watched(session, target, tick)
    if not made.machine:
        what = f"{made.called} has no machine IR"
        raise UsageError(f"{what}: no function of it reached code generation")
    views = [
        _function(session.inspect.program.called(name, made.cell), made.cell, found, stage)
        for name, found in made.machine.items()
    ]
    return join([*views, paragraph(f"{LEFT_OUT} {made.note}")])


def _function(called: str, number: int, found: Sequence[Stage], only: str) -> View:
    rows = [
        (s.name, s.step, s.instructions, s.virtual or "", s.spills or "", s.reloads or "",
         s.frame or "")
        for s in found
    ]  # fmt: skip
    columns = (
        "stage", "last pass", "#instructions", "#virtual registers", "#spills", "#reloads",
        "#stack bytes",
    )  # fmt: skip
    head = f"Machine IR of {called}, cell {number}"
    views = [table(head, columns, rows, spill_note(found))]
    for stage in found:
        if only in ("", stage.name):
            title = f"{called}, {STAGES[stage.name]} ({stage.step})"
            is_open = bool(only) or stage.name == "regalloc"
            views.append(folding(title, marked(stage, 0 if only else _STAGE_LINES), is_open))
    return join(views)


def spill_note(found: Sequence[Stage]) -> str:
    """The values that register allocation had to put on the stack, in words."""
    after = next((s for s in found if s.name == "regalloc"), None)
    if after is None:
        return ""
    if not after.slots:
        return "No spills: every value has a register for as long as it is needed."
    size = sum(after.slots.values())
    return (
        f"{after.spills} spills (stores) and {after.reloads} reloads through {len(after.slots)} "
        f"stack slots of {size} bytes: more values are needed at once than there are registers, "
        "or one must outlive a call."
    )


def marked(stage: Stage, limit: int = 0) -> View:
    """The lines with a column that names spills and reloads."""
    lines, marks = stage.lines, stage.marks
    left = len(lines) - limit if limit else 0
    if left > 0:
        lines, marks = lines[:limit], marks[:limit]
    wide = max(map(len, marks), default=0)
    pad = f"{{:<{wide}}} " if wide else ""
    plain = [
        fold([f"{pad.format(m) if wide else ''}{line}".rstrip()], wide + 8)
        for m, line in zip(marks, lines, strict=True)
    ]
    shown = [
        f'<mark style="{_MARK}">{escape(line)}</mark>' if m else escape(line)
        for m, line in zip(marks, plain, strict=True)
    ]
    if left > 0:
        more = f"… {left} more lines; %mir --{stage.name} shows all"
        plain.append(more)
        shown.append(more)
    return View("\n".join(plain), preformatted("\n".join(shown)))
