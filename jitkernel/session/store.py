"""The session's file on disk: what each cell was made from.  Start from `Store`.

Sources and objects leave memory when a cell is placed; they are read back for views, for undo and
for linking a cell again.  Writes are collected and go out together, outside the path that a cell's
latency is measured on.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import zlib
from typing import NamedTuple

from jitkernel.errors import UsageError

__all__ = ["Record", "Store"]

SCHEMA = 1
_BATCH = 256
_BATCH_BYTES = 4 << 20


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


class Store:
    """Records by cell number, in SQLite; `path` empty: a temporary file that leaves with it."""

    def __init__(self, path: str = ""):
        self._temporary = ""
        if not path:
            fd, path = tempfile.mkstemp(prefix="jitkernel-", suffix=".jks")
            os.close(fd)
            self._temporary = path
        self.path = path
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise UsageError(f"the session's file {path} cannot be opened: {error}") from None
        if self._temporary:
            # The open file serves us; its name would stay behind after a kill.
            self._db.execute("pragma journal_mode = off")
            self._db.execute("pragma synchronous = off")
            self._db.execute("pragma locking_mode = exclusive")
        self._db.execute("pragma cache_size = -512")
        self._db.execute(f"pragma user_version = {SCHEMA}")
        self._db.execute(
            "create table if not exists cells (number integer primary key, source text,"
            " module text, first_line integer, options text, object blob, nobuiltin text)"
        )
        if self._temporary:
            os.unlink(path)
        self._pending: dict[int, Record | None] = {}
        self._bytes = 0

    def put(self, record: Record) -> None:
        """Keep a record."""
        self._pending[record.number] = record
        self._bytes += len(record.object) + len(record.module)
        if len(self._pending) >= _BATCH or self._bytes > _BATCH_BYTES:
            self.flush()

    def get(self, number: int) -> Record | None:
        """The record of a cell, or None."""
        if number in self._pending:
            return self._pending[number]
        row = self._db.execute("select * from cells where number = ?", (number,)).fetchone()
        if row is None:
            return None
        source, module = zlib.decompress(row[1]).decode(), zlib.decompress(row[2]).decode()
        names = tuple(row[6].split("\0")) if row[6] else ()
        return Record(
            row[0], source, module or source, row[3], row[4], zlib.decompress(row[5]), names
        )

    def object(self, number: int) -> bytes | None:
        """The object alone of a cell, or None."""
        if number in self._pending:
            record = self._pending[number]
            return None if record is None else record.object
        row = self._db.execute("select object from cells where number = ?", (number,)).fetchone()
        return None if row is None else zlib.decompress(row[0])

    def drop(self, number: int) -> None:
        """Forget a record."""
        record = self._pending.get(number)
        if record is not None:
            self._bytes -= len(record.object) + len(record.module)
        self._pending[number] = None
        if len(self._pending) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        pending, self._pending, self._bytes = self._pending, {}, 0
        if not pending:
            return
        pack = zlib.compress
        self._db.execute("begin")
        self._db.executemany(
            "insert or replace into cells values (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    r.number,
                    pack(r.source.encode("utf-8", "surrogateescape"), 1),
                    pack(
                        b""
                        if r.module == r.source
                        else r.module.encode("utf-8", "surrogateescape"),
                        1,
                    ),
                    r.first_line,
                    r.options,
                    pack(r.object, 1),
                    "\0".join(r.nobuiltin),
                )
                for r in pending.values()
                if r is not None
            ],
        )
        self._db.executemany(
            "delete from cells where number = ?", [(n,) for n, r in pending.items() if r is None]
        )
        self._db.execute("commit")

    def close(self) -> None:
        """Write and close."""
        if not self._temporary:
            self.flush()
        self._db.close()
