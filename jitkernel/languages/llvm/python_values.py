"""Python values as a cell's values, for calls from Python.  Start from `from_python`."""

from __future__ import annotations

from typing import Any

from jitkernel.errors import UsageError
from jitkernel.ir.types import I32, I64, PTR, FloatType, Type
from jitkernel.languages.llvm import floats
from jitkernel.languages.llvm.host import Host
from jitkernel.languages.llvm.values import TypedValue, element_type, encode_int, pack

__all__ = ["from_python"]


def from_python(
    type: Type | None, thing: Any, host: Host, what: str = "the argument"
) -> TypedValue:
    """A Python value as one of type `type` (None: as a variadic argument).  Raises UsageError.

    bool, int and float for numbers; None, int, str, bytes and handles for pointers (text is copied
    with a NUL, bytes as they are); sequences for aggregates; a TypedValue as it is.
    """
    if isinstance(thing, TypedValue):
        if type is not None and thing.type != type:
            raise UsageError(f"{what} is {thing.type}, but {type} is expected")
        return thing
    if type is None:
        type = _natural(thing, what)
    layout = host.layout(type)
    if layout.kind == "int" and isinstance(thing, int):
        if not -(1 << layout.bits - 1) <= thing < 1 << layout.bits:
            raise UsageError(f"{what}: {thing} does not fit {type}")
        return TypedValue(type, encode_int(int(thing), layout.bits, layout.size), host.layout)
    if layout.kind == "float" and isinstance(thing, (int, float)) and not isinstance(thing, bool):
        try:
            bits = floats.from_number(thing, floats.FORMATS[str(type)])
        except (ValueError, KeyError) as error:
            raise UsageError(f"{what}: {error}") from None
        return TypedValue(type, bits.to_bytes(layout.size, "little"), host.layout)
    if layout.kind == "pointer":
        if thing is None:
            return TypedValue(type, bytes(8), host.layout)
        if isinstance(thing, str):
            thing = thing.encode("utf-8", "surrogateescape") + b"\0"
        if isinstance(thing, (bytes, bytearray, memoryview)):
            thing = host.allocate(bytes(thing), 16)
        elif hasattr(thing, "__index__"):  # a handle of the session's, whose number is its address
            thing = thing.__index__()
        if isinstance(thing, int) and 0 <= thing < 1 << 64:
            return TypedValue(type, int(thing).to_bytes(8, "little"), host.layout)
    if layout.kind in ("struct", "array", "vector") and isinstance(thing, (tuple, list, bytes)):
        wanted = len(layout.elements) if layout.kind == "struct" else layout.count
        if len(thing) != wanted:
            raise UsageError(f"{what}: {type} has {wanted} elements, and {len(thing)} are given")
        parts = [
            from_python(element_type(layout, i), e, host, f"{what}, element {i}").data
            for i, e in enumerate(thing)
        ]
        return TypedValue(type, pack(layout, parts), host.layout)
    raise UsageError(f"{what}: a Python {thing.__class__.__name__} cannot be {type}")


def _natural(thing: Any, what: str) -> Type:
    """The type of a variadic argument given as a Python value."""
    if isinstance(thing, int):
        if -(1 << 31) <= thing < 1 << 31:
            return I32
        return I64
    if isinstance(thing, float):
        return FloatType("double")
    if thing is None or isinstance(thing, (str, bytes, bytearray, memoryview)):
        return PTR
    raise UsageError(f"{what}: a Python {thing.__class__.__name__} needs a type")
