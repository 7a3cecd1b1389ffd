"""What cells have asked of a session, as they were run last: the notebook's present text.

Start from `Texts`.  A text is a cell's source, or what a magic did: a file that was linked, a
library, a setting.  Texts of one cell of a client belong together: running that again drops those
it had before.  They are kept in the store, and saved with the session.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from jitkernel.errors import Damaged, Fault
from jitkernel.forms import check, decompress
from jitkernel.record import field, fields, record
from jitkernel.session.settings import USUAL

if TYPE_CHECKING:
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.run.host import Execution
    from jitkernel.session.saved.store import Store
    from jitkernel.session.saved.tables import Part
    from jitkernel.session.settings import CellOptions

_MOST = 50_000  # texts of no cell of a client; the oldest go
_LONGEST = 256 << 20  # bytes of a source
# A text that is not longer is packed with a window and tables of a few kilobytes, not of 256.
_SHORT, _SMALL = 4096, (12, 4)


@record(frozen=False)
class Text:
    """One thing that was asked.

    `number` counts in the order in which they began; `place` that of its cell in the order in which
    cells were run for the first time.  `cell` is what the client calls its cell, "" for none.
    `kind` is `run`, with a `source`, or the method of a session, with `arguments`.  `above` is the
    number of the text one of whose magics asked it, 0 for none, and `magic` which of them, from 1.
    `was` is the number of the session's cell, `ended` the class of the error that it raised, "" for
    none, `seconds` how long it took, `answered` whether the user was asked for input and gave some.
    """

    number: int
    place: int
    cell: str
    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    above: int = 0
    magic: int = 0
    was: int = 0
    ended: str = ""
    seconds: float = 0.0
    answered: bool = False
    source: str = ""
    # While it is running: since when, and to how many magics it came.
    began: float = 0.0
    magics: int = 0

    def row(self) -> tuple[str, bytes]:
        """As the store keeps it."""
        source = self.source.encode("utf-8", "surrogatepass")
        packer = zlib.compressobj(1, zlib.DEFLATED, *(_SMALL if len(source) < _SHORT else ()))
        return _DUMPS(_VALUES(self)), packer.compress(source) + packer.flush()

    @classmethod
    def of(cls, number: int, body: str) -> Text:
        """The inverse, without its source.  Raises Damaged for what is none."""
        try:
            check(values := json.loads(body), _FORM)
            return cls(number, *values)
        except (ValueError, RecursionError) as error:
            raise Damaged(f"text {number} is no text of a cell: {error}") from None

    def unpack(self, data: bytes) -> None:
        """Have the source as the store has it.  Raises Damaged."""
        try:
            self.source = decompress(data, _LONGEST).decode("utf-8", "surrogatepass")
        except ValueError as error:
            raise Damaged(f"the text of cell {self.was} cannot be read: {error}") from None


def _given(options: CellOptions) -> dict[str, Any]:
    """The options of a cell that differ from what they are otherwise."""
    values = ((f.name, getattr(options, f.name)) for f in fields(options))
    return {name: value for name, value in values if value != getattr(USUAL, name)}


_DUMPS = json.JSONEncoder(default=str).encode
_FORM = (int, str, str, dict, int, int, int, str, float, bool)
_VALUES = attrgetter(*[f.name for f in fields(Text)][1 : 1 + len(_FORM)])


class Texts:
    """Those of one session."""

    def __init__(self, store: Store):
        self._store = store
        self._number = self._place = 0
        self._of: dict[str, tuple[int, list[int]]] = {}  # by a client's cell: place, numbers
        self._of_none = array("q")  # numbers of the others
        self.forgotten = 0  # how many of these are kept no more
        self._cell = ""  # of the client, that runs now
        self._in_cell = False  # one does, whatever it is called
        self._open: list[Text] = []  # the last one is within the others
        self._muted = 0
        self._ended: list[Text] = []  # that the store does not have yet

    # -- cells of a client -----------------------------------------------------------------------

    def begin_cell(self, cell: str) -> None:
        """A cell of the client begins: what it asked before is not its text any more."""
        self._cell, self._in_cell = cell, True
        self._open, self._muted = [], 0
        self._place += cell not in self._of
        if cell:
            place, numbers = self._of.get(cell, (self._place, []))
            self._drop(numbers)
            self._of[cell] = place, []

    def end_cell(self) -> None:
        """It is over."""
        self._cell, self._in_cell = "", False

    def remove_cells(self, cells: Iterable[str]) -> None:
        """The client has these cells no more."""
        for cell in cells:
            _, numbers = self._of.pop(cell, (0, []))
            self._drop(numbers)

    def _drop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._store.drop(number, "texts")

    @property
    def busy(self) -> bool:
        """True if a text is running."""
        return bool(self._open)

    # -- what is asked ---------------------------------------------------------------------------

    def begin(
        self, kind: str, arguments: dict[str, Any], source: str = "", cell: str | None = None
    ) -> None:
        """Something is asked, by the client's cell that runs, by `cell`, or by none.  What a text
        asks by itself is none, unless a magic of it does."""
        if self._muted or (self._open and self._open[-1].kind != "run"):
            self._muted += 1
            return
        if not self._in_cell and not self._open:
            self.begin_cell(cell or "")
            self._in_cell = False
        self._number += 1
        place, _ = self._of.get(self._cell, (self._place, []))
        outer = self._open[-1] if self._open else None
        above, magic = (outer.number, outer.magics) if outer is not None else (0, 0)
        text = Text(self._number, place, self._cell, kind, arguments, above, magic, source=source)
        text.began = time.monotonic()
        self._open.append(text)

    @contextlib.contextmanager
    def asked(self, kind: str, **arguments: Any) -> Iterator[None]:
        """While a method of the session does what it is asked."""
        self.begin(kind, arguments)
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise
        self.end(None)

    def magic(self) -> None:
        """The text that is running comes to its next magic."""
        if self._open:
            self._open[-1].magics += 1

    def answered(self) -> None:
        """The user has given the program a line."""
        for text in self._open:
            text.answered = True

    def end(self, error: BaseException | None, was: int = 0, **arguments: Any) -> None:
        """End what began last; what is known of it besides."""
        if self._muted:
            self._muted -= 1
            return
        if not self._open:
            return
        text = self._open.pop()
        text.seconds, text.was = round(time.monotonic() - text.began, 3), was
        text.ended = type(error).__name__ if error is not None else ""
        text.arguments |= arguments
        changed_nothing = error is not None and not isinstance(error, Fault)
        if not (text.cell or text.above) and changed_nothing:
            return
        self._ended.append(text)
        if text.cell:
            self._of.setdefault(text.cell, (text.place, []))[1].append(text.number)
        else:
            self._of_none.append(text.number)
            if len(self._of_none) > _MOST:
                self._drop([self._of_none.pop(0)])
                self.forgotten += 1
        if not self._open and not self._in_cell:
            self._cell = ""

    def end_run(self, execution: Execution, error: BaseException | None = None) -> None:
        """A cell's run is over."""
        cell: Cell | None = execution.__dict__.get("cell")  # most calls need none
        options = _given(execution.options) if execution.options is not USUAL else {}
        self.end(error, cell.number if cell is not None else 0, options=options)

    def placed(
        self, sources: Sequence[str], options: CellOptions, number: int, cell: str | None = None
    ) -> None:
        """Definitions were placed in a row, without a run; `number` is that of the first cell."""
        for was, source in enumerate(sources, number):
            arguments = {"language": "llvm", "cell_id": cell, "options": _given(options)}
            self.begin("run", arguments, source, cell)
            self.end(None, was)

    def settle(self) -> None:
        """Give the store what has ended: when an operation is over, whose failure takes back what
        it has written."""
        while self._ended:
            text = self._ended[0]
            self._store.put_text(text.number, *text.row())
            del self._ended[0]

    # -- all of them -----------------------------------------------------------------------------

    def every(self) -> list[Text]:
        """The present text, in the order of the notebook: a cell stands where it was run first, as
        a client says when it runs a cell, and not where that is."""
        self.settle()
        found: list[Text] = []
        for number, body, data, _ in self._store.texts():
            found.append(text := Text.of(number, body))
            text.unpack(data)
        return sorted(found, key=lambda text: (text.place, text.number))

    def restore(self, rows: Iterable[Part]) -> None:
        """Those of a saved session are there.  Raises as `Text.of` does."""
        found = [Text.of(int(key), body) for key, body, _ in rows]
        for text in sorted(found, key=lambda text: text.number):
            self._number = max(self._number, text.number)
            self._place = max(self._place, text.place)
            if text.cell:
                self._of.setdefault(text.cell, (text.place, []))[1].append(text.number)
            else:
                self._of_none.append(text.number)
