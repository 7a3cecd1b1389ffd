"""Threads that look for unwind records without pause, while code comes and goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import LinkError
from tests.session.at_work import Work

LOOK = """#include <pthread.h>
struct bases { void *text, *data, *function; };
const void *_Unwind_Find_FDE(void *, struct bases *);
_Atomic long looks, misses;
volatile int stop;
static pthread_t threads[8];
static void *work(void *none) {
    struct bases bases;
    void *here;
    __asm__("lea 0(%%rip), %0" : "=r"(here));
    const void *first = _Unwind_Find_FDE(here, &bases);
    for (; !stop; looks++)
        if (!first || _Unwind_Find_FDE(here, &bases) != first) misses++;
    return 0;
}
int go(void) {
    int failed = 0;
    stop = 0;
    for (int i = 0; i < 8; i++) failed |= pthread_create(threads + i, 0, work, 0);
    return failed;
}
void finish(void) { stop = 1; for (int i = 0; i < 8; i++) pthread_join(threads[i], 0); }"""


@pytest.mark.process
def test_threads_find_what_stays_at_every_moment(s: Session) -> None:
    """Also those that are in the unwinder as code comes, goes, moves and wakes."""
    s.run(LOOK, "c")
    other = "define i64 @other(i64 %x) uwtable {{\n  %r = mul i64 %x, {}\n  ret i64 %r\n}}"
    asleep = (
        "define i64 @asleep{0}(i64 %x) uwtable {{\n  %r = call i64 @other(i64 %x)\n  ret i64 %r\n}}"
    )
    s.run(other.format(0), cell_id="other")
    for number in range(3):
        s.run(asleep.format(number))
    s.hibernate(*(f"asleep{number}" for number in range(3)))
    s.call("go")
    executor = s.inspect.executor
    for number in range(3):
        s.run(other.format(number), cell_id="other")
        s.run(asleep.format("_again"))
        assert s.call(f"asleep{number}", 2) == 2 * number
        s.evict("asleep_again")
        s.undo()
        with pytest.raises(LinkError):
            s.run("@nobody = external global i64\n@pointer = global ptr @nobody")
    assert s["looks"].value > 0
    s.call("finish")
    assert s.inspect.executor == executor and s["misses"].value == 0
    s.check()


@pytest.mark.process
def test_a_program_at_work_changes(s: Session, tmp_path: Path) -> None:
    work = Work(s, 1, 5, tmp_path)
    work.steps(6)
    work.finish()
    s.check()


@pytest.mark.process
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_a_program_at_work_changes_for_long(s: Session, tmp_path: Path, seed: int) -> None:
    """More threads than processors: each of them waits in the middle of something."""
    work = Work(s, seed, 5 + 5 * (seed % 2), tmp_path)
    for _ in range(6):
        work.steps(40)
        work.finish()
        s.check()
        work.start()
    work.finish()
