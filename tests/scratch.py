"""The folder for temporary files of a run of tests.  Start from `scratch`."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["PREFIX", "scratch"]

PREFIX = "jitkernel-tests."


def scratch(parent: str) -> tuple[str, int]:
    """A new folder, and the descriptor that holds it: it is locked as long as this process has that
    open.  Folders of runs that were killed, which nobody holds, are removed."""
    for left in Path(parent).glob(f"{PREFIX}*"):
        _remove(left)
    while True:
        path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        held = os.open(path, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        if os.path.isdir(path):  # another run has not taken it for a left one before it was locked
            return path, held
        os.close(held)


def _remove(path: Path) -> None:
    try:
        held = os.open(path, os.O_RDONLY)
    except OSError:
        return  # gone, or somebody else's
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        pass  # that run goes on
    finally:
        os.close(held)
