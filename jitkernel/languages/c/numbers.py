"""C's types of numbers as numpy calls them: the letter of the kind, and bytes.

System V ABI, LP64.  Start from `code_of`.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["code_of"]

_CODES = {
    tuple(sorted(name.split())): code
    for code, names in {
        "b1": "_Bool, bool",
        "i1": "char, signed char, int8_t",
        "u1": "unsigned char, uint8_t",
        "i2": "short, signed short, int16_t",
        "u2": "unsigned short, uint16_t",
        "i4": "int, signed, int32_t",
        "u4": "unsigned, uint32_t",
        "i8": "long, signed long, long long, signed long long, int64_t, ssize_t, ptrdiff_t, "
        "intptr_t",
        "u8": "unsigned long, unsigned long long, uint64_t, size_t, uintptr_t",
        "f2": "_Float16",
        "f4": "float",
        "f8": "double",
        "f16": "long double",
        "c8": "float _Complex",
        "c16": "double _Complex",
    }.items()
    for name in names.split(", ")
}


def code_of(words: Iterable[str]) -> str:
    """The code of a type by its words, in any order, or by a header's name; "" for any other."""
    found = sorted(words)
    if len(found) > 1 and "int" in found:  # `long int` is `long`
        found.remove("int")
    return _CODES.get(tuple(found), "")
