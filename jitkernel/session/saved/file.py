"""The session's file on disk, in SQLite.  Start from `File`; what is in it say `tables`."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from jitkernel.errors import Damaged, Unopened, UsageError
from jitkernel.files import create_private, scratch_folder
from jitkernel.publishing import keep
from jitkernel.session.saved.tables import (
    UNREADABLE,
    WAIT,
    Row,
    Tables,
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

T = TypeVar("T")
_SHRINK = 256  # pages, 1 MB


class File:
    """A database at `path`, or without a name, on disk, that leaves with it; `name` is what it is
    called in messages.

    A file at `path` belongs to one session at a time; what it has is kept.  Raises UsageError where
    it is another session's, or no session's file.

    What is written to a file that stays is one transaction up to `commit`: records and the state of
    the session that they belong to are never apart in it.
    """

    def __init__(self, path: str, name: str, copy_of: str = ""):
        self.path, self.name = path, name
        with naming_before(name), reading(name):
            self._db = self._open(copy_of)
        self.tables = Tables(self._db)
        self._log, self._log_size = path + "-wal", 0  # no longer than that when it began

    def _open(self, copy_of: str) -> sqlite3.Connection:
        if self.path:
            _prepare(self.path)
        db = sqlite3.connect(self.path, WAIT, check_same_thread=False, isolation_level=None)
        try:
            if copy_of:
                _copy(copy_of, db)
            self._settle(db)
        except BaseException:
            db.close()  # else the file would be in use for as long as the error is
            raise
        return db

    def _settle(self, db: sqlite3.Connection) -> None:
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
                identify(db, self.name)
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = normal")
            db.execute("pragma wal_autocheckpoint = 4000")  # pages: 16 MB of log at most
            db.execute("pragma secure_delete = on")  # what is deleted is no longer in the file
        if new:
            with Transaction(db):
                create(db)
        else:
            refuse_schema(db, self.name)
        if self.path:
            with Transaction(db):  # from now on it is this session's
                pass

    @property
    def saved(self) -> bool:
        """True if a session can come back from it. Raises Damaged."""
        with reading(self.name):
            query = "select 1 from facts where id = 'session'"
            return self._db.execute(query).fetchone() is not None

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

    # -- reading -----------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """The cells it has records of, ascending.  Raises Damaged."""
        with reading(self.name):
            return [n for (n,) in self._db.execute("select number from records order by number")]

    def rows(self, numbers: Iterable[int]) -> Iterator[Row]:
        """The records of some cells, with their checksums."""
        for number in numbers:
            query = "select * from records where number = ?"
            row = self._db.execute(query, (number,)).fetchone()
            if row is not None:
                yield row

    def read(self, number: int, columns: str, made: Callable[[Row], T]) -> T | None:
        """Read columns of a cell's record; None where there is none.  Raises Damaged."""
        try:
            query = f"select {columns} from records where number = ?"
            row = self._db.execute(query, (number,)).fetchone()
            return None if row is None else made(row)
        except (*UNREADABLE, ValueError, TypeError, RecursionError) as error:
            words = f"what {self.name} has of cell {number} cannot be read: {error}"
            raise Damaged(words) from None

    def texts(self) -> list[Row]:
        """The rows of what cells have asked, with their checksums.  Raises Damaged."""
        with reading(self.name):
            return self._db.execute("select * from texts").fetchall()

    # -- writing -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Go on with the transaction, or begin one."""
        if not self._db.in_transaction:
            self._log_size = os.path.getsize(self._log) if os.path.exists(self._log) else 0
            self._db.execute("begin immediate")

    def commit(self) -> None:
        """From now on the file has all that was written since the last time."""
        self._db.execute("commit")

    def rollback(self) -> None:
        """The file stays as it was committed."""
        if self._db.in_transaction:
            self._db.execute("rollback")
        with contextlib.suppress(OSError):
            # On a full disk, what was not committed would go on taking up the room in the log.
            if os.path.getsize(self._log) > self._log_size:
                os.truncate(self._log, self._log_size)

    def write(self, changes: Mapping[str, Mapping[int, Row | None]]) -> None:
        """Write rows by table and key (None: dropped) in the transaction that is open, all of them
        or nothing."""
        try:
            self._db.execute("savepoint collected")
            for table, rows in changes.items():
                self.tables.put(table, [row for row in rows.values() if row is not None])
                self.tables.drop(table, [key for key, row in rows.items() if row is None])
            self._db.execute("release collected")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("rollback to collected")
                self._db.execute("release collected")
            raise

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
        with scratch_folder() as folder:
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
