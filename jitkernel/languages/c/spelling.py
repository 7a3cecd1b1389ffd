"""How C writes what a cell of it defines: for Python's users and tables.  Start from `spelled`."""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.languages.c.completion import comment_above, declared_by_headers
from jitkernel.languages.c.declarations import declarators
from jitkernel.languages.c.notes import Notes, on_line
from jitkernel.languages.c.pointees import parameters_of
from jitkernel.languages.c.tokens import Token, Unfinished, tokens
from jitkernel.languages.language import StateView
from jitkernel.languages.prototypes import Spelling

__all__ = ["spelled"]


def spelled(name: str, known: StateView) -> Spelling | None:
    """The declaration of a function or a variable, its parameters' types or its own, and its
    definition below the comment that stands above it; None for what neither cells declare nor
    headers of the system."""
    notes = Notes(known.notes)
    note = notes.identifier(name)
    said = note.text if note is not None else declared_by_headers(name, known, notes)
    if not said or (note is not None and note.kind not in ("function", "variable")):
        return None
    text = on_line(said)
    try:
        found = tokens(said)[:-1]
        (declared,) = declarators(found)
        if (note is None or note.kind == "function") and declared.function:
            types = tuple(_type(part) for part in parameters_of(found, declared))
        else:
            head = [t for t in found if t.text not in ("extern", ";")]
            types = (_type(head),)
    except (Unfinished, IndexError, ValueError):
        types = ()

    def document() -> str:
        if note is None:
            return f"{text};"
        comment = comment_above(known.source(note.cell), note) if note.cell else ""
        own = (note.definition or f"{text};").strip("\n")
        return f"{comment}\n{own}" if comment else own

    return Spelling(text, types, document)


def _type(part: Sequence[Token]) -> str:
    """The type in a declaration of one name, without the name: `const double *`, `int [4]`."""
    try:
        (declared,) = declarators(list(part))
    except (IndexError, ValueError):
        return " ".join(t.text for t in part)
    words = [t.text for at, t in enumerate(part) if at != declared.name_at or not declared.name]
    text = " ".join(words)
    for mark in "*)][(":
        text = text.replace(f"{mark} ", mark)
    for mark in "])":
        text = text.replace(f" {mark}", mark)
    return text.strip()
