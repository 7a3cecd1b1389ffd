"""A file that is there whole or as it was before, and no piece of it left by a writer that was
killed.  Start from `publish`.

What is written has no name until it is whole (open(2), O_TMPFILE); where the name is taken, it has
another one for the moment of a rename, under a lock that ends with its writer.  The next to save
there removes such names that nobody holds; so it goes where the system has no files without names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import sqlite3
import stat
from collections.abc import Callable
from glob import escape, glob

_PIECE = 64 << 20


def publish(path: str, write: Callable[[sqlite3.Connection], object], before: str = "") -> int:
    """Put the database that `write` fills at `path`; its size in bytes.  What was there gets the
    name `before`, if one is given and the system can.

    `path` is absolute and no link.  A file that was there keeps its permissions, a new one is its
    owner's alone.  Raises what `write` raises, and OSError; `path` is as it was then.
    """
    folder, name = os.path.split(path)
    _remove_left(folder, name)
    # Whoever else saves there, another thread of this process too, has a name of its own.
    temporary = os.path.join(folder, f".{name}.{int.from_bytes(os.urandom(8), 'little')}")
    with contextlib.ExitStack() as stack:
        whole = _nameless(folder, temporary)
        stack.callback(os.close, whole)
        stack.callback(_unlink, temporary)
        # SQLite opens by name alone: what it fills loses that at once, and is moved over.
        name = f"{temporary}-"
        draft = _named(name)
        stack.callback(os.close, draft)
        try:
            db = sqlite3.connect(name, isolation_level=None)
        finally:
            _unlink(name)
        with contextlib.closing(db):
            db.execute("pragma journal_mode = off")
            db.execute("pragma synchronous = off")
            write(db)
        size = os.fstat(draft).st_size
        _move(draft, whole, size)
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(whole, stat.S_IMODE(os.stat(path).st_mode))
        os.fsync(whole)
        if not os.fstat(whole).st_nlink:
            try:
                _name(whole, path)
            except FileExistsError:
                _name(whole, temporary)
        if os.path.exists(temporary):
            if before:
                keep(path, before)
            os.replace(temporary, path)
        sync(folder)
    return size


def keep(path: str, before: str, copy: Callable[[str, str], object] = os.link) -> None:
    """Give a file another name as well, in place of what has that, or a `copy` of it; where the
    system can."""
    temporary = f"{before}new"
    _unlink(temporary)  # of one that was killed
    try:
        with contextlib.suppress(OSError):
            copy(path, temporary)
            os.replace(temporary, before)
    finally:
        _unlink(temporary)


def sync(folder: str) -> None:
    """Make a rename last through a power failure."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _nameless(folder: str, name: str) -> int:
    """A new file without a name, or with this one where the system knows no others, locked."""
    try:
        file = os.open(folder, os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE, 0o600)
    except OSError:
        return _named(name)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before it gets a name
    return file


def _named(name: str) -> int:
    """A new file of this name, locked."""
    while True:
        file = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # somebody took it for one that a writer has left, before it was locked


def _name(fd: int, path: str) -> None:
    """Give a file without a name this one.  Raises FileExistsError."""
    # Only with a descriptor of a folder does it follow the link that /proc has for the file.
    folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.link(str(fd), path, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _move(source: int, target: int, size: int) -> None:
    """Copy bytes, the last piece first: what is copied does not take up room twice."""
    for start in reversed(range(0, size, _PIECE)):
        at, stop = start, min(start + _PIECE, size)
        while at < stop:
            try:
                done = os.copy_file_range(source, target, stop - at, at, at)
            except OSError:  # an old system, or one without room: the same again in words
                done = os.pwrite(target, os.pread(source, min(stop - at, 1 << 20), at), at)
            if not done:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            at += done
        os.truncate(source, start)


def _remove_left(folder: str, name: str) -> None:
    """Remove what writers of this file left that were killed."""
    ours = re.compile(re.escape(f".{name}.") + r"\d+-?\Z")
    for path in glob(os.path.join(escape(folder), f".{escape(name)}.*")):
        if not ours.match(os.path.basename(path)):
            continue
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if stat.S_ISREG(os.fstat(file).st_mode):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _unlink(path)
        except OSError:
            pass  # its writer is at it
        finally:
            os.close(file)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
