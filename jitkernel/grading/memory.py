"""What a pointer argument leads to, as bytes: arrays, texts and structs.  Start from `encode`.

Fields lie where C and LLVM put them on x86-64: each at a multiple of its own size, the whole as
long as its widest field asks for (psABI 3.1.2).  What a function leaves between fields is nobody's.
"""

from __future__ import annotations

import struct
from typing import Any

from jitkernel.grading.inputs import MOST, Kind

__all__ = ["capacity", "decode", "encode"]

_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}


def encode(kind: Kind, value: Any) -> bytes:
    """The bytes of an argument's memory; text with its NUL."""
    if kind.name == "text":
        return str(value).encode() + b"\0"
    if kind.name == "struct":
        return _struct(kind).pack(*value)
    return b"".join(_one(kind.element, element) for element in value)


def decode(kind: Kind, data: bytes) -> Any:
    """The value that `data` holds: a text, a struct as a tuple, a list of elements."""
    if kind.name == "text":
        return data.partition(b"\0")[0].decode("utf-8", "replace")
    if kind.name == "struct":
        return _struct(kind).unpack(data)
    form = _struct(kind.element)
    rows = list(form.iter_unpack(data))
    return rows if kind.fields else [value for (value,) in rows]


def capacity(kind: Kind) -> int:
    """The most bytes that a drawn value takes."""
    if kind.name == "text":
        return 4 * MOST + 1
    return _struct(kind).size if kind.name == "struct" else MOST * _struct(kind.element).size


def _one(kind: Kind, value: Any) -> bytes:
    return _struct(kind).pack(*(value if kind.name == "struct" else (value,)))


def _struct(kind: Kind) -> struct.Struct:
    """The format of a number, or of a struct with its padding."""
    form, at, widest = "<", 0, 1
    for field in kind.fields or (kind,):
        size = field.bits // 8
        gap = -at % size
        letter = ("f" if size == 4 else "d") if field.name == "float" else _INTEGERS[field.bits]
        form += f"{gap}x{letter}" if gap else letter
        at, widest = at + gap + size, max(widest, size)
    tail = -at % widest
    return struct.Struct(f"{form}{tail}x" if tail else form)
