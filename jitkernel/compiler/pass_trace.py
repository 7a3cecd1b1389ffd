"""What LLVM did to a module, pass by pass.  Start from `PassTrace`.

Runs in the kernel process; `pass_tracing` is the other side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jitkernel.compiler.pass_log import (
    MODULE,
    Entry,
    PassRun,
    functions_of,
    loop_of,
    read_log,
)
from jitkernel.compiler.passes import name_of
from jitkernel.ir.names import written
from jitkernel.ir.printed import REST, parts, quiet

#: What a step is called that passes over loops made together; that several passes made between two
#: looks at a function; and the last one, if the pass managers themselves took something away.
LOOPS, SEVERAL, END = "loop passes", "several passes", "end of the pipeline"


class Step(NamedTuple):
    """A pass that changed something, or the passes over loops that ran between two such.

    `name` is the pass as pipelines and LLVM's options name it (`sroa`); `ran` names what ran, with
    how often.  `unit` is what it ran on: `sum`, `(f, g)`, `[module]`.  `texts` are the functions
    that it changed, as it left them, by their names as written, and `printed.REST` for the rest
    of the module; "" is one that is gone.  `silent`: only metadata, attributes or debug records
    changed.  `nanoseconds` are -1 where they could not be measured.
    """

    name: str
    ran: tuple[tuple[str, int], ...]
    unit: str
    texts: dict[str, str]
    silent: bool
    nanoseconds: int


class PassTrace(NamedTuple):
    """One compile, watched.

    `before` and `after` are the module in parts, before the first pass and after the last; of a
    trace of one function, `only` (its name as written), all of it but the steps are the module's.
    `ran` counts the passes that ran, with `spent` nanoseconds, -1 where that could not be measured.
    `named`: values that had only a number were given names.  `verified`: what the last pass left is
    well formed.
    """

    steps: tuple[Step, ...]
    before: dict[str, str]
    after: dict[str, str]
    only: str
    ran: int
    spent: int
    named: bool
    verified: bool

    @staticmethod
    def of(answer: dict[str, Any], log: bytes, only: str) -> PassTrace:
        """From what the worker sends; `only` is a function's bare name, "" for all."""
        runs = [PassRun(*row) for row in answer["runs"]]
        before, after = (parts(text) for text in answer["texts"])
        reader = _Reader(before, runs, written(only) if only else "", answer["alone"])
        steps = tuple(reader.steps(read_log(log), after))
        measured = [run.nanoseconds for run in runs if run.nanoseconds >= 0]
        return PassTrace(
            steps, before, after, reader.only, len(runs), sum(measured) if measured else -1,
            answer["named"], answer["verified"],
        )  # fmt: skip


class _Reader:
    """The steps of a log, by what each leaves of the functions that it prints.  `alone`: the one
    function `only` is printed before each pass over it, not after those that changed something."""

    def __init__(
        self, before: dict[str, str], runs: Sequence[PassRun], only: str, alone: bool
    ) -> None:
        self.only, self._alone = only, alone
        self._now = dict(before)
        self._runs = runs
        self._at = -1  # of the run that is going on
        # Whose effect is not seen yet, by function: passes over its loops, or all.
        self._unseen: dict[str, list[PassRun]] = {}

    def steps(self, log: Iterator[Entry], after: dict[str, str]) -> Iterator[Step]:
        """The steps that changed what is looked at, in order."""
        run = PassRun(0, END, MODULE)
        for entry in log:
            if entry.kind == "running":
                if self._alone:
                    self._note(run)
                run = self._begun(entry)
                if not self._alone and loop_of(run.unit)[1]:
                    self._note(run)
                continue
            found = parts(entry.text)
            if entry.unit != MODULE or not found[REST]:
                del found[REST]
            elif not self.only:  # what a whole module has no more is gone
                found = dict.fromkeys(self._now, "") | found
            yield from self._seen(found, run if entry.kind == "after" else None)
        if self._alone:
            self._note(run)
        yield from self._seen(dict.fromkeys(self._now, "") | after, None)

    def _begun(self, entry: Entry) -> PassRun:
        """The pass that begins, with its time, if both children did the same so far."""
        self._at += 1
        if self._at < len(self._runs) and self._runs[self._at].title == entry.title:
            return self._runs[self._at]._replace(unit=entry.unit)
        self._runs = self._runs[: self._at]
        return PassRun(entry.number, entry.title, entry.unit)

    def _note(self, run: PassRun) -> None:
        names = [written(name) for name in functions_of(run.unit)]
        if self._alone:
            names = [self.only] if run.unit == MODULE or self.only in names else []
        for name in names if run.title != END else ():
            self._unseen.setdefault(name, []).append(run)

    def _seen(self, found: dict[str, str], run: PassRun | None) -> Iterator[Step]:
        """The step that a look at some functions tells of, if any: what a pass left, or what passes
        left that were not looked at."""
        changed = {
            name: text for name, text in found.items()
            if self.only in ("", name) and self._now.get(name, "") != text
        }  # fmt: skip
        ran = [run for name in found for run in self._unseen.pop(name, ())]
        if not changed:
            return
        silent = all(quiet(self._now.get(n, "")) == quiet(t) for n, t in changed.items())
        self._now.update(changed)
        ran += [run] if run else []
        if not ran and silent:
            return
        last = run or (ran[0] if len(ran) == 1 else None)
        if last is not None:
            name, unit = name_of(last.title), last.unit
        else:
            loops = [loop_of(run.unit)[1] for run in ran]
            name = LOOPS if ran and all(loops) else SEVERAL if ran else END
            unit = ", ".join(dict.fromkeys(loops)) if name == LOOPS else MODULE
            unit = self.only[1:] if name == SEVERAL else unit
        times = [run.nanoseconds for run in ran]
        spent = sum(times) if times and min(times) >= 0 else -1
        counted = Counter(name_of(run.title) for run in ran)
        yield Step(name, tuple(counted.items()), unit, changed, silent, spent)


class LoopStep(NamedTuple):
    """A pass over a loop that changed it: the loop as it was and as it is then, "" where it is a
    loop no more."""

    name: str
    unit: str
    before: str
    after: str


class LoopTrace(NamedTuple):
    """The passes over one loop.  `loops` are all loops of its function: the labels that each one's
    header had, in order, and the number of passes over it."""

    loops: tuple[tuple[tuple[str, ...], int], ...]
    steps: tuple[LoopStep, ...]
    ran: int

    @staticmethod
    def of(answer: dict[str, Any], log: bytes) -> LoopTrace:
        """From what the worker sends."""
        loops = tuple((tuple(labels), count) for labels, count in answer["loops"])
        steps = []
        before = ""
        for entry in read_log(log):
            if entry.kind == "before":
                before = _loop(entry.text)
            elif entry.kind == "after":
                gone = entry.unit.endswith(" (invalidated)")
                after = "" if gone else _loop(entry.text)
                if after != before:
                    steps.append(LoopStep(name_of(entry.title), entry.unit, before, after))
        return LoopTrace(loops, tuple(steps), len(answer["runs"]))


def _loop(text: str) -> str:
    return quiet(text).strip("\n")
