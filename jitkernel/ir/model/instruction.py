"""One instruction: its operands are values, all else of it is text.  Start from `Instruction`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitkernel.ir import instructions as reader
from jitkernel.ir.keywords import BINARY_OPCODES, CAST_OPCODES, TERMINATORS
from jitkernel.ir.model.values import Constant, Edits, Global, Value, is_number
from jitkernel.ir.names import quote_name
from jitkernel.ir.text import after_flags, commas, flag_words
from jitkernel.ir.types import VOID, Type, parse_type_at
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.ir.model.function import Block, Function
    from jitkernel.ir.model.module import Module

_DBG = regex(r",\s*!dbg\s+![^,]*")
#: Opcodes whose result depends on their operands alone.
PURE = (
    BINARY_OPCODES
    | CAST_OPCODES
    | frozenset(
        "fneg icmp fcmp select getelementptr extractvalue insertvalue extractelement"
        " insertelement shufflevector".split()
    )
)
_EFFECTS = TERMINATORS | frozenset(
    "store fence atomicrmw cmpxchg call va_arg landingpad catchpad cleanuppad".split()
)
_DIVISIONS = frozenset("udiv sdiv urem srem".split())
CALLS = frozenset(("call", "invoke", "callbr"))


class Instruction(Value):
    """One instruction; a debug record (`#dbg_value`) is one too, see `is_debug`.

    `opcode` is its opcode's name, `block` the block that it is in, or None.  `str` of it is its
    text, without blanks in front and a comment behind.  It is made by the functions that
    `jitkernel.ir.model` has for that: `binary`, `icmp`, `phi`, ..., `parse`.
    """

    __slots__ = (
        "_after",
        "_before",
        "_equals",
        "_module",
        "_operands",
        "_parts",
        "_soft",
        "block",
        "made",
        "opcode",
    )  # fmt: skip

    opcode: str
    block: Block | None
    made: int

    def __init__(
        self,
        opcode: str,
        parts: list[str | int],
        operands: Iterable[Value] = (),
        type: Type | None = None,
        spelled: str = "",
    ):
        super().__init__(type, spelled)
        self.opcode = opcode
        self.block = None
        self.made = Edits.line()  # the line of the pass that made or changed it last, or 0
        self._parts = parts  # text, and the numbers of the operands that stand between
        self._soft: frozenset[int] = frozenset()  # operands that do not count as uses
        self._equals, self._before, self._after = " = ", "\n  ", ""
        self._module: Module | None = None  # whose named types it may have
        self._operands: list[Value] = []
        for operand in operands:
            self._append_operand(operand)

    # -- what it is

    @property
    def type(self) -> Type:
        """The type of its value; `void` where it gives none."""
        if self._type is None:
            read = reader.Instruction.read(self._text())
            named = self._module.types if self._module is not None else {}
            found = VOID if self.is_debug else read.type(named)
            if found is None:
                raise ValueError(f"the type of what this gives is not known: {self}")
            self._type = found
        return self._type

    @property
    def name(self) -> str:
        """The name of its value without the sign and quotes, "" where it gives none; it may be
        set: a name that the function has already is given a number."""
        return super().name

    @name.setter
    def name(self, name: str) -> None:
        function, new = self.function, quote_name(name)
        if function is not None:
            new = function._rename(self, new)
        self._spelled = new

    @property
    def function(self) -> Function | None:
        """The function that it is in."""
        return self.block.function if self.block is not None else None

    @property
    def is_debug(self) -> bool:
        """True of a record of debug information, which is not among a block's instructions."""
        return self.opcode[:1] == "#"

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it uses, blocks too, in the order of its text; but what is called comes
        last, as in LLVM.  A phi's are value, block, value, block, ..."""
        return tuple(self._operands)

    @property
    def flags(self) -> tuple[str, ...]:
        """The words between opcode and operands, and those before `call`: `nsw`, `volatile`,
        `inbounds`; a comparison's last one is its predicate."""
        first = self._parts[0] if self._parts else ""
        text = first if isinstance(first, str) else ""
        words, _, rest = text.partition(self.opcode)
        return (*words.split(), *flag_words(rest))

    @property
    def predicate(self) -> str:
        """The predicate of a comparison (`slt`), "" of all else."""
        return self.flags[-1] if self.opcode in ("icmp", "fcmp") else ""

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that is attached: `{"dbg": "!12", "tbaa": "!3"}`."""
        last = self._parts[-1] if self._parts else ""
        text = last if isinstance(last, str) else ""
        pieces = [text[at + 1 :].lstrip() for at in commas(text, 0)]
        found = [piece[1:].split(None, 1) for piece in pieces if piece.startswith("!")]
        return {pair[0]: pair[1].split(",")[0].strip() for pair in found if len(pair) == 2}

    @property
    def has_side_effects(self) -> bool:
        """True if it may do more than give its value: store, call, leave the block, ..."""
        return self.opcode in _EFFECTS or self.is_debug or self.is_volatile

    @property
    def is_volatile(self) -> bool:
        """True of an access that must happen as it is written: `volatile` or `atomic`."""
        return not {"volatile", "atomic"}.isdisjoint(self.flags)

    @property
    def is_pure(self) -> bool:
        """True if the same operands always give the same value, without any memory."""
        return self.opcode in PURE

    @property
    def may_trap(self) -> bool:
        """True of divisions: one that was not to run must not run (a pass that moves code asks)."""
        return self.opcode in _DIVISIONS

    @property
    def is_terminator(self) -> bool:
        """True if a block ends with it."""
        return self.opcode in TERMINATORS

    @property
    def callee(self) -> Value | None:
        """The function that a call calls, or a pointer to it; None of what is no call."""
        return self._operands[-1] if self.opcode in CALLS else None

    @property
    def allocated_type(self) -> Type:
        """The type that an `alloca` makes room for.  Raises ValueError for all else."""
        return self._first_type("alloca")

    @property
    def source_element_type(self) -> Type:
        """The type by which a `getelementptr` counts.  Raises ValueError for all else."""
        return self._first_type("getelementptr")

    def _first_type(self, opcode: str) -> Type:
        if self.opcode != opcode:
            raise ValueError(f"no {opcode}: {self}")
        text = self._text()
        at = after_flags(text, reader.Instruction.read(text).operands)
        return parse_type_at(text, at)[0]

    @property
    def form(self) -> str:
        """Its text without its name, where it comes from (`!dbg`) and its operands, for which
        there are numbers: `add nsw i32 {0}, {1}`.  What has one form and the same operands does
        the same."""
        return _DBG.sub("", "".join([p if isinstance(p, str) else f"{{{p}}}" for p in self._parts]))

    # -- its text

    def _text(self) -> str:
        """The text behind the `=`."""
        operands = self._operands
        return "".join([p if p.__class__ is str else operands[p].ref for p in self._parts])  # type: ignore[index]

    def __str__(self) -> str:
        if self._spelled:
            return f"%{self._spelled}{self._equals}{self._text()}"
        return self._text()

    def __repr__(self) -> str:
        return f"<Instruction {self}>"

    # -- its operands

    def counts(self, index: int) -> bool:
        """False of operands that only debug information names."""
        return not self.is_debug and index not in self._soft

    def operand(self, index: int) -> Value:
        """One of `operands`."""
        return self._operands[index]

    def set_operand(self, index: int, value: Value) -> None:
        """Another value in the place of an operand.  Raises TypeError for one of another type."""
        old = self._operands[index]
        if old is value:
            return
        _check(old, value, self)
        old._drop_use(self, index)
        self._operands[index] = value
        value._add_use(self, index)
        self._touch()

    def replace_uses_of(self, old: Value, new: Value) -> None:
        """Use one value in the place of another, also a block in a branch."""
        for index, operand in enumerate(self._operands):
            if operand is old or operand == old:
                self.set_operand(index, new)

    def _append_operand(self, value: Value) -> None:
        self._operands.append(value)
        value._add_use(self, len(self._operands) - 1)

    def _drop_operands(self) -> None:
        for index, operand in enumerate(self._operands):
            operand._drop_use(self, index)

    def _touch(self) -> None:
        if Edits.file:
            self.made = Edits.line()
        if (function := self.function) is not None:
            function.edited = True

    # -- phis

    @property
    def incoming(self) -> list[tuple[Value, Block]]:
        """A phi's values, each with the block that it comes from: as often as there are edges."""
        return list(zip(self._operands[::2], self._operands[1::2], strict=True))  # type: ignore[arg-type]

    def incoming_value(self, block: Block) -> Value:
        """A phi's value where control comes from a block.  Raises KeyError."""
        for value, where in self.incoming:
            if where is block:
                return value
        raise KeyError(f"no value from {block.ref} in {self}")

    def add_incoming(self, value: Value, block: Block) -> None:
        """One more entry of a phi: once for each edge that comes from the block."""
        self._set_incoming([*self.incoming, (value, block)])

    def remove_incoming(self, block: Block) -> None:
        """A phi without its entries from a block.  Raises KeyError where there are none."""
        self.incoming_value(block)
        self._set_incoming([pair for pair in self.incoming if pair[1] is not block])

    def _set_incoming(self, pairs: list[tuple[Value, Block]]) -> None:
        if self.opcode != "phi":
            raise TypeError(f"only a phi has entries: {self}")
        for value, _ in pairs:
            if value.type != self.type:
                raise TypeError(f"a phi of {self.type} has no entry of {value.type}: {value.ref}")
        first, last = str(self._parts[0]), self._parts[-1]
        tail = ""
        if self._operands and isinstance(last, str):
            tail = last[last.index("]") + 1 :]
            first = first[: first.rindex("[")]
        self._drop_operands()
        self._operands.clear()
        parts: list[str | int] = []
        for number, pair in enumerate(pairs):
            start = first if not number else " ], "
            parts += [start + "[ ", 2 * number, ", ", 2 * number + 1]
            for operand in pair:
                self._append_operand(operand)
        self._parts = [*parts, " ]" + tail] if pairs else [first]
        self._touch()

    # -- where it stands

    def insert_before(self, other: Instruction) -> Instruction:
        """Put it before another; out of where it is.  A phi goes before that one's debug records.

        It takes time that grows with the block, as everything does that looks for a place in one.
        """
        block = other._where()
        self._leave()
        at = block._items.index(other)
        block._insert(block._above(at) if self.opcode == "phi" else at, self, above=True)
        return self

    def insert_after(self, other: Instruction) -> Instruction:
        """Put it behind another; out of where it is."""
        block = other._where()
        self._leave()
        block._insert(block._items.index(other) + 1, self)
        return self

    def remove(self) -> Instruction:
        """Take it out of its block; its operands and users stay, to insert it elsewhere."""
        self._where()
        self._leave()
        return self

    def erase(self) -> None:
        """Take it out for good.  Raises ValueError where it is still used; what debug information
        says of it is `poison` from now on."""
        block = self._where()
        for use in self.uses:
            raise ValueError(f"%{self._spelled} is still used by: {use.user}")
        if self._uses:
            Value.replace_all_uses_with(self, Constant(self.type, "poison"))
        self._leave()
        self._drop_operands()
        self._operands, self._parts = [], [f"{self.opcode} (erased)"]
        block.function._forget(self)

    def replace_with(self, value: Value) -> None:
        """Its users use the value, and it is erased."""
        self.replace_all_uses_with(value)
        self.erase()

    def _where(self) -> Block:
        if self.block is None:
            raise ValueError(f"it is in no block: {self}")
        return self.block

    def _leave(self) -> None:
        if self.block is not None:
            self._touch()
            self.block._take(self)
            self.block = None


def _check(old: Value, new: Value, user: Instruction) -> None:
    if isinstance(old, Global) and isinstance(new, Global):
        return
    if old.type != new.type:
        raise TypeError(
            f"{new.type} {new.ref} cannot take the place of {old.type} {old.ref} in: {user}"
        )


def numbered(value: Value) -> bool:
    """True of a value that has a number for its name."""
    return is_number(value._spelled)
