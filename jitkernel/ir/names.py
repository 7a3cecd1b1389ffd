"""Names of symbols, types, values and labels as IR text writes them.

Start from `quote_name` and `decode_name`.  Source: LangRef, "Identifiers"; LLLexer.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jitkernel.regex import regex

#: A pattern for a name behind its `@`, `%`, `$` or `!`, quoted or not.
NAME = r'(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
# Possessive quantifiers do not match as they should before Python 3.11.5.  What follows is written
# such that there is one way to match it: to try others costs no more than the first did.
#: A pattern for a comment: up to its line's end, or `/* */` as LLVM's lexer reads it, which takes
#: what follows a star with it unless that is the slash.
_BRACKETED = r"/\*[^*]*(?:\*[^/][^*]*)*\*/"
COMMENT = r";[^\n]*(?![^\n])|" + _BRACKETED
#: A pattern for what is to be read over: strings and comments.
SKIP = r'"[^"]*"|' + COMMENT
#: A pattern for what may stand between two words, or nothing: blanks, line ends, comments.
SPACE = rf"[ \t\r\n]*(?:(?:{COMMENT})[ \t\r\n]*)*"
#: The same on one line, as far as blanks go.
INLINE_SPACE = rf"[ \t]*(?:{_BRACKETED}[ \t]*)*"

#: What the name of a thread-local variable's control block begins with, by which each thread finds
#: its copy (libgcc, emutls.c; LLVM, LowerEmuTLS.cpp).
CONTROL = "__emutls_v."
#: The runtime's function that hands a call of a function of Python's to Python.
ASK = "jk_ask"
#: What the names of a section's bounds begin with: each object's own sections are meant (GNU ld,
#: Input Section Example).
BOUNDS = ("__start_", "__stop_")

_PLAIN = regex(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*\Z")
_IN_QUOTES = regex(r"[ !#-\[\]-~]+")
_ESCAPE = regex(r"\\([0-9a-fA-F]{2}|.)?", re.DOTALL)
_C_ESCAPES = dict(zip("ntrabfve0\\'\"", b"\n\t\r\a\b\f\v\x1b\0\\'\"", strict=True))
_LABELS = regex(rf"(?m)^\s*({NAME}):")
_SIGNS = {sign: re.escape(sign) for sign in "@%$#!"}
_MENTIONS = {sign: regex(f"{SKIP}|{plain}({NAME})") for sign, plain in _SIGNS.items()}
# The search skips to a sign, or to a comment, as it cannot where both are looked for.
_UNQUOTED = {sign: regex(rf"{plain}([-a-zA-Z$._0-9]+)") for sign, plain in _SIGNS.items()}
_COMMENTED = {sign: regex(rf";[^\n{plain}]*{plain}") for sign, plain in _SIGNS.items()}


def can_be_held(name: str) -> bool:
    """True if an object can say that it has the body of a symbol of this name in its code: the
    assembler reads it between quotes."""
    return _IN_QUOTES.fullmatch(name) is not None


def quote_name(name: str) -> str:
    """A name as IR text writes it after its `@` or `%`: quoted where it must be."""
    if _PLAIN.match(name):
        return name
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, which no compiler wrote
        data = name.encode("utf-8", "surrogatepass")
    return f'"{escaped(data)}"'


def escaped(data: bytes) -> str:
    """Bytes as they stand between the quotes of a name or of `c"..."`."""
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)


def decode_name(text: str) -> str:
    """The name behind its text as written in IR, quoted or not: `"a\\20b"` is `a b`.

    Bytes that are no UTF-8 become lone surrogates, as Python has them in names of files.
    """
    if not text.startswith('"'):
        return text
    inner = text[1:-1] if text.endswith('"') and len(text) > 1 else text[1:]
    if "\\" not in inner:
        return inner
    try:
        return unescape(inner).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character: no escape of a compiler's stands beside it
        return inner


def unescape(text: str, c_like: bool = False) -> bytes:
    """The bytes of a string's inside.  `\\0A` is IR's escape, everywhere; in `"..."` (`c_like`)
    the escapes of C are read too, as in `"%d\\n"`.  Raises ValueError for others."""
    if "\\" not in text:
        return text.encode("utf-8", "surrogateescape")

    def byte(match: re.Match[str]) -> str:
        escape = match[1] or ""
        if len(escape) == 2:
            return chr(0xDC00 + int(escape, 16)) if int(escape, 16) > 127 else chr(int(escape, 16))
        if escape == "\\":
            return "\\"
        if c_like:
            if escape not in _C_ESCAPES:
                raise ValueError(f"\\{escape}")
            return chr(_C_ESCAPES[escape])
        return match[0]  # LLVM keeps the backslash too

    return _ESCAPE.sub(byte, text).encode("utf-8", "surrogateescape")


def unnumbered(name: str) -> str:
    """A name without the number by which LLVM tells it from others: `pt` of `pt.0`."""
    stem, _, number = name.rpartition(".")
    return stem if stem and number.isdecimal() else name


def symbol_name(text: str) -> str:
    """The symbol that the name of a global stands for: `"\\01f"` is `f`.  LLVM leaves such
    a name as it is, without what the system puts in front of others (LangRef, "Identifiers")."""
    return decode_name(text).removeprefix("\x01") if text[:1] == '"' else text


def written(name: str) -> str:
    """A symbol as IR text writes it: `@sq`, `@"a b"`."""
    return "@" + quote_name(name)


def shown(name: str) -> str:
    """A symbol as the user knows it: a thread-local variable is known by its control block."""
    return written(name.removeprefix(CONTROL))


def bare(text: str) -> str:
    """The name in `@sq`, `sq`, `@"a b"`."""
    return symbol_name(text.removeprefix("@"))


def mentions(text: str, sign: str) -> frozenset[str]:
    """Every name behind a sign (`@`, `%`, `$`, `#`, `!`) in a text's code, as it is written there;
    none in its strings and comments."""
    if sign not in text:
        return frozenset()
    if '"' not in text and "/*" not in text and not _COMMENTED[sign].search(text):
        return frozenset(_UNQUOTED[sign].findall(text))
    return frozenset(_MENTIONS[sign].findall(text)) - {""}


def renamed(text: str, sign: str, names: Mapping[str, str], new_sign: str | None = None) -> str:
    """`text` with other names behind a sign in its code, all as they are written; behind
    `new_sign` instead, where that is given."""

    def name(match: re.Match[str]) -> str:
        new = names.get(match[1])
        if new is None:
            return match[0]
        return (sign if new_sign is None else new_sign) + new

    return _MENTIONS[sign].sub(name, text)


def symbols_in(text: str) -> frozenset[str]:
    """Every `@name` in a text's code.  Globals without a name (`@0`) are their module's own and no
    symbols."""
    return frozenset(
        [symbol_name(n) if n[0] == '"' else n for n in mentions(text, "@") if not n.isdigit()]
    )


def verbatim_in(text: str) -> dict[str, str]:
    """The symbols whose names a text writes as `@"\\01f"`, and how each is written."""
    if '"\\01' not in text:
        return {}
    return {symbol_name(n): f"@{n}" for n in mentions(text, "@") if n.startswith('"\\01')}


def labels_in(text: str) -> frozenset[str]:
    """The labels of the blocks in a text."""
    return frozenset(map(decode_name, _LABELS.findall(text)))


def locals_in(text: str) -> frozenset[str]:
    """Every `%name` in a text's code: named types and values, which look the same."""
    return frozenset(map(decode_name, mentions(text, "%")))
