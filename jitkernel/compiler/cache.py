"""Objects that were compiled before, in this session or another one.  Start from `ObjectCache`.

Runs in the kernel process: what is found needs no worker.  An entry's name is the digest of
everything that decides its content: the text that the compiler is given, every option, the names
that are not the C library's, and the compiler itself: LLVM's file, the processor that it runs on,
and this package's part in it.  Its content is all that a compile answers, the times that it took
included.  A cell's label is no part of either, so cell 3 of today finds what cell 8 of yesterday
left.

Nothing is written while a cell waits: entries are collected and go out when the session is idle,
when it closes, or when they are many.
"""

from __future__ import annotations

import json
import os
import threading
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from jitkernel._version import __version__
from jitkernel.compiler.cache_database import CacheDatabase, cache_home
from jitkernel.compiler.records import Compiled, Request, Summary, diagnostics_of
from jitkernel.compiler.wire import LENGTHS, frame
from jitkernel.files import private_folder

SCHEMA = 4
_CPU_FIELDS = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags")
_PENDING_BYTES = 16 << 20

_loads = json.JSONDecoder().raw_decode


class CacheMemory(NamedTuple):
    """Counts of what a cache did for this session, and of what all sessions have in it (`bytes` on
    disk)."""

    folder: str
    hits: int
    misses: int
    stored: int
    damaged: int
    entries: int
    bytes: int
    limit: int
    pending: int


def open_cache(size: int, packages: str) -> ObjectCache | None:
    """The user's cache; None where there is no place for it.  `packages`: llvmlite's folder."""
    home = cache_home()
    if not home or size <= 0:
        return None
    try:
        private_folder(home)
        return ObjectCache(f"{home}/objects-{SCHEMA}", size, fingerprint(packages))
    except OSError:
        return None


class ObjectCache:
    """Compiled modules by content, of the `compiler` that has this fingerprint.  Safe to use from
    several threads."""

    def __init__(self, folder: str, size: int, compiler: str):
        self.size = size
        self.hits = self.misses = self.stored = 0
        self._entries = CacheDatabase(folder, size)
        self._lock = threading.RLock()
        self._pending: dict[str, Compiled] = {}
        self._pending_bytes = 0
        self._used: set[str] = set()
        self._front = sha256(json.dumps([SCHEMA, sources_digest(), compiler]).encode())

    def key(self, request: Request) -> str:
        """The name of a request's entry."""
        nobuiltin = sorted(request.nobuiltin) if request.nobuiltin else ()
        digest = self._front.copy()
        bodies = [lent.key for lent in request.bodies]
        row = [request.options.row(), nobuiltin, request.first_line, bodies, sorted(request.near)]
        if request.options.debug:
            row.append(request.marked)
        digest.update(json.dumps(row).encode())
        digest.update(b"\n")
        digest.update(request.source.encode("utf-8", "surrogatepass"))
        return str(digest.hexdigest())

    # -- modules

    def get(self, request: Request) -> Compiled | None:
        """The code for an equal request, if it is there; its times are those it took
        then."""
        if request.context != "throwaway":  # contexts that last are to be watched
            return None
        key = self.key(request)
        found = self._pending.get(key)
        if found is None and (content := self._entries.read(key)) is not None:
            with self._lock:
                self._used.add(key)
            found = _decode(content)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        return found._replace(cached=True)

    def put(self, request: Request, compiled: Compiled) -> None:
        """Keep what a worker made; written later."""
        if request.context != "throwaway":
            return
        with self._lock:
            self._pending[self.key(request)] = compiled
            self._pending_bytes += len(compiled.object) + 4 * len(request.source)
            if self._pending_bytes > _PENDING_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write what was collected.  Never raises for what the disk refuses."""
        with self._lock:
            found = {key: _encode(entry) for key, entry in self._pending.items()}
            used, self._used = self._used, set()
            self.stored += self._entries.write(found, used)
            self._pending, self._pending_bytes = {}, 0

    def close(self) -> None:
        """Write and end.  May be called again."""
        self.flush()
        self._entries.close()

    def memory(self) -> CacheMemory:
        """The account; counts the entries."""
        entries, taken = self._entries.usage()
        return CacheMemory(
            self._entries.folder, self.hits, self.misses, self.stored, self._entries.damaged,
            entries, taken, self.size, len(self._pending),
        )  # fmt: skip


def _encode(compiled: Compiled) -> bytes:
    """A frame as the worker sends it: summary, warnings and times, then the object."""
    return frame([compiled.summary, compiled.warnings, compiled.times], compiled.object)


def _decode(content: bytes) -> Compiled:
    text, _ = LENGTHS.unpack_from(content)
    middle = LENGTHS.size + text
    summary, warnings, times = _loads(content[LENGTHS.size : middle].decode())[0]
    return Compiled(content[middle:], Summary.of(summary), times, diagnostics_of(warnings))


@cache
def sources_digest() -> str:
    """A digest of our own text that has a say in what LLVM is given."""
    digest = sha256(__version__.encode())
    package = Path(__file__).parents[1]
    for path in sorted([*package.glob("compiler/*.py"), *package.glob("ir/*.py")]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(packages: str) -> str:
    """A digest of what decides which code LLVM makes: its file, and the processor.

    `packages` is the folder that llvmlite is in.  Raises OSError where it cannot be told.
    """
    library = os.path.join(packages, "llvmlite", "binding", "libllvmlite.so")
    status = os.stat(library)
    file = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(file, 4096)  # one processor's lines; they are slow where there are many
    finally:
        os.close(file)
    fields = {
        name.strip(): value
        for name, _, value in (line.partition(b":") for line in text.splitlines())
        if name.strip() in _CPU_FIELDS
    }
    digest = sha256(repr((library, status.st_size, status.st_mtime_ns, status.st_ino)).encode())
    digest.update(repr(sorted(fields.items())).encode())
    return digest.hexdigest()
