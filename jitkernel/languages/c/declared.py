"""What a cell of C declares, as notes for later cells.  Start from `Declared`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from jitkernel.ir.names import BOUNDS
from jitkernel.ir.text import replaced
from jitkernel.languages.c.declarations import (
    Declarator,
    enumerators,
    tags,
    unsized,
)
from jitkernel.languages.c.macros import PUSHED
from jitkernel.languages.c.notes import (
    DIRECTIVE,
    IDENTIFIER,
    LABEL,
    MACRO,
    TAG,
    UNNAMED,
    Note,
    NoteKind,
)
from jitkernel.languages.c.packing import is_pack
from jitkernel.languages.c.pieces import Piece, PieceKind
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import closing
from jitkernel.languages.c.words import TAGS, THREAD_LOCAL
from jitkernel.record import replace
from jitkernel.regex import regex

_DIRECTIVE = regex(r"#\s*(\w+)\s*([A-Za-z_]\w*)?")
_HEADER = regex(r"#\s*(?:include|include_next|import)\s*<")
_OTHER_CODE = (  # that a function's own cell alone has
    r'(?:gnu\s*::\s*)?\b(?:__)?(?:alias|ifunc|weakref|target_clones)(?:__)?\s*\(\s*"[^)]*\)'
)
_ALIAS = regex(
    rf"__attribute__\s*\(\(\s*{_OTHER_CODE}\s*\)\)|\[\[\s*{_OTHER_CODE}\s*\]\]|,?\s*{_OTHER_CODE}"
)
#: What defines the name that is declared, as another one of the same text, or by a function of it.
_DEFINES = regex(r"\b(?:__)?(?:alias|ifunc)(?:__)?\s*\(")
_WEAK = regex(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\b(?:weak|__weak__)\b")
_ATTRIBUTE = ("__attribute__", "__attribute")
_ALIASED = regex(r"#\s*pragma\s+weak\s+\w+\s*=")  # with a definition of its own cell
#: A variable that is more than a value.
_FIXED = THREAD_LOCAL | {"volatile", "_Atomic", *_ATTRIBUTE}


class Declared:
    """The notes of a cell's pieces, by key.

    `keys` are theirs and those that they give besides, each with the index of its piece.  What is
    `beside` declares names that have other cells' definitions.
    `labelled` are declarations by piece that say which symbols earlier cells gave its names,
    `given_back` the directives by piece that define macros as they were when they were put aside.
    """

    def __init__(self, reading: Reading):
        self._reading, self._notes = reading, reading.notes
        self._pieces, guesses = reading.pieces, reading.guesses
        self._heads = self._leading()
        self.notes: dict[str, Note] = {}
        self.beside: dict[str, Note] = {}
        self.keys: dict[str, int] = {}
        self._notes.read_with(self.notes, self.keys.keys(), guesses.needed)
        self.labelled: dict[int, list[str]] = {}
        self.given_back: dict[int, str] = {}
        for name, defined in guesses.taken_back.items():
            undefined = Note(MACRO + name, "undef", f"#undef {name}", definition=defined)
            self._add(0, undefined)
        for index, piece in enumerate(reading.pieces):
            if piece.kind in (PieceKind.DECLARATION, PieceKind.FUNCTION):
                self._declare_names(index, piece)
            elif piece.kind is PieceKind.DIRECTIVE:
                self._direct(index, piece)

    def _add(self, index: int, note: Note) -> None:
        """Keep what the piece with that index declares."""
        key, text, labelled = note.key, note.text, note.kind in ("function", "variable")
        before = self.notes.pop(key, None)
        if before is not None and before.is_defined and not note.definition:
            self.notes[key] = before  # declared again behind its definition
            return
        earlier = self._notes.before(key)
        if labelled and text and not LABEL.search(text):
            known = before or earlier  # a name keeps its symbol, and may be null as before
            if known is not None and _WEAK.search(known.text) and not _WEAK.search(text):
                text = f"__attribute__((weak)) {text}"
            if known is not None and (label := LABEL.search(known.text)):
                text = f"{text.removesuffix(';')} {label[0]};"
                if before is None:
                    self.labelled[index] = [*self.labelled.get(index, ()), text]
        named = earlier is not None and earlier.key == key  # and no constant beside it
        stands = named and not note.definition and self._stands(earlier, note.kind)
        line, number = self._pieces[index].line, self._reading.number
        self.beside.pop(key, None)
        notes = self.beside if stands else self.notes
        notes[key] = replace(
            note, text=text, cell=number, order=len(self.keys), line=line,
            definition_line=line, at=self._reading.place,
        )  # fmt: skip
        self.keys |= dict.fromkeys((key, *note.also), index)

    def _stands(self, note: Note | None, kind: NoteKind) -> bool:
        """True if a note has the definition that there is, which follows what it mentions."""
        if note is None or note.kind != kind or not note.is_defined:
            return False
        is_its = self._reading.cell_of(note.symbol) == note.cell
        return is_its and note.cell != self._reading.replaces

    def _direct(self, index: int, piece: Piece) -> None:
        match = _DIRECTIVE.match(piece.text)
        word, name = (match[1], match[2]) if match else ("", "")
        key = f"{DIRECTIVE}{self._reading.number}.{index}"
        aside = PUSHED.match(piece.text)
        plain = aside is None and not is_pack(piece.text)
        known = self._notes.directive(piece.text) if plain else None
        if word in ("include", "import", "include_next"):
            kind: NoteKind = "header" if _HEADER.match(piece.text) else "include"
            if known is not None and not self._reading.is_replaced(known):
                self._add(index, replace(known, key=key))
                known = None
            elif piece.text not in self._reading.guesses.again:  # it is a part of another one
                self._add(index, Note(key, kind, piece.text))
        elif aside is not None:
            self._put_aside(index, piece, aside[2], aside[1] == "pop")
        elif word == "pragma" and not _ALIASED.match(piece.text):
            self._add(index, Note(key, "pragma", piece.text))
        elif word in ("define", "undef") and name:
            if index < self._heads:
                self._add(index, Note(key, "header", piece.text))
            last = self._last(name) if word == "undef" else ""
            kind = "define" if word == "define" else "undef"
            self._add(index, Note(MACRO + name, kind, piece.text, definition=last))
        if known is not None and key in self.notes:  # headers stay in their order
            self.notes[key] = replace(self.notes[key], cell=known.cell, order=known.order)

    def _last(self, name: str) -> str:
        """The directive that defined a macro last, though it may be none any more."""
        was = self._notes.in_cell(MACRO + name)
        return (was.definition or was.text) if was is not None else ""

    def _put_aside(self, index: int, piece: Piece, name: str, back: bool) -> None:
        """Follow a pragma that puts a macro aside, or takes it back."""
        key = f"{DIRECTIVE}{self._reading.number}.{index}"
        earlier = (n for n in self._notes.directives() if n.cell != self._reading.replaces)
        was = _pushed((*earlier, *self.notes.values()), name) if back else None
        now = self._notes.in_cell(MACRO + name)
        text = now.text if now is not None and now.kind == "define" and not back else ""
        self._add(index, Note(key, "pragma", f"{piece.text}\n{text}"))
        if was is not None:
            if was:
                self._add(index, Note(MACRO + name, "define", was))
            else:
                last, text = self._last(name), f"#undef {name}"
                self._add(index, Note(MACRO + name, "undef", text, definition=last))
            self.given_back[index] = f"#undef {name}\n{was}"

    def _leading(self) -> int:
        """The number of pieces up to the last header of those that the cell begins with."""
        first = takewhile(lambda piece: piece.kind is PieceKind.DIRECTIVE, self._pieces)
        headers = (index for index, piece in enumerate(first, 1) if _HEADER.match(piece.text))
        return max(headers, default=0)

    def _declare_names(self, index: int, piece: Piece) -> None:
        tokens, found = piece.tokens, piece.head
        names = piece.declared
        kind = UNNAMED.get(tokens[0].text)
        if kind is not None:
            key = f"{DIRECTIVE}{self._reading.number}.{index}"
            self._add(index, Note(key, kind, "", definition=self._said(piece, 0, len(tokens))))
            return
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
                text = self._said(piece, 0, len(tokens))
                self._add(index, Note(keys[0], "typedef", text, also=tuple(keys[1:])))
            return
        tag = found.tag
        apart = not names or names[0].function
        if tag is not None and tag.brace >= 0 and (tag.name or apart):
            text = self._tag_text(piece, tag.behind)
            keys = [TAG + tag.name] * bool(tag.name) + [k for k in inner if k != TAG + tag.name]
            if keys:
                self._add(index, Note(keys[0], "tag", text, also=tuple(keys[1:])))
            inner = []
        for declared in names:
            self._declare_one(index, piece, declared, inner)
            inner = []

    def _tag_text(self, piece: Piece, behind: int) -> str:
        """The definition of a struct, union or enum without what is declared with it."""
        skipped = {*piece.head.local}
        for at, token in enumerate(piece.tokens[:behind]):
            if token.text in TAGS:
                break
            if token.text in ("extern", "const", "volatile", "constexpr"):
                skipped.add(at)
        end = behind
        while end < len(piece.tokens) and piece.tokens[end].text in _ATTRIBUTE:
            end = closing(piece.tokens, end + 1)
        return self._said(piece, 0, end, skipped) + ";"

    def _declare_one(
        self, index: int, piece: Piece, declared: Declarator, inner: Iterable[str]
    ) -> None:
        found = piece.head
        text = self.declaration(piece, declared)
        key = IDENTIFIER + declared.name
        note = Note(key, "variable", text, also=tuple(inner))
        if declared.function:
            definition = ""
            if piece.kind is PieceKind.FUNCTION:  # to be seen by all cells
                definition = self._said(piece, 0, len(piece.tokens), found.local)
            elif _DEFINES.search(piece.text):
                definition = self._spelled(piece, declared, "")
            if is_old_style(piece):
                text = ""  # clang tells
            note = Note(key, "function", text, definition=definition)
        elif found.extern and declared.init < 0 and not self.makes_storage(piece, declared):
            if _DEFINES.search(piece.text):
                note = replace(note, definition=self._spelled(piece, declared, "extern "))
        elif found.constant and declared.init >= 0:
            note = replace(note, kind="constant", text=self._definition(piece, declared))
        else:
            ran = declared.init >= 0 and self.is_computed(index, declared)
            computed = found.deduced >= 0 or ran
            note = replace(
                note, definition=self._definition(piece, declared, computed),
                computed=computed,
                folded=not computed and _is_folded(piece, declared, found.end),
            )  # fmt: skip
        self._add(index, note)

    def declaration(self, piece: Piece, declared: Declarator, extern: str = "extern ") -> str:
        """Text that declares one name of a piece, and no more."""
        return _ALIAS.sub("", self._spelled(piece, declared, extern))

    def _spelled(self, piece: Piece, declared: Declarator, extern: str) -> str:
        """The same, with what defines it elsewhere."""
        found, tokens = piece.head, piece.tokens
        skipped = _skipped(piece, "extern", "typedef", "__extension__")
        lead = self._said(piece, 0, found.attributes, skipped)
        head = self._head(piece, found.attributes, skipped, self._base(piece, declared))
        tail = piece.text_of(declared.first, declared.last)
        if declared.function:
            behind = tokens[declared.name_at + 1 : declared.name_at + 3]
            defined = piece.kind is PieceKind.FUNCTION  # C17 6.7.6.3: others say nothing of them
            if defined and "".join(t.text for t in behind) == "()":  # no parameters
                tail = tail.replace(")", "void)", 1)
        words = "" if declared.function else extern
        return f"{lead}{words}{head} {tail};".strip()

    def _said(self, piece: Piece, first: int, stop: int, skipped: Iterable[int] = ()) -> str:
        """The source of tokens as it was written, with its conditions."""
        text = piece.text_of(first, stop, skipped)
        if not self._reading.written or first >= stop:
            return text
        base, end = piece.tokens[first].start, piece.tokens[stop - 1].stop
        return replaced(text, [
            (start - base, stop - base, written)
            for start, stop, written in self._reading.written if base <= start and stop <= end
        ])  # fmt: skip

    def _head(self, piece: Piece, first: int, skipped: set[int], type: str) -> str:
        """The specifiers of a piece from a token on; `type` stands for the one that they define."""
        tag, end = piece.head.tag, piece.head.end
        if tag is None or not type:
            return self._said(piece, first, end, skipped)
        at = max(i for i in range(tag.brace) if piece.tokens[i].text == tag.word)
        lines = "\n" * piece.text_of(at, tag.behind).count("\n")  # stay
        before = self._said(piece, first, at, skipped)
        behind = self._said(piece, tag.behind, end, skipped)
        return f"{before} {type}{lines} {behind}".strip(" ")

    @staticmethod
    def _base(piece: Piece, declared: Declarator) -> str:
        """The specifier by which a variable has the type without a name which its piece defines for
        the first one: `struct { int a; } v[3], w;` has `__typeof__(v[0]) w`."""
        names = piece.declared
        if not _has_no_name(piece) or declared.name == names[0].name:
            return ""
        first = piece.tokens[names[0].first : names[0].last]
        if any(token.text in "()" for token in first):
            return ""
        stars, sides = (sum(t.text == sign for t in first) for sign in "*[")
        return f"__typeof__({'*' * stars}{names[0].name}{'[0]' * sides})"

    def _definition(self, piece: Piece, declared: Declarator, computed: bool = False) -> str:
        """Text that defines one variable of a piece, without an initialiser that is computed."""
        found = piece.head
        skipped = _skipped(piece, "extern")
        sized = unsized(piece.tokens[declared.first : declared.last]) is None
        if _has_no_name(piece) and sized and not found.constant:  # its declaration has the type
            head = self._head(piece, 0, skipped, f"__typeof__({declared.name})")
            value = self._said(piece, declared.last, declared.end)
            return f"{head} {declared.name} {'' if computed else value};"
        if computed:
            return self.declaration(piece, declared, "")
        head = self._said(piece, 0, found.end, skipped)
        return f"{head} {self._said(piece, declared.first, declared.end)};".strip()

    # -- questions -------------------------------------------------------------------------------

    def is_macro(self, name: str) -> bool:
        return MACRO + name in self._notes or MACRO + name in self.keys

    def makes_storage(self, piece: Piece, declared: Declarator) -> bool:
        """True if `extern T x;` is to give `x` storage: nobody else has it, and it is no alias, nor
        is its address 0 until somebody has it."""
        return (
            declared.init < 0
            and not declared.function
            and piece.start not in self._reading.guesses.elsewhere
            and not _ALIAS.search(piece.text)
            and not _WEAK.search(piece.text)
            and not declared.name.startswith(BOUNDS)  # of a section, which the linker knows
            and not self._reading.defines(declared.name)
        )

    def is_computed(self, index: int, declared: Declarator) -> bool:
        """True if an initialiser is no constant."""
        piece = self._pieces[index]
        found = piece.head
        if found.constant:
            return False
        if index in self._reading.guesses.computed or found.deduced >= 0:
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


def _skipped(piece: Piece, *words: str) -> set[int]:
    """The specifiers of a piece that a declaration of one of its names has not: these words, what a
    notebook does without, and the body of a type that has a name."""
    found = piece.head
    skipped = {at for at, token in enumerate(piece.tokens[: found.end]) if token.text in words}
    if found.tag is not None and found.tag.brace >= 0 and found.tag.name:
        skipped |= {*range(found.tag.brace, found.tag.behind)}
    return skipped.union(found.local)


def _has_no_name(piece: Piece) -> bool:
    """True if a piece defines the type of its variables, which has no name."""
    tag = piece.head.tag
    return tag is not None and tag.brace >= 0 and not tag.name


def _is_folded(piece: Piece, declared: Declarator, end: int) -> bool:
    """True if clang puts a variable's value into what uses it: that of a `const` scalar."""
    words = [token.text for token in piece.tokens[:end]]
    if "const" not in words or declared.init < 0 or not _FIXED.isdisjoint(words):
        return False
    plain = declared.last - declared.first == 1 and piece.tokens[declared.init + 1].text != "{"
    return plain and "{" not in words


def is_old_style(piece: Piece) -> bool:
    """True if the types of a function's parameters stand behind its parentheses."""
    head = piece.tokens[piece.declared[0].name_at + 1 : piece.body] if piece.body >= 0 else ()
    return any(t.text == ";" for t in head)


def _pushed(notes: Iterable[Note], name: str) -> str | None:
    """The directive that defined a macro where it was put aside last, "" where it was none; None
    where nothing is put aside.  Notes of such pragmas have it behind the pragma's line."""
    found: list[str] = []
    for note in sorted(notes, key=lambda note: note.place):
        match = PUSHED.match(note.text) if note.kind == "pragma" else None
        if match is not None and match[2] == name:
            if match[1] == "push":
                found.append(note.text.partition("\n")[2])
            elif found:
                found.pop()
    return found[-1] if found else None
