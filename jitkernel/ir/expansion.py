"""Types with their names replaced by what they stand for, as long as that is no matter of length.

A type of 30 names that each mention the one before twice would be a billion pieces long: such a
one becomes a digest of the text that it would be, which is computed without writing the text.  Two
types are the same where their texts or digests are.  Start from `Expansion`.
"""

from __future__ import annotations

from collections.abc import Callable

from jitkernel.ir.names import NAME, decode_name
from jitkernel.regex import regex

LIMIT = 1 << 16  # characters; a longer text is told by its digest
# A text's bytes as one number, modulo a prime: that of two texts one after the other follows from
# theirs.
_PRIME = (1 << 255) - 19

_STRUCT = regex("%(" + NAME + ")")


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
        self._measures: dict[str, tuple[int, int, int]] = {}

    def __call__(self, text: str) -> str:
        """`text` without names that are known, or its digest."""
        if "%" not in text:
            return self._normal(text)
        pieces = self._split(text)
        self._learn(pieces)
        length, value, _ = self._measure(pieces)
        return self._written(pieces) if length <= LIMIT else f"#{value:064x}"

    def _split(self, text: str) -> list[str]:
        """Text and names (`%pt`, without the `%`) by turns."""
        pieces = _STRUCT.split(text)
        pieces[::2] = map(self._normal, pieces[::2])
        return pieces

    def _learn(self, pieces: list[str]) -> None:
        """Find out what the names lead to, and measure it, those first that others mention."""
        known, done = self._pieces, self._measures
        waiting = pieces[1::2]
        while waiting:
            name = waiting[-1]
            if name in done:
                waiting.pop()
            elif name in known:
                done[name] = self._measure(known[name])
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

    def _measure(self, pieces: list[str]) -> tuple[int, int, int]:
        """Of the whole: characters, at most one more than `LIMIT`; its number; 256 to the power of
        its bytes."""
        length, value, power = 0, 0, 1
        for at, piece in enumerate(pieces):
            if at % 2:
                count, more, shift = self._measures.get(piece, (0, 0, 1))
            else:
                data = piece.encode("utf-8", "surrogatepass")
                count, more = len(piece), int.from_bytes(data, "big")
                shift = pow(256, len(data), _PRIME)
            length = min(length + count, LIMIT + 1)
            value, power = (value * shift + more) % _PRIME, power * shift % _PRIME
        return length, value, power

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
