"""Libraries by name, as a linker finds them: `-lz` is `libz.so` or `libz.a` in one of its folders.

Start from `find_library`.  Sources: ld(1), `-l` and "Implicit Linker Scripts"; gcc(1),
LIBRARY_PATH.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from jitkernel.elf.archive import is_archive
from jitkernel.errors import UsageError
from jitkernel.files import read_bytes
from jitkernel.regex import regex

#: What ld looks through on x86-64 (`ld --verbose`, SEARCH_DIR), Debian's and others'.
_FOLDERS = (
    "/usr/local/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
    "/usr/local/lib64", "/lib64", "/usr/lib64", "/usr/local/lib", "/lib", "/usr/lib",
)  # fmt: skip
_SCRIPT = 1 << 16  # bytes of a linker's script, at most
_COMMENT = regex(r"/\*.*?\*/", re.DOTALL)
_INPUT = regex(r"(?:GROUP|INPUT)\s*\(((?:[^()]|\([^()]*\))*)\)")
_VERSION = regex(r"\d+")


def folders() -> list[str]:
    """The folders where libraries are looked for: LIBRARY_PATH, LD_LIBRARY_PATH, the system's."""
    named = [os.environ.get(name, "") for name in ("LIBRARY_PATH", "LD_LIBRARY_PATH")]
    return [f for f in ":".join(named).split(":") if f] + list(_FOLDERS)


def find_library(name: str, where: Sequence[str] | None = None) -> list[str]:
    """The files that `-lNAME` (or `-l:FILE`) stands for: one, or those that a linker's script has.

    Each folder is asked for `libNAME.so`, then `libNAME.a`; where no folder has one of these, which
    are made for linking, for the latest `libNAME.so.N`.  Raises UsageError where there is none.
    """
    wanted = name.removeprefix("-l")
    where = folders() if where is None else where
    files = [wanted[1:]] if wanted[:1] == ":" else [f"lib{wanted}.so", f"lib{wanted}.a"]
    for folder in where:
        for file in files:
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                return _named_by(path, where)
    found = [p for folder in where for p in _versions(folder, f"lib{wanted}.so.")]
    if wanted and not wanted.startswith(":") and found:
        return [max(found, key=_version)]
    raise UsageError(
        f"-l{wanted}: no folder has {' or '.join(files)}; looked in {', '.join(where)}. "
        "LIBRARY_PATH adds folders, and a file can be named by its path"
    )


def _versions(folder: str, prefix: str) -> list[str]:
    try:
        return [os.path.join(folder, f) for f in os.listdir(folder) if f.startswith(prefix)]
    except OSError:
        return []


def _version(path: str) -> list[int]:
    return [int(n) for n in _VERSION.findall(os.path.basename(path).rpartition(".so.")[2])]


def _named_by(path: str, where: Sequence[str]) -> list[str]:
    """The files that a file stands for: itself, or where it is a linker's script, those in it."""
    if os.path.getsize(path) > _SCRIPT:
        return [path]
    data = read_bytes(path)
    if data[:4] == b"\x7fELF" or is_archive(data):
        return [path]
    text = _COMMENT.sub(" ", data.decode("utf-8", "replace"))
    words = [w for m in _INPUT.finditer(text) for w in re.split(r"[\s(),]+", m[1])]
    found: list[str] = []
    for word in words:
        if word.startswith("-l"):
            found += find_library(word, where)
        elif word and word != "AS_NEEDED" and not os.path.basename(word).startswith("ld-linux"):
            beside = os.path.join(os.path.dirname(path), word)
            found.append(next((p for p in (word, beside) if os.path.isfile(p)), word))
    if not found:
        raise UsageError(f"{path} is neither a library nor a linker's script that names one")
    shared = [f for f in found if not f.endswith(".a")]
    return shared or found  # what an archive beside a shared library is for, programs need
