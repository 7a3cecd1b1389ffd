"""What a call line says of an intrinsic's types: its name's ending and its arguments.

`@llvm.ctpop.i32(7)`, `@llvm.fptosi.sat.i64.f32(1.5)`: an overloaded intrinsic has its types in its
name (LangRef, "Intrinsic Functions").  Which forms there are only LLVM knows; here is what to try,
best first.  Start from `types_named` and `literal_types`.
"""

from __future__ import annotations

import re

from jitkernel.languages.llvm.expressions import Expr, Number, Text, Word

__all__ = ["RESULTS", "constant_text", "is_literal", "literal_types", "types_named"]

#: Results that neither the name nor the arguments tell.
RESULTS = ("void", "i1", "i32", "i64", "i8", "i16", "double", "float", "ptr")
_FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "f80": "x86_fp80",
           "f128": "fp128"}  # fmt: skip
_PART = re.compile(r"(nx)?(?:v(\d+))?(i\d+|bf16|f16|f32|f64|f80|f128|p(\d+))\Z")


def types_named(name: str) -> list[str]:
    """The types in an intrinsic's name: of `llvm.memcpy.p0.p0.i64` ptr and i64."""
    found = []
    for part in name.split(".")[2:]:
        match = _PART.match(part)
        if match is None:
            continue
        space = match[4]
        type = _FLOATS.get(match[3], match[3])
        if space is not None:
            type = "ptr" if space == "0" else f"ptr addrspace({space})"
        if match[2]:
            type = f"<{'vscale x ' * bool(match[1])}{match[2]} x {type}>"
        found.append(type)
    return list(dict.fromkeys(found))


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
    floats = [type for type in named if type in _FLOATS.values()]
    if isinstance(expr, Number) and expr.is_fraction:
        return [*dict.fromkeys([*floats, "double", "float"])]
    integers = [type for type in named if re.fullmatch(r"i\d+", type)]
    return [*dict.fromkeys([*integers, *floats, "i32", "i64", "i1", "i8", "i16"])]


def constant_text(expr: Expr) -> str:
    """A constant in the literal's place while forms are tried: some arguments have to be one."""
    if isinstance(expr, Word):
        return expr.text
    return "" if isinstance(expr, Number) and expr.is_fraction else "0"
