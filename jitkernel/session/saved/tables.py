"""The tables of a session's file, and how its rows are proved.  Start from `Tables`.

Every row carries a checksum of its table, its key and its content.  The one row of `seal` has, for
each table, how many rows there are and the sum of their checksums: so that a row that was lost,
doubled or put back from yesterday shows as well as a flipped bit, and a change of one row costs
no more than that row.  This is against damage, not against forgery: a session's file is a program,
with machine code, pointers and constructors that have run.  Who wrote it decides what its functions
do when they are called, what its destructors do when a cell goes, and what the words are that
globals begin with.  Bringing it back runs none of that; only the libraries that it names would run
code when they are loaded, so they are not, unless the user trusts the file (`restoring.py`).

| table | a row is |
| --- | --- |
| records | a cell's source, the text that was compiled, its options and its object |
| cells | a live cell: its image, its code, its sites |
| symbols | a name: type, definition, canonical entry, slots |
| pages | 4096 bytes of constants or globals, zeros at the end left out |
| results | a value that `_5` names |
| facts | all else: settings, named types, declarations, the text of cells |
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from jitkernel.errors import UsageError
from jitkernel.files import refuse_irregular

__all__ = [
    "APPLICATION",
    "BESIDE",
    "PARTS",
    "SCHEMA",
    "TEXT",
    "UNREADABLE",
    "WAIT",
    "Damaged",
    "Tables",
    "Unopened",
    "checksum",
    "connect",
    "create",
    "identify",
    "is_text",
    "reading",
    "refusal",
    "refuse_odd",
    "refuse_schema",
    "Transaction",
]

SCHEMA = 3
WAIT = 1.0  # seconds for a session that has the file, and may be about to end
#: `JKS` and a 1: what SQLite's header says of whose file it is.
APPLICATION = 0x4A4B_5331

_PART = "CREATE TABLE {} (id integer primary key, body text, bytes blob, checksum blob)"
_LAYOUT = {
    "records": "CREATE TABLE records (number integer primary key, source blob, module blob,"
    " first_line integer, options text, object blob, nobuiltin text, checksum blob)",
    **{name: _PART.format(name) for name in ("cells", "symbols", "pages", "results")},
    "facts": "CREATE TABLE facts (id text primary key, body text, bytes blob, checksum blob)"
    " without rowid",
    "seal": "CREATE TABLE seal (id integer primary key, body text, checksum blob)",
}
#: The tables whose rows are `(id, body, bytes, checksum)`.
PARTS = ("cells", "symbols", "pages", "results", "facts")
_SEALED = ("records", *PARTS)
#: What the columns of each are, by SQLite's storage classes.
_TYPES = {
    "records": (int, bytes, bytes, int, str, bytes, str, bytes),
    **dict.fromkeys(PARTS, (int, str, bytes, bytes)),
    "facts": (str, str, bytes, bytes),
}
_KEY = {name: "number" if name == "records" else "id" for name in _SEALED}
_MODULO = 1 << 128

Key = int | str
Row = tuple[Any, ...]  # its key first, its checksum last, or not there yet

#: What the keys of facts begin with that are texts of cells: see `texts`.
TEXT = "text "


def is_text(key: Key) -> bool:
    """Whether a fact is the text of a cell."""
    return isinstance(key, str) and key.startswith(TEXT)


#: What SQLite puts behind a file's name for files of its own.
BESIDE = ("-wal", "-shm", "-journal")
#: What SQLite raises for a file that is damaged: its words may be no text any more.
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)


class Damaged(UsageError):
    """A file that is not what was written."""


class Unopened(UsageError):
    """A file that the system does not let us open: its folder is full, say, or another's."""


def checksum(table: str, key: Key, *fields: str | bytes | int) -> bytes:
    """Sixteen bytes that any change of a row, of its key or of its table changes."""
    pieces = [f"{table} {key}".encode()]
    for field in fields:
        data = field if isinstance(field, bytes) else str(field).encode("utf-8", "surrogatepass")
        kind = b"b" if data is field else b"s" if isinstance(field, str) else b"i"
        pieces += (b"\0%s%d " % (kind, len(data)), data)
    from hashlib import blake2b  # it loads OpenSSL

    return blake2b(b"".join(pieces), digest_size=16).digest()


def create(db: sqlite3.Connection) -> None:
    """Make the tables of an empty file."""
    for statement in _LAYOUT.values():
        db.execute(statement)
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
            f"{SCHEMA}; %restore --rebuild compiles its sources anew"
        )
    if version != SCHEMA or found != _LAYOUT:
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
    """What is said for what SQLite says."""
    if "locked" in str(error):
        return UsageError(
            f"{path} is in use by another session, which saves to it; there, %save writes a copy"
        )
    if isinstance(error, sqlite3.OperationalError) and any(w in str(error) for w in _OUTSIDE):
        return Unopened(f"{path} cannot be opened: {error}")
    return Damaged(f"{path} is not a session's file, or is damaged: {error}")


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """What SQLite says of a file that is damaged, as Damaged."""
    try:
        yield
    except UNREADABLE as error:
        raise refusal(path, error) from None


class Transaction:
    """All or nothing.  What an earlier one left open that was torn out of its end is nothing."""

    __slots__ = ("_db",)

    def __init__(self, db: sqlite3.Connection):
        self._db = db

    def __enter__(self) -> None:
        if self._db.in_transaction:
            self._db.execute("rollback")
        self._db.execute("begin immediate")

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            if kind is None:
                self._db.execute("commit")
        finally:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # some failures end it themselves
                    self._db.execute("rollback")


class Tables:
    """Rows of one file, and the sums that seal them."""

    def __init__(self, db: sqlite3.Connection):
        self.db = db
        #: by table: how many rows there are, and the sum of their checksums
        self.sums = dict.fromkeys(_SEALED, (0, 0))

    # -- writing, inside a transaction -----------------------------------------------------------

    def put(self, table: str, rows: Iterable[Row], fresh: bool = False) -> None:
        """Write rows of a table, with their checksums; `fresh`: none of the keys is there."""
        found = [(*row, checksum(table, *row)) for row in rows]
        if not fresh:
            self._subtract(table, [row[0] for row in found])
        self._insert(table, found)

    def copy(self, table: str, rows: Iterable[Row]) -> None:
        """Write rows of another file's table, checksums and all, where none is."""
        self._insert(table, list(rows))

    def _insert(self, table: str, rows: list[Row]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self.db.executemany(f"insert or replace into {table} values ({marks})", rows)
            self._add(table, [row[-1] for row in rows])

    def drop(self, table: str, keys: Iterable[Key]) -> None:
        """Delete rows, those that are there."""
        found = list(keys)
        self._subtract(table, found)
        key = _KEY[table]
        self.db.executemany(f"delete from {table} where {key} = ?", [(k,) for k in found])

    def clear(self) -> None:
        """Delete all rows of `PARTS` but the texts of cells."""
        for table in PARTS:
            if table != "facts":
                self.db.execute(f"delete from {table}")
                self.sums[table] = 0, 0
        keys = [key for (key,) in self.db.execute("select id from facts")]
        self.drop("facts", [key for key in keys if not is_text(key)])

    def seal(self) -> None:
        """Write the counts and sums: the last thing before a transaction ends."""
        body = json.dumps({t: [count, f"{total:032x}"] for t, (count, total) in self.sums.items()})
        check = checksum("seal", 1, body)
        self.db.execute("insert or replace into seal values (1, ?, ?)", (body, check))

    def _add(self, table: str, checksums: list[bytes]) -> None:
        count, total = self.sums[table]
        total += sum(int.from_bytes(c, "little") for c in checksums)
        self.sums[table] = count + len(checksums), total % _MODULO

    def _subtract(self, table: str, keys: Iterable[Key]) -> None:
        query = f"select checksum from {table} where {_KEY[table]} = ?"
        count, total = self.sums[table]
        for key in keys:
            if (row := self.db.execute(query, (key,)).fetchone()) is not None:
                count, total = count - 1, total - int.from_bytes(row[0], "little")
        self.sums[table] = count, total % _MODULO

    # -- proving ---------------------------------------------------------------------------------

    def prove(self, path: str) -> dict[str, list[tuple[Key, str, bytes]]]:
        """The rows of `PARTS`, by table; raises Damaged where any row of the file is not as it was
        written.  Remembers the sums, so that what is written next is sealed rightly."""
        found: dict[str, list[tuple[Key, str, bytes]]] = {}
        try:
            # The checksums prove rows; this proves that a row is found where it is looked for.
            state = self.db.execute("pragma quick_check(1)").fetchone()
            if state != ("ok",):
                what = str(state and state[0]).splitlines()[-1]
                raise Damaged(f"{path} is damaged: {what}")
            seal = self.db.execute("select body, checksum from seal where id = 1").fetchone()
            if seal is None or checksum("seal", 1, seal[0]) != seal[1]:
                raise Damaged(f"{path} is damaged: its seal is broken")
            wanted = {t: (n, int(s, 16)) for t, (n, s) in json.loads(seal[0]).items()}
            for table in _SEALED:
                rows = self.db.execute(f"select * from {table}").fetchall()
                self.sums[table] = 0, 0
                for row in rows:
                    if tuple(map(type, row)) != _TYPES[table]:
                        raise Damaged(f"{path} is damaged: {table}, row {row[0]}")
                    if checksum(table, row[0], *row[1:-1]) != row[-1]:
                        raise Damaged(f"{path} is damaged: {table}, row {row[0]}")
                self._add(table, [row[-1] for row in rows])
                if self.sums[table] != wanted[table]:
                    raise Damaged(f"{path} is damaged: rows of {table} are missing or old")
                if table != "records":
                    found[table] = [row[:3] for row in rows]
        except UNREADABLE as error:
            raise refusal(path, error) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(f"{path} is damaged: {error}") from None
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
