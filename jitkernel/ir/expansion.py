"""Types with their names replaced by what they stand for, as long as that is no matter of length.

A type of 30 names that each mention the one before twice would be a billion pieces long: such a
one becomes a digest of the text that it would be, which is computed without writing the text.  Two
types are the same where their texts or digests are.  Start from `Expansion`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jitkernel.ir.names import NAME, decode_name

__all__ = ["LIMIT", "Expansion", "is_digest"]

LIMIT = 1 << 16  # characters; a longer text is told by its digest
# A polynomial over the text's bytes, modulo a prime: that of two texts one after the other follows
# from theirs.
_PRIME = (1 << 255) - 19
_BASE = 0x1B3F_84C2_9A6D_57E1_0F2C_6B9E_D483_75A1_5C0E_92F7_3D68_B14A_E7D9_0C53_8F26_A4B1

_STRUCT = re.compile("%(" + NAME + ")")


def is_digest(text: str) -> bool:
    """True if this stands for a type that is too long to be written."""
    return text.startswith("#")


class Expansion:
    """Expands types; each name is looked at once.

    `body` gives what a name stands for, None where nobody knows; `normal` is applied to the pieces
    between names (to drop blanks, say).
    """

    def __init__(self, body: Callable[[str], str | None], normal: Callable[[str], str] = str):
        self._body, self._normal = body, normal
        # By name: the pieces of its body, alternately text and names; itself alone where it stays.
        self._pieces: dict[str, list[str]] = {}
        self._lengths: dict[str, int] = {}
        self._values: dict[str, tuple[int, int]] = {}

    def __call__(self, text: str) -> str:
        """`text` without names that are known, or its digest."""
        if "%" not in text:
            return self._normal(text)
        pieces = self._split(text)
        self._learn(pieces)
        if self._length(pieces) <= LIMIT:
            return self._written(pieces)
        self._digest_all(pieces)
        return f"#{self._value(pieces)[0]:064x}"

    def _split(self, text: str) -> list[str]:
        """Text and names (`%pt`, without the `%`) by turns."""
        pieces = _STRUCT.split(text)
        pieces[::2] = map(self._normal, pieces[::2])
        return pieces

    def _learn(self, pieces: list[str]) -> None:
        """Find out what the names lead to, and the lengths, of those first that others mention."""
        known, done = self._pieces, self._lengths
        waiting = pieces[1::2]
        while waiting:
            name = waiting[-1]
            if name in done:
                waiting.pop()
            elif name in known:
                done[name] = self._length(known[name])
                waiting.pop()
            elif (body := self._body(decode_name(name))) is None:
                known[name] = ["%" + name]
            else:
                known[name] = inside = self._split(body)
                for at in range(1, len(inside), 2):
                    if inside[at] not in known:
                        waiting.append(inside[at])
                    elif inside[at] not in done:  # it leads back to itself: LLVM will refuse it
                        inside[at - 1] += "%" + inside[at]
                        inside[at] = ""

    def _length(self, pieces: list[str]) -> int:
        """Characters of the whole, at most one more than `LIMIT`."""
        lengths = self._lengths
        total = sum(map(len, pieces[::2])) + sum([lengths.get(n, 0) for n in pieces[1::2]])
        return min(total, LIMIT + 1)

    def _written(self, pieces: list[str]) -> str:
        out: list[str] = []
        stack = [iter(enumerate(pieces))]
        while stack:
            for at, piece in stack[-1]:
                if at % 2 and piece:
                    stack.append(iter(enumerate(self._pieces[piece])))
                    break
                out.append(piece)
            else:
                stack.pop()
        return "".join(out)

    def _digest_all(self, pieces: list[str]) -> None:
        """The polynomials of all names that are known, those first that others mention."""
        for name in self._lengths:
            if name not in self._values:
                self._values[name] = self._value(self._pieces[name])

    def _value(self, pieces: list[str]) -> tuple[int, int]:
        """The polynomial of a text, and the base to the power of its length."""
        value, power = 0, 1
        for at, piece in enumerate(pieces):
            if at % 2:
                more, shift = self._values.get(piece, (0, 1))
            else:
                data = piece.encode("utf-8", "surrogatepass")
                more, shift = _polynomial(data), pow(_BASE, len(data), _PRIME)
            value = (value * shift + more) % _PRIME
            power = power * shift % _PRIME
        return value, power


def _polynomial(data: bytes) -> int:
    value = 0
    for byte in data:
        value = (value * _BASE + byte + 1) % _PRIME
    return value
