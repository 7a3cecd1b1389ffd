"""The files that directives of C include.  Start from `files_of`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache

from jitkernel.errors import CompileError
from jitkernel.files import kind_of, working_folder
from jitkernel.printable import printable
from jitkernel.regex import regex

INCLUDE = regex(r'#\s*(?:include|include_next|import)\s*(?:"([^"\n]+)"|<([^>\n]+)>)')
LARGEST = 64 << 10  # bytes of a header that is followed


def refuse_others(directive: str, folders: Sequence[str], hint: str = "", beside: str = "") -> None:
    """Raise CompileError where what a directive includes is there, and is neither a file nor a
    folder, which is passed over: a device may have no end.  `beside` is the folder of the file that
    asks, the user's without."""
    for path in _looked_for(directive, beside or working_folder(), folders):
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode):
            return
        if not stat.S_ISDIR(mode):
            raise CompileError(
                f"{printable(path)} is {kind_of(mode)}, not a file: nothing is included from it"
                f"{hint}"
            )


def brings(directive: str, file: str, folders: Sequence[str]) -> bool:
    """True if a directive includes a file of the user's, directly or within others."""
    wanted = os.path.realpath(file)
    return any(os.path.realpath(path) == wanted for path, _ in files_of(directive, folders))


def is_of(directive: str, file: str, folders: Sequence[str]) -> bool:
    """True if a directive includes a file of the user's directly."""
    found = _found(directive, working_folder(), folders)
    return bool(found) and os.path.realpath(found) == os.path.realpath(file)


def files_of(directive: str, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files of the user's that a directive includes, with their texts."""
    seen = {""}
    todo = [_found(directive, working_folder(), folders)]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        text = _text(path)
        yield path, text
        for line in _includes(text):
            refuse_others(line, folders, "", os.path.dirname(path))
            todo.append(_found(line, os.path.dirname(path), folders))


def _looked_for(directive: str, beside: str, folders: Sequence[str]) -> Iterator[str]:
    """The paths that a directive may mean, the first first."""
    if match := INCLUDE.match(directive):
        for folder in ([beside] if match[1] else []) + list(folders):
            yield os.path.join(folder, match[1] or match[2])


def _found(directive: str, beside: str, folders: Sequence[str]) -> str:
    """The path of the file that a directive means, "" where there is none."""
    return next(filter(os.path.isfile, _looked_for(directive, beside, folders)), "")


@lru_cache(maxsize=256)
def _includes(text: str) -> tuple[str, ...]:
    """The directives of a header that include others."""
    return tuple(match[0] for match in INCLUDE.finditer(text))


def _text(path: str) -> str:
    try:
        status = os.stat(path)
        return _read(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _read(path: str, *now: int) -> str:
    """The text of a file, as it is `now`; of what is larger the beginning: it is not followed."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        return file.read(LARGEST + 1)
