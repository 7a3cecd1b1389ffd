"""Functions and variables of a session as files that need no session.  Start from `export`.

What is written goes by the file's ending; `FORMS` lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Literal

from jitkernel.elf.archive import write_archive
from jitkernel.errors import UsageError
from jitkernel.files import refuse_irregular, write_whole
from jitkernel.portable.building import Built, build
from jitkernel.portable.gathering import Home
from jitkernel.portable.header import header
from jitkernel.portable.python_module import python_module
from jitkernel.portable.records import Exported
from jitkernel.portable.shared import shared_library
from jitkernel.wording import cut_list

__all__ = ["FORMS", "export"]

_MANY = 8  # labels that are shown


def _object(home: Home, built: Built, path: str) -> bytes:
    return built.made["object"]


def _archive(home: Home, built: Built, path: str) -> bytes:
    member = os.path.basename(path).removesuffix(".a") + ".o"
    return write_archive({member: built.made["object"]})


def _shared(home: Home, built: Built, path: str) -> bytes:
    built.refuse_missing()
    libraries = sorted({lib for lib in built.needs.values() if os.path.isabs(lib)})
    return shared_library(built.made["object"], os.path.basename(path), libraries)


def _header(home: Home, built: Built, path: str) -> bytes:
    return header(home.program, built.gathered.exports, os.path.basename(path)).encode()


def _python(home: Home, built: Built, path: str) -> bytes:
    library = _shared(home, built, os.path.basename(path).removesuffix(".py") + ".so")
    return python_module(home, built.gathered.exports, library).encode()


def _text(home: Home, built: Built, path: str) -> bytes:
    return built.made["text"]


def _bitcode(home: Home, built: Built, path: str) -> bytes:
    return built.made["bitcode"]


#: by ending: what the file is, what makes it, and the form of the modules that it takes
FORMS: dict[str, tuple[str, Callable[[Home, Built, str], bytes], str]] = {
    ".o": ("a relocatable object", _object, "object"),
    ".a": ("a static archive", _archive, "object"),
    ".so": ("a shared library", _shared, "object"),
    ".h": ("a header for C", _header, "object"),
    ".ll": ("LLVM IR", _text, "text"),
    ".bc": ("LLVM bitcode", _bitcode, "bitcode"),
    ".py": ("a Python module", _python, "object"),
}


def export(
    home: Home, names: Iterable[str], path: str, globals: Literal["present", "first"], cpu: str
) -> Exported:
    """Write functions and variables to a file with all that they need; see `Session.export`."""
    ending = os.path.splitext(path)[1]
    if ending not in FORMS:
        known = ", ".join(f"{e} ({what})" for e, (what, _, _) in FORMS.items())
        raise UsageError(f"{path}: the ending says what is written: {known}")
    if globals not in ("present", "first"):
        raise UsageError(f"globals are 'present' or 'first', not {globals!r}")
    refuse_irregular(path)
    _, make, form = FORMS[ending]
    built = build(home, names, globals == "present", cpu, (form,))
    gathered = built.gathered
    if form != "object" and gathered.objects:
        labels = cut_list([label for label, _, _ in gathered.objects], _MANY)
        raise UsageError(f"{labels}: machine code that other compilers made has no IR")
    data = make(home, built, path)
    write_whole(path, data, 0o777 if ending == ".so" else 0o666)
    return Exported(
        path, len(data), tuple(gathered.exports), gathered.cells, gathered.variables,
        gathered.present, built.needs, home.program.called,
    )  # fmt: skip
