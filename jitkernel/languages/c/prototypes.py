"""What C says of a variable or a function that IR does not: signs, members, what is by value.

Start from `prototype`.  A declaration of numbers and pointers is read here; clang is asked what
others are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from jitkernel.errors import JitError
from jitkernel.languages.c.clang import clang_of
from jitkernel.languages.c.declarations import Declarator, declarators, specifiers
from jitkernel.languages.c.generated import value_type
from jitkernel.languages.c.module import parse
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.pieces import cut
from jitkernel.languages.c.pointees import number_of, parameters_of, pointee
from jitkernel.languages.c.shapes import number, shape_of
from jitkernel.languages.c.tokens import Token, Unfinished, tokens
from jitkernel.languages.c.types import VOID, CType, Types
from jitkernel.languages.c.unit import Guesses, Unit
from jitkernel.languages.language import Glance
from jitkernel.languages.prototypes import Pointee, Prototype
from jitkernel.languages.shapes import Shape

__all__ = ["prototype"]

type_ = type


def prototype(name: str, known: Glance) -> Prototype | None:
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
    text = " ".join(note.text.removeprefix("extern ").rstrip(";").split())
    if note.kind == "variable" or not declared[0].function:
        return _variable(name, text, found, declared[0], notes, known)
    said = _function(name, text, found, declared[0], notes, known)
    if all(_is_number(part, notes) for part in parameters_of(found, declared[0])):
        return said
    return (said or Prototype(text=text))._replace(pointed=_structs(name, known))


def _structs(name: str, known: Glance) -> Callable[[int], Shape | None]:
    """What tells which structs a function's parameters lead to; clang is asked once."""

    @cache
    def asked() -> CType | None:
        return _ask(name, known, Notes(known.notes))

    def pointed(index: int) -> Shape | None:
        type = asked()
        if type is None or type.bare.kind != "function" or index >= len(type.bare.parameters):
            return None
        of = type.bare.parameters[index].bare.of
        shape = shape_of(of) if of is not None else None
        return shape if shape is not None and shape.kind == "struct" else None

    return pointed


def _plain_result(found: list[Token], declared: Declarator, notes: Notes) -> tuple[bool, str]:
    """Whether IR has all that there is of a variable's or a result's type; and its code, if it is
    one number."""
    head = [t.text for t in found[: specifiers(found).end] if t.text != "extern"]
    before = {t.text for t in found[declared.first : declared.name_at]}
    code = "" if "*" in before else number_of(head, notes)
    return "*" in before or head == ["void"] or code[:1] in ("i", "f"), code


def _variable(
    name: str, text: str, found: list[Token], declared: Declarator, notes: Notes, known: Glance
) -> Prototype | None:
    behind = found[declared.name_at + 1 : declared.last]
    same, code = _plain_result(found, declared, notes)
    if same and (code != "i1" or not behind):
        return None
    if code and not behind:
        return Prototype(number(code), text=text)
    type = _ask(name, known, notes)
    if type is not None and type.bare.kind == "function":  # declared by a macro
        return _by_type(type, [], text, ())
    return Prototype(shape_of(type), text=text) if type is not None else None


def _function(
    name: str, text: str, found: list[Token], declared: Declarator, notes: Notes, known: Glance
) -> Prototype | None:
    same, code = _plain_result(found, declared, notes)
    parts = parameters_of(found, declared)
    wanted = tuple(pointee(part, notes) for part in parts)
    if all(_is_plain(part, notes) for part in parts) and (same or code):
        if code[:1] in ("u", "c"):
            return Prototype(number(code), text=text, pointees=wanted)
        return Prototype(text=text, pointees=wanted) if any(wanted) else None
    type = _ask(name, known, notes)
    if type is None or type.bare.kind != "function":
        return Prototype(text=text, pointees=wanted) if any(wanted) else None
    return _by_type(type, [_name_of(part) for part in parts], text, wanted)


def _by_type(
    type: CType, names: list[str], text: str, wanted: tuple[Pointee | None, ...]
) -> Prototype | None:
    every = tuple(_by_value(parameter) for parameter in type.bare.parameters)
    of = type.bare.of or VOID
    kinds = tuple(_kind(t) for t in (*type.bare.parameters, of))
    result = _by_value(of, result=True)
    if any(every) or (result is not None and result.kind != "number"):
        return Prototype(result, every, tuple(names), kinds, text, wanted)
    if result is not None or any(wanted):
        return Prototype(result, text=text, pointees=wanted)
    return None


def _is_plain(part: list[Token], notes: Notes) -> bool:
    """Whether a parameter is a number or a pointer."""
    words = [t.text for t in part]
    if words == ["..."]:
        return True
    if "__attribute__" in words or words[:2] == ["[", "["]:
        return False  # clang knows
    if "*" in words or "[" in words or "enum" in words:
        return True
    return _is_number(part, notes)


def _is_number(part: list[Token], notes: Notes) -> bool:
    """Whether a parameter is a number that IR passes as one."""
    words = [t.text for t in part]
    end = specifiers([*part, *part[-1:]]).end
    if "*" in words[end:] or "[" in words[end:]:
        return False
    code = number_of(words[:end], notes)
    return bool(code) and code[0] != "c"


def _kind(type: CType) -> type_ | None:
    """The class of Python's that a value of a type is."""
    bare = type.bare
    if bare.kind in ("struct", "union", "array", "vector"):
        return tuple if bare.kind != "union" else bytes
    if bare.kind == "enum":
        return int
    code = shape_of(bare).code[:1]
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
    return value_type(Types(parse(output.text).metadata))


def _by_value(type: CType, result: bool = False) -> Shape | None:
    """The shape of a parameter or a result where IR has another one."""
    bare = type.bare
    if bare.kind in ("void", "pointer", "function", "array"):
        return None
    shape = shape_of(type)
    plain = bare.kind in ("base", "enum") and shape.kind == "number" and shape.code[0] in "iubf"
    return shape if not plain or (result and shape.code[0] == "u") else None
