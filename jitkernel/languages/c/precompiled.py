"""Precompiled headers, kept on disk for all sessions.  Start from `HeaderCache.chain`.

Headers are compiled once, and what a cell adds to them is compiled on top of what is there, as
clang's chained precompiled headers: a session of 400 headers that includes one more compiles one.

An entry is one file, with nothing beside it: clang has the text from its standard input.  It is
made under a private name and renamed, so that it is there whole or not at all, and its name is
`KEY-BELOW-SUM`: what it was made of (compiler, flags, text from the first line on), the checksum of
the entry that it stands on, and that of its own content and name.  There are no locks.  What is
damaged, or stands on what is gone, is removed when it is met, and what was not used for longest
when there is too much: the time of last use is the file's time of access, which we set; its
modification time is always the same, for clang compares that of what an entry stands on.

Source: clang.llvm.org/docs/PCHInternals.html, "Chained precompiled headers".
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from itertools import count
from zlib import crc32

from jitkernel.files import private_folder
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

_NAME = regex(r"([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{16})")
_NOTHING = "0" * 16  # what the first entry of a chain stands on
_WRITTEN = 1_000_000_000_000_000_000  # nanoseconds: the modification time of every entry
_PRIVATE = "tmp-"
_STALE = 600.0  # seconds after which what is no entry is taken for abandoned
_MARKS = 60.0  # seconds for which a use counts as marked
_MERGED = 32  # directives up to which entries are made one
_TICK = 2.0  # seconds: clang compares whole ones
_AGAIN = 10.0  # seconds until what was refused is tried again
_REMEMBERED = 1000  # texts
_CHUNK = 1 << 20
_DIRECTIVE = regex(r"^(?=[ \t]*#)", re.MULTILINE)
_WORD = regex(r"(?:\\.|[^\\\s])+")

#: Makes a precompiled header of a text: the paths of those that it stands on, its own, and that of
#: the list of files that it is to write.  None where clang took it, else those of the former that
#: may be the cause.
Build = Callable[[str, list[str], str, str], Sequence[str] | None]
_Signature = tuple[int, int, int, int]

_numbers = count()


class _Entry(NamedTuple):
    key: str
    below: str
    sum: str

    @property
    def name(self) -> str:
        return "-".join(self)


class HeaderCache:
    """The entries in a folder.  Methods take what the system refuses for "not there"; any thread
    may call them."""

    def __init__(self, folder: str):
        self._folder = folder
        #: By path: what the system says of a file that was read and found sound.
        self._sound: dict[str, _Signature] = {}
        self._marked: dict[str, float] = {}  # by path: when its use was
        self._chains: dict[str, list[_Entry]] = {}  # by key: those of this process
        self._refused: dict[str, float] = {}  # by key: until when

    def chain(
        self, identity: str, header: str, build: Build, limit: int, known: Collection[str] = ()
    ) -> tuple[list[str], str]:  # fmt: skip
        """The paths of the entries that make up a header, of which the last is for clang, and what
        of its text has none: clang refuses it, or there is no place.  What is missing is made.

        `identity` is all that an entry depends on besides the text, which has the content of the
        files that are `known`, by their paths.  At most `limit` bytes are kept, but for the
        header's own entries.
        """
        directives, keys = _keyed(identity, header)
        found = self._known(keys[-1])
        if not found:
            found = self._longest(keys) if self._is_private() else []
            if not found or found[-1].key != keys[-1]:
                found = self._extended(found, keys, directives, build, known)
                self._trim(limit, found)
            if len(self._chains) > _REMEMBERED:
                self._chains.clear()
            self._chains[keys[-1]] = found
        self._mark(found)
        rest = directives[keys.index(found[-1].key) :] if found else directives
        return [self._path(entry) for entry in found], "".join(rest)

    def drop(self, paths: Iterable[str]) -> None:
        """Remove entries that clang did not take, or that may be the cause of what it did."""
        for path in paths:
            self._sound.pop(path, None)
            self._marked.pop(path, None)
            _remove(path)

    def _path(self, entry: _Entry) -> str:
        return f"{self._folder}/{entry.name}"

    def _is_private(self) -> bool:
        """True if the folder is there, and nobody else can write to it: code is read from it."""
        try:
            status = os.stat(self._folder)
        except OSError:
            return False
        return status.st_uid == os.geteuid() and not status.st_mode & 0o022

    # -- what is there -----------------------------------------------------------------------------

    def _known(self, key: str) -> list[_Entry]:
        """A chain that this process has used before, if it is there as it was."""
        found = self._chains.get(key, [])
        if found and found[-1].key == key and all(map(self._is_sound, found)):
            return found
        self._chains.pop(key, None)
        return []

    def _longest(self, keys: Sequence[str]) -> list[_Entry]:
        """The chain for as much of a text as there is one for."""
        by_key: dict[str, list[_Entry]] = {}
        by_sum: dict[str, _Entry] = {}
        for entry in self._entries():
            by_key.setdefault(entry.key, []).append(entry)
            by_sum[entry.sum] = entry
        for key in reversed(keys):
            for entry in by_key.get(key, ()):
                found = [entry]
                while found[0].below in by_sum and len(found) < len(keys):
                    found.insert(0, by_sum[found[0].below])
                if found[0].below == _NOTHING and all(map(self._is_sound, found)):
                    return found
                self.drop([self._path(entry)])
        return []

    def _entries(self) -> list[_Entry]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [_Entry(*match.groups()) for match in map(_NAME.fullmatch, names) if match]

    def _is_sound(self, entry: _Entry) -> bool:
        """True if an entry is what it was made as.  One that is not is removed."""
        path = self._path(entry)
        known = self._sound.get(path)
        if known is not None:
            with suppress(OSError):
                if known == _signature(os.lstat(path)):
                    return True
        signature = _read(path, entry)
        if signature is None:
            self.drop([path])
            return False
        self._sound[path] = signature
        return True

    # -- what is made ------------------------------------------------------------------------------

    def _extended(
        self, found: list[_Entry], keys: Sequence[str], directives: Sequence[str], build: Build,
        known: Collection[str],
    ) -> list[_Entry]:  # fmt: skip
        """A chain for the whole text, where there is one for its beginning, or for nothing of it;
        that one where no other can be made."""
        if self._refused.get(keys[-1], 0.0) > time.monotonic():
            return found
        for _ in keys:
            base = _base(found, keys)
            first = keys.index(base[-1].key) if base else 0
            made = self._made(keys[-1], base, "".join(directives[first:]), build, known)
            if made is not None:
                return [*base, made]
            if all(map(self._is_sound, base)):
                break
            found = self._longest(keys)  # without what was the cause
        if len(self._refused) > _REMEMBERED:
            self._refused.clear()
        self._refused[keys[-1]] = time.monotonic() + _AGAIN
        return found

    def _made(
        self, key: str, base: Sequence[_Entry], text: str, build: Build, known: Collection[str]
    ) -> _Entry | None:
        """A new entry; None where clang refuses its text, or there is no place for it."""
        private = f"{self._folder}/{_PRIVATE}{os.getpid()}-{next(_numbers)}-{time.time_ns()}"
        files = f"{private}.d"
        began = time.time()
        try:
            _make_folder(self._folder)
            if not self._is_private():
                return None
            blamed = build(text, [self._path(entry) for entry in base], private, files)
            if blamed is not None:
                self.drop(blamed)
                return None
            # A file that changes again within the same second looks to clang as it did.
            if _latest(files, {*map(os.path.realpath, known)}) > began - _TICK:
                return None
            os.chmod(private, 0o600)
            os.utime(private, ns=(time.time_ns(), _WRITTEN))
            entry = _Entry(key, base[-1].sum if base else _NOTHING, "")
            entry = entry._replace(sum=_sum(private, entry))
            path = self._path(entry)
            if os.path.isdir(path):
                _remove(path)
            os.rename(private, path)
            return entry if self._is_sound(entry) else None
        except OSError:
            return None
        finally:
            _remove(private)
            _remove(files)

    # -- what goes ---------------------------------------------------------------------------------

    def _mark(self, chain: Sequence[_Entry]) -> None:
        """These are used now."""
        paths = [self._path(entry) for entry in reversed(chain)]
        now = time.monotonic()
        if paths and now - self._marked.get(paths[0], -_MARKS) >= _MARKS:
            self._marked[paths[0]] = now
            for path in paths:
                with suppress(OSError):
                    os.utime(path, ns=(time.time_ns(), _WRITTEN))
                    self._sound[path] = _signature(os.lstat(path))

    def _trim(self, limit: int, used: Sequence[_Entry]) -> None:
        """Remove what was not used for longest, down to so many bytes, and what is abandoned."""
        names = {entry.name for entry in used}
        total, found = 0, []
        now = time.time()
        with suppress(OSError), os.scandir(self._folder) as files:
            for file in files:
                with suppress(OSError):
                    status = file.stat(follow_symlinks=False)
                    if not _NAME.fullmatch(file.name):
                        if now - status.st_mtime > _STALE:
                            _remove(file.path)
                        continue
                    total += status.st_size
                    if file.name not in names:
                        found.append((status.st_atime_ns, status.st_size, file.path))
        for _, size, path in sorted(found):
            if total <= limit:
                break
            self.drop([path])
            total -= size


@lru_cache(maxsize=16)
def _keyed(identity: str, header: str) -> tuple[list[str], list[str]]:
    """The directives of a header, and the keys of its beginnings by the number of those."""
    directives = [part for part in _DIRECTIVE.split(header) if part]
    digest = sha256(f"{identity}\0".encode("utf-8", "surrogateescape"))
    keys = [""]
    for part in directives:
        digest.update(part.encode("utf-8", "surrogateescape"))
        keys.append(digest.hexdigest()[:32])
    return directives, keys


def _base(chain: Sequence[_Entry], keys: Sequence[str]) -> list[_Entry]:
    """The part of a chain that the rest of a text is compiled on: a short end of it is compiled
    again with the rest, so that chains do not grow with each directive."""
    base, last = list(chain), len(keys) - 1
    while base:
        below = keys.index(base[-2].key) if len(base) > 1 else 0
        size = keys.index(base[-1].key) - below
        if size > last - below - size or last - below > _MERGED:
            break
        base.pop()
    return base


def _signature(status: os.stat_result) -> _Signature:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: str, entry: _Entry) -> _Signature | None:
    """The signature of a file, which is this entry; None where it is not."""
    try:
        before = os.lstat(path)
        if not stat.S_ISREG(before.st_mode) or before.st_mtime_ns != _WRITTEN:
            return None
        if _sum(path, entry) != entry.sum:
            return None
        after = os.lstat(path)
    except OSError:
        return None
    return _signature(after) if _signature(before) == _signature(after) else None


def _sum(path: str, entry: _Entry) -> str:
    """The checksum of a file that is to be such an entry: content under another name is damage
    too.  Raises OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags)
    try:
        sum, size = crc32(f"{entry.key}-{entry.below}".encode()), 0
        while piece := os.read(file, _CHUNK):
            sum, size = crc32(piece, sum), size + len(piece)
    finally:
        os.close(file)
    return f"{sum:08x}{size & 0xFFFFFFFF:08x}"


def _latest(files: str, known: Container[str]) -> float:
    """The time when the newest of the files was written that a list of clang's names, apart from
    those whose content is known."""
    with open(files, encoding="utf-8", errors="surrogateescape") as file:
        words = _WORD.findall(file.read().partition(":")[2].replace("\\\n", " "))
    latest = 0.0
    for word in words:
        with suppress(OSError):
            path = re.sub(r"\\(.)|\$(\$)", r"\1\2", word)
            if os.path.realpath(path) not in known:
                latest = max(latest, os.stat(path).st_mtime)
    return latest


def _make_folder(path: str) -> None:
    """The folder of the cache, where there is none; what else has its name goes."""
    if not os.path.isdir(path):
        with suppress(OSError):
            os.unlink(path)
        private_folder(path)


def _remove(path: str) -> None:
    """Remove what has this name."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
