"""Functions and variables of a session as files that need no session.  Start from `export`.

What is written goes by the file's ending; `jitkernel.portable.FORMS` lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jitkernel.elf.archive import write_archive
from jitkernel.errors import UsageError
from jitkernel.files import refuse_irregular, write_whole
from jitkernel.ir.names import shown
from jitkernel.portable import FORMS
from jitkernel.portable.building import Built, build
from jitkernel.portable.header import header
from jitkernel.portable.python_module import python_module
from jitkernel.portable.shared import shared_library
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.portable.gathering import ExportSource

_MANY = 8  # labels or names that are shown


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of `export`: the file, its bytes, the exported names, the cells whose code is in
    it.

    `variables` are those that it brings along and that can be written, `present` those of them that
    begin with the values that they had in the session.  `needs` maps names that others must bring
    to the library that has them here, "" where nobody has; `called` writes a name for the user.
    """

    path: str
    size: int
    names: tuple[str, ...]
    cells: tuple[int, ...]
    variables: tuple[str, ...]
    present: tuple[str, ...]
    needs: Mapping[str, str]
    called: Callable[[str], str] = field(default=shown, repr=False, compare=False)

    def __str__(self) -> str:
        lines = [f"{self._listed(self.names)} written to {self.path}, {self.size:,} bytes"]
        if len(self.cells) > 1:
            lines[0] += f", of {counted(len(self.cells), 'cell')}"
        first = [n for n in self.variables if n not in self.present]
        if self.present:
            lines.append(f"with their present values: {self._listed(self.present)}")
        if first:
            lines.append(f"with their first values: {self._listed(first)}")
        libraries: dict[str, list[str]] = {}
        for name, library in self.needs.items():
            libraries.setdefault(library, []).append(name)
        for library, names in sorted(libraries.items()):
            who = f"from {os.path.basename(library)}" if library else "defined by nobody here"
            lines.append(f"needs {self._listed(names)}, {who}")
        return "\n".join(lines)

    def _listed(self, names: Sequence[str]) -> str:
        return cut_list([self.called(name) for name in names], _MANY)


def _content(core: ExportSource, built: Built, form: str, path: str) -> bytes:
    """The bytes of the file, by its ending."""
    (name, ending), made = os.path.splitext(os.path.basename(path)), built.made[form]
    if ending == ".a":
        return write_archive({f"{name}.o": made})
    if ending == ".h":
        return header(core.program, built.gathered.exports, name + ending).encode()
    if ending in (".so", ".py"):
        built.refuse_missing(core.program.called)
        libraries = sorted({lib for lib in built.needs.values() if os.path.isabs(lib)})
        library = shared_library(made, f"{name}.so", libraries)
        if ending == ".so":
            return library
        return python_module(core, built.gathered.exports, library).encode()
    return made


def export(
    core: ExportSource,
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
    built = build(core, names, globals == "present", cpu, (form,))
    gathered = built.gathered
    if form != "object" and gathered.objects:
        labels = cut_list([label for label, _, _ in gathered.objects], _MANY)
        raise UsageError(f"{labels}: machine code that other compilers made has no IR")
    data = _content(core, built, form, path)
    write_whole(path, data, 0o777 if ending == ".so" else 0o666)
    return Exported(
        path, len(data), tuple(gathered.exports), gathered.cells, gathered.variables,
        gathered.present, built.needs, core.program.called,
    )  # fmt: skip
