"""The types of expressions and of names of types, whole.  Start from `types`.

Clang is asked, and describes only what an expression needs: a struct that is only pointed to is
without members then, and asked for by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.pieces import Mismatch
from jitkernel.languages.c.prototypes import type_of
from jitkernel.languages.c.tokens import Unfinished
from jitkernel.languages.language import StateView
from jitkernel.record import fields
from jitkernel.values.datatype import DataType

__all__ = ["types"]

_TAGGED = ("struct", "union", "enum")
_FIELDS = [field.name for field in fields(DataType)]


def types(texts: Sequence[str], known: StateView) -> list[DataType | None]:
    """The types of expressions, and of names of types such as `struct s`; None of what clang
    refuses.  Structs are complete wherever cells or headers have them so, behind pointers too."""
    found = _asked(texts, known)
    asked = dict[str, DataType | None]()
    due = list(_incomplete(filter(None, found)))
    while names := sorted({_tag(type) for type in due} - asked.keys()):
        asked |= zip(names, _asked(names, known), strict=True)
        for type in due:
            _fill(type, asked[_tag(type)])
        due = list(_incomplete(filter(None, map(asked.get, names))))
    for type in due:
        _fill(type, asked[_tag(type)])
    return found


def _asked(texts: Sequence[str], known: StateView) -> list[DataType | None]:
    """The types that clang has for all; where it refuses one, those of each half."""
    pointers = ", ".join(f"__typeof__({text}) *" for text in texts)
    of: DataType | None = None
    with suppress(Mismatch, Unfinished):  # a text is no expression
        of = type_of(f"(void (*)({pointers}))0", known, Notes(known.notes)) if texts else None
    if of is not None and of.element is not None:
        found = [parameter.element for parameter in of.element.bare.parameters]
        if len(found) == len(texts):
            return found
    if len(texts) > 1:
        half = len(texts) // 2
        return [*_asked(texts[:half], known), *_asked(texts[half:], known)]
    return [None] * len(texts)


def _incomplete(types: Iterable[DataType]) -> Iterator[DataType]:
    """The structs, unions and enums with names that types lead to and nothing is known of."""
    due, seen = list(types), set[int]()
    while due:
        type = due.pop()
        if id(type) in seen:
            continue
        seen.add(id(type))
        if type.kind in _TAGGED and not type.complete and type.name:
            yield type
        due += [member.type for member in type.members]
        due += [*type.parameters, *([type.element] if type.element is not None else [])]


def _tag(type: DataType) -> str:
    return f"{type.kind} {type.name}"


def _fill(type: DataType, found: DataType | None) -> None:
    if found is not None and found.bare.complete and found.bare.kind == type.kind:
        for name in _FIELDS:
            setattr(type, name, getattr(found.bare, name))
