"""Lines that are nearly IR, as other languages and older IR have them.  Start from `repaired`.

LLVM stops at the first word that it did not expect, which is rarely the one that is wrong: what it
says of `br %c, label %a, label %b` is "expected value token".  Here the line itself is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jitkernel.ir.names import decode_name

__all__ = ["repaired"]

_N = r'(?:"[^"]*"|[-\w$.]+)'
_T = r"(?:i\d+|half|bfloat|float|double|ptr|x86_fp80|fp128|%" + _N + r")"
_V = r"(?:[%@]" + _N + r"|[-+]?[\d.]+(?:e[-+]?\d+)?|true|false|null|undef|poison)"
_INTEGER = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "sdiv", "frem": "srem"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "sdiv": "fdiv", "udiv": "fdiv",
          "srem": "frem", "urem": "frem"}  # fmt: skip
_ORDER = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def repaired(
    line: str, source: str, number: int, type_of: Callable[[str], str] = lambda name: ""
) -> str:
    """What was probably meant by a line that LLVM refused, as a sentence; "" where nothing is
    known.  `source` is the cell and `number` the line's, from 1; `type_of` knows the session's
    variables."""
    code, cell = _code(line), _Cell(source, number, type_of)
    for pattern, rule in _RULES:
        match = pattern.match(code)
        if match and (found := rule(match, cell)):
            return found
    return ""


@dataclass(frozen=True, slots=True)
class _Cell:
    """Where a line stands: line `number` of `source`."""

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
            return found[1] if found else self.variable(decode_name(value[1:])) or "i32"
        if found := re.search(rf"({_T})(?:\s+\w+)*\s+{name}", self.source):
            return found[1]
        words = r"\s*=\s*(\w+)(?:\s+(?:nuw|nsw|exact|fast))*\s+"
        made = re.search(name + words + rf"({_T})", self.source)
        if made and made[1] in ("alloca", "getelementptr"):
            return "ptr"
        return made[2] if made and made[1] not in ("icmp", "fcmp") else "i32"


def _code(line: str) -> str:
    """The line without its comment, blanks at its ends and what is attached to it."""
    code = re.sub(r'("[^"]*")|;.*', lambda m: m[1] or "", line).strip()
    return re.sub(r"(?:, (?:align \d+|![\w.]+ !\d+))+$", "", code)


def _branch(m: re.Match[str], cell: _Cell) -> str:
    condition, one, other = m[1], m[2], m[3]
    right = f"br i1 {condition}, label {one}, label {other}"
    return "" if _code(m.string) == right else f"write `{right}`"


def _jump(m: re.Match[str], cell: _Cell) -> str:
    return f"write `br label %{m[1].lstrip('%')}`"


def _compare(m: re.Match[str], cell: _Cell) -> str:
    opcode, word, rest = m[1], m[2], m[3]
    word = _ORDER.get(word, word)
    if opcode == "fcmp" or re.match(r"(?:half|bfloat|float|double)\b", rest):
        return f"write `fcmp o{word} {rest}` (o: and neither is a NaN)"
    if word in ("eq", "ne"):
        return f"write `icmp {word} {rest}`" if word != m[2] else ""
    return f"write `icmp s{word} {rest}` for signed numbers, `icmp u{word}` for unsigned ones"


def _bare_compare(m: re.Match[str], cell: _Cell) -> str:
    words = "eq, ne, slt, sle, sgt, sge, ult, ..." if m[1] == "icmp" else "oeq, olt, ogt, ..."
    first = "eq" if m[1] == "icmp" else "oeq"
    return f"say how to compare ({words}): `{m[1]} {first} {m[2]}`"


def _store(m: re.Match[str], cell: _Cell) -> str:
    type, value, to = m[1], m[2], m[3]
    right = f"store {(type or '').strip() or cell.type_of(value)} {value}, ptr {to}"
    return f"write `{right}`: the value and the address have their types in front"


def _load(m: re.Match[str], cell: _Cell) -> str:
    result, type, where = m[1] or "", (m[2] or "").rstrip("* "), m[3]
    if not type:
        type = cell.type_of(where) if where[0] == "@" else "i32"
    right = f"write `{result or '%v = '}load {type}, ptr {where}`"
    return right if result else f"`{where}` alone shows it; as an instruction, {right}"


def _head(m: re.Match[str], cell: _Cell) -> str:
    return f"names of functions begin with @: `{m[1]} @{m[2]}(...)`"


def _parameters(m: re.Match[str], cell: _Cell) -> str:
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
    is_float = type in ("half", "bfloat", "float", "double", "x86_fp80", "fp128")
    right = (_FLOAT if is_float else _INTEGER).get(opcode, "")
    if not right or (not is_float and not re.fullmatch(r"i\d+", type)):
        return ""
    what = (
        "floating-point numbers have instructions of their own"
        if is_float
        else (f"{opcode} is for floating-point numbers")
    )
    return f"{what}: `{right} {type} {rest}`"


def _string(m: re.Match[str], cell: _Cell) -> str:
    name, text = m[1], m[2].removesuffix("\\00")
    size = len(re.sub(r"\\[0-9a-fA-F]{2}|\\\\", "x", text).encode()) + 1
    return (
        f'a line `@{name}("{text}")` of its own calls it with the string; an instruction needs a '
        f'global: `@s = private constant [{size} x i8] c"{text}\\00"`, and '
        f"`call ... @{name}(ptr @s)`"
    )


def _bare_return(m: re.Match[str], cell: _Cell) -> str:
    return f"write `ret {cell.type_of(m[1])} {m[1]}`"


def _operator(m: re.Match[str], cell: _Cell) -> str:
    """`%y = %x + 1`, as other languages have it."""
    result, one, operator, other = m[1], m[2], m[3], m[4]
    named = one if one[0] in "%@" else other
    type = cell.type_of(named)
    words = _OPERATORS[operator]
    word = words[1] if type in ("half", "bfloat", "float", "double") else words[0]
    if "@" in (one[0], other[0]):
        return f"load the value first; then `{result} = {word} {type} ...` computes with it"
    return f"an instruction does that: `{result} = {word} {type} {one}, {other}`"


def _bare_operands(m: re.Match[str], cell: _Cell) -> str:
    opcode, one, rest = m[1], m[2], m[3]
    return f"the operands' type comes first: `{opcode} {cell.type_of(one)} {one}, {rest}`"


def _dereference(m: re.Match[str], cell: _Cell) -> str:
    return f"memory is read by a load: `{m[1]} = load i32, ptr {m[2]}`"


def _constant(m: re.Match[str], cell: _Cell) -> str:
    type = cell.type_of(m[2])
    return (
        "a %name is what an instruction gives; a constant is written where it is used, and "
        f"`@{m[1][1:]} = {'i64' if type == 'i32' else type} {m[2]}` makes a variable"
    )


def _condition(m: re.Match[str], cell: _Cell) -> str:
    return (
        "IR has no statements of C: compare with `%c = icmp slt i32 ...`, then "
        "`br i1 %c, label %then, label %else`"
    )


def _bare_type(m: re.Match[str], cell: _Cell) -> str:
    return f"a named type is written `{m[1]} = type {m[2]}`"


def _bare_text(m: re.Match[str], cell: _Cell) -> str:
    text = m[2].removesuffix("\\00")
    size = len(re.sub(r"\\[0-9a-fA-F]{2}|\\\\", "x", text).encode()) + 1
    return f'text is an array of bytes: `{m[1]} [{size} x i8] c"{text}\\00"`'


def _bare_elements(m: re.Match[str], cell: _Cell) -> str:
    elements = [e.strip() for e in m[2].split(",")]
    typed = ", ".join(f"{m[1]} {e}" for e in elements[:3])
    return f"each element has its type in front: `[{typed}{', ...' if len(elements) > 3 else ''}]`"


_OPERATORS = {
    "+": ("add", "fadd"), "-": ("sub", "fsub"), "*": ("mul", "fmul"), "/": ("sdiv", "fdiv"),
    "%": ("srem", "frem"), "<<": ("shl", "shl"), ">>": ("ashr", "ashr"), "&": ("and", "and"),
    "|": ("or", "or"), "^": ("xor", "xor"), "<": ("icmp slt", "fcmp olt"),
    "<=": ("icmp sle", "fcmp ole"), ">": ("icmp sgt", "fcmp ogt"), ">=": ("icmp sge", "fcmp oge"),
    "==": ("icmp eq", "fcmp oeq"), "!=": ("icmp ne", "fcmp une"),
}  # fmt: skip
_BINARY = r"add|sub|mul|sdiv|udiv|srem|urem|shl|lshr|ashr|and|or|xor|fadd|fsub|fmul|fdiv|frem"
_R = rf"(?:%{_N}\s*=\s*)?"
_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _Cell], str]], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (rf"br\s+(?:i1\s+)?({_V})\s*,\s*(?:label\s+)?(%{_N})\s*,\s*(?:label\s+)?(%{_N})$", _branch),
        (rf"br\s+(?!label\b)(%?{_N})$", _jump),
        (rf"{_R}(icmp|fcmp)\s+(lt|le|gt|ge|eq|ne|[<>]=?|[!=]=)\s+(.+)$", _compare),
        (rf"{_R}(icmp|fcmp)\s+({_T}\s+.+)$", _bare_compare),
        (rf"store\s+({_T}\s+)?({_V})\s*,\s*([%@]{_N})$", _store),
        (rf"(%{_N}\s*=\s*)?load\s+({_T}\s*\*?\s*)?,?\s*([%@]{_N})$", _load),
        (r"(define|declare)\s+[^@(]*?\b([A-Za-z_]\w*)\s*\(", _head),
        (rf"define\b[^@]*@{_N}\s*\((.*)", _parameters),
        (r"ret$", _return),
        (rf"ret\s+([%@]{_N})$", _bare_return),
        (rf"(%{_N})\s*=\s*({_V})\s*([-+*/%&|^]|<<|>>|[<>]=?|[!=]=)\s*({_V})$", _operator),
        (rf"{_R}({_BINARY})\s+(%{_N})\s*,\s*(.+)$", _bare_operands),
        (rf"(%{_N})\s*=\s*\*\s*(%{_N})$", _dereference),
        (rf"(%{_N})\s*=\s*([-+]?[\d.]+)$", _constant),
        (r"(?:if|while|for)\b\s*\(", _condition),
        (rf"(%{_N})\s*=\s*({{.*}})$", _bare_type),
        (rf'(@{_N}\s*=\s*(?:[a-z_]+\s+)*?(?:global|constant))\s+(?:ptr\s+)?"([^"]*)"', _bare_text),
        (
            rf"@{_N}\s*=\s*(?:[a-z_]+\s+)*?(?:global|constant)\s+\[\s*\d+\s*x\s*({_T})\s*\]"
            r"\s*\[\s*([-+\d][^\]]*)\]",
            _bare_elements,
        ),
        (rf"{_R}(\w+)\s+(?:(?:nuw|nsw|exact|fast)\s+)*({_T})\s+(.+)$", _arithmetic),
        (rf'{_R}call\b[^@]*@({_N})\s*\([^"]*"([^"]*)"', _string),
    )
)
