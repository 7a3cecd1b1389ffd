"""The value of a cell's last expression, from the address that its run has left.

Start from `present`.
"""

from __future__ import annotations

from jitkernel.ir.names import decode_name
from jitkernel.ir.types import PointerType, Type
from jitkernel.languages.c.foreign import type_in_ir
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.shapes import shape_of
from jitkernel.languages.c.types import CType
from jitkernel.languages.c.values import Memory, show
from jitkernel.languages.language import Known
from jitkernel.languages.shapes import Shape, Shaped
from jitkernel.values.value import TypedValue

__all__ = ["CValue", "present"]


class CValue(Shaped):
    """A value with the text that C has for it."""

    __slots__ = ("shown",)
    shown: str

    def __init__(
        self, value: TypedValue, type: Type, data: bytes, shown: str, shape: Shape | None = None
    ):
        super().__init__(TypedValue(type, data, value.layouts), shape)
        object.__setattr__(self, "shown", shown)


def present(value: TypedValue, type: CType | None, known: Known, notes: Notes) -> TypedValue | None:
    """The value at the address that `value` is; None for nothing, or where no type is known."""
    if type is None or type.bare.kind == "void":
        return None
    address = int.from_bytes(value.data, "little")

    def name_of(address: int) -> str:
        return _name_in_c(address, known, notes)

    bare = type.bare
    if bare.kind == "function":
        name = name_of(address).removeprefix("&")
        return CValue(value, PointerType(), value.data, type.declare(name or "(*)"))
    data = known.read_memory(address, bare.size).ljust(bare.size, b"\0")
    text = show(type, data, Memory(known.read_memory, name_of))
    return CValue(value, type_in_ir(bare), data, text, shape_of(bare))


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
