"""A plugin of pytest for `mutate.py`: runs the tests that a file names, and writes how each ended.

`MUTATE_TESTS` is a file with one test a line (all are run where there is none), `MUTATE_TOLD` the
one that gets a line `{"test", "seconds", "passed"}` of JSON for each test that ran.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_seconds: defaultdict[str, float] = defaultdict(float)
_failed: set[str] = set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    file = os.environ.get("MUTATE_TESTS")
    if file is None:
        return
    wanted = Path(file).read_text(encoding="utf-8").splitlines()
    order = {test: position for position, test in enumerate(wanted)}
    others = [item for item in items if item.nodeid not in order]
    config.hook.pytest_deselected(items=others)
    items[:] = sorted(
        (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
    )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = report.nodeid
    _seconds[test] += report.duration
    if not report.passed:  # skipped, too: such a test tells nothing
        _failed.add(test)
    if report.when == "teardown":
        with open(os.environ["MUTATE_TOLD"], "a", encoding="utf-8") as file:
            told = {"test": test, "seconds": _seconds[test], "passed": test not in _failed}
            file.write(json.dumps(told) + "\n")
