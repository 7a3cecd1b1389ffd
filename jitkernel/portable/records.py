"""What an export has written.  Start from `Exported`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jitkernel.ir.names import shown
from jitkernel.wording import counted, cut_list

__all__ = ["Exported"]

_MANY = 8  # names that are shown


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
