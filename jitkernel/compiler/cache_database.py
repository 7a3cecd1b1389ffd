"""Named byte strings in a SQLite file, bounded in size, shared by processes.

Start from `CacheDatabase`.  What cannot be read any more is made anew, empty: a cache has nothing
that is not made again.  Each entry carries a checksum of its name and content, so that one that was
damaged is dropped when it is met.  The least recently used entries go first.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TypeVar

from jitkernel.errors import UsageError
from jitkernel.files import create_private, private_folder, refuse_irregular
from jitkernel.sqlite_transaction import Transaction

_WAIT = 1.0  # seconds for another process that is writing
_PAGE = 4096
_TABLE = "create table if not exists entries (name text primary key, used real, content blob)"
_OLDEST = "delete from entries where rowid in (select rowid from entries order by used limit ?)"
_SUM = 32

T = TypeVar("T")


def cache_home() -> str:
    """The user's folder for caches; "" where there is none.

    Source: XDG Base Directory Specification: a relative XDG_CACHE_HOME is to be ignored.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "jitkernel") if os.path.isabs(home) else ""


class CacheDatabase:
    """Entries in a file in `folder`, at most `size` bytes; one entry may take a sixteenth of it.

    Raises OSError where the folder cannot be had; every other method takes what the system or
    SQLite refuse for "not there".  Safe to use from several threads and processes.
    """

    def __init__(self, folder: str, size: int):
        self.folder, self.limit, self.damaged = folder, size, 0
        self._path = os.path.join(folder, "objects.db")
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        private_folder(folder)
        status = os.stat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(f"{folder}: others can write there, and code is read from it")

    def read(self, name: str) -> bytes | None:
        """An entry's bytes, or None.  One that is damaged is removed."""

        def find(db: sqlite3.Connection) -> bytes | None:
            row = db.execute("select content from entries where name = ?", (name,)).fetchone()
            if row is None:
                return None
            content = row[0] if isinstance(row[0], bytes) else b""
            if content[:_SUM] == _sum(name, content[_SUM:]):
                return content[_SUM:]
            self.damaged += 1
            db.execute("delete from entries where name = ?", (name,))
            return None

        return self._do(find, None)

    def write(self, entries: Mapping[str, bytes], used: Iterable[str] = ()) -> int:
        """Keep entries, and note which were `used` now; the number of those written."""
        now = time.time()
        fit = {n: c for n, c in entries.items() if len(c) <= self.limit // 16}
        touched = [(now, name) for name in used]

        def keep(db: sqlite3.Connection) -> int:
            with Transaction(db):
                db.executemany("update entries set used = ? where name = ?", touched)
                self._make_room(db, sum(len(content) + _PAGE for content in fit.values()))
                db.executemany(
                    "insert or replace into entries values (?, ?, ?)",
                    [(name, now, _sum(name, content) + content) for name, content in fit.items()],
                )
            return len(fit)

        return self._do(keep, 0, make=True) if fit or touched else 0

    def usage(self) -> tuple[int, int]:
        """The number of entries, and the bytes that they take on the disk."""
        return self._do(lambda db: (_many(db), _taken(db)), (0, 0))

    def close(self) -> None:
        """Close the file, until it is asked for again."""
        with self._lock:
            self._forget()

    def _make_room(self, db: sqlite3.Connection, needed: int) -> None:
        """Remove what was used least recently where `needed` bytes do not fit beside SQLite's
        journal: to three quarters, so that this is rare."""
        if _taken(db) + needed <= self.limit * 7 // 8:
            return
        while _taken(db) + needed > self.limit * 3 // 4 and (many := _many(db)):
            db.execute(_OLDEST, (-(-many // 16),))

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T, make: bool = False) -> T:
        """The result of `work`; `otherwise` where the file cannot be had, or is not there and not
        to be made.  A damaged one is removed."""
        with self._lock:
            try:
                if not os.path.exists(self._path):  # somebody has emptied the cache
                    self._forget()
                    if not make:
                        return otherwise
                self._db = self._db or self._open()
                return work(self._db)
            except (sqlite3.OperationalError, OSError):  # in use, no room, no folder
                return otherwise
            except (sqlite3.Error, UnicodeDecodeError, UsageError):
                self.damaged += 1
                self._forget()
                for suffix in ("", "-journal"):
                    with contextlib.suppress(OSError):
                        os.unlink(self._path + suffix)
                return otherwise

    def _forget(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        if refuse_irregular(self._path) is None:  # to open and close it would end SQLite's locks
            private_folder(self.folder)
            create_private(self._path)
        db = sqlite3.connect(self._path, _WAIT, check_same_thread=False, isolation_level=None)
        try:
            # What is lost with the power is made again: nothing waits for the disk.
            for setting in (
                "synchronous = off", f"page_size = {_PAGE}", "auto_vacuum = full",
                "journal_mode = truncate", f"journal_size_limit = {_PAGE}", "trusted_schema = off",
            ):  # fmt: skip
                db.execute(f"pragma {setting}")
            db.execute(_TABLE)
        except BaseException:
            db.close()
            raise
        return db


def _many(db: sqlite3.Connection) -> int:
    return int(db.execute("select count(*) from entries").fetchone()[0])


def _taken(db: sqlite3.Connection) -> int:
    """Bytes of a file that are in use."""
    pages, free = (db.execute(f"pragma {n}_count").fetchone()[0] for n in ("page", "freelist"))
    return int(pages - free) * _PAGE


def _sum(name: str, content: bytes) -> bytes:
    """The checksum of an entry: content under another name is damage too."""
    digest = sha256(name.encode())
    digest.update(content)
    return digest.digest()
