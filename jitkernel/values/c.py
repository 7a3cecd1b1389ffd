"""Types as C writes them.  Start from `declare`, and from `type_in_c` for those of LLVM's.

C11 6.2.5; System V Application Binary Interface, AMD64, 3.1.2.
"""

from __future__ import annotations

from dataclasses import replace

from jitkernel.ir.types import ArrayType, FunctionType, Type, VectorType, parse_type
from jitkernel.values.c_numbers import DOUBLE, INT
from jitkernel.values.datatype import VOID, DataType
from jitkernel.values.ir import data_type_of

#: C's names for LLVM's types, and those of <stdint.h> and <stdbool.h>, where they are others.
_IN_C = {
    "i1": ("_Bool", "bool"), "i8": ("signed char", "int8_t"), "i16": ("short", "int16_t"),
    "i32": ("int", "int32_t"), "i64": ("long", "int64_t"), "i128": ("__int128",),
    "half": ("_Float16",), "bfloat": ("__bf16",), "float": ("float",), "double": ("double",),
    "x86_fp80": ("long double",), "fp128": ("__float128",), "void": ("void",), "ptr": ("void *",),
}  # fmt: skip

_VECTORS = (16, 32, 64)  # bytes
_IN_VECTORS = frozenset(map(parse_type, ("i8", "i16", "i32", "i64", "float", "double")))


def declare(type: DataType, inner: str = "") -> str:
    """A type in C, around a declarator: `int (*p)[3]` for `p`.  C11 6.7.6, 6.7.7."""
    gap = " " if inner and not inner.startswith("[") else ""
    of = type.element or VOID
    match type.kind:
        case "struct" | "union" | "enum":
            return f"{type.kind} {type.name or '{...}'}{gap}{inner}"
        case "const" | "volatile" | "restrict":
            if of.kind == "pointer":
                return declare(of, type.kind + (f" {inner}" if inner else ""))
            return f"{type.kind} {declare(of, inner)}"
        case "atomic":
            return f"_Atomic({declare(of)}){gap}{inner}"
        case "pointer" if not type.name:
            return declare(of, f"(*{inner})" if of.kind in ("array", "function") else f"*{inner}")
        case "array":
            return declare(of, f"{inner}[{type.count if type.count >= 0 else ''}]")
        case "vector":
            return f"{declare(of)} __attribute__((vector_size({type.size}))){gap}{inner}"
        case "function":
            every = [declare(p) for p in type.parameters]
            more = ["..."] if every and type.variadic else []  # `f()`: no prototype
            inside = ", ".join(every + more) or "void" * (not type.variadic)
            return declare(of, f"{inner}({inside})")
        case _:
            return f"{type.name or 'void'}{gap}{inner}"


def promoted(type: DataType) -> DataType:
    """A function's type as its callers see it where its definition is an old-style one.

    C11 6.5.2.2: default argument promotions.
    """
    return replace(type, parameters=tuple(map(_promoted, type.parameters)))


def _promoted(type: DataType) -> DataType:
    bare = type.bare
    if bare.kind == "float" and bare.size == 4:
        return DOUBLE
    return INT if bare.kind in ("int", "bool") and bare.size < 4 else type


def type_in_c(type: Type, name: str = "", header: bool = False) -> str:
    """A type of LLVM's in C, around a name, where the psABI's classes agree; "" where C has none.

    In a `header` numbers are called as <stdint.h> does.
    """
    if isinstance(type, ArrayType):
        return type_in_c(type.element, f"{name}[{type.count}]", header)
    if isinstance(type, VectorType) and not type.scalable:
        of, size = type_in_c(type.element, header=header), data_type_of(type, {}).size
        is_one = type.element in _IN_VECTORS and size in _VECTORS
        found = f"{of} __attribute__((vector_size({size})))" if is_one else ""
    else:
        found = _IN_C.get(str(type), ("",))[-1 if header else 0]
    return f"{found} {name}" if found and name else found


def function_in_c(name: str, type: FunctionType) -> str:
    """The prototype of a function; "" where C cannot say it."""
    parts = [type_in_c(parameter) for parameter in type.parameters]
    result = type_in_c(type.result)
    if not result or "" in parts:
        return ""
    arguments = ", ".join([*parts, *["..."] * type.variadic]) or "void"
    return f"{result}{' ' * (result[-1] != '*')}{name}({arguments});"
