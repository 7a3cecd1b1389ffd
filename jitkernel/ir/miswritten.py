"""What lines of IR that LLVM refused were perhaps meant to be.  Start from `repaired`; what is no
line of IR at all is `no_statement`'s.

LLVM stops at the first word that it did not expect, which is rarely the one that is wrong: what it
says of `br %c, label %a, label %b` is "expected value token".  Here the line itself is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitkernel.ir.instructions import Instruction
from jitkernel.ir.keywords import (
    BINARY_OPCODES,
    CAST_OPCODES,
    FLOAT_TYPES,
)
from jitkernel.ir.names import NAME, decode_name, labels_in, unescape
from jitkernel.ir.text import SCALAR, integer_bits, without_comments
from jitkernel.ir.types import VOID
from jitkernel.record import record
from jitkernel.regex import regex

_T = rf"(?:{SCALAR}|%{NAME})"
_V = r"(?:[%@]" + NAME + r"|[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|null|undef|poison)"
_INTEGER = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "sdiv", "frem": "srem"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "sdiv": "fdiv", "udiv": "fdiv",
          "srem": "frem", "urem": "frem"}  # fmt: skip
#: Patterns, and what is told of what they match.
Rules: TypeAlias = Sequence[tuple[re.Pattern[str], str | Callable[..., Any]]]
_ORDER = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}

#: What stands behind a function's attributes in its first line (LangRef, Functions).
BEHIND_ATTRIBUTES = regex(
    r"\b(?:section|partition|comdat|align|gc|prefix|prologue|personality)\b.*"
)


def rules(*told: tuple[str, str | Callable[..., Any]], begin: str = "") -> Rules:
    """Rules of patterns and what is told where one is found, with the groups in it or by a
    function; `begin` is what all begin with."""
    return [(regex(f"{begin}(?:{pattern})"), rule) for pattern, rule in told]


def said(rules: Rules, text: str, *asked: object) -> Any:
    """The words of the first rule that has some for a text; "" where none has."""
    for pattern, rule in rules:
        if match := pattern.search(text):
            found = match.expand(rule) if isinstance(rule, str) else rule(match, *asked)
            if found:
                return found
    return ""


def repaired(
    line: str, source: str, number: int, type_of: Callable[[str], str] = lambda name: ""
) -> str:
    """The probable meaning of a line that LLVM refused, as a sentence; "" where nothing is known.
    `source` is the cell and `number` the line's, from 1; `type_of` knows the session's
    globals: `i32` of a variable, `i32 (ptr)` of a function."""
    return str(said(_RULES, _code(line), _Cell(source, number, type_of)))


@record
class _Cell:
    """The place of a line: line `number` of `source`."""

    source: str
    number: int
    variable: Callable[[str], str]

    def type_of(self, value: str) -> str:
        """The type of a value, by the looks of the cell; i32 or double where nothing tells."""
        if not value.startswith(("@", "%")):
            return "double" if re.fullmatch(r"[-+]?\d*\.\d*(?:e[-+]?\d+)?", value) else "i32"
        name = re.escape(value) + r"(?![-\w$.])"
        if value[0] == "@":
            found = re.search(name + rf"\s*=[^=\n]*?\b(?:global|constant)\s+({_T})", self.source)
            known = found[1] if found else self.variable(decode_name(value[1:])) or "i32"
            return "ptr" if known.endswith(")") else known
        if made := re.search(rf"(?m)^[ \t]*({name}[ \t]*=.*)$", self.source):
            type = Instruction.read(made[1]).type()
            if type not in (None, VOID) and self._is_type(str(type)):
                return str(type)
        found = re.search(rf"({_T})(?:[ \t]+\w+)*[ \t]+{name}", self.source)
        return found[1] if found else "i32"

    def _is_type(self, text: str) -> bool:
        """False of `%x` where an instruction has it for its type and no line says that it is one:
        there the type has been left out."""
        named = rf"(?m)^\s*{re.escape(text)}\s*=\s*type\b"
        return text[0] != "%" or re.search(named, self.source) is not None

    def returned(self, name: str) -> str:
        """The type that a call of a function has in front, by the cell or the session: what it
        returns, its whole type if it ends with dots; i32 where neither tells."""
        head = rf"\b(?:define|declare)\b[^@\n]*?({_T}|void)\s+@{re.escape(name)}\s*\("
        if found := re.search(head, self.source):
            return found[1]
        known = self.variable(decode_name(name))
        return known if known.endswith("...)") else known.rpartition(" (")[0] or "i32"

    def typed(self, operand: str) -> str | None:
        """An operand with its type in front; None for what is more than a value and its type."""
        match = re.fullmatch(rf"(?:({_T})\s+)?({_V})", operand)
        if match is None:
            return None
        value = match[2]
        type = match[1] or ("ptr" if value[0] == "@" else self.type_of(value))
        return f"{type} {value}"


def _code(line: str) -> str:
    """The line without its comment, blanks at its ends and what is attached to it."""
    code = without_comments(line).strip()
    return re.sub(r"(?:, (?:align \d+|![\w.]+ !\d+))+$", "", code)


def _branch(m: re.Match[str], cell: _Cell) -> str:
    condition, one, other = m[1], m[2], m[3]
    right = f"br i1 {condition}, label %{one}, label %{other}"
    return "" if _code(m.string) == right else f"write `{right}`"


def _compare(m: re.Match[str], cell: _Cell) -> str:
    opcode, word, rest = m[1], m[2], m[3]
    word = _ORDER.get(word, word)
    if opcode == "fcmp" or re.match(r"(?:half|bfloat|float|double)\b", rest):
        return f"write `fcmp o{word} {rest}` (o: and neither is a NaN)"
    if word in ("eq", "ne"):
        return f"write `icmp {word} {rest}`" if word != m[2] else ""
    return f"write `icmp s{word} {rest}` for signed numbers, `icmp u{word}` for unsigned ones"


def _store(m: re.Match[str], cell: _Cell) -> str:
    type, value, to = m[1], m[2], m[3]
    right = f"store {(type or '').strip() or cell.type_of(value)} {value}, ptr {to}"
    if _code(m.string) == right:
        return ""
    return f"write `{right}`: the value and the address have their types in front"


def _load(m: re.Match[str], cell: _Cell) -> str:
    result, type, where = m[1] or "", (m[2] or "").rstrip("* "), m[3]
    if not type:
        type = cell.type_of(where) if where[0] == "@" else "i32"
    right = f"write `{result or '%v = '}load {type}, ptr {where}`"
    return right if result else f"`{where}` alone shows it; as an instruction, {right}"


def _parameters(m: re.Match[str], cell: _Cell) -> str:
    untyped = re.search(rf"(?:\A|,)\s*(%{NAME})\s*(?=[,)])", m[1])
    if untyped and not re.search(rf"{re.escape(untyped[1])}\s*=\s*type\b", cell.source):
        return f"each parameter has its type in front: `i32 {untyped[1]}`"
    bare = re.search(rf"({_T})\s+([A-Za-z_]\w*)\s*(?=[,)])", m[1])
    if bare is None or bare[2] in _ATTRIBUTES:
        return ""
    return f"names of parameters begin with %: `{bare[1]} %{bare[2]}`"


_ATTRIBUTES = frozenset(
    "zeroext signext noext inreg byval sret noalias nocapture nofree nest returned nonnull noundef"
    " readnone readonly writeonly swiftself swifterror immarg allocptr dead_on_unwind writable"
    .split()
)  # fmt: skip


def _return(m: re.Match[str], cell: _Cell) -> str:
    above = "\n".join(cell.source.split("\n")[: cell.number])
    heads = re.findall(r"(?m)^\s*define\b([^@\n]*)@", above)
    type = heads[-1].split()[-1] if heads and heads[-1].split() else ""
    if type == "void" or not type:
        return "a function that returns nothing ends with `ret void`"
    return f"the function returns {type}: `ret {type} ...`"


def _arithmetic(m: re.Match[str], cell: _Cell) -> str:
    opcode, type, rest = m[1], m[2], m[3]
    is_float = type in FLOAT_TYPES
    right = (_FLOAT if is_float else _INTEGER).get(opcode, "")
    if not right or (not is_float and not integer_bits(type)):
        return ""
    own = "floating-point numbers have instructions of their own"
    what = own if is_float else f"{opcode} is for floating-point numbers"
    return f"{what}: `{right} {type} {rest}`"


def _bytes(text: str) -> str:
    """The IR of a string, with its NUL."""
    text = text.removesuffix("\\00")
    size = len(unescape(text)) + 1
    return f'[{size} x i8] c"{text}\\00"'


def _string(m: re.Match[str], cell: _Cell) -> str:
    name, text = m[1], m[2].removesuffix("\\00")
    return (
        f'a line `@{name}("{text}")` of its own calls it with the string; an instruction needs a '
        f"global: `@s = private constant {_bytes(text)}`, and `call ... @{name}(ptr @s)`"
    )


def _bare_text(m: re.Match[str], cell: _Cell) -> str:
    return f"text is an array of bytes: `{m[1]} {_bytes(m[2])}`"


def _bare_return(m: re.Match[str], cell: _Cell) -> str:
    return f"write `ret {cell.type_of(m[1])} {m[1]}`"


def _operator(m: re.Match[str], cell: _Cell) -> str:
    """`%y = %x + 1`, as other languages have it."""
    result, one, operator, other = m[1], m[2], m[3], m[4]
    named = one if one[0] in "%@" else other
    type = cell.type_of(named)
    words = OPERATORS[operator]
    word = words[type in FLOAT_TYPES]
    if "@" in (one[0], other[0]):
        return f"load the value first; then `{result} = {word} {type} ...` computes with it"
    return f"an instruction does that: `{result} = {word} {type} {one}, {other}`"


def _bare_operands(m: re.Match[str], cell: _Cell) -> str:
    opcode, one, other = m[1], m[2], m[3]
    return f"the operands' type comes first: `{opcode} {cell.type_of(one)} {one}, {other}`"


def _select(m: re.Match[str], cell: _Cell) -> str:
    condition, first, one, second, other = m[1], m[2], m[3], m[4], m[5]
    if first and second and first != second:
        return ""
    named = other if one[0] not in "%@" else one
    type = first or second or cell.type_of(named)
    return _typed_each(f"select i1 {condition}, {type} {one}, {type} {other}", m)


def _typed_each(right: str, m: re.Match[str]) -> str:
    same = _code(m.string).endswith(right)
    return "" if same else f"each operand has its type in front: `{right}`"


def _phi(m: re.Match[str], cell: _Cell) -> str:
    pairs = re.findall(rf"\[\s*(?:{_T}\s+)?({_V})\s*,\s*(?:label\s+)?%?({NAME})\s*\]", m[2])
    if len(pairs) != m[2].count("[") or (pairs and m[2][0] != "["):
        return ""
    values = [value for value, _ in pairs if value[0] in "%@"]
    type = m[1] or (cell.type_of(values[0]) if values else "i32")
    if not pairs:
        return f"a pair for each block that jumps here: `phi {type} [ value, %block ], ...`"
    labels = labels_in(cell.source)
    told = [
        f"[ {block}, {value} ]"
        if value[1:] in labels and block not in labels
        else f"[ {value}, %{block} ]"
        for value, block in pairs
    ]
    right = f"phi {type} {', '.join(told)}"
    if "".join(_code(m.string).split()).endswith("".join(right.split())):
        return ""
    return f"write `{right}`: the type, then a value and its block in each pair"


def _call(m: re.Match[str], cell: _Cell) -> str:
    word, type, sigil, name, inside = m[1], m[2], m[3], m[4], m[5].strip()
    arguments = [cell.typed(part.strip()) for part in inside.split(",")] if inside else []
    if not (word or sigil) or None in arguments:
        return ""
    right = f"call {type or cell.returned(name)} @{name}({', '.join(map(str, arguments))})"
    if not word:
        return f"inside a function a call is an instruction: `{right}`"
    return "" if _code(m.string).endswith(right) else f"write `{right}`"


def _element(m: re.Match[str], cell: _Cell) -> str:
    inbounds, type, address, index = m[1] or "", m[2] or "i32", m[3], m[4]
    right = f"getelementptr {inbounds}{type}, ptr {address}, {cell.typed(index)}"
    if _code(m.string).endswith(right):
        return ""
    return f"write `{right}`: the elements' type, the address, the index"


def _indexed(m: re.Match[str], cell: _Cell) -> str:
    return (
        f"IR has no `a[i]`: `%p = getelementptr i32, ptr {m[1]}, {cell.typed(m[2])}` gives the "
        "element's address, and `load i32, ptr %p` or `store i32 ..., ptr %p` goes there"
    )


def _cast(m: re.Match[str], cell: _Cell) -> str:
    opcode, type, value, to = m[1], m[2], m[3], m[4]
    right = f"{opcode} {(type or '').strip() or cell.type_of(value)} {value} to {to}"
    return "" if _code(m.string).endswith(right) else f"write `{right}`"


def _constant(m: re.Match[str], cell: _Cell) -> str:
    type = m[2] or cell.type_of(m[3])
    return (
        "a %name is what an instruction gives; a constant is written where it is used, and "
        f"`@{m[1][1:]} = {'i64' if type == 'i32' and not m[2] else type} {m[3]}` makes a variable"
    )


def _bare_elements(m: re.Match[str], cell: _Cell) -> str:
    elements = [e.strip().removeprefix(f"{m[1]} ") for e in m[2].split(",")]
    typed = ", ".join(f"{m[1]} {e}" for e in elements[:3])
    where = "an array stands in [ ], and " * ("{" in m[0])
    more = ", ..." if len(elements) > 3 else ""
    return f"{where}each element has its type in front: `[{typed}{more}]`"


#: By operators of other languages: the instructions for whole numbers and for floating point.
OPERATORS = {
    "+": ("add", "fadd"), "-": ("sub", "fsub"), "*": ("mul", "fmul"), "/": ("sdiv", "fdiv"),
    "%": ("srem", "frem"), "<<": ("shl", "shl"), ">>": ("ashr", "ashr"), "&": ("and", "and"),
    "|": ("or", "or"), "^": ("xor", "xor"), "<": ("icmp slt", "fcmp olt"),
    "<=": ("icmp sle", "fcmp ole"), ">": ("icmp sgt", "fcmp ogt"), ">=": ("icmp sge", "fcmp oge"),
    "==": ("icmp eq", "fcmp oeq"), "!=": ("icmp ne", "fcmp une"),
}  # fmt: skip
_FLAGS = r"(?:\s+(?:nuw|nsw|exact|fast))*"
_OPERATION = (
    rf"(?:{'|'.join(BINARY_OPCODES)}){_FLAGS}|icmp\s+(?:eq|ne|[su][lg][te])"
    r"|fcmp\s+(?:[ou](?:eq|ne|[lg][te])|ord|uno)"
)
_R = rf"(?:%{NAME}\s*=\s*)?"
# What a line matches, and what it should be: with the groups in it, or told by a function.
_RULES = rules(
    (
        rf"br\s+(?:i1\s+)?({_V})\s*,\s*(?:label\s+)?%?({NAME})\s*,\s*(?:label\s+)?%?({NAME})$",
        _branch,
    ),
    (
        rf"br\s+(i(?!1\b)\d+)\s+({_V})\s*,\s*label\s+(%{NAME})\s*,\s*label\s+(%{NAME})$",
        r"compare first: `%c = icmp ne \1 \2, 0`, then `br i1 %c, label \3, label \4`",
    ),
    (rf"br\s+(?!label\b)%?({NAME})$", r"write `br label %\1`"),
    (rf"{_R}(icmp|fcmp)\s+(lt|le|gt|ge|eq|ne|[<>]=?|[!=]=)\s+(.+)$", _compare),
    (
        rf"{_R}icmp\s+({_T}\s+.+)$",
        r"say how to compare (eq, ne, slt, sle, sgt, sge, ult, ...): `icmp eq \1`",
    ),
    (rf"{_R}fcmp\s+({_T}\s+.+)$", r"say how to compare (oeq, olt, ogt, ...): `fcmp oeq \1`"),
    (rf"store\s+({_T}\s+)?({_V})\s*,\s*(?:ptr\s+)?([%@]{NAME})$", _store),
    (rf"(%{NAME}\s*=\s*)?load\s+({_T}\s*\*?\s*)?,?\s*([%@]{NAME})$", _load),
    (
        r"(define|declare)\s+[^@(]*?\b([A-Za-z_]\w*)\s*\(",
        r"names of functions begin with @: `\1 @\2(...)`",
    ),
    (rf"define\b[^@]*@{NAME}\s*\((.*)", _parameters),
    (r"ret$", _return),
    (rf"ret\s+([%@]{NAME})$", _bare_return),
    (rf"(%{NAME})\s*=\s*({_V})\s*([-+*/%&|^]|<<|>>|[<>]=?|[!=]=)\s*({_V})$", _operator),
    (rf"{_R}({_OPERATION})\s+(%{NAME})\s*,\s*(?:(?:{SCALAR})\s+)?(.+)$", _bare_operands),
    (
        rf"{_R}({_OPERATION})\s+({_T})\s+({_V})\s*,\s*(?:{SCALAR})\s+({_V})$",
        r"the type of both operands is written once: `\1 \2 \3, \4`",
    ),
    (
        rf"{_R}({_OPERATION})\s+({_T})\s*,\s*({_V})\s*,\s*({_V})$",
        r"no comma stands after the type: `\1 \2 \3, \4`",
    ),
    (
        rf"{_R}select\s+(?:i1\s+)?({_V})\s*,\s*(?:({_T})\s+)?({_V})\s*,\s*(?:({_T})\s+)?({_V})$",
        _select,
    ),
    (rf"{_R}phi\b\s*({SCALAR})?\s*(.*)$", _phi),
    (rf'{_R}(call\s+)?(?:((?:{SCALAR})|void)\s+)?(@)?({NAME})\s*\(([^"()]*)\)$', _call),
    (
        rf"{_R}getelementptr\s+(inbounds\s+)?(?:({_T})\s*,\s*)?(?:ptr\s+)?([%@]{NAME})\s*,"
        rf"\s*((?:i\d+\s+)?{_V})$",
        _element,
    ),
    (rf"{_R}({'|'.join(CAST_OPCODES)})\s+({_T}\s+)?({_V})\s*(?:,|to|\s)\s*({_T})$", _cast),
    (rf".*?(%{NAME})\[\s*(?:i\d+\s+)?({_V})\s*\]", _indexed),
    (rf"(%{NAME})\s*=\s*\*\s*(%{NAME})$", r"memory is read by a load: `\1 = load i32, ptr \2`"),
    (rf"(%{NAME})\s*=\s*(?:({SCALAR})\s+)?([-+]?[\d.]+)$", _constant),
    (
        rf"(%{NAME})\s*=\s*(?:(?:{SCALAR})\s+)?(%{NAME})$",
        r"a %name is what an instruction gives: write \2 wherever \1 is meant",
    ),
    (r"(define|declare)\s+@", r"the type that it returns comes first: `\1 i32 @...`"),
    (
        r"(?:if|while|for)\b\s*\(",
        "IR has no statements of C: compare with `%c = icmp slt i32 ...`, then "
        "`br i1 %c, label %then, label %else`",
    ),
    (rf"(%{NAME})\s*=\s*({{.*}})$", r"a named type is written `\1 = type \2`"),
    (rf'(@{NAME}\s*=\s*(?:[a-z_]+\s+)*?(?:global|constant))\s+(?:ptr\s+)?"([^"]*)"', _bare_text),
    (
        rf"@{NAME}\s*=\s*(?:[a-z_]+\s+)*?(?:global|constant)\s+\[\s*\d+\s*x\s*({_T})\s*\]"
        r"\s*(?:\[\s*(?=[-+\d])|{\s*)([^]}]+)[]}]",
        _bare_elements,
    ),
    (rf"{_R}(\w+)\s+(?:(?:nuw|nsw|exact|fast)\s+)*({_T})\s+(.+)$", _arithmetic),
    (rf'{_R}call\b[^@]*@({NAME})\s*\([^"]*"([^"]*)"', _string),
    begin=r"\A",
)
