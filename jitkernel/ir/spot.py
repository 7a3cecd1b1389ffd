"""A place in a line of IR, as LLVM's messages point to one, and what stands around it.

The line may be wrong there: what is read is what it looks like.  Start from `Spot`.
"""

from __future__ import annotations

from jitkernel.ir.names import NAME
from jitkernel.ir.text import SCALAR
from jitkernel.record import record
from jitkernel.regex import regex

# What may begin at a place, and what may end there.
_HERE = {
    "number": r"([-+]?(?:0x[HKLMR]?[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+))",
    "string": r'c?("[^"]*")',
    "word": r"([A-Za-z_][\w.]*)",
    "opcode": rf"(?:%{NAME}\s*=\s*)?([A-Za-z_][\w.]*)",  # or what stands in its place
    "label": f"({NAME}):",
    "value": r"([-+\d%@]|(?:true|false|null|undef|poison|zeroinitializer)\b)",
}
_BEFORE = {
    "operation": r"\b([a-z]+(?:\s+(?:nuw|nsw|exact|disjoint|fast|eq|ne|[us][lg][te]))*)",
    "arguments": r"\b(call\b[^(]*\((?:[^()]*,)?)",  # the call up to the one that begins
}
_PATTERNS = {
    **{what: regex(rf"\s*{form}") for what, form in _HERE.items()},
    **{what: regex(rf"{form}\s*$") for what, form in _BEFORE.items()},
}
_TYPES = regex(rf"\b({SCALAR})\b")


@record
class Spot:
    """The place `at` in a line; what is not found is empty."""

    text: str
    at: int

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    @property
    def before(self) -> str:
        return self.text[: self.at]

    @property
    def type(self) -> str:
        """The last scalar type before it."""
        found: list[str] = _TYPES.findall(self.before)
        return found[-1] if found else ""

    def has(self, what: str) -> str:
        """The `number`, `string`, `word`, `opcode`, `label` or `value` that begins here; the
        `operation` (an opcode and its flags), or the call's `arguments`, that end here."""
        here = what in _HERE
        found = _PATTERNS[what].match(self.rest) if here else _PATTERNS[what].search(self.before)
        return found[1] if found else ""
