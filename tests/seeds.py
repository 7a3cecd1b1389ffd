"""Random tests, and grids: a few seeds or cases each time, more of them in `make soak`.  Start from
`seeds`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["few", "sampled", "seeds"]


def few(cases: Iterable[Any], quick: int) -> list[Any]:
    """Parameters of a test: all but the first `quick` are for `make soak`."""
    return [
        case if at < quick else pytest.param(case, marks=pytest.mark.soak)
        for at, case in enumerate(cases)
    ]


def sampled(cases: Iterable[Any], each: int) -> list[Any]:
    """Parameters of a test that proves one thing: all but one in `each` are for `make soak`."""
    return [
        pytest.param(case, marks=pytest.mark.soak) if at % each else case
        for at, case in enumerate(cases)
    ]


def seeds(quick: int, all: int) -> list[Any]:
    """The seeds from 0 on, as parameters."""
    return few(range(all), quick)
