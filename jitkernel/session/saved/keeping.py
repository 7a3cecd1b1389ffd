"""A session and its file: what is in it when the session begins, and what is written after each
cell.  Start from `SessionFile`; `open_copy` makes a new session from a file that is only read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import warnings
from typing import TYPE_CHECKING, Any

from jitkernel.collecting import without_collections
from jitkernel.compiler.worker_process import WorkerProcess, close_first, first_worker
from jitkernel.errors import Damaged, JitError, UsageError, present
from jitkernel.files import scratch_folder
from jitkernel.record import replace
from jitkernel.session.saved.file import copied
from jitkernel.session.saved.rows import numbering
from jitkernel.session.saved.store import Store
from jitkernel.session.saved.tables import (
    UNREADABLE,
    Parts,
    Tables,
    before,
    connect,
    naming_before,
)
from jitkernel.session.saved.writing import HEAD, Unsaved, Writer, write_file
from jitkernel.session.settings import saved_settings

if TYPE_CHECKING:
    from jitkernel.linker import Symbol
    from jitkernel.session.core import Core
    from jitkernel.session.session import Session


class SessionFile:
    """The store's side of a session; made before the session's engine is.

    A store that holds a session decides its `saved_settings`, but for those that `chosen` names.
    Raises Damaged where the store is not as it was written.
    """

    def __init__(self, session: Core, chosen: frozenset[str] = frozenset()):
        self._session = session
        self._rows: Parts | None = None
        self._head: dict[str, Any] = {}
        self._numbers: dict[Symbol, int] = {}
        self._writer: Writer | None = None
        self._unsaved: Unsaved | None = None
        self._ready = False  # the session has all that the file has
        self._whole = True  # the file lacks something that `_unsaved` does not have
        self._failed = False  # the last time that it was to be written after a cell
        store = session.store
        rows: Parts = {}
        if store.durable or store.file.saved:
            with without_collections(), naming_before(store.name):
                rows = store.tables.prove(store.name)
            if store.name == store.path and store.file.saved:
                store.file.keep_before()
        facts = {key: body for key, body, _ in rows.get("facts", ())}
        if "session" in facts:
            from jitkernel.session.saved.restoring import read_head

            self._rows = rows
            self._head = read_head(store.name, facts["session"])
            kept: dict[str, Any] = self._head["settings"]
            wanted = saved_settings(chosen=chosen, inline=session.settings.executor == "inline")
            new = {name: kept[name] for name in wanted if name in kept}
            if (flags := kept.get("clang_flags")) and not session.settings.clang_flags:
                # without them, the headers of its cells are not found
                from jitkernel.languages.c.flags import harmless

                new["clang_flags"] = flags if session.settings.trust else harmless(flags)
            session.settings = replace(session.settings, **new)

    def bring_back(self) -> None:
        """Fill the session, whose engine is ready now, from its store."""
        session, rows = self._session, self._rows
        program, store = session.program, session.store
        keeps = store.durable and session.settings.autosave
        if keeps:
            self._unsaved = Unsaved(program)
            session.engine.arena.rollback.kept = self._unsaved.add
            store.commits_often = True
        if rows is None:
            self._ready = True
            return
        from jitkernel.session.saved.rebuilding import recompile
        from jitkernel.session.saved.restoring import named_libraries, restore

        self._rows = None
        executor, trust = session.engine.executor, session.settings.trust
        restored = session.restored = restore(
            program, executor, session.results, rows, self._head, self._numbers, trust
        )
        session.number = restored.number
        session.texts.restore(rows["texts"])
        if archives := self._head.get("archives"):
            from jitkernel.session.run.linking import read_again  # few sessions have any

            restored.words += read_again(session, map(str, archives))
        session.withheld = [] if trust else named_libraries(self._head)
        if keeps:
            self._go_on(rows)
        elif not store.durable:
            store.file.clear_state()
        self._drop_records()
        pool = session.engine.pool
        if list(pool.identity()) != self._head["identity"]:  # another LLVM, another processor
            with session.engine.arena.rollback.atomic():
                recompile(program, pool, self._head, restored)
        self._ready = True

    def _go_on(self, rows: Parts) -> None:
        """Know what the file has, so that only what changes from now on is written."""
        writer = self._writer = Writer(self._session, self._session.store.tables)
        writer.numbers = numbering(self._numbers)
        for key, _, content in rows["pages"]:
            writer.pages.learn(int(key), content)
        writer.cells = {int(key) for key, _, _ in rows["cells"]}
        writer.head = {str(key): body for key, body, _ in rows["facts"] if key in HEAD}
        self._whole = False

    def keep(self) -> None:
        """Write what changed, where the session saves after each cell; a failure is told as often
        as it fails."""
        session, notices = self._session, self._session.engine.notices
        if not (self._ready and session.settings.autosave and session.store.durable):
            return
        failure = self._write()
        if failure and failure not in notices:
            notices.append(failure)
        elif self._failed and not failure:
            notices.append(f"the session is saved again: {session.store.name}")
        self._failed = bool(failure)

    def save(self, path: str) -> int:
        """Write the session to another file; see `Session.save`."""
        session = self._session
        if session.engine.started:
            session.engine.check_stands()

        def write(tables: Tables) -> None:
            # What the user wrote comes first: a file that is cut off still has it.
            tables.copy("records", [*session.store.rows(session.program.cells)])
            tables.copy("texts", session.store.texts())
            Writer(session, tables).everything()

        return write_file(path, write)

    def close(self) -> None:
        """Write the session's file a last time, where it has one."""
        session = self._session
        if self._ready and session.store.durable and not session.engine.closed:
            with session.lock:
                self._drop_records()
                if failure := self._write():
                    warnings.warn(failure, RuntimeWarning, stacklevel=3)
                session.store.file.shrink()

    def _drop_records(self) -> None:
        """Forget the records of cells that are gone: they were kept for an undo."""
        store, cells = self._session.store, self._session.program.cells
        for number in store.numbers():
            if number not in cells:
                store.drop(number)

    def _write(self) -> str:
        """Write what the file lacks; what is to be said where that cannot be."""
        session = self._session
        store = session.store
        try:
            store.begin()
            unsaved = self._unsaved.take() if self._unsaved is not None else None
            if self._writer is None or self._whole or unsaved is None:
                store.tables.clear()
                self._writer = Writer(session, store.tables)
                self._writer.everything()
            else:
                self._writer.changes(*unsaved)
            store.commit()
            self._whole = not session.settings.autosave
        except (sqlite3.Error, OSError) as error:
            store.rollback()
            self._whole = True
            words = f"the session was not saved: {store.name}: {error}"
            return f"{words}; %save writes to another file"
        except BaseException:  # what was unsaved is taken, and the file does not have it
            store.rollback()
            self._whole = True
            raise
        return ""


def open_copy(
    cls: type[Session], path: str, worker: WorkerProcess | None, overrides: dict[str, Any]
) -> Session:
    """The session of a file; where that is damaged, that of the whole file before it, which says
    so.  With a `store_path` it is copied there and goes on there."""
    try:
        return _open(cls, path, worker, overrides)
    except Damaged as error:
        if not os.path.exists(before(path)):
            raise
        why = error
    try:
        session = _open(cls, before(path), None, overrides)
    except JitError:
        raise why from None
    present(session.restored, "what came back").words.insert(0, f"{why}, which this is")
    return session


def _open(
    cls: type[Session], path: str, worker: WorkerProcess | None, overrides: dict[str, Any]
) -> Session:
    with contextlib.ExitStack() as failed:
        worker = worker or first_worker()  # it gets ready while the file is read
        failed.callback(close_first, worker)
        store = Store(os.fspath(overrides.get("store_path", "")), copy_of=path)
        failed.callback(store.close)
        if not store.file.saved:
            store.tables.prove(path)
            raise UsageError(
                f"{path} has sources of cells, but no session was saved in it; --rebuild compiles "
                "them"
            )
        session = cls(worker=worker, store=store, **overrides)
        failed.pop_all()
        failed.callback(session.close)
        session.frontend.core.begin()
        failed.pop_all()
    return session


def open_rebuilt(
    cls: type[Session], path: str, worker: WorkerProcess | None, overrides: dict[str, Any]
) -> Session:
    """The same, or, where that fails, a new session with the cells that can be read of the file."""
    try:
        return open_copy(cls, path, worker, overrides)
    except JitError as error:
        why = str(error)
    from jitkernel.session.saved.rebuilding import rebuild

    with scratch_folder() as folder:
        copy = copied(path, folder)
        session = cls(**overrides)
        try:
            with contextlib.closing(connect(copy)) as db:
                restored = session._core.restored = rebuild(session._core, path, db)
            restored.words.insert(0, why)
        except BaseException as error:
            session.close()
            if isinstance(error, UNREADABLE):
                raise UsageError(f"{path}: not one cell can be read: {error}") from None
            raise
    return session
