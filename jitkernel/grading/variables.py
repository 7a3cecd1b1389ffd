"""The global variables that an exercise is about: those that its reference defines.

The student's variable of the same name has the reference's first value when a check begins, and
the same value after every call.  One that is `constant` in the reference is an input: it has that
value during the check, and afterwards what it had before.  Start from `Variables.begin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitkernel.errors import CheckFailed
from jitkernel.grading.exercise import REFERENCE
from jitkernel.ir.module import global_values
from jitkernel.ir.names import written
from jitkernel.ir.text import type_at
from jitkernel.ir.types import Type, parse_type
from jitkernel.session.program.signatures import Variable
from jitkernel.session.run.calls import Scratch
from jitkernel.values.c import type_in_c
from jitkernel.values.value import TypedValue

_PREFIX = f"{REFERENCE}."  # of the reference's own, in its module


@dataclass(frozen=True, slots=True)
class _Pair:
    """A variable: the student's, and the reference's with the `first` bytes that it had."""

    name: str
    type: Type
    address: int
    reference: int
    first: bytes
    constant: bool


class Variables:
    """The variables of a check, in the order in which the reference defines them.

    Raises CheckFailed where the session lacks one, or has it with another type.
    """

    def __init__(self, scratch: Scratch, reference: str):
        self._scratch = scratch
        self._pairs: list[_Pair] = []
        for found in global_values(reference):
            if not found.name.startswith(_PREFIX):
                continue
            name, type = found.name.removeprefix(_PREFIX), parse_type(type_at(found.rest.lstrip()))
            mine = scratch.variable(name)
            if mine is None or mine[0] != type or mine[2]:
                known = scratch.program.named(name)
                there = known.info if known is not None and isinstance(known.info, Variable) else ""
                called = scratch.program.called(name)
                asked = f"{called}: global {type}"
                if called != written(name):
                    asked = type_in_c(type, called) or asked
                raise CheckFailed(
                    f"{called} is {there or 'not defined'}, but the exercise asks for {asked}, as "
                    "in the cells above it"
                )
            address = scratch.engine.linker.symbols[found.name].address
            first = scratch.read(address, scratch.layout(type).size)
            constant = found.kind == "constant"
            self._pairs.append(_Pair(name, type, mine[1], address, first, constant))
        self._before = self.now()

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def begin(self) -> None:
        """Give both sides the first values."""
        for pair in self._pairs:
            if not pair.constant:
                self._scratch.store(pair.reference, pair.first)
            self._scratch.store(pair.address, pair.first)

    def end(self) -> None:
        """Give inputs back what they had; the others stay as the last call has left them."""
        for pair, data in zip(self._pairs, self._before, strict=True):
            if pair.constant:
                self._scratch.store(pair.address, data)

    def now(self) -> list[bytes]:
        """The student's values."""
        return [self._scratch.read(pair.address, len(pair.first)) for pair in self._pairs]

    def put(self, values: Sequence[bytes]) -> None:
        """Write the values that `now` gave."""
        for pair, data in zip(self._pairs, values, strict=True):
            self._scratch.store(pair.address, data)

    def wrong(self) -> str:
        """The first variable that differs from the reference's, in words; empty where none does."""
        for pair, found in zip(self._pairs, self.now(), strict=True):
            wanted = self._scratch.read(pair.reference, len(pair.first))
            if found != wanted:
                words = (self._words(pair, data) for data in (wanted, found))
                return "expected to leave {} = {}, left {}".format(self._called(pair), *words)
        return ""

    def told(self, values: Sequence[bytes]) -> str:
        """The values that `now` gave, as a line of a complaint."""
        pairs = zip(self._pairs, values, strict=True)
        return ", ".join(f"{self._called(pair)} = {self._words(pair, v)}" for pair, v in pairs)

    def _called(self, pair: _Pair) -> str:
        return self._scratch.program.called(pair.name)

    def _words(self, pair: _Pair, data: bytes) -> str:
        value = TypedValue(pair.type, data, self._scratch.layout)
        describe = self._scratch.core.places.describe
        in_ir = self._called(pair) == written(pair.name)
        return value.text(describe) if in_ir else value.value_text(describe)
