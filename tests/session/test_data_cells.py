"""Cells of which only data is left (strings of call lines) go, unless something points to them."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from jitkernel.executor.pointers import Unreadable, pointed_to, program_words
from tests.looping import looping

pytestmark = pytest.mark.process

THREAD = looping("usleep(1000);", "begin")


def fill(s, many=30):
    """Strings that nobody keeps; what is on the program's stack of the first is written over."""
    for i in range(many):
        s.run(f'@puts("one of many {i}")')


def live(s):
    return {c.number for c in s.cells}


def test_strings_that_nobody_keeps_go(s):
    fill(s)
    first, last = min(live(s)), max(live(s))
    told = {n for n, _ in s.gc(dry_run=True).cells}
    assert live(s) == set(range(first, last + 1)), "only told"
    assert {n for n, _ in s.gc().cells} == told
    assert len(told) > 20 and not live(s) & told
    s.check()
    assert s.undo()[0].startswith("undone: collection of cells")
    assert live(s) == set(range(first, last + 1))
    s.redo()
    assert not live(s) & told
    s.gc(undo=True)
    assert s.inspect.engine.arena.zones["data"].list.used < 300
    s.check()


def test_what_the_environment_keeps_stays(s):
    """putenv() keeps the pointer itself: in a table that malloc() made, in libc's data."""
    kept = s.run('declare i32 @putenv(ptr)\n@putenv("KEPT_BY_US=yes")').cell.number
    fill(s)
    s.gc(undo=True)
    assert kept in live(s)
    assert s.run('@puts(@getenv("KEPT_BY_US"))').stdout == "yes\n"


def test_what_the_heap_keeps_stays(s):
    s.run(
        "@p = global ptr null\ndefine void @put(ptr %s) {\n  %p = load ptr, ptr @p\n  %q = getelementptr i8, ptr %p, i64 4003\n  store ptr %s, ptr %q, align 1\n  ret void\n}"
    )
    s.run("@p = @malloc(8000)")
    kept = s.run('@put("on the heap, at an odd address")').cell.number
    fill(s)
    s.gc(undo=True)
    assert kept in live(s)
    s.run("@put(null)")
    fill(s)
    s.gc(undo=True)
    assert kept not in live(s)


def test_what_a_variable_an_undo_step_or_a_result_has_stays(s):
    s.run("@p = global ptr null\ndefine ptr @same(ptr %s) {\n  ret ptr %s\n}")
    number = s.run('@p = "kept by a variable"').cell.number
    fill(s)
    s.gc()
    assert number in live(s)
    s.run("@p = null")
    s.gc()
    assert number in live(s), "an undo gives the variable its pointer back"
    fill(s)
    s.gc()
    assert number in live(s), "calls that only print do not push that undo step out"
    s.gc(undo=True)
    assert number not in live(s), "that undo step is forgotten"
    two = s.run('@same("kept by its result")').cell.number
    fill(s)
    s.gc()
    assert two in live(s)
    assert s.run(f"@puts(_{two})").stdout == "kept by its result\n"
    s.results.forget()
    fill(s)
    s.gc(undo=True)
    assert two not in live(s)


def test_a_string_that_a_kept_one_points_to_stays(s):
    s.run("define ptr @same(ptr %s) {\n  ret ptr %s\n}\n@p = global ptr null")
    inner = s.run('@same("the inner one")').cell.number
    outer = s.run("@p = @same({ ptr _, i64 7 })").cell.number
    s.results.forget()
    fill(s)
    s.gc(undo=True)
    assert {inner, outer} <= live(s)


def test_nothing_goes_while_threads_of_the_program_live(s):
    s.run(THREAD, "c")
    fill(s)
    before = live(s)
    s.run("@begin()")
    assert not s.gc(dry_run=True).cells
    s.run("@finish()")
    s.gc()
    assert len(live(s)) < len(before)


def test_guard_pages_hinder_nothing(s):
    """They lie within what is mapped, as in the stacks of threads from glibc 2.42 on."""
    if tuple(map(int, platform.release().split("-")[0].split(".")[:2])) < (6, 15):
        pytest.skip("Linux tells of guard pages from 6.15 on")
    s.run("declare ptr @mmap(ptr, i64, i32, i32, i32, i64)\ndeclare i32 @munmap(ptr, i64)")
    s.run("declare i32 @madvise(ptr, i64, i32)")
    s.run("@place = @mmap(ptr null, i64 8192, i32 3, i32 34, i32 -1, i64 0)")
    install = 102  # MADV_GUARD_INSTALL
    assert s.run(f"@madvise(load @place, i64 4096, i32 {install})").value == 0
    fill(s)
    before = live(s)
    s.gc()
    assert len(live(s)) < len(before)
    s.run("@munmap(load @place, i64 8192)")


def test_they_go_by_themselves(s):
    fill(s, 300)
    most = 0
    for i in range(900):
        s.run(f'@puts("and then {i}")')
        most = max(most, len(s.cells))
    assert most < 700, "of 1,200 that came"
    assert s.inspect.engine.arena.zones["data"].list.used < 700 * 32
    s.check()


def test_constants_of_instructions_go_too(s):
    for i in range(400):
        s.run(f"%x = fadd double 0.{i + 1}, 0.1\n%y = call double @sin(double %x)")
    s.gc(undo=True)
    assert len(s.cells) < 20
    assert s.inspect.engine.arena.zones["rodata"].list.used < 2000


def test_words_are_found_wherever_they_are():
    ranges = [(0x12FF_FF00, 0x1300_0100, 1), (0x5555_0000, 0x5555_0010, 2)]
    word = (0x1300_0000).to_bytes(8, "little")
    assert pointed_to([b"\0" * 13 + word + b"\0" * 5], ranges) == {1}
    assert pointed_to([(0x12FF_FF00).to_bytes(8, "little")], ranges) == {1}
    assert pointed_to([(0x1300_0100).to_bytes(8, "little")], ranges) == set()
    assert pointed_to([(0x5555_000F).to_bytes(8, "little") * 2], ranges) == {2}
    assert pointed_to([word[1:], b"\0" * 64, b""], ranges) == set()
    high = 0x7F12_3456_7890
    assert pointed_to([high.to_bytes(8, "little")], [(high, high + 16, 3)]) == {3}


def test_memory_that_cannot_be_read_is_no_reason_to_free(s, monkeypatch: pytest.MonkeyPatch):
    fill(s)
    before = live(s)
    with pytest.raises(Unreadable):
        list(program_words(0, s.inspect.engine.arena))

    def refuse(pid: int, arena: object) -> list[bytes]:
        raise Unreadable("no")

    monkeypatch.setattr("jitkernel.session.residency.garbage.program_words", refuse)
    assert not s.gc().cells and live(s) == before
    assert Path(f"/proc/{s.inspect.engine.executor.pid}").exists()
