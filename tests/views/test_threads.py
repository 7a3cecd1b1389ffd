"""Where the program's threads are."""

from __future__ import annotations

import re

import pytest

from jitkernel import Session, views
from jitkernel.errors import UsageError
from tests.busy import until

LOOPS = """#include <pthread.h>
volatile int stop, inside;
static pthread_t threads[2];
__attribute__((noinline)) void spin(void) { __atomic_fetch_add(&inside, 1, 5); while (!stop) {} }
static void *work(void *unused) { spin(); return 0; }
int go(void) { return pthread_create(threads, 0, work, 0) | pthread_create(threads + 1, 0, work, 0); }
void finish(void) { stop = 1; pthread_join(threads[0], 0); pthread_join(threads[1], 0); }
"""


def seen(s: Session, pattern: str) -> bool:
    """Wait until a pattern is found: a thread that was stopped is in the runtime for a moment, and
    one that was waited for ends a moment later."""

    def found() -> bool:
        view = views.threads(s)
        return re.search(pattern, f"{view.text}\n{view.html}") is not None

    return until(found, pause=0.01)


@pytest.mark.process
def test_each_thread_with_the_version_that_it_is_in(s: Session) -> None:
    assert "0 threads beside" in views.threads(s).text
    number = s.run(LOOPS, "c").cell.number
    s.run("%run = call i32 @go()")
    assert until(lambda: s["inside"].value == 2)
    assert seen(s, rf"spin\+\d+, cell {number} (?:.*\n.*spin\+\d+, cell {number} )")
    text = views.threads(s).text
    assert "2 threads" in text and "work" in text and "former" not in text
    other = s.run("define void @spin() { ret void }").cell.number
    version = rf"spin\+\d+, cell {number}</td><td[^>]*>former; now cell {other}<"
    assert seen(s, version)
    s.call("finish")
    assert seen(s, r"(?m)^0 threads")
    assert views.threads(s).html.count("<tr") == 1


@pytest.mark.process
def test_code_that_was_made_anew_is_told_from_what_is_gone() -> None:
    """A thread in what a cell was before another one's change reached it, in a session that has
    never had to name an address before."""
    with Session(capacity=64 << 20) as s:
        s.run("int step(void) { return 1; }", "c")
        s.run(
            LOOPS.replace("while (!stop) {}", "while (!stop) if (step() != 1) inside += 100;"), "c"
        )
        s.call("go")
        assert until(lambda: s["inside"].value == 2)
        s.run("int step(void) { return 2; }", "c")
        assert seen(s, r"former code of cell \d+ \(spin")
        s.call("finish")


def test_in_this_process_nobody_can_tell() -> None:
    with Session(executor="inline", capacity=64 << 20) as s:
        s.run("define void @f() { ret void }")
        with pytest.raises(UsageError, match="in this process"):
            views.threads(s)
