"""Names of symbols and types as IR text writes them.  Start from `quote_name` and `decode_name`."""

from __future__ import annotations

import re

from jitkernel.printable import quote_name

__all__ = ["decode_name", "quote_name"]


def decode_name(text: str) -> str:
    """The name behind its text as written in IR, quoted or not: `"a\\20b"` is `a b`."""
    if not text.startswith('"'):
        return text
    inner = text[1:-1] if text.endswith('"') and len(text) > 1 else text[1:]
    if "\\" not in inner:
        return inner
    data = re.sub(
        rb"\\([0-9a-fA-F]{2}|\\)",
        lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 16)]),
        inner.encode("utf-8", "surrogateescape"),
    )
    return data.decode("utf-8", "surrogateescape")
