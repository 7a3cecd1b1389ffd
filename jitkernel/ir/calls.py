"""Direct calls whose function type is not the callee's.  Start from `suspects`.

With opaque pointers `call i32 @sq(i64 1)` is valid IR whatever `@sq` is.  The text is read first,
which costs little; only a call that looks wrong there is looked at again as LLVM prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from jitkernel.ir.expansion import Expansion
from jitkernel.ir.names import NAME, SKIP, decode_name
from jitkernel.ir.signature import convention
from jitkernel.ir.text import closing, opening, split_at_commas, squeeze, type_at

__all__ = ["Call", "expand", "find_calls", "suspects"]

_CALL = re.compile(SKIP + r"|(?<![-\w$.@%])(?:call|invoke|callbr)\b")
_STEP = re.compile(SKIP + r"|\n|\basm\b|[@%]" + NAME + r"|[(\[{<>}\])]")
_PARENTHESIS = re.compile(r"\s*\(")


class Call:
    """A direct call in text: the callee's name, its signature as the call has it, its offset."""

    __slots__ = ("arguments", "callee", "convention", "head", "offset")

    def __init__(self, callee: str, head: str, arguments: list[str], offset: int):
        self.callee, self.arguments, self.offset = callee, arguments, offset
        self.convention = convention(head)
        self.head = head

    def type(self, result: str) -> str:
        """The call's function type, given the type that the callee returns.

        A call that spells its type out, as variadic ones do, has it at the end of its head.  Where
        the head does not end in `result`, its last word is shown instead.
        """
        head = self.head.rstrip()
        if head.endswith(")"):
            begin = opening(head)
            before = head[:begin].rstrip()
            return f"{_last_type(before, result)} {head[begin:]}"
        return f"{_last_type(head, result)} ({', '.join(self.arguments)})"


def find_calls(text: str) -> Iterable[Call]:
    """The direct calls in `text`, except to intrinsics, which LLVM checks itself."""
    for start in _CALL.finditer(text):
        depth, begin, closed = 0, start.end(), False
        if start[0][0] in '";':
            continue
        for match in _STEP.finditer(text, begin):
            token = match[0]
            if token[0] == "@":
                opening = None if depth else _PARENTHESIS.match(text, match.end())
                if opening is None:
                    continue
                if token.startswith("@llvm."):
                    break
                end = closing(text, opening.end() - 1)
                if end < 0:
                    return
                inside = text[opening.end() : end - 1]
                arguments = [_argument_type(part) for part in split_at_commas(inside)]
                yield Call(
                    decode_name(token[1:]), text[begin : match.start()], arguments, start.start()
                )
                break
            if token in "([{<":
                depth += 1
            elif token in ")]}>":
                depth -= 1
                closed = closed or token == ")"
            elif token == "asm" or (token == "\n" and depth == 0 and closed):
                break  # not a call of a symbol: its arguments have gone by


def _argument_type(text: str) -> str:
    return type_at(text) or text.partition(" ")[0]


def _last_type(head: str, result: str) -> str:
    """`result` where `head` ends in it, whatever stands before; else what it does end in."""
    head = head.rstrip()
    if head.endswith(result):
        before = head[len(head) - len(result) - 1 : len(head) - len(result)]
        if not (before.isalnum() or before in ("%", ".", "_", "-", "$")) or not before:
            return result
    if head[-1:] in ")]}>":
        tail = head[opening(head) :]
        return result if squeeze(tail) == squeeze(result) else tail
    return head.split()[-1] if head.split() else ""


def expand(type_text: str, body: Callable[[str], str | None]) -> str:
    """`type_text` with each identified struct replaced by its body; squeezed."""
    return Expansion(body, squeeze)(type_text)


def suspects(
    calls: Iterable[Call], signatures: Mapping[str, tuple[str, str]]
) -> list[tuple[Call, str]]:
    """Calls that do not have their callee's type or convention, with the type that they have.

    `signatures` gives (type text, convention) by name; calls to other names pass.
    """
    found = []
    for call in calls:
        known = signatures.get(call.callee)
        if known is None:
            continue
        expected, agreed = known
        result = expected[: opening(expected)].rstrip()
        actual = call.type(result)
        other = actual != expected and squeeze(actual) != squeeze(expected)
        if other or call.convention != agreed:
            found.append((call, actual))
    return found
