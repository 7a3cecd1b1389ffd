"""Which symbols an entity defines, declares and mentions.  Start from `entity_names`.

Globals without a name (`@0`) are their module's own and no symbols.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from jitkernel.languages.llvm.quoting import decode_name
from jitkernel.languages.llvm.statements import Kind, Statement

__all__ = ["Names", "entity_names", "mentioned", "type_body"]


@dataclass(slots=True)
class Names:
    defines: set[str] = field(default_factory=set)
    declares: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)


_NAME = r'("[^"]*"|[-a-zA-Z$._][-a-zA-Z$._0-9]*|\d+)'
_DEFINE = re.compile(rf"define\b([^@\"]*)@{_NAME}")
_DECLARE = re.compile(rf"\bdeclare\b[^@\"]*@{_NAME}")
_VARIABLE = re.compile(rf"@{_NAME}\s*=((?:\s*[a-z_]+(?:\([a-z]*\d*\))?)*)")
_MENTION = re.compile(rf'"[^"]*"|;[^\n]*|@{_NAME}')
_TYPE = re.compile(r'%("[^"]*"|[-a-zA-Z$._0-9]+)\s*=\s*type\b\s*(.*)', re.DOTALL)


def entity_names(statement: Statement, into: Names) -> None:
    """Adds what one entity defines or declares."""
    if statement.kind is not Kind.ENTITY:
        return
    text = statement.text
    if text.startswith("define"):
        define = _DEFINE.match(text)
        if define and not define[2].isdigit():
            name = decode_name(define[2])
            into.defines.add(name)
            if re.search(r"\b(?:private|internal)\b", define[1]):
                into.local.add(name)
    elif text.startswith("declare"):
        into.declares.update(decode_name(m) for m in _DECLARE.findall(text) if not m.isdigit())
    elif text.startswith("@"):
        for match in _VARIABLE.finditer(text):
            if match[1].isdigit():
                continue
            name, words = decode_name(match[1]), match[2].split()
            if "external" in words or "extern_weak" in words:
                into.declares.add(name)
            else:
                into.defines.add(name)
            if "private" in words or "internal" in words:
                into.local.add(name)


def mentioned(texts: Iterable[str]) -> frozenset[str]:
    """Every `@name` in the texts' code, not in their strings and comments."""
    found: set[str] = set()
    for text in texts:
        found.update(_MENTION.findall(text))
    found.discard("")
    return frozenset([decode_name(name) for name in found if not name.isdigit()])


def type_body(text: str) -> tuple[str, str] | None:
    """Name and body of `%name = type body`."""
    match = _TYPE.match(text)
    return (decode_name(match[1]), match[2].strip()) if match else None
