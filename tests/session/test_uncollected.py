"""What takes a program apart leaves no garbage: nothing is collected meanwhile, nor for the log."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import EvictError
from jitkernel.rollback import RecordedDict, Rollback

CELLS = 40


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that are collected, while hardly anything may pile up."""
    found: list[int] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(10, 2, 2)
    try:
        yield found
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)


def test_operations_on_many_cells(s: Session, collections: list[int]) -> None:
    cells = ["define i32 @f0() {\n  ret i32 0\n}"]
    for i in range(1, CELLS):
        call = f"  %r = call i32 @f{i - 1}()\n  ret i32 %r"
        cells.append(f"declare i32 @f{i - 1}()\ndefine i32 @f{i}() {{\n{call}\n}}")
    s.run_many(cells)
    for step in (lambda: s.evict("f0", cascade=True), s.undo, s.redo):
        collections.clear()
        step()
        assert len(collections) < CELLS // 4, step
        assert gc.isenabled()


def test_collections_go_on_after_a_refusal(s: Session) -> None:
    s.run("define i32 @f() {\n  ret i32 0\n}")
    s.run("declare i32 @f()\ndefine i32 @g() {\n  %r = call i32 @f()\n  ret i32 %r\n}")
    with pytest.raises(EvictError):
        s.evict("f")
    assert gc.isenabled()


def test_the_log_keeps_no_object_for_each_entry() -> None:
    rollback, table = Rollback(), RecordedDict[int, int]()
    with rollback.atomic():
        before = len(gc.get_objects())
        for i in range(1000):
            table[i] = i
        assert len(gc.get_objects()) - before < 100
