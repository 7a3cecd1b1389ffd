"""x86-64: the relocation table, the instructions that may be relaxed, the stubs.

Start from `TABLE`.  Source: System V ABI, AMD64 supplement, 4.4.1 (relocation types) and B.2
(optimise GOTPCRELX relocations).  Nothing here knows of sessions or arenas: bytes and numbers only.
"""

from __future__ import annotations

import struct
from typing import Final

from jitkernel.record import NamedTuple

STUB_SIZE: Final = 16

PC32: Final = 2
BRANCH: Final = 4  # R_X86_64_PLT32: all branches are kept under this type
GOTPCREL: Final = 9
R_32: Final = 10
R_32S: Final = 11
GOTPCRELX: Final = 41
REX_GOTPCRELX: Final = 42
SLOT32: Final = 255  # ours, in no object: the address of the GOT slot, where R_X86_64_32 was


class Relocation(NamedTuple):
    """One row: *value* is `base + A`, minus P where `relative`, minus GOT where `got`.

    `base` is S (the symbol's address), L (where a branch to it goes), G (its GOT slot), Z (its
    size) or 0 (the GOT itself).  The value must lie in [`low`, `high`]; it fills `field` bytes.
    """

    number: int
    name: str
    formula: str
    base: str
    relative: bool
    got: int
    field: int
    low: int
    high: int
    section: str = "AMD64 psABI 4.4.1"


def _row(number: int, name: str, formula: str, field: int, sign: str) -> Relocation:
    bits = 8 * field
    low = 0 if sign == "unsigned" else -(1 << bits - 1)
    high = (1 << bits - 1) - 1 if sign == "signed" else (1 << bits) - 1
    base, relative = formula[0], formula.endswith("- P")
    got = -formula.endswith("- GOT")
    if formula.startswith("GOT"):
        base, got = "0", 1
    return Relocation(number, f"R_X86_64_{name}", formula, base, relative, got, field, low, high)


#: by number; signed and unsigned fields are checked as such, `either` takes what fits one of both
TABLE: Final[dict[int, Relocation]] = {
    row.number: row
    for row in (
        _row(1, "64", "S + A", 8, "either"),
        _row(2, "PC32", "S + A - P", 4, "signed"),
        _row(3, "GOT32", "G + A - GOT", 4, "signed"),
        _row(4, "PLT32", "L + A - P", 4, "signed"),
        _row(9, "GOTPCREL", "G + A - P", 4, "signed"),
        _row(10, "32", "S + A", 4, "unsigned"),
        _row(11, "32S", "S + A", 4, "signed"),
        _row(12, "16", "S + A", 2, "either"),
        _row(13, "PC16", "S + A - P", 2, "signed"),
        _row(14, "8", "S + A", 1, "either"),
        _row(15, "PC8", "S + A - P", 1, "signed"),
        _row(24, "PC64", "S + A - P", 8, "either"),
        _row(25, "GOTOFF64", "S + A - GOT", 8, "either"),
        _row(26, "GOTPC32", "GOT + A - P", 4, "signed"),
        _row(27, "GOT64", "G + A - GOT", 8, "either"),
        _row(28, "GOTPCREL64", "G + A - P", 8, "either"),
        _row(29, "GOTPC64", "GOT + A - P", 8, "either"),
        _row(30, "GOTPLT64", "G + A - GOT", 8, "either"),
        _row(31, "PLTOFF64", "L + A - GOT", 8, "either"),
        _row(32, "SIZE32", "Z + A", 4, "unsigned"),
        _row(33, "SIZE64", "Z + A", 8, "either"),
        _row(41, "GOTPCRELX", "G + A - P", 4, "signed"),
        _row(42, "REX_GOTPCRELX", "G + A - P", 4, "signed"),
        _row(43, "CODE_4_GOTPCRELX", "G + A - P", 4, "signed"),
        _row(46, "CODE_5_GOTPCRELX", "G + A - P", 4, "signed"),
        _row(49, "CODE_6_GOTPCRELX", "G + A - P", 4, "signed"),
        _row(SLOT32, "32 through its GOT slot", "G + A", 4, "unsigned"),
    )
}

_THREAD_LOCAL = (
    "it is thread-local, and this is no known way to reach where that is: compile with -fPIC, "
    "or clang's -femulated-tls"
)
_BOUNDS = "it is for code that checks bounds with MPX, which processors no longer have"
_DYNAMIC = "that is for a program's loader, and not for an object"

#: types that no field of an object is written for, by number: the psABI's names, and why
REFUSED: Final[dict[int, tuple[str, str]]] = {
    number: (f"R_X86_64_{name}", why)
    for why, names in (
        (
            _DYNAMIC,
            {
                5: "COPY", 6: "GLOB_DAT", 7: "JUMP_SLOT", 8: "RELATIVE", 16: "DTPMOD64",
                36: "TLSDESC", 37: "IRELATIVE", 38: "RELATIVE64",
            },
        ),
        (_BOUNDS, {39: "PC32_BND", 40: "PLT32_BND"}),
        (
            _THREAD_LOCAL,
            {
                17: "DTPOFF64", 18: "TPOFF64", 19: "TLSGD", 20: "TLSLD", 21: "DTPOFF32",
                22: "GOTTPOFF", 23: "TPOFF32", 34: "GOTPC32_TLSDESC", 35: "TLSDESC_CALL",
                44: "CODE_4_GOTTPOFF", 45: "CODE_4_GOTPC32_TLSDESC", 47: "CODE_5_GOTTPOFF",
                48: "CODE_5_GOTPC32_TLSDESC",
                50: "CODE_6_GOTTPOFF", 51: "CODE_6_GOTPC32_TLSDESC",
            },
        ),
    )
    for number, name in names.items()
}  # fmt: skip
#: R_X86_64_NONE, and what gcc -fvtable-gc leaves for `ld --gc-sections`: no field is written
IGNORED: Final = frozenset((0, 250, 251))


def type_name(number: int) -> str:
    """The psABI's name of a relocation type; its number where it has none of it."""
    if number in TABLE:
        return TABLE[number].name
    return REFUSED[number][0] if number in REFUSED else f"relocation type {number}"


def refusal_of(number: int) -> str:
    """The reason that a relocation type is refused."""
    return REFUSED[number][1] if number in REFUSED else "this relocation type is not known"


#: relocation types that only calls and jumps have
BRANCHES: Final = frozenset((BRANCH, 31))


def is_branch(kind: int, code: bytes | bytearray, offset: int) -> bool:
    """True if the field of a relocation in code is that of a call or jump, also as older compilers
    mark them."""
    return kind == BRANCH or (kind == PC32 and code[offset - 1 : offset] in (b"\xe8", b"\xe9"))


_DISPLACEMENT = struct.Struct("<i")
_IMMEDIATE = struct.Struct("<I")
_LOW, _HIGH = -(1 << 31), (1 << 31) - 1
_BINOPS = frozenset((0x03, 0x0B, 0x13, 0x1B, 0x23, 0x2B, 0x33, 0x3B))
#: opcodes that `relax` knows; everything else keeps its GOT slot
RELAXABLE: Final = _BINOPS | {0x85, 0x8B, 0xFF}


def relax(
    view: memoryview,
    at: int,
    base: int,
    original: tuple[int, int, int],
    value: int,
    entry: int,
    slot: int,
) -> bool:
    """Write the instruction around a GOTPCRELX field for where its symbol is now.

    `at` is the field's offset in `view` and `base` the address of `view[0]`; `original` are the
    bytes opcode, modrm and rex (0: none), so that any form can be made from any other.  `value`
    is the symbol's address, `entry` where branches to it go; `slot` is the address of its GOT slot,
    or 0 to ask for a form without one.  False, and nothing written, when no such form reaches.

    | original                     | relaxed (B.2)            | needs                          |
    | ---------------------------- | ------------------------ | ------------------------------ |
    | mov slot(%rip), %reg   8b    | lea sym(%rip), %reg  8d  | +/-2 GiB                       |
    | call *slot(%rip)    ff /2    | addr32 call sym   67 e8  | +/-2 GiB                       |
    | jmp *slot(%rip)     ff /4    | jmp sym; nop   e9 .. 90  | +/-2 GiB                       |
    | test %reg, slot(%rip)  85    | test $sym, %reg   f7 /0  | 31 bits (REX.W), 32 (none)     |
    | op slot(%rip), %reg 03..3b   | op $sym, %reg     81 /n  | the same                       |
    """
    opcode, modrm, rex = original
    here = base + at
    if slot:
        return _write(view, at, rex, opcode, modrm, slot - here - 4)
    if opcode == 0x8B:
        return _write(view, at, rex, 0x8D, modrm, value - here - 4)
    if opcode == 0xFF and modrm == 0x15:
        return _write(view, at, 0, 0x67, 0xE8, entry - here - 4)
    if opcode == 0xFF and modrm == 0x25:
        distance = entry - here - 3
        if not _LOW <= distance <= _HIGH:
            return False
        view[at - 2] = 0xE9
        _DISPLACEMENT.pack_into(view, at - 1, distance)
        view[at + 3] = 0x90
        return True
    if opcode == 0x85 or opcode in _BINOPS:
        wide = rex & 8
        if not 0 <= value <= (_HIGH if wide else 0xFFFF_FFFF):
            return False
        register = modrm >> 3 & 7
        new_rex = (rex & ~4) | (rex & 4) >> 2  # the register moves from the reg to the rm field
        operation = 0xC0 | register if opcode == 0x85 else 0xC0 | opcode & 0x38 | register
        if rex:
            view[at - 3] = new_rex
        view[at - 2] = 0xF7 if opcode == 0x85 else 0x81
        view[at - 1] = operation
        _IMMEDIATE.pack_into(view, at, value)
        return True
    return False


def _write(view: memoryview, at: int, rex: int, opcode: int, modrm: int, distance: int) -> bool:
    if not _LOW <= distance <= _HIGH:
        return False
    if rex:
        view[at - 3] = rex
    view[at - 2] = opcode
    view[at - 1] = modrm
    _DISPLACEMENT.pack_into(view, at, distance)
    return True


def answer(number: int) -> bytes:
    """`mov dword ptr [rdx], number; ret`: a thunk that answers a number (SDM volume 2, MOV)."""
    return b"\xc7\x02" + _DISPLACEMENT.pack(number) + b"\xc3\xcc"


def jump_stub(stub: int, target: int) -> bytes:
    """`jmp target` at `stub`, filled up with int3."""
    return b"\xe9" + _DISPLACEMENT.pack(target - stub - 5) + b"\xcc" * 11


def far_stub(stub: int, slot: int) -> bytes:
    """`jmp *slot(%rip)` at `stub`: leaves every register as it is."""
    return b"\xff\x25" + _DISPLACEMENT.pack(slot - stub - 6) + b"\xcc" * 10


def raise_stub(stub: int, handler: int) -> bytes:
    """`call handler` at `stub`: the handler finds the stub five bytes before its return address."""
    return b"\xe8" + _DISPLACEMENT.pack(handler - stub - 5) + b"\xcc" * 11


#: Functions that every object has of its own, since they tell libc whose code it is that they are
#: given (glibc's libc_nonshared.a): what does it in libc, and the code before `dso` is known:
#: `xor %esi, %esi; lea dso(%rip), %rdx`, `lea dso(%rip), %rsi`, `lea dso(%rip), %rcx`.
REGISTERING: Final = {
    "atexit": ("__cxa_atexit", b"\x31\xf6\x48\x8d\x15"),
    "at_quick_exit": ("__cxa_at_quick_exit", b"\x48\x8d\x35"),
    "pthread_atfork": ("__register_atfork", b"\x48\x8d\x0d"),
}


def registering_stub(name: str, stub: int, dso: int) -> tuple[bytes, int]:
    """The code of one of `REGISTERING` in one object, as `atexit` is `__cxa_atexit(function, 0,
    dso)`.

    The code, and where in it the branch to what libc has is to be written.
    """
    code = REGISTERING[name][1]
    code += _DISPLACEMENT.pack(dso - stub - len(code) - 4) + b"\xe9"  # jmp
    return code + bytes(4) + b"\xcc" * (STUB_SIZE - len(code) - 4), len(code)
