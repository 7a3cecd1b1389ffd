"""The parts of a line of IR: brackets, commas, comments, the type it begins with.

Start from `split_at_commas`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from jitkernel.ir.keywords import FLOAT_TYPES
from jitkernel.ir.names import COMMENT, NAME, SKIP, SPACE
from jitkernel.regex import regex

_SPACE = regex(SPACE)
_SPACE_BEGINS = frozenset(" \t\r\n;/")
_BRACKETS = regex(SKIP + r"|[(\[{<>}\])]")
_PIECES = regex(SKIP + r"|[(\[{<>}\]),]")
_LINES = regex(SKIP + r"|[(\[{<>}\])\n]")
# A line without strings, comments and brackets within brackets.
_RUN = r'[^\n"()\[\]{}<>;/]*'
_WHOLE_LINE = regex(rf"{_RUN}(?:[(\[{{<]{_RUN}[)\]}}>]{_RUN})*(?=\n|\Z)")
_COMMENT = regex(rf'("[^"]*")|(?:{COMMENT})')
_SKIPPED = regex(SKIP)
_VISIBLE = regex(r"[^\n]")
_PLAIN = regex(r"[^([{<\";/]*")  # neither brackets nor strings nor comments
_SPACES = regex(r'("[^"]*")|\s+')
#: A pattern for the word that a type begins with, and that of a scalar one.
SCALAR = rf"i\d+|ptr|{'|'.join(FLOAT_TYPES)}"
TYPE_WORD = rf"{SCALAR}|void|ppc_fp128|x86_amx|label|metadata|token|target"
# Words between an opcode and its first type: flags, conventions, attributes.
_FLAG = regex(
    rf"\s*(?!(?:{TYPE_WORD}|asm)\b)(?:(?:cc|align|alignstack)\s+\d+\b|[a-z_][a-z_0-9]*"
    r"|\"[^\"]*\"(?:=\"[^\"]*\")?|#\d+)"
)
_INTEGER = regex(r"i\d{1,8}")
_DEPTH = {**dict.fromkeys("([{<", 1), **dict.fromkeys(")]}>", -1)}
_PLAIN_TYPE = regex(
    r"ptr(?:\s+addrspace\(\s*\d+\s*\))?|%" + NAME + r"|(?:i\d+|[a-z]\w*)(?![\w(])|target\("
)


class Cursor:
    """A place in a text that is read from left to right, over blanks and comments, up to `stop`."""

    def __init__(self, text: str, at: int = 0, stop: int | None = None):
        self.text, self.at, self.stop = text, at, len(text) if stop is None else stop
        self.depth = 0  # of what is nested, for readers that have a limit

    def peek(self) -> str:
        """The first character of what comes next; "" at the end."""
        if self.text[self.at : self.at + 1] in _SPACE_BEGINS:
            self.at = min(after_space(self.text, self.at), self.stop)
        return self.text[self.at] if self.at < self.stop else ""

    def take(self, token: str) -> bool:
        """Go over a token; False where it does not come next."""
        found = self.text.startswith(token, self.at, self.stop)
        if not found and self.text[self.at : self.at + 1] in _SPACE_BEGINS:
            self.peek()
            found = self.text.startswith(token, self.at, self.stop)
        if found:
            self.at += len(token)
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go over what a pattern matches just here."""
        if found := pattern.match(self.text, self.at, self.stop):
            self.at = found.end()
        return found

    def token(self, pattern: re.Pattern[str]) -> str:
        """Go over what a pattern matches that comes next, and return it; "" where it does not."""
        self.peek()
        found = self.match(pattern)
        return found[0] if found else ""


def after_space(text: str, start: int) -> int:
    """The offset behind the blanks, line ends and comments, perhaps none, that stand at `start`."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def after_flags(text: str, at: int) -> int:
    """`at`, moved behind words that are no type: `nuw`, `fastcc`, `align 4`, `range(...)`."""
    while match := _FLAG.match(text, at):
        at = match.end()
        if text[at : at + 1] == "(":
            end = closing(text, at)
            at = end if end >= 0 else len(text)
    return at


def flag_words(text: str) -> list[str]:
    """The words that a text begins with and that are no type, each with its brackets."""
    found, at = list[str](), 0
    while match := _FLAG.match(text, at):
        end = match.end()
        if text[end : end + 1] == "(":
            end = closing(text, end) if closing(text, end) >= 0 else len(text)
        found.append(text[at:end].strip())
        at = end
    return found


def closing(text: str, start: int) -> int:
    """The index just past the bracket that closes the one at `start`; -1 where none does."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        change = _DEPTH.get(match[0], 0)
        depth += change
        if change and not depth:
            return match.end()
    return -1


def line_end(text: str, start: int) -> int:
    """The end of the statement that `start` is in: a line's end or the comment before it, outside
    brackets, else the end of the text."""
    if match := _WHOLE_LINE.match(text, start):
        return match.end()
    depth = 0
    for match in _LINES.finditer(text, start):
        depth += _DEPTH.get(match[0], 0)
        if depth <= 0 and match[0][0] in "\n;":
            return match.start()
    return len(text)


def replaced(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """`text` with others in the place of some of its parts: `start`, `stop` and the other, in
    order."""
    pieces, done = [], 0
    for start, stop, other in edits:
        pieces += [text[done:start], other]
        done = stop
    return "".join([*pieces, text[done:]])


def split_at_commas(text: str) -> list[str]:
    """The parts between commas that stand outside brackets, strings and comments, stripped."""
    if not text or text.isspace():
        return []
    if _PLAIN.fullmatch(text):
        return [part.strip() for part in text.split(",")]
    cuts = [-1, *commas(text, 0), len(text)]
    return [text[a + 1 : b].strip() for a, b in itertools.pairwise(cuts)]


def commas(text: str, start: int) -> Iterator[int]:
    """The offsets of the commas from `start` on that stand outside brackets, strings, comments."""
    depth = 0
    for match in _PIECES.finditer(text, start):
        depth += _DEPTH.get(match[0], 0)
        if depth == 0 and match[0] == ",":
            yield match.start()


def integer_bits(text: str) -> int:
    """The width of an integer type as it is written, `i32`; 0 of what is none."""
    return int(text[1:]) if _INTEGER.fullmatch(text) else 0


def type_at(text: str, start: int = 0) -> str:
    """The type that stands at an offset of a text, or that it begins with; "" if none."""
    if text[start : start + 1] in ("{", "[", "<"):
        end = closing(text, start)
    elif match := _PLAIN_TYPE.match(text, start):
        end = closing(text, match.end() - 1) if match[0] == "target(" else match.end()
    else:
        return ""
    return text[start:end] if end > 0 else ""


def has_word(text: str, *words: str) -> bool:
    """True if one of some words stands in a text."""
    return re.search(rf"\b(?:{'|'.join(words)})\b", text) is not None


def squeeze(text: str) -> str:
    """`text` without blanks outside strings: two spellings of one type become equal."""
    if '"' in text:
        return _SPACES.sub(lambda match: match[1] or "", text)
    return "".join(text.split())


def without_strings(text: str) -> str:
    """The text without its strings and comments."""
    return _SKIPPED.sub("", text)


def without_comments(text: str, kept: str = "") -> str:
    """The same text with blanks for its comments; every offset and line stays.

    `kept` is what comments begin with that are to stay: `;` or `/`.
    """

    def blank(match: re.Match[str]) -> str:
        stays = match[1] or (kept and match[0].startswith(kept))
        return match[0] if stays else _VISIBLE.sub(" ", match[0])

    return _COMMENT.sub(blank, text) if ";" in text or "/*" in text else text
