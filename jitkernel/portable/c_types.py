"""What IR types are in C, where a call of one reaches the other: the psABI's classes agree.

Start from `c_type` and `prototype`.  What has no equivalent in C raises `NoEquivalent`.
"""

from __future__ import annotations

import re

from jitkernel.ir.types import (
    ArrayType,
    FunctionType,
    IntType,
    Type,
    parse_type,
)
from jitkernel.session.program.signatures import Signature, Variable, attributes_of
from jitkernel.values.c import type_in_c

__all__ = ["NoEquivalent", "c_type", "check_callable", "is_c_name", "prototype", "variable"]

_EXTENDED = ("signext", "zeroext", "noundef")
_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while _Bool _Complex bool true false class new delete this "
    "template typename namespace operator public private protected virtual".split()
)


class NoEquivalent(ValueError):
    """C has nothing that is passed so."""


def c_type(type: Type, unsigned: bool = False) -> str:
    """The type of a parameter or a result in C.  Raises NoEquivalent."""
    found = "" if isinstance(type, ArrayType) else type_in_c(type, header=True)
    if not found:
        raise NoEquivalent(f"C has no type that is passed as {type} is")
    if unsigned and isinstance(type, IntType) and type.bits > 1:
        return f"unsigned {found}" if type.bits == 128 else f"u{found}"
    return found


def check_callable(signature: Signature) -> None:
    """Raise NoEquivalent where C's convention is another one."""
    if signature.convention not in ("", "ccc"):
        raise NoEquivalent(f"its calling convention is {signature.convention}")
    result, parameters = attributes_of(signature.attributes)
    for words in (result, *parameters.values()):
        other = [w for w in words.split() if w not in _EXTENDED]
        if other:
            raise NoEquivalent(f"it passes a value as {other[0]}")


def prototype(name: str, signature: Signature) -> str:
    """`int32_t sq(int32_t)`.  Raises NoEquivalent."""
    check_callable(signature)
    function: FunctionType = signature.function
    result, on = attributes_of(signature.attributes)
    parameters = [c_type(p, "zeroext" in on.get(i, "")) for i, p in enumerate(function.parameters)]
    if function.variadic:
        if not parameters:
            raise NoEquivalent("C has no function that takes any arguments and no first one")
        parameters.append("...")
    returned = c_type(function.result, "zeroext" in result)
    if function.result == IntType(1) and "zeroext" not in result:
        returned = "uint8_t"  # of which bit 0 counts
    space = "" if returned.endswith("*") else " "
    return f"{returned}{space}{name}({', '.join(parameters) or 'void'})"


def variable(name: str, info: Variable) -> str:
    """`extern int32_t table[4]`.  Raises NoEquivalent."""
    type, bounds = parse_type(info.shown), ""
    while isinstance(type, ArrayType):
        bounds += f"[{type.count}]"
        type = type.element
    const = "const " if info.constant else ""
    spelled = c_type(type)
    if spelled.endswith("*") and const:
        return f"extern {spelled}const {name}{bounds}"
    space = "" if spelled.endswith("*") else " "
    return f"extern {const}{spelled}{space}{name}{bounds}"


def is_c_name(name: str) -> bool:
    """True if C can call it by its name."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and name not in _KEYWORDS
