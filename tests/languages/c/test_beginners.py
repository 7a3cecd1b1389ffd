"""What is answered to the programs of a first course, and to the mistakes in them: in the words of
C, with the line."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("ziglang")

from traitlets.config import Config

from jitkernel.errors import JitError
from jitkernel.kernel.frontend import Frontend
from jitkernel.kernel.settings import sections, session_settings
from jitkernel.session import Session
from tests.languages.c.beginners import PROGRAMS
from tests.seeds import sampled

#: What is the session's own, or Python's, or the compiler's within.
MACHINERY = re.compile(
    r"__jk|\bjk_|Traceback|Index(?:Error)|KeyError|FileNotFound|OSError|memoryview|Errno"
    r"|\bi32\b|\bLLVM\b|\bundef\b|\bpoison\b|\bthunk|\bwrapper|failed on this cell"
)


class Screen:
    """A client without messages: what a user sees, and lines that they type."""

    def __init__(self):
        self.text, self.lines = "", []

    def write(self, name, data):
        self.text += data.decode() if isinstance(data, bytes) else data

    def display(self, view):
        self.text += view.text + "\n"

    def live(self, view, last):
        if last:
            self.display(view)

    page = display

    def input(self, prompt):
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def clear(self, wait): ...

    def interrupt(self): ...

    def leave(self): ...


class Notebook:
    """A notebook of C."""

    def __init__(self, session, settings):
        self.session, self.screen = session, Screen()
        self.frontend = Frontend(session, self.screen, settings)

    def run(self, cell):
        """What is shown for a cell."""
        self.screen.text = ""
        try:
            with self.frontend.cell_runs(None, start=False):
                result = self.frontend.execute(cell)
            if result is not None and result.text:
                self.screen.text += result.text
        except JitError as error:
            self.screen.text += str(error)
        return self.screen.text

    def program(self, source, lines=""):
        """What is shown for a program that is pasted, and run where nothing is said of it."""
        self.session.reset()
        shown = self.run(source)
        if "line " in shown or "main" not in source:
            return shown
        self.screen.lines = lines.split("\n") if lines else []
        return shown + self.run("%run main")


@pytest.fixture(scope="module")
def notebook():
    settings = sections(Config())
    settings["JITKernel"].set_trait("default_language", "c")
    settings["Arena"].set_trait("capacity", 64 << 20)
    settings["Executor"].set_trait("cell_timeout", 0.5)
    with Session(**session_settings(settings)) as session:
        yield Notebook(session, settings)


@pytest.mark.parametrize("number", sampled(range(len(PROGRAMS)), 4))
def test_a_program_runs_and_a_mistake_is_told_with_its_line(notebook, number):
    program = PROGRAMS[number]
    shown = notebook.program(program.source, program.input)
    assert program.prints in shown and "line " not in shown, shown
    for mistake in program.wrong:
        pairs = enumerate(zip(mistake.old, mistake.new, strict=False))
        same = next((n for n, (old, new) in pairs if old != new), len(mistake.new))
        at = program.source.index(mistake.old) + same
        line = mistake.line or program.source.count("\n", 0, at) + 1
        cell = program.source.replace(mistake.old, mistake.new, 1)
        if mistake.apart:
            shown = notebook.program(cell, program.input)
            assert mistake.word in shown and "--inline=off" in shown and "line " not in shown, shown
        notebook.session.configure("inlining", not mistake.apart)
        shown = notebook.program(cell, program.input)
        notebook.session.configure("inlining", True)
        named = re.search(r"\bline (\d+)", shown)
        assert named is not None and int(named[1]) == line, (line, cell, shown)
        assert mistake.word in shown, (cell, shown)
        assert not MACHINERY.search(shown), (cell, shown)
    notebook.session.check()
