"""The tables of a session's file, and how its rows are proved.  Start from `Tables`.

SQLite proves its own books; every row carries a checksum of its table, its key and its content, so
that a flipped bit shows as well.  This is against damage, not against forgery: a session's file is
a program, with machine code, pointers and constructors that have run.  Who wrote it decides what
its functions do when they are called, what its destructors do when a cell goes, and what the words
are that globals begin with.  Bringing it back runs none of that; only the libraries that it names
would run code when they are loaded, so they are not, unless the user trusts the file
(`restoring.py`).

| table | a row is |
| --- | --- |
| records | a cell's source, the text that was compiled, its options and its object |
| cells | a live cell: its image, its code, its sites |
| symbols | a name: type, definition, canonical entry, slots |
| pages | 4096 bytes of constants or globals, zeros at the end left out |
| results | a value that `_5` names |
| texts | what a cell has asked |
| facts | all else: settings, named types, declarations |
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jitkernel.errors import Damaged, Unopened, UsageError
from jitkernel.files import refuse_irregular

SCHEMA = 6
WAIT = 1.0  # seconds for a session that has the file, and may be about to end
#: `JKS` and a 1: what SQLite's header says of whose file it is.
APPLICATION = 0x4A4B_5331

#: The tables whose rows are `(id, body, bytes, checksum)`.
PARTS = ("cells", "symbols", "pages", "results", "facts", "texts")
_PART = {"id": int, "body": str, "bytes": bytes}
#: The columns of each table, its key first; behind them is the checksum.
_COLUMNS: dict[str, dict[str, type]] = {
    "records": {
        "number": int, "source": bytes, "module": bytes, "first_line": int, "options": str,
        "object": bytes, "nobuiltin": str,
    },
    **dict.fromkeys(PARTS, _PART), "facts": _PART | {"id": str},
}  # fmt: skip
_KEY = {table: next(iter(columns)) for table, columns in _COLUMNS.items()}
_TYPES = {table: (*columns.values(), bytes) for table, columns in _COLUMNS.items()}
#: SQLite's storage classes.
_SQL = {int: "integer", str: "text", bytes: "blob"}

Key = int | str
Row = tuple[Any, ...]  # its key first, its checksum last, or not there yet
Part = tuple[Key, str, bytes]  # a row of one of `PARTS`, without its checksum
Parts = dict[str, list[Part]]  # by table


def before(path: str) -> str:
    """The name of the whole file that was there before a session's file: it is kept beside it."""
    return f"{path}~"


@contextlib.contextmanager
def naming_before(path: str) -> Iterator[None]:
    """Name the file before it where a session's file is Damaged."""
    try:
        yield
    except Damaged as error:
        if os.path.exists(before(path)):
            words = f"{error}; the whole file before it is {before(path)}"
            raise Damaged(words) from None
        raise


#: What SQLite puts behind a file's name for files of its own.
BESIDE = ("-wal", "-shm", "-journal")
#: What SQLite raises for a file that is damaged: its words may be no text any more.
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)


def checksums(table: str, rows: Iterable[Row]) -> Iterator[bytes]:
    """For each row sixteen bytes that any change of it, of its key or of its table changes."""
    from hashlib import blake2b  # it loads OpenSSL

    words = (f"\0{kind.__name__[0]}%d %b".encode() for kind in _TYPES[table][1:-1])
    form = b"%b" + b"".join(words)
    for key, *fields in rows:
        pieces: list[bytes | int] = [f"{table} {key}".encode()]
        for field in fields:
            data = field if type(field) is bytes else str(field).encode("utf-8", "surrogatepass")
            pieces += (len(data), data)
        yield blake2b(form % tuple(pieces), digest_size=16).digest()


def is_whole(table: str, row: Row) -> bool:
    """True if a row is as it was written."""
    types = _TYPES[table]
    return (*map(type, row),) == types and next(checksums(table, [row[:-1]])) == row[-1]


def _statement(table: str) -> str:
    """The statement that makes a table, as SQLite keeps it."""
    key, *others = [f"{name} {_SQL[kind]}" for name, kind in _COLUMNS[table].items()]
    words = ", ".join((f"{key} primary key", *others, "checksum blob"))
    return f"CREATE TABLE {table} ({words})" + " without rowid" * (table == "facts")


def create(db: sqlite3.Connection) -> None:
    """Make the tables of an empty file."""
    for table in _COLUMNS:
        db.execute(_statement(table))
    db.execute(f"pragma user_version = {SCHEMA}")
    db.execute(f"pragma application_id = {APPLICATION}")


def refuse_schema(db: sqlite3.Connection, path: str) -> None:
    """Raise UsageError for tables that are no session's, or that another version made."""
    with reading(path):
        version = db.execute("pragma user_version").fetchone()[0]
        found = dict(db.execute("select name, sql from sqlite_master where sql is not null"))
    if version > SCHEMA:
        raise UsageError(
            f"{path} was written by a newer jitkernel: schema {version}, this one knows {SCHEMA}"
        )
    if 0 < version < SCHEMA:
        raise UsageError(
            f"{path} was written by an earlier jitkernel: schema {version}, this one knows "
            f"{SCHEMA}; rebuild=True (%restore --rebuild) compiles its sources anew"
        )
    if version != SCHEMA or found != {table: _statement(table) for table in _COLUMNS}:
        raise Damaged(f"{path} is not a session's file")


def identify(db: sqlite3.Connection, path: str) -> None:
    """Raise UsageError unless a file is a session's, as far as its header tells."""
    with reading(path):
        who = db.execute("pragma application_id").fetchone()[0]
    if who != APPLICATION:
        raise Damaged(f"{path} is not a session's file")


#: What is wrong with the disk or the folder, not with the file.
_OUTSIDE = ("unable to open", "disk I/O error", "full", "readonly")


def refusal(path: str, error: Exception) -> UsageError:
    """The error for what SQLite says."""
    if "locked" in str(error):
        return UsageError(
            f"{path} is in use by another session, which saves to it; there, %save writes a copy"
        )
    if isinstance(error, sqlite3.OperationalError) and any(w in str(error) for w in _OUTSIDE):
        return Unopened(f"{path} cannot be opened: {error}")
    words = str(error).splitlines()[0]
    return Damaged(f"{path} is not a session's file, or is damaged: {words}")


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise Damaged for what SQLite says of a damaged file."""
    try:
        yield
    except UNREADABLE as error:
        raise refusal(path, error) from None


class Tables:
    """Rows of one file; what writes them is inside a transaction."""

    def __init__(self, db: sqlite3.Connection):
        self.db = db

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Write rows of a table, with their checksums."""
        rows = list(rows)
        self.copy(
            table, [(*row, sum) for row, sum in zip(rows, checksums(table, rows), strict=True)]
        )

    def copy(self, table: str, found: Sequence[Row]) -> None:
        """Write rows of a table that have their checksums."""
        if found:
            marks = ", ".join("?" * len(found[0]))
            self.db.executemany(f"insert or replace into {table} values ({marks})", found)

    def drop(self, table: str, keys: Iterable[Key]) -> None:
        """Delete rows, those that are there."""
        query = f"delete from {table} where {_KEY[table]} = ?"
        self.db.executemany(query, [(key,) for key in keys])

    def clear(self) -> None:
        """Delete all rows of `PARTS` but the texts of cells."""
        for table in PARTS[:-1]:
            self.db.execute(f"delete from {table}")

    def prove(self, path: str) -> Parts:
        """The rows of `PARTS`, by table; raises Damaged where any row of the file is not as it was
        written."""
        found: Parts = {}
        with reading(path):
            # The checksums prove rows; this proves that a row is found where it is looked for.
            state = self.db.execute("pragma quick_check(1)").fetchone()
            if state != ("ok",):
                what = str(state and state[0]).splitlines()[-1]
                raise Damaged(f"{path} is damaged: {what}")
            for table, types in _TYPES.items():
                rows = self.db.execute(f"select * from {table}").fetchall()
                sums = checksums(table, (row[:-1] for row in rows))
                for row, sum in zip(rows, sums, strict=True):
                    if sum != row[-1] or (*map(type, row),) != types:
                        raise Damaged(f"{path} is damaged: {table}, row {row[0]}")
                found[table] = [row[:3] for row in rows]
        return found


def refuse_odd(path: str) -> None:
    """Raise UsageError where a session's file, or what SQLite keeps beside it, is no plain file."""
    for suffix in ("", *BESIDE):
        refuse_irregular(path + suffix)


def connect(path: str) -> sqlite3.Connection:
    """Open a file of ours.  Raises UsageError where there is none, or another has it."""
    refuse_odd(path)
    try:
        if os.path.getsize(path) == 0:
            raise Damaged(f"{path} is empty")
        uri = f"file:{path.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode=rw"
        db = sqlite3.connect(uri, WAIT, uri=True, check_same_thread=False, isolation_level=None)
        db.execute("pragma trusted_schema = off")
        db.execute("pragma cell_size_check = on")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UNREADABLE as error:
        raise refusal(path, error) from None
    return db
