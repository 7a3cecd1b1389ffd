"""A session that nobody refers to any more, and what must not be taken for one."""

from __future__ import annotations

import copy
import os
import pickle
import warnings
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError

np = pytest.importorskip("numpy")

SQ = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@n = global i32 5"


def made(executor: str) -> Session:
    session = Session(executor=executor, capacity=16 << 20, spare=False)
    session.run(SQ)
    assert session["sq"](3) == 9
    return session


def held() -> tuple[int, set[str]]:
    """Descriptors, and processes that were started or are not waited for."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), set(children)


@pytest.mark.parametrize("executor", ["process", "inline"])
def test_nothing_is_left(executor):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(executor)
        before = held()
        for _ in range(2):
            made(executor)
        assert held() == before


@pytest.mark.parametrize("executor", ["process", "inline"])
def test_whoever_has_a_part_of_it_has_it(executor):
    function, look = made(executor)["sq"], made(executor).inspect
    front, variable = made(executor).frontend, made(executor)["n"]
    assert function(4) == 16
    assert set(look.program.cells.get(1).names) == {"sq", "n"}
    front.core.engine.ready()
    assert variable.value == 5


def test_a_function_of_ctypes_has_it():
    function = made("inline")["sq"].ctypes
    assert function(5) == 25


@pytest.mark.parametrize("executor", ["process", "inline"])
def test_what_was_given_stays(executor):
    session = made(executor)
    array, view = session.array(3), session["n"].array
    array[:] = view
    result = session.run("@sq(7)")
    del session
    assert array.sum() == 15 and view == 5
    assert result.value == 49 and "i32 49" in repr(result)


def test_it_cannot_be_doubled():
    """The copy would end with the original, or the original with it."""
    with made("process") as session:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(UsageError, match="stays in its process"):
                way(session)
        with pytest.raises(UsageError, match=r"the \.value of variables"):
            pickle.dumps(session["n"])
        assert copy.copy(session["n"]).value == 5
        assert session["sq"](3) == 9
