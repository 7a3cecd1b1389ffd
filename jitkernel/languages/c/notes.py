"""What earlier cells have declared: a note for each name of C, with text that declares it again.

The session keeps notes as text, by key, and carries them through undo, eviction and saving; see
`Known.notes`.  Keys: `c:i:` and an identifier, `c:t:` and a tag, `c:m:` and a macro, `c:d:` and a
directive's cell and place in it.  An enumerator's note names the one of its enum.  Start from
`Notes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from jitkernel.languages.c.tokens import all_words, tokens, words
from jitkernel.languages.llvm.plan import PlanNote

__all__ = [
    "DIRECTIVE",
    "IDENTIFIER",
    "LABEL",
    "MACRO",
    "TAG",
    "Note",
    "NoteKind",
    "Notes",
    "decode",
    "encoded",
    "key_name",
    "mentioned",
]

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
]
IDENTIFIER, TAG, MACRO, DIRECTIVE = "c:i:", "c:t:", "c:m:", "c:d:"
#: What gives a name another symbol. GCC manual, "Controlling Names Used in Assembler Code".
LABEL = re.compile(r'\b(?:asm|__asm__|__asm)\s*\(\s*"((?:[^"\\]|\\.)*)"\s*\)')
_TYPE_NAME = re.compile(
    r"(?:\b(struct|union|enum)\s+)?\b([A-Za-z_]\w*)\b"
    r"(?!\s*(?:(?:const|volatile|restrict)\b\s*)*\*)"
)  # that no pointer goes to
_LOOKS_INTO = re.compile(r"[\[{]|\b(?:__)?typeof")
_SAME = "="  # before the key of the note that stands for a name
_DIRECTIVES = frozenset(("include", "header", "pragma"))


@dataclass(frozen=True, slots=True, eq=False)
class Note:
    """A name, as later cells need it.

    `text` declares it again; it stood in line `line` of cell `cell`, as note `order` of that cell.
    `also` are other keys that it gives.  `definition` is the text of a function or a variable, from
    line `definition_line` on, empty where it is declared alone.  `needs` are the keys of what
    `text` mentions, `uses` of what the definition does, of those that were known when it was
    compiled.  An `inline` function may be part of those that its own cell calls it from, and a
    `computed` variable gets its value when the cell runs: `definition` has none.  What mentions a
    macro that was taken back means its `definition`, the directive that defined it last.  `pack` is
    what `#pragma pack` said where it stood, 0 for nothing.  `macros` are those that were expanded
    before the cell was read: the note has what they were then.  What a file that is included needs
    of cells is told by clang; it is not in `text`.  `content` is the file's own, packed, where
    it is followed.
    """

    key: str
    kind: NoteKind
    text: str
    cell: int
    order: int
    line: int = 1
    also: tuple[str, ...] = ()
    definition: str = ""
    definition_line: int = 1
    needs: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    inline: bool = False
    computed: bool = False
    pack: int = 0
    macros: tuple[str, ...] = ()
    content: str = ""

    @property
    def is_defined(self) -> bool:
        """Whether it is a function or a variable, and has a definition."""
        return bool(self.definition) and self.kind != "undef"

    @property
    def name(self) -> str:
        """The name without the kind of its key."""
        return key_name(self.key)

    @property
    def place(self) -> tuple[int, int]:
        """By which notes are ordered as they were written."""
        return self.cell, self.order

    @property
    def symbol(self) -> str:
        """What the linker calls a function or a variable."""
        label = LABEL.search(self.text) if self.kind in ("function", "variable") else None
        return label[1] if label is not None else self.name

    def encode(self) -> str:
        """The text that the session keeps."""
        return json.dumps([
            self.key, self.kind, self.text, self.cell, self.order, self.line, self.also,
            self.definition, self.definition_line, sorted(self.needs), sorted(self.uses),
            self.inline, self.computed, self.pack, self.macros, self.content,
        ])  # fmt: skip

    def same(self, other: Note) -> bool:
        """Whether both declare the same, however it is spaced."""
        return self.pack == other.pack and _spelling(self.text) == _spelling(other.text)

    def known_with(self, known: Collection[str]) -> Note:
        """The note with what it needs and uses of these keys."""
        if self.kind == "include":
            return self
        needs = _mentioned(self.text, known) - {self.key, *self.also}
        uses = _mentioned(self.definition, known) - {self.key, *self.also}
        return replace(self, needs=needs, uses=uses)


@lru_cache(maxsize=1 << 14)
def _spelling(text: str) -> str:
    return " ".join(t.text for t in tokens(text))


def _mentioned(text: str, known: Collection[str]) -> frozenset[str]:
    return frozenset(key for key in mentioned(text) if key in known)


def mentioned(text: str) -> Iterator[str]:
    """The keys that a text may mean by its words."""
    for word in words(text):
        yield IDENTIFIER + word
        yield TAG + word
    for word in all_words(text):
        yield MACRO + word


def key_name(key: str) -> str:
    """The name in a key."""
    return key[len(IDENTIFIER) :]


@lru_cache(maxsize=1 << 15)
def decode(text: str) -> Note:
    """The note that a text is."""
    key, kind, text, cell, order, line, also, definition, at, needs, uses, *flags = json.loads(text)
    return Note(
        key, kind, text, cell, order, line, tuple(also), definition, at,
        frozenset(needs), frozenset(uses), *flags,
    )  # fmt: skip


class Notes:
    """The notes of a session, read when they are asked for."""

    def __init__(self, kept: Mapping[str, str]):
        self._kept = kept
        self._needs: dict[Note, frozenset[str]] = {}
        self._directives: list[Note] | None = None

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def get(self, key: str) -> Note | None:
        """The note of a key; an enumerator's is that of its enum."""
        text = self._kept.get(key)
        if text is None:
            return None
        return self.get(text[1:]) if text.startswith(_SAME) else decode(text)

    def knows(self, name: str) -> bool:
        """Whether a name is anything."""
        return any(prefix + name in self._kept for prefix in (IDENTIFIER, TAG, MACRO))

    def identifier(self, name: str) -> Note | None:
        """What a name is that is neither tag nor macro."""
        return self.get(IDENTIFIER + name)

    def meaning(self, name: str) -> Literal["type", "value", ""]:
        """Whether a name is a type or anything else, "" where it has no note."""
        if (note := self.identifier(name)) is None:
            return ""
        return "type" if note.kind == "typedef" else "value"

    def macro(self, name: str) -> str:
        """The directive that defines a macro, "" for what is none, or none any more."""
        note = self.get(MACRO + name)
        return note.text if note is not None and note.kind == "define" else ""

    def __iter__(self) -> Iterator[Note]:
        return (decode(t) for k, t in self._kept.items() if t[:1] != _SAME and k.startswith("c:"))

    def names(self, prefix: str) -> Iterator[str]:
        """The names with a kind of key."""
        return (key_name(key) for key in self._kept if key.startswith(prefix))

    def without(self, cell: int) -> dict[str, str]:
        """What is kept but for what a cell has left."""
        left = {key for n in self if n.cell == cell for key in (n.key, *n.also)} if cell else ()
        own = f"{DIRECTIVE}{cell}."
        return {k: t for k, t in self._kept.items() if k not in left and not k.startswith(own)}

    def directives(self) -> list[Note]:
        """Headers and pragmas, in the order in which they were written."""
        if self._directives is None:
            kept = self._kept
            found = [decode(kept[key]) for key in kept if key.startswith(DIRECTIVE)]
            self._directives = sorted(found, key=lambda note: note.place)
        return self._directives

    def needs(self, note: Note) -> frozenset[str]:
        """The keys of what a note's text mentions: of what is there now, for a type may be named
        before it is defined, and so may anything in a macro."""
        found = self._needs.get(note)
        if found is None and note.kind == "include":
            found = self._needs[note] = frozenset(key for key in note.needs if key in self)
        elif found is None:
            text = note.definition if note.kind == "undef" else note.text
            found = self._needs[note] = _mentioned(text, self._kept) - {note.key, *note.also}
        return found

    def stands_behind(self, note: Note) -> frozenset[str]:
        """The keys of what a note's text must stand behind: of what it mentions, but for structs
        and unions that may be incomplete there.  C11 6.2.5 and 6.7.2.3.

        `typedef struct node node;` comes before `struct node { node *next; };`.
        """
        needs = self.needs(note)
        if note.kind == "include":
            return needs
        if any(key.startswith(MACRO) for key in needs):
            return needs  # what it says, clang alone knows
        enums = {TAG + match[2] for match in _TYPE_NAME.finditer(note.text) if match[1] == "enum"}
        named = note.kind == "typedef" and not _LOOKS_INTO.search(note.text)
        whole = set() if named else self._complete(note.text) - {note.key, *note.also}
        return frozenset(k for k in needs if not k.startswith(TAG) or k in enums).union(whole)

    def _complete(self, text: str) -> set[str]:
        """The keys of tags whose types must be complete for a text: of those with no `*` behind
        them, and behind the names of types that they have."""
        found: set[str] = set()
        names: set[str] = set()
        todo = [text]
        while todo:
            for match in _TYPE_NAME.finditer(todo.pop()):
                if match[1]:
                    found.add(TAG + match[2])
                elif match[2] not in names:
                    names.add(match[2])
                    note = self.identifier(match[2])
                    if note is not None and note.kind == "typedef" and "{" not in note.text:
                        todo.append(note.text)
        return {key for key in found if key in self._kept}

    def all_behind(self, note: Note) -> set[str]:
        """`stands_behind`, and what that stands behind."""
        found: set[str] = set()
        todo = [note]
        while todo:
            new = self.stands_behind(todo.pop()) - found
            found |= new
            todo += [other for key in new if (other := self.get(key)) is not None]
        return found

    @property
    def header(self) -> str:
        """The directives that bring the headers of earlier cells."""
        return "".join(f"{n.text}\n" for n in self.directives() if n.kind == "header")

    def closure(self, keys: Iterable[str], without: Collection[str] = ()) -> dict[str, Note]:
        """The notes of these keys and of all that those need."""
        found: dict[str, Note] = {}
        todo = list(keys)
        while todo:
            key = todo.pop()
            if key in without or key in found or (note := self.get(key)) is None:
                continue
            if note.key not in found and note.key not in without:
                found[note.key] = note
                todo += self.needs(note)
        return found

    def taken_back(self, text: str, own: Mapping[str, Note]) -> list[Note]:
        """The macros that a text has, directly or within others, and that are none any more; `own`
        are the notes of the cell that is read."""
        found: dict[str, Note] = {}
        seen: set[str] = set()
        todo = [*all_words(text)]
        while todo:
            word = todo.pop()
            note = own.get(MACRO + word) or self.get(MACRO + word)
            if word in seen or note is None:
                continue
            seen.add(word)
            if note.kind == "undef" and note.definition:
                found[word] = note
            todo += all_words(note.definition or note.text)
        return sorted(found.values(), key=lambda note: note.place)

    def inlined(self, function: Note) -> dict[str, list[str]]:
        """The definitions of its own cell that may have an inline function in them."""
        return {
            note.key: [function.name]
            for note in self
            if note.cell == function.cell and function.key in note.uses
        }

    def affected(self, changed: Collection[str]) -> tuple[set[str], dict[str, list[str]]]:
        """What a change of these keys reaches: keys of what they are part of, the changed ones
        too, and for each definition that must be compiled again the names that made it so."""
        reached = set(changed)
        every = list(self)
        grown = bool(changed)
        while grown:
            grown = False
            for note in every:
                if note.key not in reached and not reached.isdisjoint(self.needs(note)):
                    reached.update((note.key, *note.also))
                    grown = True
        stale: dict[str, list[str]] = {}
        roots = sorted({n.name for key in changed if (n := self.get(key)) is not None})
        for note in every:
            if not note.is_defined:
                continue
            # A variable keeps its value, whatever that was computed from, unless it is constant.
            uses = note.uses if note.kind == "function" or "const" in words(note.text) else ()
            if why := self.needs(note).union(uses) & reached:
                stale[note.key] = sorted(map(key_name, why & set(changed))) or roots
        return reached, stale


def encoded(notes: Iterable[Note]) -> dict[str, PlanNote]:
    """What the session is to keep of these notes."""
    found: dict[str, PlanNote] = {}
    for note in notes:
        found[note.key] = PlanNote(note.encode(), note.needs | note.uses)
        same = PlanNote(_SAME + note.key, frozenset((note.key,)))
        found |= dict.fromkeys(note.also, same)
    return found
