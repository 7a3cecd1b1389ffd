"""How a symbol's name is written in IR: `@sq`, `@"a b"`.  Start from `written` and `bare`."""

from __future__ import annotations

import re

__all__ = ["bare", "written"]

_PLAIN = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*\Z")


def written(name: str) -> str:
    """`name` with its `@`, quoted where IR wants it (LangRef, "Identifiers")."""
    if _PLAIN.match(name):
        return "@" + name
    escaped = "".join(
        c if " " <= c <= "~" and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode())
        for c in name
    )
    return f'@"{escaped}"'


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
