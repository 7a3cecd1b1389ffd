"""What an export has written.  Start from `Exported`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jitkernel.ir.names import written
from jitkernel.wording import counted, cut_list

__all__ = ["Exported"]

_MANY = 8  # names that are shown


@dataclass(frozen=True, slots=True)
class Exported:
    """What `export` has written: the file, its bytes, the exported names, the cells whose code is
    in it.

    `variables` are those that it brings along and that can be written, `present` those of them that
    begin with the values that they had in the session.  `needs` maps names that others must bring
    to the library that has them here, "" where nobody has.
    """

    path: str
    size: int
    names: tuple[str, ...]
    cells: tuple[int, ...]
    variables: tuple[str, ...]
    present: tuple[str, ...]
    needs: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"{_shown(self.names)} written to {self.path}, {self.size:,} bytes"]
        if len(self.cells) > 1:
            lines[0] += f", of {counted(len(self.cells), 'cell')}"
        first = [n for n in self.variables if n not in self.present]
        if self.present:
            lines.append(f"with their present values: {_shown(self.present)}")
        if first:
            lines.append(f"with their first values: {_shown(first)}")
        libraries: dict[str, list[str]] = {}
        for name, library in self.needs.items():
            libraries.setdefault(library, []).append(name)
        for library, names in sorted(libraries.items()):
            who = f"from {os.path.basename(library)}" if library else "defined by nobody here"
            lines.append(f"needs {_shown(names)}, {who}")
        return "\n".join(lines)


def _shown(names: Sequence[str]) -> str:
    return cut_list([written(n) for n in names], _MANY)
