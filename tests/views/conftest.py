"""GNU ld and objdump as the judges of what views of machine code show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session

sys.path.insert(0, str(Path(__file__).parent.parent / "linker"))
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session for a whole file, in which its `CELLS` have run."""
    with Session(capacity=64 << 20) as running:
        for cell in request.module.CELLS:
            running.run(cell)
        yield running
