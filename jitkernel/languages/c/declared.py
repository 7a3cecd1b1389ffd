"""What a cell of C declares, as notes for later cells.  Start from `Declared`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from jitkernel.languages.c.declarations import (
    Declarator,
    declarators,
    enumerators,
    specifiers,
    tags,
    unsized,
)
from jitkernel.languages.c.notes import (
    DIRECTIVE,
    IDENTIFIER,
    LABEL,
    MACRO,
    TAG,
    Note,
    NoteKind,
    Notes,
)
from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.tokens import closing

__all__ = ["Declared", "packed"]

_DIRECTIVE = re.compile(r"#\s*(\w+)\s*([A-Za-z_]\w*)?")
_HEADER = re.compile(r"#\s*(?:include|include_next|import)\s*<")
_ALIAS = re.compile(
    r"__attribute__\s*\(\(\s*(?:__)?(?:alias|ifunc|weakref)(?:__)?\s*\([^)]*\)\s*\)\)"
)
_PACK = re.compile(r"#\s*pragma\s+pack\s*\(([^)]*)\)")
_ATTRIBUTE = ("__attribute__", "__attribute")


class Declared:
    """The notes of the pieces of cell `number`, by key.

    `keys` are theirs and those that they give besides, each with the index of its piece.  `defines`
    tells whether somebody has a name, `cell_of` which cell does, `computed` are pieces whose
    initialisers are no constants.
    `labelled` are declarations by piece that say which symbols earlier cells gave its names.
    """

    def __init__(
        self, number: int, source: str, pieces: list[Piece], notes: Notes, computed: set[int],
        defines: Callable[[str], bool], replaces: int = 0,
        cell_of: Callable[[str], int] = lambda name: 0,
    ):  # fmt: skip
        self._replaces, self._cell_of = replaces, cell_of
        self._packed = [packed(notes)]
        self._packed_before, self._pack_key = self._packed[0], ""
        self._number, self._source, self._pieces = number, source, pieces
        self._notes, self._computed, self._defines = notes, computed, defines
        self.notes: dict[str, Note] = {}
        self.keys: dict[str, int] = {}
        self.labelled: dict[int, list[str]] = {}
        for index, piece in enumerate(pieces):
            self._declare(index, piece)

    def _note(
        self, kind: NoteKind, key: str, text: str, index: int, also: Iterable[str] = (),
        definition: str = "", inline: bool = False, computed: bool = False,
    ) -> None:  # fmt: skip
        before = self.notes.pop(key, None)
        if before is not None and before.is_defined and not definition:
            self.notes[key] = before  # declared again behind its definition
            return
        earlier = self._notes.get(key)
        if kind in ("function", "variable") and text and not LABEL.search(text):
            known = before or earlier  # a name keeps its symbol
            if known is not None and (label := LABEL.search(known.text)):
                text = f"{text.removesuffix(';')} {label[0]};"
                if before is None:
                    self.labelled[index] = [*self.labelled.get(index, ()), text]
        if earlier is not None and not definition and self._stands(earlier, kind):
            self.keys |= dict.fromkeys((key, *also), index)  # declared again
            return
        line = self._pieces[index].line
        self.notes[key] = Note(
            key, kind, text, self._number, len(self.keys), line, tuple(also), definition, line,
            inline=inline, pack=self._packed[-1], computed=computed,
        )  # fmt: skip
        self.keys |= dict.fromkeys((key, *also), index)

    def _stands(self, note: Note, kind: NoteKind) -> bool:
        """Whether a note has the definition that there is, which follows what it mentions."""
        same = note.kind == kind and note.is_defined and note.cell != self._replaces
        return same and self._cell_of(note.symbol) == note.cell

    def _declare(self, index: int, piece: Piece) -> None:
        if piece.kind is PieceKind.DIRECTIVE:
            self._direct(index, piece)
        elif piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
            self._declare_names(index, piece)

    def _direct(self, index: int, piece: Piece) -> None:
        match = _DIRECTIVE.match(piece.text)
        word, name = (match[1], match[2]) if match else ("", "")
        before = all(p.kind is PieceKind.DIRECTIVE for p in self._pieces[:index])
        # Up to the last header of those that the cell begins with.
        heads = before and any(
            p.kind is PieceKind.DIRECTIVE and _HEADER.match(p.text)
            for p in self._pieces[index : self._leading()]
        )
        key = f"{DIRECTIVE}{self._number}.{index}"
        known = next((n for n in self._notes.directives() if n.text == piece.text), None)
        if word in ("include", "import", "include_next"):
            # That of the cell whose place this one takes goes with it.
            if known is None or known.key.startswith(f"{DIRECTIVE}{self._replaces}."):
                header = _HEADER.match(piece.text)
                self._note("header" if header else "include", key, piece.text, index)
        elif word == "pragma" and (pack := _PACK.match(piece.text)):
            self._packs(pack[1])
            if self._packed[-1] == self._packed_before:
                self.notes.pop(self._pack_key, None)
            else:  # for later cells, unless this one takes it back
                self.notes.pop(self._pack_key, None)
                self._pack_key = key
                self._note("pragma", key, f"#pragma pack({self._packed[-1] or ''})", index)
        elif word == "pragma":
            self._note("pragma", key, piece.text, index)
        elif word in ("define", "undef") and name:
            if heads:
                self._note("header", key, piece.text, index)
            last = ""
            if word == "undef":
                was = self.notes.get(MACRO + name) or self._notes.get(MACRO + name)
                last = was.definition or was.text if was is not None else ""
            kind: NoteKind = "define" if word == "define" else "undef"
            self._note(kind, MACRO + name, piece.text, index, (), last)
        if known is not None and key in self.notes:  # headers stay in their order
            self.notes[key] = replace(self.notes[key], cell=known.cell, order=known.order)

    def _packs(self, arguments: str) -> None:
        """Follow a `#pragma pack`: its words are `push` or `pop`, a name, a number."""
        given = [word.strip() for word in arguments.split(",")]
        numbers = [int(word) for word in given if word.isdecimal()]
        if given[0] == "push":
            self._packed.append(self._packed[-1])
        elif given[0] == "pop" and len(self._packed) > 1:
            self._packed.pop()
        if numbers or given == [""]:
            self._packed[-1] = numbers[0] if numbers else 0

    def _leading(self) -> int:
        """How many pieces the cell begins with that are directives."""
        for index, piece in enumerate(self._pieces):
            if piece.kind is not PieceKind.DIRECTIVE:
                return index
        return len(self._pieces)

    def _declare_names(self, index: int, piece: Piece) -> None:
        tokens, found = piece.tokens, specifiers(piece.tokens)
        names = declarators(piece.tokens, piece.body, self.is_macro)
        inner = [
            key for tag in tags(tokens)
            for key in (
                *([TAG + tag.name] if tag.name else ()),
                *(IDENTIFIER + n for n in (enumerators(tokens, tag) if tag.word == "enum" else ())),
            )
        ]  # fmt: skip
        if found.typedef:
            keys = [*(IDENTIFIER + d.name for d in names), *inner]
            if keys:
                self._note("typedef", keys[0], piece.text, index, keys[1:])
            return
        tag = found.tag
        if tag is not None and tag.brace >= 0 and (tag.name or not names or tag.word == "enum"):
            text = self._tag_text(piece, tag.behind, list(found.local))
            keys = [TAG + tag.name] * bool(tag.name) + [k for k in inner if k != TAG + tag.name]
            if keys:
                self._note("tag", keys[0], text, index, keys[1:])
        told = tag is not None and tag.brace >= 0 and (tag.name or not names or tag.word == "enum")
        for declared in names:
            self._declare_one(index, piece, declared, () if told else inner)
            inner = []

    def _tag_text(self, piece: Piece, behind: int, local: list[int]) -> str:
        """The definition of a struct, union or enum without what is declared with it."""
        skipped = {*local}
        for at, token in enumerate(piece.tokens[:behind]):
            if token.text in ("struct", "union", "enum"):
                break
            if token.text in ("extern", "const", "volatile", "constexpr"):
                skipped.add(at)
        end = behind
        while end < len(piece.tokens) and piece.tokens[end].text in (
            "__attribute__",
            "__attribute",
        ):
            end = closing([*piece.tokens, piece.tokens[-1]], end + 1)
        return self.text_of(piece, 0, end, skipped) + ";"

    def _declare_one(
        self, index: int, piece: Piece, declared: Declarator, inner: Iterable[str]
    ) -> None:
        found = specifiers(piece.tokens)
        key = IDENTIFIER + declared.name
        text = self.declaration(piece, declared)
        if declared.function:
            definition = self._body(piece) if piece.kind is PieceKind.FUNCTION else ""
            if piece.body >= 0 and _is_old_style(piece, declared):
                text = ""  # clang tells
            self._note("function", key, text, index, (), definition, found.inline)
            return
        if found.extern and declared.init < 0 and not self.makes_storage(piece, declared):
            self._note("variable", key, text, index, inner)
            return
        if found.constant and declared.init >= 0:
            self._note("constant", key, self._definition(piece, declared), index, inner)
            return
        computed = found.deduced >= 0 or (declared.init >= 0 and self.is_computed(index, declared))
        definition = self._definition(piece, declared, computed)
        self._note("variable", key, text, index, inner, definition, found.inline, computed)

    def declaration(self, piece: Piece, declared: Declarator) -> str:
        """Text that declares one name of a piece, and no more."""
        found = specifiers(piece.tokens)
        skipped = {*found.local}
        for at, token in enumerate(piece.tokens[: found.end]):
            if token.text in ("extern", "typedef"):
                skipped.add(at)
        if found.tag is not None and found.tag.brace >= 0 and found.tag.name:
            skipped |= set(range(found.tag.brace, found.tag.behind))
        head = self.text_of(piece, 0, found.end, skipped)
        tail = self.text_of(piece, declared.first, declared.last, set())
        if declared.function:
            behind = piece.tokens[declared.name_at + 1 : declared.name_at + 3]
            if "".join(t.text for t in behind) == "()":  # C23 6.7.7.4: no parameters
                tail = tail.replace(")", "void)", 1)
        words = "" if declared.function else "extern "
        return _ALIAS.sub("", f"{words}{head} {tail};".strip())

    def _body(self, piece: Piece) -> str:
        """A function's text, to be seen by all cells."""
        return self.text_of(piece, 0, len(piece.tokens), set(specifiers(piece.tokens).local))

    def _definition(self, piece: Piece, declared: Declarator, computed: bool = False) -> str:
        """Text that defines one variable of a piece, without an initialiser that is computed."""
        found = specifiers(piece.tokens)
        skipped = {*found.local}
        skipped |= {at for at, t in enumerate(piece.tokens[: found.end]) if t.text == "extern"}
        if found.tag is not None and found.tag.brace >= 0 and found.tag.name:
            skipped |= set(range(found.tag.brace, found.tag.behind))
        if computed:
            return self.declaration(piece, declared).removeprefix("extern ")
        head = self.text_of(piece, 0, found.end, skipped)
        return f"{head} {self.text_of(piece, declared.first, declared.end, set())};".strip()

    # -- questions -------------------------------------------------------------------------------

    def text_of(self, piece: Piece, first: int, stop: int, skipped: set[int]) -> str:
        """The source of tokens, blanks for those that are skipped; lines stay."""
        if first >= stop:
            return ""
        base = piece.tokens[first].start
        text = list(self._source[base : piece.tokens[stop - 1].stop])
        for at in skipped:
            if first <= at < stop:
                token = piece.tokens[at]
                for k in range(token.start - base, token.stop - base):
                    text[k] = text[k] if text[k] == "\n" else " "
        return "".join(text)

    def is_macro(self, name: str) -> bool:
        return MACRO + name in self._notes or MACRO + name in self.keys

    def makes_storage(self, piece: Piece, declared: Declarator) -> bool:
        """Whether `extern T x;` is to give `x` storage: nobody else has it, and it is no alias."""
        return (
            declared.init < 0
            and not declared.function
            and not _ALIAS.search(piece.text)
            and unsized(piece.tokens[declared.name_at : declared.last]) is None
            and not self._defines(declared.name)
        )

    def is_computed(self, index: int, declared: Declarator) -> bool:
        """Whether an initialiser is no constant."""
        piece = self._pieces[index]
        found = specifiers(piece.tokens)
        if found.constant:
            return False
        if index in self._computed or found.deduced >= 0:
            return True
        tokens = piece.tokens[declared.init + 1 : declared.end]
        for at, token in enumerate(tokens[:-1]):
            called = token.kind == "name" and tokens[at + 1].text == "("
            if called and not self.is_macro(token.text):
                note = self._notes.identifier(token.text)
                own = IDENTIFIER + token.text in self.keys
                if own or (note is not None and note.kind == "function"):
                    return True
        return False


def packed(notes: Notes) -> int:
    """What `#pragma pack` of earlier cells says to later ones, 0 for nothing."""
    said = [m[1].strip() for n in notes.directives() if (m := _PACK.match(n.text))]
    return int(said[-1]) if said and said[-1].isdecimal() else 0


def _is_old_style(piece: Piece, declared: Declarator) -> bool:
    """Whether the types of a function's parameters stand behind its parentheses."""
    return any(t.text == ";" for t in piece.tokens[declared.name_at + 1 : piece.body])
