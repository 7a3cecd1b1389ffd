"""One pool for the tests that only ask; those that break workers start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.settings import SessionSettings


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilerPool]:
    with CompilerPool(SessionSettings(spare=False)) as pool:
        yield pool
