"""Fields of relocations that are apart, against the rule as it stands: no byte is in two."""

import random

import pytest

from jitkernel.elf.constants import RELA
from jitkernel.elf.relocations import Relocations
from jitkernel.errors import LinkError
from jitkernel.linker.builder import _check_apart, _widest
from jitkernel.linker.x86_64 import GOTPCRELX, REX_GOTPCRELX, TABLE

_BEFORE = {GOTPCRELX: 2, REX_GOTPCRELX: 3}
_KINDS = ([2, 4], [2, 4, 41, 42], [1], [1, 2, 10], [41], [42, 4], [999, 2], [999], [12, 14, 1])


def _overlap(rows):
    """True if a byte is written for two relocations."""
    spans = [
        (offset - _BEFORE.get(kind, 0), offset, offset + TABLE[kind].field)
        for offset, kind in rows if kind in TABLE
    ]  # fmt: skip
    spans.sort(key=lambda span: span[1:])
    # What stands before a field is its instruction's: only fields before it may not reach there.
    pairs = ((a, b) for n, b in enumerate(spans) for a in spans[:n])
    return any(before < end for (_, _, end), (before, _, _) in pairs)


@pytest.mark.parametrize("kinds", _KINDS, ids=str)
def test_relocations_of_one_field_are_refused_in_whatever_order(kinds):
    rng = random.Random(str(kinds))
    found = set()
    for _ in range(400):
        rows = [(rng.randrange(44), rng.choice(kinds)) for _ in range(rng.randint(1, 6))]
        rows = sorted(rows) if rng.random() < 0.3 else rows
        packed = [RELA.pack(at, rng.randrange(4) << 32 | kind, 0) for at, kind in rows]
        relocations = Relocations(b"".join(packed))
        widest = _widest(kind for _, kind in rows)
        expected = _overlap(rows)
        found.add(expected)
        if expected:
            with pytest.raises(LinkError, match="two relocations of one field"):
                _check_apart(relocations, widest, "it")
        else:
            _check_apart(relocations, widest, "it")
    assert found == ({False} if kinds == [999] else {False, True})
