"""What the pointers among a function's parameters lead to, as arrays of numbers or of addresses.

Start from `pointee`.  C11 6.7.6.3: a parameter `double a[]` is a `double *`.
"""

from __future__ import annotations

from itertools import takewhile

from jitkernel.languages.c.declarations import ATTRIBUTES, Declarator, specifiers
from jitkernel.languages.c.notes import Notes
from jitkernel.languages.c.tokens import Token, closing, divided, tokens
from jitkernel.languages.c.words import BASIC_TYPES, QUALIFIERS
from jitkernel.languages.prototypes import pointer_to
from jitkernel.values.c import code_of
from jitkernel.values.datatype import DataType, number

__all__ = ["number_of", "parameters_of", "pointee"]

#: Nothing is said of characters: they may be any bytes.
_CHARACTERS = ("i1", "u1")
_CONST = ("const", "__const", "__const__")
_DEEPEST = 20  # typedefs of typedefs


def pointee(part: list[Token], known: Notes) -> DataType | None:
    """The type that the parameter `T *x` or `T x[n][m]` points to, whatever is const or restrict in
    it; None where that is no number and no pointer, or not known."""
    while part and part[0].text in ATTRIBUTES:
        part = part[closing(part, 1) :]
    if not part:
        return None
    end = specifiers([*part, *part[-1:]]).end
    rest = [t.text for t in part[end:] if t.text not in QUALIFIERS]
    stars = len(list(takewhile(lambda text: text == "*", rest)))
    behind = rest[stars:]
    if behind[:1] and behind[0] not in ("[", "("):
        behind = behind[1:]  # the name
    stars += behind[:1] == ["["]
    if not stars or "(" in behind:
        return None
    words = [t.text for t in part[:end] if t.text not in QUALIFIERS and t.text != "register"]
    constant = any(t.text in _CONST for t in part[:end])
    text = f"{'const ' * constant}{' '.join(words)} {'*' * stars}"
    if stars > 1:
        return pointer_to(DataType("pointer", size=8, bits=64), text)
    code = number_of([t.text for t in part[:end]], known)
    if not code or code in _CHARACTERS:
        return None
    return pointer_to(number(code), text, constant)


def parameters_of(found: list[Token], declared: Declarator) -> list[list[Token]]:
    """The tokens of each parameter of a function's declaration; none of `(void)`."""
    open_ = next(at for at in range(declared.name_at, len(found)) if found[at].text == "(")
    parts = [p for p in divided(found[open_ + 1 : closing(found, open_) - 1]) if p]
    return [] if [t.text for part in parts for t in part] == ["void"] else parts


def number_of(words: list[str], known: Notes) -> str:
    """numpy's code of a type of numbers; "" for any other."""
    for _ in range(_DEEPEST):
        kept = [w for w in words if w not in QUALIFIERS and w not in ("register", "extern")]
        note = known.identifier(kept[0]) if len(kept) == 1 and kept[0] not in BASIC_TYPES else None
        if note is None:
            return code_of(kept)
        words = _meaning(note.text, kept[0]) if note.kind == "typedef" else []
    return ""


def _meaning(text: str, name: str) -> list[str]:
    """The words of `typedef WORDS name;`; none where that has a pointer or another shape."""
    found = [t.text for t in tokens(text)[:-1]]
    if found[:1] == ["typedef"] and found[-2:] == [name, ";"]:
        words = found[1:-2]
        return words if all(word.isidentifier() for word in words) else []
    return []
