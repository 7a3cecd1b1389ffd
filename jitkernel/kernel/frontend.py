"""What stands between a session and any client: magics, shell commands, inspection, settings.

Not Jupyter's messages (`kernel.py`) and not the terminal (`terminal.py`): those supply an
`Output`.  The frontend is the sink that a session reports to while a cell runs.
Start from `Frontend.execute`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from html import escape, unescape
from typing import TYPE_CHECKING, Any

from jitkernel.errors import CompileError, Interrupted, UsageError
from jitkernel.files import read_text
from jitkernel.ir.names import bare, written
from jitkernel.kernel import magics
from jitkernel.kernel.displays import mask
from jitkernel.kernel.history import History
from jitkernel.kernel.output import Output
from jitkernel.kernel.shell import ShellCommand
from jitkernel.printable import printable
from jitkernel.views.view import View, preformatted, prose

if TYPE_CHECKING:
    from traitlets.config import Configurable

    from jitkernel.kernel.standing import Standing
    from jitkernel.session import CellOptions, Result, Session

# What people type to get out of a console; none of it is IR.
LEAVE = frozenset(("exit", "quit", "exit()", "quit()"))

PRESS_AGAIN = 0.1  # seconds


def deleted_cells(request: Mapping[str, Any]) -> list[str]:
    """The ids of the cells that a notebook has no more, as JupyterLab says with each request."""
    deleted = (request.get("metadata") or {}).get("deletedCells")
    return list(map(str, deleted)) if isinstance(deleted, list) else []


class Frontend:
    """One session with its magics.  Runs one cell at a time; `interrupt` is for other threads."""

    def __init__(
        self,
        session: Session | Callable[[], Session],
        output: Output,
        settings: Mapping[str, Configurable],
        history: History | None = None,
    ) -> None:
        self._session = session
        self.out = output
        # As a cell's sink, too, it writes and asks where its output does.
        self.output, self.input, self.clear = output.write, output.input, output.clear
        self.settings = settings
        self.magics = magics.MAGICS
        self.history = history if history is not None else History(None)
        self.number: int | None = None  # what the client counts the cell that runs
        self.running = False
        self.runs = 0  # how many cells began
        self.on_session: Callable[[Session], None] | None = None  # it is another one now
        self._pager = True
        self.present = ""  # the text of the cell that runs
        self._in_shell = False  # a shell command runs, which looks at `was_interrupted` itself
        self._prepared = False
        # A plain value: a signal handler sets it, and whoever waits for the user looks at it.
        self.was_interrupted = False

    @property
    def session(self) -> Session:
        """The session; the first to ask waits until it is there."""
        if callable(self._session):
            self._adopt(self._session())
        return self._session  # type: ignore[return-value]

    @property
    def started(self) -> Session | None:
        """The session, where somebody has asked for it by now."""
        return None if callable(self._session) else self._session

    def _adopt(self, session: Session) -> None:
        from jitkernel.session.run.results import StreamsOf  # the session's thread imports it

        self._session = session
        session.sink = StreamsOf(self)  # of calls that are no cell
        if self.on_session is not None:
            self.on_session(session)

    def change_session(self, session: Session) -> None:
        """Go on with another session, and its settings; the present one ends."""
        from jitkernel.kernel.settings import SESSION_NAMES, SETTINGS

        old = self.session
        self._adopt(session)
        for name, own in SESSION_NAMES.items():
            if SETTINGS[name].effect != "start":  # what %config shows is what holds
                self._set(name, getattr(session.settings, own))
        old.close()

    def start(self) -> None:
        """Before the first cell, once: what a session that was there before has, or the last one's
        offer; then the startup files run."""
        if self._prepared:
            return
        self._prepared = True
        from jitkernel.kernel.last_session import offer

        session = self.session
        session.frontend.core.begin()
        if session.restored is not None:
            self.note(f"{session.inspect.store.name} goes on: {session.restored}")
        elif session.settings.autosave and (words := offer()):
            self.note(words)
        for name in self.setting("JITKernel.startup_files"):
            self.execute(read_text(name, "JITKernel.startup_files: "))

    # -- running ---------------------------------------------------------------------------

    def execute(
        self,
        source: str,
        cell_id: str | None = None,
        options: CellOptions | None = None,
        language: str = "",
    ) -> Result | None:
        """Run one cell, magics included; of the default language where it says nothing else.
        Raises what the session raises."""
        outer = self.present
        if not outer:
            self.present = source
            self.standing.runs(source, self.number)
        try:
            return self._execute(source, cell_id, options, language)
        finally:
            self.present = outer

    def _execute(
        self, source: str, cell_id: str | None, options: CellOptions | None, language: str
    ) -> Result | None:
        call = magics.cell_magic(source)
        if call is not None:
            result: Result | None = magics.run_cell_magic(self, call, cell_id)
            return result
        lone = magics.lone_magic(source)
        if lone is not None:
            magics.run_line_magic(self, *lone)
            return None
        if source.strip() in LEAVE:
            self.out.leave()
            self.print("Ctrl-D leaves a console; elsewhere, shut the kernel down from the menu.")
            return None
        language = language or self.setting("JITKernel.default_language")
        return self.session.run(
            source, language, cell_id, sink=self, options=options, number=self.number
        )

    def cell(self, source: str, cell_id: str | None, gone: Sequence[str] = ()) -> Result | None:
        """Run a cell of the client, whose text this is from now on; it has those of `gone` no
        more."""
        side = self.session.frontend
        side.begin_cell(cell_id, gone)
        try:
            return self.execute(source, cell_id)
        finally:
            side.end_cell()

    def run_nested(
        self, source: str, language: str = "", options: CellOptions | None = None
    ) -> None:
        """Run a piece of source from within a cell (`%run`, `%time`); its value is displayed."""
        result = self.aside(source, language, options)
        if result is not None and result.text:
            self.display(View(result.text, result.html))

    def run_file(self, source: str, language: str, path: str) -> None:
        """Run the text of a file, as `run_nested` does; what is wrong with it names the file."""
        from jitkernel.session import CellOptions

        try:
            self.run_nested(source, language, CellOptions(file=path))
        except CompileError as error:
            raise error.in_file(path) from None

    def aside(
        self, source: str, language: str = "", options: CellOptions | None = None
    ) -> Result | None:
        """Run what is no prompt of the client's: unless it defined something, it leaves no number
        behind, so that `_5` stays the result of `[5]`."""
        with self.session.frontend.aside():
            return self.execute(source, options=options, language=language)

    def configure(self, name: str, value: Any) -> None:
        """Change the setting `Section.trait`, for the session too.  Raises TraitError."""
        from jitkernel.kernel.settings import SESSION_NAMES

        self._set(name, value)
        if name in SESSION_NAMES and self.started is not None:
            self.session.configure(SESSION_NAMES[name], self.setting(name))

    def _set(self, name: str, value: Any) -> None:
        section, _, trait = name.partition(".")
        self.settings[section].set_trait(trait, value)

    def too_late(self, name: str, value: str) -> str:
        """The reason that a setting cannot be changed after the start; "" where it can."""
        return (
            f"{name} holds from the kernel's start: set it in jitkernel_config.py"
            f" (c.{name} = {value}) or start the kernel with --{name}={value}"
        )

    @contextmanager
    def cell_runs(self, number: int | None, start: bool = True) -> Iterator[None]:
        """While it lasts a cell runs, which the client counts as `number`, after what `start` does.
        An interrupt that comes later is harmless, one that came before is over.

        Raises Interrupted also where a cell that was interrupted ended by itself: what is queued
        behind it must not run.
        """
        self.was_interrupted = False
        self.runs += 1
        self.running = True
        try:
            if start:
                self.start()
            self.number = number
            yield
            if self.was_interrupted:
                raise Interrupted("the cell was interrupted")
        finally:
            self.running = False

    def interrupt(self) -> None:
        """End what runs.  Harmless while nothing runs; callable from a signal handler."""
        if not self.running:
            return
        self.was_interrupted = True
        if not self._in_shell:
            self.session.interrupt()

    def press(self, later: Callable[[float, Callable[[], None]], object]) -> None:
        """The stop button: end the cell that runs, from another thread than the cell's.

        Pressed again until the cell has ended: it may have been between two things that can be
        interrupted, such as reading the cell and compiling it.  `later` calls a function after some
        seconds, on another thread than the cell's.
        """
        run = self.runs

        def again() -> None:
            if self.running and self.runs == run:
                self.interrupt()
                later(PRESS_AGAIN, again)

        again()

    def setting(self, name: str) -> Any:
        """The value of `Section.trait`."""
        section, _, trait = name.partition(".")
        return getattr(self.settings[section], trait)

    # -- the sink of a session -------------------------------------------------------------

    def shown(self, label: str, text: str, html: str = "") -> None:
        """A value that is not the cell's last one."""
        shown = f"{label} = {text}" if label else text
        if html:
            value = unescape(html[html.index(">") + 1 :].removesuffix("</pre>"))
            # the session has it by now; this module is imported before there is one
            from jitkernel.values.value import value_html

            html = value_html(f"{label} = {value}" if label else value, result=False)
        self.display(View(shown, html))

    def note(self, text: str) -> None:
        """A status line."""
        if self.setting("JITKernel.status_line"):
            first, _, rest = text.partition("\n")
            drawn = preformatted(escape(rest)) if rest else ""
            self.display(View(text, f"<small>{prose(first)}</small>{drawn}"))

    def progress(self, text: str) -> None:
        """Say what takes long; a client that cannot write over it is not told."""
        self.live(View(text, f"<small>{prose(text)}</small>"), last=False)

    def magic(self, action: Any, run: Callable[..., Any] | None = None) -> None:
        magic, rest = self.magics.get(action.name), action.rest
        if magic is not None and any(a.completes == "code" for a in magic.positional):
            rest = action.text.partition(action.name)[2]  # a `;` is the code's: `for ( ; ; )`
        magics.run_line_magic(self, action.name, rest, within=True)

    def shell(self, action: Any) -> None:
        self.run_shell(action.command)

    def inspect(self, action: Any) -> None:
        view = self.look_up(action.name, action.level - 1)
        if view is None:
            raise UsageError(f"nothing is called {action.name} here")
        self.page(view)

    # -- what magics use, with what is above -----------------------------------------------

    @cached_property
    def standing(self) -> Standing:
        """The debugger, with a prompt where no panel listens to it."""
        from jitkernel.kernel.standing import Standing

        return Standing(self)

    def look_up(self, name: str, level: int = 0) -> View | None:
        """A view of what is known of a name; from level 1 on with IR and assembly."""
        from jitkernel.kernel.inspection import look_up

        return look_up(self, name, level)

    def symbol_for(self, word: str) -> str:
        """The symbol of what was typed as a name, where a language calls it otherwise: `@my_f`."""
        from jitkernel.kernel.early import find_language

        name = bare(word)
        if not name.isidentifier() or name in self.session.symbols:
            return word
        notes = self.session.inspect.state.notes
        for language in dict.fromkeys(key.partition(":")[0] for key in notes):
            symbol = find_language(language).symbol_of(name, notes)
            if symbol in self.session.symbols:
                return written(symbol)
        return word

    def confirm(self, question: str, unasked: bool = False) -> bool:
        """True if the user says yes; `unasked` where the client has no input box.

        No answer is no.  Raises Interrupted.
        """
        try:
            answer = self.out.input(f"{question} (y/[n]) ")
        except EOFError:
            return False
        if answer is None:
            return unasked
        return answer.strip().lower() in ("y", "yes")

    def display(self, view: View) -> None:
        """A display among the cell's output."""
        self.out.display(self.masked(view))

    def live(self, view: View, last: bool = True) -> None:
        """A display that takes the place of the cell's last one of this kind; `last`: for good."""
        self.out.live(self.masked(view), last)

    def page(self, view: View) -> None:
        """Help, for the pager where there is one."""
        show = self.out.page if self._pager else self.out.display
        show(self.masked(view))

    @contextmanager
    def without_pager(self) -> Iterator[None]:
        """A block in which help is displayed at once: somebody waits for it at a prompt."""
        self._pager = False
        try:
            yield
        finally:
            self._pager = True

    def masked(self, view: View) -> View:
        """`view` as `deterministic` wants it."""
        if not self.setting("JITKernel.deterministic"):
            return view
        return View(mask(view.text), mask(view.html))

    def worded(self, text: str) -> str:
        """A sentence of ours with its magics as they are written here."""
        return text

    def print(self, text: str) -> None:
        """A line on the cell's stdout."""
        if self.setting("JITKernel.deterministic"):
            text = mask(text)
        self.out.write("stdout", printable(text) + "\n")

    def run_shell(self, command: str) -> int:
        """Run a shell command, streaming; Interrupted when the user ended it."""
        self._in_shell = True
        try:
            status = ShellCommand(command, lambda: self.was_interrupted).run(self.out.write)
        finally:
            self._in_shell = False
        if self.was_interrupted:
            raise Interrupted(f"interrupted: !{command}")
        if status:
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            self.out.write("stderr", printable(f"[!{command}: {how}]\n"))
        return status
