"""What is a macro where a cell stands, and what it gives in a declaration.  Start from `Macros`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from jitkernel.languages.c.tokens import Token, Unfinished, closing, divided, tokens
from jitkernel.languages.c.words import (
    BASIC_TYPES,
    QUALIFIERS,
    STORAGE,
    TAGS,
    TYPE_OPERATORS,
    WITH_ARGUMENTS,
)
from jitkernel.record import NamedTuple, record
from jitkernel.regex import regex

_DEEPEST = 200
_DEFINE = regex(r"#\s*define\s+([A-Za-z_]\w*)(\([^)]*\))?((?:.|\n)*)")
#: Source: clang.llvm.org/docs/UsersManual.html, "Microsoft extensions".
PUSHED = regex(r'#\s*pragma\s+(push|pop)_macro\s*\(\s*"(\w+)"\s*\)')
_UNDEFINE = regex(r"#\s*undef\s+([A-Za-z_]\w*)")


@record
class Macro:
    """A macro: its parameters, None where it has no parentheses, and its text."""

    parameters: tuple[str, ...] | None
    text: str


class Call(NamedTuple):
    """A macro that stands at a token, the index behind it and its arguments, by parameter."""

    macro: Macro
    behind: int
    arguments: Mapping[str, Sequence[Token]]


class Use(NamedTuple):
    """A macro that stands at a token: the index behind it, and whether it gives
    what a type is made of, or nothing but attributes, qualifiers and storage classes.  It gives
    neither where it is a part of an expression.  `names` are those that may be types."""

    behind: int
    type: bool
    attribute: bool
    names: Collection[str] = ()


class Macros:
    """The macros at a place; `before` gives the directive that defines one in front of the cell, ""
    for what is none, and `direct` follows those of the cell itself."""

    def __init__(self, before: Callable[[str], str] = lambda name: ""):
        self._before = before
        self._found: dict[str, Macro | None] = {}
        self._aside: dict[str, list[Macro | None]] = {}

    def get(self, name: str) -> Macro | None:
        """The macro that a name is defined as."""
        if name not in self._found:
            text = self._before(name)
            self._found[name] = _defined(text) if text else None
        return self._found[name]

    def direct(self, directive: str) -> str | None:
        """Follow a directive; the name that had been a macro and is another one now."""
        if match := _DEFINE.match(directive):
            before, self._found[match[1]] = self.get(match[1]), _defined(directive)
            return match[1] if before not in (None, self._found[match[1]]) else None
        if match := _UNDEFINE.match(directive):
            before, self._found[match[1]] = self.get(match[1]), None
            return match[1] if before is not None else None
        if match := PUSHED.match(directive):
            aside = self._aside.setdefault(match[2], [])
            if match[1] == "push":
                aside.append(self.get(match[2]))
            else:
                if aside:
                    self._found[match[2]] = aside.pop()
                return match[2]
        return None

    def call(self, found: Sequence[Token], at: int) -> Call | None:
        """The macro that is used at a token, None where none is."""
        named = at < len(found) and found[at].kind == "name"
        macro = self.get(found[at].text) if named else None
        if macro is None or macro.parameters is None:
            return None if macro is None else Call(macro, at + 1, {})
        if at + 1 >= len(found) or found[at + 1].text != "(":
            return None
        behind = closing(found, at + 1)
        given = divided(found[at + 2 : behind - 1])
        return Call(macro, behind, dict(zip(macro.parameters, given, strict=False)))

    def use(self, found: Sequence[Token], at: int) -> Use | None:
        """The use of a macro at a token, and what it gives; None where none is."""
        call = self.call(found, at)
        if call is None:
            return None
        names: set[str] = set()
        gives = _gives(tokens_of(call.macro.text), call.arguments, self.get, names, {})
        return Use(call.behind, gives == "type", not gives, names)


def _gives(
    found: Sequence[Token], arguments: Mapping[str, Sequence[Token]],
    get: Callable[[str], Macro | None], names: set[str], known: dict[str, str | None],
    depth: int = 0,
) -> str:  # fmt: skip
    """Classify a macro's text in a declaration: "type", "other", or "" for what makes none.

    `known` has what macros within it give, None for those that it is within: they are no macros
    there (C11 6.10.3.4).  Those within hundreds of others are no part of a declaration.
    """
    if depth > _DEEPEST:
        return "other"
    every = [*found, Token("end", "", 0, 0, 0, 0)]
    at, kind = 0, ""
    while at < len(found):
        word, given = found[at].text, ""
        inner = get(word) if found[at].kind == "name" and known.get(word, "") is not None else None
        behind = at + 1
        if every[behind].text == "(" and (word in WITH_ARGUMENTS or inner is not None):
            behind = closing(every, behind)
        if word == every[behind].text == "[":
            behind = closing(every, at)
        elif found[at].kind != "name":
            given = "" if word == "*" or found[at].kind == "directive" else "other"
        elif word in arguments:
            given = _gives(arguments[word], {}, get, names, known, depth + 1)
        elif inner is not None:
            if word not in known:
                known[word] = None
                text = tokens_of(inner.text)
                known[word] = _gives(text, {}, get, names, known, depth + 1)
            given = known[word] or ""
        elif word in BASIC_TYPES | TAGS | TYPE_OPERATORS:
            given = "type"
        elif word not in QUALIFIERS | STORAGE | WITH_ARGUMENTS:
            given = "type"
            names.add(word)
        if given == "other":
            return given
        kind = kind or given
        at = behind
    return kind


@lru_cache(maxsize=1 << 12)
def tokens_of(text: str) -> tuple[Token, ...]:
    """The tokens of a macro's text."""
    try:
        return tuple(tokens(f"0 {text}")[1:-1])  # no directive
    except Unfinished:
        return ()


def _defined(directive: str) -> Macro | None:
    """The macro that a directive defines."""
    match = _DEFINE.match(directive)
    if match is None:
        return None
    words = match[2] and match[2][1:-1].split(",")
    parameters = tuple(word.strip() for word in words) if words else None
    return Macro(parameters, " ".join(match[3].replace("\\\n", " ").split()))
