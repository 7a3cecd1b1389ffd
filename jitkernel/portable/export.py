"""Functions and variables of a session as files that need no session.  Start from `export`.

What is written goes by the file's ending; `jitkernel.portable.FORMS` lists them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

from jitkernel.elf.archive import write_archive
from jitkernel.errors import UsageError
from jitkernel.files import refuse_irregular, write_whole
from jitkernel.portable import FORMS
from jitkernel.portable.building import Built, build
from jitkernel.portable.gathering import ExportSource
from jitkernel.portable.header import header
from jitkernel.portable.python_module import python_module
from jitkernel.portable.records import Exported
from jitkernel.portable.shared import shared_library
from jitkernel.wording import cut_list

__all__ = ["export"]

_MANY = 8  # labels that are shown


def _content(home: ExportSource, built: Built, form: str, path: str) -> bytes:
    """The bytes of the file, by its ending."""
    (name, ending), made = os.path.splitext(os.path.basename(path)), built.made[form]
    if ending == ".a":
        return write_archive({f"{name}.o": made})
    if ending == ".h":
        return header(home.program, built.gathered.exports, name + ending).encode()
    if ending in (".so", ".py"):
        built.refuse_missing()
        libraries = sorted({lib for lib in built.needs.values() if os.path.isabs(lib)})
        library = shared_library(made, f"{name}.so", libraries)
        if ending == ".so":
            return library
        return python_module(home, built.gathered.exports, library).encode()
    return made


def export(
    home: ExportSource,
    names: Iterable[str],
    path: str,
    globals: Literal["present", "first"],
    cpu: str,
) -> Exported:
    """Write functions and variables to a file with all that they need; see `Session.export`."""
    ending = os.path.splitext(path)[1]
    if ending not in FORMS:
        known = ", ".join(f"{e} ({what})" for e, (what, _) in FORMS.items())
        raise UsageError(f"{path}: the ending says what is written: {known}")
    if globals not in ("present", "first"):
        raise UsageError(f"globals are 'present' or 'first', not {globals!r}")
    refuse_irregular(path)
    form = FORMS[ending][1]
    built = build(home, names, globals == "present", cpu, (form,))
    gathered = built.gathered
    if form != "object" and gathered.objects:
        labels = cut_list([label for label, _, _ in gathered.objects], _MANY)
        raise UsageError(f"{labels}: machine code that other compilers made has no IR")
    data = _content(home, built, form, path)
    write_whole(path, data, 0o777 if ending == ".so" else 0o666)
    return Exported(
        path, len(data), tuple(gathered.exports), gathered.cells, gathered.variables,
        gathered.present, built.needs, home.program.called,
    )  # fmt: skip
