"""Definitions of a module that LLVM may look into from another one.  Start from `Bodies`.

A body that is lent is `available_externally` (LLVM Language Reference, Linkage Types): LLVM may
inline it and fold its value, and emits nothing of it.  What it needs of its module goes with it:
types, attributes, and local functions and small constants, of which the other module then has
copies.  Variables, and constants whose addresses may get anywhere, must not be there twice: a body
names them by their addresses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from jitkernel.ir.instructions import Instruction, has_labelled_assembly
from jitkernel.ir.module import Entity, entities
from jitkernel.ir.names import ASK, BOUNDS, NAME, can_be_held, decode_name, mentions, renamed
from jitkernel.ir.text import has_word, split_at_commas
from jitkernel.reach import reached
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

#: Instructions of a function, as a compiler first writes it, and of all that goes with it.  Of
#: llvm-test-suite's single-source C programs LLVM inlines none with more than 298 (Stanford's Fft).
_LARGEST, _LARGEST_ALL = 400, 600
_SMALL = 120  # characters of a constant that is copied
_REFUSED = regex(
    r"\b(?:noinline|optnone|naked|returns_twice|strictfp|indirectbr|callbr|blockaddress|"
    r"thread_local|va_arg|llvm\.va_start|llvm\.eh\.\w+|prefix|prologue|comdat|"
    # what these leave is the physical frame, with all that it was inlined into
    r"llvm\.experimental\.(?:deoptimize|guard))\b"
    r'|\bgc "'  # whoever holds it has references, too: see `ir.safepoints`
)
_LENT_LINKAGE = ("", "external")
#: Attributes that say nothing of what a function does: the rest may be relied on where it is
#: called, whether its body is there or not.
_PLAIN = frozenset(
    "nounwind noundef mustprogress zeroext signext uwtable null_pointer_is_valid inlinehint "
    "alwaysinline local_unnamed_addr unnamed_addr dso_local nobuiltin norecurse inreg".split()
)
_ATTRIBUTE = regex(rf'"[^"]*"(?:="[^"]*")?|#\d+|[%@]{NAME}|[a-z_]+(?![-\w$.:])(?:\([^()]*\))?')
_TYPE_WORDS = regex(
    r"define|available_externally|external|void|ptr|i\d+|half|bfloat|float|double|fp128|x86_fp80|"
    r"x|align|c|cc|fastcc|ccc|coldcc|type|opaque|vscale|addrspace"
)


class Body(NamedTuple):
    """A definition that may be lent: a module's text, how many instructions it has, the symbols
    that it uses.  `placed` are local variables and constants that its text means by `@name`, as it
    is written, and that have to be given an address: see `at`.  `telling`: its attributes say what
    it does, or it is a constant; `null_is_valid`: it may use what is at address 0."""

    name: str
    text: str
    size: int
    uses: frozenset[str]
    telling: bool
    null_is_valid: bool
    placed: frozenset[str]

    def at(self, addresses: Mapping[str, int]) -> str | None:
        """The text with the addresses of what is `placed`; None where one is not known."""
        if not self.placed:
            return self.text
        names = {}
        for spelled in self.placed:
            address = addresses.get(decode_name(spelled))
            if not address:
                return None
            names[spelled] = f"inttoptr (i64 {address} to ptr)"
        return renamed(self.text, "@", names, "")


class Bodies:
    """The definitions of one module, each made a `Body` when somebody asks for it."""

    def __init__(self, text: str):
        self._text = text
        self._found: dict[str, Body | None] = {}

    def get(self, name: str) -> Body | None:
        """The body of a symbol; None where the module has none that may be lent."""
        if name not in self._found:
            entity = self._symbols.get(name)
            self._found[name] = self._body(entity) if entity is not None else None
        return self._found[name]

    def names(self) -> list[str]:
        """The symbols that the module defines for all to see."""
        return [n for n, e in self._symbols.items() if not (e.is_local or e.is_declaration)]

    def defined(self) -> frozenset[str]:
        """All symbols that the module defines."""
        return frozenset(n for n, e in self._symbols.items() if not e.is_declaration)

    @cached_property
    def _entities(self) -> list[Entity]:
        return [*entities(self._text)]

    @cached_property
    def _symbols(self) -> dict[str, Entity]:
        kinds = ("define", "declare", "global", "constant", "alias", "ifunc")
        return {e.name: e for e in self._entities if e.kind in kinds}

    def _table(self, kind: str) -> dict[str, Entity]:
        return {e.spelled: e for e in self._entities if e.kind == kind}

    @cached_property
    def _types(self) -> dict[str, Entity]:
        return self._table("type")

    @cached_property
    def _attributes(self) -> dict[str, Entity]:
        return self._table("attributes")

    @cached_property
    def _metadata(self) -> dict[str, Entity]:
        return {n: e for n, e in self._table("metadata").items() if n.isdigit()}

    def _body(self, entity: Entity) -> Body | None:
        if entity.linkage not in _LENT_LINKAGE or entity.is_declaration:
            return None
        if not can_be_held(entity.name):
            return None
        if entity.kind == "constant":
            return self._lent(entity, [], ())
        if entity.kind != "define":
            return None
        found = self._local(entity)
        return None if found is None else self._lent(entity, *found)

    def _local(self, entity: Entity) -> tuple[list[Entity], set[str]] | None:
        """The module's own behind a function: what is copied with it, and the names of what
        is not; None where the function cannot be lent."""
        copied: dict[str, Entity] = {}
        placed: set[str] = set()
        todo, total = [entity], 0
        while todo:
            function = todo.pop()
            text = function.text
            size = _size(text)
            total += size
            if size > _LARGEST or total > _LARGEST_ALL or self._is_refused(text):
                return None
            for name in mentions(text, "@"):
                other = self._symbols.get(decode_name(name))
                if other is None or not other.is_local or other.name in copied:
                    continue
                if other.kind == "define":
                    if not _is_only_called(text, name):
                        return None
                    copied[other.name] = other
                    todo.append(other)
                elif "thread_local" in other.words or other.kind not in ("global", "constant"):
                    return None
                elif self._is_small(other) and _is_only_read(text, name):
                    copied[other.name] = other
                else:
                    placed.add(name)
        for name in placed:  # it was copied for another function
            copied.pop(decode_name(name), None)
        return [*copied.values()], placed

    def _is_small(self, entity: Entity) -> bool:
        """True of a constant that may be copied as well as used from afar."""
        short = entity.kind == "constant" and len(entity.rest) < _SMALL
        return short and not self._mentions_local(entity)

    def _is_refused(self, text: str) -> bool:
        groups = (self._attributes[g].text for g in mentions(text, "#") if g in self._attributes)
        every = "\n".join((text, *groups))
        return bool(_REFUSED.search(every)) or has_labelled_assembly(text)

    def _mentions_local(self, entity: Entity) -> bool:
        names = map(decode_name, mentions(entity.rest, "@"))
        return any((s := self._symbols.get(n)) is not None and s.is_local for n in names)

    def _lent(
        self, entity: Entity, local: Collection[Entity], placed: Collection[str]
    ) -> Body | None:
        if entity.kind == "constant" and (
            self._mentions_local(entity) or "thread_local" in entity.words
        ):
            return None
        own = {entity.name, *(e.name for e in local)}
        text = "\n".join([_available(entity), *(e.text for e in local)])
        used = {decode_name(name) for name in mentions(text, "@") - {*placed}} - own
        uses = frozenset(n for n in used if not n.startswith("llvm."))
        if ASK in uses or any(name.startswith(BOUNDS) for name in uses):
            return None  # it is Python's; they are those of its own module
        declared = []
        for name in sorted(used):
            other = self._symbols.get(name)
            if other is None or "thread_local" in other.words:
                return None
            declared.append(other.text if other.is_declaration else other.declaration)
        text = "\n".join([text, *declared])
        groups = [self._attributes[g] for g in sorted(mentions(text, "#")) if g in self._attributes]
        telling = entity.kind == "constant" or self._is_telling(entity)
        parts = [*(e.text for e in self._needed(text, "%", self._types)), text]
        parts += [group.text for group in groups]
        parts += [e.text for e in self._needed(text, "!", self._metadata)]
        size = sum(_size(e.text) for e in (entity, *local) if e.kind == "define")
        text = "\n".join(parts) + "\n"
        null = "null_pointer_is_valid" in text
        return Body(entity.name, text, size, uses, telling, null, frozenset(placed))

    @staticmethod
    def _needed(text: str, sign: str, table: dict[str, Entity]) -> list[Entity]:
        """Entities that a text mentions of a table, at any depth, in the table's order."""

        def leads(name: str) -> Iterable[str]:
            entity = table.get(name)
            return mentions(entity.rest, sign) if entity is not None else ()

        found = reached(mentions(text, sign), leads)
        return [entity for name, entity in table.items() if name in found]

    def _is_telling(self, entity: Entity) -> bool:
        """True if a function's attributes say what it does, or what it takes or gives."""
        head = entity.source[entity.start : entity.body()[0]]
        groups = (self._attributes.get(group) for group in mentions(head, "#"))
        texts = [head, *(g.rest for g in groups if g is not None)]
        return any(
            match[0].partition("(")[0] not in _PLAIN and not _TYPE_WORDS.fullmatch(match[0])
            for text in texts for match in _ATTRIBUTE.finditer(text)
            if match[0][0] not in '"#%@'
        )  # fmt: skip


def _available(entity: Entity) -> str:
    """The text of a definition that is there for LLVM alone."""
    words = entity.words
    if entity.linkage:
        words = words.replace(entity.linkage, "", 1)
    at, end = entity.words_at - entity.start, entity.words_at + len(entity.words) - entity.start
    text = entity.text
    return f"{text[:at]} available_externally {words}{text[end:]}"


def _size(text: str) -> int:
    """About how many instructions a function has."""
    return sum(1 for line in text.split("\n") if line[:1] in " \t" and line.strip()[:1] != ";")


def _lines(text: str, name: str) -> Iterator[str]:
    return (line for line in text.split("\n") if name in line)


def _is_only_called(text: str, name: str) -> bool:
    """True if a function does nothing with another one but call it."""
    calls = re.findall(rf"\bcall\b[^@\n]*@{re.escape(name)}\(", text)
    return name in mentions(text, "@") and len(calls) == text.count(f"@{name}")


def _is_only_read(text: str, name: str) -> bool:
    """True if a function only loads from a constant, or copies from it."""
    todo, seen = [f"@{name}"], set[str]()
    while todo:
        held = todo.pop()
        seen.add(held)
        for line in _lines(text, held):
            if held[1:] not in mentions(line, held[0]):
                continue
            found = Instruction.read(line)
            if found.opcode == "load":
                continue
            operands = split_at_commas(found.text[found.operands :])
            if found.opcode == "getelementptr":
                if any(has_word(o, held) or held in o for o in operands[2:]):
                    return False
                if found.result not in seen:
                    todo.append(found.result)
            elif found.opcode == "call" and "@llvm.memcpy." in line:
                arguments = split_at_commas(line[line.index("(") + 1 : line.rindex(")")])
                if held in arguments[0] or held not in arguments[1]:
                    return False
            elif found.result != held:
                return False
    return True
