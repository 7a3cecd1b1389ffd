"""A session for a file of tests, empty for each of them; and that a run leaves no file behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from jitkernel import Session
from tests.scratch import scratch

sys.path.insert(0, str(Path(__file__).parent))  # what tests of several folders share
# With a time limit for an example, drawing ten of them may take a second at most: less than a
# machine that does other work may need.
settings.register_profile("no time limit", deadline=None)
settings.load_profile("no time limit")
_ABSENT = str(Path(__file__).parent / "absent")  # what no process of a test imports


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--executor", default="", help="tests of sessions: process or inline, not both"
    )


_SCRATCH = pytest.StashKey[tuple[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """All of a run, its workers and what they start have a folder for temporary files, which is
    empty when it is over; pytest's own are where they always are.  Ctrl-C is heard by tests that
    press it, whoever runs them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, _ABSENT)
    os.environ["JITKERNEL_PROGRESS"] = "off"  # of no test is a note made in somebody's home
    # Where bytecode is not kept, each kernel that is started compiles all of jitkernel anew.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if hasattr(config, "workerinput"):
        return
    paths = [_ABSENT, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    config.stash[_SCRATCH] = path, _ = scratch(tempfile.gettempdir())
    os.environ["TMPDIR"] = path
    tempfile.tempdir = None


def pytest_collection_finish() -> None:
    """What pytest knows of ten thousand tests is not looked through again by each full collection
    of garbage, which is a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    path, _ = session.config.stash.get(_SCRATCH, ("", -1))
    # A test that runs pytest leaves what that keeps of its last runs.
    every = sorted(os.listdir(path)) if path else []
    left = [name for name in every if not name.startswith("pytest-of-")]
    if left and session.exitstatus == pytest.ExitCode.OK:
        print(f"\nfiles are left in the folder for temporary ones: {', '.join(left)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Also where there was no run, as for `--markers`."""
    path, held = config.stash.get(_SCRATCH, ("", -1))
    if path:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


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
