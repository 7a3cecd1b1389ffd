"""A session for a file of tests, empty for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel import Session


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--executor", default="", help="tests of sessions: process or inline, not both"
    )


@pytest.fixture(scope="module")
def shared() -> Iterator[Session]:
    with Session(capacity=64 << 20) as session:
        yield session


@pytest.fixture
def s(shared: Session) -> Iterator[Session]:
    """The module's session, empty; its books are proved when the test is over."""
    shared.reset()
    yield shared
    shared.check()
