"""What to try, under LLVM's own words.  Start from `explain`.

A diagnostic comes with the line and column of the cell; the text around it and what the session
knows tell what was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from re import Match

from jitkernel.errors import Diagnostic
from jitkernel.ir.calls import call_declaration
from jitkernel.ir.instructions import Instruction
from jitkernel.ir.keywords import ATTRIBUTES, KEYWORDS, OPCODES, nearest
from jitkernel.ir.miswritten import BEHIND_ATTRIBUTES, repaired, rules, said
from jitkernel.ir.module import functions, global_values
from jitkernel.ir.names import NAME, decode_name, labels_in, locals_in, quote_name
from jitkernel.ir.spot import Spot
from jitkernel.ir.text import (
    after_flags,
    has_word,
    integer_bits,
    split_at_commas,
    type_at,
    without_strings,
)
from jitkernel.languages.llvm.prelude import PRELUDE, prelude_type
from jitkernel.lookalikes import advice
from jitkernel.record import field, record
from jitkernel.values import literals


@record
class Context:
    """The session's knowledge: its symbols; the locals of instruction blocks that have ended and
    the private symbols, each with its cell's number; the type of a global, `i32 (ptr)` of a
    function, "" of what is none.
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
    if found := advice(without_strings(text)):
        return found
    if found := _miswritten(diagnostic, source, context):
        return found
    spot = _Spot(text, at, source, context)
    return said(_RULES, diagnostic.message, spot) or _strange_character(text)


#: What LLVM says where it met another word than it expected, also at the line after it.
_SYNTAX = (
    "expected ", "invalid operand type", "constant expression type mismatch",
    "use of undefined value '%", "invalid type for function argument", "invalid use of a non-first",
    "branch condition must have",
)  # fmt: skip
_NEXT_LINE = (
    "expected value token", "expected type", "expected comma", "expected instruction opcode",
    "expected ','", "invalid use of a non-first",
)  # fmt: skip


def _miswritten(diagnostic: Diagnostic, source: str, context: Context) -> str:
    """A correction of a line that is nearly IR; LLVM may have noticed at the next one only."""
    if diagnostic.line < 1 or not diagnostic.message.startswith(_SYNTAX):
        return ""

    def type_of(name: str) -> str:
        return context.type_of(name) or str(prelude_type(name) or "")

    if found := repaired(diagnostic.source, source, diagnostic.line, type_of):
        return found
    begins = not diagnostic.source[: max(diagnostic.column - 1, 0)].strip()
    if begins and diagnostic.message.startswith(_NEXT_LINE):
        lines = source.split("\n")[: diagnostic.line - 1]
        above = next((i for i in range(len(lines), 0, -1) if lines[i - 1].strip()), 0)
        return repaired(lines[above - 1], source, above, type_of) if above else ""
    return ""


@record
class _Spot(Spot):
    """The place that a message points to, in the cell `source`."""

    source: str
    context: Context


#: What a C++ compiler takes from its library: vtables and type information of the library's types.
CXX_NAMES = ("_ZTI", "_ZTV", "_ZTS", "_ZNS", "_ZSt", "__cxa_", "__gxx_")
IN_LIBSTDCXX = "C++'s library has it: `%lib libstdc++.so.6` first"


def _float_constant(m: Match[str], spot: _Spot) -> str:
    type, text = spot.type, spot.has("number")
    if not text or type in ("", "ptr"):
        return ""
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


def _float_type(m: Match[str], spot: _Spot) -> str:
    """A decimal where LLVM wants the hex form of x86_fp80 or fp128."""
    number, type = spot.has("number"), m[1]
    return _hex(number, type) if number and type in literals.FORMATS else ""


def _integer_constant(m: Match[str], spot: _Spot) -> str:
    number, type = spot.has("number"), spot.type
    if not number or not type:
        return ""
    if type == "ptr":
        return "write null" if number == "0" else f"write inttoptr (i64 {number} to ptr)"
    return _hex(number, type) if type in ("x86_fp80", "fp128") else f"write {number}.0"


def _undefined(m: Match[str], spot: _Spot) -> str:
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
        labels = labels_in(spot.source)
        in_phi = Instruction.read(spot.text).opcode == "phi" and spot.before.rstrip()[-1:] == ","
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
    accessed = _accessed(spot.text, name)
    if name.startswith(CXX_NAMES):
        return f"{IN_LIBSTDCXX}; then `@{quote_name(name)} = external global ptr`"
    if accessed:
        zero = "0" if integer_bits(accessed) else "zeroinitializer"
        declare = f"define it: @{quote_name(name)} = global {accessed} {zero}"
    else:
        declare = f"`declare` it: {call_declaration(spot.text, name)}"
    return f"did you mean @{quote_name(close)}? Otherwise {declare}" if close else declare


def _accessed(text: str, name: str) -> str:
    """The type of a load from a global, or of a store to it; "" of other instructions."""
    found = Instruction.read(text)
    value, *where = split_at_commas(found.text[found.operands :]) or [""]
    at_it = where[:1] == [f"ptr @{quote_name(name)}"] and found.opcode in ("load", "store")
    return type_at(value, after_flags(value, 0)).strip() if at_it else ""


def _expected_opcode(m: Match[str], spot: _Spot) -> str:
    rest = spot.rest.lstrip()
    if rest.startswith("}") or not rest:
        return "the last block needs ret, br or unreachable"
    if rest.startswith(("//", "#")):
        return "comments start with ;"
    if label := spot.has("label"):
        return (
            "a block must end before its successor's label: "
            f"add `br label %{quote_name(decode_name(label))}`"
        )
    if rest.startswith("@"):
        return "a call is written `call TYPE @f(...)` inside a function"
    if rest.startswith(('"', 'c"')):
        return 'text is a constant: `@text = constant [3 x i8] c"hi\\00"`'
    word = spot.has("opcode")
    if not word:
        return ""
    if rest.rstrip() == word and word in locals_in(spot.source):
        return f"a label ends with a colon: `{word}:`"
    following = rest.partition(word)[2].lstrip()
    if following.startswith("=") and not following.startswith("=="):
        return f"names of values begin with %: %{word} = ..."
    close = nearest(word, OPCODES)
    return f"did you mean `{close}`?" if close else ""


def _void_name(m: Match[str], spot: _Spot) -> str:
    name = Instruction.read(spot.text).result
    return f"drop `{name} =`" if name else "drop the name"


def _string_size(m: Match[str], spot: _Spot) -> str:
    got, expected = m[1], m[2]
    if (text := spot.has("string")) and got.endswith(" x i8]"):
        return f"{text} is {got[1:-6]} bytes: write {got}"
    return f"write {got} in front of it" if expected != got else ""


def _expected_type(m: Match[str], spot: _Spot) -> str:
    rest = spot.rest.strip()
    if spot.has("arguments"):
        more = ", ..." if "," in rest else ""
        return (
            f"each argument has its type in front: `(i32 {rest.split(',')[0].rstrip(')')}{more})`"
        )
    operation = spot.has("operation")
    opcode = operation.partition(" ")[0]
    if opcode in OPCODES and spot.has("value"):
        type = "double" if opcode.startswith("f") else "i32"
        if rest.startswith("@"):
            type = "ptr" if opcode != "call" else type
        return f"write `{operation} {type} {rest[:40]}`"
    if word := spot.has("word"):
        names = {"int": "i32", "long": "i64", "char": "i8", "short": "i16", "bool": "i1"}
        close = names.get(word) or nearest(word, _TYPE_WORDS)
        return f"did you mean `{close}`?" if close else ""
    return ""


_TYPE_WORDS = [word for word, (kind, _) in KEYWORDS.items() if kind == "type"]


def _no_body(m: Match[str], spot: _Spot) -> str:
    """Advice on what LLVM met before a function's `{`: an attribute, or the next line."""
    word = spot.has("word")
    close = nearest(word, ATTRIBUTES, 0.75) if word else None
    if word and close == word and (behind := BEHIND_ATTRIBUTES.search(spot.before)):
        return f"attributes stand in front of that: `{word} {behind[0].strip()}`"
    if not spot.before.strip() or not spot.rest.strip():
        return "the line of `define` ends with `{`"
    return f"did you mean `{close}`?" if close and close != word else ""


def _no_value(m: Match[str], spot: _Spot) -> str:
    word = spot.has("word")
    if not word:
        return "a value is missing here" if not spot.rest.strip() else ""
    if word in KEYWORDS or integer_bits(word):
        return ""
    close = nearest(word, ("true", "false", "null", "zeroinitializer", "undef", "poison"))
    return f"did you mean `{close}`?" if close else f"did you mean %{word} or @{word}?"


def _redefinition(m: Match[str], spot: _Spot) -> str:
    if any(found.name == m[1] for found in functions(spot.source, "declare")):
        if any(found.name == m[1] for found in functions(spot.source, "define")):
            return "declare and define of one name in one cell: drop the declare"
        return "a cell declares a name once: drop one of them"
    return "one cell defines a name once; in another cell the new definition replaces the old"


_CASTS = {
    ("int", "float"): "sitofp (signed) or uitofp (unsigned)",
    ("float", "int"): "fptosi (signed) or fptoui (unsigned)",
    ("ptr", "int"): "ptrtoint",
    ("int", "ptr"): "inttoptr",
}


def _kind_of(type: str) -> str:
    return "int" if integer_bits(type) else "float" if type in literals.FORMATS else type


def _cast(m: Match[str], spot: _Spot) -> str:
    have, want = integer_bits(m[1]), integer_bits(m[2])
    if not have or not want or have == want:
        how = _CASTS.get((_kind_of(m[1]), _kind_of(m[2])), "")
        return f"from {m[1]} to {m[2]}: {how}" if how else ""
    how = "trunc" if have > want else "zext (unsigned) or sext (signed)"
    return f"from {m[1]} to the {'narrower' if have > want else 'wider'} {m[2]}: {how}"


def _operand_type(m: Match[str], spot: _Spot) -> str:
    """`'%x' defined with type 'i64' but expected 'i32'`."""
    got, wanted = m[1], m[2]
    have, want = integer_bits(got), integer_bits(wanted)
    if have and want:
        opcode = "trunc" if have > want else "sext (or zext)"
        return f"convert it first: {opcode} {got} ... to {wanted}"
    access = has_word(spot.before, "load", "store", "getelementptr", "atomicrmw", "cmpxchg")
    if got == "label":
        return "a pair of a phi is [ value, %block ]: the value comes first"
    if got == "ptr" and access and not spot.before.rstrip().endswith(f"store {wanted}"):
        return f"an address has the type ptr: write ptr {spot.rest.split(',')[0].strip()}"
    if got == "ptr":
        return f"that is an address: for the value there, `load {wanted}, ptr ...` first"
    return ""


def _condition(m: Match[str], spot: _Spot) -> str:
    """A comparison with 0, where a number is to decide."""
    what = spot.text.partition("select ")[2].partition(",")[0].split()
    return f"compare first: `%c = icmp ne {' '.join(what)}, 0`" if len(what) == 2 else ""


def _argument_type(m: Match[str], spot: _Spot) -> str:
    """A type that is named and that nobody has defined."""
    words = spot.rest.replace(",", " ").replace(")", " ").split()
    what = words[0] if words else ""
    named = what.startswith("%")
    return f"nothing defines the type {what}: `{what} = type {{ i32, ptr }}`" if named else ""


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
    (r"expected '{' in function body", _no_body),
    (
        r"function body requires at least one basic block",
        "a body ends with `ret` and a value, or `ret void`",
    ),
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
    (r"invalid cast opcode for cast from '([^']*)' to '([^']*)'", _cast),
    (r"select condition must be i1", _condition),
    (
        r"store operand must be a pointer",
        "the value stands first, then the address: `store i32 1, ptr %p`",
    ),
    (
        r"invalid (?:indices for (?:extract|insert)value|getelementptr indices)",
        "members and elements are counted from 0, and one stands behind each index",
    ),
    (r"invalid type for function argument", _argument_type),
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
    """Characters that no name has unless it is quoted."""
    strange = next((c for c in without_strings(text) if not c.isascii()), "")
    if not strange:
        return ""
    return f"this line has a {strange!r} (U+{ord(strange):04X}); names with it are quoted"
