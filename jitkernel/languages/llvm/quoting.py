"""Names of symbols and types as IR text writes them.  Start from `quote_name` and `decode_name`."""

from __future__ import annotations

import re

__all__ = ["decode_name", "quote_name"]

_PLAIN = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*\Z")


def quote_name(name: str) -> str:
    """A symbol's name as IR text writes it after its `@` or `%`: quoted where it must be."""
    if _PLAIN.match(name):
        return name
    data = name.encode("utf-8", "surrogateescape")
    return (
        '"'
        + "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
        + '"'
    )


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
