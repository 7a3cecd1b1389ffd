"""The notes that a cell of C leaves, with what clang has found out.  Start from `learned`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from jitkernel.ir.names import CONTROL, decode_name
from jitkernel.languages.c.declarations import unsized
from jitkernel.languages.c.generated import file_name
from jitkernel.languages.c.notes import (
    IDENTIFIER,
    MACRO,
    TAG,
    Note,
    Notes,
    decode,
    encoded,
    key_name,
)
from jitkernel.languages.c.tokens import tokens, words
from jitkernel.languages.c.types import Types
from jitkernel.languages.c.unit import Unit
from jitkernel.languages.llvm.plan import PlanNote

__all__ = ["included", "learned", "outdated", "reasons", "spelled"]

_SPELLED = 80  # characters of a declaration in a status line


def learned(
    unit: Unit, number: int, before: Notes, types: Types, symbols: Iterable[str],
    macros_of: Callable[[int], Iterable[str]], needed: Collection[str],
) -> dict[str, PlanNote]:  # fmt: skip
    """The notes of cell `number`, which defines these symbols; `before` are those of the others,
    `macros_of` tells the macros that a line was expanded from, `needed` are names that the headers
    which it includes need."""
    notes: dict[str, Note] = {}
    keys = _Keys(unit.owned, before)
    for note in unit.own:
        made = _completed(note, types, keys)
        made = replace(made, macros=tuple(sorted(macros_of(note.line))))
        if needed and note.kind in ("include", "header"):
            made = replace(made, kind="include", needs=_keys_of(needed, keys))
        if header := unit.headers.get(note.text):
            made = replace(made, content=header.content)
        notes[note.key] = made
    for order, name in enumerate(sorted(_others(unit, symbols)), 1000):
        type, kind, head = types.function(name), "function", ""
        if type is None:
            type, kind, head = types.variable(name), "variable", "extern "
        if type is not None:
            notes[IDENTIFIER + name] = Note(
                IDENTIFIER + name, kind, f"{head}{type.declare(name)};",  # type: ignore[arg-type]
                number, order, definition_line=0,
            )  # fmt: skip
    if _files_of_definitions(unit, number, types, symbols):  # once is enough
        notes = {key: note for key, note in notes.items() if note.kind != "include"}
    every = _Keys(unit.owned | notes.keys(), before)
    return encoded(note.known_with(every) for note in notes.values() if note.text)


def _others(unit: Unit, symbols: Iterable[str]) -> set[str]:
    """The symbols of the cell that its own text does not declare."""
    names = {decode_name(name) for name in symbols} - {note.symbol for note in unit.own}
    return {name for name in names if IDENTIFIER + name not in unit.owned}


def _files_of_definitions(
    unit: Unit, number: int, types: Types, symbols: Iterable[str]
) -> list[str]:  # fmt: skip
    """The files that cell `number` includes and that define functions or variables."""
    files = {types.file(name) for name in _others(unit, symbols)}
    return sorted(files - {"", file_name(number)})


def _completed(note: Note, types: Types, keys: Collection[str]) -> Note:
    name = key_name(note.key)
    if note.kind == "function" and not note.text:
        type = types.function(name)
        return replace(note, text=f"{type.promoted.declare(name)};" if type else "")
    if note.kind != "variable":
        return note
    bracket = unsized(tokens(note.text))
    macros = any(MACRO + word in keys for word in words(note.text))
    deduced = not words(note.text).isdisjoint(("auto", "__auto_type"))
    type = types.variable(name)
    if type is None:
        return note
    named = "[" not in note.text and type.kind == "array"  # its type's name says no length
    if not (bracket or macros or deduced or named):
        return note
    if bracket and "{" in note.text:  # of a type without a name
        count = type.bare.counts[0] if type.bare.counts else 0
        text = f"{note.text[: bracket.start]}{count}{note.text[bracket.start :]}"
        return replace(note, text=text)
    _, equals, value = note.definition.partition("=")
    return replace(
        note, text=f"extern {type.declare(name)};",
        definition=note.definition and f"{type.declare(name)}{f' ={value}' if equals else ';'}",
    )  # fmt: skip


def _keys_of(names: Iterable[str], keys: Collection[str]) -> frozenset[str]:
    """The keys of names that are known."""
    every = (kind + name for name in names for kind in (IDENTIFIER, TAG))
    return frozenset(key for key in every if key in keys)


class _Keys(Collection[str]):
    """The keys of a cell and of all earlier ones."""

    def __init__(self, own: Collection[str], notes: Notes):
        self._own, self._notes = own, notes

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (key in self._own or key in self._notes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def spelled(unit: Unit, own: Iterable[str], notes: Mapping[str, PlanNote]) -> dict[str, str]:
    """Symbols as C declares them: `int sq(int x)`."""
    found = {}
    names = {note.symbol: note.name for note in unit.own}
    for name in own:
        plain = decode_name(name)
        bare = names.get(plain, plain)
        note = notes.get(IDENTIFIER + bare)
        text = decode(note.text).text if note is not None else bare
        text = " ".join(text.removeprefix("extern ").rstrip(";").split())
        found[plain] = found[CONTROL + plain] = text if len(text) <= _SPELLED else bare
    return found


def reasons(unit: Unit, cell: int) -> str:
    """What the user is told of a cell that is compiled again."""
    stale = [note for note in unit.remade[cell] if note.key in unit.stale]
    news = ", ".join(dict.fromkeys(name for n in stale for name in unit.stale[n.key]))
    names = ", ".join(note.name for note in stale if note.kind == "function")
    return f"{names} (cell {cell}) was compiled again for the new {news}" if names else ""


def outdated(unit: Unit, before: Notes) -> list[str]:
    """What the user is told of what does not follow its changes: what earlier macros have made, and
    what needs headers that read its types."""
    changed = {
        note.name for note in unit.own
        if note.kind == "define" and (known := before.get(note.key)) is not None
        and known.kind == "define" and not known.same(note)
    }  # fmt: skip
    types = {
        note.key for note in unit.own
        if (known := before.get(note.key)) is not None and not known.same(note)
    }  # fmt: skip
    read = [
        f"{note.text.split(None, 1)[1]} is read with the new {names} from now on; what was "
        "compiled with it before is as it was"
        for note in (before.directives() if types else ())
        if (names := ", ".join(sorted({key_name(key) for key in note.needs & types})))
    ]  # fmt: skip
    found: dict[tuple[int, str], list[str]] = {}
    for note in before if changed else ():
        old = ", ".join(name for name in note.macros if name in changed)
        if old and note.cell != unit.replaces and note.key not in unit.owned:
            found.setdefault((note.cell, old), []).append(note.name)
    return read + [
        f"{_listed(names)} (cell {cell}) still {'is' if len(names) == 1 else 'are'} what the "
        f"{macros} of before made; run that line again for the new one"
        for (cell, macros), names in sorted(found.items())
    ]


def included(unit: Unit, number: int, types: Types, symbols: Iterable[str]) -> list[str]:
    """What the user is told of files whose definitions cell `number` includes."""
    return [
        f"later cells know the functions and variables of {os.path.basename(path)}, but not its "
        f"types and macros: include its header, or have all with %run {shlex.quote(path)}"
        for path in _files_of_definitions(unit, number, types, symbols)
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
