"""Objects to link and an arena to link them into, for all tests of the linker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel.arena import Arena
from jitkernel.linker import Linker

sys.path.insert(0, str(Path(__file__).parent))


from native import free_base, lookup


@pytest.fixture
def arena():
    a = Arena(capacity=64 << 20, base=free_base(64 << 20))
    yield a
    a.close()


@pytest.fixture
def linker(arena):
    """A linker that finds what GNU ld finds: where that puts `_GLOBAL_OFFSET_TABLE_`, nothing is."""
    arena.reserve("rodata", 48)
    yield Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    arena.check()
