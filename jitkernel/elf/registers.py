"""The registers of x86-64 by name: by their numbers, by what calls do to them, and as people look
at them.  AMD64 psABI 3.2.1 and 3.6.2.
"""

from __future__ import annotations

from typing import Final

#: The general ones, by DWARF's numbers.
GENERAL: Final[tuple[str, ...]] = (
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
#: Those of them that a function leaves as they were, besides the stack pointer.
KEPT: Final = ("rbx", "rbp", "r12", "r13", "r14", "r15")
#: In the order in which people look at them.
SHOWN: Final = (
    "rip", "rsp", "rbp", "rax", "rbx", "rcx", "rdx", "rsi", "rdi",
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "eflags",
)  # fmt: skip
_PARTS = {
    **{f"r{x}x": (f"e{x}x", f"{x}x", f"{x}l", f"{x}h") for x in "abcd"},
    **{f"r{x}": (f"e{x}", x, f"{x}l") for x in ("si", "di", "bp", "sp")},
    **{f"r{n}": (f"r{n}d", f"r{n}w", f"r{n}b") for n in range(8, 16)},
}
#: The general register that a name means, or means a part of.
WHOLE: Final = {name: whole for whole, parts in _PARTS.items() for name in (whole, *parts)}
