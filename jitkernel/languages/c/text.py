"""The text that clang is given for a cell, with `# line` directives that say of every part where it
stands: so complaints and debug information are in lines of cells.  Start from `Text`."""

from __future__ import annotations

from jitkernel.languages.c.generated import WIDE, file_name

__all__ = ["Text"]

_NEAR = 8  # lines that are


class Text:
    """The text for the cell of that number and source."""

    def __init__(self, cell: int, source: str):
        self._file, self._lines = file_name(cell), source.split("\n")
        self._parts: list[str] = []
        self._at = (0, 0)  # the cell's line and column that clang counts now; 0: another file's

    def __str__(self) -> str:
        return "".join(self._parts)

    def add(self, text: str) -> None:
        """Add what is not the cell's."""
        self._parts.append(text)
        self._at = (0, 0)

    def add_own(self, line: int, column: int, text: str, moved: bool = False) -> None:
        """Add what stands there in the cell; `moved` says that it has other columns."""
        at, behind = self._at
        if at and at < line <= at + _NEAR:
            blanks = min(column - 1, WIDE)
            self._parts.append("\n" * (line - at) + " " * blanks)
        elif at == line and behind <= column:
            self._parts.append(" " * (column - behind))
        else:
            self._parts.append(self.marker(line, column))
        self._parts.append(text)
        last = text.rpartition("\n")
        down = text.count("\n")
        plain = column <= WIDE and text.isascii() and self._lines[line - 1].isascii()
        there = line + down, (1 if down else column) + len(last[2])
        self._at = there if plain and not moved else (0, 0)

    def add_line(self, line: int, column: int, text: str) -> None:
        """Add a line that stands there in the cell, be it within another one."""
        if self._at[0] == line:
            self._at = (0, 0)
        self.add_own(line, column, f"{text}\n")

    def marker(self, line: int, column: int = 1) -> str:
        """A line that tells clang the place of what follows; it counts columns in bytes."""
        wide = min(column - 1, WIDE)
        before = self._lines[line - 1][:wide] if 0 < line <= len(self._lines) else ""
        blanks = min(len(before.encode("utf-8", "surrogateescape")), WIDE)
        return f'\n# {max(line, 1)} "{self._file}"\n' + " " * blanks
