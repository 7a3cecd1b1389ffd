"""The value of a cell's last expression, from the address that its run has left.

Start from `present`.
"""

from __future__ import annotations

from jitkernel.ir.names import decode_name
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.values import Memory, show
from jitkernel.languages.language import Known
from jitkernel.values.c import declare
from jitkernel.values.datatype import DataType, plain
from jitkernel.values.ir import ir_type
from jitkernel.values.value import LanguageValue, TypedValue

__all__ = ["present"]


def present(
    value: TypedValue, type: DataType | None, known: Known, notes: Notes
) -> TypedValue | None:
    """The value at the address that `value` is; None for nothing, or where no type is known."""
    if type is None or type.bare.kind == "void":
        return None
    address = int.from_bytes(value.data, "little")

    def name_of(address: int) -> str:
        return _name_in_c(address, known, notes)

    bare = type.bare
    if bare.kind == "function":
        name = name_of(address).removeprefix("&")
        return LanguageValue(value, None, shown=declare(type, name or "(*)"))
    data = known.read_memory(address, bare.size).ljust(bare.size, b"\0")
    text = show(type, data, Memory(known.read_memory, name_of))
    found = TypedValue(ir_type(bare), data, value.layouts)
    return LanguageValue(found, plain(bare), shown=text)


def _name_in_c(address: int, known: Known, notes: Notes) -> str:
    """An expression for an address; "" where it has no name."""
    found = known.describe(address)
    if not found.startswith("@"):
        return ""
    name, plus, offset = found[1:].partition("+")
    name = decode_name(name)
    if not name.isidentifier():
        return ""
    if plus:
        return f"(void *)((char *)&{name} + {offset})"
    note = notes.identifier(name)
    function = note.kind == "function" if note is not None else bool(known.signature(name))
    return name if function else f"&{name}"
