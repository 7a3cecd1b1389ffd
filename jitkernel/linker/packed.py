"""Which instructions are packed: they compute on several elements of a vector, or move them from
memory or to it.

Start from `is_packed`.  It reads what a disassembler wrote, of x86-64 (Intel SDM, volume 1, 10 to
15), AArch64 (`v0.4s`, `z0.s`) and RISC-V (`vadd.vv`).
"""

from __future__ import annotations

from jitkernel.regex import regex

_VECTOR = regex(r"%?\b[xyz]mm\d+")
_MOVE = regex(r"v?(mov(?!hpd)[aunh]\w*p[sd]|mov(dq[au]|nt?dq)\w*|lddqu)$")
# Packed elements are floats (`ps`, `pd`, `ph`) or integers (`p...`), or are told by the name.  Not
# packed are moves of one element, and what only looks at one.
_PACKED = regex(
    r"(?!v?(?:mov[hl]pd|(?:insert|extract)ps))v?(\w*p[sdh]|p(?!extr|insr|broadcast)[a-z]\w*|"
    r"cvt\w*2u?[dq]q|cvt\w*ph2u?w|cvtne\w+|gf2\w+|dbps\w+|mpsadbw|dp\w+|align[dq]|"
    r"mov(?:s[hl]|d)dup|maskmovdqu)$"
)
_ZEROING = regex(r"v?p?(xor|sub|cmpeq|cmpgt)\w*$")
_ELSEWHERE = regex(r"\bv\d+\.\d+[bhsd]\b|\bz\d+\.[bhsd]\b")
_RISCV = regex(r"v(?!set)[a-z0-9]+(\.[a-z]+)+$")


def is_packed(mnemonic: str, operands: str) -> bool:
    """True if an instruction is packed.  One that sets a register to zero is not, nor is one that
    copies a register, as code for single numbers does, too.

    >>> [is_packed(*text.split(" ", 1)) for text in ("addps xmm0, xmm1", "addss xmm0, xmm1")]
    [True, False]
    """
    if not _VECTOR.search(operands):
        return bool(_ELSEWHERE.search(operands)) or _RISCV.match(mnemonic) is not None
    if _MOVE.match(mnemonic):
        return "[" in operands or "(" in operands
    registers = _VECTOR.findall(operands)
    if _ZEROING.match(mnemonic) and len(set(registers)) == 1 < len(registers):
        return False
    return _PACKED.match(mnemonic) is not None
