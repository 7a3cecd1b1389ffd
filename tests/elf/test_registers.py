"""Which register a name is a part of: what capstone calls the registers of one number."""

from __future__ import annotations

import pytest

from jitkernel.elf.registers import GENERAL, KEPT, SHOWN, WHOLE
from jitkernel.linker.disassembly import plain


def written(*code: int) -> str:
    """The register that a `mov` of a constant writes."""
    _, _, _, operands = next(iter(plain(bytes((*code, *bytes(8))), 0)))
    return operands.partition(",")[0]


@pytest.mark.parametrize("number", range(16))
def test_parts_are_of_the_whole(number: int) -> None:
    rex, low = 0x40 | number >> 3, number & 7
    whole = written(rex | 8, 0xB8 | low)
    parts = [written(rex, 0xB8 | low), written(0x66, rex, 0xB8 | low), written(rex, 0xB0 | low)]
    if number < 4:
        parts.append(written(0xB4 | low))  # ah, ch, dh, bh
    assert whole in GENERAL
    assert {name for name, of in WHOLE.items() if of == whole} == {whole, *parts}


def test_each_is_shown_once() -> None:
    assert sorted(SHOWN) == sorted({*GENERAL, "rip", "eflags"})
    assert len(SHOWN) == len(GENERAL) + 2 and {*KEPT} < {*GENERAL}
