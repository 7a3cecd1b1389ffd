"""The operands of an instruction, by their places in its text, which each opcode has its own.

Start from `operands_of`.  What is not an operand stays text; `reading` makes values of what is
found here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jitkernel.ir.keywords import BINARY_OPCODES, CAST_OPCODES
from jitkernel.ir.model.instruction import CALLS
from jitkernel.ir.names import NAME
from jitkernel.ir.text import after_flags, after_space, closing, type_at
from jitkernel.regex import regex


class ModelError(ValueError):
    """Text that cannot be read as IR: what, and where."""


#: An operand's place in the text, where it begins and ends, its type as it is written there, and
#: whether it is one that only debug information and metadata name.
Slot: TypeAlias = tuple[int, int, str, bool]

_WORDS = "true|false|null|undef|poison|zeroinitializer|none"
_WORD = regex(rf"(?:{_WORDS})(?![-\w$.])")
_EXPRESSION = (
    "getelementptr|inttoptr|ptrtoint|ptrtoaddr|addrspacecast|bitcast|trunc|add|sub|xor|mul|shl|"
    "splat|blockaddress|dso_local_equivalent|no_cfi|ptrauth|extractelement|insertelement|"
    "shufflevector"
)
# An attribute of an argument, between its type and its value.
_ATTRIBUTE = regex(
    rf'\s*(?!(?:{_WORDS}|{_EXPRESSION}|asm)\b)(?:align\s+\d+|[a-z_]\w*|"[^"]*"(?:="[^"]*")?)'
)
_NAMED = regex(f"[%@]{NAME}")
# What most operands are: a name, a whole number, a word; of a type that is one word.
_SIMPLE_VALUE = rf"([%@]{NAME}|(?:-?\d+|{_WORDS})(?![-\w$.]))"
_SIMPLE = regex(rf"\s*{_SIMPLE_VALUE}")
_TYPED = regex(rf"\s*(i\d+|ptr|label|double|float|%{NAME})\s+{_SIMPLE_VALUE}")
_PLAIN = regex(r"[-+]?\w[\w.]*(?:(?<=[eE])[-+]\d+)?")
_LOWER = regex(r"[a-z_]+")
_ASSEMBLY = regex(r'asm(?:\s+[a-z]+)*\s*"[^"]*"\s*,\s*"[^"]*"')
_METADATA = regex(r'!(?:\w[-\w$.]*|"[^"]*"|(?=[({]))')
_INTEGER = regex(r"\s*i\d+\s")
_STRING = regex(r'c"[^"]*"')
_TAG = regex(r'\s*"[^"]*"\s*\(')
_LABEL = regex(r"label\b")
_CLAUSE = regex(r"(?:cleanup|catch|filter)\b")
_WITHIN = regex(r"\s*(?:within|from)\s*")
_UNWIND = regex(r"\s*(?:unwind\s+)?(?:to\s+)?(?=label\b)")


class _Operands:
    """Finds the operands of one instruction; `at` moves on in its text, from behind the opcode."""

    def __init__(self, text: str, at: int, stop: int):
        self.text, self.at, self.stop = text, at, stop
        self.slots: list[Slot] = []

    def fail(self, what: str) -> ModelError:
        rest = self.text[self.at : min(self.stop, self.at + 40)]
        return ModelError(f"expected {what} before {rest!r}")

    def char(self) -> str:
        """The next character that is no blank; "" at the end."""
        found = self.text[self.at : self.at + 1]
        if found.isspace():
            self.at = after_space(self.text, self.at)
            found = self.text[self.at : self.at + 1]
        return found if self.at < self.stop else ""

    def take(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at, self.stop) or self.char() == sign:
            self.at += 1
            return True
        return False

    def flags(self) -> None:
        self.at = after_flags(self.text, self.at)

    def type(self) -> str:
        self.char()
        found = type_at(self.text, self.at)
        if not found:
            raise self.fail("a type")
        self.at += len(found)
        while self.text[self.at : self.at + 1] == "*":  # LLVM 22 still reads i32* and makes it ptr
            self.at, found = self.at + 1, "ptr"
        return found

    def closed(self) -> None:
        """Go over a bracket and what is in it."""
        end = closing(self.text, self.at)
        if not 0 <= end <= self.stop:
            raise self.fail("a closing bracket")
        self.at = end

    def value(self, type: str, soft: bool = False) -> None:
        """Go over a value and note it as an operand."""
        if found := _SIMPLE.match(self.text, self.at):
            start, self.at = found.span(1)
        else:
            self.char()
            start = self.at
            self.constant()
        self.slots.append((start, self.at, type, soft))

    def constant(self) -> None:
        char, text = self.char(), self.text
        if char in "[{<(":
            self.closed()
        elif char == "!":
            self.metadata()
        elif (found := _STRING.match(text, self.at, self.stop)) or (
            found := _WORD.match(text, self.at) or _ASSEMBLY.match(text, self.at)
        ):
            self.at = found.end()
        elif _LOWER.match(text, self.at) and not text.startswith(("u0x", "s0x", "f0x"), self.at):
            self.expression()
        elif found := _PLAIN.match(text, self.at):
            self.at = found.end()
        else:
            raise self.fail("a value")

    def expression(self) -> None:
        """`getelementptr inbounds (...)`, `no_cfi @f`."""
        while found := _LOWER.match(self.text, self.at):
            self.at = found.end()
            if self.char() == "(":
                self.closed()
                if found[0] != "inrange":
                    return
        if found := _NAMED.match(self.text, self.at):
            self.at = found.end()
        elif self.char() == "(":
            self.closed()
        else:
            raise self.fail("a constant expression")

    def metadata(self) -> None:
        """`!12`, `!"text"`, `!{...}`, `!DIArgList(...)`, of which the values are soft operands."""
        found = _METADATA.match(self.text, self.at)
        if found is None:
            raise self.fail("metadata")
        self.at = found.end()
        if self.text[self.at : self.at + 1] not in ("(", "{"):
            return
        if found[0] != "!DIArgList":
            self.closed()
            return
        self.at += 1
        while not self.take(")"):
            self.value(self.type(), soft=True)
            self.take(",")

    def typed(self) -> str:
        """A type and a value of it."""
        if found := _TYPED.match(self.text, self.at):
            type = found[1]
            start, self.at = found.span(2)
            self.slots.append((start, self.at, type, False))
            return type
        type = self.type()
        self.value(type)
        return type

    def argument(self) -> None:
        """An argument of a call: a type, attributes, a value."""
        if _TYPED.match(self.text, self.at):
            self.typed()
            return
        type = self.type()
        if type == "metadata":
            if self.char() == "!":
                self.metadata()
            else:
                self.value(self.type(), soft=True)
            return
        while found := _ATTRIBUTE.match(self.text, self.at):
            self.at = found.end()
            if self.char() == "(":
                self.closed()
        self.value(type)

    def more(self) -> bool:
        """Go over a comma behind which no metadata stands; False where none is."""
        at = self.at
        if self.take(",") and self.char() != "!":
            return True
        self.at = at
        return False

    def labels(self) -> None:
        """`label %a, label %b ]`."""
        while not self.take("]"):
            self.typed()
            self.take(",")

    # -- one method for each form of instruction

    def nothing(self) -> None:
        """No operands: `fence`, `unreachable`."""

    def one(self) -> None:
        self.flags()
        self.typed()

    def pair(self) -> None:
        """Two of one type, which is written once."""
        self.flags()
        type = self.typed()
        if not self.take(","):
            raise self.fail("a comma")
        self.value(type)

    def two(self) -> None:
        self.several(2)

    def three(self) -> None:
        self.several(3)

    def several(self, most: int = 1 << 30) -> None:
        self.flags()
        self.typed()
        for _ in range(most - 1):
            if not self.more():
                break
            self.typed()

    def ret(self) -> None:
        self.flags()
        type = self.type()
        if type != "void":
            self.value(type)

    def load(self) -> None:
        self.flags()
        self.type()
        self.take(",")
        self.typed()

    def address(self) -> None:
        """getelementptr: the type that counts, a pointer, indices."""
        self.load()
        while self.more():
            self.typed()

    def alloca(self) -> None:
        self.flags()
        self.type()
        if self.more() and _INTEGER.match(self.text, self.at):
            self.typed()

    def phi(self) -> None:
        self.flags()
        type = self.type()
        while self.take("["):
            self.value(type)
            self.take(",")
            self.value("label")
            if not self.take("]"):
                raise self.fail("]")
            if not self.more():
                break

    def switch(self) -> None:
        self.several(2)
        if not self.take("["):
            raise self.fail("[")
        while not self.take("]"):
            self.typed()
            self.take(",")
            self.typed()

    def indirect(self) -> None:
        self.typed()
        self.take(",")
        if not self.take("["):
            raise self.fail("[")
        self.labels()

    def call(self) -> None:
        self.flags()
        self.type()
        if self.char() == "(":
            self.closed()
        self.value("ptr")
        callee = self.slots.pop()
        if not self.take("("):
            raise self.fail("(")
        while not self.take(")"):
            if self.text.startswith("...", self.at):
                self.at += 3
            else:
                self.argument()
            self.take(",")
        while True:
            self.flags()  # attributes, `to`, `unwind`
            if self.take("["):
                (self.bundles if _TAG.match(self.text, self.at) else self.labels)()
            elif self.char() == "l" and _LABEL.match(self.text, self.at, self.stop):
                self.typed()
            else:
                break
        self.slots.append(callee)  # the last, as in LLVM

    def bundles(self) -> None:
        """`"deopt"(i32 %x, ptr %y), "gc-live"() ]`."""
        while found := _TAG.match(self.text, self.at):
            self.at = found.end()
            while not self.take(")"):
                self.argument()
                self.take(",")
            self.take(",")
        if not self.take("]"):
            raise self.fail("]")

    def landingpad(self) -> None:
        self.type()
        while self.char() and (found := _CLAUSE.match(self.text, self.at, self.stop)):
            self.at = found.end()
            if found[0] != "cleanup":
                self.typed()

    def pad(self) -> None:
        """catchpad, cleanuppad: `within %cs [ptr null, i32 64]`; catchswitch: `within none [label
        %a] unwind to caller`; catchret and cleanupret: `from %pad to label %x`."""
        if found := _WITHIN.match(self.text, self.at):
            self.at = found.end()
        self.value("token")
        if self.take("["):
            while not self.take("]"):
                self.argument()
                self.take(",")
        found = _UNWIND.match(self.text, self.at, self.stop)
        if found:
            self.at = found.end()
            self.typed()

    def record(self) -> None:
        """A record of debug information."""
        self.take("(")
        while not self.take(")"):
            if self.char() == "!":
                self.metadata()
            else:
                self.typed()
            self.take(",")


_FORMS: dict[str, Callable[[_Operands], None]] = {
    **dict.fromkeys((*BINARY_OPCODES, "icmp", "fcmp"), _Operands.pair),
    **dict.fromkeys(
        (*CAST_OPCODES, *"fneg freeze resume va_arg extractvalue".split()), _Operands.one
    ),
    **dict.fromkeys("store insertvalue extractelement atomicrmw".split(), _Operands.two),
    **dict.fromkeys("select insertelement shufflevector cmpxchg br".split(), _Operands.three),
    **dict.fromkeys(CALLS, _Operands.call),
    **dict.fromkeys("catchpad cleanuppad catchswitch catchret cleanupret".split(), _Operands.pad),
    **dict.fromkeys(("fence", "unreachable"), _Operands.nothing),
    "ret": _Operands.ret,
    "load": _Operands.load,
    "getelementptr": _Operands.address,
    "alloca": _Operands.alloca,
    "phi": _Operands.phi,
    "switch": _Operands.switch,
    "indirectbr": _Operands.indirect,
    "landingpad": _Operands.landingpad,
}


def operands_of(opcode: str, text: str, at: int, stop: int) -> list[Slot] | None:
    """The operands of an instruction, in LLVM's order, from behind its opcode on; None where no
    instruction is called so.  Raises ModelError."""
    form = _FORMS.get(opcode)
    if form is None and opcode[:1] != "#":
        return None
    operands = _Operands(text, at, stop)
    (form or _Operands.record)(operands)
    return operands.slots
