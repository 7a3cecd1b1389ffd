"""How a symbol's name is written in IR: `@sq`, `@"a b"`.  Start from `written` and `bare`."""

from __future__ import annotations

import re

from jitkernel.printable import written

__all__ = ["bare", "written"]


def bare(text: str) -> str:
    """The name in `@sq`, `sq`, `@"a b"`."""
    text = text.removeprefix("@")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        raw = re.sub(
            rb"\\([0-9A-Fa-f]{2})",
            lambda match: bytes([int(match[1], 16)]),
            text[1:-1].encode(),
        )
        return raw.decode("utf-8", "replace")
    return text
