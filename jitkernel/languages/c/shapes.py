"""What bytes of a type of C's are to Python: signs, members.  Start from `shape_of`."""

from __future__ import annotations

from jitkernel.languages.c.types import CType
from jitkernel.languages.shapes import Part, Shape

__all__ = ["number", "shape_of"]

_DEEPEST = 20  # structs in structs
_SIGNS = {"signed": "i", "signed_char": "i", "unsigned": "u", "unsigned_char": "u"}


def number(code: str) -> Shape:
    """The shape of one of numpy's numbers."""
    return Shape("number", int(code[1:]), code)


def shape_of(type: CType, depth: int = 0) -> Shape:
    """The shape that bytes of a type have for Python."""
    bare = type.bare
    ends = [(m.offset + (m.bits or 8 * m.type.bare.size) + 7) // 8 for m in bare.members]
    unknown = Shape("bytes", bare.size, count=max(ends, default=0))
    if depth > _DEEPEST:
        return unknown
    match bare.kind:
        case "base":
            return _basic(bare)
        case "enum":
            return number(f"{'u' if bare.unsigned else 'i'}{bare.size}")
        case "pointer" | "function":
            return Shape("pointer", 8)
        case "array" | "vector" if bare.of is not None and -1 not in bare.counts:
            inner, counts = shape_of(bare.of, depth + 1), bare.counts
            of = bare.of.bare
            if bare.kind == "array" and of.kind == "base" and of.name == "char":
                inner, counts = Shape("text", counts[-1]), counts[:-1]
            for count in reversed(counts):
                inner = Shape("array", count * inner.size, count=count, inner=inner)
            return inner
        case "struct" if bare.complete:
            return Shape("struct", bare.size, parts=_parts(bare, depth))
    return unknown


def _parts(type: CType, depth: int) -> tuple[Part, ...]:
    """The members; those of a member without a name are the struct's own.  C11 6.7.2.1."""
    parts: list[Part] = []
    names = {member.name for member in type.members}

    def add(name: str, at: int, shape: Shape) -> None:
        number = len(parts)
        while not name or any(part.name == name for part in parts):
            name = f"f{number}" if f"f{number}" not in names else ""
            number += 1
        parts.append(Part(name, at, shape))

    for member in type.members:
        shape, at = shape_of(member.type, depth + 1), member.offset // 8
        if member.bits:
            shift = member.offset % 8
            size = (shift + member.bits + 7) // 8
            shape = Shape("bits", size, shape.code, member.bits, shift=shift)
        if not member.name and shape.kind == "struct":
            for part in shape.parts:
                add(part.name, at + part.offset, part.shape)
        else:
            add(member.name, at, shape)
    return tuple(parts)


def _basic(type: CType) -> Shape:
    size, encoding = type.size, type.encoding
    if encoding == "boolean":
        return number("b1")
    if encoding == "null":
        return Shape("pointer", 8)
    if encoding == "float" and (size in (4, 8) or type.name in ("long double", "_Float16")):
        return number(f"f{size}")
    if encoding == "complex_float" and size in (8, 16):
        return number(f"c{size}")
    if encoding in _SIGNS and size in (1, 2, 4, 8, 16):
        return number(f"{_SIGNS[encoding]}{size}")
    return Shape("bytes", size)
