"""What earlier cells have declared: a note for each name of C, with text that declares it again.

The session keeps notes by key and carries them through undo, eviction and saving, where they are
texts; see `Known.notes`.  Keys: `c:i:` and an identifier, `c:t:` and a tag, `c:m:` and a macro,
`c:d:` and the cell and the place in it of a directive, or of what else has no name.  An enumerator
has an `Alias` of its enum's note.  Start from `Notes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, TypeAlias

from jitkernel.errors import UsageError
from jitkernel.forms import Maybe, check
from jitkernel.languages.c.declarations import parameter_names
from jitkernel.languages.c.pointed import forward, pointers
from jitkernel.languages.c.tokens import all_words, asked_for, expanded, tokens, words
from jitkernel.languages.c.words import ASSEMBLY, ASSERTIONS
from jitkernel.languages.llvm.plan import Below, Kept, LanguageNote, NoteKey, NoteTable
from jitkernel.reach import reached
from jitkernel.record import NamedTuple, fields, record, replace
from jitkernel.regex import regex

NoteKind: TypeAlias = Literal[
    "include",
    "header",
    "define",
    "undef",
    "pragma",
    "tag",
    "typedef",
    "constant",
    "variable",
    "function",
    "assembly",
    "assertion",
]
IDENTIFIER, TAG, MACRO, DIRECTIVE = "c:i:", "c:t:", "c:m:", "c:d:"
#: What gives a name another symbol. GCC manual, "Controlling Names Used in Assembler Code".
LABEL = regex(r'\b(?:asm|__asm__|__asm)\s*\(\s*"((?:[^"\\]|\\.)*)"\s*\)')
_TYPE_NAME = regex(
    r"(?:\b(struct|union|enum)\s+)?\b([A-Za-z_]\w*)\b"
    r"(?!\s*(?:(?:const|volatile|restrict)\b\s*)*\*)"
)  # that no pointer goes to
_WORD = regex(r"\b[A-Za-z_]\w*")
_OBJECT_LIKE = regex(r"#\s*define\s+\w+(?!\()\b(.*)", re.DOTALL)
_WITHIN = 8  # macros within macros that are followed
_LOOKS_INTO = regex(r"[\[{]|\b(?:__)?typeof")
_LAID_OUT = regex(r"\b(?:struct|union)\b[^;{}]*\{")
_ASKS_TYPE = regex(r"\b(?:__)?typeof|\bsizeof\b|alignof\b|\boffsetof\b")
_OBJECTS = ("function", "variable")
#: A macro by the name of anything else, and the other way round.
_OTHER = {MACRO: IDENTIFIER, IDENTIFIER: MACRO}
_DIRECTIVES = frozenset(("include", "header", "pragma"))
LEFT, MACROS, DIRECTIVES = "left", "macros", "directives"
_GROUPS: Mapping[str, str] = {
    "define": MACROS, "undef": MACROS, **dict.fromkeys(_DIRECTIVES, DIRECTIVES),
}  # fmt: skip
#: What stands for itself and follows what it mentions, by the words that begin it.
UNNAMED: Mapping[str, NoteKind] = {
    **dict.fromkeys(ASSEMBLY, "assembly"), **dict.fromkeys(ASSERTIONS, "assertion"),
}  # fmt: skip


@record
class Note:
    """A name, as later cells need it.

    `text` declares it again; it stood in line `line` of cell `cell`, as note `order` of that cell.
    `also` are other keys that it gives. `definition` is the text of a function or a variable, from
    line `definition_line` on, empty where it is declared alone. `needs` are the keys of what clang
    says that a file which is included needs of cells; it is not in `text`. `uses` are those of what
    the definition mentions, of those that were known when it was compiled. A `computed` variable
    gets its value when the cell runs: `definition` has none. What mentions a macro that was taken
    back means its `definition`, the directive that defined it last. `at` is the place of its cell
    in the notebook: the number of the first run of that notebook cell. `macros` are those that were
    expanded before the cell was read: the note has what they were then. `content` is what a header
    declares, where it is followed. The type of a `deduced` variable is told by its definition (`int
    t[] = {1, 2};`), and a `folded` one is a constant whose value clang puts into what uses it: what
    its definition says is part of what it is. What has `left` is in no text any more: its notebook
    cell was run again without it, and what uses it still does. `asks` are macros that its
    conditions ask for and that were none.
    """

    key: str
    kind: NoteKind
    text: str
    cell: int = 0
    order: int = 0
    line: int = 1
    also: tuple[str, ...] = ()
    definition: str = ""
    definition_line: int = 1
    needs: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    computed: bool = False
    at: int = 0
    macros: tuple[str, ...] = ()
    content: Mapping[str, int] | None = None
    deduced: bool = False
    folded: bool = False
    left: bool = False
    asks: tuple[str, ...] = ()

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that mean it."""
        return self.key, *self.also

    @property
    def is_defined(self) -> bool:
        """True if it is a function, a variable or what has no name, and has a definition."""
        return bool(self.definition) and self.kind != "undef"

    @property
    def stands(self) -> bool:
        """True if its cell's text is all of it, and says it: there is no code."""
        return not (self.is_defined or self.left)

    @property
    def group(self) -> str:
        """The word by which those are found that count wherever they are mentioned or not."""
        if self.left and self.kind != "undef":
            return LEFT
        return _GROUPS.get(self.kind, "")

    @property
    def meant(self) -> str:
        """The text that says what it is to others: of a macro that was taken back its last
        definition, and all of what tells a type or a value by its initialiser."""
        if self.kind == "undef" or self.folded:
            return self.definition
        return f"{self.text} {self.definition}" if self.deduced else self.text

    @property
    def name(self) -> str:
        """The name without the kind of its key."""
        return key_name(self.key)

    @property
    def owner(self) -> int:
        """The cell whose it is: directives stay in their order, though their cell is run again."""
        key = self.key
        return int(key[4:].partition(".")[0]) if key.startswith(DIRECTIVE) else self.cell

    @property
    def place(self) -> tuple[int, int]:
        """By which notes are ordered as they were run."""
        return self.cell, self.order

    @property
    def position(self) -> tuple[int, int]:
        """By which notes are ordered as they stand in the notebook."""
        return self.at or self.cell, self.order

    @property
    def symbol(self) -> str:
        """The linker's name of a function or a variable."""
        label = LABEL.search(self.text) if self.kind in ("function", "variable") else None
        return label[1] if label is not None else self.name

    def encode(self) -> str:
        """The text that a saved session has."""
        values = (getattr(self, name) for name in _FIELDS)
        return json.dumps([sorted(v) if isinstance(v, frozenset) else v for v in values])

    @property
    def is_laid_out(self) -> bool:
        """True if it has the members of a struct or a union."""
        return _LAID_OUT.search(self.text) is not None

    def same(self, other: Note) -> bool:
        """True if both declare the same, however it is spaced."""
        if not other.text:  # a function of the old style: clang will tell its type
            heads = (spelling(n.definition.partition("{")[0]) for n in (self, other))
            return next(heads) == next(heads)
        if self.deduced or other.deduced:
            return spelling(self.definition) == spelling(other.definition)
        return spelling(self.meant) == spelling(other.meant)

    @property
    def is_constant(self) -> bool:
        """True of a variable whose value clang may have put into what its own cell defines."""
        return self.kind == "variable" and "const" in words(self.text.rpartition("*")[2])

    def mentions(self, text: str) -> list[str]:
        """The keys that a text of it may mean: a function's parameters hide what has their names,
        apart from macros and tags."""
        hidden = frozenset[str]()
        if self.kind == "function":  # its declaration and its definition have one head
            hidden = _hidden(text.partition("{")[0].rstrip("; \t\n"))
        found = mentioned(text)
        return [key for key in found if key not in hidden] if hidden else found

    def known_with(self, is_known: Callable[[str], bool]) -> Note:
        """The note with what its definition uses of the keys that are known."""
        if self.kind == "include":
            return self
        uses = frozenset(filter(is_known, self.mentions(self.definition))) - {*self.keys}
        asked = asked_for(f"{self.text}\n{self.definition}") if self.kind != "undef" else ()
        asks = tuple(sorted(name for name in asked if not is_known(MACRO + name)))
        return replace(self, uses=uses, asks=asks)


class Alias(NamedTuple):
    """A name that the note with another key gives."""

    of: str

    def encode(self) -> str:
        """The text that a saved session has: no note's begins so."""
        return f"={self.of}"


#: By the types of a note's fields: their forms in a saved session, and what makes them of those.
_FORMS: Mapping[str, tuple[Any, Callable[[Any], Any] | None]] = {
    "str": (str, None), "NoteKind": (str, None), "int": (int, None), "bool": (int, bool),
    "tuple[str, ...]": ([str], tuple), "frozenset[str]": ([str], frozenset),
    "Mapping[str, int] | None": (Maybe(dict), None),
}  # fmt: skip
_FIELDS = {field.name: _FORMS[str(field.type)] for field in fields(Note)}
_ROW = tuple(form for form, _ in _FIELDS.values())


def declared(kept: Kept) -> str:
    """The declaration in a note, `struct pt { int x; };`, however it was spaced; "" for what has no
    name, such as the line of an `#include`, and for a name that another note has."""
    note = decoded(kept)
    if isinstance(note, Alias) or note.kind in ("undef", *_DIRECTIVES, *UNNAMED.values()):
        return ""
    return on_line(note.meant)


def on_line(text: str) -> str:
    """A declaration on one line, without its `;`, however it was spaced."""
    return " ".join(text.split()).removeprefix("extern ").rstrip(" ;")


@lru_cache(maxsize=1 << 12)
def spelling(text: str) -> str:
    """A text with a blank between its tokens, and no comments."""
    return " ".join(t.text for t in tokens(text))


def mentioned(text: str) -> list[str]:
    """The keys that a text may mean by its words."""
    found = list(map(MACRO.__add__, all_words(text)))
    for word in words(text):
        found += IDENTIFIER + word, TAG + word
    return found


@lru_cache(maxsize=1 << 11)
def _hidden(head: str) -> frozenset[str]:
    return frozenset(IDENTIFIER + name for name in parameter_names(tokens(head)))


def keys_of(names: Iterable[str]) -> frozenset[str]:
    """The keys that names may have as identifiers and as tags."""
    return frozenset(key for name in names for key in (IDENTIFIER + name, TAG + name))


def key_name(key: str) -> str:
    """The name in a key."""
    return key[len(IDENTIFIER) :]


def decoded(kept: Kept) -> Note | Alias:
    """The record that is kept of a name, as it was left or as a saved session had it.  Raises
    UsageError where the file of that was forged."""
    return kept if isinstance(kept, (Note, Alias)) else _decode(str(kept))


@lru_cache(maxsize=1 << 15)
def _decode(text: str) -> Note | Alias:
    if text.startswith("="):
        return Alias(text[1:])
    try:
        row = json.loads(text)
        check(row, _ROW)
    except (ValueError, RecursionError):
        raise UsageError(
            f"what the session has kept of a declaration is damaged: {text[:60]}; where it came "
            "from a file, rebuild=True (%restore --rebuild) compiles its sources"
        ) from None
    makers = (make for _, make in _FIELDS.values())
    return Note(*(make(v) if make else v for make, v in zip(makers, row, strict=True)))


def _in_order(directive: Note) -> tuple[tuple[int, int], list[int]]:
    """By which directives are ordered as they were run, those of one header among them."""
    return directive.place, [*map(int, directive.key[len(DIRECTIVE) :].split("."))]


class _Without(Mapping[str, Kept]):
    """The kept notes but for some keys, and with what counts `again` in their place."""

    def __init__(self, kept: Mapping[str, Kept], without: Set[NoteKey], again: Mapping[str, Kept]):
        self._kept, self._without, self._again = kept, without, again

    def __contains__(self, key: object) -> bool:
        return key in self._again or (key in self._kept and key not in self._without)

    def __getitem__(self, key: str) -> Kept:
        if key in self._again:
            return self._again[key]
        if key in self._without:
            raise KeyError(key)
        return self._kept[key]

    def __iter__(self) -> Iterator[str]:
        return chain((key for key in self._kept if key not in self._without), self._again)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Notes:
    """The notes of a session, read when they are asked for."""

    def __init__(self, kept: Mapping[str, Kept]):
        self._kept = kept
        self._table = kept if isinstance(kept, NoteTable) else None
        self._again: Mapping[str, Kept] = {}
        #: what names meant in the text whose place the cell takes that mean something else now:
        #: macros or none, or what another cell says of them
        self.was: dict[str, Note] = {}
        self.gone = set[NoteKey]()  # keys of headers that the cell has no more, and so on
        #: True if the text takes the place of a cell that has left notes
        self.takes_place = False
        self._replaced = 0  # the cell whose place it takes
        self._own: Mapping[str, Note] = {}  # of the cell that is read
        self._own_keys: Collection[str] = ()
        self._needed = frozenset[str]()  # of what headers of the user's are seen to need
        self._needs: dict[Note, frozenset[str]] = {}
        self._behind: dict[Note, frozenset[str]] = {}
        self._directives: list[Note] | None = None
        self._by_text: dict[str, Note] = {}

    def _group(self, group: str) -> list[Note]:
        """The notes of a group: few are looked at where the session has them by it."""
        keys: Iterable[str] = self._kept
        if self._table is not None:
            keys = self._table.groups.get(group, {}).keys() | self._again.keys()
        return [note for note in self._notes(keys) if note.group == group]

    def of_cell(self, cell: int) -> list[Note]:
        """The notes of a cell that count; 0: none."""
        return [n for n in self._notes(self._said(cell)) if n.owner == cell]

    def _said(self, cell: int) -> Mapping[str, LanguageNote]:
        """The notes of a cell by key, whether it counts or not."""
        return self._table.of.get(cell, {}) if self._table is not None else {}

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def get(self, key: str) -> Note | None:
        """The note of a key; an enumerator's is that of its enum."""
        kept = self._kept.get(key)
        note = kept if kept is None or kept.__class__ is Note else decoded(kept)
        return self.get(note.of) if isinstance(note, Alias) else note

    def before(self, key: str) -> Note | None:
        """The note of a key as the text had it whose place the cell takes."""
        return self.was.get(key) or self.get(key)

    def in_cell(self, key: str) -> Note | None:
        """The note of a key as the text of the cell means it that is read."""
        return self._own.get(key) or self.get(key)

    def gives(self, note: Note, key: str) -> bool:
        """True if a key means a note."""
        other = self.get(key)
        return other is not None and other.key == note.key

    def knows(self, name: str) -> bool:
        """True if a name means anything."""
        return any(prefix + name in self._kept for prefix in (IDENTIFIER, TAG, MACRO))

    def identifier(self, name: str) -> Note | None:
        """The note of a name that is neither tag nor macro."""
        return self.get(IDENTIFIER + name)

    def names(self) -> list[str]:
        """The identifiers and macros that cells have declared."""
        kinds = IDENTIFIER, MACRO
        return [key_name(key) for key in self._kept if key.startswith(kinds)]

    def meaning(self, name: str) -> Literal["type", "value", ""]:
        """The kind of a name: a type or anything else, "" where it has no note."""
        if (note := self.identifier(name)) is None:
            return ""
        return "type" if note.kind == "typedef" else "value"

    def macro(self, name: str) -> str:
        """The directive that defines a macro, "" for what is none, or none any more."""
        note = self.get(MACRO + name)
        return note.text if note is not None and note.kind == "define" else ""

    def __iter__(self) -> Iterator[Note]:
        return self._notes(self._kept)

    def _notes(self, keys: Iterable[str]) -> Iterator[Note]:
        """The notes of those of the keys that are there, but for names that others have given."""
        for key in keys:
            if key.startswith("c:") and (kept := self._kept.get(key)) is not None:
                note = kept if kept.__class__ is Note else decoded(kept)
                if isinstance(note, Note):
                    yield note

    def hide(self, cell: int, source: str) -> None:
        """Forget what names were that are macros in a text and were none, or were macros and are
        none, of cell `cell`, whose place the text takes, and of what is in no text any more; and
        macros that the cell took back, and headers that it has no more.  What others say of its
        names counts again."""
        self._replaced = cell
        own, said = self.of_cell(cell), self._said(cell)
        below = self._table.below if self._table is not None else {}
        self.gone.update(Below(key, cell) for key in said if cell in below.get(key, ()))
        self.takes_place = bool(said)
        notes = dict.fromkeys((*self._group(LEFT), *own))
        if not notes:
            return
        others = {key: [c for c in below.get(key, ()) if c != cell] for n in own for key in n.keys}
        again: dict[str, Kept] = {}
        named = all_words(source)
        macros = {word: {*re.findall(rf"(?m)^[ \t]*#[ \t]*{word}[ \t]+([A-Za-z_]\w*)", source)}
                  for word in ("define", "undef")}  # fmt: skip

        def is_otherwise(note: Note, key: str) -> bool:
            kind, name = key[: len(MACRO)], key_name(key)
            if note.kind == "undef":
                return name not in macros["undef"]
            if name in named:
                return kind in _OTHER and (kind == MACRO) != (name in macros["define"])
            other = self.get(_OTHER[kind] + name) if kind in _OTHER else None
            there = other is not None and other.kind != "undef" and not other.left
            return there and note.cell == cell

        for note in notes:
            for key in note.keys:
                is_above = others.get(key) or others.get(note.key) if note.owner == cell else ()
                if is_above and self.gives(note, key):
                    if others[key]:  # else what they say gives no such name
                        again[key] = below[key][max(others[key])].kept
                elif key not in self._kept or not is_otherwise(note, key):
                    continue  # an enumerator whose name is a macro by now has none
                self.was[key] = note
        headers = (n for n in own if n.kind in ("include", "header") and n.text not in source)
        self.gone.update(note.key for note in headers)
        without = self.gone | self.was.keys()
        if without:
            self._again, self._kept = again, _Without(self._kept, without, again)

    def younger(self, note: Note) -> list[str]:
        """The keys of macros by the names in a note's text that were none when its cell was read,
        where the names still mean what they did then."""
        if (said := self._said(note.owner).get(note.key)) is None:
            return []
        keys = map(MACRO.__add__, sorted(all_words(note.meant)))
        return [key for key in keys if self._is_younger(key, said)]

    def _is_younger(self, macro: str, said: LanguageNote) -> bool:
        if macro not in self or macro in said.needs:
            return False
        before = said.needs & keys_of((key_name(macro),))
        there = (key in self._own_keys or ((n := self.get(key)) and not n.left) for key in before)
        return not before or any(there)

    def said(self, key: str) -> LanguageNote:
        """The note of a key, as its cell has left it."""
        note = self.get(key)
        return self._left(self._kept[key], note.cell) if note is not None else LanguageNote("")

    def _left(self, kept: Kept, cell: int) -> LanguageNote:
        note = decoded(kept)
        if isinstance(note, Alias):
            return LanguageNote(kept, frozenset((note.of,)), cell)
        return LanguageNote(kept, self.needs(note), cell, note.group)

    def is_left(self, note: Note | None) -> bool:
        """True if no text declares a name any more, when the cell that is read has the place of the
        one whose it was: it is there for those that were compiled with it alone."""
        return (
            note is not None and note.kind not in ("define", "undef")
            and self._is_gone(note)
        )  # fmt: skip

    def _is_gone(self, note: Note) -> bool:
        return note.left or note.cell == self._replaced != 0

    def present_in_text(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys that mean something that a text still declares: few of the words of a
        cell do."""
        return [key for key in keys if key in self._kept and not self.is_left(self.get(key))]

    def present(self, keys: Iterable[str]) -> frozenset[str]:
        """These keys, those of names that are nothing of the kind now as macros, or as none."""

        def now(key: str) -> str:
            kind = key[: len(MACRO)]
            is_there = key not in self.was or key in self._kept or key in self._own_keys
            return key if is_there else _OTHER.get(kind, kind) + key_name(key)

        return frozenset(map(now, keys))

    def read_with(
        self, own: Mapping[str, Note], keys: Collection[str], needed: Iterable[str]
    ) -> None:
        """Say what the cell that is read declares, under which keys, as it is found: names mean
        that in its text.  Headers, which may have changed, are seen to need the names `needed`."""
        self._own, self._own_keys = own, keys
        self._needed = keys_of(needed)
        self._needs.clear()
        self._behind.clear()

    def directives(self) -> list[Note]:
        """Headers, each once, and pragmas, in the order in which they were written."""
        if self._directives is None:
            every = sorted(self._group(DIRECTIVES), key=_in_order)
            first = self._by_text = {note.text: note for note in reversed(every)}
            self._directives = [n for n in every if n.kind == "pragma" or first[n.text] is n]
        return self._directives

    def directive(self, text: str) -> Note | None:
        """The first header or pragma with this text."""
        self.directives()
        return self._by_text.get(text)

    def needs(self, note: Note) -> frozenset[str]:
        """The keys of what a note's text mentions: of what is there now, for a type may be named
        before it is defined, and so may anything in a macro."""
        found = self._needs.get(note)
        if found is None and note.kind == "include":
            before = (key for key in self._needed if self._is_above(key, note))
            needs = note.needs.union(before)
            found = self._needs[note] = frozenset(key for key in needs if key in self)
        elif found is None:
            kept, was = self._kept, self.was
            found = frozenset(k for k in note.mentions(note.meant) if k in kept or k in was)
            found -= {*note.keys}
            if (macros := [key for key in found if key.startswith(MACRO)]) and (
                said := self._said(note.owner).get(note.key)
            ) is not None:
                found = found.difference([k for k in macros if self._is_younger(k, said)])
            now = self.present(found & self.was.keys())
            found |= {key for key in now if key in self._own_keys or key in self._kept}
            self._needs[note] = found
        return found

    def _is_above(self, key: str, note: Note) -> bool:
        """True if what a key means stands above a note in the notebook."""
        other = self.get(key)
        return other is not None and other.position < note.position

    def stands_behind(self, note: Note) -> frozenset[str]:
        """The keys of what a note's text must stand behind: of what it mentions, but for structs
        and unions that may be incomplete there.  C11 6.2.5 and 6.7.2.3.

        `typedef struct node node;` comes before `struct node { node *next; };`.
        """
        found = self._behind.get(note)
        if found is None:
            found = self._behind[note] = self._stands_behind(note)
        return found

    def _stands_behind(self, note: Note) -> frozenset[str]:
        needs = self.needs(note)
        if note.kind == "include":
            return needs
        text = note.meant
        macros = self._expanded(text)
        needs = frozenset(k for k in needs if not k.startswith(MACRO) or k in macros)
        if macros:
            needs = needs.union(*map(self.needs, macros.values()))
            if not all(_OBJECT_LIKE.match(macro.meant) for macro in macros.values()):
                texts = (found.meant for found in (note, *macros.values()))
                return needs.union(*map(self._complete, texts)) - {*note.keys}  # clang alone knows
            text = self._without_macros(text)
        if note.kind in ("tag", "typedef"):
            needs -= self._forward(text)
        computed = note.folded or note.deduced or _ASKS_TYPE.search(text)
        if not computed:  # a function's name is a member's or a parameter's
            others = ((key, self.get(key)) for key in needs)
            needs = frozenset(
                k for k, n in others if n is None or n.kind not in _OBJECTS or k != n.key
            )
        enums = {TAG + match[2] for match in _TYPE_NAME.finditer(text) if match[1] == "enum"}
        named = note.kind == "typedef" and not _LOOKS_INTO.search(text)
        whole = set() if named else self._complete(text) - {*note.keys}
        return frozenset(k for k in needs if not k.startswith(TAG) or k in enums).union(whole)

    def _expanded(self, text: str) -> dict[str, Note]:
        """The macros that a text has, directly or within others, by key: the name of one with
        parameters is any other name where no `(` follows it, unless another one is given it.  C11
        6.10.3."""
        found: dict[str, Note] = {}
        todo = [text]
        while todo:
            text = todo.pop()
            every = {n: m for n in all_words(text) if (m := self.in_cell(MACRO + n)) is not None}
            called = [name for name, m in every.items() if not _OBJECT_LIKE.match(m.meant)]
            without = called and frozenset(called) - expanded(text, every)
            for name, macro in every.items():
                if name not in without and macro.key not in found:
                    found[macro.key] = macro
                    todo.append(macro.meant.partition(name)[2])
        return found

    def _without_macros(self, text: str, within: Set[str] = frozenset()) -> str:
        """A text with macros that have no parameters in place of their names: `FAR`, which may be
        nothing.  What a macro is `within` is not put in again.  C11 6.10.3.4."""

        def meant(match: re.Match[str]) -> str:
            name = match[0]
            macro = self.in_cell(MACRO + name) if name not in within else None
            body = _OBJECT_LIKE.match(macro.meant) if macro is not None else None
            return self._without_macros(body[1], within | {name}) if body is not None else name

        return _WORD.sub(meant, text) if len(within) < _WITHIN else text

    def _forward(self, text: str) -> set[str]:
        """The keys of typedefs of structs that a text points at alone: their names are declared
        before it."""
        names = {name for found in pointers(text) for name in found.to}
        return {
            IDENTIFIER + name for name in names
            if (other := self.in_cell(IDENTIFIER + name)) is not None
            and other.kind == "typedef" and forward(other.text)
        }  # fmt: skip

    def _complete(self, text: str) -> set[str]:
        """The keys of tags whose types must be complete for a text: of those with no `*` behind
        them, and behind the names of types that they have."""
        found: set[str] = set()
        names: set[str] = set()
        todo = [text]
        while todo:
            for match in _TYPE_NAME.finditer(self._without_macros(todo.pop())):
                if match[1]:
                    found.add(TAG + match[2])
                elif match[2] not in names:
                    names.add(match[2])
                    note = self.in_cell(IDENTIFIER + match[2])
                    if note is not None and note.kind == "typedef" and "{" not in note.text:
                        todo.append(note.text)
        return {key for key in found if key in self._kept}

    def all_behind(self, note: Note) -> dict[str, Note]:
        """`stands_behind`, and what that stands behind."""
        return self._walk(self.stands_behind(note), self.stands_behind)

    def closure(self, keys: Iterable[str]) -> dict[str, Note]:
        """The notes of these keys and of all that those need."""
        return self._walk(keys, self.needs)

    def _walk(self, keys: Iterable[str], edges: Callable[[Note], Iterable[str]]) -> dict[str, Note]:
        """The notes of the keys that these lead to."""
        every = reached(keys, lambda key: edges(note) if (note := self.get(key)) else ())
        return {note.key: note for note in map(self.get, every) if note is not None}

    @property
    def header(self) -> str:
        """The directives that bring the headers of earlier cells."""
        return "".join(f"{n.text}\n" for n in self.directives() if n.kind == "header")

    def preprocessed(self) -> tuple[str, list[Note]]:
        """The lines that are preprocessed before the cell, apart from macros that no text defines
        any more, or this one anew: directives that bring the headers, and notes in order."""
        macros = self._group(MACROS)
        every = (*macros, *self._group(LEFT))
        gone = {n.text for n in every if n.kind == "define" and self._is_gone(n)}
        header = (n.text for n in self.directives() if n.kind == "header" and n.text not in gone)
        found = [n for n in macros if n.text not in gone]
        found += (n for n in self.directives() if n.kind == "include")
        return "".join(f"{text}\n" for text in header), sorted(found, key=lambda n: n.place)

    def taken_back(self, text: str) -> list[Note]:
        """The macros that a text has, directly or within others, and that are none any more."""

        def within(word: str) -> frozenset[str]:
            note = self.in_cell(MACRO + word)
            return frozenset() if note is None else all_words(note.definition or note.text)

        every = (self.in_cell(MACRO + word) for word in reached(all_words(text), within))
        found = (n for n in every if n is not None and n.kind == "undef" and n.definition)
        return sorted(found, key=lambda note: note.place)

    def holders(self, held: Mapping[str, Note]) -> dict[str, list[str]]:
        """The definitions that may have a value of these in them, which are given by their keys:
        those of the same cells."""
        return {
            note.key: sorted(held[key].name for key in used)
            for note in (self if held else ())
            if (used := [k for k in held.keys() & note.uses if held[k].cell == note.cell])
        }

    def affected(
        self, changed: Collection[str], outside: Set[str] = frozenset()
    ) -> tuple[set[str], dict[str, list[str]]]:
        """The reach of a change of these keys, and of those `outside`, of which there are no notes:
        keys of what they are part of, the changed ones too, and for each definition that must be
        compiled again the names that made it so."""
        begin = {*changed, *outside}
        for note in map(self.get, changed):
            begin.update(note.keys if note is not None else ())
        if not begin:
            return begin, {}
        every = list(self)

        def mentions(note: Note, keys: frozenset[str], text: str) -> frozenset[str]:
            return keys.union(outside & {*note.mentions(text)}) if outside else keys

        needs = {note: mentions(note, self.needs(note), note.meant) for note in every}
        users: dict[str, list[Note]] = {}
        for note, keys in needs.items():
            for key in keys:
                users.setdefault(key, []).append(note)
        roots = {n.name if (n := self.get(key)) else key_name(key) for key in changed}
        roots |= {key_name(key) for key in outside & users.keys()}
        of = reached(begin, lambda key: (k for n in users.get(key, ()) for k in n.keys))
        stale: dict[str, list[str]] = {}
        for note in every:
            uses = mentions(note, note.uses, note.definition)
            if note.is_defined and (why := needs[note].union(uses) & of.keys()):
                stale[note.key] = sorted({key_name(k) for k in why & {*changed, *outside}} or roots)
        return {*of}, stale


def plan_notes(
    is_known: Callable[[str], bool], notes: Iterable[Note], others: Iterable[Note] = (),
    younger: Callable[[Note], Iterable[str]] = lambda note: (),
) -> dict[Any, LanguageNote]:  # fmt: skip
    """The notes as a plan leaves them, and `others`, which stay their cells'; each needs what it
    mentions of the keys that are known, but for macros that are `younger` than others."""
    found: dict[str, LanguageNote] = {}
    for note, cell in (*((n, 0) for n in notes), *((n, n.owner) for n in others)):
        said = note.mentions(note.meant) if note.kind != "include" else ()
        needs = note.needs.union(note.uses, filter(is_known, said)) - {*note.keys}
        needs = needs.difference(younger(note) if cell else ())
        found[note.key] = LanguageNote(note, needs, cell, note.group)
        same = LanguageNote(Alias(note.key), frozenset((note.key,)), cell)
        found |= dict.fromkeys(note.also, same)
    return found
