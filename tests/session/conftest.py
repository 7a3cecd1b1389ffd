"""Sessions for the tests: one a module, emptied before each test and its books proved after."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def fresh() -> Iterator[Callable[..., Session]]:
    """Makes sessions with settings of their own."""
    made: list[Session] = []

    def make(**settings: Any) -> Session:
        session = Session(**({"capacity": 64 << 20} | settings))
        made.append(session)
        return session

    yield make
    for session in made:
        session.close()
