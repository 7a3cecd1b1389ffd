"""What the text of a type points at: of that only the name must be declared before it.

C11 6.2.5 and 6.7.2.3, incomplete types.  Start from `pointers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from jitkernel.languages.c.tokens import Token, Unfinished, closing, tokens
from jitkernel.languages.c.words import BASIC_TYPES, QUALIFIERS, STORAGE, TAGS, WITH_ARGUMENTS
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

_KNOWN_WORDS = BASIC_TYPES | QUALIFIERS | STORAGE | TAGS
_BODY = regex(r"\s*typedef\s+(struct|union)\s+(\w+)\s*\{.*\}\s*(\w+)\s*;\s*", re.DOTALL)


class Pointers(NamedTuple):
    """Names that pointers lead to, and the names in that declaration: its members among them."""

    to: frozenset[str]
    members: frozenset[str]


class Forward(NamedTuple):
    """A declaration of a type's name alone, and the two names that it gives."""

    text: str
    tag: str
    name: str


def forward(text: str) -> Forward | None:
    """`typedef struct tag name;` for a typedef that has the struct's body; None of others."""
    found = _BODY.fullmatch(text)
    if found is None:
        return None
    return Forward(f"typedef {found[1]} {found[2]} {found[3]};", found[2], found[3])


@lru_cache(maxsize=1 << 12)
def pointers(text: str) -> tuple[Pointers, ...]:
    """The names that the members of a struct point at, or that a typedef does; what anything else
    in the text needs as well is in none of them."""
    try:
        found = list(_declarations(tokens(text)))
    except Unfinished:
        return ()
    every = [_of(part) for part in found]
    plain: set[str] = set()
    for part, one in zip(found, every, strict=True):
        plain |= {t.text for t in part if t.kind == "name"} - (one.to if one else frozenset())
    return tuple(one._replace(to=one.to - plain) for one in every if one is not None)


def _declarations(found: list[Token]) -> Iterator[list[Token]]:
    """The members' declarations, what stands before and behind a body, each without its `;`."""
    part: list[Token] = []
    for token in found:
        if token.kind == "end" or (token.kind == "operator" and token.text in (";", "{", "}")):
            yield part
            part = []
        else:
            part.append(token)


def _of(part: list[Token]) -> Pointers | None:
    """The names that a declaration of pointers alone leads to; None of any other."""
    texts = [token.text for token in part]
    if not part or any(t == "enum" or t in WITH_ARGUMENTS or t in ("=", ":") for t in texts):
        return None
    names: set[str] = set()
    at, star = 0, False
    while at < len(part):
        token = part[at]
        if token.text == "[":
            at = closing(part, at)  # its words are needed
            continue
        if token.text == "(":
            inner = part[at : closing(part, at)]
            star |= any(t.text == "*" for t in inner)
            if any(t.text in ("[", "sizeof") for t in inner):
                return None
            names |= {t.text for t in inner if t.kind == "name"}
            at += len(inner)
            continue
        if token.text == ",":
            if not star:
                return None
            star = False
        star |= token.text == "*"
        if token.kind == "name":
            names.add(token.text)
        at += 1
    if not star:
        return None
    said = frozenset(names - _KNOWN_WORDS)
    return Pointers(said, said)
