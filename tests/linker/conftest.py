"""Objects to link and an arena to link them into, for all tests of the linker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel.arena import Arena

sys.path.insert(0, str(Path(__file__).parent))


from native import free_base


@pytest.fixture
def arena():
    a = Arena(capacity=64 << 20, base=free_base(64 << 20))
    yield a
    a.close()
