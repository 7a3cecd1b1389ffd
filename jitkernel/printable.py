"""Text that a terminal, a page and a picture show as it is: names may hold any character.

A name can carry an escape sequence that clears the screen, a line's end that forges a line of
ours, a mark that turns the text around (U+202E), half a character that cannot be sent.  All that is
shown to a user passes through `printable`; names of symbols through `ir.names.written` first, which
writes them as IR does.  What a program prints is its own and passes as it is.
"""

from __future__ import annotations

import re

from jitkernel.regex import regex

#: Controls but tab and line feed, marks of direction and others that show nothing, lone halves of
#: characters, and what is no character.
_HIDDEN = regex(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """`text` with what does not show, or does more than show, written as Python writes it."""
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, limit: int = 80) -> str:
    """A type's text, its middle left out where it is long."""
    return text if len(text) <= limit else f"{text[: limit - 20]} ... {text[-14:]}"
