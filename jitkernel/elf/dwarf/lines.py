"""Which line each stretch of code comes from.  Start from `read_lines`.

The line number programs of `.debug_line`: DWARF 5, section 6.2, and versions 2 to 4 alike.  The
addresses are where the code is placed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jitkernel.elf.cursor import Cursor

__all__ = ["Lines", "Row", "read_lines"]

_PATH, _DIRECTORY = 1, 2  # DW_LNCT_path, DW_LNCT_directory_index
#: Bytes of forms of fixed size: DW_FORM_data1, 2, 4, 8, 16.
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}


class Row(NamedTuple):
    """A stretch of code, from address `start` to before `stop`, of a `line` (0: of none).

    `is_stmt` where a statement begins, `prologue_end` where a breakpoint on its function belongs.
    """

    start: int
    stop: int
    line: int
    file: str
    is_stmt: bool = True
    prologue_end: bool = False
    column: int = 0


class Lines:
    """The rows of an object by address, and the names of files of each program by its offset in
    `.debug_line`.

    `merged` are stretches of one line: what has no line belongs to the line before it.
    """

    def __init__(self, rows: list[Row], files: dict[int, list[str]]):
        self.rows, self.files = sorted(rows), files
        self.merged = _merged(self.rows)
        self._starts = [row.start for row in self.merged]

    def row(self, pc: int) -> Row | None:
        """The stretch of one line that an address is in."""
        at = bisect_right(self._starts, pc) - 1
        return self.merged[at] if at >= 0 and pc < self.merged[at].stop else None

    def between(self, low: int, high: int) -> list[Row]:
        """The rows that begin from `low` on, before `high`."""
        first = bisect_right(self.rows, (low,))
        found = []
        for index in range(first, len(self.rows)):
            if self.rows[index].start >= high:
                break
            found.append(self.rows[index])
        return found


def _merged(rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        if found:
            last = found[-1]
            same = row.line == 0 or (row.line, row.file) == (last.line, last.file)
            if row.start == last.stop and same:
                is_stmt = last.is_stmt or (row.is_stmt and row.line != 0)
                found[-1] = last._replace(stop=row.stop, is_stmt=is_stmt)
                continue
        found.append(row)
    return found


def read_lines(sections: Mapping[str, bytes]) -> Lines:
    """All rows that the sections have."""
    data = sections.get(".debug_line", b"")
    rows: list[Row] = []
    files: dict[int, list[str]] = {}
    at = 0
    while at + 4 <= len(data):
        program = _Program(data, at, sections)
        files[at] = program.files
        rows += program.run()
        at = program.end
    return Lines(rows, files)


class _Program:
    """One program: its header, then what it does."""

    def __init__(self, data: bytes, start: int, sections: Mapping[str, bytes]):
        self.cursor = r = Cursor(data, start)
        size, self.word = r.fixed(4), 4
        if size == 0xFFFFFFFF:  # the 64-bit format, 7.4
            size, self.word = r.fixed(8), 8
        self.end = r.at + size
        self.version = r.fixed(2)
        if self.version >= 5:
            r.fixed(2)  # sizes of addresses and of segment selectors
        header = r.fixed(self.word)
        self.begin = r.at + header
        self.minimum = r.fixed(1)
        if self.version >= 4:
            r.fixed(1)  # operations in an instruction: 1
        self.default_is_stmt = bool(r.fixed(1))
        self.line_base, self.line_range = r.fixed(1, signed=True), r.fixed(1)
        self.opcode_base = r.fixed(1)
        self.lengths = r.bytes(self.opcode_base - 1)
        self.sections = sections
        self.files = self._entries() if self.version >= 5 else self._names()

    def _names(self) -> list[str]:
        """The files' names by number; 0 is none.  DWARF 4, 6.2.4."""
        r, folders = self.cursor, [""]
        while r.data[r.at]:
            folders.append(r.text())
        r.at += 1
        files = [""]
        while r.data[r.at]:
            name, folder = r.text(), r.uleb()
            r.uleb()  # time
            r.uleb()  # size
            files.append(_joined(folders, folder, name))
        return files

    def _entries(self) -> list[str]:
        """The files' names by number.  DWARF 5, 6.2.4.1."""
        folders = [name for name, _ in self._table()]
        folders[:1] = [""]  # the first is where the compiler ran
        return [_joined(folders, folder, name) for name, folder in self._table()]

    def _table(self) -> list[tuple[str, int]]:
        r = self.cursor
        formats = [(r.uleb(), r.uleb()) for _ in range(r.fixed(1))]
        found = []
        for _ in range(r.uleb()):
            name, folder = "", 0
            for kind, form in formats:
                value = self._value(form)
                if kind == _PATH:
                    name = str(value)
                elif kind == _DIRECTORY and isinstance(value, int):
                    folder = value
            found.append((name, folder))
        return found

    def _value(self, form: int) -> str | int:
        r = self.cursor
        match form:
            case 0x08:  # DW_FORM_string
                return r.text()
            case 0x1F | 0x0E:  # DW_FORM_line_strp, DW_FORM_strp
                name = ".debug_line_str" if form == 0x1F else ".debug_str"
                return Cursor(self.sections.get(name, b"\0"), r.fixed(self.word)).text()
            case 0x0F:  # DW_FORM_udata
                return r.uleb()
            case 0x09:  # DW_FORM_block
                r.bytes(r.uleb())
                return 0
        if form not in _FIXED:
            raise ValueError(f"the line table has a field of form {form:#x}, which is not known")
        return r.fixed(_FIXED[form])

    def run(self) -> Iterator[Row]:
        """The rows, in the program's order."""
        r, base, span, count = self.cursor, self.line_base, self.line_range, len(self.files)
        opcode_base, minimum, data = self.opcode_base, self.minimum, self.cursor.data
        r.at = self.begin
        self._reset()
        before: Row | None = None
        while r.at < self.end:
            opcode = data[r.at]
            r.at += 1
            ends = False
            if opcode >= opcode_base:
                self.address += (opcode - opcode_base) // span * minimum
                self.line += base + (opcode - opcode_base) % span
            elif opcode == 0:
                if not (ends := self._extended()):
                    continue
            elif opcode != 1:  # all but DW_LNS_copy
                self._standard(opcode)
                continue
            # A row ends where the next one begins; of several at one address the last one counts.
            address = self.address
            if before is not None:
                if address > before.start:
                    yield before._replace(stop=address)
                elif before.prologue_end:
                    self.prologue_end = True
            if ends:
                self._reset()
                before = None
                continue
            name = self.files[self.file] if self.file < count else ""
            before = Row(
                address, address, self.line, name, self.is_stmt, self.prologue_end, self.column
            )
            self.prologue_end = False

    def _reset(self) -> None:
        """The state at the beginning of a sequence; 6.2.2."""
        self.address, self.line, self.file, self.column = 0, 1, 1, 0
        self.is_stmt, self.prologue_end = self.default_is_stmt, False

    def _extended(self) -> bool:
        """An extended opcode, 6.2.5.3; True at the end of a sequence."""
        r = self.cursor
        size = r.uleb()
        after, opcode = r.at + size, r.fixed(1)
        if opcode == 2:  # DW_LNE_set_address
            self.address = r.fixed(size - 1)
        r.at = after
        return opcode == 1  # DW_LNE_end_sequence

    def _standard(self, opcode: int) -> None:
        """A standard opcode; 6.2.5.2."""
        r = self.cursor
        match opcode:
            case 2:  # DW_LNS_advance_pc
                self.address += r.uleb() * self.minimum
            case 3:  # DW_LNS_advance_line
                self.line += r.sleb()
            case 4:  # DW_LNS_set_file
                self.file = r.uleb()
            case 5:  # DW_LNS_set_column
                self.column = r.uleb()
            case 6:  # DW_LNS_negate_stmt
                self.is_stmt = not self.is_stmt
            case 8:  # DW_LNS_const_add_pc
                self.address += (255 - self.opcode_base) // self.line_range * self.minimum
            case 9:  # DW_LNS_fixed_advance_pc
                self.address += r.fixed(2)
            case 10:  # DW_LNS_set_prologue_end
                self.prologue_end = True
            case _:
                for _ in range(self.lengths[opcode - 1]):
                    r.uleb()


def _joined(folders: list[str], folder: int, name: str) -> str:
    """A file's name; in the folder where the compiler ran it stands alone."""
    above = folders[folder] if folder < len(folders) else ""
    return f"{above}/{name}" if above and not name.startswith("/") else name
