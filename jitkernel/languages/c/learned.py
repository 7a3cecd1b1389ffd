"""The notes that a cell of C leaves, with what clang has found out.  Start from `learned`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jitkernel.ir.names import CONTROL, decode_name
from jitkernel.languages.c.declarations import unsized
from jitkernel.languages.c.generated import file_name
from jitkernel.languages.c.headers import Header
from jitkernel.languages.c.included import brings, files_of
from jitkernel.languages.c.notes import (
    DIRECTIVE,
    IDENTIFIER,
    MACRO,
    Note,
    Notes,
    decoded,
    key_name,
    keys_of,
    mentioned,
    on_line,
    plan_notes,
)
from jitkernel.languages.c.tokens import tokens, words
from jitkernel.languages.c.unit import Unit
from jitkernel.languages.llvm.plan import Below, LanguageNote
from jitkernel.record import replace
from jitkernel.values.c import declare, promoted
from jitkernel.values.debug_info import Types
from jitkernel.wording import cut_list

#: What has no name.
_CALLED = {"assembly": "asm", "assertion": "_Static_assert"}
_SPELLED = 80  # characters of a declaration in a status line


def learned(
    unit: Unit, before: Notes, types: Types, symbols: Iterable[str],
    macros_of: Callable[[int], Iterable[str]], folders: Sequence[str],
) -> dict[Any, LanguageNote]:  # fmt: skip
    """The notes of a unit's cell, which defines these symbols; `before` are those of the others,
    `macros_of` tells the macros that a line was expanded from, `folders` are where the headers are
    looked for that it includes."""
    number = unit.reading.number
    notes: dict[str, Note] = {}
    for note in unit.own:
        needs, kind = note.needs, note.kind
        header = unit.reading.headers.get(note.text)
        if kind == "include" or header is not None:
            needs |= _read(note, header, unit, before)
            kind = "include" if needs else kind
        notes[note.key] = replace(
            _completed(note, types, note.text), kind=kind, needs=needs,
            macros=tuple(sorted(macros_of(note.line))),
            content=None if header is None else header.content,
        )  # fmt: skip
    for order, name in enumerate(sorted(_others(unit, symbols)), 1000):
        type, kind, head = types.function(name), "function", ""
        if type is None:
            type, kind, head = types.variable(name), "variable", "extern "
        if type is not None:
            notes[IDENTIFIER + name] = Note(
                IDENTIFIER + name, kind, f"{head}{declare(type, name)};",
                number, order, definition_line=0,
            )  # fmt: skip
    for file in _files_of_definitions(unit, types, symbols):  # once is enough
        for key, note in list(notes.items()):
            if note.kind == "include" and brings(note.text, file, folders):
                del notes[key]
                notes = {n.key: n for n in _given(unit, note, folders)} | notes

    owned = unit.owned

    def is_known(key: str) -> bool:
        return key in owned or key in notes or key in before

    def known_to(note: Note) -> Callable[[str], bool]:
        younger = before.younger(note)
        return lambda key: is_known(key) and key not in younger

    return plan_notes(
        is_known,
        (note.known_with(is_known) for note in notes.values() if note.text or note.is_defined),
        [
            *_meant_otherwise(unit, before),
            *(note.known_with(known_to(note)) for note in _deduced_again(unit, types)),
            *_read_again(unit, before),
            *left(before, unit.reading.replaces, unit.owned),
        ],
        before.younger,
    ) | _others_say(unit, before, plan_notes(is_known, unit.declared.beside.values(), ()))


def _others_say(
    unit: Unit, before: Notes, beside: Mapping[str, LanguageNote]
) -> dict[Any, LanguageNote]:
    """The notes of other cells on names of the cell, and on those that it had, which count again or
    later, and its own on theirs; empty ones for those that do not count any more."""
    found: dict[Any, LanguageNote] = dict.fromkeys(before.gone, LanguageNote(""))
    found |= {Below(key, unit.reading.number): said for key, said in beside.items()}
    for key in before.was.keys() - unit.owned:
        found[key] = said = before.said(key)
        if said.kept:
            found[Below(key, said.cell)] = LanguageNote("")
    for key in unit.owned:
        note = before.get(key)
        if note is not None and note.stands and note.cell != unit.reading.replaces:
            found[Below(key, note.cell)] = before.said(key)
    return found


def _read(note: Note, header: Header | None, unit: Unit, before: Notes) -> frozenset[str]:
    """The keys of what a header reads of cells: of what stands before it, and it mentions and does
    not say itself; the macros of its cell where it is not followed."""
    own = {key: n for n in unit.own for key in n.keys}
    guesses = unit.reading.guesses
    keys = {*keys_of(guesses.needed)}
    if header is None:
        keys.update(key for key in own if key.startswith(MACRO))
    else:
        types = (key for key in header.content if not key.startswith(MACRO))
        keys |= {*mentioned(header.text)}.difference(types)

    def is_before(key: str) -> bool:
        other = own.get(key) or before.get(key)
        return other is not None and other.kind != "undef" and other.position < note.position

    return frozenset(filter(is_before, keys)).union(map(MACRO.__add__, guesses.taken_back))


def _meant_otherwise(unit: Unit, before: Notes) -> Iterator[Note]:
    """The notes of what was compiled with a macro that is none now, or the other way round."""
    defined = {note.name for note in unit.own if note.kind == "define"}
    for note in unit.changes.every:
        if not before.was.keys().isdisjoint(note.uses):
            yield replace(note, uses=before.present(note.uses))
        elif asked := defined.intersection(note.asks) if note.key in unit.changes.stale else ():
            uses = note.uses | {MACRO + name for name in asked}
            yield replace(note, uses=uses, asks=tuple(n for n in note.asks if n not in asked))


def left(notes: Notes, cell: int, owned: Collection[str] = ()) -> list[Note]:
    """The notes of names that are in no text any more when others take the place of a cell.  What
    other notes give by now, such as an enumerator of another enum, they give no more."""
    return [
        replace(note, left=True, also=tuple(filter(partial(notes.gives, note), note.also)))
        for note in notes.of_cell(cell)
        if not note.left and not note.key.startswith(DIRECTIVE)
        and not any(key in owned for key in note.keys)
    ]  # fmt: skip


def _read_again(unit: Unit, before: Notes) -> list[Note]:
    """The notes of headers that another cell has included, and this one includes again."""
    headers = unit.reading.headers
    return [
        replace(note, content=header.content, needs=note.needs | _read(note, header, unit, before))
        for note in (before if headers else ())
        if note.content is not None and (header := headers.get(note.text)) is not None
        and not unit.reading.is_replaced(note)
    ]  # fmt: skip


def _deduced_again(unit: Unit, types: Types) -> Iterator[Note]:
    """The notes of remade variables whose types their definitions tell."""
    for note in (note for note in unit.changes.every if note.deduced):
        head = note.definition.partition("=")[0].rstrip("; ")
        yield _completed(note, types, f"extern {head};")


def _others(unit: Unit, symbols: Iterable[str]) -> set[str]:
    """The symbols of the cell that its own text does not declare."""
    names = {decode_name(name) for name in symbols} - {note.symbol for note in unit.own}
    return {name for name in names if IDENTIFIER + name not in unit.owned}


def _files_of_definitions(unit: Unit, types: Types, symbols: Iterable[str]) -> list[str]:
    """The files that the cell includes and that define functions or variables."""
    files = {types.file(name) for name in _others(unit, symbols)}
    return sorted(files - {"", file_name(unit.reading.number)})


def _given(unit: Unit, include: Note, folders: Sequence[str]) -> Iterator[Note]:
    """The notes of what a header gives, which later cells cannot include again."""
    header = unit.reading.headers.get(include.text)
    for order, note in enumerate(header.types if header is not None else ()):
        key = note.key
        if key.startswith(DIRECTIVE):
            if next(files_of(note.text, folders), None) is not None:
                continue  # it is a part of this one
            key = f"{DIRECTIVE}{include.owner}.{include.order}.{order}"
        yield replace(
            note, key=key, cell=include.cell, order=include.order, line=include.line,
            definition_line=include.line, at=include.at,
        )  # fmt: skip


def _completed(note: Note, types: Types, text: str) -> Note:
    """A note whose text, as it was written, may leave to clang what the type is."""
    name = key_name(note.key)
    if note.kind == "function" and not note.text:
        type = types.function(name)
        return replace(note, text=f"{declare(promoted(type), name)};" if type else "")
    type = types.variable(name) if note.kind == "variable" else None
    if type is None:
        return note
    bracket = unsized(tokens(text))
    automatic = not words(text).isdisjoint(("auto", "__auto_type"))
    named = "[" not in text and type.kind == "array"  # its type's name may say no length
    if not (bracket or automatic or named):
        return note
    if bracket and "{" in text:  # of a type without a name
        count = type.bare.sides[0] if type.bare.sides else 0
        text = f"{text[: bracket.start]}{count}{text[bracket.start :]}"
    else:
        text = f"extern {declare(type, name)};"
    if note.computed:  # an initialiser that ran is gone, and what it said of the type with it
        return replace(note, text=text, definition=f"{declare(type, name)};")
    return replace(note, text=text, deduced=bool(note.definition))


def spelled(unit: Unit, own: Iterable[str], notes: Mapping[str, LanguageNote]) -> dict[str, str]:
    """Symbols as C declares them: `int sq(int x)`."""
    found = {}
    names = {note.symbol: note.name for note in unit.own}
    for name in own:
        plain = decode_name(name)
        bare = names.get(plain, plain)
        note = notes.get(IDENTIFIER + bare)
        said = note and decoded(note.kept)
        text = on_line(said.text) if isinstance(said, Note) else bare
        found[plain] = found[CONTROL + plain] = text if len(text) <= _SPELLED else bare
    return found


def reasons(unit: Unit, cell: int) -> str:
    """The reason that a cell is compiled again, for the user."""
    stale = [note for note in unit.changes.remade[cell] if note.key in unit.changes.stale]
    news = ", ".join(dict.fromkeys(name for n in stale for name in unit.changes.stale[n.key]))
    kinds = ("function", "assembly")
    names = ", ".join(_CALLED.get(n.kind, n.name) for n in stale if n.kind in kinds)
    return f"{names} (cell {cell}) was compiled again for the new {news}" if names else ""


def outdated(unit: Unit, before: Notes) -> list[str]:
    """Messages to the user about what does not follow its changes: what earlier macros have made,
    and what needs headers that read its types."""
    own = [
        note for note in unit.own
        if (known := before.before(note.key)) is None or not known.same(note)
    ]  # fmt: skip
    gone = left(before, unit.reading.replaces, unit.owned)
    changed = {note.name for note in (*own, *gone) if note.kind in ("define", "undef")}
    types = {note.key for note in own if note.key in before}
    read = [
        f"{note.text.split(None, 1)[1]} is read with the new {names} from now on; what was "
        "compiled with it before is as it was"
        for note in (before.directives() if types else ())
        if not note.content
        if (names := ", ".join(sorted({key_name(key) for key in note.needs & types})))
    ]  # fmt: skip
    found: dict[tuple[int, str], list[str]] = {}
    for note in before if changed else ():
        old = ", ".join(name for name in note.macros if name in changed)
        named = note.key not in unit.owned and not note.key.startswith(DIRECTIVE)
        if old and named and note.cell != unit.reading.replaces:
            found.setdefault((note.cell, old), []).append(note.name)
    told = [
        f"{cut_list(names, 3)} (cell {cell}) still {'is' if len(names) == 1 else 'are'} what the "
        f"{macros} of before made; run that line again for the new one"
        for (cell, macros), names in sorted(found.items())
    ]
    return [*read, *_gone(unit, gone, before), *told]


def _gone(unit: Unit, gone: Iterable[Note], before: Notes) -> list[str]:
    """Messages to the user about types, constants and macros that the cell has no more and others
    were compiled with; of functions and variables the linker knows who uses them."""
    others = ("function", "variable", "undef")
    lost = {
        key: note.name for note in gone if note.folded or note.kind not in others
        for key in note.keys if key not in unit.reading.given
    }  # fmt: skip
    users = before.affected(lost)[1] if lost else {}
    found: dict[int, tuple[list[str], set[str]]] = {}
    for note in before if users else ():
        if note.key in users and note.key not in unit.owned and note.cell != unit.reading.replaces:
            names, used = found.setdefault(note.cell, ([], set()))
            names.append(_CALLED.get(note.kind, note.name))
            used.update(users[note.key])
    number = unit.reading.number
    return [
        f"cell {number} no longer declares {cut_list(sorted(used), 3)}; {cut_list(names, 3)} "
        f"(cell {cell}) still use{'s' * (len(names) == 1)} the old "
        f"{'one' if len(used) == 1 else 'ones'}"
        for cell, (names, used) in sorted(found.items())
    ]


def included(
    unit: Unit, types: Types, symbols: Iterable[str], folders: Sequence[str]
) -> Iterator[str]:
    """Messages to the user about files whose definitions the cell includes."""
    for path in _files_of_definitions(unit, types, symbols):
        headers = [h for text, h in unit.reading.headers.items() if brings(text, path, folders)]
        lacking = "types and macros"
        if any(header.types for header in headers):
            if not any(header.has_state for header in headers):
                continue
            lacking = "static functions"
        yield (
            f"later cells know the functions and variables of {os.path.basename(path)}, but not "
            f"its {lacking}: include its header, or have all with %run {shlex.quote(path)}"
        )
