"""The present text of a session's cells, run in order in a session beside it, and what differs.

Start from `reproduce`.  Hidden state is what this finds: definitions that no cell has any more,
values that cells gave that were run twice or in another order, code of an earlier text.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from jitkernel.errors import Interrupted, JitError, UsageError
from jitkernel.files import read_text
from jitkernel.session.report.differences import Comparison, Difference
from jitkernel.session.run.results import Sink
from jitkernel.session.settings import CellOptions
from jitkernel.settings import SessionSettings
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.saved.texts import Text
    from jitkernel.session.session import Session

#: Seconds that a cell gets that the user has stopped.
_STOPPED = 1.0
_BEHIND = 0.02  # seconds: what is stopped because time is up ends when it is


@dataclass(frozen=True, slots=True)
class Reproduced:
    """The outcome: how many texts of cells ran, for how many seconds, and how many did not because
    time was up; then nothing is compared but how the others ended."""

    cells: int
    seconds: float
    differences: tuple[Difference, ...]
    unfinished: int = 0

    @property
    def same(self) -> bool:
        """True if the cells' text gives what is here."""
        return not self.differences and not self.unfinished

    @property
    def summary(self) -> str:
        """The whole in a sentence."""
        ran = f"A fresh run of {counted(self.cells, 'cell')}, {self.seconds:.1f} s"
        if self.unfinished:
            left = counted(self.unfinished, "cell")
            return f"{ran}: time was up with {left} to go, so that nothing else was compared"
        if not self.differences:
            return f"{ran}, gives what is here"
        return f"{ran}: {counted(len(self.differences), 'difference')} from what is here"

    def __repr__(self) -> str:
        return f"<Reproduced: {self.summary}>"

    def __str__(self) -> str:
        return "\n".join([self.summary, *map(str, self.differences)])


def reproduce(
    core: Core,
    start: Callable[[SessionSettings], Session],
    timeout: float,
    progress: Callable[[str], object] = lambda words: None,
) -> Reproduced:
    """See `Session.reproduce`; `start` makes the session in which the cells run."""
    if not timeout > 0:
        raise UsageError(f"the time to run all cells in is more than 0 seconds, not {timeout}")
    if core.texts.busy:
        raise UsageError(
            "the text of a cell cannot run again before it has ended: %reproduce is a "
            "cell of its own"
        )
    texts = core.texts.every()
    if lost := core.texts.forgotten:
        raise UsageError(
            f"of what the session has run without a cell's id, the first {counted(lost, 'text')} "
            "are not kept any more"
        )
    if not texts and core.program.cells:
        raise UsageError(
            "the text of its cells is not known: the session is from a file that has none"
        )
    began = time.monotonic()
    progress("starting a session")
    with start(_settings(core)) as fresh:
        core.beside = fresh.interrupt
        try:
            core.engine.check_stop()
            replay = _Replay(core, fresh, texts, began + timeout, progress)
            replay.run()
            found = [*replay.found]
            if not replay.unfinished:
                found += map(replay.explained, Comparison(core, fresh._core, replay.comparing))
        finally:
            core.beside = None
    seconds = time.monotonic() - began
    return Reproduced(replay.ran, seconds, tuple(found), replay.unfinished)


def _settings(core: Core) -> SessionSettings:
    """Those that the session began with; it runs in a process of its own and writes no file."""
    first = core.first_settings
    folder = first.cwd or core.first_folder
    return replace(
        first, store_path="", autosave=False, trust=True, base=0, executor="process", workers=1,
        spare=False, budget=0, context="throwaway", cwd=folder if os.path.isdir(folder) else "",
    )  # fmt: skip


class _Replay(Sink):
    """The texts, one after another; the sink of those that are cells.  What they print is dropped,
    shell commands do not run again."""

    def __init__(
        self,
        core: Core,
        fresh: Session,
        texts: Sequence[Text],
        deadline: float,
        progress: Callable[[str], object],
    ):
        self._core, self._fresh, self._deadline = core, fresh, deadline
        known = {text.number for text in texts}
        self._texts = [text for text in texts if text.above not in known]
        self._below: dict[int, list[Text]] = {}
        for text in texts:
            if text.above in known:
                self._below.setdefault(text.above, []).append(text)
        self._tell = progress
        self._now = ""  # what runs, in words
        self._open: list[list[int]] = []  # of each text that runs: number, magics so far
        self._numbers: dict[int, int] = {}  # of cells, here and there
        self._limits = {n: getattr(fresh.settings, n) for n in ("cell_timeout", "timeout")}
        self._asks = False  # the text that runs has asked for input
        self.ran = self.unfinished = 0
        self.found: list[Difference] = []

    def run(self) -> None:
        """All of them."""
        fresh = self._fresh._core
        fresh.begin()
        fresh.python_functions.take(self._core.python_functions, _quiet)
        fresh.engine.executor.on_wait = lambda seconds: self._told()
        for index, text in enumerate(self._texts):
            self._core.engine.check_stop()
            number = f"cell {text.was}" if text.was else text.kind
            self._now = f"{number}, {index + 1} of {len(self._texts)}"
            self._told()
            self._asks = False
            error: JitError | None = None
            try:
                self._do(text)
            except JitError as raised:
                error = raised
            self._core.engine.check_stop()
            if time.monotonic() >= self._deadline:
                self.unfinished = len(self._texts) - index
                return
            self.ran += 1
            if difference := self._ended(text, error):
                self.found.append(difference)

    def comparing(self) -> None:
        """Between two names that are compared."""
        self._core.engine.check_stop()
        self._tell("comparing")

    def _told(self) -> None:
        self._tell(self._now)

    def _ended(self, text: Text, error: JitError | None) -> Difference | None:
        """The end of a cell, where that is not how it ended here."""
        name = f"cell {text.was}" if text.was else f"%{text.kind}"
        there = type(error).__name__ if error is not None else ""
        if there == text.ended:
            return None
        words = "no error"
        if self._asks:
            words = "a request for input that nobody answers"
        elif error is not None:
            words = f"{there}: {str(error).partition(chr(10))[0]}"
        return Difference("ends", name, text.ended or "no error", words, text.was)

    def explained(self, difference: Difference) -> Difference:
        """Give the failing cell as the reason for what is missing because of it."""
        failed = {found.cell for found in self.found}
        if difference.kind == "gone" and difference.cell in failed:
            return difference._replace(there=f"cell {difference.cell} fails in a fresh run")
        return difference

    # -- one text --------------------------------------------------------------------------------

    def _do(self, text: Text) -> None:
        given = dict(text.arguments)
        match text.kind:
            case "run":
                self._open.append([text.number, 0])
                try:
                    self._run(text, given)
                finally:
                    self._open.pop()
            case "configure" if given["name"] in self._limits:
                self._limits[given["name"]] = given["value"]
            case "configure" if given["name"] == "budget":
                pass  # nothing need leave memory here
            case "evict":
                which = [self._numbers.get(w, w) for w in given.pop("which")]
                self._fresh.evict(*which, **given)
            case "undo":
                given["cell"] = self._numbers.get(given["cell"], given["cell"])
                self._fresh.undo(given.pop("count"), **given)
            case "load" if given["path"] in self._core.withheld:
                raise UsageError(
                    f"{given['path']} is not loaded: its session's file is not trusted"
                )
            case "redo" | "reset" | "load" | "link" | "chdir" | "setenv" | "configure":
                getattr(self._fresh, text.kind)(**given)

    def _run(self, text: Text, given: dict[str, Any]) -> None:
        fresh = self._fresh
        left = max(self._deadline - time.monotonic(), 0) + _BEHIND
        for name, limit in self._limits.items():
            fresh.configure(name, min(limit or left, left))
        if text.ended == Interrupted.__name__:
            fresh.configure("cell_timeout", min(self._limits["cell_timeout"] or left, _STOPPED))
        options = CellOptions(**given["options"])
        source = text.source
        if options.file and os.path.isfile(options.file):
            source = read_text(options.file, "")
        number = text.was if text.was > fresh.number else None
        try:
            fresh.run(
                source, given["language"], given["cell_id"], sink=self, options=options,
                number=number,
            )  # fmt: skip
        finally:
            if text.was:
                self._numbers[text.was] = fresh.number

    # -- the sink of cells -----------------------------------------------------------------------

    def input(self, prompt: str) -> str | None:
        self._asks = True
        return None

    def progress(self, text: str) -> None:
        self._told()

    def magic(self, action: Any, run: Any = None) -> None:
        """Do what this magic of the text asked of the session."""
        if not self._open:
            return
        number, magics = self._open[-1]
        self._open[-1][1] = magics + 1
        for text in self._below.get(number, ()):
            if text.magic == magics + 1:
                self._do(text)

    def shell(self, action: Any) -> None:
        pass

    def inspect(self, action: Any) -> None:
        pass


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python's that prints nothing."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            return function(*arguments)

    return run
