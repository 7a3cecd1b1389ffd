"""One x86-64 instruction that is run at another address, with the effect it has at its own.

Start from `displace`.  Whoever goes over a breakpoint lets such a copy run, and the text stays as
it is: other threads meet the breakpoint meanwhile (breakpoints.py).

| instruction               | what the copy is                                                    |
| ------------------------- | ------------------------------------------------------------------- |
| `call rel32`              | `push` of its own return address, `jmp`                             |
| `call reg`, `call mem`    | `push` of the target, `push (%rsp)`, its return address above, `ret` |
| `jmp`, `jcc`, `xbegin`    | with 32 bits of distance to where it leads                          |
| `loop`, `jrcxz`           | as it is, over a `jmp`, to a `jmp`                                  |
| `syscall`                 | as it is; then `rcx` is what it would have been                     |
| with an operand `(%rip)`  | with the distance from here                                         |
| others, its own traps too | as it is                                                            |

Behind it there is a jump to what follows the instruction.  The stack, memory, flags and registers
are those that the instruction leaves, also where it faults; below the stack pointer, a call writes
8 bytes more than it has to.  Two things tell the difference: the address that x87 instructions
leave for `fnstenv`, and shadow stacks (CET), to which these calls are none.

What is done by parts has a row for each (`Row`): who stands between them is where the instruction
began, with so many bytes too many on the stack.

Source: Intel SDM, volume 2, 2.1 to 2.7 (formats) and the pages of CALL, Jcc, LOOP, PUSH, SYSCALL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from jitkernel.errors import LinkError
from jitkernel.linker.instructions import PREFIXES, Instruction, decode
from jitkernel.record import NamedTuple

#: `int3`: what a breakpoint is in the text
TRAP: Final = 0xCC
#: Bytes of the longest instruction, and of room that every copy fits in.
LONGEST, ROOM = 15, 32

_I32 = struct.Struct("<i")
_LOW, _HIGH = -(1 << 31), (1 << 31) - 1
#: By what VEX and EVEX prefixes begin with: the opcode maps that are known, and the bits behind it
#: that say which it is.
_MAPS: Final = {0xC5: (range(256), 0xFF), 0xC4: ((1, 2, 3), 31), 0x62: ((1, 2, 3, 5, 6), 7)}
_VEX: Final = frozenset(_MAPS)
#: One-byte opcodes that are none in 64-bit mode; 0xD5 begins instructions of APX.
_NONE: Final = frozenset(
    (
        0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x82, 0x9A,
        0xCE, 0xD4, 0xD5, 0xD6, 0xEA, 0x62, 0xC4, 0xC5,
    )
)  # fmt: skip
#: Prefixes that say something of an operand in memory: of a segment, of 32-bit addresses.
_OF_MEMORY: Final = frozenset((0x64, 0x65, 0x67))
_PUSH_TOP: Final = b"\xff\x34\x24"  # push (%rsp)


class NotDisplaced(LinkError):
    """An instruction that cannot be run elsewhere; nothing was changed."""


class Row(NamedTuple):
    """From this offset into the copy on, one stands at `address`, with `pushed` bytes more on the
    stack than there."""

    offset: int
    address: int
    pushed: int = 0


class Displaced(NamedTuple):
    """A copy: its code, and what the places in it stand for, ascending."""

    code: bytes
    rows: tuple[Row, ...]


def displace(data: bytes, address: int, slot: int) -> tuple[int, Displaced]:
    """The size of the instruction at `address`, which `data` begins with, and its copy at `slot`.

    Raises `NotDisplaced` with the reason where there is none.
    """
    try:
        found = decode(data, 0)
    except IndexError:
        raise _refusal(address, data, "the code ends within the instruction") from None
    code = data[: found.end]
    if reason := _unknown(code, found) or (found.end > LONGEST and "it is no instruction"):
        raise _refusal(address, code, reason)
    copy = _Copy(code, found, address, slot)
    make = _kind(code, found)
    if make is not _as_it_is and _truncates(code, found):
        raise _refusal(address, code, "processors differ in what its prefix 66 means")
    make(copy)
    return found.end, Displaced(bytes(copy.code), tuple(copy.rows))


def _refusal(address: int, code: bytes, why: str) -> NotDisplaced:
    return NotDisplaced(
        f"no breakpoint at {address:#x}: {why} ({code[:LONGEST].hex(' ')}); set it at another "
        "instruction"
    )


class _Copy:
    """A copy in the making."""

    def __init__(self, original: bytes, found: Instruction, address: int, slot: int):
        self.original, self.found = original, found
        self.address, self.slot = address, slot
        self.behind = address + found.end
        self.code = bytearray()
        self.rows = [Row(0, address)]

    def field(self, at: int) -> int:
        """The place where the distance that the original ends with, from `at` on, leads."""
        return self.behind + int.from_bytes(self.original[at:], "little", signed=True)

    def row(self, address: int, pushed: int = 0) -> None:
        """Note that what follows stands for this place."""
        self.rows.append(Row(len(self.code), address, pushed))

    def distance(self, target: int, end: int) -> bytes:
        """The distance of a target from `end`, an offset into the copy."""
        distance = target - self.slot - end
        if not _LOW <= distance <= _HIGH:
            raise _refusal(
                self.address, self.original,
                f"it leads to {target:#x}, which its copy at {self.slot:#x} does not reach",
            )  # fmt: skip
        return _I32.pack(distance)

    def jump(self, opcode: bytes, target: int) -> None:
        """A branch with 32 bits of distance."""
        self.code += opcode + self.distance(target, len(self.code) + len(opcode) + 4)

    def back(self) -> None:
        """Go on behind the original."""
        self.row(self.behind)
        self.jump(b"\xe9", self.behind)


def _unknown(code: bytes, found: Instruction) -> str:
    """The reason that an instruction is one whose parts are not known; else nothing."""
    opcode = code[found.opcode]
    if found.kind in _VEX:
        maps, mask = _MAPS[found.kind]
        return "" if code[found.prefix + 1] & mask in maps else "its opcode map is not known"
    if found.map != 1:
        return ""
    if opcode in _NONE or opcode in PREFIXES or opcode & 0xF0 == 0x40:
        return "it is no instruction, or a newer one"
    if opcode == 0x8F and code[found.modrm] & 0x38:
        return "it is no instruction, or AMD's XOP"
    if opcode == 0xFF and code[found.modrm] >> 3 & 7 == 3:
        return "it is a call to another code segment"
    return ""


def _truncates(code: bytes, found: Instruction) -> bool:
    """True if a branch has an operand size of 16 bits, which Intel's processors ignore."""
    wide = found.kind & 0xF8 == 0x48
    return not wide and 0x66 in code[: found.opcode]


def _kind(code: bytes, found: Instruction) -> Callable[[_Copy], None]:
    """The way in which an instruction is displaced."""
    opcode = code[found.opcode]
    if found.kind in _VEX:
        return _as_it_is
    if found.map == 0x0F:
        return (
            _conditional if opcode & 0xF0 == 0x80 else (_syscall if opcode == 0x05 else _as_it_is)
        )
    if found.map != 1:
        return _as_it_is
    if opcode == 0xFF and code[found.modrm] >> 3 & 7 == 2:
        return _indirect_call
    if opcode == 0xC7 and code[found.modrm] == 0xF8:
        return _xbegin
    if opcode & 0xF0 == 0x70:
        return _conditional
    return _BRANCHES.get(opcode, _as_it_is)


def _as_it_is(copy: _Copy) -> None:
    """The instruction itself, with its operand where that is."""
    found, code = copy.found, bytearray(copy.original)
    if found.modrm >= 0 and code[found.modrm] & 0xC7 == 0x05:  # mod 0, rm 5: (%rip)
        field = slice(found.displacement, found.displacement + 4)
        (distance,) = _I32.unpack(code[field])
        code[field] = copy.distance(copy.behind + distance, found.end)
    copy.code += code
    copy.back()


def _conditional(copy: _Copy) -> None:
    """`jcc`."""
    condition = copy.original[copy.found.opcode] & 15
    copy.jump(bytes((0x0F, 0x80 | condition)), copy.field(copy.found.immediate))
    copy.back()


def _jump(copy: _Copy) -> None:
    copy.jump(b"\xe9", copy.field(copy.found.immediate))


def _loop(copy: _Copy) -> None:
    """`loop`, `jrcxz` and others that only reach 127 bytes."""
    target = copy.field(copy.found.immediate)
    # Of the prefixes the one of 32 bits matters, which counts in ecx.
    prefix = b"\x67" if 0x67 in copy.original[: copy.found.opcode] else b""
    copy.code += prefix + copy.original[copy.found.opcode : copy.found.opcode + 1] + b"\x02"
    copy.row(copy.behind)
    copy.code += b"\xeb\x05"  # jmp over the next
    copy.row(target)
    copy.jump(b"\xe9", target)
    copy.back()


def _xbegin(copy: _Copy) -> None:
    """`xbegin`: where it goes on after an abort."""
    copy.jump(b"\xc7\xf8", copy.field(copy.found.immediate))
    copy.back()


def _call(copy: _Copy) -> None:
    """`call rel32`."""
    copy.code += b"\x68" + _low(copy.behind)  # push
    copy.row(copy.address, 8)
    if copy.behind > _HIGH:
        copy.code += b"\xc7\x44\x24\x04" + _high(copy.behind)  # movl, 4(%rsp)
    copy.jump(b"\xe9", copy.field(copy.found.immediate))


def _indirect_call(copy: _Copy) -> None:
    """`call reg` or `call mem`.

    The target is pushed first, by the same operand: what that reads, and how it faults, is as with
    the call, whether it is in `rsp`, above it or below it.
    """
    found, original = copy.found, copy.original
    code = bytearray(dict.fromkeys(b for b in original[: found.opcode] if b in _OF_MEMORY))
    if found.kind:  # a REX prefix comes last
        code.append(found.kind)
    start = len(code) - found.opcode
    code += original[found.opcode :]
    code[start + found.modrm] |= 0x30  # /2 to /6: push
    if code[start + found.modrm] & 0xC7 == 0x05:
        field = slice(start + found.displacement, start + found.displacement + 4)
        (distance,) = _I32.unpack(code[field])
        code[field] = copy.distance(copy.behind + distance, len(code))
    copy.code += code
    copy.row(copy.address, 8)
    copy.code += _PUSH_TOP
    copy.row(copy.address, 16)
    if copy.behind <= _HIGH:
        copy.code += b"\x48\xc7\x44\x24\x08" + _low(copy.behind)  # movq, 8(%rsp)
    else:
        copy.code += b"\xc7\x44\x24\x08" + _low(copy.behind)  # movl, 8(%rsp)
        copy.code += b"\xc7\x44\x24\x0c" + _high(copy.behind)  # movl, 12(%rsp)
    copy.code += b"\xc3"  # ret


def _syscall(copy: _Copy) -> None:
    """`syscall`, which leaves the address behind it in rcx."""
    copy.code += copy.original
    copy.row(copy.behind)
    if copy.behind <= _HIGH:
        copy.code += b"\x48\xc7\xc1" + _low(copy.behind)  # mov, rcx
    else:
        copy.code += b"\x48\xb9" + copy.behind.to_bytes(8, "little")
    copy.jump(b"\xe9", copy.behind)


def _low(address: int) -> bytes:
    return (address & 0xFFFF_FFFF).to_bytes(4, "little")


def _high(address: int) -> bytes:
    return (address >> 32).to_bytes(4, "little")


_BRANCHES: Final[dict[int, Callable[[_Copy], None]]] = {
    0xE8: _call, 0xE9: _jump, 0xEB: _jump, **dict.fromkeys(range(0xE0, 0xE4), _loop),
}  # fmt: skip
