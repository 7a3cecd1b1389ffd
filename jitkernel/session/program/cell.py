"""One executed piece of source, and what running or evicting it did to the program.

Start from `Cell` and `Change`.  Records only: `program.Program` makes them, `history.reverting`
takes changes back, `history.undo.UndoHistory` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any

from jitkernel.elf.constants import TABLE_LABELS
from jitkernel.ir.names import CONTROL
from jitkernel.linker import Block, Symbol
from jitkernel.printable import printable
from jitkernel.record import MISSING, NamedTuple, field, fields, record
from jitkernel.rollback import Recorded, RecordedDict, RecordedList, set_first
from jitkernel.values.value import TypedValue
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.linker import Image
    from jitkernel.session.program.signatures import Signature
    from jitkernel.session.program.state import Fact, Kind
    from jitkernel.session.saved.store import Record


class CellState(Enum):
    """The state of a cell."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    EVICTED = "evicted"
    FAILED = "failed"
    HIBERNATED = "hibernated"


@record(frozen=False, eq=False)
class Cell(Recorded):
    """A cell of the session: its number, where it came from, and its image while it has one.

    `number` counts from 1 and is never used again.  `cell_id` is the notebook's name for it, if it
    has one.  `options` is what it asked of the compiler for itself (`-O0, closed`).  `times` are
    nanoseconds by step: read, parse, verify, optimise, emit, link; `ran` those of its statements,
    `paused` those of `link` for which threads of the program had to wait.
    Where the object was `cached`, found in the object cache, parse to emit were spent earlier.
    `strings` is what call lines of the cell left in the data zone, `libraries` the functions it
    takes from libraries, `types` are the named types that it mentions, `defines`
    those of them that its own text defines,
    `extras` are variables that its statements made (name, address, bytes,
    where) and that are not in the object.  `used` is when it was last called (`Residency.clock`),
    `kept` whether its code is to stay in memory, `pin_reason` why it has to (None: not known yet).
    Source and object are in the store.
    """

    number: int
    cell_id: str | None = None
    options: str = ""
    image: Image | None = None
    state: CellState = CellState.LIVE
    strings: tuple[Block, ...] = ()
    extras: Sequence[tuple[str, int, int, Block]] = ()
    libraries: tuple[tuple[str, Signature], ...] = ()
    times: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    cached: bool = False
    ran: int = 0
    paused: int = 0
    used: int = 0
    kept: bool = False
    pin_reason: str | None = None

    def __init__(self, number: int, cell_id: str | None = None, options: str = ""):
        for name, value in _DEFAULTS:
            set_first(self, name, value)
        set_first(self, "number", number)
        set_first(self, "cell_id", cell_id or None)
        set_first(self, "options", options)

    @property
    def closed(self) -> bool:
        """True if LLVM may have copied its functions into each other."""
        return "closed" in self.options

    @property
    def exports(self) -> list[Symbol]:
        """The symbols whose present definition is this cell's."""
        image = self.image
        return [] if image is None else [s for s, _, _ in image.exports if s.image is image]

    @property
    def names(self) -> list[str]:
        """The names of `exports`, but for the labels of tables about its code: nobody wrote them,
        and each cell that has such a table has one."""
        return [s.name for s in self.exports if s.name not in TABLE_LABELS]

    @property
    def data(self) -> list[Block]:
        """The blocks that it has brought: its variables, and what its statements left."""
        own = [self.image.data] if self.image is not None and self.image.data is not None else []
        return [*self.strings, *[block for _, _, _, block in self.extras], *own]

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes per zone; empty when nothing is resident."""
        return {} if self.image is None else self.image.sizes()

    def __repr__(self) -> str:
        names = ", ".join(printable(n.removeprefix(CONTROL)) for n in self.names)
        return f"<Cell {self.number} {self.state.value}{': ' if names else ''}{names}>"


_DEFAULTS = [(f.name, f.default) for f in fields(Cell)]


def names_of(image: Image | None) -> tuple[str, ...]:
    """The names an image defines or defined."""
    return tuple([s.name for s, _, _ in image.exports]) if image is not None else ()


def cells_words(numbers: Sequence[int]) -> str:
    """`cell 5`, `cells 5, 8`, `cells 1, 2, 3 and 7 more`; empty for none."""
    if not numbers:
        return ""
    return f"cell{'s' * (len(numbers) > 1)} {cut_list(list(map(str, numbers)), 8)}"


class Definition(NamedTuple):
    """The definition of a name: the number of the cell that has it (0: none), what is known of its
    type, and why calls of it raise."""

    cell: int = 0
    info: Any = None
    why: str = ""


class Version(NamedTuple):
    """A cell as it was, with what is needed to bring it back at the same addresses; not `there`: it
    was not in memory.

    `image` is what it was, None where it had none, and its code was at `text`.  `infos` are the
    types that it takes names for, `stale` the versions of symbols that it refers to.  `record` is
    the object, None for the one in the store; where it is here, `uses` are the functions of
    libraries and the types that the cell had, and `lent` says that it was made anew of the same
    source, with other bodies of other cells.
    """

    cell: Cell
    there: bool = False
    image: Image | None = None
    text: int = 0
    stale: tuple[Symbol, ...] = ()
    infos: Mapping[str, Any] = {}
    record: Record | None = None
    uses: tuple[tuple[tuple[str, Signature], ...], tuple[str, ...]] = ((), ())
    lent: bool = False

    @property
    def held(self) -> tuple[Block, ...]:
        """The data and constants that are kept for a cell that has left."""
        return self.cell.strings + (self.image.blocks if self.image is not None else ())

    @property
    def taken(self) -> dict[str, Any]:
        """The types that it takes the present versions of names for."""
        stale = {symbol.name for symbol in self.stale}
        return {name: info for name, info in self.infos.items() if name not in stale}


LARGE = 1 << 16  # bytes: values of more are large


class Effects(NamedTuple):
    """The effects of a run that taking it back leaves: bytes it printed, its statements (see
    `snapshot.lasting`), the cells whose constructors and destructors ran."""

    printed: int = 0
    statements: tuple[str, ...] = ()
    constructed: int = 0
    destroyed: tuple[int, ...] = ()


_NONE = Effects()


@record(frozen=False, eq=False)
class Change(Recorded):
    """The difference that one run or eviction made to the program, so that it can be taken back.

    `cell` is the number of the run that it is or was (0: an eviction, a collection).  `before` are
    facts of the program as they were (see `state.State`), `symbols` those that are kept for them.
    `pages` are bytes of the data zone as they were before, by address, `lost` ranges of it that
    were written and of which nothing was kept.  `results` finds the last result before, `values`
    are those of cells that left, by number; large ones are let go.  `effects` say what the run did
    that is no part of the program, `notes` what there is to tell of it.
    """

    title: str = ""
    cell: int = 0
    before: RecordedDict[Fact, Any] = field(default_factory=RecordedDict)
    symbols: RecordedList[Symbol] = field(default_factory=RecordedList)
    pages: RecordedDict[int, bytes] = field(default_factory=RecordedDict)
    lost: RecordedList[tuple[int, int]] = field(default_factory=RecordedList)
    results: Callable[[], TypedValue | None] | None = None
    values: RecordedDict[int, TypedValue] = field(default_factory=RecordedDict)
    effects: Effects = _NONE
    notes: list[str] = field(default_factory=list)

    def __init__(self, title: str, cell: int = 0, **given: Any):
        for name, default in _PLAIN:
            set_first(self, name, default)
        for name, make in _MADE:
            set_first(self, name, make())
        set_first(self, "title", title)
        set_first(self, "cell", cell)
        for name, value in given.items():
            set_first(self, name, value)

    @property
    def is_empty(self) -> bool:
        """True if nothing of the program or its data is different since."""
        return self._is_same_but(constants=False)

    @property
    def only_looked(self) -> bool:
        """True if nobody would miss it: it is empty, or a run that only showed something: what
        came, or went for it, are constants of statements."""
        return self._is_same_but(constants=bool(self.cell))

    def _is_same_but(self, constants: bool) -> bool:
        """True if all that is different are cells without code, perhaps with `constants`."""
        if self.pages or self.lost:
            return False
        for (kind, _), was in self.before.items():
            if kind in _ASIDE:
                continue
            if kind != "cell" or was.image or was.cell.image:
                return False
            if not constants and (was.there or was.cell.strings):
                return False
        return True

    def facts(self, kind: Kind) -> dict[Any, Any]:
        """The facts of a kind as they were, by key."""
        found = {}
        for (of, key), value in self.before.items():
            if of == kind:
                found[key] = value
        return found

    def affected(self, **more: Any) -> None:
        """The run did this, too, besides what it did to the program."""
        self.effects = self.effects._replace(**more)

    @property
    def arrived(self) -> list[Cell]:
        """The cells that leave when the change is reverted."""
        return [was.cell for (of, _), was in self.before.items() if of == "cell" and not was.there]

    @property
    def removed(self) -> list[Version]:
        """The cells that return when the change is reverted, as they were."""
        return [was for (of, _), was in self.before.items() if of == "cell" and was.there]

    def remember(self, pages: Iterable[tuple[int, bytes]]) -> None:
        """More old bytes; where some were known, those are older and stay."""
        parts = [at for at in self.pages if at % PAGESIZE]  # of a run taken out of the middle
        for address, old in pages:
            known = self.pages.get(address, b"")
            if len(old) <= len(known):
                continue
            merged = bytearray(known + old[len(known) :])
            for at in parts:
                if address < at < address + len(merged):
                    piece = self.pages[at][: address + len(merged) - at]
                    merged[at - address : at - address + len(piece)] = piece
            self.pages[address] = bytes(merged)

    def lose_pages(self) -> None:
        """Keep no old bytes any more: those places are lost."""
        self.lost += sorted((at, at + len(old)) for at, old in self.pages.items())
        self.pages.clear()


#: Facts that alone are nothing to take back: which run a notebook cell is, and what a name is taken
#: for that nobody defines.
_ASIDE = ("id", "taken")
_MADE = [(f.name, f.default_factory) for f in fields(Change) if f.default_factory is not MISSING]
_PLAIN = [(f.name, f.default) for f in fields(Change) if f.default_factory is MISSING]


def title(number: int, source: str) -> str:
    """The title of a cell's run: `cell 5: @sq(7)`."""
    first = source.strip().partition("\n")[0].rstrip(" {")
    return f"cell {number}: {first if len(first) <= 50 else first[:47] + '...'}"
