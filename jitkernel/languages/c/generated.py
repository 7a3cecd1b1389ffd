"""What clang is given around the user's text: names, functions that run once, and `# line`
directives that say of every part where it stands: so complaints and debug information are in lines
of cells.  Start from `Text` and `value_function`."""

from __future__ import annotations

from jitkernel.record import record
from jitkernel.regex import regex
from jitkernel.values.datatype import DataType
from jitkernel.values.debug_info import Types

#: What names begin with that are no program's.
OWN = "__jk_"
#: Columns that are filled with blanks so that clang counts as the cell does.
WIDE = 1000
_NEAR = 8  # lines that are passed by ends of lines, without a directive
VALUE, LENGTH, PLAIN = "__jk_value", "__jk_length", "__jk_plain"
_TYPE = "__jk_type"
_OWNER = regex(rf"# {OWN}(\d+)")
_KEPT = f"__attribute__((unused)) {OWN}T *{_TYPE};\n"

#: What stands before and behind what is no function's but for us: GCC's name for it.
_NAMES = ("__func__", "__FUNCTION__", "__PRETTY_FUNCTION__")
TOP_LEVEL = "".join(f'\n#define {name} "top level"' for name in _NAMES)
FUNCTION_LEVEL = "".join(f"\n#undef {name}" for name in _NAMES) + "\n"


def file_name(cell: int) -> str:
    """The name of a cell's file that clang is told."""
    return f"cell {cell}"


def assembly_of(cell: int) -> str:
    """Assembly that says that what follows it outside of functions is a cell's."""
    return f'__asm__("# {OWN}{cell}");'


def owner_of(assembly: str) -> int:
    """The cell that assembly says it is of, and what follows it; 0 where it says nothing."""
    found = _OWNER.search(assembly)
    return int(found[1]) if found is not None else 0


@record
class Part:
    """A piece of a function that runs once: text, and its place in the cell where it has one."""

    text: str
    line: int = 0
    column: int = 1
    last_line: int = 0
    label: str = ""


class Text:
    """The text for clang for the cell of that number and source."""

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


def value_function(value: str, bit_field: bool, temporary: bool, once: bool) -> str:
    """A function that gives the address of an expression's value.

    What a statement expression gives decays as an operand does; so a value has the type of an
    operand or, where that is an array or a function, an address.  `once`: it declares a type, and
    so cannot be written several times.
    """
    if once:
        return (
            f"{TOP_LEVEL}\nvoid *{VALUE}(void) {{\n__auto_type {OWN}v = {value};\n"
            f"typedef __typeof__({OWN}v) {OWN}T;\n{_KEPT}static {OWN}T {OWN}out;\n"
            f"__builtin_memcpy(&{OWN}out, &{OWN}v, sizeof {OWN}out);\nreturn &{OWN}out;\n}}\n"
        )
    type = f"__typeof_unqual__({f'({{ {value}; }})' if bit_field else value})"
    head = f"{TOP_LEVEL}\nvoid *{VALUE}(void) {{\ntypedef {type} {OWN}T;\n{_KEPT}"
    if temporary:
        return (
            f"{head}static _Alignas(16) char {OWN}out[sizeof({OWN}T)];\n"
            f"__builtin_memcpy({OWN}out, {value}, sizeof {OWN}out);\nreturn {OWN}out;\n}}\n"
        )
    void = f"__builtin_types_compatible_p({OWN}T, void)"
    chosen = f"__builtin_choose_expr({void}, ((void){value}, 0), {value})"
    return (
        f"{head}__typeof_unqual__(((void)0, {chosen})) {OWN}v = {chosen};\n"
        f"static __typeof__({OWN}v) {OWN}out;\n"
        f"__builtin_memcpy(&{OWN}out, &{OWN}v, sizeof {OWN}out);\n"
        f"return __builtin_choose_expr(__builtin_types_compatible_p({OWN}T, "
        f"__typeof__({OWN}v)), (void *)&{OWN}out, *(void **)(void *)&{OWN}out);\n}}\n"
    )


def value_type(types: Types) -> DataType | None:
    """The type of the value that such a function gives, where it is there."""
    pointer = types.local(_TYPE)
    found = pointer.element if pointer is not None else None
    while found is not None and found.kind == "typedef" and found.name == f"{OWN}T":
        found = found.element
    return found
