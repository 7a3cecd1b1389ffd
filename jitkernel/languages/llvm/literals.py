"""Integers as IR and as people write them.  Start from `integer`."""

from __future__ import annotations

__all__ = ["integer"]

_MOST_DIGITS = 4000  # Python itself refuses to read more than 4300


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
