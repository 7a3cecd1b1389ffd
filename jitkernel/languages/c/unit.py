"""A cell of C as one text for clang: what earlier cells have declared, as far as the cell's words
reach it, then the cell, then its statements as functions.  Start from `Unit`.

`# line` directives say of every piece where it stands, so that complaints and debug information are
in lines of cells.  What a change of the cell's reaches in other cells is compiled in the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from jitkernel.languages.c.computed import Computed
from jitkernel.languages.c.declarations import (
    Declarator,
    declarators,
    specifiers,
)
from jitkernel.languages.c.declared import Declared, packed
from jitkernel.languages.c.generated import LENGTH, OWN, Part, file_name, value_function
from jitkernel.languages.c.headers import Header
from jitkernel.languages.c.notes import (
    DIRECTIVE,
    IDENTIFIER,
    MACRO,
    TAG,
    Note,
    Notes,
    key_name,
    mentioned,
)
from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.tokens import all_words, closing, words
from jitkernel.languages.c.words import STORAGE

__all__ = ["Guesses", "Run", "Unit"]

_WIDE = 1000  # columns that are filled with blanks so that clang counts as the cell does
_NEAR = 8  # lines that are


@dataclass(slots=True)
class Guesses:
    """What clang alone can tell, assumed until it says otherwise: whether the value is a bit-field
    or an array that is no variable's, pieces whose initialisers are computed when they run, how
    many elements such initialisers have, by piece and name, names of earlier cells that macros put
    together or headers declare, those that headers were first seen to declare, and those that
    headers need."""

    bit_field: bool = False
    temporary: bool = False
    computed: set[int] = field(default_factory=set)
    lengths: dict[tuple[int, str], int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Run:
    """A function that runs statements once, and where they stand."""

    entry: str
    text: str
    line: int
    last_line: int


class Unit:
    """The text for one cell.

    After `build`: `text` is what clang is given behind `Notes.header`; `own` are the notes that the
    cell makes, `owned` their keys, `kept` variables whose values stay, `unchanged` those whose
    types do, `stale` the definitions of other cells that must follow, each with the names that
    changed; `remade` are all definitions of those cells; `runs` what is called once, `value` the
    last expression.  `foreign` declares a name that a cell of another language has, `replaces` is
    the cell whose place this one takes; `wanted` are the notes of others that are in the text,
    `headers` the user's own, by the cell's directives.
    """

    def __init__(
        self, number: int, source: str, pieces: list[Piece], notes: Notes, guesses: Guesses,
        foreign: Callable[[str], str], defines: Callable[[str], bool], replaces: int = 0,
        length: Callable[[str], int] = lambda text: 1,
        cell_of: Callable[[str], int] = lambda name: 0,
        headers: Mapping[str, Header] = MappingProxyType({}),
    ):  # fmt: skip
        self._number, self._source, self._lines = number, source, source.split("\n")
        self.pieces, self._notes, self._guesses = pieces, notes, guesses
        self._foreign, self.replaces, self._length = foreign, replaces, length
        self.headers = headers
        self._declared = Declared(
            number, source, pieces, notes, guesses.computed, defines, replaces, cell_of
        )
        self.own = list(self._declared.notes.values())
        self.owned = self._declared.keys.keys()
        self._out: list[str] = []
        self._pending: list[Part] = []
        self._done: set[str] = set()  # notes that are in the text
        self._at = (0, 0)  # the cell's line and column that clang counts now; 0: another file's
        self.runs: list[Run] = []
        self.value: Piece | None = None
        self.kept: set[str] = set()
        self.unchanged: set[str] = set()
        self.stale: dict[str, list[str]] = {}
        self.remade: dict[int, list[Note]] = {}
        self.wanted: dict[str, Note] = {}
        self.text = ""

    # -- the whole -------------------------------------------------------------------------------

    def build(self) -> None:
        """Make the text."""
        self._find_stale()
        self.wanted = wanted = self._wanted()
        early, late = self._placed(wanted)
        names = words(self._source)
        later = {note.key for notes in late.values() for note in notes}
        for note in wanted.values():
            if note.kind in ("define", "undef", "pragma", "include") and note.key not in later:
                if note.kind == "include" and note.needs:
                    self._put_needed(note, wanted, early)
                self._put(note)
        for note in (*self.own, *wanted.values()):
            if note.key in self._notes:
                self._put_tags(note)
        self._put_all(early)
        for name, text in self._foreign_names(names).items():
            self._put_other(f'\n# 1 "session"\n{self._without_macros(text, [name])}\n')
        for index, piece in enumerate(self.pieces):
            self._write(index, piece)
            self._put_all(late.get(index, []))
        for cell in sorted(self.remade):
            for note in sorted(self.remade[cell], key=lambda n: n.place):
                self._put_definition(note)
        self._flush()
        if self.value is not None:
            self._write_value(self.value)
        self.text = "".join(self._out)

    def _foreign_names(self, names: Set[str]) -> dict[str, str]:
        """What declares functions and variables of objects and of other languages' cells.  Where a
        header declares one otherwise, only those are declared that clang does not know then."""
        guesses = self._guesses
        found = {
            name: text for name in sorted(names | guesses.names)
            if not self._is_known(name) and (text := self._foreign(name))
        }  # fmt: skip
        guesses.declared |= set() if guesses.declared else found.keys() & names & guesses.names
        if guesses.declared:
            names = names - guesses.names | guesses.declared
            found = {name: text for name, text in found.items() if name not in names}
        return found

    def _is_known(self, name: str) -> bool:
        keys = (IDENTIFIER + name, MACRO + name)
        return any(key in self._notes or key in self.owned for key in keys)

    def _find_stale(self) -> None:
        """What other cells define and the cell changes under them."""
        changed = set()
        for note in self.own:
            for key in (note.key, *note.also):
                known = self._notes.get(key)
                if known is not None and note.text and not known.same(note):
                    if note.kind != "undef":  # what has it keeps what it was
                        changed.add(key)
        self.unchanged = self._same_types(changed)
        stale = self._notes.affected(changed)[1] if changed else {}
        for note in self.own:
            was = self._notes.get(note.key)
            if was is not None and was.inline and was.cell != self._number:
                stale |= self._notes.inlined(was)
        stale |= self._new_in_headers()
        self.stale = {key: why for key, why in stale.items() if key not in self.owned}
        cells = {n.cell for key in self.stale if (n := self._notes.get(key)) is not None}
        for note in self._notes if cells else ():
            follows = note.cell in cells and note.cell != self.replaces
            if follows and note.is_defined and note.key not in self.owned:
                self.remade.setdefault(note.cell, []).append(note)

    def _new_in_headers(self) -> dict[str, list[str]]:
        """What other cells define and headers change that the cell includes again."""
        new: set[str] = set()
        for text, header in self.headers.items():
            known = next((n for n in self._notes.directives() if n.text == text), None)
            if known is not None and known.content:
                new |= header.changed(known.content)
        if not new:
            return {}
        uses = {note.key: new.intersection(mentioned(note.text)) for note in self._notes}
        stale = self._notes.affected({key for key, found in uses.items() if found})[1]
        for note in self._notes:
            found = uses[note.key].union(new.intersection(mentioned(note.definition)))
            if note.is_defined and found:
                stale[note.key] = sorted(set(map(key_name, found)))
        return stale

    def _same_types(self, changed: set[str]) -> set[str]:
        """Variables of the cell that have the types that they had."""
        reached = self._notes.affected(changed)[0] if changed else set()
        return {
            note.name for note in self.own
            if note.kind == "variable" and note.key in self._notes and note.key not in reached
        }  # fmt: skip

    def _wanted(self) -> dict[str, Note]:
        """The notes that the text needs, apart from its own, in the order of their cells."""
        found = self._notes.closure(mentioned(self._source), self.owned)
        for name in self._guesses.names:
            found |= self._notes.closure((IDENTIFIER + name, TAG + name, MACRO + name), self.owned)
        for notes in self.remade.values():
            for note in notes:
                found |= self._notes.closure(note.uses | {note.key}, self.owned)
        replaced, own = f"{DIRECTIVE}{self.replaces}.", {piece.text for piece in self.pieces}
        for note in self._notes.directives():
            again = note.text in self.headers or note.text not in own
            if note.kind != "header" and not (again and note.key.startswith(replaced)):
                found |= self._notes.closure((note.key,), self.owned)
        kept = [n for n in found.values() if self.owned.isdisjoint((n.key, *n.also))]
        return {note.key: note for note in sorted(kept, key=lambda n: n.place)}

    def _placed(self, wanted: dict[str, Note]) -> tuple[list[Note], dict[int, list[Note]]]:
        """Which notes stand before the cell, and which behind a piece of it that they need."""
        early: list[Note] = []
        late: dict[int, list[Note]] = {}
        plain = any(note.key.startswith((IDENTIFIER, TAG)) for note in wanted.values())
        brought = self._brought() if plain else {}
        last = -1  # of the pieces that headers so far need
        for note in wanted.values():
            if note.kind in ("define", "undef", "pragma", "header"):
                continue
            every = self._notes.all_behind(note)
            behind = [self._declared.keys[key] for key in every if key in self.owned]
            if brought and note.kind != "include":
                texts = [n.text for n in (note, *map(self._notes.get, every)) if n is not None]
                named = brought.keys() & {key for text in texts for key in mentioned(text)}
                behind += [brought[key] for key in named - {note.key, *note.also}]
            if note.kind == "include":
                last = max(last, *behind, -1)
                if behind:
                    late.setdefault(last, []).append(note)
            elif behind or last >= 0:
                behind.append(last)
                late.setdefault(max(behind), []).append(note)
            else:
                early.append(note)
        return self._used_before(early, late) if late else (early, late)

    def _brought(self) -> dict[str, int]:
        """The keys of what headers declare that the cell includes, with the first such piece."""
        return {
            key: index for index, piece in reversed([*enumerate(self.pieces)])
            if piece.text in self.headers for key in self.headers[piece.text].names
        }  # fmt: skip

    def _used_before(
        self, early: list[Note], late: dict[int, list[Note]]
    ) -> tuple[list[Note], dict[int, list[Note]]]:
        """The same, where pieces use a note before others declare variables or functions again
        that it seems to need: what it calls so are parameters and members of its own."""
        used: dict[str, int] = {}
        for index, piece in enumerate(self.pieces):
            if piece.kind not in (PieceKind.STATEMENT, PieceKind.EXPRESSION):
                for key in mentioned(piece.text):
                    used.setdefault(key, index)
        last = len(self.pieces)
        before: dict[str, int] = {}
        for at, notes in late.items():
            for note in notes:
                first = min(used.get(key, last) for key in (note.key, *note.also))
                if first <= at:
                    for key in (note.key, *note.also, *self._notes.all_behind(note)):
                        before[key] = min(before.get(key, last), first)
        placed: dict[int, list[Note]] = {}
        for at, notes in late.items():
            for note in notes:
                first = min(before.get(key, last) for key in (note.key, *note.also))
                needed = [
                    self._declared.keys[key] for key in self._notes.all_behind(note)
                    if key in self._declared.keys and not self._is_variable(key)
                ]  # fmt: skip
                where = max([min(at, first - 1), *needed])
                placed.setdefault(where, []).append(note)
        return [*early, *placed.pop(-1, [])], placed

    def _is_variable(self, key: str) -> bool:
        """Whether a key is that of a variable or function of the cell."""
        note = self._declared.notes.get(key)
        return note is not None and note.kind in ("variable", "function")

    # -- notes in the text -----------------------------------------------------------------------

    def _put_tags(self, note: Note) -> None:
        """Declare the structs and unions that a note defines: what stands before it means them."""
        for key in (note.key, *note.also):
            if key.startswith(TAG):
                word = re.search(
                    rf"\b(struct|union)\b[^;{{}}]*\b{re.escape(key_name(key))}\b", note.text
                )
                if word is not None:
                    self._put_other(f"\n{word[1]} {key_name(key)};\n")

    def _put_all(self, notes: list[Note]) -> None:
        """Notes, each behind those that it must stand behind."""
        by_key = {key: note for note in notes for key in (note.key, *note.also)}
        begun: set[str] = set()
        for first in notes:
            todo = [first]
            while todo:
                note = todo[-1]
                before = [] if note.key in begun else [
                    by_key[key] for key in sorted(self._notes.stands_behind(note))
                    if key in by_key and by_key[key].key not in begun
                ]  # fmt: skip
                begun.add(note.key)
                todo += before
                if before:
                    continue
                todo.pop()
                if note.key not in self._done:
                    self._done.add(note.key)
                    self._put(note)

    def _put_needed(self, header: Note, wanted: dict[str, Note], early: list[Note]) -> None:
        """What a header that a cell includes needs, and the macros that this needs."""
        behind = self._notes.all_behind(header)
        for note in wanted.values():
            if note.kind == "define" and note.key in behind:
                self._put(note)
        self._put_all([note for note in early if note.key in behind])

    def _put(self, note: Note) -> None:
        text = note.text
        if note.kind == "define":
            text = f"#undef {note.name}\n{text}"
        elif note.key.startswith(IDENTIFIER) and MACRO + note.name in self._notes:
            text = self._without_macros(text, [note.name])
        head, tail = ("", "") if note.kind in ("define", "undef") else self._around(note, text)
        self._put_other(f'\n{head}# {note.line} "{file_name(note.cell)}"\n{text}\n{tail}')

    def _around(self, note: Note, text: str) -> tuple[str, str]:
        """What stands before and behind a text of a note: macros that are none now, and how structs
        were packed there."""
        every = self._notes.taken_back(text, self._declared.notes)
        packs = note.pack or packed(self._notes)
        before = f"#pragma pack(push, {note.pack})\n" if packs else ""
        return (
            "".join((before, *(f"{note.definition}\n" for note in every))),
            "".join(
                (*(f"#undef {note.name}\n" for note in every), "#pragma pack(pop)\n" * bool(packs))
            ),
        )

    @staticmethod
    def _without_macros(text: str, names: Iterable[str]) -> str:
        """A text in which these macros are none."""
        before = "".join(f'#pragma push_macro("{n}")\n#undef {n}\n' for n in names)
        after = "".join(f'\n#pragma pop_macro("{n}")' for n in names)
        return f"{before}{text}{after}" if before else text

    def _put_definition(self, note: Note) -> None:
        """Another cell's definition; macros that are younger than it are none in it."""
        younger = [
            word for word in sorted(all_words(note.definition))
            if MACRO + word in self._notes and MACRO + word not in note.uses
        ]  # fmt: skip
        head = "".join(f'#pragma push_macro("{n}")\n#undef {n}\n' for n in younger)
        tail = "".join(f'#pragma pop_macro("{n}")\n' for n in younger)
        place = f'# {note.definition_line} "{file_name(note.cell)}"'
        before, behind = self._around(note, note.definition)
        self._put_other(f"\n{head}{before}{place}\n{note.definition}\n{behind}{tail}")

    # -- the cell in the text --------------------------------------------------------------------

    def _marker(self, line: int, column: int = 1) -> str:
        """What tells clang the place of what follows; it counts columns in bytes."""
        before = self._lines[line - 1][: column - 1] if 0 < line <= len(self._lines) else ""
        blanks = min(len(before.encode("utf-8", "surrogateescape")), _WIDE)
        return f'\n# {max(line, 1)} "{file_name(self._number)}"\n' + " " * blanks

    def _write(self, index: int, piece: Piece) -> None:
        match piece.kind:
            case PieceKind.DIRECTIVE:
                self._flush()
                self._put_own(piece.line, piece.column, f"{piece.text}\n")
            case PieceKind.EXPRESSION if index == len(self.pieces) - 1:
                self.value = piece
            case PieceKind.STATEMENT | PieceKind.EXPRESSION:
                self._pending.append(
                    Part(piece.text, piece.line, piece.column, piece.last_line, piece.text)
                )
            case _:
                self._write_declaration(index, piece)

    def _write_declaration(self, index: int, piece: Piece) -> None:
        for label in self._declared.labelled.get(index, ()):
            self._put_other(f'\n# {piece.line} "{file_name(self._number)}"\n{label}\n')
        found = specifiers(piece.tokens)
        skipped = {*found.local}
        text = self._declared.text_of(piece, 0, len(piece.tokens), skipped)
        base = piece.start
        edits: list[tuple[int, int, str]] = []
        if piece.kind is PieceKind.DECLARATION and not found.typedef:
            names = declarators(piece.tokens, piece.body, self._declared.is_macro)
            storage = [self._declared.makes_storage(piece, d) for d in names]
            if found.extern and names and all(storage):
                token = next(t for t in piece.tokens if t.text == "extern")
                edits.append((token.start - base, token.stop - base, " " * 6))
            for declared in names:
                if declared.init < 0 and not declared.function and self._same(piece, declared):
                    self.kept.add(declared.name)
                elif declared.init >= 0 and self._declared.is_computed(index, declared):
                    computed = Computed(
                        self._source, self._declared, self._notes, piece, declared,
                        partial(self._elements, index, piece, declared),
                    )  # fmt: skip
                    edits += computed.edits()
                    self._pending += computed.parts()
        for start, stop, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[stop:]
        self._put_own(piece.line, piece.column, text)
        if edits:  # columns may be others
            self._at = (0, 0)
        if piece.kind is PieceKind.DECLARATION and piece.tokens[-1].text != ";":
            self._put_own(piece.last_line, piece.end_column, "\n;")

    def _put_own(self, line: int, column: int, text: str) -> None:
        """Text of the cell, where it stands there."""
        at, behind = self._at
        if at and at < line <= at + _NEAR:
            blanks = min(column - 1, _WIDE)
            self._out.append("\n" * (line - at) + " " * blanks)
        elif at == line and behind <= column:
            self._out.append(" " * (column - behind))
        else:
            self._out.append(self._marker(line, column))
        self._out.append(text)
        last = text.rpartition("\n")
        down = text.count("\n")
        plain = column <= _WIDE and text.isascii() and self._lines[line - 1].isascii()
        self._at = (line + down, (1 if down else column) + len(last[2])) if plain else (0, 0)

    def _put_other(self, text: str) -> None:
        """Text that is not the cell's."""
        self._out.append(text)
        self._at = (0, 0)

    def _elements(self, index: int, piece: Piece, declared: Declarator, value: str) -> int:
        """How many elements an initialiser has: only in a function may it stand as it is."""
        known = self._guesses.lengths.get((index, declared.name))
        if known is not None:
            return known
        tokens = piece.tokens
        head = self._declared.text_of(piece, 0, specifiers(tokens).end, {*self._not_types(piece)})
        place = self._marker(tokens[declared.init].line, tokens[declared.init].column)
        declarator = self._declared.text_of(piece, declared.first, declared.last, set())
        every = declarators(tokens, piece.body, self._declared.is_macro)
        before = [self._declared.declaration(piece, d) for d in every if d.first < declared.first]
        self._guesses.lengths[index, declared.name] = count = self._length(
            f'{"".join(self._out)}\n# 1 "session"\n{"".join(before)}\n'
            f"unsigned long {LENGTH}(void) {{\n{head} {declarator}{place}= {value};\n"
            f"return sizeof {declared.name} / sizeof *{declared.name};\n}}\n"
        )
        return count

    @staticmethod
    def _not_types(piece: Piece) -> list[int]:
        """The indices of its storage classes."""
        end = specifiers(piece.tokens).end
        return [at for at, token in enumerate(piece.tokens[:end]) if token.text in STORAGE]

    def _flush(self) -> None:
        """Write the statements so far as a function."""
        parts, self._pending = self._pending, []
        if not parts:
            return
        entry = f"{OWN}run{len(self.runs)}"
        self._put_other(f'\n# 1 "session"\nvoid {entry}(void) {{\n')
        for part in parts:
            marker = self._marker(part.line, part.column) if part.line else '\n# 1 "session"\n'
            self._put_other(marker + part.text)
        self._put_other('\n# 1 "session"\n}\n')
        placed = [part for part in parts if part.line]
        self.runs.append(
            Run(
                entry, " ".join(p.label for p in placed if p.label), placed[0].line,
                max(p.last_line for p in placed),
            )
        )  # fmt: skip

    def _write_value(self, piece: Piece) -> None:
        value = f"({self._marker(piece.line, piece.column)}{self._as_typed(piece)}\n)"
        self._put_other(value_function(value, self._guesses.bit_field, self._guesses.temporary))

    def _as_typed(self, piece: Piece) -> str:
        """An expression, or what stands for one that is written as values are shown: an array's
        text behind its type, an enum's flags behind theirs."""
        tokens = piece.tokens
        at = closing([*tokens, tokens[-1]], 0) if tokens[0].text == "(" else len(tokens)
        head, tail = tokens[1 : at - 1], tokens[at:]
        if not head or not tail:
            return piece.text
        before = self._source[piece.start : tail[0].start]
        behind = self._source[tail[0].start : tail[-1].stop]
        if head[-1].text == "]" and all(t.kind == "string" for t in tail):
            return f"{before}{{{behind}}}"
        flags = len(tail) > 1 and all(t.kind == "name" or t.text == "|" for t in tail)
        note = self._notes.identifier(head[0].text)
        enum = head[0].text == "enum" or (
            len(head) == 1 and note is not None and note.text.startswith("typedef enum")
        )
        return f"{before}({behind})" if flags and enum else piece.text

    # -- questions -------------------------------------------------------------------------------

    def _same(self, piece: Piece, declared: Declarator) -> bool:
        """Whether an earlier cell has the variable with the same type, and keeps its value."""
        note = self._notes.identifier(declared.name)
        if note is None or note.kind != "variable" or specifiers(piece.tokens).extern:
            return False
        own = next((n for n in self.own if n.key == IDENTIFIER + declared.name), None)
        return own is not None and own.same(note)
