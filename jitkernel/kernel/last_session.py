"""The session that a notebook had before its kernel ended, kept for it.  Start from `prepare`.

With `Session.autosave` a kernel saves to a file of its own in Jupyter's data folder, one for each
notebook (for each folder, where the client names no notebook).  When the next kernel begins, that
file becomes the last session, which `%restore --last` brings back.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from hashlib import blake2b

from jitkernel.errors import UsageError

__all__ = ["last_session", "offer", "prepare"]


def _folder() -> str:
    from jupyter_core.paths import jupyter_data_dir

    return os.path.join(jupyter_data_dir(), "jitkernel", "sessions")


def _name() -> str:
    notebook = os.environ.get("JPY_SESSION_NAME") or os.getcwd()
    return os.path.join(_folder(), blake2b(notebook.encode(), digest_size=8).hexdigest())


def last_session() -> str:
    """The file of the last session, the empty string where none is kept."""
    path = _name() + "-last.jks"
    return path if os.path.exists(path) else ""


def prepare() -> str:
    """The file that a new kernel saves to; what the one before left there becomes the last session.

    Another kernel of the same notebook that still runs keeps its file.
    """
    os.makedirs(_folder(), mode=0o700, exist_ok=True)
    path = _name() + ".jks"
    if not os.path.exists(path):
        return path
    try:
        cells = _settle(path)
    except (UsageError, sqlite3.Error) as error:
        if "in use" in str(error) or "locked" in str(error):
            return f"{_name()}-{os.getpid()}.jks"
        cells = 1  # damaged: `%restore --last` says so
    if cells:
        os.replace(path, _name() + "-last.jks")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)
    return path


def offer() -> str:
    """One line about the last session, empty where there is none."""
    path = last_session()
    if not path:
        return ""
    from jitkernel.session.saved.restoring import ago
    from jitkernel.session.saved.tables import connect

    try:
        with contextlib.closing(connect(path)) as db:
            cells = db.execute("select count(*) from cells").fetchone()[0]
            saved = float(db.execute("select body from facts where id = 'saved'").fetchone()[0])
    except (UsageError, sqlite3.Error, TypeError, ValueError):
        cells, saved = 0, os.path.getmtime(path)
    what = f"{cells} cell{'s' * (cells != 1)}, saved {ago(min(saved, time.time()))}"
    return f"the last session ({what}) is kept: %restore --last"


def _settle(path: str) -> int:
    """Put what is in the file's log into the file; how many cells it has."""
    from jitkernel.session.saved.tables import connect

    with contextlib.closing(connect(path)) as db:
        db.execute("pragma busy_timeout = 0")
        db.execute("begin immediate")
        db.execute("rollback")
        db.execute("pragma journal_mode = delete")
        return int(db.execute("select count(*) from cells").fetchone()[0])
