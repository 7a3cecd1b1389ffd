"""Types as rows that JSON can have: they travel with functions.  Start from `row_of`."""

from __future__ import annotations

from typing import Any

from jitkernel.values.datatype import DataType, Member

_DEEPEST, _LARGEST = 32, 1 << 33  # types in types; bits and bytes
_NUMBERS = ("int", "bool", "float", "complex")


def row_of(type: DataType) -> list[Any]:
    """A row of what Python sees of a type (`plain`), that `read_type` takes."""
    members = [[m.name, row_of(m.type), m.offset, m.bits, m.shift] for m in type.members]
    element = type.element and row_of(type.element)
    name = type.name if type.kind in _NUMBERS else ""
    return [type.kind, name, type.size, type.bits, type.signed, element, type.count, members]


def read_type(row: Any, depth: int = 0, bits: int = 0) -> DataType:
    """The inverse; of a bit-field's type with so many `bits`.  Raises ValueError or TypeError for
    what is no such row."""
    kind, name, size, width, signed, element, count, members = row
    if depth > _DEEPEST or not all(_is_size(n) for n in (size, width, count)):
        raise ValueError(f"{row!r} are no sizes")
    if not isinstance(name, str) or (signed is not None and type(signed) is not bool):
        raise TypeError(f"{row!r} is no type")
    of = element and read_type(element, depth + 1)
    made = tuple([_member(*member, depth=depth + 1) for member in members])
    found = DataType(kind, name, size, 1, width, signed, of, count, made)
    within = all(m.offset <= size - m.type.size and m.name for m in made)
    good = {
        "int": 0 < width <= 8 * size and (bits or width == 8 * size),
        "bool": 0 < width <= 8 * size and (bits or width == 8),
        "float": found.form is not None and width == found.form.width and width <= 8 * size,
        "complex": found.form is not None and width == 8 * size and size >= found.form.width // 4,
        "pointer": (size, width) == (8, 64),
        "array": of is not None and count * of.size == size,
        "vector": of is not None and of.bits == 8 * of.size and count * of.size <= size,
        "struct": within,
        "bytes": width <= 8 * size and within,
    }
    if not good.get(kind):
        raise ValueError(f"{row!r} is no type")
    return found


def _member(name: Any, row: Any, offset: Any, bits: Any, shift: Any, *, depth: int) -> Member:
    if not isinstance(name, str) or not all(_is_size(n) for n in (offset, bits, shift)):
        raise TypeError(f"{name!r} is no member")
    type = read_type(row, depth, bits)
    if bits and (type.bits != bits or shift + bits > 8 * type.size):
        raise ValueError(f"{name!r} is no bit-field")
    return Member(name, type, offset, bits, shift)


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
