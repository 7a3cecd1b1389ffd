"""Sessions for the tests: one a module, emptied before each test and its books proved after.

A test that takes it runs with an executor that is a process and with one that runs code in this
process, where it needs no other: those marked `process` crash, never end, start threads, or print
what the test reads.  Most of what they prove is the session's own: of three functions one runs with
both, the others in `make soak`.  `--executor inline` or `--executor process` runs all with that one
alone.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session

sys.path.insert(0, str(Path(__file__).parent))


EXECUTORS = ("process", "inline")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    only = metafunc.definition.get_closest_marker("process") is not None
    chosen = metafunc.config.getoption("--executor", "")
    kinds: list[Any] = [k for k in EXECUTORS[: 1 if only else 2] if chosen in ("", k)]
    name = f"{metafunc.module.__name__} {metafunc.function.__name__}"
    if len(kinds) == 2 and zlib.crc32(name.encode()) % 3:
        kinds[1] = pytest.param(kinds[1], marks=pytest.mark.soak)
    for name, scope in (("shared", "module"), ("either", "function")):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, kinds, indirect=True, scope=scope)


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session(capacity=64 << 20, executor=request.param) as session:
        yield session


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


@pytest.fixture
def either(fresh: Callable[..., Session], request: pytest.FixtureRequest) -> Callable[..., Session]:
    """The same, of both executors as `s` is."""

    def make(**settings: Any) -> Session:
        return fresh(**({"executor": request.param} | settings))

    return make
