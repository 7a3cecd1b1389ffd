"""Where x86-64 instructions begin and end, and where their memory operand is.

Start from `decode`.  It tells lengths and fields, not meanings: enough to find the instruction that
a relocated field belongs to.  Source: Intel SDM, volume 2, 2.1 to 2.3.5 (formats, VEX), 2.7 (EVEX)
and appendix A (opcode maps).
"""

from __future__ import annotations

from typing import Final

from jitkernel.record import NamedTuple

_VEX: Final = (0xC4, 0xC5, 0x62)  # what VEX and EVEX prefixes begin with
PREFIXES: Final = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3))

#: Of one-byte opcodes: those with a ModRM byte, and what immediate follows (`z`: 2 or 4 bytes by
#: the operand size, `v`: 8 too, `a`: an address).
_MODRM: Final = frozenset(
    (
        *(op for op in range(0x40) if op & 7 < 4), 0x63, 0x69, 0x6B, *range(0x80, 0x90), 0xC0,
        0xC1, 0xC6, 0xC7, *range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF,
    )
)  # fmt: skip
_IMMEDIATES: Final[dict[int, str]] = {
    **{op: "b" for op in range(0x40) if op & 7 == 4},
    **{op: "z" for op in range(0x40) if op & 7 == 5},
    **dict.fromkeys((0x68, 0x69, 0x81, 0xA9, 0xC7), "z"),
    **dict.fromkeys((0x6A, 0x6B, 0x80, 0x83, 0xA8, 0xC0, 0xC1, 0xC6, 0xCD, 0xEB), "b"),
    **dict.fromkeys((*range(0x70, 0x80), *range(0xB0, 0xB8), *range(0xE0, 0xE8)), "b"),
    **dict.fromkeys(range(0xB8, 0xC0), "v"),
    **dict.fromkeys(range(0xA0, 0xA4), "a"),
    **dict.fromkeys((0xC2, 0xCA), "w"),
    0xC8: "wb",
} | {0xE8: "d", 0xE9: "d"}
#: Of opcodes behind 0F: those without a ModRM byte, and those that one byte follows.
_NO_MODRM_0F: Final = frozenset(
    (
        *range(0x04, 0x0D), 0x0E, *range(0x30, 0x38), 0x77, *range(0x80, 0x90), 0xA0, 0xA1, 0xA2,
        0xA8, 0xA9, 0xAA, *range(0xC8, 0xD0),
    )
)  # fmt: skip
_BYTE_0F: Final = frozenset(
    (0x0F, 0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6)
)


class Instruction(NamedTuple):
    """The places where its parts begin, as offsets into the code; -1 for what it does not have.

    `prefix` is the offset of a REX, VEX or EVEX prefix, `kind` its first byte (0: none); `map` is 1
    for one-byte opcodes, 0x0F, 0x38 and 0x3A for the others.  `displacement` is the field of a
    memory operand, `immediate` what follows all that.
    """

    start: int
    end: int
    prefix: int
    kind: int
    map: int
    opcode: int
    modrm: int
    displacement: int
    immediate: int


def decode(code: bytes | bytearray, start: int) -> Instruction:
    """The instruction at `start`.  Raises IndexError where the code ends within it; what is no
    instruction has some length."""
    return Instruction._make(_parts(code, start))


def _parts(code: bytes | bytearray, start: int) -> tuple[int, ...]:
    """The same as a plain tuple."""
    at, small, address = start, False, 8
    while (byte := code[at]) in PREFIXES:
        small, address = small or byte == 0x66, 4 if byte == 0x67 else address
        at += 1
    prefix, kind, wide, map = -1, 0, False, 1
    if byte & 0xF0 == 0x40:
        prefix, kind, wide = at, byte, bool(byte & 8)
        at += 1
        byte = code[at]
    if not kind and byte == 0xC5:
        prefix, kind, map = at, byte, 0x0F
        at += 2
    elif not kind and byte in (0xC4, 0x62):
        prefix, kind = at, byte
        map = {2: 0x38, 6: 0x38, 3: 0x3A}.get(code[at + 1] & (7 if byte == 0x62 else 31), 0x0F)
        at += 3 if byte == 0xC4 else 4
    elif byte == 0x0F:
        map = 0x0F
        at += 1
        if code[at] in (0x38, 0x3A):
            map = code[at]
            at += 1
    opcode = at
    byte = code[at]
    at += 1
    if map == 1:
        has_modrm, wanted = byte in _MODRM, _IMMEDIATES.get(byte, "")
    elif map == 0x0F:
        has_modrm = byte not in _NO_MODRM_0F or (kind in _VEX and byte != 0x77)
        wanted = (
            "b" if byte in _BYTE_0F else "d" if byte & 0xF0 == 0x80 and kind not in _VEX else ""
        )
    else:
        has_modrm, wanted = True, "b" if map == 0x3A else ""
    modrm = displacement = -1
    if has_modrm:
        modrm, at, displacement = _operand(code, at)
        if map == 1 and byte in (0xF6, 0xF7) and code[modrm] >> 3 & 7 < 2:
            wanted = "b" if byte == 0xF6 else "z"
    size = 0
    if wanted == "b":  # most are of this kind
        size = 1
    elif wanted:
        z = 2 if small and not wide else 4
        sizes = {"b": 1, "w": 2, "d": 4, "z": z, "v": 8 if wide else z, "a": address}
        size = sizes.get(wanted) or sum(sizes[letter] for letter in wanted)
    end = at + size
    if end > len(code):
        raise IndexError(end)
    return start, end, prefix, kind, map, opcode, modrm, displacement, at if size else -1


def _operand(code: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """A ModRM byte with what belongs to it: where it is, where that ends, its displacement."""
    modrm, mod, rm = at, code[at] >> 6, code[at] & 7
    at += 1
    if mod == 3:
        return modrm, at, -1
    size = (0, 1, 4)[mod]
    if rm == 4:
        if mod == 0 and code[at] & 7 == 5:
            size = 4
        at += 1
    elif mod == 0 and rm == 5:
        size = 4
    return modrm, at + size, at if size else -1


def instruction_at(code: bytes | bytearray, start: int, field: int) -> Instruction | None:
    """The instruction that has the byte at `field`, read from `start` on, where one begins."""
    behind, operands = _BEHIND, _OPERANDS
    try:
        while start <= field:
            at = start
            if code[at] & 0xF0 == 0x40:
                at += 1
            if (size := behind[code[at]]) >= 0:  # its length is looked up
                modrm = code[at + 1]
                end = at + 1 + size + operands[modrm]
                if modrm in _SIB_ALONE and code[at + 2] & 7 == 5:
                    end += 4
                if end <= field:
                    start = end
                    continue
            found = _parts(code, start)
            start = found[1]
            if start > field:
                return Instruction._make(found)
    except IndexError:
        pass
    return None


def _modrm_size(modrm: int) -> int:
    """The bytes of a ModRM byte and what belongs to it, less the displacement that a SIB byte
    alone tells of."""
    return _operand(bytes((modrm, 0, 0, 0)), 0)[1]


_OPERANDS: Final = [_modrm_size(modrm) for modrm in range(256)]
_SIB_ALONE: Final = frozenset(range(0x04, 0x40, 8))  # where a base of 5 is a displacement
#: Of one-byte opcodes with a ModRM byte: the immediate's size where that is always the same, else
#: -1.
_SIZES: Final = {"": 0, "b": 1}
_BEHIND: Final = [
    _SIZES.get(_IMMEDIATES.get(op, ""), -1) if op in _MODRM and op not in (0xF6, 0xF7) else -1
    for op in range(256)
]
