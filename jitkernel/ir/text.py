"""The parts of a line of IR: brackets, commas, comments, the type it begins with.

Start from `split_at_commas`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from jitkernel.ir.names import COMMENT, NAME, SKIP, SPACE

__all__ = [
    "after_space",
    "closing",
    "commas",
    "line_end",
    "opening",
    "split_at_commas",
    "squeeze",
    "type_at",
    "without_comments",
]

_SPACE = re.compile(SPACE)
_BRACKETS = re.compile(SKIP + r"|[(\[{<>}\])]")
_PIECES = re.compile(SKIP + r"|[(\[{<>}\]),]")
_LINES = re.compile(SKIP + r"|[(\[{<>}\])\n]")
_COMMENT = re.compile(rf'("[^"]*")|(?:{COMMENT})')
_VISIBLE = re.compile(r"[^\n]")
_PLAIN = re.compile(r"[^([{<\";/]*")  # neither brackets nor strings nor comments
_SPACES = re.compile(r'("[^"]*")|\s+')
_DEPTH = {**dict.fromkeys("([{<", 1), **dict.fromkeys(")]}>", -1)}
_PLAIN_TYPE = re.compile(
    r"ptr(?:\s+addrspace\(\s*\d+\s*\))?|%" + NAME + r"|(?:i\d+|[a-z]\w*)(?![\w(])|target\("
)


def after_space(text: str, start: int) -> int:
    """The offset behind the blanks, line ends and comments, perhaps none, that stand at `start`."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def closing(text: str, start: int) -> int:
    """The index just past the bracket that closes the one at `start`; -1 where none does."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        change = _DEPTH.get(match[0], 0)
        depth += change
        if change and not depth:
            return match.end()
    return -1


def opening(text: str) -> int:
    """The index of the bracket that the last one of `text` closes; 0 where there is none."""
    waiting: list[int] = []
    last = 0
    for match in _BRACKETS.finditer(text):
        change = _DEPTH.get(match[0], 0)
        if change > 0:
            waiting.append(match.start())
        elif change:
            last = waiting.pop() if waiting else 0
    return last


def line_end(text: str, start: int) -> int:
    """The end of the statement that `start` is in: a line's end or the comment before it, outside
    brackets, else the end of the text."""
    depth = 0
    for match in _LINES.finditer(text, start):
        depth += _DEPTH.get(match[0], 0)
        if depth <= 0 and match[0][0] in "\n;":
            return match.start()
    return len(text)


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


def type_at(text: str, start: int = 0) -> str:
    """The type that stands at an offset of a text, or that it begins with; "" if none."""
    if text[start : start + 1] in ("{", "[", "<"):
        end = closing(text, start)
    elif match := _PLAIN_TYPE.match(text, start):
        end = closing(text, match.end() - 1) if match[0] == "target(" else match.end()
    else:
        return ""
    return text[start:end] if end > 0 else ""


def squeeze(text: str) -> str:
    """`text` without blanks outside strings: two spellings of one type become equal."""
    if '"' in text:
        return _SPACES.sub(lambda match: match[1] or "", text)
    return "".join(text.split())


def without_comments(text: str, kept: str = "") -> str:
    """The same text with blanks for its comments; every offset and line stays.

    `kept` is what comments begin with that are to stay: `;` or `/`.
    """

    def blank(match: re.Match[str]) -> str:
        stays = match[1] or (kept and match[0].startswith(kept))
        return match[0] if stays else _VISIBLE.sub(" ", match[0])

    return _COMMENT.sub(blank, text) if ";" in text or "/*" in text else text
