"""Random tests, and grids: a few seeds or cases each time, more of them in `make soak`.  Start from
`seeds`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["few", "sampled", "seeds"]


def _soak(case: Any) -> Any:
    """A case as a parameter for `make soak`: a tuple has the values of several names."""
    if isinstance(case, type(pytest.param())):
        return case._replace(marks=[*case.marks, pytest.mark.soak])
    return pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.soak)


def few(cases: Iterable[Any], quick: int) -> list[Any]:
    """Parameters of a test: all but the first `quick` are for `make soak`."""
    return [case if at < quick else _soak(case) for at, case in enumerate(cases)]


def sampled(cases: Iterable[Any], each: int) -> list[Any]:
    """Parameters of a test that proves one thing: all but one in `each` are for `make soak`."""
    return [_soak(case) if at % each else case for at, case in enumerate(cases)]


def seeds(quick: int, all: int) -> list[Any]:
    """The seeds from 0 on, as parameters."""
    return few(range(all), quick)
