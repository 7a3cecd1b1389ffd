"""What a declaration declares: its specifiers and its declarators.  C11 6.7.

Start from `specifiers` and `declarators`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from jitkernel.languages.c.macros import Macros, Use
from jitkernel.languages.c.tokens import Token, after, closing, divided
from jitkernel.languages.c.words import (
    ASSEMBLY,
    ASSERTIONS,
    BASIC_TYPES,
    QUALIFIERS,
    STORAGE,
    TAGS,
    THREAD_LOCAL,
    TYPE_OPERATORS,
    WITH_ARGUMENTS,
)
from jitkernel.record import record

ATTRIBUTES = WITH_ARGUMENTS - TYPE_OPERATORS - ASSEMBLY
_NO_MACROS = Macros()
_UNTYPED = STORAGE | QUALIFIERS
#: What the pieces of a notebook do without: everything can be seen by later cells.
_LOCAL = frozenset(("static", "inline", "__inline", "__inline__", "register"))
_GNU_INLINE = ("gnu_inline", "__gnu_inline__")


@record
class Tag:
    """`struct`, `union` or `enum`, its name ("" without), and the indices of its body's brackets:
    the first, and behind the last (-1 for both without a body)."""

    word: str
    name: str
    brace: int = -1
    behind: int = -1


@record(frozen=False)
class Specifiers:
    """The specifiers before the declarators: `end` is the index behind them, `attributes` that
    behind the attributes in brackets that they begin with.

    `local` are indices of `static` and `inline`, or of `static` and `extern` where GNU's rules hold
    for `inline` (`gnu_inline`), by which `extern` would define nothing; `deduced` is that of the
    `auto` (or `__auto_type`) that stands for a type, -1 without.  A `constant` (`constexpr`) is no
    variable of the program's: each cell that names it has its own.  C23 6.7.2.
    """

    end: int = 0
    attributes: int = 0
    typedef: bool = False
    extern: bool = False
    thread: bool = False
    constant: bool = False
    tag: Tag | None = None
    local: tuple[int, ...] = ()
    gnu_inline: bool = False
    deduced: int = -1

    def store(self, word: str, at: int) -> None:
        """Add what is no type: a storage class, a function specifier or a qualifier."""
        self.typedef |= word == "typedef"
        self.extern |= word == "extern"
        self.thread |= word in THREAD_LOCAL
        self.constant |= word == "constexpr"
        self.deduced = at if word == "auto" else self.deduced
        if word in _LOCAL:
            self.local = (*self.local, at)

    def follow_gnu(self, tokens: Sequence[Token]) -> None:
        """Have `local` by GNU's rules where the specifiers, which are these, ask for them."""
        self.gnu_inline = any(token.text in _GNU_INLINE for token in tokens)
        if self.gnu_inline:
            words = ("static", "extern")
            self.local = tuple(at for at, token in enumerate(tokens) if token.text in words)


@record
class Declarator:
    """One declared name, by indices of the piece's tokens.

    It stands from `first` to `last`, its name at `name_at`; `init` is the index of `=` (-1
    without), and the initialiser ends before `end`.
    """

    name: str
    first: int
    last: int
    init: int
    end: int
    name_at: int
    function: bool
    typedef: bool


def specifiers(tokens: list[Token], macros: Macros = _NO_MACROS) -> Specifiers:
    """The specifiers that a declaration begins with."""
    found, typed, at = Specifiers(), False, 0

    def text(index: int) -> str:
        return tokens[index].text if index < len(tokens) else ""

    while at < len(tokens):
        word, begin = tokens[at].text, at
        if word == "[" and text(at + 1) == "[":
            at = closing(tokens, at)
            found.attributes = at if found.attributes == begin else found.attributes
            continue
        if tokens[at].kind != "name":
            break
        if word in _UNTYPED:
            found.store(word, at)
            at += 1
        elif word in TAGS:
            typed = True
            found.tag = _tag(tokens, at)
            at = found.tag.behind if found.tag.behind >= 0 else _behind_tag_name(tokens, at)
        elif word in WITH_ARGUMENTS:
            typed |= word in TYPE_OPERATORS and text(at + 1) == "("
            at = closing(tokens, at + 1) if text(at + 1) == "(" else at + 1
        elif word in BASIC_TYPES:
            typed = True
            if word == "__auto_type":
                found.deduced = at
            at += 1
        elif (use := macros.use(tokens, at)) and not (typed and use.names):
            typed |= use.type
            at = use.behind
        elif typed or (found.deduced >= 0 and text(at + 1) == "="):
            break
        elif behind := _behind_attribute(tokens, at):
            at = behind
        elif _is_implied(tokens, at):
            break
        else:  # a typedef's name
            typed = True
            at += 1
    if typed and found.deduced >= 0 and tokens[found.deduced].text == "auto":
        found.deduced = -1  # it says where a variable is, as `static` does
    found.end = at
    found.follow_gnu(tokens[:at])
    return found


def _is_implied(tokens: list[Token], at: int) -> bool:
    """True if a function's type is left out, as in `main() {`; not in `num (f)(void) {`."""
    if tokens[-1].text != "}" or [t.text for t in tokens[at + 1 : at + 2]] != ["("]:
        return False
    behind = closing(tokens, at + 1)
    return [t.text for t in tokens[behind : behind + 1]] != ["("]


def _behind_attribute(tokens: list[Token], at: int) -> int:
    """The index behind a macro's call that stands in front of a type, 0 where none does; `f(a) int
    a; {` is a function of the old style."""
    if at + 1 >= len(tokens) or tokens[at + 1].text != "(":
        return 0
    behind = closing(tokens, at + 1)
    if behind >= len(tokens) or tokens[behind].kind != "name":
        return 0
    if tokens[-1].text == "}":
        ends = next((t.text for t in tokens[behind:] if t.text in (";", "{")), "{")
        return behind if ends == "{" else 0
    return behind


def _behind_tag_name(tokens: list[Token], at: int) -> int:
    at += 1
    while at < len(tokens) and tokens[at].text in ATTRIBUTES:
        at = closing(tokens, at + 1)
    return at + 1 if at < len(tokens) and tokens[at].kind == "name" else at


def _tag(tokens: list[Token], at: int) -> Tag:
    word, behind = tokens[at].text, _behind_tag_name(tokens, at)
    before = tokens[behind - 1]
    name = before.text if before.kind == "name" and before is not tokens[at] else ""
    if behind < len(tokens) and tokens[behind].text == ":":  # an enum's type
        while behind < len(tokens) and tokens[behind].text not in ("{", ";"):
            behind += 1
    if behind < len(tokens) and tokens[behind].text == "{":
        return Tag(word, name, behind, closing(tokens, behind))
    return Tag(word, name)


def tags(tokens: list[Token]) -> list[Tag]:
    """All struct, union and enum types that are defined in a declaration, nested ones too."""
    found = [_tag(tokens, at) for at, t in enumerate(tokens) if t.kind == "name" and t.text in TAGS]
    return [tag for tag in found if tag.brace >= 0]


def enumerators(tokens: list[Token], tag: Tag) -> list[str]:
    """The constants of an enum that is defined in a declaration."""
    parts = divided(tokens[tag.brace + 1 : tag.behind - 1])
    names = (next((t.text for t in part if t.kind == "name"), "") for part in parts)
    return [name for name in names if name]


def declarators(
    tokens: list[Token], body: int = -1, macros: Macros = _NO_MACROS
) -> list[Declarator]:
    """The declarators of a declaration or a function's definition, from left to right.

    `body` is the index of the token that opens a function's body, -1 where there is none.
    """
    if tokens[0].text in ASSERTIONS | ASSEMBLY:
        return []
    leading = specifiers(tokens, macros)
    stop = body if body >= 0 else len(tokens)
    found: list[Declarator] = []
    at = leading.end
    while at < stop and tokens[at].text != ";":
        one = _declarator(tokens, at, stop, body >= 0, leading.typedef, macros)
        if one.name:
            found.append(one)
        at = one.end + 1
    return found


def parameters(found: Sequence[Token], function: Declarator) -> list[list[Token]]:
    """The tokens of each of a function's parameters."""
    at = next(i for i in range(function.name_at, len(found)) if found[i].text == "(")
    return [part for part in divided(found[at + 1 : closing(found, at) - 1]) if part]


def parameter_names(head: list[Token]) -> frozenset[str]:
    """The names of a function's parameters, apart from those that stand in its head for something
    else, too: `pt pt`.  Empty for the old style, whose types stand behind."""
    one = next((d for d in declarators(head) if d.function), None) if head else None
    parts = parameters(head, one) if one is not None else []
    every = [token.text for token in head]
    found = (d for part in parts for d in declarators(part)[:1])
    return frozenset(d.name for d in found if every.count(d.name) == 1)


def unsized(found: Sequence[Token]) -> Token | None:
    """The `]` of `[]`, where a declaration leaves the size of an array to its initialiser."""
    return next((b for a, b in pairwise(found) if (a.text, b.text) == ("[", "]")), None)


def hiding(
    tokens: list[Token], body: int, name_at: int, types: Set[str], own: str
) -> list[tuple[int, int, str]]:
    """Edits by which the parameters of an old-style function may have the names of types: clang
    takes none in the list of their names, so they begin with `own` there, and the body declares
    variables that hide the types.  From, to, and what stands there, by offsets of the source."""
    at = name_at + 1
    while tokens[at].text == ")":
        at += 1
    behind = closing(tokens, at)
    listed = {t.text: t for t in tokens[at:behind] if t.kind == "name" and t.text in types}
    while listed and tokens[behind].text in ("(", ")", "["):  # of what the function gives
        behind = after(tokens, behind)
    found: list[tuple[int, int, str]] = []
    while listed and behind < body:
        stop = next(i for i in range(behind, body) if tokens[i].text == ";") + 1
        for one in declarators(tokens[behind:stop]):
            if one.name in listed:
                places = listed[one.name], tokens[behind + one.name_at]
                found += [(token.start, token.start, own) for token in places]
                value = f" __typeof__({own}{one.name}) {one.name} = {own}{one.name};"
                found.append((tokens[body].stop, tokens[body].stop, value))
        behind = stop
    return found


def _declarator(
    tokens: list[Token], first: int, stop: int, has_body: bool, typedef: bool,
    macros: Macros,
) -> Declarator:  # fmt: skip
    name_at, function = _name(tokens, first, stop, macros)
    init, at = -1, first
    while at < stop:
        token = tokens[at]
        if token.kind == "operator":
            if token.text in ("(", "[", "{"):
                at = closing(tokens, at)
                # Behind `)` a name: the parameters of an old-style function.
                old = has_body and function and at < stop and at > name_at >= 0
                if old and tokens[at].kind == "name" and tokens[at].text not in WITH_ARGUMENTS:
                    at = stop
                continue
            if token.text == "=" and init < 0:
                init = at
            if token.text in (",", ";"):
                break
        at += 1
    last = init if init >= 0 else at
    name = tokens[name_at].text if name_at >= 0 else ""
    return Declarator(name, first, last, init, at, name_at, function, typedef)


def _stands_before(use: Use, behind: list[Token]) -> bool:
    """True if a macro in a declarator stands before the name, and is not the name."""
    first = behind[0] if behind else None
    return use.attribute or (first is not None and (first.kind == "name" or first.text == "*"))


def _name(tokens: list[Token], at: int, stop: int, macros: Macros) -> tuple[int, bool]:
    """The index of the declared name, -1 without one, and whether it is a function's."""
    groups: list[bool] = []  # of open parentheses: whether a pointer is in it
    while at < stop:
        token = tokens[at]
        if token.text in ("*", "^") or token.text in QUALIFIERS or token.text == "_Atomic":
            if groups and token.text in ("*", "^"):
                groups[-1] = True
        elif token.text in ATTRIBUTES:
            at = closing(tokens, at + 1)
            continue
        elif token.text == "(":
            groups.append(False)
        elif token.kind != "name":
            return -1, False
        elif (use := macros.use(tokens, at)) and _stands_before(use, tokens[use.behind : stop]):
            at = use.behind
            continue
        else:
            break
        at += 1
    if at >= stop:
        return -1, False
    behind_name = at + 1
    while groups and behind_name < stop and tokens[behind_name].text == ")" and not groups[-1]:
        groups.pop()
        behind_name += 1
    return at, behind_name < stop and tokens[behind_name].text == "("
