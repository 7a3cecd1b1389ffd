"""Conditions and counts of breakpoints that threads decide themselves which meet them: their
programs, and what has been counted.  Start from `Conditions.programs`.

A breakpoint that logs, or whose condition is not translated, has none: its threads ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from jitkernel.elf.cursor import Cursor
from jitkernel.elf.dwarf import Local
from jitkernel.errors import UsageError
from jitkernel.executor import abi
from jitkernel.executor.programs import Code, both, constant, either, op, program
from jitkernel.ir.names import CONTROL
from jitkernel.linker.records import SymbolState
from jitkernel.session.debugging.code import Code as Debugged
from jitkernel.session.debugging.code import Place
from jitkernel.session.debugging.operations import Context
from jitkernel.session.debugging.points import count_of, counts
from jitkernel.session.debugging.records import Breakpoint
from jitkernel.session.debugging.session_variables import global_value
from jitkernel.session.debugging.translating import In, translate
from jitkernel.session.debugging.values import Value
from jitkernel.session.debugging.view import may_be_late
from jitkernel.values.datatype import number

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["Conditions"]

# General registers by their numbers in DWARF (psABI 3.6.2).
_REGISTERS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split()
_FBREG, _ADDR, _ADDRX, _REG, _BREG = 0x91, 0x03, 0xA1, 0x50, 0x70  # DW_OP_


class Conditions:
    """The programs of a session's breakpoints; `code` is what they are in."""

    def __init__(self, core: Core, code: Debugged):
        self._core, self._code = core, code
        self._made: dict[tuple[object, ...], Sequence[int] | None] = {}
        self._cells: dict[int, int] = {}  # where hits are counted, by numbers of breakpoints

    def renew(self, points: Iterable[Breakpoint]) -> None:
        """Code has come or gone, and there are these breakpoints."""
        self._made.clear()
        numbers = {point.number for point in points}
        self._cells = {n: cell for n, cell in self._cells.items() if n in numbers}

    def programs(
        self, at: Mapping[int, Sequence[Breakpoint]], asked: Collection[int]
    ) -> dict[int, Sequence[int]]:
        """The programs by address, of breakpoints by address but those that are `asked` about for
        another reason."""
        found = {}
        for address, points in at.items():
            if not points or address in asked:
                continue
            key = (address, *((p.number, p.condition, p.hit_condition, p.log) for p in points))
            if key not in self._made:
                self._made[key] = self._program(address, points)
            if (words := self._made[key]) is not None:
                found[address] = words
        return found

    def _program(self, address: int, points: Sequence[Breakpoint]) -> Sequence[int] | None:
        found: Code | None = None
        for point in points:
            if point.log or not (point.condition or point.hit_condition):
                return None
            code = self._condition(address, point.condition) if point.condition else constant(1)
            if point.hit_condition:
                if len(points) > 1 or (cell := self._cell(point)) == 0:
                    return None  # one that stops is counted by who is asked
                code = code and both(code, _count(point.hit_condition, cell))
            if code is None:
                return None
            found = code if found is None else either(found, code)
        return program(found) if found is not None else None

    # -- hits ----------------------------------------------------------------------------------

    def _cell(self, point: Breakpoint) -> int:
        """The cell where a breakpoint's hits are counted, 0 where there is no room."""
        if (cell := self._cells.get(point.number)) is None:
            free = set(range(1, abi.STOP_CELLS)) - set(self._cells.values())
            stops = self._core.engine.executor.stops
            if not free or stops is None:
                return 0
            stops.set_hits(cell := min(free), point.hits)
            self._cells[point.number] = cell
        return cell

    def counts(self, point: Breakpoint) -> bool:
        """One more hit, of a thread that asks; True where that many count."""
        self.look([point])
        found = counts(point)
        stops, cell = self._core.engine.executor.stops, self._cells.get(point.number)
        if stops is not None and cell is not None:
            stops.set_hits(cell, point.hits)
        return found

    def look(self, points: Iterable[Breakpoint]) -> None:
        """Have the hits in breakpoints that threads have counted."""
        stops = self._core.engine.executor.stops
        for point in points if stops is not None and self._cells else ():
            if stops is not None and (cell := self._cells.get(point.number)) is not None:
                point.hits = max(point.hits, stops.hits(cell))

    # -- conditions ----------------------------------------------------------------------------

    def _condition(self, address: int, text: str) -> Code | None:
        place = self._code.at(address)
        types = place.part.types if place is not None else None
        named = types.named if types is not None else lambda name: None
        context = Context(partial(self._name, address, place), lambda at, size: b"", named)
        return translate(text, context)

    def _name(self, pc: int, place: Place | None, name: str) -> Value | None:
        """A variable, as `View` would find it there: where it is, in code."""
        if place is not None:
            if (local := self._code.locals(place, pc).get(name)) is not None:
                return self._local(local, place)
        if name[:1] == "$" and name[1:] in abi.REGISTERS:
            code = constant(pc) if name == "$rip" else _register(name[1:])
            return Value(number("u8"), place=In("number", code))
        symbol = self._core.program.named(name.removeprefix("@"))
        if symbol is not None and (
            symbol.state is SymbolState.FAR or symbol.name.startswith(CONTROL)
        ):
            raise UsageError(f"{name} is looked up")
        found = global_value(self._core, name.removeprefix("@"), lambda symbol: 0)
        if found is None or found.address is None:
            return None
        return Value(found.type, ir=found.ir, place=In("address", constant(found.address)))

    def _local(self, local: Local, place: Place) -> Value:
        type = place.part.types.of(local, self._core.program.state.types)
        found = _place(local)
        late = found.kind == "address" and may_be_late(local, place)
        if late or (not local.defined and place.part.info.keeps_frame(place.function)):
            raise UsageError(f"{local.name} has no value here")
        if found.kind == "word" and type.bare.size > 8:
            raise UsageError(f"{local.name} is in no register")
        return Value(type, ir=local.name.startswith("%"), place=found)


def _count(text: str, cell: int) -> Code:
    """1 where one more hit counts, else 0: see `points.counts`."""
    sign, wanted = count_of(text)
    hits, count = op("hits", cell), constant(wanted)
    match sign:
        case "%" if not wanted:
            return (*hits, *count, *op("and"))
        case "%":
            return (*hits, *count, *op("urem"), *constant(0), *op("eq"))
        case ">=" | ">":
            return (*count, *hits, *op("ule" if sign == ">=" else "ult"))
        case "<=" | "<":
            return (*hits, *count, *op("ule" if sign == "<=" else "ult"))
    return (*hits, *count, *op("eq"))


def _register(name: str) -> Code:
    return op("register", abi.UC_REGISTERS + 8 * abi.REGISTERS.index(name))


def _place(local: Local) -> In:
    """The place of a variable that one operation tells; `locate` knows more.  Raises UsageError
    where none does."""
    r = Cursor(local.expression or b"")
    operation = r.byte() if local.expression else 0
    code: Code | None = None
    kind = "address"
    if operation == _FBREG and local.frame and len(local.frame) == 1:
        code = _based(local.frame[0] - _REG, r.sleb())
    elif _BREG <= operation < _BREG + 16:
        code = _based(operation - _BREG, r.sleb())
    elif _REG <= operation < _REG + 16:
        kind, code = "word", _register(_REGISTERS[operation - _REG])
    elif operation == _ADDR:
        code = constant(r.fixed(8))
    elif operation == _ADDRX and local.indexed is not None:
        code = constant(local.indexed(r.uleb()))
    if code is None or r.at != len(local.expression or b""):
        raise UsageError(f"{local.name} is in no simple place")
    return In(kind, code)


def _based(number: int, offset: int) -> Code | None:
    if not 0 <= number < 16:
        return None
    return (*_register(_REGISTERS[number]), *constant(offset), *op("add"))
