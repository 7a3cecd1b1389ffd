"""The session's file on disk: what each cell was made from.  Start from `Store`.

Sources and objects leave memory when a cell is placed; they are read back for views, for undo and
for linking a cell again.  Writes are collected and go out together, outside the path that a cell's
latency is measured on.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from jitkernel.errors import LinkError, UsageError
from jitkernel.files import create_private
from jitkernel.forms import decompress
from jitkernel.ir.names import decode_name, quote_name
from jitkernel.publishing import keep
from jitkernel.rollback import RecordedDict, later, recording
from jitkernel.session.saved.tables import (
    UNREADABLE,
    WAIT,
    Damaged,
    Row,
    Tables,
    Unopened,
    before,
    connect,
    create,
    identify,
    naming_before,
    reading,
    refuse_odd,
    refuse_schema,
)
from jitkernel.sqlite_transaction import Transaction

_BATCH = 256
_BATCH_BYTES = 4 << 20
#: Bytes that a row's text and its object may have, which it has compressed.
_LONGEST_TEXT, _LARGEST_OBJECT = 256 << 20, 512 << 20
_SHRINK = 256  # pages, 1 MB


T = TypeVar("T")

#: What the source of a cell begins with that is another compiler's object.
LINKED = "; %link "


class Record(NamedTuple):
    """A cell as it was compiled: the text given to the compiler, its options, and the object.

    `source` is the user's, `module` the text that was compiled, whose line `first_line` is the
    user's first.
    """

    number: int
    source: str
    module: str
    first_line: int
    options: str
    object: bytes
    nobuiltin: tuple[str, ...] = ()

    @property
    def is_linked(self) -> bool:
        """True if it is another compiler's object, of which there is no IR."""
        return self.source.startswith(LINKED)


class Store:
    """Records by cell number, in SQLite.

    `path` empty: a database without a name, on disk, that leaves with it.  A file at `path` belongs
    to one session at a time; what it has is kept.  Raises UsageError where it is another session's,
    or no session's file.

    What is written to a file that stays is one transaction up to `commit`: records and the state of
    the session that they belong to are never apart in it.
    """

    def __init__(self, path: str = "", copy_of: str = ""):
        self.path = path
        self.name = copy_of or path or "the session's store"  # as it is called in messages
        with naming_before(self.name), reading(self.name):
            self._db = self._open(copy_of)
        self.tables = Tables(self._db)
        # Records and rows of texts, by table and number; None: dropped.
        self._pending: RecordedDict[tuple[str, int], Record | Row | None] = RecordedDict()
        self._bytes = 0
        self.commits_often = False  # what is not committed yet is worth being kept in memory
        self._written: dict[tuple[str, int], Record | Row | None] = {}  # that
        self._log, self._log_size = self.path + "-wal", 0  # no longer than that when it began

    def _open(self, copy_of: str) -> sqlite3.Connection:
        if self.path:
            _prepare(self.path)
        db = sqlite3.connect(self.path, WAIT, check_same_thread=False, isolation_level=None)
        try:
            if copy_of:
                _copy(copy_of, db)
            self._settle(db, self.name)
        except BaseException:
            db.close()  # else the file would be in use for as long as the error is
            raise
        return db

    def _settle(self, db: sqlite3.Connection, path: str) -> None:
        """The settings of the connection, then the tables of this version."""
        db.execute("pragma locking_mode = exclusive")
        db.execute("pragma cache_size = -512")
        db.execute("pragma trusted_schema = off")
        new = not db.execute("pragma page_count").fetchone()[0]
        if not self.path:
            db.execute("pragma journal_mode = memory")
            db.execute("pragma synchronous = off")
        else:
            if not new:
                identify(db, path)
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = normal")
            db.execute("pragma wal_autocheckpoint = 4000")  # pages: 16 MB of log at most
            db.execute("pragma secure_delete = on")  # what is deleted is no longer in the file
        if new:
            with Transaction(db):
                create(db)
        else:
            refuse_schema(db, path)
        if self.path:
            with Transaction(db):  # from now on it is this session's
                pass

    @property
    def durable(self) -> bool:
        """True if it stays when the session ends."""
        return bool(self.path)

    @property
    def saved(self) -> bool:
        """True if a session can come back from it. Raises Damaged."""
        with reading(self.name):
            query = "select 1 from facts where id = 'session'"
            return self._db.execute(query).fetchone() is not None

    def numbers(self) -> list[int]:
        """The cells it has records of, ascending.  Raises Damaged."""
        self.flush()
        with reading(self.name):
            return [n for (n,) in self._db.execute("select number from records order by number")]

    def keep_before(self) -> None:
        """Put a copy of the file beside it, as it is now, where there is room."""

        def copy(_: str, to: str) -> None:  # to open the file itself would end SQLite's locks
            create_private(to)
            with contextlib.closing(sqlite3.connect(to, isolation_level=None)) as there:
                self._db.backup(there)
                there.execute("pragma journal_mode = delete")

        with contextlib.suppress(sqlite3.Error, UsageError):
            keep(self.path, before(self.path), copy)

    def clear_state(self) -> None:
        """Forget all but records and texts: of a copy whose session lives on elsewhere."""
        with reading(self.name):
            self.tables.clear()

    def rows(self, numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """The rows of some cells as they are in the file, with their checksums."""
        self.flush()
        for number in numbers:
            query = "select * from records where number = ?"
            row = self._db.execute(query, (number,)).fetchone()
            if row is not None:
                yield row

    def put(self, record: Record) -> None:
        """Keep a record."""
        self._collect("records", record.number, record, len(record.object) + len(record.module))

    def _collect(self, table: str, number: int, row: Record | Row | None, size: int = 0) -> None:
        self._pending[table, number] = row
        self._bytes += size
        if len(self._pending) >= _BATCH or self._bytes > _BATCH_BYTES:
            self.flush()

    def get(self, number: int) -> Record | None:
        """The record of a cell, or None.  Raises Damaged."""
        if ("records", number) in self._pending:
            return self._pending["records", number]  # type: ignore[return-value]
        return self._read(number, "*", read_record)

    def _read(self, number: int, columns: str, made: Callable[[tuple[Any, ...]], T]) -> T | None:
        try:
            query = f"select {columns} from records where number = ?"
            row = self._db.execute(query, (number,)).fetchone()
            return None if row is None else made(row)
        except (*UNREADABLE, ValueError, TypeError, RecursionError) as error:
            words = f"what {self.name} has of cell {number} cannot be read: {error}"
            raise Damaged(words) from None

    def object(self, number: int) -> bytes:
        """The object of a cell.  Raises Damaged, and LinkError where it is gone."""
        if ("records", number) in self._pending:
            record = self.get(number)
            made = None if record is None else record.object
        else:
            made = self._read(number, "object", lambda row: decompress(row[0], _LARGEST_OBJECT))
        if made is None:
            raise LinkError(f"cell {number} cannot be linked again: its object is gone")
        return made

    def drop(self, number: int, table: str = "records") -> None:
        """Forget a record, or what a cell has asked ("texts")."""
        self._collect(table, number, None)

    def put_text(self, number: int, body: str, data: bytes) -> None:
        """Keep what a cell has asked."""
        self._collect("texts", number, (number, body, data), len(body) + len(data))

    def texts(self) -> list[Row]:
        """The rows of what cells have asked, with their checksums.  Raises Damaged."""
        self.flush()
        with reading(self.name):
            return self._db.execute("select * from texts").fetchall()

    def flush(self) -> None:
        """Write what was collected; where it may be taken back, once that is decided."""
        if recording():
            later(self.flush)
            return
        if self._pending:
            self.begin()
            self._write()
            if not self.path:
                self._db.execute("commit")

    def begin(self) -> None:
        """Go on with the transaction, or begin one."""
        if not self._db.in_transaction:
            self._log_size = os.path.getsize(self._log) if os.path.exists(self._log) else 0
            self._db.execute("begin immediate")

    def commit(self) -> None:
        """From now on the file has all that was written since the last time."""
        if self._pending:
            self._write()
        self._db.execute("commit")
        self._written.clear()

    def rollback(self) -> None:
        """The file stays as it was committed; what was written since is collected again."""
        if self._db.in_transaction:
            self._db.execute("rollback")
        with contextlib.suppress(OSError):
            # On a full disk, what was not committed would go on taking up the room in the log.
            if os.path.getsize(self._log) > self._log_size:
                os.truncate(self._log, self._log_size)
        self._pending = RecordedDict({**self._written, **self._pending})
        self._written.clear()

    def _write(self) -> None:
        """Write what was collected, in the transaction that is open, all of it or nothing: then it
        stays collected."""
        pending = self._pending
        try:
            self._db.execute("savepoint collected")
            for table in ("records", "texts"):
                rows = {number: row for (name, number), row in pending.items() if name == table}
                kept = [row for row in rows.values() if row is not None]
                self.tables.put(table, [_row(r) if isinstance(r, Record) else r for r in kept])
                self.tables.drop(table, [n for n, row in rows.items() if row is None])
            self._db.execute("release collected")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("rollback to collected")
                self._db.execute("release collected")
            raise
        if self.commits_often:
            self._written.update(pending)
        self._pending, self._bytes = RecordedDict(), 0

    def shrink(self) -> None:
        """Give back the room of what was deleted, where that is most of the file."""
        with contextlib.suppress(sqlite3.Error):  # no room for a copy: it stays as large
            (pages,), (free,) = (
                self._db.execute(f"pragma {name}").fetchone()
                for name in ("page_count", "freelist_count")
            )
            if free > _SHRINK and 2 * free > pages:
                self._db.execute("vacuum")

    def close(self) -> None:
        """Close; what was not committed is gone."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed before
            self._db.close()


def read_record(row: tuple[Any, ...]) -> Record:
    """A record from its row."""
    texts = (decompress(c, _LONGEST_TEXT) for c in row[1:3])
    source, module = (text.decode("utf-8", "surrogateescape") for text in texts)
    names = tuple(map(decode_name, row[6].split("\0"))) if row[6] else ()
    object = decompress(row[5], _LARGEST_OBJECT)
    return Record(row[0], source, module or source, row[3], row[4], object, names)


def _row(r: Record) -> Row:
    source = r.source.encode("utf-8", "surrogateescape")
    module = b"" if r.module == r.source else r.module.encode("utf-8", "surrogateescape")
    names = "\0".join(map(quote_name, r.nobuiltin))  # some are no UTF-8
    source, module, object = (zlib.compress(c, 1) for c in (source, module, r.object))
    return r.number, source, module, r.first_line, r.options, object, names


def _prepare(path: str) -> None:
    """Make sure that a session's file is there, empty where it is new, and its owner's alone."""
    refuse_odd(path)
    try:
        create_private(path)
    except OSError as error:
        folder = os.path.dirname(path)
        words = "no such folder" if folder and not os.path.isdir(folder) else error.strerror
        raise UsageError(f"the session's file {path} cannot be made: {words}") from None


def _copy(source: str, target: sqlite3.Connection) -> None:
    """A copy of one moment of a session's file, whatever is written to it meanwhile."""
    try:
        _back_up(source, source, target)
    except Unopened:  # SQLite writes beside a file that it reads: there may be no room
        import tempfile

        with tempfile.TemporaryDirectory(prefix="jitkernel-") as folder:
            _back_up(copied(source, folder), source, target)


def _back_up(source: str, name: str, target: sqlite3.Connection) -> None:
    with contextlib.closing(connect(source)) as there:
        identify(there, name)
        there.backup(target)


def copied(path: str, folder: str) -> str:
    """A copy of a file and its log in a folder, which may be changed.  Raises UsageError."""
    import shutil

    copy = os.path.join(folder, "copy.jks")
    refuse_odd(path)
    try:
        shutil.copyfile(path, copy)
        if os.path.exists(path + "-wal"):
            shutil.copyfile(path + "-wal", copy + "-wal")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return copy
