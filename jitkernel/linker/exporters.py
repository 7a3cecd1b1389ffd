"""Which of the system's libraries has a name that nobody in the session defines.  Start from
`exporter`.

A library's own hash table is asked: most say no by one word of it.  Source: System V gABI, "Section
Header"; the GNU hash section as binutils' bfd/elflink.c writes it (bfd_elf_gnu_hash).
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

from jitkernel.linker.instrumented import remedy
from jitkernel.linker.libraries import folders
from jitkernel.regex import regex

_GNU_HASH = 0x6FFFFFF6  # SHT_GNU_HASH
_NAME = regex(r"lib(.+)\.so((?:\.\d+)*)")
_LONGEST = 0.5  # seconds: what was not read from the disk for long takes its time
_SHORT = 4  # characters; shorter names are anybody's


def nobodys(name: str) -> str:
    """A sentence on a function that nobody defines: of a library that has it, or of an object that
    was instrumented."""
    if do := remedy(name):
        return f"which nobody defines; {do}"
    library = exporter(name)
    return "which nobody defines" + f"; a library has it: %lib {library}" * bool(library)


def exporter(name: str, where: Sequence[str] | None = None) -> str:
    """The argument with which `%lib` loads a library that has this function or variable: `-lz`, or
    where no file is made for linking, `libz.so.1`; "" where none has it."""
    if len(name) < _SHORT:
        return ""
    where = tuple(folders() if where is None else where)
    return _exporter(name, where, tuple(map(_changed, where)))


def _changed(folder: str) -> int:
    """Another number when files of a folder came or went."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _exporter(name: str, where: Sequence[str], _: tuple[int, ...]) -> str:
    end = time.monotonic() + _LONGEST
    linked: set[str] = set()  # what `-l` finds, by its name
    for versions in (False, True):
        found: list[tuple[bool, int, str]] = []
        for own, path in _libraries(where, versions):
            if not versions:
                linked.add(own)
            if exports(path, name):
                other = not name.lower().startswith(own.rstrip("0123456789.-").lower())
                argument = f"-l{own}" if own in linked else os.path.basename(path)
                found.append((other, os.path.getsize(path), argument))
            if time.monotonic() > end:
                break
        if found:
            return min(found)[2]
    return ""


def _libraries(where: Sequence[str], versions: bool) -> Iterator[tuple[str, str]]:
    """Names and paths of libraries, those with versions or the others; each file once."""
    seen: set[str] = set()
    for folder in where:
        try:
            files = sorted(os.listdir(folder))
        except OSError:
            continue
        for file in files:
            match = _NAME.fullmatch(file)
            if match is not None and file not in seen and bool(match[2]) == versions:
                seen.add(file)
                yield match[1], os.path.join(folder, file)


def exports(path: str, name: str) -> bool:
    """True if a shared library defines a name for others; False for what is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as data:
                return data[:6] == b"\x7fELF\x02\x01" and _has(data, name.encode())
        finally:
            os.close(descriptor)
    except (OSError, ValueError, ArithmeticError, struct.error):
        return False


def _has(data: mmap.mmap, name: bytes) -> bool:
    begin = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    for index in range(count):
        kind, at, link = _section(data, begin + index * size)
        if kind == _GNU_HASH:
            _, symbols, strings = _section(data, begin + link * size)
            return _looked_up(data, name, at, symbols, _section(data, begin + strings * size)[1])
    return False


def _section(data: mmap.mmap, at: int) -> tuple[int, int, int]:
    """A section's type, its offset in the file, and what it is linked with."""
    _, kind, _, _, offset, _, link = struct.unpack_from("<IIQQQQI", data, at)
    return kind, offset, link


def _looked_up(data: mmap.mmap, name: bytes, at: int, symbols: int, strings: int) -> bool:
    key = 5381
    for byte in name:
        key = (key * 33 + byte) & 0xFFFFFFFF
    buckets, first, words, shift = struct.unpack_from("<IIII", data, at)
    filter_, at = at + 16, at + 16 + 8 * words
    word = struct.unpack_from("<Q", data, filter_ + 8 * (key // 64 % words))[0]
    if not (word >> key % 64) & (word >> (key >> shift) % 64) & 1:
        return False
    index = struct.unpack_from("<I", data, at + 4 * (key % buckets))[0]
    while index >= first:
        found = struct.unpack_from("<I", data, at + 4 * (buckets + index - first))[0]
        if found | 1 == key | 1:
            called, _, _, section = struct.unpack_from("<IBBH", data, symbols + 24 * index)
            start = strings + called
            if section and data[start : start + len(name) + 1] == name + b"\0":
                return True
        if found & 1:
            break
        index += 1
    return False
