"""A session and its file: what is in it when the session begins, and what is written after each
cell.  Start from `Keeper`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitkernel.linker.journal import Journal
from jitkernel.session.saved.rebuilding import recompile
from jitkernel.session.saved.restoring import (
    Rows,
    header,
    restore,
    same_machine,
)
from jitkernel.session.saved.rows import SymbolNumbers
from jitkernel.session.saved.tables import PARTS
from jitkernel.session.saved.writing import SETTINGS, Writer
from jitkernel.session.uncollected import without_collections

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["Keeper"]


class Keeper:
    """What a session's store has of it; made before the session's engine is.

    A store that holds a session decides its base and its capacity, and the settings of `SETTINGS`
    that `chosen` does not name.  Raises Damaged where the store is not as it was written.
    """

    def __init__(self, session: Core, chosen: frozenset[str] = frozenset()):
        self._session = session
        self._rows: Rows | None = None
        self._head: dict[str, Any] = {}
        self._numbers = SymbolNumbers()
        self._writer: Writer | None = None
        self._journal = Journal()
        self._ready = False  # the session has all that the file has
        self._whole = True  # the file lacks something that the journal does not have
        store = session.store
        rows: Rows = {}
        if store.durable or store.saved:
            with without_collections():
                rows = store.tables.prove(store.name)
        if any(key == "session" for key, _, _ in rows.get("facts", ())):
            self._rows = rows
            self._head = header(rows, store.name)
            kept: dict[str, Any] = self._head["settings"]
            wanted = {"base", "capacity", *SETTINGS} - (chosen - {"base", "capacity"})
            new = {name: kept[name] for name in wanted if name in kept}
            session.settings = replace(session.settings, **new)

    def bring_back(self) -> None:
        """Fill the session, whose engine is ready now, from its store."""
        session, rows = self._session, self._rows
        program, store = session.program, session.store
        keeps = store.durable and session.settings.autosave
        if keeps:
            program.linker.bind.journal = self._journal
            store.commits_often = True
        if rows is None:
            self._ready = True
            return
        self._rows = None
        restored = session.restored = restore(session, rows, store.name, self._numbers)
        if keeps:
            self._go_on(rows)
        elif not store.durable:
            store.clear_state()
        for number in store.numbers():
            if number not in program.cells:
                store.drop(number)  # it was kept for an undo
        if not same_machine(session, self._head):
            recompile(session, self._head, restored)
        self._ready = True

    def _go_on(self, rows: Rows) -> None:
        """Know what the file has, so that only what changes from now on is written."""
        writer = self._writer = Writer(self._session, self._session.store.tables)
        writer.numbers = self._numbers
        for key, _, content in rows["pages"]:
            writer.pages.note(int(key), content)
        writer.facts = {str(key): body for key, body, _ in rows["facts"] if key != "saved"}
        self._whole = False

    def keep(self) -> None:
        """Write what changed, where the session saves after each cell; a failure is told once."""
        session = self._session
        if self._ready and session.settings.autosave and session.store.durable:
            self._write()

    def close(self) -> None:
        """Write the session's file a last time, where it has one."""
        session = self._session
        if self._ready and session.store.durable and not session.engine.closed:
            with session.lock:
                self._write()

    def _write(self) -> None:
        session = self._session
        store = session.store
        try:
            store.begin()
            if self._writer is None or self._whole:
                self._write_whole()
            else:
                self._writer.changes(self._journal)
            store.commit()
            self._whole = not session.settings.autosave
        except (sqlite3.Error, OSError) as error:
            store.rollback()
            if not self._whole:
                session.engine.notices.append(
                    f"the session was not saved: {store.name}: {error}; "
                    "%save writes to another file"
                )
            self._whole = True
        except BaseException:  # the journal is empty, and the file does not have what was in it
            store.rollback()
            self._whole = True
            raise

    def _write_whole(self) -> None:
        """The journal does not tell all that the file lacks."""
        tables = self._session.store.tables
        tables.clear(PARTS)
        self._journal.take()
        self._writer = Writer(self._session, tables)
        self._writer.everything()
