"""Declarations of the session's symbols for cells that use them.  Start from `declaration`."""

from __future__ import annotations

from functools import lru_cache

from jitkernel.compiler.expansion import is_digest
from jitkernel.languages.llvm.quoting import quote_name
from jitkernel.languages.llvm.types import function_type
from jitkernel.session.signatures import Signature, Variable
from jitkernel.session.thunks import attributes_of

__all__ = ["declaration", "too_long"]


def declaration(name: str, info: Signature | Variable) -> str:
    """IR text that declares a symbol: `declare fastcc signext i8 @f(i32, ptr sret(%pt))`."""
    head, tail = _parts(info)
    return (
        f"{head}@{quote_name(name)}{tail}"
        if head.startswith("declare")
        else f"@{quote_name(name)}{tail}"
    )


def too_long(info: Signature | Variable) -> bool:
    """Whether it passes a value of so many parts that its type cannot be written without names:
    then a cell has to declare it."""
    return isinstance(info, Signature) and is_digest(info.attributes)


@lru_cache(maxsize=1024)
def _parts(info: Signature | Variable) -> tuple[str, str]:
    if isinstance(info, Variable):
        return "", f" = external {'constant' if info.constant else 'global'} {info.shown}"
    function = function_type(info.shown)
    on_result, on_parameter = attributes_of(info.attributes)
    parameters = [
        f"{p} {on_parameter[i]}" if i in on_parameter else str(p)
        for i, p in enumerate(function.parameters)
    ]
    if function.variadic:
        parameters.append("...")
    words = [w for w in ("declare", info.convention, on_result, str(function.result)) if w]
    return " ".join(words) + " ", f"({', '.join(parameters)})"
