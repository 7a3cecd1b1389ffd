"""Transactions of SQLite's that are over when their block is.  Start from `Transaction`."""

from __future__ import annotations

import contextlib
import sqlite3


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
