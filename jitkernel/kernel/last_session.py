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
from glob import escape, glob
from hashlib import blake2b

from jitkernel.errors import UsageError
from jitkernel.files import private_folder, working_folder
from jitkernel.publishing import keep
from jitkernel.wording import counted

_KEPT = 50  # files, of all notebooks together


def _folder() -> str:
    from jupyter_core.paths import jupyter_data_dir

    return os.path.join(jupyter_data_dir(), "jitkernel", "sessions")


def _name() -> str:
    notebook = os.environ.get("JPY_SESSION_NAME") or working_folder()
    return os.path.join(_folder(), blake2b(notebook.encode(), digest_size=8).hexdigest())


def last_session() -> str:
    """The file of the last session, the empty string where none is kept."""
    path = _name() + "-last.jks"
    return path if os.path.exists(path) else ""


def prepare() -> str:
    """The file that a new kernel saves to; what the one before left there becomes the last session.

    Another kernel of the same notebook that still runs keeps its file.
    """
    private_folder(_folder())
    path = _name() + ".jks"
    left = [path, *glob(f"{escape(_name())}-[0-9]*.jks")]
    for found in sorted(filter(os.path.exists, left), key=_written, reverse=True):
        cells = _settle(found)
        if cells is None:
            continue
        if cells:
            from jitkernel.session.saved.tables import before

            last = _name() + "-last.jks"
            keep(last, before(last))
            os.replace(found, last)
        _remove(found)
        if cells:
            break
    _forget_old()
    if os.path.exists(path) and _settle(path) is None:
        return f"{_name()}-{os.getpid()}.jks"
    _remove(path)
    return path


def _written(path: str) -> float:
    """The time at which a session's file or its log was written last."""
    found = [os.path.getmtime(p) for p in (path, path + "-wal") if os.path.exists(p)]
    return max(found, default=0.0)


def _remove(path: str) -> None:
    from jitkernel.session.saved.tables import before

    for name in (path, path + "-wal", path + "-shm", before(path)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _forget_old() -> None:
    """Keep the latest files of all notebooks, and those that are in use."""
    files = sorted(glob(os.path.join(escape(_folder()), "*.jks")), key=_written, reverse=True)
    for path in files[_KEPT:]:
        if _settle(path) is not None:
            _remove(path)


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
    what = f"{counted(cells, 'cell')}, saved {ago(min(saved, time.time()))}"
    return f"the last session ({what}) is kept: %restore --last"


def _settle(path: str) -> int | None:
    """Put what is in the file's log into the file; how many cells it has, None where a session has
    it.  A damaged one counts as one cell: `%restore --last` says so."""
    from jitkernel.session.saved.tables import connect

    try:
        with contextlib.closing(connect(path)) as db:
            db.execute("pragma busy_timeout = 0")
            db.execute("begin immediate")
            db.execute("rollback")
            db.execute("pragma journal_mode = delete")
            return int(db.execute("select count(*) from cells").fetchone()[0])
    except (UsageError, sqlite3.Error) as error:
        return None if "in use" in str(error) or "locked" in str(error) else 1
