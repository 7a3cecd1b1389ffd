"""Where a variable is, by DWARF's expressions.  Start from `locate`.

DWARF 5, 2.5 and 2.6; registers' numbers: System V psABI, AMD64, figure 3.36.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from jitkernel.elf.cursor import Cursor
from jitkernel.elf.dwarf.info import Local
from jitkernel.elf.registers import GENERAL

__all__ = ["Place", "Read", "locate"]

#: From an address and a number of bytes to the bytes there: fewer, or none, where memory ends.
Read = Callable[[int, int], bytes]
#: From a register's name to its value when the function was entered, None where nobody knows.
Entry = Callable[[str], int | None]

_REGISTERS = (*GENERAL, "rip", *(f"xmm{number}" for number in range(16)))
# Operations whose lower bits depend on the upper ones of their operands, which LLVM leaves as they
# are where a value is narrower than a register; and it writes the same for both kinds of remainder.
# abs, div, mod, shr, shra, comparisons, bra.
_WIDE = frozenset((0x19, 0x1B, 0x1D, 0x25, 0x26, *range(0x28, 0x2F)))
T = TypeVar("T")
_WORD = (1 << 64) - 1
_MOST = 10_000  # operations, so that no expression runs for ever


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a variable is: in "memory" at `address`; in a `register`; it is the "value"
    `data` and in no place, so that it cannot be set; or in `pieces`, each with its size in bytes,
    None where one is nowhere.
    """

    kind: Literal["memory", "register", "value", "pieces"]
    address: int = 0
    register: str = ""
    data: bytes = b""
    pieces: tuple[tuple[Place | None, int], ...] = ()

    def bytes(self, size: int, registers: Mapping[str, int], read: Read) -> builtins.bytes | None:
        """Its `size` bytes; None where memory cannot be read, or some of them are nowhere."""
        match self.kind:
            case "memory":
                found = read(self.address, size)
                return found if len(found) == size else None
            case "register":
                value, width = registers.get(self.register), _width(self.register)
                if value is None or size > width:
                    return None
                return value.to_bytes(width, "little")[:size]
            case "value":
                is_whole = size <= max(len(self.data), 8)
                return self.data[:size].ljust(size, b"\0") if is_whole else None
        found, holes = self.parts(size, registers, read)
        return found if not holes else None

    def parts(
        self, size: int, registers: Mapping[str, int], read: Read
    ) -> tuple[builtins.bytes, tuple[tuple[int, int], ...]]:
        """Its `size` bytes, as far as they are somewhere, and where they are not: from and to
        which of them, in order."""
        found = bytearray()
        holes: list[tuple[int, int]] = []
        for place, count in self.pieces or ((self, size),):
            part = place.bytes(count, registers, read) if place is not None else None
            if part is None:
                start = holes.pop()[0] if holes and holes[-1][1] == len(found) else len(found)
                holes.append((start, len(found) + count))
            found += part if part is not None else bytes(count)
        if len(found) < size:
            holes.append((len(found), size))
        inside = [(start, min(stop, size)) for start, stop in holes if start < size]
        return bytes(found[:size].ljust(size, b"\0")), tuple(inside)

    @property
    def settable(self) -> bool:
        """True where something can be put."""
        if self.kind == "pieces":
            return all(place is not None and place.settable for place, _ in self.pieces)
        return self.kind != "value"

    def put(
        self, data: builtins.bytes, registers: Mapping[str, int]
    ) -> tuple[list[tuple[int, builtins.bytes]], dict[str, int]]:
        """The writes after which it has these bytes: to memory, by address, and to registers, whose
        other bytes stay as they are.

        Raises ValueError where it is a value alone, or a register that is not known.
        """
        memory: list[tuple[int, builtins.bytes]] = []
        changed: dict[str, int] = {}
        at = 0
        for place, size in self.pieces if self.kind == "pieces" else ((self, len(data)),):
            part = data[at : at + size]
            at += size
            if place is None or place.kind in ("value", "pieces"):
                raise ValueError("it is in no place that can be set")
            if place.kind == "memory":
                memory.append((place.address, part))
                continue
            before = changed.get(place.register, registers.get(place.register))
            if before is None:
                raise ValueError(f"{place.register} cannot be set")
            mask = (1 << 8 * len(part)) - 1
            changed[place.register] = before & ~mask | int.from_bytes(part, "little")
        return memory, changed


class _NoPlaceError(Exception):
    """The variable is nowhere, or where only somebody else can tell."""


def locate(
    local: Local, pc: int, registers: Mapping[str, int], read: Read, cfa: int | None = None,
    entry: Entry | None = None,
) -> Place | None:  # fmt: skip
    """The place where a variable is while a frame's `registers` are these; None where it is
    nowhere: it was optimised out.

    `pc` is what `DebugInfo.variables` was asked with.  `cfa` is the frame's canonical frame
    address, which frames without rbp need.  Registers are by name, `xmm0` among them where they
    are known; `entry` gives what one was when the function was entered, None where nobody knows.
    """
    if local.expression is None:
        return Place("value", data=local.constant) if local.constant is not None else None
    if not local.expression:
        return None
    registers = registers if "rip" in registers else {**registers, "rip": pc}
    try:
        return _Machine(local, registers, read, cfa, entry).run(local.expression)
    except (_NoPlaceError, IndexError, ZeroDivisionError):  # none, or one that is cut off
        return None


class _Machine:
    """Runs expressions of one frame."""

    def __init__(
        self, local: Local, registers: Mapping[str, int], read: Read, cfa: int | None,
        entry: Entry | None,
    ):  # fmt: skip
        self.local, self.registers, self.read, self.cfa = local, registers, read, cfa
        self.entry = entry

    def run(self, expression: bytes) -> Place:
        r = Cursor(expression)
        stack: list[int] = []
        pieces: list[tuple[Place | None, int]] = []
        found: Place | None = None  # what the operations since the last piece say
        for _ in range(_MOST):
            if r.at >= len(expression):
                break
            op = r.fixed(1)
            if 0x50 <= op <= 0x6F or op == 0x90:  # DW_OP_reg, DW_OP_regx
                found = Place("register", register=_register(r.uleb() if op == 0x90 else op - 0x50))
            elif op == 0x9E:  # DW_OP_implicit_value
                found = Place("value", data=r.bytes(r.uleb()))
            elif op == 0x9F:  # DW_OP_stack_value
                found = Place("value", data=stack.pop().to_bytes(8, "little"))
            elif op == 0x93:  # DW_OP_piece
                size = r.uleb()
                pieces.append((found or (_memory(stack) if stack else None), size))
                found, stack = None, []
            elif op in _WIDE and self.local.sure:
                raise _NoPlaceError
            else:
                self.operation(op, r, stack)
        if pieces:
            return Place("pieces", pieces=tuple(pieces))
        return found or _memory(stack)

    def operation(self, op: int, r: Cursor, stack: list[int]) -> None:
        """One that leaves its result on the stack."""
        if op in _CONSTANTS:
            stack.append(_CONSTANTS[op](r) & _WORD)
        elif op in _BINARY:
            right, left = stack.pop(), stack.pop()
            stack.append(int(_BINARY[op](left, right)) & _WORD)
        elif 0x70 <= op <= 0x8F or op == 0x92:  # DW_OP_breg, DW_OP_bregx
            number = r.uleb() if op == 0x92 else op - 0x70
            stack.append(self.register(_register(number)) + r.sleb() & _WORD)
        elif op == 0x91:  # DW_OP_fbreg
            stack.append(self.frame() + r.sleb() & _WORD)
        elif op == 0x9C:  # DW_OP_call_frame_cfa
            stack.append(self.known(self.cfa))
        elif op in (0x06, 0x94):  # DW_OP_deref, DW_OP_deref_size
            size = r.fixed(1) if op == 0x94 else 8
            data = self.read(stack.pop(), size)
            stack.append(self.known(int.from_bytes(data, "little") if len(data) == size else None))
        elif op in (0xA1, 0xA2, 0xFB, 0xFC) and self.local.indexed is not None:  # DW_OP_addrx
            stack.append(self.local.indexed(r.uleb()))
        elif op in (0x28, 0x2F):  # DW_OP_bra, DW_OP_skip
            distance = r.fixed(2, signed=True)
            if op == 0x2F or stack.pop():
                r.at += distance
        elif op in _SHUFFLES:
            _SHUFFLES[op](stack)
        elif op == 0x15:  # DW_OP_pick
            stack.append(stack[-1 - r.fixed(1)])
        elif op == 0x23:  # DW_OP_plus_uconst
            stack.append(stack.pop() + r.uleb() & _WORD)
        elif op in _UNARY:
            stack.append(_UNARY[op](stack.pop()) & _WORD)
        elif op != 0x96:  # DW_OP_nop
            stack.append(self.of_others(op, r))

    def frame(self) -> int:
        """The address that DW_OP_fbreg counts from."""
        place = self.run(self.known(self.local.frame))
        return self.register(place.register) if place.kind == "register" else place.address

    def of_others(self, op: int, r: Cursor) -> int:
        """A result that the caller has to know: a register when the function was entered."""
        if op not in (0xA3, 0xF3):  # DW_OP_implicit_pointer, typed values...
            raise _NoPlaceError
        expression = r.bytes(r.uleb())  # DW_OP_entry_value, DW_OP_GNU_entry_value
        if self.entry is None or len(expression) != 1 or not 0x50 <= expression[0] <= 0x6F:
            raise _NoPlaceError
        return self.known(self.entry(_register(expression[0] - 0x50)))

    def register(self, name: str) -> int:
        return self.known(self.registers.get(name))

    @staticmethod
    def known(found: T | None) -> T:
        """The bytes there.  Raises _NoPlaceError where nothing is."""
        if found is None:
            raise _NoPlaceError
        return found


def _width(register: str) -> int:
    """The bytes of a register that are told: those of wider vectors are not."""
    return 16 if register.startswith("xmm") else 8


def _memory(stack: list[int]) -> Place:
    return Place("memory", address=stack[-1])


def _register(number: int) -> str:
    if number >= len(_REGISTERS):
        raise _NoPlaceError
    return _REGISTERS[number]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _quotient(left: int, right: int) -> int:
    left, right = _signed(left), _signed(right)
    found = abs(left) // abs(right)
    return -found if (left < 0) != (right < 0) else found


def _rotate(stack: list[int]) -> None:
    stack[-3:] = [stack[-1], stack[-3], stack[-2]]


def _swap(stack: list[int]) -> None:
    stack[-2:] = [stack[-1], stack[-2]]


_CONSTANTS: dict[int, Callable[..., int]] = {
    0x03: lambda r: r.fixed(8),
    0x08: lambda r: r.fixed(1),
    0x09: lambda r: r.fixed(1, signed=True),
    0x0A: lambda r: r.fixed(2),
    0x0B: lambda r: r.fixed(2, signed=True),
    0x0C: lambda r: r.fixed(4),
    0x0D: lambda r: r.fixed(4, signed=True),
    0x0E: lambda r: r.fixed(8),
    0x0F: lambda r: r.fixed(8, signed=True),
    0x10: lambda r: r.uleb(),
    0x11: lambda r: r.sleb(),
    **{0x30 + number: lambda _, number=number: number for number in range(32)},  # DW_OP_lit
}
_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda a, b: a & b,
    0x1B: _quotient,
    0x1C: lambda a, b: a - b,
    0x1D: lambda a, b: a % b,
    0x1E: lambda a, b: a * b,
    0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b,
    0x24: lambda a, b: a << b if b < 64 else 0,
    0x25: lambda a, b: a >> b if b < 64 else 0,
    0x26: lambda a, b: _signed(a) >> min(b, 63),
    0x27: lambda a, b: a ^ b,
    0x29: lambda a, b: a == b,
    0x2A: lambda a, b: _signed(a) >= _signed(b),
    0x2B: lambda a, b: _signed(a) > _signed(b),
    0x2C: lambda a, b: _signed(a) <= _signed(b),
    0x2D: lambda a, b: _signed(a) < _signed(b),
    0x2E: lambda a, b: a != b,
}
_UNARY: dict[int, Callable[[int], int]] = {
    0x19: lambda a: abs(_signed(a)),
    0x1F: lambda a: -a,
    0x20: lambda a: ~a,
}
_SHUFFLES: dict[int, Callable[[list[int]], object]] = {
    0x12: lambda stack: stack.append(stack[-1]),
    0x13: lambda stack: stack.pop(),
    0x14: lambda stack: stack.append(stack[-2]),
    0x16: _swap,
    0x17: _rotate,
}
