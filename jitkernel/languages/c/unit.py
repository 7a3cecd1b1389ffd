"""A cell of C as one text for clang: what earlier cells have declared, as far as the cell's words
reach it, then the cell, then its statements as functions.  Start from `Unit`.

`# line` directives say of every piece where it stands, so that complaints and debug information are
in lines of cells.  What a change of the cell's reaches in other cells is compiled in the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import partial

from jitkernel.languages.c.changes import Changes
from jitkernel.languages.c.computed import Computed
from jitkernel.languages.c.declarations import Declarator, unsized
from jitkernel.languages.c.declared import Declared
from jitkernel.languages.c.generated import (
    FUNCTION_LEVEL,
    LENGTH,
    OWN,
    PLAIN,
    TOP_LEVEL,
    WIDE,
    Part,
    file_name,
    value_function,
)
from jitkernel.languages.c.macros import PUSHED
from jitkernel.languages.c.notes import (
    IDENTIFIER,
    MACRO,
    TAG,
    Note,
    key_name,
    mentioned,
)
from jitkernel.languages.c.packing import Packing, is_pack
from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.placing import Placing
from jitkernel.languages.c.pointed import forward
from jitkernel.languages.c.reached import reached
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import all_words, closing, words
from jitkernel.languages.c.words import STORAGE

__all__ = ["Run", "Unit"]

_DIRECTIVES = ("define", "undef", "pragma", "header")  # kinds of notes that stand first
_TARGET = re.compile(r"\b(?:__)?target(?:__|_clones)?\s*\(")  # for another processor
_NEAR = 8  # lines that are
_IS_LAID_OUT = re.compile(r"\b(?:struct|union)\b[^;{}]*\{")


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
    cell makes, `owned` their keys, `changes` what that changes for other cells, `kept` variables
    whose values stay, `runs` what is called once, `value` the last expression; `wanted` are the
    notes of others that are in the text.
    """

    def __init__(self, reading: Reading):
        self.reading, self._notes, self._guesses = reading, reading.notes, reading.guesses
        self.pieces, self._source = reading.pieces, reading.source
        self._lines = reading.source.split("\n")
        self._declared = Declared(reading)
        self._notes.read_with(self._declared.notes)
        self.own = list(self._declared.notes.values())
        self.owned = self._declared.keys.keys()
        others = (n for n in self._notes.directives() if not reading.is_replaced(n))
        self._packing = Packing((*others, *self.own))
        self.changes = Changes(reading, self.own, self._packing)
        self._out: list[str] = []
        self._pending: list[Part] = []
        self._done: set[str] = set()  # notes that are in the text
        self._at = (0, 0)  # the cell's line and column that clang counts now; 0: another file's
        self.runs: list[Run] = []
        self.value: Piece | None = None
        self.kept: set[str] = set()
        self.wanted: dict[str, Note] = {}
        self.text = ""

    # -- the whole -------------------------------------------------------------------------------

    def build(self) -> None:
        """Make the text."""
        self.wanted = wanted = self._wanted()
        placing = Placing(self.reading, self._declared, wanted)
        early, late = placing.early, placing.late
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
        packed = self._packing.before((self.reading.place, -1))
        self._put_other("".join(f"\n{text}\n" for text in packed))
        self._put_other("".join(f"\n#undef {name}\n" for name in self._guesses.taken_back))
        for index, piece in enumerate(self.pieces):
            self._write(index, piece)
            self._put_all(late.get(index, []))
        for cell in sorted(self.changes.remade):
            for note in sorted(self.changes.remade[cell], key=lambda n: n.place):
                if not (self._is_whole(note) and note.key in self._done):
                    self._put_definition(note)
        self._flush()
        if self.value is not None:
            self._write_value(self.value)
        self.text = "".join(self._out)
        if _TARGET.search(self.text):
            self.text = f'# 1 "session"\nvoid {PLAIN}(void) {{}}\n{self.text}'

    @property
    def has_state(self) -> bool:
        """True if it makes variables that are a header's own, used here or not."""
        again = (n for n in self.wanted.values() if n.content and n.cell in self.changes.remade)
        return any(header.has_state for header in self.reading.headers.values()) or any(again)

    def _foreign_names(self, names: Set[str]) -> dict[str, str]:
        """Declarations of functions and variables of objects and of other languages' cells.  Where
        a header declares one otherwise, only those are declared that clang does not know then."""
        guesses = self._guesses
        found = {
            name: text for name in sorted(names | guesses.names)
            if not self._is_known(name) and (text := self.reading.foreign(name))
        }  # fmt: skip
        guesses.declared |= set() if guesses.declared else found.keys() & names & guesses.names
        if guesses.declared:
            names = names - guesses.names | guesses.declared
            found = {name: text for name, text in found.items() if name not in names}
        return found

    def _is_known(self, name: str) -> bool:
        keys = (IDENTIFIER + name, MACRO + name)
        return any(key in self._notes or key in self.owned for key in keys)

    def _wanted(self) -> dict[str, Note]:
        """The notes that the text needs, apart from its own, in the order of their cells."""
        keys = [*mentioned(self._source)]
        words = {*all_words(self._source)}
        for name in self._guesses.names:
            keys += IDENTIFIER + name, TAG + name, MACRO + name
        for notes in self.changes.remade.values():
            for note in notes:
                keys += self._notes.present(note.uses) | {note.key}
                words |= all_words(note.definition)
        own = {piece.text for piece in self.pieces}
        for note in self._notes.directives():
            again = note.text in self.reading.headers or note.text not in own
            apart = note.kind == "header" or is_pack(note.text) or PUSHED.match(note.text)
            if apart or (again and self.reading.is_replaced(note)):
                continue
            keys.append(note.key)
        found = reached(self._notes, keys, words, self.owned)
        kept = [n for n in found.values() if self.owned.isdisjoint((n.key, *n.also))]
        return {note.key: note for note in sorted(kept, key=lambda n: n.place)}

    # -- notes in the text -----------------------------------------------------------------------

    def _put_tags(self, note: Note) -> None:
        """Declare the structs and unions that a note defines, and the name that a typedef gives
        one: what stands before it means them."""
        for key in (note.key, *note.also):
            if key.startswith(TAG):
                word = re.search(
                    rf"\b(struct|union)\b[^;{{}}]*\b{re.escape(key_name(key))}\b", note.text
                )
                if word is not None:
                    self._put_other(f"\n{word[1]} {key_name(key)};\n")
        if said := forward(note.text):
            self._put_other(f"{said.text}\n")

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
        """Put what a header that a cell includes needs, and the macros that this needs."""
        behind = self._notes.all_behind(header)
        for note in wanted.values():
            if note.kind in ("define", "undef") and note.key in behind:
                self._put(note)
        self._put_all([note for note in early if note.key in behind])

    def _put(self, note: Note) -> None:
        text = note.definition if self._is_whole(note) else note.text
        if note.kind == "define":
            text = f"#undef {note.name}\n{text}"
        elif note.key.startswith(IDENTIFIER) and MACRO + note.name in self._notes:
            text = self._without_macros(text, [note.name])
        head, tail = ("", "") if note.kind in ("define", "undef") else self._around(note, text)
        self._put_other(f'\n{head}# {note.line} "{file_name(note.cell)}"\n{text}\n{tail}')

    def _is_whole(self, note: Note) -> bool:
        """True if its definition stands where others need to know of it."""
        if note.folded:
            return note.key not in self.reading.leaving
        return note.deduced and note in self.changes.remade.get(note.cell, ())

    def _around(self, note: Note, text: str) -> tuple[str, str]:
        """The text before and behind a text of a note: macros that are none now, and how structs
        were packed there."""
        every = self._notes.taken_back(text, self._declared.notes)
        packs = bool(self._packing)
        pack = self._packing.at(note.position)
        before = f"#pragma pack(push, {pack})\n" if packs else ""
        return (
            "".join((before, *(f"{note.definition}\n" for note in every))),
            "".join((*(f"#undef {note.name}\n" for note in every), "#pragma pack(pop)\n" * packs)),
        )

    @staticmethod
    def _without_macros(text: str, names: Iterable[str]) -> str:
        """A text in which these macros are none."""
        before = "".join(f'#pragma push_macro("{n}")\n#undef {n}\n' for n in names)
        after = "".join(f'\n#pragma pop_macro("{n}")' for n in names)
        return f"{before}{text}{after}" if before else text

    def _put_definition(self, note: Note) -> None:
        """Another cell's definition; macros that are younger than it are none in it."""
        uses = self._notes.present(note.uses)
        younger = [
            word for word in sorted(all_words(note.definition))
            if MACRO + word in self._notes and MACRO + word not in uses
        ]  # fmt: skip
        head = "".join(f'#pragma push_macro("{n}")\n#undef {n}\n' for n in younger)
        tail = "".join(f'#pragma pop_macro("{n}")\n' for n in younger)
        place = f'# {note.definition_line} "{file_name(note.cell)}"'
        before, behind = self._around(note, note.definition)
        self._put_other(f"\n{head}{before}{place}\n{note.definition}\n{behind}{tail}")

    # -- the cell in the text --------------------------------------------------------------------

    def _marker(self, line: int, column: int = 1) -> str:
        """A line that tells clang the place of what follows; it counts columns in bytes."""
        wide = min(column - 1, WIDE)
        before = self._lines[line - 1][:wide] if 0 < line <= len(self._lines) else ""
        blanks = min(len(before.encode("utf-8", "surrogateescape")), WIDE)
        return f'\n# {max(line, 1)} "{file_name(self.reading.number)}"\n' + " " * blanks

    def _write(self, index: int, piece: Piece) -> None:
        match piece.kind:
            case PieceKind.DIRECTIVE if piece.text in self._guesses.again:
                self._flush()  # an earlier cell's stands before
            case PieceKind.DIRECTIVE:
                self._flush()
                if self._at[0] == piece.line:  # it was written as an operator
                    self._at = (0, 0)
                self._put_own(piece.line, piece.column, f"{piece.text}\n")
                if text := self._declared.given_back.get(index):
                    self._put_other(f"\n{text}\n")
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
            self._put_other(f'\n# {piece.line} "{file_name(self.reading.number)}"\n{label}\n')
        found = piece.head
        skipped = {*found.local}
        text = self._declared.text_of(piece, 0, len(piece.tokens), skipped)
        base = piece.start
        edits: list[tuple[int, int, str]] = []
        if piece.kind is PieceKind.DECLARATION and not found.typedef:
            names = piece.declared
            storage = [self._declared.makes_storage(piece, d) for d in names]
            if found.extern and names and all(storage):
                token = next(t for t in piece.tokens if t.text == "extern")
                edits.append((token.start - base, token.stop - base, " " * 6))
                edits += self._lengths(piece, names)
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

    def _lengths(self, piece: Piece, names: list[Declarator]) -> list[tuple[int, int, str]]:
        """Edits that give arrays of no length the one element that C gives them where they are
        defined nowhere else in the cell.  C11 6.9.2."""
        every = [declared.name for other in self.pieces for declared in other.declared]
        found = [
            unsized(piece.tokens[declared.name_at : declared.last])
            for declared in names if every.count(declared.name) == 1
        ]  # fmt: skip
        places = [token.start - piece.start for token in found if token is not None]
        return [(place, place, "1") for place in places]

    def _put_own(self, line: int, column: int, text: str) -> None:
        """Text of the cell, where it stands there."""
        at, behind = self._at
        if at and at < line <= at + _NEAR:
            blanks = min(column - 1, WIDE)
            self._out.append("\n" * (line - at) + " " * blanks)
        elif at == line and behind <= column:
            self._out.append(" " * (column - behind))
        else:
            self._out.append(self._marker(line, column))
        self._out.append(text)
        last = text.rpartition("\n")
        down = text.count("\n")
        plain = column <= WIDE and text.isascii() and self._lines[line - 1].isascii()
        self._at = (line + down, (1 if down else column) + len(last[2])) if plain else (0, 0)

    def _put_other(self, text: str) -> None:
        """Text that is not the cell's."""
        self._out.append(text)
        self._at = (0, 0)

    def _elements(self, index: int, piece: Piece, declared: Declarator, value: str) -> int:
        """The number of elements of an initialiser: only in a function may it stand as it is."""
        known = self._guesses.lengths.get((index, declared.name))
        if known is not None:
            return known
        tokens = piece.tokens
        head = self._declared.text_of(piece, 0, piece.head.end, {*self._not_types(piece)})
        place = self._marker(tokens[declared.init].line, tokens[declared.init].column)
        declarator = self._declared.text_of(piece, declared.first, declared.last, set())
        every = piece.declared
        before = [self._declared.declaration(piece, d) for d in every if d.first < declared.first]
        self._guesses.lengths[index, declared.name] = count = self.reading.length(
            f'{"".join(self._out)}\n# 1 "session"\n{"".join(before)}\n'
            f"unsigned long {LENGTH}(void) {{\n{head} {declarator}{place}= {value};\n"
            f"return sizeof {declared.name} / sizeof *{declared.name};\n}}\n"
        )
        return count

    @staticmethod
    def _not_types(piece: Piece) -> list[int]:
        """The indices of its storage classes."""
        end = piece.head.end
        return [at for at, token in enumerate(piece.tokens[:end]) if token.text in STORAGE]

    def _flush(self) -> None:
        """Write the statements so far as a function."""
        parts, self._pending = self._pending, []
        if not parts:
            return
        entry = f"{OWN}run{len(self.runs)}"
        self._put_other(f'\n# 1 "session"{TOP_LEVEL}\nvoid {entry}(void) {{\n')
        for part in parts:
            marker = self._marker(part.line, part.column) if part.line else '\n# 1 "session"\n'
            self._put_other(marker + part.text)
        self._put_other(f'\n# 1 "session"\n}}{FUNCTION_LEVEL}')
        placed = [part for part in parts if part.line]
        self.runs.append(
            Run(
                entry, " ".join(p.label for p in placed if p.label), placed[0].line,
                max(p.last_line for p in placed),
            )
        )  # fmt: skip

    def _write_value(self, piece: Piece) -> None:
        value = f"({self._marker(piece.line, piece.column)}{self._as_typed(piece)}\n)"
        guesses = self._guesses
        self._put_other(
            value_function(value, guesses.bit_field, guesses.temporary, guesses.declares)
        )

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

    @property
    def taken_back(self) -> frozenset[str]:
        """The keys of macros that are none for the headers that the cell includes."""
        return frozenset(MACRO + name for name in self._guesses.taken_back)

    def _same(self, piece: Piece, declared: Declarator) -> bool:
        """True if an earlier cell has the variable with the same type, and keeps its value."""
        note = self._notes.identifier(declared.name)
        if note is None or note.kind != "variable" or piece.head.extern:
            return False
        own = self._declared.notes.get(IDENTIFIER + declared.name)
        return own is not None and own.same(note)
