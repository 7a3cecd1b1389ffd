"""The text of a module whose code is to use what another one of the same source has in memory.

Start from `sharing`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Set

from jitkernel.ir.debug_info import split_location
from jitkernel.ir.module import Entity, entities
from jitkernel.ir.names import NAME, SKIP, mentions, quote_name, symbol_name
from jitkernel.ir.text import replaced
from jitkernel.regex import regex

#: What the names of entries begin with: see `sharing`.
ENTRY_OF = "jk.entry."
_SYMBOL = regex(rf"{SKIP}|(?P<label>blockaddress[ ]?\([ ]?)?@(?P<name>{NAME})(?P<call>\(?)")
_COMDAT = regex(rf"{SKIP}|,? comdat(?:\(\$[^)]*\))?(?![-\w$.])")
_ALIGNED = regex(r", align \d+\Z")
_SPECIAL = ("llvm.global_ctors", "llvm.global_dtors", "llvm.used", "llvm.compiler.used")


def variables(text: str) -> dict[str, Entity]:
    """The variables and constants that a module defines, by name."""
    return {
        e.name: e for e in entities(text, "function", "value")
        if e.kind in ("global", "constant") and not e.is_declaration and e.name not in _SPECIAL
    }  # fmt: skip


def has_labels(entity: Entity) -> bool:
    """True of a variable with addresses of labels: they are those of its own module's code."""
    return "blockaddress" in entity.rest


def values(found: Mapping[str, Entity]) -> dict[str, str]:
    """The meaning of each of some variables, by name: its type and its first value, in which names
    of others that nobody else sees stand for what those are, whatever they are called."""
    made: dict[str, str] = {}

    def value(name: str, open_: tuple[str, ...]) -> str:
        if name in made:
            return made[name]
        entity = found[name]

        def other(match: re.Match[str]) -> str:
            meant = symbol_name(match["name"] or "")
            inner = found.get(meant)
            if inner is None or not inner.is_local or meant in open_:
                return match[0]
            return f"({value(meant, (*open_, meant))}){match['call']}"

        text = _SYMBOL.sub(other, split_location(entity.rest)[0])
        made[name] = f"{entity.kind} {_ALIGNED.sub('', text.strip())}"
        return made[name]

    return {name: value(name, (name,)) for name in found}


def taken(text: str) -> frozenset[str]:
    """The symbols whose addresses a module's code or its variables take."""
    return frozenset(
        symbol_name(m["name"]) for m in _SYMBOL.finditer(text)
        if m["name"] and not (m["call"] or m["label"])
    )  # fmt: skip


def sharing(text: str, shared: Collection[str], entries: Collection[str]) -> str:
    """A module's text without its variables of these names, which are somebody else's, and without
    what only that one needs: constructors, COMDAT groups, assembly.  Lines keep their numbers.

    Of functions that nobody else sees the `entries` stand for others where not they are called but
    their addresses taken: `ENTRY_OF` and their name.
    """
    if entries:
        text = _SYMBOL.sub(lambda m: _entry(m, entries), text)
    edits = list(_edits(text, shared))
    text = _COMDAT.sub(
        lambda m: m[0] if m[0][:1] in '";/' else "", replaced(text, edits)
    ) if "comdat" in text else replaced(text, edits)  # fmt: skip
    named = [quote_name(ENTRY_OF + name) for name in sorted(entries)]
    there = mentions(text, "@")
    return text + "".join(f"\ndeclare void @{n}()" for n in named if n in there) + "\n"


def _entry(match: re.Match[str], entries: Collection[str]) -> str:
    name = symbol_name(match["name"] or "")
    if name not in entries or match["call"] or match["label"]:
        return match[0]
    return "@" + quote_name(ENTRY_OF + name)


def _edits(text: str, shared: Collection[str]) -> Iterator[tuple[int, int, str]]:
    defined = {e.name for e in entities(text, "function") if e.kind == "define"}
    for found in entities(text, "function", "value", "comdat", "asm"):
        new = None
        if found.kind in ("comdat", "asm") or found.name in _SPECIAL:
            new = ""
        elif found.kind in ("global", "constant") and found.name in shared:
            new = "" if found.is_declaration else _external(found)
        elif found.kind == "ifunc":
            new = found.declaration
        elif found.kind == "alias" and not _of_code(found, defined):
            new = found.declaration
            if "thread_local" in found.words:
                new = new.replace(" = external ", " = external thread_local ", 1)
        if new is not None:
            yield found.start, found.end, new + "\n" * found.text.count("\n")


def _of_code(alias: Entity, defined: Set[str]) -> bool:
    """True of an alias of functions that a module defines."""
    return {*map(symbol_name, mentions(alias.rest, "@"))} <= defined


def hidden_aliases(text: str) -> list[str]:
    """The aliases of variables that nobody else sees, and such ifuncs."""
    defined = {e.name for e in entities(text, "function") if e.kind == "define"}
    found = [e for e in entities(text, "function", "value") if e.is_local]
    return [
        e.name for e in found
        if e.kind == "ifunc" or (e.kind == "alias" and not _of_code(e, defined))
    ]  # fmt: skip


def _external(found: Entity) -> str:
    location = split_location(found.text)[1]
    declared = found.declaration
    if "thread_local" not in found.words:  # it is in the session's memory
        declared = declared.replace(" = external ", " = external dso_local ", 1)
    return f"{declared}, !dbg !{location}" if location else declared
