"""From text to values: a function's body, one instruction.  Start from `FunctionReader`.

The text is cut by `jitkernel.ir` (bodies, blocks, instructions, types) and by `operands`; what is
not an operand stays text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.ir.instructions import apart, blocks
from jitkernel.ir.keywords import TERMINATORS
from jitkernel.ir.model.function import Block, Function
from jitkernel.ir.model.instruction import CALLS, Instruction
from jitkernel.ir.model.operands import ModelError, operands_of
from jitkernel.ir.model.values import Argument, Value, canonical, is_number
from jitkernel.ir.module import Entity
from jitkernel.ir.names import NAME
from jitkernel.ir.text import after_space, type_at, without_comments
from jitkernel.ir.types import VOID, parse_type
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.ir.model.module import Module

_RESULT = regex(rf"%({NAME})(\s*=\s*)")
_OPCODE = regex(r"(?:(?:tail|musttail|notail)\s+(?=call\b))?(#?[a-z_]+)")
_LAST = regex(rf"%({NAME})\s*\Z")
_NO_VALUE = TERMINATORS - {"invoke", "callbr", "catchswitch"} | {"store", "fence"}

Resolve = Callable[[str, str], "Value | None"]


def read_instruction(
    text: str, clean: str, start: int, stop: int, resolve: Resolve
) -> tuple[Instruction, list[tuple[int, str]]]:
    """The instruction between two offsets, and those of its operands that are not known yet, with
    their names.  `clean` is the text with blanks for comments; `resolve` gives the value of a type
    and a name or constant."""
    at, spelled, equals = start, "", " = "
    if found := _RESULT.match(clean, start, stop):
        at, spelled, equals = found.end(), found[1], found[2]
    head = _OPCODE.match(clean, at, stop)
    opcode = head[1] if head else ""
    slots = operands_of(opcode, clean, head.end(), stop) if head else None
    if head is None or slots is None:
        raise ModelError(f"no instruction that is known: {text[start:stop]}")
    order = range(len(slots))
    if opcode in CALLS:  # what is called is the last operand and stands before the arguments
        order = sorted(order, key=slots.__getitem__)  # type: ignore[assignment]
    parts: list[str | int] = []
    for number in order:
        begin, end, _, _ = slots[number]
        parts += (text[at:begin], number)
        at = end
    if at < stop or not parts:
        parts.append(text[at:stop])
    made = Instruction(opcode, parts, (), None, spelled)
    made._equals = equals
    pending: list[tuple[int, str]] = []
    for number, (begin, end, type, soft) in enumerate(slots):
        written = clean[begin:end]
        value = resolve(type, written)
        if value is None:
            pending.append((number, written))
            value = _UNKNOWN
        else:
            value._add_use(made, number)
        made._operands.append(value)
        if soft:
            made._soft |= {number}
    return made, pending


_UNKNOWN = Value(VOID, "?")


class FunctionReader:
    """Reads one function; it is in `function` then."""

    def __init__(self, module: Module, found: Entity, clean: str, brace: int, end: int):
        self.module = module
        self.text, self.clean = found.source, clean
        self.function = Function(module, found.name, self.text[found.start : brace])
        self._names = self.function._names
        self._number = 0  # the next that a value or block without a name has
        self._pending: list[tuple[Instruction, int, str]] = []
        self._spaced: list[Instruction | Block] = []  # what stood last: a comment behind is its
        self._done = brace + 1
        self._arguments(found)
        self._body(brace + 1, end - 1)
        self._settle()

    def _arguments(self, found: Entity) -> None:
        for part in found.parameters:
            if part == "...":
                continue
            type = type_at(part)
            name = _LAST.search(part[len(type) :])
            spelled = name[1] if name else str(self._number)
            if is_number(spelled):
                self._number = int(spelled) + 1
            args = self.function.args
            argument = Argument(parse_type(type), spelled, len(args))
            args.append(argument)
            self._names[canonical(spelled)] = argument

    def _body(self, start: int, stop: int) -> None:
        block: Block | None = None
        for label, at, spans in blocks(self.text, start, stop):
            if label:
                block = self._block(label, at, at + len(label) + 1)
            for begin, end in self._apart(spans):
                if self.clean.startswith("uselistorder", begin):
                    self.function._orders.append(self.text[self._done : end])
                    self._done = end
                    continue
                if block is None or (block._items and block._items[-1].is_terminator):
                    block = self._block("", begin, begin)
                item = self._instruction(begin, end)
                self._place(item, begin, end)
                item.block = block
                block._items.append(item)
        self.function._tail = self.text[self._done : stop]

    def _apart(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Each instruction by itself where several stand in a line, which LLVM never prints."""
        found: list[tuple[int, int]] = []
        for begin, end in spans:
            line = self.clean[begin:end]
            several = line.count(" = ") > 1 or line.startswith(("store ", "call ", "fence "))
            found += apart(self.clean, begin, end) if several else [(begin, end)]
        return found

    def _block(self, spelled: str, start: int, stop: int) -> Block:
        block = Block(spelled, self.function)
        if spelled:
            self._place(block, start, stop)
        else:  # the first one goes without a label; one in the middle gets its own
            block._spelled, block._implicit = str(self._number), not self.function._blocks
            block._before = "" if block._implicit else "\n\n"
        if is_number(block._spelled):
            self._number = int(block._spelled) + 1
        self.function._blocks.append(block)
        self._names[canonical(block._spelled)] = block
        return block

    def _instruction(self, start: int, stop: int) -> Instruction:
        item, pending = read_instruction(self.text, self.clean, start, stop, self._resolve)
        item._module = self.module
        for index, name in pending:
            self._pending.append((item, index, name))
        if not item._spelled and item.opcode not in _NO_VALUE and not item.is_debug:
            if str(item.type) != "void":  # a number that is not written
                item._spelled = str(self._number)
        if item._spelled:
            if is_number(item._spelled):
                self._number = int(item._spelled) + 1
            self._names[canonical(item._spelled)] = item
        return item

    def _place(self, item: Instruction | Block, start: int, stop: int) -> None:
        """Give an item the blanks before it; a comment on the line before is the last item's."""
        gap = self.text[self._done : start]
        if self._spaced and "\n" in gap and (at := gap.index("\n")):
            self._spaced[-1]._after, gap = gap[:at], gap[at:]
        item._before = gap
        self._spaced = [item]
        self._done = stop

    def _resolve(self, type: str, written: str) -> Value | None:
        sign = written[0]
        if sign == "%":
            return self._names.get(canonical(written[1:]))
        if sign == "@":
            return self.module.global_value(written[1:], type)
        return self.module.constant(type, written)

    def _settle(self) -> None:
        """Set the operands that were used before they were defined."""
        for item, index, name in self._pending:
            value = self._names.get(canonical(name[1:]))
            if value is None:
                raise ModelError(f"@{self.function.name} has no value {name}: {item}")
            item._operands[index] = value
            value._add_use(item, index)


def parse(text: str, function: Function) -> Instruction:
    """The instruction that a line of IR is, with the function's values as operands; it is in no
    block yet.  Raises ModelError where it cannot be read, or names what is not there."""

    def resolve(type: str, written: str) -> Value | None:
        if written[0] == "%":
            found = function._names.get(canonical(written[1:]))
            if found is None:
                raise ModelError(f"@{function.name} has no value {written}: {text}")
            return found
        if written[0] == "@":
            return function.module.global_value(written[1:], type)
        return function.module.constant(type, written)

    clean = without_comments(text)
    start, stop = after_space(clean, 0), len(clean.rstrip())
    made, _ = read_instruction(text, clean, start, stop, resolve)
    made._module = function.module
    if not made._spelled and made.opcode not in _NO_VALUE and str(made.type) != "void":
        made._spelled = "t"
    return made
