"""Integers and strings as IR and as people write them.  Start from `integer` and `unescape`."""

from __future__ import annotations

import re

__all__ = ["integer", "unescape"]

_MOST_DIGITS = 4000  # Python itself refuses to read more than 4300

_C_ESCAPES = {
    "n": 10,
    "t": 9,
    "r": 13,
    "a": 7,
    "b": 8,
    "f": 12,
    "v": 11,
    "e": 27,
    "0": 0,
    "\\": 92,
    "'": 39,
    '"': 34,
}
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{2}|.)?", re.DOTALL)


def integer(text: str, bits: int) -> int:
    """The number that `text` spells: decimal, `0x`, `0b`, LLVM's `u0x` and `s0x`, with `_` between
    digits.  `bits` is the width that `s0x` takes its sign from.  Raises ValueError."""
    plain = text.replace("_", "")
    sign, digits = (-1, plain[1:]) if plain[:1] == "-" else (1, plain.removeprefix("+"))
    try:
        if digits[:3] in ("u0x", "s0x"):
            value = int(digits[3:], 16)
            if digits[0] == "s" and value >> bits - 1:
                value -= 1 << max(bits, value.bit_length())
        elif digits[:2] == "0x":
            value = int(digits[2:], 16)
        elif digits[:2] == "0b":
            value = int(digits[2:], 2)
        elif len(digits) > _MOST_DIGITS:
            raise ValueError(
                f"a number of {len(digits)} decimal digits is too long; write it in hex"
            )
        else:
            value = int(digits)
    except ValueError as error:
        if "decimal digits" in str(error):
            raise
        raise ValueError(f"{text[:40]} is no integer") from None
    return sign * value


def unescape(text: str, c_like: bool) -> bytes:
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
