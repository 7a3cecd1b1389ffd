"""The types of numbers of C, by their names.  Start from `number_type`.

C11 6.2.5, 6.7.2; LP64 (System V psABI, AMD64, 3.1.2).
"""

from __future__ import annotations

from functools import lru_cache

from jitkernel.values.datatype import DataType, number


def _integer(name: str, size: int, signed: bool = True) -> DataType:
    return DataType("int", name, size, size, 8 * size, signed)


def _real(name: str, size: int) -> DataType:
    made = DataType("float", name, size, size)
    made.bits = made.form.width if made.form is not None else 8 * size
    return made


#: Those to which operands are promoted, by rank; C11 6.3.1.1.
SIGNED = [_integer("int", 4), *(_integer(n, 8) for n in ("long", "long long"))]
SIGNED.append(_integer("__int128", 16))
UNSIGNED = [_integer(f"unsigned {of.name}", of.size, False) for of in SIGNED]
INT, LONG, LLONG, _ = SIGNED
UINT, ULONG, ULLONG, _ = UNSIGNED
CHAR, BOOL = _integer("char", 1), DataType("bool", "_Bool", 1, 1, 8, False)
FLOAT, DOUBLE, LONG_DOUBLE = _real("float", 4), _real("double", 8), _real("long double", 16)
FLOATS = [_real("_Float16", 2), FLOAT, DOUBLE, LONG_DOUBLE, _real("__float128", 16)]
_SMALL = [
    CHAR, _integer("signed char", 1), _integer("unsigned char", 1, False), _integer("short", 2),
    _integer("unsigned short", 2, False),
]  # fmt: skip
#: By their names as clang writes them.
NAMED = {of.name: of for of in [BOOL, *_SMALL, *SIGNED, *UNSIGNED, *FLOATS]}
_OTHERS = {
    "_Bool": "bool", "__float128": "_Float128", "signed char": "int8_t",
    "unsigned char": "uint8_t char8_t", "short": "int16_t", "unsigned short": "uint16_t char16_t",
    "int": "signed int32_t wchar_t", "unsigned int": "uint32_t char32_t",
    "long": "int64_t ssize_t ptrdiff_t intptr_t", "unsigned long": "uint64_t size_t uintptr_t",
}  # fmt: skip
_WHOLE = {"int", "signed", "unsigned", "short", "long", "__int128"}


def _words(name: str) -> tuple[str, ...]:
    """The words of a name in one order, without those that say nothing beside others."""
    found = sorted(name.split())
    if _WHOLE.issuperset(found):
        for word in ("int", "signed"):
            if word in found and len(found) > 1:
                found.remove(word)
    return tuple(found)


_BY_WORDS = {_words(of.name): of for of in (*NAMED.values(), number("c8"), number("c16"))}
_BY_WORDS |= {(word,): NAMED[name] for name, more in _OTHERS.items() for word in more.split()}


@lru_cache(maxsize=256)
def number_type(name: str) -> DataType | None:
    """The type that C's words mean in any order (`long unsigned int`), or a name of <stdint.h>'s;
    None for what is no number."""
    return _BY_WORDS.get(_words(name))
