"""What to try, under LLVM's own words.  Start from `explain`.

A diagnostic comes with the line and column of the cell; the text around it and what the session
knows tell what was probably meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from jitkernel.errors import Diagnostic
from jitkernel.ir.instructions import call_declaration
from jitkernel.ir.keywords import KEYWORDS, OPCODES, nearest
from jitkernel.ir.miswritten import repaired, rules, said
from jitkernel.ir.module import functions, global_values
from jitkernel.ir.names import NAME, SKIP, decode_name, locals_in, quote_name
from jitkernel.languages.llvm.prelude import PRELUDE
from jitkernel.values import literals

__all__ = ["Context", "explain"]


@dataclass(frozen=True, slots=True)
class Context:
    """The session's knowledge: its symbols; the locals of instruction blocks that have ended and
    the private symbols, each with its cell's number; the type of a variable, "" for what is none.
    """

    symbols: Collection[str] = ()
    ended_locals: Mapping[str, int] = field(default_factory=dict)
    private: Mapping[str, int] = field(default_factory=dict)
    type_of: Callable[[str], str] = lambda name: ""


def explain(diagnostic: Diagnostic, source: str, context: Context | None = None) -> Diagnostic:
    """The diagnostic as its cell's author should see it: with the line that they typed, a column
    inside it, and a hint where one is known.  `source` is `Plan.source`."""
    lines = source.split("\n")
    line, column = diagnostic.line, diagnostic.column
    if line > len(lines):  # LLVM went on behind the end to find what is missing
        line = len(lines)
        while line > 1 and not lines[line - 1].strip():
            line -= 1
        column = len(lines[line - 1]) + 1
    if line < 1:
        found = diagnostic
    else:
        text = lines[line - 1]
        found = diagnostic._replace(line=line, column=min(column, len(text) + 1), source=text)
    if found.hint:
        return found
    return found._replace(hint=_hint(found, source, context or Context()))


def _hint(diagnostic: Diagnostic, source: str, context: Context) -> str:
    """Advice on what to try; empty where nothing is known.  `source` is the cell."""
    text = diagnostic.source
    at = max(diagnostic.column - 1, 0)
    if found := _miswritten(diagnostic, source, context):
        return found
    spot = _Spot(text, at, source, context)
    return said(_RULES, diagnostic.message, spot) or _strange_character(text)


#: What LLVM says where it met another word than it expected, also at the line after it.
_SYNTAX = re.compile(
    r"expected |invalid operand type|constant expression type mismatch|use of undefined value '%"
)
_NEXT_LINE = re.compile(r"expected (?:value token|type|comma|instruction opcode|',')")


def _miswritten(diagnostic: Diagnostic, source: str, context: Context) -> str:
    """A correction of a line that is nearly IR; LLVM may have noticed at the next one only."""
    if diagnostic.line < 1 or not _SYNTAX.match(diagnostic.message):
        return ""
    if found := repaired(diagnostic.source, source, diagnostic.line, context.type_of):
        return found
    begins = not diagnostic.source[: max(diagnostic.column - 1, 0)].strip()
    if begins and _NEXT_LINE.match(diagnostic.message):
        lines = source.split("\n")[: diagnostic.line - 1]
        above = next((i for i in range(len(lines), 0, -1) if lines[i - 1].strip()), 0)
        return repaired(lines[above - 1], source, above, context.type_of) if above else ""
    return ""


@dataclass(frozen=True, slots=True)
class _Spot:
    """The place that a message points to: `text[at:]`."""

    text: str
    at: int
    source: str
    context: Context

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    @property
    def before(self) -> str:
        return self.text[: self.at]


#: What a C++ compiler takes from its library: vtables and type information of the library's types.
CXX_NAMES = ("_ZTI", "_ZTV", "_ZTS", "_ZNS", "_ZSt", "__cxa_", "__gxx_")
IN_LIBSTDCXX = "C++'s library has it: `%lib libstdc++.so.6` first"

_FLOATS = "|".join(literals.FORMATS)
_TYPE_BEFORE = re.compile(rf"\b({_FLOATS}|i\d+)\s+$")
_TYPE_ANYWHERE = re.compile(rf"\b({_FLOATS}|i\d+)\b")
_NUMBER = re.compile(r"[-+]?(?:0x[HKLMR]?[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+)")


def _float_constant(m: re.Match[str], spot: _Spot) -> str:
    number = _NUMBER.match(spot.rest)
    types = _TYPE_BEFORE.findall(spot.before) or _TYPE_ANYWHERE.findall(spot.before)
    if not number or not types:
        return ""
    type, text = types[-1], number[0]
    if not type.startswith("i"):
        return _hex(text, type, f"not exact in {type}; the nearest is ")
    if text.startswith("0x"):
        return f"hex integers are written u{text}"
    whole = f", {text.partition('.')[0]}" if "." in text else ""
    return f"{type} is an integer: write a whole number{whole}"


def _hex(text: str, type: str, say: str = "write ") -> str:
    """The hex form of a number, or why there is none."""
    form = literals.FORMATS[type]
    try:
        return say + literals.hex_text(literals.bits_of(text, form), form)
    except ValueError as error:
        return str(error)


def _float_type(m: re.Match[str], spot: _Spot) -> str:
    """A decimal where LLVM wants the hex form of x86_fp80 or fp128."""
    number, type = _NUMBER.match(spot.rest), m[1]
    return _hex(number[0], type) if number and type in literals.FORMATS else ""


def _integer_constant(m: re.Match[str], spot: _Spot) -> str:
    number = _NUMBER.match(spot.rest)
    types = _TYPE_BEFORE.findall(spot.before)
    types = types or re.findall(rf"\b({_FLOATS}|ptr)\b", spot.before)
    if not number or not types:
        return ""
    if types[-1] == "ptr":
        return "write null" if number[0] == "0" else f"write inttoptr (i64 {number[0]} to ptr)"
    if types[-1] in ("x86_fp80", "fp128"):
        return _hex(number[0], types[-1])
    return f"write {number[0]}.0"


def _undefined(m: re.Match[str], spot: _Spot) -> str:
    sigil, name = m[1], decode_name(m[2])
    context = spot.context
    if sigil == "%":
        cell = context.ended_locals.get(name)
        if cell is not None:
            shown = quote_name(name)
            return (
                f"%{shown} ended with cell {cell}, keep it with `@{shown} = ...` "
                f"(`_{cell}` is the value of cell {cell})"
            )
        locals_ = locals_in(spot.source) - {name}
        labels = set(re.findall(r"(?m)^\s*([-\w$.]+):", spot.source))
        in_phi = re.match(r"\s*%[^=]*=\s*phi\b.*,\s*$", spot.before)
        if "label" in spot.before.rsplit(",", 1)[-1] or in_phi:
            close = nearest(name, labels)
            return f"did you mean %{close}?" if close else f"no block is labelled {name}:"
        close = nearest(name, locals_ | labels)
        return f"did you mean %{quote_name(close)}?" if close else ""
    cell = context.private.get(name)
    if cell is not None:
        return f"@{quote_name(name)} is private to cell {cell}: drop `private` there to share it"
    own = {f.name for f in functions(spot.source)} | {g.name for g in global_values(spot.source)}
    known = own.union(context.symbols) - {name}
    close = nearest(name, known) or nearest(name, PRELUDE, 0.75)
    accessed = _ACCESS.match(spot.text.strip())
    if name.startswith(CXX_NAMES):
        return f"{IN_LIBSTDCXX}; then `@{quote_name(name)} = external global ptr`"
    if accessed and decode_name(accessed[2]) == name:
        zero = "0" if re.fullmatch(r"i\d+", accessed[1]) else "zeroinitializer"
        declare = f"define it: @{quote_name(name)} = global {accessed[1]} {zero}"
    else:
        declare = f"`declare` it: {call_declaration(spot.text, name)}"
    return f"did you mean @{quote_name(close)}? Otherwise {declare}" if close else declare


#: A load or a store of a scalar, its type and the global.
_ACCESS = re.compile(
    r"(?:%\S+\s*=\s*)?(?:load|store)\s+(?:volatile\s+)?([a-z]\w*)\b[^@]*,\s*ptr\s+"
    rf"@({NAME})"
)


def _expected_opcode(m: re.Match[str], spot: _Spot) -> str:
    rest = spot.rest.lstrip()
    if rest.startswith("}") or not rest:
        return "the last block needs ret, br or unreachable"
    if rest.startswith(("//", "#")):
        return "comments start with ;"
    label = re.match(f"({NAME}):", rest)
    if label:
        return (
            "a block must end before its successor's label: "
            f"add `br label %{quote_name(decode_name(label[1]))}`"
        )
    if rest.startswith("@"):
        return "a call is written `call TYPE @f(...)` inside a function"
    word = re.match(rf"(?:%{NAME}\s*=\s*)?([A-Za-z_]\w*)", rest)
    if not word:
        return ""
    following = rest[word.end(1) :].lstrip()
    if following.startswith("=") and not following.startswith("=="):
        return f"names of values begin with %: %{word[1]} = ..."
    close = nearest(word[1], OPCODES)
    return f"did you mean `{close}`?" if close else ""


def _void_name(m: re.Match[str], spot: _Spot) -> str:
    name = re.match(r"\s*(%[^=]*?)\s*=", spot.rest) or re.search(r"(%[^=\s]*)\s*=", spot.text)
    return f"drop `{name[1]} =`" if name else "drop the name"


def _string_size(m: re.Match[str], spot: _Spot) -> str:
    got, expected = m[1], m[2]
    text = re.match(r'c?("[^"]*")', spot.rest)
    size = re.match(r"\[(\d+) x i8\]", got)
    if text and size:
        return f"{text[1]} is {size[1]} bytes: write [{size[1]} x i8]"
    return f"write {got} in front of it" if expected != got else ""


def _expected_type(m: re.Match[str], spot: _Spot) -> str:
    opcode = re.search(
        r"\b([a-z]+)((?:\s+(?:nuw|nsw|exact|disjoint|fast|eq|ne|[us][lg][te]))*)\s*$", spot.before
    )
    rest = spot.rest.strip()
    if re.search(r"\bcall\b[^(]*\((?:[^()]*,)?\s*$", spot.before):
        more = ", ..." if "," in rest else ""
        return (
            f"each argument has its type in front: `(i32 {rest.split(',')[0].rstrip(')')}{more})`"
        )
    is_value = re.match(r"[-+\d%@]|(?:true|false|null|undef|poison|zeroinitializer)\b", rest)
    if opcode and opcode[1] in OPCODES and is_value:
        type = "double" if opcode[1].startswith("f") else "i32"
        if rest.startswith("@"):
            type = "ptr" if opcode[1] != "call" else type
        return f"write `{opcode[1]}{opcode[2]} {type} {rest[:40]}`"
    word = re.match(r"[A-Za-z_]\w*", rest)
    if word:
        names = {"int": "i32", "long": "i64", "char": "i8", "short": "i16", "bool": "i1"}
        close = names.get(word[0]) or nearest(word[0], _TYPE_WORDS)
        return f"did you mean `{close}`?" if close else ""
    return ""


_TYPE_WORDS = [word for word, (kind, _) in KEYWORDS.items() if kind == "type"]


def _no_value(m: re.Match[str], spot: _Spot) -> str:
    rest = spot.rest.lstrip()
    match = re.match(r"[A-Za-z_][\w.]*", rest)
    if not match:
        return "a value is missing here" if not rest else ""
    close = nearest(match[0], ("true", "false", "null", "zeroinitializer", "undef", "poison"))
    return f"did you mean `{close}`?" if close else f"did you mean %{match[0]} or @{match[0]}?"


def _redefinition(m: re.Match[str], spot: _Spot) -> str:
    if any(found.name == m[1] for found in functions(spot.source, "declare")):
        return "declare and define of one name in one cell: drop the declare"
    return "one cell defines a name once; in another cell the new definition replaces the old"


def _operand_type(m: re.Match[str], spot: _Spot) -> str:
    """`'%x' defined with type 'i64' but expected 'i32'`."""
    got, wanted = m[1], m[2]
    bits = [int(t[1:]) if re.fullmatch(r"i\d+", t) else 0 for t in (got, wanted)]
    if all(bits):
        opcode = "trunc" if bits[0] > bits[1] else "sext (or zext)"
        return f"convert it first: {opcode} {got} ... to {wanted}"
    access = re.search(r"\b(load|store|getelementptr|atomicrmw|cmpxchg)\b", spot.before)
    if got == "ptr" and access and not spot.before.rstrip().endswith(f"store {wanted}"):
        return f"an address has the type ptr: write ptr {spot.rest.split(',')[0].strip()}"
    if got == "ptr":
        return f"that is an address: for the value there, `load {wanted}, ptr ...` first"
    return ""


# What LLVM says, and what to try: with the groups in it, or told by a function.
_RULES = rules(
    (r"floating point constant invalid for type", _float_constant),
    (r"floating point constant does not have type '(\w+)'", _float_type),
    (r"integer constant must have integer type", _integer_constant),
    (rf"use of undefined value '([@%])({NAME})'", _undefined),
    (r"expected instruction opcode", _expected_opcode),
    (r"instructions returning void cannot have a name", _void_name),
    (r"multiple definition of local value", "SSA: each %name is assigned once; use a new name"),
    (r"got type '([^']*)' but expected '([^']*)'", _string_size),
    (r"expected type", _expected_type),
    (r"function body requires at least one basic block", "an empty body is written `{ ret void }`"),
    (r"invalid redefinition of function '(.*)'", _redefinition),
    (r"redefinition of global '@(.*)'", _redefinition),
    (
        r"value doesn't match function result type 'void'",
        "the function returns void: write `ret void`",
    ),
    (
        r"value doesn't match function result type '(.*)'",
        r"the function returns \1: convert the value, or change the function's type",
    ),
    (r"defined with type '([^']*)' but expected '([^']*)'", _operand_type),
    (
        r"instruction expected to be numbered '%(\d+)'",
        lambda m, spot: f"%{int(m[1]) - 1} is taken (the unlabelled first block counts too)",
    ),
    (r"expected value token", _no_value),
    (
        r"expected top-level entity",
        "what stands at the top is define, declare, @name = or %name = type",
    ),
    (
        r"[Ii]nstruction does not dominate all uses",
        "the value is not computed on every way there: use phi, or move it up",
    ),
    (
        r"PHI(?:Node| node)s? (?:should have one entry|not grouped)",
        "phi stands first in its block and has one [value, %block] for each block that "
        "jumps there (its predecessors)",
    ),
)


def _strange_character(text: str) -> str:
    """Characters that look like others, as word processors put them in."""
    code = re.sub(SKIP, "", text)
    for character in code:
        if not character.isascii():
            return (
                f"this line has a {character!r} (U+{ord(character):04X}); quote names with it, "
                "and write plain quotes, blanks and dashes"
            )
    return ""
