"""Direct calls whose function type is not the callee's.  Start from `suspects`.

With opaque pointers `call i32 @sq(i64 1)` is valid IR whatever `@sq` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitkernel.ir.names import NAME, SKIP, SPACE, decode_name, quote_name
from jitkernel.ir.signature import convention
from jitkernel.ir.text import (
    after_flags,
    after_space,
    closing,
    split_at_commas,
    squeeze,
    type_at,
)
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

# Most calls of intrinsics are seen to be that at once.
_CALL = regex(
    SKIP + r"|c(?<![-\w$.@%]c)all(?:br)?\b(?P<intrinsic>(?= void @llvm\.))?"
    r"|i(?<![-\w$.@%]i)nvoke\b"
)
_MORE = regex(rf"{SPACE}([(*])")
_CALLEE = regex(rf"{SPACE}@({NAME}){SPACE}(?=\()")


class Call(NamedTuple):
    """A direct call in text: the callee's name, the text of its type and its convention as the call
    has them, its offset."""

    callee: str
    type: str
    convention: str
    offset: int


def find_calls(text: str, intrinsics: bool = False) -> Iterable[Call]:
    """The direct calls in `text`; to `intrinsics`, which LLVM checks itself, only if asked for."""
    for start in _CALL.finditer(text):
        if start[0][0] in '";/' or (start["intrinsic"] is not None and not intrinsics):
            continue
        at = after_flags(text, start.end())
        type, end = _type(text, after_space(text, at))
        callee = _CALLEE.match(text, end)
        if callee is None or (callee[1].startswith("llvm.") and not intrinsics):
            continue
        if not type.endswith(")") or type_at(type) == type:  # else all of it, as variadic ones do
            close = closing(text, callee.end())
            if close < 0:
                break
            inside = text[callee.end() + 1 : close - 1]
            type += f" ({', '.join(_type(part, 0)[0] for part in split_at_commas(inside))})"
        yield Call(decode_name(callee[1]), type, convention(text[start.end() : at]), start.start())


def call_declaration(text: str, name: str) -> str:
    """A declaration that would suit the call of `@name` in an instruction's text, as far as the
    text tells: `declare i32 @f(i32, ptr)`."""
    from jitkernel.ir.types import TypeSyntaxError, function_type  # seldom needed

    found = next((call for call in find_calls(text, True) if call.callee == name), None)
    shown = quote_name(name)
    try:
        type = function_type(found.type if found else "")
    except TypeSyntaxError:
        return f"declare void @{shown}()"
    return f"declare {type.result} @{shown}{str(type)[len(str(type.result)) + 1 :]}"


def _type(text: str, at: int) -> tuple[str, int]:
    """The type at an offset, and the offset behind it; LLVM still reads `i32*`, a ptr."""
    type = type_at(text, at)
    end = at + len(type)
    while more := _MORE.match(text, end):
        close = closing(text, more.end() - 1) if more[1] == "(" else more.end()
        type = "ptr" if more[1] == "*" else f"{type} {text[more.end() - 1 : close]}"
        if close < 0:
            break
        end = close
    return type, end


def suspects(calls: Iterable[Call], signatures: Mapping[str, tuple[str, str]]) -> list[Call]:
    """Calls that do not have their callee's type or convention.

    `signatures` gives (type text, convention) by name; calls to other names pass.
    """
    found = []
    for call in calls:
        expected, agreed = signatures.get(call.callee, ("", ""))
        if expected and (
            call.convention != agreed
            or (call.type != expected and squeeze(call.type) != squeeze(expected))
        ):
            found.append(call)
    return found
