"""A header for C: prototypes of what is exported.  Start from `header`.

What a C cell has declared is declared as there, with the types and headers that this needs; for the
rest the nearest C types are found, where the psABI's classes agree: `NoEquivalent` where there is
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jitkernel.ir.names import written
from jitkernel.ir.types import ArrayType, IntType, Type, parse_type
from jitkernel.languages.c.notes import IDENTIFIER, Note, Notes
from jitkernel.session.program.signatures import Signature, Variable, attributes_of
from jitkernel.values.c import type_in_c

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

#: Names in C that are words of C++, [lex.key], and operators of it, which no macro can be called.
_TAKEN = frozenset(
    "catch class concept consteval constinit const_cast co_await co_return co_yield decltype "
    "delete dynamic_cast explicit export friend mutable namespace new noexcept operator private "
    "protected public reinterpret_cast requires static_cast template this throw try typeid "
    "typename using virtual".split()
)
_OPERATORS = frozenset("and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq".split())
#: Words of C that C++ has others for.
_ONLY_C = {"restrict": "__restrict", "_Bool": "bool", **{word: f"{word}_" for word in _TAKEN}}
_EXTENDED = ("signext", "zeroext", "noundef")
_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while _Bool _Complex bool true false asm".split()
)


def header(program: Program, exports: Mapping[str, Signature | Variable], file: str) -> str:
    """The text of a header that is called `file`."""
    guard = re.sub(r"[^A-Za-z0-9]", "_", file).upper()
    guard = f"JITKERNEL_{guard}"
    notes = Notes(program.state.notes.kept)
    from_c = [n for n in exports if IDENTIFIER + n in notes]
    lines = [
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>",
    ]  # fmt: skip
    if from_c:
        lines += [note.text for note in notes.directives() if note.kind in ("include", "header")]
    declared = _declared(notes, from_c)
    for name, info in exports.items():
        if name not in from_c:
            declared.append(_for_c(name, _line(name, info)))
    only_c = [word for word in _ONLY_C if re.search(rf"\b{word}\b", "\n".join(declared))]
    lines += ["", "#ifdef __cplusplus", 'extern "C" {']
    lines += [*(f"#define {word} {_ONLY_C[word]}" for word in only_c), "#endif", "", *declared]
    lines += ["", "#ifdef __cplusplus", *(f"#undef {word}" for word in only_c), "}", "#endif"]
    lines += ["", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


def _declared(notes: Notes, names: Iterable[str]) -> list[str]:
    """The declarations of C cells under these names, after what they need."""
    keys = [IDENTIFIER + name for name in names]
    found: Iterable[Note] = notes.closure(keys).values()
    wanted = set(keys)
    texts = []
    for note in sorted(found, key=lambda note: note.place):
        if note.kind in ("include", "header", "pragma"):
            continue
        text = note.text.rstrip()
        if note.kind in ("function", "variable"):
            if note.key not in wanted:
                continue
            text = _for_c(note.key.removeprefix(IDENTIFIER), text)
        texts.append(text)
    return texts


def _for_c(name: str, text: str) -> str:
    """The declaration of a name, for C alone where C++ cannot say the name."""
    only = name in _TAKEN or name in _OPERATORS
    return f"#ifndef __cplusplus\n{text}\n#endif" if only else text


def _line(name: str, info: Signature | Variable) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _KEYWORDS:
        return f"/* {_comment(written(name))} is no name in C */"
    try:
        if isinstance(info, Variable):
            return _variable(name, info) + ";"
        return _prototype(name, info) + ";"
    except NoEquivalent as why:
        return f"/* {_comment(f'{written(name)}, {info}: {why}')} */"


def _comment(text: str) -> str:
    return text.replace("*/", "* /")


class NoEquivalent(ValueError):
    """C has nothing that is passed so."""


def _c_type(type: Type, unsigned: bool = False) -> str:
    """The type of a parameter or a result in C.  Raises NoEquivalent."""
    found = "" if isinstance(type, ArrayType) else type_in_c(type, header=True)
    if not found:
        raise NoEquivalent(f"C has no type that is passed as {type} is")
    if unsigned and isinstance(type, IntType) and type.bits > 1:
        return f"unsigned {found}" if type.bits == 128 else f"u{found}"
    return found


def check_callable(signature: Signature) -> None:
    """Raise NoEquivalent where C's convention is another one."""
    if signature.convention not in ("", "ccc"):
        raise NoEquivalent(f"its calling convention is {signature.convention}")
    result, parameters = attributes_of(signature.attributes)
    for words in (result, *parameters.values()):
        other = [w for w in words.split() if w not in _EXTENDED]
        if other:
            raise NoEquivalent(f"it passes a value as {other[0]}")


def _prototype(name: str, signature: Signature) -> str:
    """`int32_t sq(int32_t)`.  Raises NoEquivalent."""
    check_callable(signature)
    function = signature.function
    result, on = attributes_of(signature.attributes)
    parameters = [_c_type(p, "zeroext" in on.get(i, "")) for i, p in enumerate(function.parameters)]
    if function.variadic:
        if not parameters:
            raise NoEquivalent("C has no function that takes any arguments and no first one")
        parameters.append("...")
    returned = _c_type(function.result, "zeroext" in result)
    if function.result == IntType(1) and "zeroext" not in result:
        returned = "uint8_t"  # of which bit 0 counts
    space = "" if returned.endswith("*") else " "
    return f"{returned}{space}{name}({', '.join(parameters) or 'void'})"


def _variable(name: str, info: Variable) -> str:
    """`extern int32_t table[4]`.  Raises NoEquivalent."""
    type, bounds = parse_type(info.shown), ""
    while isinstance(type, ArrayType):
        bounds += f"[{type.count}]"
        type = type.element
    const = "const " if info.constant else ""
    spelled = _c_type(type)
    if spelled.endswith("*") and const:
        return f"extern {spelled}const {name}{bounds}"
    space = "" if spelled.endswith("*") else " "
    return f"extern {const}{spelled}{space}{name}{bounds}"
