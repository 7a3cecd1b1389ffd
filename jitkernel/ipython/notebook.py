"""The session of a Python notebook, and the frontend over it: cells and magics run here.

Not IPython's side of it (`extension.py`: which magics there are, when a cell begins).  The session
starts with the first cell that needs it and ends with the notebook.  Start from `Notebook.run`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.errors import Interrupted, JitError
from jitkernel.ipython.names import Names
from jitkernel.ipython.output import NotebookOutput
from jitkernel.ipython.words import in_python
from jitkernel.kernel.between import Between
from jitkernel.kernel.displays import error_content, mask, plain
from jitkernel.kernel.early import with_file
from jitkernel.kernel.frontend import Frontend
from jitkernel.kernel.settings import configured, sections, session_settings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jitkernel.session import Result, Session

_log = logging.getLogger("jitkernel")


class PythonFrontend(Frontend):
    """The frontend of a notebook where magics are `%jit NAME`, and the session may not be there."""

    def note(self, text: str) -> None:
        super().note(in_python(text))

    def worded(self, text: str) -> str:
        return in_python(text)

    def too_late(self, name: str, value: str) -> str:
        if self.started is None:
            return ""
        return (
            f"{name} holds from the session's start: set it before the first cell, after a restart"
            f" or `jitkernel.session.close()`, or in jitkernel_config.py (c.{name} = {value})"
        )


class _ToBe:
    """The session of a notebook until there is one: whatever is asked of it starts it."""

    def __init__(self, notebook: Notebook):
        self._notebook = notebook

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # tools look for those in whatever has a name
            raise AttributeError(name)
        return getattr(self._notebook.session, name)

    def __getitem__(self, name: str) -> Any:
        return self._notebook.session[name]

    def __repr__(self) -> str:
        return "<the notebook's Session, which starts with the first cell that needs it>"


class Notebook:
    """A notebook's share of jitkernel: settings, output, names, and a session once it is needed.

    Cells run one at a time, on whatever thread IPython runs them.
    """

    def __init__(self, shell: InteractiveShell):
        self._shell = shell
        self.settings = sections(configured())
        self.out = NotebookOutput(shell, lambda: self.settings["JITKernel"].max_output)
        self.out.aside = self._aside
        self.names = Names(shell.user_ns)
        self._lock = threading.RLock()
        self._free = threading.Lock()  # held while a cell runs: see `Between`
        self._named: Any = None  # what the user's `session` is, where it is ours
        self._cell: tuple[str | None, Sequence[str]] | None = None  # of the notebook, that runs
        self._process = os.getpid()
        self._make_frontend()
        atexit.register(self.close)

    # -- the session -----------------------------------------------------------------------

    def _make_frontend(self) -> None:
        self._frontend = PythonFrontend(self._start, self.out, self.settings)
        self._frontend.on_session = self._adopt
        self._between = Between(self._frontend, self._free, _log)

    def _start(self) -> Session:
        from jitkernel.session import Session

        session = Session(**with_file(session_settings(self.settings)))
        self._begin_cell(session)
        return session

    def _adopt(self, session: Session) -> None:
        """It is another session now: what the names stood for is gone."""
        self.names.prune(lambda name: False)
        self._place_session(session)

    def place_names(self) -> None:
        """Give the user the names by which messages call the package and the session, where they
        are free."""
        self._shell.user_ns.setdefault("jitkernel", sys.modules["jitkernel"])
        self._place_session(self.started or _ToBe(self))

    def _place_session(self, session: Any) -> None:
        namespace = self._shell.user_ns
        if any(namespace.setdefault("session", session) is own for own in (session, self._named)):
            self._named = namespace["session"] = session

    @property
    def frontend(self) -> Frontend:
        """The frontend; where somebody has closed its session, one that will start another."""
        if self.started is not None and self.started.closed:
            self._frontend.history.close()
            self._make_frontend()
        return self._frontend

    @property
    def session(self) -> Session:
        """The session of this notebook; the first to ask waits until it is there."""
        return self.frontend.session

    @property
    def started(self) -> Session | None:
        """The session, where there is one by now."""
        return self._frontend.started

    def close(self) -> None:
        """End the session, if it has begun; not where a fork of this process ends."""
        if os.getpid() != self._process:
            return
        self._frontend.history.close()
        self.out.close()
        if self.started is not None:
            with contextlib.suppress(Exception):
                self.started.close()

    # -- around any cell of the notebook ---------------------------------------------------

    def begin(self, cell_id: str | None, gone: Sequence[str], aside: bool) -> None:
        """A cell of the notebook begins; `gone` are those that it has no more.  What runs `aside`
        is none."""
        self._between.end()
        self.out.begin(bool(cell_id))
        self._cell = None if aside else (cell_id, gone)
        session = self.started
        if session is not None and not session.closed:
            self._begin_cell(session)

    def _begin_cell(self, session: Session) -> None:
        if self._cell is not None:
            session.frontend.begin_cell(*self._cell)

    def end(self) -> None:
        """It is over: names that Python code has undone or evicted go."""
        self.out.end()
        session = self.started
        self._cell = None
        if session is not None and not session.closed:
            session.frontend.end_cell()
            self._prune(session)
            self._between.begin()

    # -- cells and magics ------------------------------------------------------------------

    @property
    def number(self) -> int:
        """IPython's number for the cell that runs."""
        return int(self._shell.displayhook.prompt_count)

    def run(self, call: Callable[[Frontend], Result | None], start: bool = True) -> Result | None:
        """Run a cell or a magic, as a kernel does; what it gave.  `start` the session before.

        The functions that it defined have their names in Python afterwards.  Raises what the
        session raises, to be shown as the kernel shows it.
        """
        with self._lock, self._free:
            frontend = self.frontend
            session = self.started
            number = session.number if session is not None else 0
            before = self._functions()
            try:
                with self._stoppable(frontend), frontend.cell_runs(self.number, start):
                    result = call(frontend)
            except BaseException as error:
                self._dress(error)
                raise
            finally:
                if self.started is session:
                    self._name(before, number)
                else:
                    self._name(set(), 0)
            if result is not None and frontend.setting("JITKernel.deterministic"):
                result.text, result.html = mask(result.text), mask(result.html)
            return result if result is not None and result.text else None

    def _dress(self, error: BaseException) -> None:
        """IPython is to show it as the kernel would; what is no error of a session, and a mistake
        of ours then, with all its frames."""
        if isinstance(error, JitError):
            content = error_content(error, self.settings["JITKernel"].deterministic)
            text = str(content["traceback"][0])  # type: ignore[index]
            coloured = self._shell.colors.lower() != "nocolor"
            lines = [in_python(text if coloured else plain(text))]
            error._render_traceback_ = lambda: lines  # type: ignore[method-assign]

    @contextlib.contextmanager
    def _stoppable(self, frontend: Frontend) -> Iterator[None]:
        """While it lasts SIGINT is the stop button."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or before is None:
            yield
            return

        def later(seconds: float, call: Callable[[], None]) -> None:
            timer = threading.Timer(seconds, call)
            timer.daemon = True
            timer.start()

        def on_sigint(*_: Any) -> None:
            if self.out.asking:
                raise KeyboardInterrupt
            # Not from here: this thread may hold a lock that an interrupt takes.
            later(0, lambda: frontend.press(later))

        signal.signal(signal.SIGINT, on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _aside(self, ask: Callable[[str], str], prompt: str) -> str:
        """Ask the user; what a signal's handler raises ends it at once."""
        side = self.started.frontend if self.started is not None else None
        try:
            if side is None or not side.core.operating:
                return ask(prompt)
            return side.core.foreign.run(ask, prompt)
        except KeyboardInterrupt as error:
            if self._frontend.running:
                raise Interrupted("interrupted while waiting for input") from None
            if side is not None:  # Python code has called what asks
                side.core.signals.put_off(error)
            raise

    # -- names in Python -------------------------------------------------------------------

    def _functions(self) -> set[str]:
        session = self.started
        if session is None or session.closed or not session.frontend.core.begun:
            return set()
        return set(session.inspect.state.functions)

    def _name(self, before: set[str], number: int) -> None:
        """Give the functions that are new their names, and take those back that are gone.

        New is what was not there `before`, and what a cell after `number` has defined again.
        """
        session = self.started
        if session is None or session.closed:
            return
        with contextlib.suppress(JitError):
            self._prune(session)
            numbers = range(number + 1, session.number + 1)
            cells = [session.inspect.program.cells.get(each) for each in numbers]
            again = {name for cell in cells if cell is not None for name in cell.names}
            found = self._functions()
            placed = self.names.place(session, sorted(found & ((found - before) | again)))
            if sentence := placed.sentence():
                self._frontend.note(sentence)

    def _prune(self, session: Session) -> None:
        symbols = session.symbols

        def defined(name: str) -> bool:
            symbol = symbols.get(name)
            return symbol is not None and symbol.defined and symbol.kind == "function"

        self.names.prune(defined)
