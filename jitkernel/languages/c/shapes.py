"""What C says of a variable or a function that IR does not: signs, members, what is by value.

Start from `shapes`.  A declaration of numbers and pointers is read here; clang is asked what others
are.
"""

from __future__ import annotations

from jitkernel.errors import JitError
from jitkernel.languages.c.clang import clang_of
from jitkernel.languages.c.declarations import declarators, specifiers
from jitkernel.languages.c.module import parse
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.pieces import cut
from jitkernel.languages.c.pointees import number_of, parameters_of
from jitkernel.languages.c.tokens import Token, Unfinished, tokens
from jitkernel.languages.c.types import VOID, CType, Types
from jitkernel.languages.c.unit import OWN, TYPE, Guesses, Unit
from jitkernel.languages.language import Glance
from jitkernel.languages.shapes import Part, Shape, Shapes

__all__ = ["shape_of", "shapes"]

type_ = type
_DEEPEST = 20  # structs in structs
_SIGNS = {"signed": "i", "signed_char": "i", "unsigned": "u", "unsigned_char": "u"}


def shapes(name: str, known: Glance) -> Shapes | None:
    """What a name of C's is to Python; None where that is what IR says."""
    notes = Notes(known.notes)
    note = notes.identifier(name)
    if note is None or note.kind not in ("function", "variable"):
        return None
    try:
        found = tokens(note.text)[:-1]
        declared = declarators(found)
    except (Unfinished, IndexError):
        return None
    if len(declared) != 1:
        return None
    head = [t.text for t in found[: specifiers(found).end] if t.text != "extern"]
    before = {t.text for t in found[declared[0].first : declared[0].name_at]}
    behind = found[declared[0].name_at + 1 : declared[0].last]
    code = "" if "*" in before else number_of(head, notes)
    result = "*" in before or head == ["void"] or code[:1] in ("i", "f")
    if note.kind == "variable":
        if result and (code != "i1" or not behind):
            return None
        if code and not behind:
            return Shapes(_number(code), text=note.text)
        type = _ask(name, known, notes)
        if type is not None and type.bare.kind == "function":  # declared by a macro
            return _function(type, [], note.text)
        return Shapes(shape_of(type), text=note.text) if type is not None else None
    parts = parameters_of(found, declared[0])
    if all(_is_plain(part, notes) for part in parts) and (result or code):
        return Shapes(_number(code), text=note.text) if code[:1] in ("u", "c") else None
    type = _ask(name, known, notes)
    if type is None or type.bare.kind != "function":
        return None
    return _function(type, [_name_of(part) for part in parts], note.text)


def _function(type: CType, names: list[str], declared: str) -> Shapes | None:
    every = tuple(_by_value(parameter) for parameter in type.bare.parameters)
    text = " ".join(declared.rstrip(";").split())
    of = type.bare.of or VOID
    kinds = tuple(_kind(t) for t in (*type.bare.parameters, of))
    result = _by_value(of, result=True)
    if not any(every) and (result is None or result.kind == "number"):
        return Shapes(result, text=text) if result is not None else None
    return Shapes(result, every, tuple(names), kinds, text)


def _number(code: str) -> Shape:
    return Shape("number", int(code[1:]), code)


def _is_plain(part: list[Token], notes: Notes) -> bool:
    """Whether a parameter is a number or a pointer."""
    words = [t.text for t in part]
    if words == ["..."]:
        return True
    if "__attribute__" in words or words[:2] == ["[", "["]:
        return False  # clang knows
    if "*" in words or "[" in words or "enum" in words:
        return True
    end = specifiers([*part, *part[-1:]]).end
    code = number_of(words[:end], notes)
    return bool(code) and code[0] != "c"


def _kind(type: CType) -> type_ | None:
    """The class of Python's that a value of a type is."""
    bare = type.bare
    if bare.kind in ("struct", "union", "array", "vector"):
        return tuple if bare.kind != "union" else bytes
    if bare.kind == "enum":
        return int
    code = _basic(bare).code[:1] if bare.kind == "base" else ""
    return {"i": int, "u": int, "b": bool, "f": float, "c": complex}.get(code)


def _name_of(part: list[Token]) -> str:
    try:
        found = declarators(part)
    except IndexError:
        return ""
    return found[0].name if found else ""


def _ask(name: str, known: Glance, notes: Notes) -> CType | None:
    """The type of a name; None where clang cannot be asked."""
    unit = Unit(
        0, name, cut(name, lambda word: "value", lambda word: ""), notes, Guesses(),
        lambda word: "", lambda word: True,
    )  # fmt: skip
    unit.build()
    try:
        output = clang_of(known.setting).compile(unit.text, notes.header)
    except (JitError, OSError):
        return None
    if not output.text:
        return None
    found = Types(parse(output.text).metadata).local(TYPE)
    found = found.of if found is not None else None
    while found is not None and found.kind == "typedef" and found.name == f"{OWN}T":
        found = found.of
    return found


def _by_value(type: CType, result: bool = False) -> Shape | None:
    """The shape of a parameter or a result where IR has another one."""
    bare = type.bare
    if bare.kind in ("void", "pointer", "function", "array"):
        return None
    shape = shape_of(type)
    plain = bare.kind in ("base", "enum") and shape.kind == "number" and shape.code[0] in "iubf"
    return shape if not plain or (result and shape.code[0] == "u") else None


def shape_of(type: CType, depth: int = 0) -> Shape:
    """What bytes of a type are to Python."""
    bare = type.bare
    ends = [(m.offset + (m.bits or 8 * m.type.bare.size) + 7) // 8 for m in bare.members]
    unknown = Shape("bytes", bare.size, count=max(ends, default=0))
    if depth > _DEEPEST:
        return unknown
    match bare.kind:
        case "base":
            return _basic(bare)
        case "enum":
            return _number(f"{'u' if bare.unsigned else 'i'}{bare.size}")
        case "pointer" | "function":
            return Shape("pointer", 8)
        case "array" | "vector" if bare.of is not None and -1 not in bare.counts:
            inner = shape_of(bare.of, depth + 1)
            text = bare.kind == "array" and len(bare.counts) == 1
            if text and bare.of.bare.kind == "base" and bare.of.bare.name == "char":
                return Shape("text", bare.counts[0])
            for count in reversed(bare.counts):
                inner = Shape("array", count * inner.size, count=count, inner=inner)
            return inner
        case "struct" if bare.complete and not any(m.bits or m.offset % 8 for m in bare.members):
            return Shape("struct", bare.size, parts=_parts(bare, depth))
    return unknown


def _parts(type: CType, depth: int) -> tuple[Part, ...]:
    """The members; those of a member without a name are the struct's own.  C11 6.7.2.1."""
    parts: list[Part] = []
    names = {member.name for member in type.members}

    def add(name: str, at: int, shape: Shape) -> None:
        number = len(parts)
        while not name or any(part.name == name for part in parts):
            name = f"f{number}" if f"f{number}" not in names else ""
            number += 1
        parts.append(Part(name, at, shape))

    for member in type.members:
        shape = shape_of(member.type, depth + 1)
        at = member.offset // 8
        if not member.name and shape.kind == "struct":
            for part in shape.parts:
                add(part.name, at + part.offset, part.shape)
        else:
            add(member.name, at, shape)
    return tuple(parts)


def _basic(type: CType) -> Shape:
    size, encoding = type.size, type.encoding
    if encoding == "boolean":
        return _number("b1")
    if encoding == "null":
        return Shape("pointer", 8)
    if encoding == "float" and (size in (4, 8) or type.name in ("long double", "_Float16")):
        return _number(f"f{size}")
    if encoding == "complex_float" and size in (8, 16):
        return _number(f"c{size}")
    if encoding in _SIGNS and size in (1, 2, 4, 8, 16):
        return _number(f"{_SIGNS[encoding]}{size}")
    return Shape("bytes", size)
