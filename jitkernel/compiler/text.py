"""Reading LLVM IR as text, just enough to find the parts of a line.  Start from `split_at_commas`.

Not a parser: LLVM has accepted the text, or will say what is wrong with it.
"""

from __future__ import annotations

import re

__all__ = ["NAME", "closing", "leading_type", "plain_name", "split_at_commas", "squeeze", "type_at"]

NAME = r'(?:"[^"\n]*"|[-\w$.]+)'

_BRACKETS = re.compile(r'"[^"]*"|;[^\n]*|[(\[{<>}\])]')
_PIECES = re.compile(r'"[^"]*"|;[^\n]*|[(\[{<>}\]),]')
_SPACES = re.compile(r'("[^"]*")|\s+')
_OPENING = "([{<"
_PLAIN_TYPE = re.compile(
    r"ptr(?:\s+addrspace\(\s*\d+\s*\))?|%" + NAME + r"|(?:i\d+|[a-z]\w*)(?![\w(])|target\("
)
_ESCAPE = re.compile(rb"\\([0-9a-fA-F]{2})")


def closing(text: str, start: int) -> int:
    """The index just past the bracket that closes the one at `start`; -1 where none does."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        token = match[0]
        if token in _OPENING:
            depth += 1
        elif token[0] not in '";':
            depth -= 1
            if depth == 0:
                return match.end()
    return -1


def split_at_commas(text: str) -> list[str]:
    """The parts between commas that stand outside brackets, strings and comments, stripped."""
    if not text or text.isspace():
        return []
    if "(" not in text and '"' not in text and "{" not in text and ";" not in text:
        if "[" not in text and "<" not in text:
            return [part.strip() for part in text.split(",")]
    parts, depth, begin = [], 0, 0
    for match in _PIECES.finditer(text):
        token = match[0]
        if token == ",":
            if depth == 0:
                parts.append(text[begin : match.start()].strip())
                begin = match.end()
        elif token in _OPENING:
            depth += 1
        elif token[0] not in '";':
            depth -= 1
    parts.append(text[begin:].strip())
    return parts


def leading_type(text: str) -> str:
    """The type that `text` (an argument: type, attributes, value) begins with; "" if none."""
    return type_at(text, 0)


def type_at(text: str, start: int) -> str:
    """The type that stands at an offset of a text; "" if none."""
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


def plain_name(name: str) -> str:
    """A name as it is spelled in IR, without quotes and escapes."""
    if not name.startswith('"'):
        return name
    inner = name[1:-1]
    if "\\" not in inner:
        return inner
    raw = inner.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), raw).decode("utf-8", "surrogateescape")
