"""Types as C writes them, and LLVM's words for what C has.  Start from `declare`.

C11 6.2.5; System V Application Binary Interface, AMD64, 3.1.2.
"""

from __future__ import annotations

from dataclasses import replace

from jitkernel.values.datatype import VOID, DataType

__all__ = ["declare", "promoted"]

_INT = DataType("int", "int", 4, bits=32, signed=True)
_DOUBLE = DataType("float", "double", 8, bits=64)


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
        return _DOUBLE
    return _INT if bare.kind in ("int", "bool") and bare.size < 4 else type
