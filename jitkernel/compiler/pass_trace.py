"""What LLVM did to a module, pass by pass.  Start from `PassTrace`.

Runs in the kernel process; `pass_tracing` is the other side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jitkernel.compiler.pass_dumps import PASSES, Dumps, text_of
from jitkernel.compiler.pass_log import MODULE, PassRun, functions_of, loop_of, read_log
from jitkernel.compiler.passes import may_change, name_of
from jitkernel.ir.names import written
from jitkernel.ir.printed import REST, parts, quiet

#: What a step is called that passes over loops made together; that several passes made between two
#: looks at a function; and that no pass made: LLVM's own managers take dead functions away.
LOOPS, SEVERAL, MANAGER = "loop passes", "several passes", "pass manager"


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
    well formed.  `stopped` says where it was, in a trace that was interrupted, as far as it came.
    """

    steps: tuple[Step, ...]
    before: dict[str, str]
    after: dict[str, str]
    only: str
    ran: int
    spent: int
    named: bool
    verified: bool
    stopped: str = ""

    @staticmethod
    def of(dumps: Dumps, only: str) -> PassTrace | None:
        """From what the worker left; `only` is a function's bare name, "" for all.  None where that
        is too little."""
        first, last = dumps.get("first"), dumps.get("last")
        if first is None:
            return None
        runs = dumps.runs()
        before = parts(first[0])
        reader = _Reader(before, runs, written(only) if only else "")
        steps = reader.steps(dumps, parts(last[0]) if last else None)
        measured = [run.nanoseconds for run in runs if run.nanoseconds >= 0]
        return PassTrace(
            tuple(steps), before, parts(last[0]) if last else reader.now, reader.only, len(runs),
            sum(measured) if measured else -1, first[1], last is not None and last[1],
            "" if last else place(dumps),
        )  # fmt: skip


def place(dumps: Dumps) -> str:
    """The place that a compile has come to: `pass 43 of 249, gvn`; "" before its passes run."""
    runs, reached = dumps.runs(), dumps.reached()
    for at, run in enumerate(runs, 1):
        if (run.manager, run.number) == reached:
            return f"pass {at} of {len(runs)}, {name_of(run.title)}"
    return ""


class _Reader:
    """The steps, by what is seen of functions before and after passes."""

    def __init__(self, before: dict[str, str], runs: Sequence[PassRun], only: str) -> None:
        self.only = only
        self.now = dict(before)
        self._quiet: dict[str, str] = {}  # of what is in `now`, where that was asked for
        self._whole = dict.fromkeys(before, True)  # whether it was seen in its module
        self._runs = runs
        # Whose effect is not seen yet, by function and in order: indices of runs.
        self._unseen: dict[str, list[int]] = {}
        self._wide: tuple[int, ...] = ()  # the last that may change others than it runs on

    def steps(self, dumps: Dumps, after: dict[str, str] | None) -> list[Step]:
        """The steps that changed what is looked at, in order; `after` is the module in the end, if
        that was reached."""
        found: list[tuple[int, Step]] = []
        paths = dumps.texts(after is not None)
        for at, run in enumerate(self._runs):
            for is_after in (False, True):
                if is_after and may_change(run.title):
                    self._note(at, run)
                path = paths.get((run.manager, run.number, is_after))
                if path and not loop_of(run.unit)[1]:
                    texts = parts(text_of(path))
                    if run.unit != MODULE:
                        del texts[REST]
                    found += self._seen(texts, at, run.unit == MODULE)
        if after is not None:
            found += self._seen(dict(after), len(self._runs), True)
        found.sort(key=lambda step: step[0])
        return [step for _, step in found]

    def _note(self, at: int, run: PassRun) -> None:
        is_loop = bool(loop_of(run.unit)[1])
        names = [written(name) for name in functions_of(run.unit)]
        for name in [*self.now] if run.unit == MODULE else names:
            self._unseen.setdefault(name, []).append(at)
        if not is_loop and run.unit not in functions_of(run.unit):
            self._wide = (at,)

    def _seen(self, found: dict[str, str], at: int, whole: bool) -> Iterator[tuple[int, Step]]:
        """The steps that a look tells of, each with its place: at some functions, or the `whole`
        module."""
        if whole:  # what it has no more is gone
            found = dict.fromkeys(self.now, "") | found
        changed: dict[tuple[int, ...], dict[str, str]] = {}
        for name, text in found.items():
            ran = tuple(self._unseen.pop(name, ()))
            if self.only not in ("", name) or self.now.get(name, "") == text:
                continue
            if self._whole.get(name) != whole and text:  # numbers of attributes, metadata
                self._whole[name] = whole
                if self._quieter(name) == quiet(text):
                    self.now[name] = text
                    continue
            if not text:  # by no pass over functions
                ran = tuple(n for n in ran if self._runs[n].unit == MODULE)
            others = self._wide if name and text else ()
            changed.setdefault(ran or others, {})[name] = text
        for ran, texts in changed.items():
            quieter = {name: quiet(text) for name, text in texts.items()}
            silent = all(self._quieter(name) == text for name, text in quieter.items())
            self.now.update(texts)
            self._quiet.update(quieter)
            if ran or not silent:
                yield ran[-1] if ran else at, self._step(ran, texts, silent)

    def _quieter(self, name: str) -> str:
        if name not in self._quiet:
            self._quiet[name] = quiet(self.now.get(name, ""))
        return self._quiet[name]

    def _step(self, indices: Sequence[int], texts: dict[str, str], silent: bool) -> Step:
        ran = [self._runs[n] for n in indices]
        loops = [loop_of(run.unit)[1] for run in ran]
        if len(ran) == 1:
            name, unit = name_of(ran[0].title), ran[0].unit
        elif ran and all(loops):
            name, unit = LOOPS, ", ".join(dict.fromkeys(loops))
        else:
            name, unit = (SEVERAL, self.only[1:]) if ran else (MANAGER, MODULE)
        times = [run.nanoseconds for run in ran]
        spent = sum(times) if times and min(times) >= 0 else -1
        counted = Counter(name_of(run.title) for run in ran)
        return Step(name, tuple(counted.items()), unit, texts, silent, spent)


class LoopStep(NamedTuple):
    """A pass over a loop that changed it: the loop as it was and as it is then, "" where it is a
    loop no more."""

    name: str
    unit: str
    before: str
    after: str


class LoopTrace(NamedTuple):
    """The passes over one loop.  `loops` are all loops of its function: the labels that each one's
    header had, in order, and the number of passes over it.  `stopped` as in a `PassTrace`."""

    loops: tuple[tuple[tuple[str, ...], int], ...]
    steps: tuple[LoopStep, ...]
    ran: int
    stopped: str = ""

    @staticmethod
    def of(dumps: Dumps) -> LoopTrace | None:
        """From what the worker left; None where that is too little."""
        loops = dumps.get("loops")
        if loops is None:
            return None
        steps, entries = [], [*read_log(dumps.logged(PASSES))]
        whole = dumps.get("last")
        before = ""
        for entry in entries if whole else entries[:-1]:  # which may be half
            if entry.kind == "before":
                before = _loop(entry.text)
            elif entry.kind == "after":
                gone = entry.unit.endswith(" (invalidated)")
                after = "" if gone else _loop(entry.text)
                if after != before:
                    steps.append(LoopStep(name_of(entry.title), entry.unit, before, after))
        runs = dumps.runs()
        done = sum(entry.kind == "after" for entry in entries)
        stopped = "" if whole else f"pass {done + 1} of {len(runs)} over this loop"
        found = tuple((tuple(labels), count) for labels, count in loops)
        return LoopTrace(found, tuple(steps), len(runs), stopped)


def _loop(text: str) -> str:
    return quiet(text).strip("\n")
