"""What a check of clang's undefined behaviour sanitizer has found.  Start from
`undefined_behaviour`.

In trap mode a failed check is the instruction `ud1`, whose operand is the check's number.  Source:
clang.llvm.org/docs/UndefinedBehaviorSanitizer.html; the numbers are in clang's SanitizerHandler.h.
"""

from __future__ import annotations

from jitkernel.arena import Arena

__all__ = ["undefined_behaviour"]

_UD1 = bytes.fromhex("670fb9")  # ud1l N(%eax), %eax: a byte that says whether N follows, and N
_NONE, _BYTE = 0x00, 0x40
_CHECKS = {
    0: "an addition of signed integers overflowed",
    1: "code was reached that was said never to be",
    3: "a division by zero, or of the least integer by -1",
    5: "a floating-point value does not fit the integer type",
    6: "a function was called through a pointer of another type",
    8: "a builtin function was called with 0, for which it has no result",
    10: "a value was loaded that its type does not have (of a _Bool or an enum)",
    11: "a function ended without returning its value",
    12: "a multiplication of signed integers overflowed",
    13: "the negation of a signed integer overflowed",
    16: "a null pointer was passed where none may be",
    17: "a null pointer was returned where none may be",
    18: "an index is out of the array's bounds",
    19: "a pointer was moved beyond its address space, or from a null pointer",
    20: "a shift by a negative count, by the type's width or more, or of a negative value",
    21: "a subtraction of signed integers overflowed",
    22: "a pointer is null, misaligned, or points to an object that is too small",
    23: "an assumption about a pointer's alignment is wrong",
    24: "an array of variable length has no positive length",
}


def undefined_behaviour(arena: Arena, pc: int) -> str:
    """What the check at an address of code has found; "" where there is none."""
    if pc not in arena or arena.zone_of(pc) != "text":
        return ""
    code = arena.read(pc, len(_UD1) + 2)
    form, number = code[-2:]
    if not code.startswith(_UD1) or form not in (_NONE, _BYTE):
        return ""
    number = number if form == _BYTE else 0
    return _CHECKS.get(number, f"check {number} of the sanitizer failed")
