"""A cell that is compiled again, watched: its passes, its code generation, each when it is asked
for.  Start from `watched` and `changed_steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.machine_ir import Stage
from jitkernel.compiler.pass_trace import PassTrace, Step
from jitkernel.errors import Interrupted, UsageError
from jitkernel.ir.attributes import optnone_at
from jitkernel.ir.module import entities, functions
from jitkernel.ir.names import bare, mentions, written
from jitkernel.ir.printed import REST, Counts, Steady, counts_of, parts, quiet
from jitkernel.views.here import running
from jitkernel.views.lines import Located
from jitkernel.views.sides import Piece
from jitkernel.views.view import View, time_text
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.compiler.machine_ir import MachineTrace
    from jitkernel.compiler.records import Request
    from jitkernel.session import Session

_MOST = 100_000  # lines of IR whose passes are shown
STEP_COLUMNS = (
    "#step", "pass", "on", "#lines −", "#lines +", "#instructions", "#blocks", "#calls", "#time",
)  # fmt: skip


@dataclass(frozen=True)
class Watched:
    """A cell that is compiled again: its number, and the function that is asked for, "" for all.
    `tick` is told twice a second how far LLVM is.  `counted`: passes are asked for after code
    generation."""

    session: Session
    cell: int
    symbol: str
    tick: Callable[[str], None] | None = None
    standing: bool = False  # while the program stands, as what runs was compiled
    counted: bool = False

    @property
    def called(self) -> str:
        """The function as it is written, or the cell."""
        called = self.session.inspect.program.called
        return called(self.symbol) if self.symbol else f"cell {self.cell}"

    @cached_property
    def _asked(self) -> tuple[Request, bool]:
        request, is_form = running(self.session, self.cell) if self.standing else (None, False)
        return request or self.session.inspect.request(self.cell), is_form

    @property
    def request(self) -> Request:
        """The request that the compiler got."""
        return self._asked[0]

    @property
    def debugged(self) -> bool:
        """True if it is the code to be debugged, which runs while the program stands."""
        return self._asked[1]

    @cached_property
    def trace(self) -> PassTrace:
        """The work of each pass.  Raises UsageError where that would be too much."""
        if self.too_much:
            raise UsageError(self.too_much)
        asked = self.request, self.symbol, self.tick
        return self.session.inspect.traced(lambda of: of.passes(*asked))

    @cached_property
    def too_much(self) -> str:
        """The reason that what each pass makes of it is not shown, "" where it is."""
        found = list(functions(self.request.source, "define"))
        found.sort(key=lambda function: function.start - function.end)
        own = [f for f in found if self.symbol in ("", f.name)]
        lines = sum(f.text.count("\n") for f in own)
        if lines <= _MOST:
            return ""
        seen = (
            f"%remarks {self.called} is what LLVM says of it, %ir {self.called} --diff what all "
            "passes changed"
        )
        if not self.symbol:
            called = self.session.inspect.program.called
            names = cut_list([called(f.name) for f in own], 5, ", ")
            seen = f"%passes NAME shows those of one function: {names}"
        return (
            f"{self.called} has {lines:,} lines of IR: what each pass makes of at most {_MOST:,} "
            f"is shown. {seen}"
        )

    @cached_property
    def emitted(self) -> MachineTrace:
        """Its code generation."""
        code = b"" if self.debugged else self.session.inspect.object(self.cell)
        asked = self.request, self.symbol, self.tick, code, self.counted
        return self.session.inspect.traced(lambda of: of.machine(*asked))

    @property
    def machine(self) -> dict[str, list[Stage]]:
        """The stages of each function that reached code generation, or of the one."""
        return self.emitted.stages

    @property
    def allocation(self) -> dict[str, tuple[str, str]]:
        """The text of each function as register allocation finds it, and as it leaves it."""
        return self.emitted.allocation

    @cached_property
    def located(self) -> Located:
        """The cell as its passes leave it, with the lines of its sources, all of the one compile
        that code generation was watched in."""
        made = self.emitted
        if made.same >= 0:
            lines = self.session.inspect.places.lines
            lines.known(self.cell, self.symbol, made.lines, made.after)
        return Located(self.session, self.cell, None, False, made.after, self.symbol)

    @property
    def spent(self) -> str:
        """The time that all passes took, where the system told."""
        if self.trace.spent < 0 and self.trace.ran:
            return "their times could not be measured"
        return f"all passes took {time_text(max(self.trace.spent, 0))}"

    @property
    def untouched(self) -> str:
        """The reason that nothing happens where nothing does; empty where something may."""
        source = self.request.source
        frozen = optnone(source) if optnone_at(source) >= 0 else []
        own = written(self.symbol)
        if not self.request.options.ignore_optnone:
            if frozen := [n for n in frozen if not self.symbol or n == own]:
                verb = "is" if len(frozen) == 1 else "are"
                return (
                    f"{', '.join(frozen)} {verb} optnone: no pass touches such a function. "
                    "%%llvm --ignore-optnone drops it."
                )
        return ""

    @property
    def note(self) -> str:
        """A note on whether what was watched is what was compiled, by the bytes of its code."""
        if self.debugged:
            return "This is the code that runs: the cell is compiled to be debugged."
        if self.emitted.same >= 0:
            return f"This is what was compiled: its code has the same {self.emitted.same} bytes."
        return "This is not what was compiled: its code differs. The compiler has changed since."


def optnone(module: str) -> list[str]:
    """The functions of a printed module that no pass may touch, as written."""
    groups = {e.spelled for e in entities(module, "attributes") if "optnone" in e.rest.split()}
    heads = {f.name: module[f.value : f.body()[0]] for f in functions(module, "define")}
    return [
        written(name)
        for name, head in heads.items()
        if groups & mentions(head, "#") or "optnone" in head.split()
    ]


def shown_unit(unit: str) -> str:
    """The unit that a pass ran on, as IR writes names: `@sum`, `loop %body of @sum`, `module`."""
    if unit == "[module]":
        return "module"
    loop, _, function = unit.partition(" in function ")
    if function and loop.startswith("loop %"):
        loop = loop.removesuffix(" %<unnamed loop>")  # %4: only its number
        return f"{loop} of {written(function)}"
    if unit.startswith("(") and unit.endswith(")"):
        return ", ".join(written(name) for name in unit[1:-1].split(", "))
    return written(unit)


@contextmanager
def shown_in_part(session: Session, show: Callable[[Any], View]) -> Iterator[None]:
    """Give an interruption meanwhile a `view` of what there was until then: what `show` makes of
    `Traces.partial`, if there is that."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        if (part := session.inspect.engine.pool.traces.partial) is not None:
            vars(error)["view"] = show(part)
        raise


def watched(
    session: Session,
    target: int | str | None,
    tick: Callable[[str], None] | None = None,
    standing: bool = False,
) -> Watched:
    """The cell or the function that is meant, to be compiled again; with `standing`, while the
    program stands, as what runs was compiled."""
    only = bare(target) if isinstance(target, str) and not target.isdigit() else ""
    try:
        cell, _ = session.inspect.cell_of(target)
    except UsageError:
        if only and (number := _with_internal(session, only)):
            return Watched(session, number, only, tick)
        raise
    if only and session.symbols[only].kind != "function":
        only = ""
    return Watched(session, cell.number, only, tick, standing)


def _with_internal(session: Session, name: str) -> int:
    """The last cell that has a function of this name for itself (`static`, `internal`); 0 if none
    does."""
    for cell in reversed(list(session.cells)):
        try:
            module = session.inspect.module(cell.number)
        except UsageError:
            continue
        if name in module and any(f.name == name for f in functions(module, "define")):
            return cell.number
    return 0


@dataclass(frozen=True)
class Changed:
    """A step with its number, what it changed, the counts of all that is looked at after it, and
    the lines of each part then."""

    number: int
    step: Step
    pieces: tuple[Piece, ...]
    counts: Counts
    after: dict[str, list[str]]

    @property
    def unit(self) -> str:
        """The unit that the pass ran on, as IR writes names."""
        return shown_unit(self.step.unit)

    @property
    def ran(self) -> str:
        """The passes that ran, where that is not one pass: `loop-rotate × 75, indvars × 75`."""
        ran = self.step.ran
        if len(ran) == 1 and ran[0][1] == 1:
            return ""
        return ", ".join(f"{name} × {times}" for name, times in ran)

    @property
    def title(self) -> str:
        """`3. sroa on @sum, 12 us`."""
        spent = self.step.nanoseconds
        time = f", {time_text(spent)}" if spent >= 0 else ""
        ran = f": {self.ran}" if self.ran else ""
        return f"{self.number}. {self.step.name} on {self.unit}{time}{ran}"

    @cached_property
    def lines(self) -> tuple[int, int]:
        """The number of lines that went, and of those that came."""
        counts = [piece.counts for piece in self.pieces]
        return sum(gone for gone, _ in counts), sum(came for _, came in counts)

    @property
    def row(self) -> tuple[object, ...]:
        """The row of a table beneath `STEP_COLUMNS`."""
        spent = self.step.nanoseconds
        time = time_text(spent) if spent >= 0 else ""
        return self.number, self.step.name, self.unit, *self.lines, *self.counts, time


def changed_steps(trace: PassTrace, everything: bool = False) -> Iterator[Changed]:
    """The steps, numbered from 1, with what they changed.

    Metadata, attributes and debug records are left out, and steps that changed nothing else,
    unless `everything` is asked for.
    """
    shown: Callable[[str], str] = str if everything else quiet
    own = {n: t for n, t in trace.before.items() if trace.only in ("", n)}
    steady = {name: Steady(shown(text)) for name, text in own.items()}
    total = counts_of("\n".join(text for name, text in own.items() if name != REST))
    number = 0
    for step in trace.steps:
        if step.silent and not everything:
            continue
        pieces = []
        for name, text in step.texts.items():
            follow = steady.setdefault(name, Steady())
            old = follow.lines
            blocks = follow.follow(shown(text))
            piece = Piece(name, old, follow.lines, blocks)
            if old != follow.lines:
                pieces.append(piece)
            if name != REST:
                gone, came = map(counts_of, piece.changed())
                total = Counts(*(n - a + b for n, a, b in zip(total, gone, came, strict=True)))
        if pieces:
            number += 1
            after = {name: one.lines for name, one in steady.items()}
            yield Changed(number, step, tuple(pieces), total, after)


def between(before: str, after: str, only: str = "") -> list[Piece]:
    """The difference of two printed modules in each part, or in the one function `only` (its
    name as written), metadata and attributes apart."""
    old, new = parts(before), parts(after)
    names = [only] if only else [*old, *(name for name in new if name not in old)]
    found = []
    for name in names:
        steady = Steady(quiet(old.get(name, "")))
        was = steady.lines
        blocks = steady.follow(quiet(new.get(name, "")))
        if was != steady.lines:
            found.append(Piece(name, was, steady.lines, blocks))
    return found
