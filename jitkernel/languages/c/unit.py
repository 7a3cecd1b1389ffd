"""A cell of C as one text for clang: what earlier cells have declared, as far as the cell's words
reach it, then the cell, then its statements as functions.  Start from `unit_of`.

What a change of the cell's reaches in other cells is compiled in the same text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from jitkernel.ir.text import replaced
from jitkernel.languages.c.changes import Changes
from jitkernel.languages.c.declarations import Declarator, hiding, unsized
from jitkernel.languages.c.declared import Declared, is_old_style
from jitkernel.languages.c.generated import (
    FUNCTION_LEVEL,
    LENGTH,
    OWN,
    PLAIN,
    TOP_LEVEL,
    VALUE,
    Part,
    Text,
    assembly_of,
    file_name,
    value_function,
)
from jitkernel.languages.c.macros import PUSHED, tokens_of
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, TAG, Note, key_name, mentioned
from jitkernel.languages.c.packing import Packing, is_pack
from jitkernel.languages.c.pieces import Piece, PieceKind, cut
from jitkernel.languages.c.pointed import forward
from jitkernel.languages.c.reached import placed, reached
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import Token, all_words, closing, words
from jitkernel.languages.c.words import STORAGE
from jitkernel.languages.language import Once
from jitkernel.reach import postorder
from jitkernel.record import record
from jitkernel.regex import regex

_TARGET = regex(r"\b(?:__)?target(?:__|_clones)?\s*\(")  # for another processor


@record
class Unit:
    """A cell as clang is given it, behind `Notes.header`: `text`.

    `declared` is what it declares, `changes` what that changes for other cells, `wanted` the notes
    of others that are in the text; `kept` are variables whose values stay, `runs` what is called
    once, whose IR clang will tell, `value` is the last expression, which is the last of them.
    """

    reading: Reading
    declared: Declared
    changes: Changes
    wanted: Mapping[str, Note]
    text: str
    runs: Sequence[Once]
    value: Piece | None
    kept: Set[str]

    @property
    def own(self) -> Collection[Note]:
        """The notes that the cell makes."""
        return self.declared.notes.values()

    @property
    def owned(self) -> Set[str]:
        """The keys of what the cell declares."""
        return self.declared.keys.keys()

    @property
    def has_state(self) -> bool:
        """True if it makes variables that are a header's own, used here or not."""
        again = (n for n in self.wanted.values() if n.content and n.cell in self.changes.remade)
        return any(header.has_state for header in self.reading.headers.values()) or any(again)


def unit_of(reading: Reading) -> Unit:
    """The text for a cell that is read."""
    return _Writer(reading).write()


def _wanted(reading: Reading, declared: Declared, changes: Changes) -> dict[str, Note]:
    """The notes that the text needs, apart from its own, in the order of their cells."""
    notes = reading.notes
    keys = [*mentioned(reading.source)]
    words = {*all_words(reading.source)}
    for name in reading.guesses.names:
        keys += IDENTIFIER + name, TAG + name, MACRO + name
    keys = notes.present_in_text(keys)
    for note in changes.every:
        keys += notes.present(note.uses) | {note.key}
        words |= all_words(note.definition)
    texts = {piece.text for piece in reading.pieces}
    for note in notes.directives():
        again = note.text in reading.headers or note.text not in texts
        apart = note.kind == "header" or is_pack(note.text) or PUSHED.match(note.text)
        below = note.kind == "pragma" and note.position >= (reading.place, 0)  # or the cell's own
        if not (apart or below or (again and reading.is_replaced(note))):
            keys.append(note.key)
    own = {*declared.keys, *reading.given} - _used_before(reading)
    found = reached(notes, keys, words, own)
    kept = [n for n in found.values() if own.isdisjoint(n.keys)]
    return {note.key: note for note in sorted(kept, key=lambda n: n.place)}


def _used_before(reading: Reading) -> set[str]:
    """The keys of functions and variables that earlier cells declare and that clang misses: if the
    cell defines one, it is below the use."""
    found = map(reading.notes.identifier, reading.guesses.names)
    return {
        note.key for note in found
        if note is not None and note.kind in ("function", "variable")
        and not (note.folded or note.deduced)
    }  # fmt: skip


class _Writer:
    """The text while it is written."""

    def __init__(self, reading: Reading):
        self._reading, self._notes, self._guesses = reading, reading.notes, reading.guesses
        self._declared = declared = Declared(reading)
        others = (n for n in reading.notes.directives() if not reading.is_replaced(n))
        self._packing = packing = Packing((*others, *declared.notes.values()))
        self._changes = Changes(reading, declared.notes.values(), packing)
        self._wanted = _wanted(reading, declared, self._changes)
        self._text = Text(reading.number, reading.source)
        self._pending: list[Part] = []
        self._done: set[str] = set()  # notes that are in the text
        self._runs: list[Once] = []
        self._value: Piece | None = None
        self._kept: set[str] = set()
        self._initialised: set[str] = set()

    def write(self) -> Unit:
        """Make the text."""
        places = placed(self._reading, self._declared, self._wanted)
        early = places.get(-1, [])
        later = {note.key for at, notes in places.items() if at >= 0 for note in notes}
        for note in self._wanted.values():
            if note.kind in ("define", "undef", "pragma", "include") and note.key not in later:
                if note.kind == "include" and self._notes.needs(note):
                    self._put_needed(note, early)
                self._put(note)
        for note in (*self._declared.notes.values(), *self._wanted.values()):
            if note.key in self._notes:
                self._put_tags(note)
        self._put_all(early)
        for name, text in self._foreign_names(words(self._reading.source)).items():
            self._text.add(f'\n# 1 "session"\n{_without_macros(text, {name: ""})}\n')
        packed = self._packing.before((self._reading.place, -1))
        self._text.add("".join(f"\n{text}\n" for text in packed))
        self._text.add("".join(f"\n#undef {name}\n" for name in self._guesses.taken_back))
        for index, piece in enumerate(self._reading.pieces):
            self._write(index, piece)
            self._put_all(places.get(index, []))
        for note in self._changes.every:
            if not (self._is_whole(note) and note.key in self._done):
                self._put_definition(note)
        self._flush()
        if self._value is not None:
            self._write_value(self._value)
        text = str(self._text)
        if "target" in text and _TARGET.search(text):
            text = f'# 1 "session"\nvoid {PLAIN}(void) {{}}\n{text}'
        return Unit(
            self._reading, self._declared, self._changes, self._wanted, text, self._runs,
            self._value, self._kept - self._initialised,
        )  # fmt: skip

    def _foreign_names(self, names: Set[str]) -> dict[str, str]:
        """Declarations of functions and variables of objects and of other languages' cells.  Where
        a header declares one otherwise, only those are declared that clang does not know then."""
        guesses = self._guesses
        found = {
            name: text for name in sorted(names | guesses.names)
            if not self._is_known(name) and (text := self._reading.foreign(name))
        }  # fmt: skip
        guesses.declared |= set() if guesses.declared else found.keys() & names & guesses.names
        if guesses.declared:
            names = names - guesses.names | guesses.declared
            found = {name: text for name, text in found.items() if name not in names}
        return found

    def _is_known(self, name: str) -> bool:
        notes, own = self._notes, self._declared.keys
        key, macro = IDENTIFIER + name, MACRO + name
        note = notes.identifier(name)
        if note is not None and notes.is_left(note) and key not in own:
            return self._reading.cell_of(name) in (0, note.cell)  # else another language says it
        return key in notes or macro in notes or key in own or macro in own

    # -- notes in the text -----------------------------------------------------------------------

    def _put_tags(self, note: Note) -> None:
        """Declare the structs and unions that a note defines, and the name that a typedef gives
        one: what stands before it means them."""
        text = ""
        for key in note.keys:
            if key.startswith(TAG):
                word = re.search(
                    rf"\b(struct|union)\b[^;{{}}]*\b{re.escape(key_name(key))}\b", note.text
                )
                if word is not None:
                    text += f"\n{word[1]} {key_name(key)};\n"
        said = forward(note.text)
        if said is not None:
            text += f"{said.text}\n"
        elif note.kind == "typedef" and note.key in self._wanted:
            if note is not self._notes.get(note.key):  # no more than its name is wanted
                text += f"{note.text}\n"
        if text:
            none = self._none_in(note) if note.key in self._wanted else {}
            self._text.add(f"{_without_macros(text, none)}\n")

    def _put_all(self, notes: list[Note]) -> None:
        """Notes, each behind those that it must stand behind."""
        by_key = {key: note for note in notes for key in note.keys}

        def before(note: Note) -> list[Note]:
            keys = sorted(self._notes.stands_behind(note), reverse=True)
            return [by_key[key] for key in keys if key in by_key]

        for note in postorder(notes, before):
            if note.key not in self._done:
                self._done.add(note.key)
                self._put(note)

    def _put_needed(self, header: Note, early: list[Note]) -> None:
        """Put what a header that a cell includes needs, and the macros that this needs."""
        behind = self._notes.all_behind(header)
        for note in self._wanted.values():
            if note.kind in ("define", "undef") and note.key in behind:
                self._put(note)
        self._put_all([note for note in early if note.key in behind])

    def _put(self, note: Note) -> None:
        text = note.definition if self._is_whole(note) else note.text
        if note.kind == "define":
            text = f"#undef {note.name}\n{text}"
        text = f'# {note.line} "{file_name(note.cell)}"\n{text}\n'
        if note.kind not in ("define", "undef"):
            text = self._as_there(note, text, self._none_in(note))
        self._text.add(f"\n{text}")

    def _none_in(self, note: Note) -> Mapping[str, str]:
        """The macros that are none in a note's declaration, or a header's: those that are younger,
        and one by its own name."""
        none = self._of_headers(note, map(key_name, self._notes.younger(note)))
        if note.key.startswith(IDENTIFIER) and MACRO + note.name in self._notes:
            none[note.name] = ""
        return none

    def _of_headers(self, note: Note, names: Iterable[str]) -> dict[str, str]:
        """The directives by which these names are macros of headers above a note, "" for what is
        none."""
        none = dict.fromkeys(names, "")
        before = [n for n in self._notes.directives() if n.position < note.position] if none else ()
        if before:
            header, more = (
                "".join(f"{n.text}\n" for n in before if n.kind == kind)
                for kind in ("header", "include")
            )
            found = self._reading.macros_of(header, more)
            none = {name: found.get(name, "") for name in none}
        return none

    def _is_whole(self, note: Note) -> bool:
        """True if its definition stands where others need to know of it."""
        if note.folded:
            return note.key not in self._reading.leaving
        return note.deduced and note in self._changes.remade.get(note.cell, ())

    def _as_there(self, note: Note, text: str, none: Mapping[str, str]) -> str:
        """A text of a note with the macros that are none now, but for those that were `none` there,
        or headers' own, and packed as structs were."""
        for macro in self._notes.taken_back(text):
            if macro.name not in none:
                text = f"{macro.definition}\n{text}#undef {macro.name}\n"
        if self._packing:
            pack = self._packing.at(note.position)
            text = f"#pragma pack(push, {pack})\n{text}#pragma pack(pop)\n"
        return _without_macros(text, none)

    def _put_definition(self, note: Note) -> None:
        """Another cell's definition; macros that are younger than it are none in it."""
        uses = self._notes.present(note.uses)
        younger = self._of_headers(note, (
            word for word in sorted(all_words(note.definition))
            if MACRO + word in self._notes and MACRO + word not in uses
        ))  # fmt: skip
        text = note.definition
        if note.kind == "function" and ";" in text.partition("{")[0]:
            for piece in cut(text, self._notes.meaning, self._notes.macro):
                text = replaced(text, self._hiding(piece))
        if note.kind == "assembly":
            text = f"{assembly_of(note.cell)} {text}"
        text = f'# {note.definition_line} "{file_name(note.cell)}"\n{text}\n'
        self._text.add(f"\n{self._as_there(note, text, younger)}\n")

    # -- the cell in the text --------------------------------------------------------------------

    def _write(self, index: int, piece: Piece) -> None:
        match piece.kind:
            case PieceKind.DIRECTIVE if piece.text in self._guesses.again:
                self._flush()  # an earlier cell's stands before
            case PieceKind.DIRECTIVE:
                self._flush()
                self._text.add_line(piece.line, piece.column, piece.text)
                if text := self._declared.given_back.get(index):
                    self._text.add(f"\n{text}\n")
            case PieceKind.EXPRESSION if index == len(self._reading.pieces) - 1:
                self._value = piece
            case PieceKind.STATEMENT | PieceKind.EXPRESSION:
                self._pending.append(
                    Part(piece.text, piece.line, piece.column, piece.last_line, piece.text)
                )
            case _:
                self._write_declaration(index, piece)

    def _write_declaration(self, index: int, piece: Piece) -> None:
        for label in self._declared.labelled.get(index, ()):
            self._text.add(f'\n# {piece.line} "{file_name(self._reading.number)}"\n{label}\n')
        found = piece.head
        text = piece.text_of(0, len(piece.tokens), self._local(index, piece))
        base = piece.start
        edits: list[tuple[int, int, str]] = []
        if piece.kind is PieceKind.DECLARATION and not found.typedef:
            names = piece.declared
            storage = [self._declared.makes_storage(piece, d) for d in names]
            if found.extern and names and all(storage):
                token = next(t for t in piece.tokens if t.text == "extern")
                edits.append((token.start, token.stop, " " * 6))
                edits += self._lengths(piece, names)
            for declared in names:
                if declared.init >= 0:
                    self._initialised.add(declared.name)  # by whichever of its declarations
                if declared.init < 0 and not declared.function and self._same(piece, declared):
                    self._kept.add(declared.name)
                elif declared.init >= 0 and self._declared.is_computed(index, declared):
                    edits += self._computed(index, piece, declared)
        edits += self._hiding(piece)
        text = replaced(text, sorted((a - base, b - base, new) for a, b, new in edits))
        self._text.add_own(piece.line, piece.column, text, moved=bool(edits))
        if piece.kind is PieceKind.DECLARATION and piece.tokens[-1].text != ";":
            self._text.add_own(piece.last_line, piece.end_column, "\n;")

    def _local(self, index: int, piece: Piece) -> Collection[int]:
        """The specifiers that clang is not given: those that would hide a definition from other
        cells, but of an `extern inline` whose definition follows as GNU C has it."""
        names = {declared.name for declared in piece.declared}
        if piece.head.gnu_inline and piece.kind is PieceKind.FUNCTION:
            for other in self._reading.pieces[index + 1 :]:
                if other.kind is PieceKind.FUNCTION and other.declared[0].name in names:
                    return ()
        return piece.head.local

    def _hiding(self, piece: Piece) -> list[tuple[int, int, str]]:
        """Edits by which parameters hide the types that have their names."""
        if not piece.declared or not is_old_style(piece):
            return []
        name_at = piece.declared[0].name_at
        return sorted(hiding(piece.tokens, piece.body, name_at, self._guesses.hidden, OWN))

    def _lengths(self, piece: Piece, names: list[Declarator]) -> list[tuple[int, int, str]]:
        """Edits that give arrays of no length the one element that C gives them where they are
        defined nowhere else in the cell.  C11 6.9.2."""
        every = [declared.name for other in self._reading.pieces for declared in other.declared]
        found = [
            unsized(piece.tokens[declared.name_at : declared.last])
            for declared in names if every.count(declared.name) == 1
        ]  # fmt: skip
        return [(token.start, token.start, "1") for token in found if token is not None]

    def _computed(
        self, index: int, piece: Piece, declared: Declarator
    ) -> list[tuple[int, int, str]]:
        """Edits of a declaration whose variable gets its value when the cell runs: at file scope C
        has constants alone, so it stays without its initialiser, and a statement writes the value
        there."""
        source, tokens = self._reading.source, piece.tokens
        name, equals = tokens[declared.name_at], tokens[declared.init]
        first, last = tokens[declared.init + 1], tokens[declared.end - 1]
        value, start = source[first.start : last.stop], tokens[declared.first].start
        self._pending += [
            Part(f"{{ __typeof__({name.text})"),
            Part(f"{OWN}i =", name.line, name.column, piece.last_line),
            Part(value, first.line, first.column, piece.last_line, source[start : last.stop]),
            Part(f"; __builtin_memcpy((void *)&{name.text}, (void *)&{OWN}i, sizeof {OWN}i); }}"),
        ]
        blank = re.sub(r"[^\n]", " ", source[equals.start : last.stop])
        edits = [(equals.start, last.stop, blank)]
        deduced, bracket = piece.head.deduced, unsized(tokens[declared.name_at : declared.last])
        if deduced >= 0:
            operand = f"__typeof__(((void)0, {_operand(source, piece, declared)}))"
            edits.append((tokens[deduced].start, tokens[deduced].stop, operand))
        elif first.text == "{" and (alias := self._unsized_type(piece, declared)):
            edits.append((alias.start, alias.stop, f"__typeof__((*({alias.text} *)0)[0])"))
            count = self._elements(index, piece, declared, value)
            edits.append((name.stop, name.stop, f"[{count}]"))
        elif first.text == "{" and bracket:
            count = self._elements(index, piece, declared, value)
            edits.append((bracket.start, bracket.start, str(count)))
        return edits

    def _unsized_type(self, piece: Piece, declared: Declarator) -> Token | None:
        """The name of a type that is an array without a length, where the variable is of it."""
        plain = declared.first == declared.name_at and declared.last == declared.name_at + 1
        for token in piece.tokens[: piece.head.end] if plain else ():
            note = self._notes.in_cell(IDENTIFIER + token.text)
            if note is not None and note.kind == "typedef" and unsized(tokens_of(note.text)):
                return token
        return None

    def _elements(self, index: int, piece: Piece, declared: Declarator, value: str) -> int:
        """The number of elements of an initialiser: only in a function may it stand as it is."""
        known = self._guesses.lengths.get((index, declared.name))
        if known is not None:
            return known
        tokens = piece.tokens
        end = piece.head.end
        storage = {at for at, token in enumerate(tokens[:end]) if token.text in STORAGE}
        head = piece.text_of(0, end, storage)
        place = self._text.marker(tokens[declared.init].line, tokens[declared.init].column)
        declarator = piece.text_of(declared.first, declared.last)
        every = piece.declared
        before = [self._declared.declaration(piece, d) for d in every if d.first < declared.first]
        self._guesses.lengths[index, declared.name] = count = self._reading.length(
            f'{self._text}\n# 1 "session"\n{"".join(before)}\n'
            f"unsigned long {LENGTH}(void) {{\n{head} {declarator}{place}= {value};\n"
            f"return sizeof {declared.name} / sizeof *{declared.name};\n}}\n"
        )
        return count

    def _flush(self) -> None:
        """Write the statements so far as a function."""
        parts, self._pending = self._pending, []
        if not parts:
            return
        entry = f"{OWN}run{len(self._runs)}"
        self._text.add(f'\n# 1 "session"{TOP_LEVEL}\nvoid {entry}(void) {{\n')
        for part in parts:
            marker = self._text.marker(part.line, part.column) if part.line else '\n# 1 "session"\n'
            self._text.add(marker + part.text)
        self._text.add(f'\n# 1 "session"\n}}{FUNCTION_LEVEL}')
        placed = [part for part in parts if part.line]
        self._runs.append(
            Once(
                "", entry, " ".join(p.label for p in placed if p.label), placed[0].line,
                max(p.last_line for p in placed),
            )
        )  # fmt: skip

    def _write_value(self, piece: Piece) -> None:
        self._runs.append(Once("", VALUE, piece.text, piece.line, piece.last_line))
        value = f"({self._text.marker(piece.line, piece.column)}{self._as_typed(piece)}\n)"
        guesses = self._guesses
        self._text.add(
            value_function(value, guesses.bit_field, guesses.temporary, guesses.declares)
        )

    def _as_typed(self, piece: Piece) -> str:
        """An expression, or what stands for one that is written as values are shown: an array's
        text behind its type, an enum's flags behind theirs."""
        tokens = piece.tokens
        at = closing(tokens, 0) if tokens[0].text == "(" else len(tokens)
        head, tail = tokens[1 : at - 1], tokens[at:]
        if not head or not tail:
            return piece.text
        before = self._reading.source[piece.start : tail[0].start]
        behind = self._reading.source[tail[0].start : tail[-1].stop]
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
        """True if an earlier cell has the variable with the same type, and keeps its value."""
        key = IDENTIFIER + declared.name
        note = self._notes.before(key)
        if note is None or note.kind != "variable" or piece.head.extern:
            return False
        own = self._declared.notes.get(key)
        return own is not None and own.same(note)


def _operand(source: str, piece: Piece, declared: Declarator) -> str:
    """An initialiser where only its type counts: compound literals have constants alone at file
    scope, so what they hold is left out."""
    at, stop, text = declared.init + 1, declared.end, ""
    tokens, start = piece.tokens, piece.tokens[at].start
    while at < stop:
        behind = closing(tokens, at) if tokens[at].text == "(" else stop
        if behind < stop and tokens[behind].text == "{":
            type = source[tokens[at].stop : tokens[behind - 1].start]
            text += f"{source[start : tokens[at].start]}(*(__typeof__({type}) *)0)"
            at = closing(tokens, behind)
            start = tokens[at - 1].stop
        else:
            at += 1
    return text + source[start : tokens[stop - 1].stop]


def _without_macros(text: str, names: Mapping[str, str]) -> str:
    """A text in which these macros are none, or what directives say that define them."""
    before = "".join(
        f'#pragma push_macro("{n}")\n#undef {n}\n{defined}\n' for n, defined in names.items()
    )
    after = "".join(f'\n#pragma pop_macro("{n}")' for n in names)
    return f"{before}{text}{after}" if before else text
