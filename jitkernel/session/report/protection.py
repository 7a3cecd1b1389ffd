"""Why the processor refused an instruction where it tells no address: general protection and stack
faults (Intel SDM, volume 3, 7.15, #GP and #SS).  Start from `refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jitkernel.regex import regex

_MEMORY = regex(r"(?:(\w+) ptr )?(\w\w:)?\[([^]]+)\]")
_NONE = "that cannot exist (not canonical)"
_ALIGNED = {"xmmword": 16, "ymmword": 32, "zmmword": 64}  # bytes
_SYSTEM = regex(
    r"(?:hlt|(?:in|out)(?:s[bwd])?|cli|sti|clts|rdmsr|wrmsr|rdpmc|xsetbv|swapgs|inv\w+|wb\w*invd|"
    r"l[gi]dt|lldt|ltr|lmsw|iret\w*|sysret|sysexit|mov)"
)


def refusal(mnemonic: str, operands: str, after: int, registers: Mapping[str, int]) -> str:
    """The reason in words; `after` is where the instruction ends, in bytes of memory."""
    name = mnemonic.rpartition(" ")[2]  # behind a prefix
    match = _MEMORY.search(operands)
    if match is not None and name != "lea":
        address = None if match[2] else _address(match[3], {**registers, "rip": after})
        if address is None:
            return f"access to an address {_NONE}, or not aligned"
        if not _exists(address):
            return f"access to an address {_NONE}: {address:#x}"
        wide = _ALIGNED.get(match[1] or "", 1)
        if address % wide:
            return (
                f"access to address {address:#x}, which is no multiple of {wide}: {name} needs one"
            )
    if name.startswith(("push", "pop", "call", "ret", "leave", "enter")):
        if not _exists(stack := registers.get("rsp", 0)):
            return f"access to an address {_NONE}: {stack:#x}, of rsp"
    if name.startswith(("call", "jmp", "ret")):
        target = registers.get(operands)
        return f"jump to an address {_NONE}" + (f": {target:#x}" if target else "")
    if match is None and _SYSTEM.fullmatch(name):
        return "an instruction that only the system may execute"
    return "the processor refuses this instruction with these operands (general protection fault)"


def _exists(address: int) -> bool:
    """True of an address whose upper bits are all alike (Intel SDM, volume 1, 3.3.7.1)."""
    return address >> 47 in (0, (1 << 17) - 1)


def _address(expression: str, registers: Mapping[str, int]) -> int | None:
    """The number that `rax + rcx*4 - 0x10` is; None where a register is none that is known."""
    total, sign = 0, 1
    for word in re.findall(r"[+-]|[^\s+-]+", expression):
        name, _, scale = word.partition("*")
        if word in "+-":
            sign = -1 if word == "-" else 1
            continue
        value = int(name, 0) if name[0].isdigit() else registers.get(name)
        if value is None:
            return None
        total += sign * value * int(scale or 1)
    return total & (1 << 64) - 1
