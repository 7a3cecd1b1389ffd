"""Characters that look like others, as word processors and web pages put them in: quotes, dashes,
blanks, and those that do not show at all.  Start from `advice`.
"""

from __future__ import annotations

DASHES = "‐‑‒–—−"
_PLAIN = {
    **dict.fromkeys("“”„«»″", '"'), **dict.fromkeys("‘’`´′", "'"), **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", "a blank"),
    "×": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!=", "；": ";", "，": ",", "：": ":",
    "（": "(", "）": ")", "＝": "=",
}  # fmt: skip
_UNSEEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"


def advice(text: str) -> str:
    """Advice on the first such character of a text; "" where there is none."""
    for character in text:
        code = f"U+{ord(character):04X}"
        if character in _UNSEEN:
            return f"take out {code}, which does not show, here and elsewhere"
        if plain := _PLAIN.get(character):
            shown = character if len(plain) < 3 else code
            return f"write {plain} instead of {shown}, here and elsewhere"
    return ""
