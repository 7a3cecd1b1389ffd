"""The history of cells, kept between kernels in one SQLite file of Jupyter's data directory.

Answers the three kinds of `history_request`: tail, range and search.  Where the file cannot be
opened the history lives in memory.  Start from `History`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path

from jitkernel.errors import UsageError
from jitkernel.files import create_private, private_folder

# (session, line, source) or, when outputs are asked for, (session, line, (source, output))
Entry = tuple[int, int, str | tuple[str, str | None]]

_SCHEMA = """
create table if not exists sessions (session integer primary key autoincrement, started text);
create table if not exists entries (
    session integer not null, line integer not null, source text not null, output text,
    primary key (session, line));
"""
_TRIM_EVERY = 100
_MOST = (1 << 63) - 1  # the greatest integer of SQLite


class History:
    """Sources and results by session and line.  Opened on first use; thread-safe."""

    def __init__(self, path: Path | None, length: int = 10_000) -> None:
        self._path = path
        self._length = length
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._session = 0
        self._stored = 0

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = self._prepare(self._private_file())
            except (OSError, sqlite3.Error, UsageError):  # read-only home or a damaged file
                self._database = self._prepare(":memory:")
        return self._database

    def _private_file(self) -> str:
        if self._path is None:
            return ":memory:"
        private_folder(str(self._path.parent))
        create_private(str(self._path))
        return str(self._path)

    def _prepare(self, name: str) -> sqlite3.Connection:
        database = sqlite3.connect(name, timeout=2, isolation_level=None, check_same_thread=False)
        # A lost line of history after a power cut is no harm; waiting for the disk in a cell is.
        database.execute("pragma synchronous = off")
        database.execute("pragma cache_size = -256")  # KB; its own default is 2 MB, filled slowly
        database.executescript(_SCHEMA)
        cursor = database.execute("insert into sessions (started) values (datetime('now'))")
        self._session = int(cursor.lastrowid or 1)
        self._trim(database)
        return database

    def _trim(self, database: sqlite3.Connection) -> None:
        database.execute(
            "delete from entries where rowid not in"
            " (select rowid from entries order by session desc, line desc limit ?)",
            (self._length,),
        )

    def store(self, line: int, source: str, output: str | None = None) -> None:
        """Remember cell `line` of this session."""
        if self._length <= 0:
            return
        # Where another process holds the file a missing line of history is no error.
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._open().execute(
                "insert or replace into entries values (?, ?, ?, ?)",
                (self._session, line, source, output),
            )
            self._stored += 1
            if self._stored % _TRIM_EVERY == 0:
                self._trim(self._open())

    def tail(self, count: int, output: bool = False) -> list[Entry]:
        """The last `count` entries of all sessions, oldest first."""
        rows = self._select("order by session desc, line desc limit ?", (max(count, 0),), output)
        return rows[::-1]

    def range(
        self, session: int = 0, start: int = 0, stop: int | None = None, output: bool = False
    ) -> list[Entry]:
        """Lines `start` to `stop` (not included) of a session; 0 is this one, -1 the last."""
        with self._lock:
            self._open()
        if session <= 0:
            session += self._session
        lines = (start, _MOST if stop is None else stop)
        where = "where session = ? and line >= ? and line < ? order by line"
        return self._select(where, (session, *lines), output)

    def search(
        self, pattern: str, count: int | None = None, unique: bool = False, output: bool = False
    ) -> list[Entry]:
        """Entries whose source matches a glob (`*`, `?`, `[...]`), oldest first."""
        clause = "where source glob ?"
        if unique:
            clause += " group by source having max(session * 1000000 + line)"
        most = _MOST if count is None else max(count, 0)
        clause += " order by session desc, line desc limit ?"
        return self._select(clause, (pattern, most), output)[::-1]

    def _select(self, clause: str, values: tuple[object, ...], output: bool) -> list[Entry]:
        with self._lock:
            try:
                found = self._open().execute(
                    f"select session, line, source, output from entries {clause}", values
                )
                rows = found.fetchall()
            except sqlite3.Error:
                return []
        if output:
            return [(s, line, (source, shown)) for s, line, source, shown in rows]
        return [(s, line, source) for s, line, source, _ in rows]

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
