"""What a call line says of an intrinsic's types: its name's ending and its arguments.

`@llvm.ctpop.i32(7)`, `@llvm.fptosi.sat.i64.f32(1.5)`: an overloaded intrinsic has its types in its
name (LangRef, "Intrinsic Functions").  Which forms there are only LLVM knows; here is what to try,
best first.  Start from `literal_types`.
"""

from __future__ import annotations

from jitkernel.ir.expressions import Expr, Number, Text, Word
from jitkernel.ir.keywords import FLOAT_TYPES
from jitkernel.ir.text import integer_bits

#: Results that neither the name nor the arguments tell.
RESULTS = ("void", "i1", "i32", "i64", "i8", "i16", "double", "float", "ptr")


def is_literal(expr: Expr) -> bool:
    """True if an argument is a number or a word whose type its place decides."""
    return isinstance(expr, Number) or (isinstance(expr, Word) and expr.type is None)


def literal_types(expr: Expr, named: list[str]) -> list[str]:
    """The types that a literal argument may have, best first."""
    if expr.type is not None:
        return [str(expr.type)]
    if isinstance(expr, Text) or (isinstance(expr, Word) and expr.text == "null"):
        return ["ptr"]
    if isinstance(expr, Word):
        return ["i1"] if expr.text in ("true", "false") else [*named, "i32"]
    floats = [type for type in named if type in FLOAT_TYPES]
    if isinstance(expr, Number) and expr.is_fraction:
        return [*dict.fromkeys([*floats, "double", "float"])]
    integers = [type for type in named if integer_bits(type)]
    return [*dict.fromkeys([*integers, *floats, "i32", "i64", "i1", "i8", "i16"])]


def constant_text(expr: Expr) -> str:
    """A constant in the literal's place while forms are tried: some arguments have to be one."""
    if isinstance(expr, Word):
        return expr.text
    return "" if isinstance(expr, Number) and expr.is_fraction else "0"
