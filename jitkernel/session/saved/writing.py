"""A session's state as rows: all of it, or what changed since.  Start from `Writer`.

`Pages` knows which pages of constants and globals changed since they were last written; what
threads of the program write meanwhile is there as of some moment of the comparison.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.arena import Arena, Extent
from jitkernel.arena.mirror import Mirror
from jitkernel.errors import UsageError
from jitkernel.linker import Image, Symbol, SymbolState
from jitkernel.publishing import publish
from jitkernel.rollback import written
from jitkernel.session.history.snapshot import without
from jitkernel.session.program.cell import Cell
from jitkernel.session.saved.rows import FACTS, cell_row, dump, numbering, symbol_body
from jitkernel.session.saved.tables import (
    BESIDE,
    Key,
    Part,
    Tables,
    before,
    connect,
    create,
    identify,
    refusal,
    refuse_odd,
)
from jitkernel.setting import declared
from jitkernel.settings import SessionSettings
from jitkernel.sqlite_transaction import Transaction
from jitkernel.values.value import TypedValue

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.program.program import Program
    from jitkernel.session.program.state import Fact

PAGE = 4096
#: Code and unwind records are not here: they are in the rows of the cells they belong to.
ZONES = ("rodata", "data")


class Pages:
    """The pages of an arena's constants and globals as they are in the file: what is gone, and kept
    for an undo alone, is zero there."""

    def __init__(self, arena: Arena):
        self._arena = arena
        self._mirrors = [(arena.zones[name], Mirror(arena, name)) for name in ZONES]
        self._gone: frozenset[Extent] = frozenset()

    def learn(self, number: int, content: bytes) -> None:
        """Page `number` (its address / 4096) is in the file with this content."""
        at = number * PAGE
        for zone, mirror in self._mirrors:
            if zone.start <= at < zone.stop:
                mirror.learn(at, content)

    def changes(self, gone: Iterable[Extent]) -> tuple[list[tuple[int, bytes]], list[int]]:
        """Pages to write, zeros at their ends left out, and numbers of pages to delete; `gone` is
        what is not there for whoever reads the file."""
        # by address: whether the file may have it, and what it is now
        found = {
            c.address: (bool(c.was.strip(b"\0")), c.now)
            for _, mirror in self._mirrors
            for c in mirror.look()
        }
        before, self._gone = self._gone, frozenset(e for e in gone if e.zone in ZONES)
        for _, start, size in before ^ self._gone:
            for low, high in self._arena.held(start, start + size):
                for at in range(low & -PAGE, high, PAGE):
                    _, now = found.get(at, (True, b""))
                    found[at] = True, now or self._arena.read(at, PAGE)
        write: list[tuple[int, bytes]] = []
        empty: list[int] = []
        ranges = sorted((start, start + size) for _, start, size in self._gone)
        for at, (there, now) in sorted(found.items()):
            if content := without(ranges, at, now).rstrip(b"\0"):
                write.append((at // PAGE, content))
            elif there:
                empty.append(at // PAGE)
        return write, empty


HEAD = ("session", "unwind")  # facts of the session as a whole
LAST = 0  # the key of the last result, which may be of a cell that is gone


#: What is in no row of a cell, or may be there as it was when the cell was last written.
_ASIDE = frozenset(("used", "pin_reason", "ran", "times"))


class Unsaved:
    """Symbols, numbers of cells, and facts of a program that the blocks wrote which have ended well
    (`rollback.written`): who saves them looks at what they are now."""

    def __init__(self, program: Program):
        self._kinds = {id(table): kind for kind, table in program.state.tables.items()}
        # in order: the file is the same each time
        self._records: dict[Symbol | Image | Cell, None] = {}
        self._cells: dict[int, None] = {}
        self._facts: dict[Fact, None] = {}

    def add(self, log: list[Any]) -> None:
        """A block has written this."""
        for owner, key, was in written(log):
            if isinstance(owner, dict):
                kind, now = self._kinds.get(id(owner)), owner.get(key)
                if kind is None:
                    self._mention(key, was, now)
                else:
                    self._facts[kind, key] = None
                    if kind == "id":  # it is in the rows of those cells
                        self._cells |= dict.fromkeys(n for n in (was, now) if isinstance(n, int))
            elif key not in _ASIDE:
                self._mention(owner)
                if key == "refs":
                    self._mention(*was)

    def _mention(self, *values: Any) -> None:
        for value in values:
            if isinstance(value, (Symbol, Image, Cell)):
                self._records[value] = None

    def take(self) -> tuple[dict[Symbol, None], dict[int, None], dict[Fact, None]]:
        """Give what was written until now; there is nothing then."""
        symbols: dict[Symbol, None] = {}
        cells, facts, records = self._cells, self._facts, self._records
        for record in records:
            if isinstance(record, Symbol):
                symbols[record] = None
                continue
            image = record if isinstance(record, Image) else record.image
            if isinstance(record, Cell):
                cells[record.number] = None
            if image is not None:
                if image.cell:
                    cells[image.cell] = None
                symbols |= dict.fromkeys(image.refs)
                symbols |= dict.fromkeys(symbol for symbol, _, _ in image.exports)
        self._records, self._cells, self._facts = {}, {}, {}
        return symbols, cells, facts


class Writer:
    """Writes a session into tables, and remembers what they have."""

    def __init__(self, session: Core, tables: Tables):
        self._session, self._tables = session, tables
        self.numbers = numbering({})
        self.pages = Pages(session.engine.arena)
        self.cells: set[int] = set()
        self.results: dict[int, TypedValue] = {}
        self.head: dict[str, str] = {}

    def everything(self) -> None:
        """All of the session, into empty tables; inside a transaction."""
        program = self._session.program
        symbols = dict.fromkeys(program.every_symbol())
        self.changes(symbols, program.cells, program.state)

    def changes(
        self, symbols: Iterable[Symbol], cells: Iterable[int], facts: Iterable[Fact]
    ) -> bool:
        """Write what is new since the last call, inside a transaction; true if anything was."""
        program, numbers = self._session.program, self.numbers
        there: list[Part] = []
        gone: list[Key] = []
        for symbol in symbols:
            stale = program.linker.symbols.get(symbol.name) is not symbol
            if _lasts(symbol, stale):
                there.append((numbers[symbol], symbol_body(symbol, stale), b""))
            elif (number := numbers.pop(symbol, None)) is not None:
                gone.append(number)
        changed = self._write("symbols", there, gone)
        live = [program.cells[number] for number in cells if number in program.cells]
        left = [n for n in cells if n not in program.cells and n in self.cells]
        changed |= self._write("cells", [cell_row(program, c, numbers) for c in live], left)
        self.cells.difference_update(left)
        self.cells.update(cell.number for cell in live)
        hidden = (*self._session.history.gone(), *program.linker.arena.deferred)
        pages, emptied = self.pages.changes(hidden)
        changed |= self._write("pages", [(number, "", data) for number, data in pages], emptied)
        changed |= self._write_results()
        changed |= self._write_facts(facts)
        if changed:
            self._tables.put("facts", [("saved", repr(time.time()), b"")])
        return changed

    def _write(self, table: str, rows: Sequence[Part], gone: Collection[Key]) -> bool:
        """Write rows, and delete those that are `gone`; true if there was something to do."""
        self._tables.put(table, rows)
        self._tables.drop(table, gone)
        return bool(rows or gone)

    def _write_results(self) -> bool:
        session = self._session
        now = dict(session.results)
        if session.results.last is not None:
            now[LAST] = session.results.last
        old, self.results = self.results, now
        new = [(n, str(v.type), v.data) for n, v in now.items() if old.get(n) is not v]
        return self._write("results", new, [n for n in old if n not in now])

    def _write_facts(self, facts: Iterable[Fact]) -> bool:
        program = self._session.program
        shared = [[content.hex(), at] for content, at in program.linker.unwind.shared.items()]
        head = {"session": self._head(), "unwind": dump(shared)}
        new: list[Part] = [
            (key, body, b"") for key, body in head.items() if self.head.get(key) != body
        ]
        self.head = head
        gone: list[Key] = []
        for kind, key in facts:
            if kind in FACTS:
                id, value = f"{kind} {dump(key)}", program.state.get(kind, key)
                row = None if value is None else FACTS[kind].row(program, key, value)
                if row is None:
                    gone.append(id)
                else:
                    new.append((id, dump(row), b""))
        return self._write("facts", new, gone)

    def _head(self) -> str:
        """The data of the session as a whole."""
        session, engine = self._session, self._session.engine
        who = engine.pool.identity()
        services = engine.executor.services
        saved = (name for name, told in declared(SessionSettings).items() if told.saved != "no")
        chosen = {name: getattr(session.settings, name) for name in saved}
        return dump(
            {
                "number": session.number,
                "settings": chosen | {"base": engine.arena.base, "capacity": engine.arena.capacity},
                "identity": [who.llvm, who.llvmlite, who.triple, who.cpu, who.features],
                "libraries": services.libraries,
                "withheld": [p for p in session.withheld if p not in services.libraries],
                "archives": list(session.program.state.archives),
                "memory": services.memory(),
                "order": list(session.results),
                "speaks": session.program.speaks,
            }
        )


def _lasts(symbol: Symbol, stale: bool) -> bool:
    """True if a symbol is there for more than thunks and what can be undone."""
    if not symbol.name:
        return False
    if not stale and symbol.state in (SymbolState.DEFINED, SymbolState.FAR, SymbolState.FIXED):
        return True
    return any(image.cell for image in symbol.users or ())


def write_file(path: str, write: Callable[[Tables], None]) -> int:
    """Make a session's file, which is there whole or as it was before; its size in bytes.  What was
    there stays `before` it.

    Raises UsageError where another session saves to it, or where it is something else.
    """
    path = _place(path)

    def fill(db: sqlite3.Connection) -> None:
        with Transaction(db):
            create(db)
            write(Tables(db))

    try:
        _take(path)
        return publish(path, fill, before(path))
    except sqlite3.Error as error:
        raise UsageError(f"{path} cannot be written: {error}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _place(path: str) -> str:
    """The path of a file of that name, there or to be; a link stays one. Raises UsageError."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be written: {error}") from None


def _take(path: str) -> None:
    """Make sure that a file may be replaced, and that nothing of its log stays."""
    refuse_odd(path)
    if os.path.exists(path) and os.path.getsize(path):
        with contextlib.closing(connect(path)) as db:
            identify(db, path)
            try:
                db.execute("begin immediate")
                db.execute("rollback")
                db.execute("pragma journal_mode = delete")
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise refusal(path, error) from None
    # Of a file that is gone, too: SQLite would take its log for this one's.
    for suffix in BESIDE:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)
