"""A new session from a file that is only read.  Start from `open_copy`."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.process import WorkerProcess
from jitkernel.errors import JitError, UsageError
from jitkernel.session.saved.rebuilding import rebuild
from jitkernel.session.saved.tables import UNREADABLE, connect, refuse_odd, upgrade
from jitkernel.session.store import Store

if TYPE_CHECKING:
    from jitkernel.session.session import Session

__all__ = ["open_copy", "open_rebuilt"]


def open_copy(
    cls: type[Session], path: str, worker: WorkerProcess | None, overrides: dict[str, Any]
) -> Session:
    """The session of a file.  With a `store_path` it is copied there and goes on there."""
    worker = worker or WorkerProcess()  # it gets ready while the file is read
    try:
        store = Store(overrides.get("store_path", ""), copy_of=path)
        if not store.saved:
            try:
                store.tables.prove(path)
            finally:
                store.close()
            raise UsageError(
                f"{path} has sources of cells, but no session was saved in it; --rebuild compiles "
                "them"
            )
        session = cls(worker=worker, store=store, **overrides)
    except BaseException:
        worker.close()
        raise
    try:
        session.begin()
    except BaseException:
        session.close()
        raise
    return session


def open_rebuilt(
    cls: type[Session], path: str, worker: WorkerProcess | None, overrides: dict[str, Any]
) -> Session:
    """The same, or, where that fails, a new session with the cells that can be read of the file."""
    try:
        return open_copy(cls, path, worker, overrides)
    except JitError as error:
        why = str(error)
    with tempfile.TemporaryDirectory(prefix="jitkernel-") as folder:
        copy = _copied(path, folder)
        session = cls(**overrides)
        try:
            with contextlib.closing(connect(copy)) as db, open(copy, "rb") as file:
                with contextlib.suppress(UsageError):
                    upgrade(db, copy)
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    session.restored = rebuild(session, path, db, data)
            session.restored.words.insert(0, why)
        except BaseException as error:
            session.close()
            if isinstance(error, UNREADABLE):
                raise UsageError(f"{path}: not one cell can be read: {error}") from None
            raise
    return session


def _copied(path: str, folder: str) -> str:
    """A copy of a file and its log, which may be changed.  Raises UsageError."""
    copy = os.path.join(folder, "damaged.jks")
    refuse_odd(path)
    try:
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        if not os.path.exists(copy):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return copy
