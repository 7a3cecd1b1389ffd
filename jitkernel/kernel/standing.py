"""The debugger where no panel listens to it: a prompt through the frontend's input.

Magics start it (`magics/debugging.py`); a front end's panel (`kernel/debugger.py`) takes its place
while it is attached.  Start from `Standing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.kernel import magics
from jitkernel.kernel.magics.debugging import LOOKS
from jitkernel.recent import Recent
from jitkernel.regex import regex
from jitkernel.session.debugging.wholes import Wholes

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.kernel.magics.registry import Magic
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.debugging.prompt import Prompt
    from jitkernel.session.debugging.shows import Seen

_KEPT = 1000  # texts of cells
_MAGIC = regex(r"%{1,2}(?:jit\s+%?)?([\w.]+\??)(?!\s*=[^=])[ \t]*([^\n]*)")
_SHOWS = ("asm", "cfg", "ir", "mir", "object", "passes")
_NO_CODE = ("!", "?", ";", "//")


class Standing:
    """The debugger of a frontend's session, and the texts of the cells that it has run."""

    def __init__(self, frontend: Frontend):
        self._frontend = frontend
        self.wholes = Wholes()
        self._texts: Recent[int, str] = Recent(_KEPT)  # of cells, by the client's number
        self._last = ""  # that had code
        self._prompt: Prompt | None = None

    # -- cells ---------------------------------------------------------------------------------

    def runs(self, text: str, number: int | None) -> None:
        """A cell of the client's is about to run."""
        self.wholes.runs(text)
        if number is not None and has_code(text):
            self._texts[number] = text
        if has_code(text):
            self._last = text

    def source_of(self, cell: int = 0) -> str:
        """The whole text of a cell; for 0 of the one that the frame is of that is looked at, while
        the program stands, else of this one, where it has code, else of the last one that had.
        Raises UsageError where there is none."""
        if cell:
            return self._texts.get(cell) or self.debugger.source_of(cell)
        if self.stands and (source := self.debugger.frames()[self.debugger.chosen].source):
            return source
        return self._last or self.debugger.source_of()

    def cell_of(self, source: str) -> int:
        """The number of the last cell with a text; 0 where none has it."""
        found = [number for number, text in self._texts.items() if text == source]
        return max(found, default=0) or self.debugger.cell_of(source)

    # -- the debugger --------------------------------------------------------------------------

    @property
    def debugger(self) -> Debugger:
        """The session's debugger."""
        return self._frontend.session.debugger

    @property
    def stands(self) -> bool:
        """True while the program stands."""
        session = self._frontend.started
        debugger = session.inspect.debugger if session is not None else None
        return debugger is not None and debugger.stop is not None

    def start(self) -> Debugger:
        """The debugger, on: where nobody listens to it, each stop opens a prompt.  Raises
        UsageError where code cannot be stopped."""
        debugger = self.debugger
        debugger.start()
        debugger.whole = self.wholes.whole
        if not debugger.heard:
            if self._prompt is None or self._prompt.seen is not debugger:
                self._prompt = self._opened(debugger)
            debugger.listener = self._prompt.hear
        return debugger

    def look_back(self) -> None:
        """Open the prompt for what the last call that was stopped has left."""
        left = self.debugger.post_mortem()
        self._opened(left).look(left.stop)

    def _opened(self, program: Seen) -> Prompt:
        from jitkernel.session.debugging.prompt import Prompt

        frontend = self._frontend
        made = Prompt(program, frontend.out.input, frontend.print)
        made.other = lambda line: self._at_prompt(line, made.chosen)
        made.numbers, made.sources = self.cell_of, self.source_of
        return made

    def _at_prompt(self, line: str, frame: int) -> bool:
        """Run a magic or a shell command; False for anything else."""
        if line.startswith("!"):
            self._frontend.run_shell(line[1:])
            return True
        return self.does(line, frame)

    def does(self, line: str, frame: int = 0, frontend: Frontend | None = None) -> bool:
        """Run a magic for a frame of what stands, which views mark the place of; False for anything
        else.  Raises UsageError for magics that change something."""
        frontend = frontend or self._frontend
        match = _MAGIC.match(line)
        magic = frontend.magics.get(match[1].rstrip("?")) if match is not None else None
        if match is None or magic is None:
            return False
        if magic.name not in LOOKS and not match[1].endswith("?"):
            words = "is for a cell"
            if self.stands:
                at_prompt = frontend is self._frontend
                words = "`c` goes on, `q` ends the cell" if at_prompt else "let it go on, or end it"
                words = f"is not done while the program stands: {words}"
            raise UsageError(frontend.worded(f"%{match[1]} {words}"))
        if self.stands:
            self.debugger.chosen = frame
        with frontend.without_pager():
            magics.run_line_magic(frontend, match[1], match[2].strip() or self._here(magic))
        return True

    def _here(self, magic: Magic) -> str:
        """The subject of a view that is not told one: the function that is looked at."""
        if magic.name not in _SHOWS or not self.stands:
            return ""
        frame = self.debugger.frames()[self.debugger.chosen]
        if frame.name.lstrip("@") in self._frontend.session.symbols:
            return frame.name
        return str(frame.cell) if frame.cell in self._frontend.session.inspect.program.cells else ""


def has_code(text: str) -> bool:
    """True if a cell has more than magics, shell commands and comments."""
    lines = (line.strip() for line in text.split("\n"))
    return any(line and not line.startswith(_NO_CODE) and not _MAGIC.match(line) for line in lines)
