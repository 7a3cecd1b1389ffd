"""Named byte strings in a folder, bounded in size, shared by processes.  Start from `CacheFiles`.

One file per entry, written under another name and renamed: a reader finds all of an entry or none
of it, two writers of one name leave one of two equal files, and a writer that is killed leaves a
file that nobody reads and that the next sweep takes away.  There are no locks, nothing that has to
be repaired and no daemon; each file carries a checksum of its name and content, so that one that
was damaged (or lost its pages with the power: nothing is synced) is dropped when it is met.

The least recently used entries go first; the time of a file's last use is its modification time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import count

from jitkernel.files import LIMIT, private_folder

__all__ = ["CacheFiles", "cache_home"]

_MAGIC = b"jkcache1"
_HEAD = len(_MAGIC) + 32
_SHARDS = "0123456789abcdef"
_BLOCK = 4096  # bytes that a file takes at least
_TICK = 100_000_000  # nanoseconds; files get the time of the system's last tick, up to 10 ms ago
_STALE = 600.0  # seconds after which a file that was not renamed is taken for abandoned
_TEMPORARY = "tmp-"
_CHUNK = 1 << 16

_numbers = count()


def cache_home() -> str:
    """The user's folder for caches; "" where there is none.

    Source: XDG Base Directory Specification: a relative XDG_CACHE_HOME is to be ignored.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "jitkernel") if os.path.isabs(home) else ""


class CacheFiles:
    """Entries under `folder`, at most `size` bytes as far as one writer can tell.

    A sixteenth of the size belongs to each of sixteen shards, by the first digit of the name
    (names are hexadecimal digests): that is what is swept at once, and an entry may take half of
    it.  Two processes that write at the same moment stay within `size` together (but for entries
    larger than a shard's quarter); each further one may go over it by a sixteenth.  Raises OSError
    where the folder cannot be had; every other method takes what the system refuses for "not
    there".  One thread at a time, except `read`.
    """

    def __init__(self, folder: str, size: int):
        self.folder = folder
        self.limit = size // len(_SHARDS)
        self.damaged = 0
        #: by shard: when it was changed as it was counted, entries, bytes
        self._counted: dict[str, tuple[int, int, int]] = {}
        self._room: dict[str, int] = {}  # bytes that may be written before a shard is swept again
        private_folder(folder)
        status = os.stat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(f"{folder}: others can write there, and code is read from it")

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name[0]}/{name}"

    def read(self, name: str) -> bytes | None:
        """An entry's bytes, or None.  One that is damaged is removed."""
        path = self._path(name)
        try:
            # What is no file does not keep us waiting; it is found damaged, as one too large is.
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            _remove_odd(path)
            return None
        try:
            status = os.fstat(file)
            fits = stat.S_ISREG(status.st_mode) and status.st_size <= LIMIT
            data = os.read(file, _CHUNK) if fits else b""
            if len(data) == _CHUNK:
                parts = [data]
                while part := os.read(file, 1 << 20):
                    parts.append(part)
                data = b"".join(parts)
        except OSError:
            return None
        finally:
            os.close(file)
        if data[: len(_MAGIC)] == _MAGIC and data[len(_MAGIC) : _HEAD] == _sum(name, data[_HEAD:]):
            return data[_HEAD:]
        self.damaged += 1
        _remove(path)
        return None

    def write(self, name: str, content: bytes) -> bool:
        """Keep an entry; whether it was written."""
        shard = name[0]
        needed = _blocks(_HEAD + len(content))
        if needed > self.limit // 2:
            return False
        if self._room.get(shard, -1) < needed:
            self._room[shard] = self._sweep(shard, needed)
        folder = f"{self.folder}/{shard}"
        temporary = f"{folder}/{_TEMPORARY}{os.getpid()}-{next(_numbers)}-{time.time_ns()}"
        try:
            file = self._create(folder, temporary)
            try:
                left = memoryview(_MAGIC + _sum(name, content) + content)
                while left:
                    left = left[os.write(file, left) :]
            finally:
                os.close(file)
            os.rename(temporary, self._path(name))
        except OSError:
            _remove(temporary)
            return False
        self._room[shard] -= needed
        return True

    @staticmethod
    def _create(folder: str, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # the first of its shard, or somebody emptied the cache
            private_folder(folder)
            return os.open(path, flags, 0o600)

    def touch(self, names: Iterable[str]) -> None:
        """These were used now."""
        for name in names:
            try:
                os.utime(self._path(name))
            except OSError:
                pass

    def usage(self) -> tuple[int, int]:
        """The number of entries, and the bytes they take on the disk.

        A shard is counted again only after a file came or went: that changes its folder's time
        (entries themselves never change).
        """
        entries = taken = 0
        for shard in _SHARDS:
            try:
                changed = os.stat(f"{self.folder}/{shard}").st_mtime_ns
            except OSError:
                continue
            known = self._counted.get(shard)
            if known is None or known[0] != changed:
                sizes = [size for _, size, _ in self._entries(shard)]
                known = (changed, len(sizes), sum(sizes))
                # A folder's time is as coarse as the system's clock ticks.
                if time.time_ns() - changed > _TICK:
                    self._counted[shard] = known
            entries += known[1]
            taken += known[2]
        return entries, taken

    def _entries(self, shard: str) -> Iterator[tuple[float, int, str]]:
        """Files of a shard: time of last use, bytes on disk, path; abandoned ones are removed."""
        now = time.time()
        try:
            found = list(os.scandir(f"{self.folder}/{shard}"))
        except OSError:
            return
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # another process was first
                continue
            if entry.name.startswith(_TEMPORARY) and now - status.st_mtime > _STALE:
                _remove(entry.path)
                continue
            yield status.st_mtime, _blocks(status.st_size), entry.path

    def _sweep(self, shard: str, needed: int) -> int:
        """Remove what was used least recently, so that `needed` bytes fit; the room there is.

        A shard that is nearly full is emptied to three quarters, so that sweeps are rare.
        """
        found = sorted(self._entries(shard))
        total = sum(size for _, size, _ in found)
        share = max(self.limit // len(_SHARDS), needed)
        if total + 2 * share > self.limit:
            for _, size, path in found:
                if total + needed <= self.limit * 3 // 4 or total == 0:
                    break
                _remove(path)
                total -= size
        return share


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _sum(name: str, content: bytes) -> bytes:
    """The checksum of an entry: content under another name is damage too."""
    digest = sha256(name.encode())
    digest.update(content)
    return digest.digest()


def _remove_odd(path: str) -> None:
    """Make room where an entry is to be: what cannot be opened stays for ever, or is no entry."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)
    except OSError:
        pass


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
