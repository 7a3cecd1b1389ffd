"""Types of other languages' cells in C.

C11 6.2.5; System V Application Binary Interface, AMD64, 3.1.2.
"""

from __future__ import annotations

from jitkernel.ir.types import ArrayType, FunctionType, Type

__all__ = ["function_in_c", "type_in_c"]

_IN_C = {
    "i1": "_Bool", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long",
    "i128": "__int128", "half": "_Float16", "bfloat": "__bf16", "float": "float",
    "double": "double", "x86_fp80": "long double", "void": "void", "ptr": "void *",
}  # fmt: skip


def type_in_c(type: Type, name: str = "") -> str:
    """A type of LLVM in C, around a name; "" where C has none."""
    if isinstance(type, ArrayType):
        return type_in_c(type.element, f"{name}[{type.count}]")
    found = _IN_C.get(str(type), "")
    return f"{found} {name}" if found and name else found


def function_in_c(name: str, type: FunctionType) -> str:
    """The prototype of a function; "" where C cannot say it."""
    parts = [type_in_c(parameter) for parameter in type.parameters]
    result = type_in_c(type.result)
    if not result or "" in parts:
        return ""
    arguments = ", ".join([*parts, *["..."] * type.variadic]) or "void"
    return f"{result} {name}({arguments});"
