"""Watchpoints: every write is told, in every thread, with what was there before and after."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.executor import watches
from jitkernel.session.debugging.records import Breakpoint, Event

SOURCE = """#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int g; long h[6]; struct pair { char c; int i; } pair; volatile int sink;
int fact(int n) {
  int r = 1;
  for (int i = 2; i <= n; i++)
    r *= i;
  g = r;
  return r;
}
int twice(int n) { int a = fact(n); int b = fact(a); return b; }
int many(int n) { for (int i = 0; i < n; i++) __atomic_fetch_add(&g, 1, 5); return g; }
void *add(void *p) { for (int i = 0; i < 50; i++) __atomic_fetch_add(&h[1], 1, 5); return p; }
int threads(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(t + i, 0, add, 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  return (int)h[1];
}
int copied(void) { int v = 77; memcpy(&g, &v, 4); return g; }
int system_writes(void) {
  int p[2], v = 99;
  if (pipe(p)) abort();
  write(p[1], &v, 4); read(p[0], &g, 4);
  close(p[0]); close(p[1]);
  return g;
}
int child(void) {
  int status, pid = fork();
  if (!pid) { g = 5; _exit(g); }
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}
int look(void) { sink = pair.i; pair.c = 1; return sink; }
"""


class Watcher:
    """A session whose debugger notes what happens and goes on."""

    def __init__(self, session: Session):
        self.session, self.debugger = session, session.debugger
        self.stops: list[tuple[str, str, int]] = []  # text, function, line
        self.told: list[str] = []
        self.acts: list[object] = []
        self.debugger.start()
        self.debugger.listener = self.hear

    def hear(self, event: Event) -> None:
        if event.kind == "output":
            self.told.append(event.text.strip())
        if event.kind == "stopped" and event.stopped is not None:
            frame = self.debugger.frames()[0]
            self.stops.append((event.stopped.text, frame.name, frame.line))
            if self.acts:
                act = self.acts.pop(0)
                act()  # type: ignore[operator]
            self.debugger.go()

    @property
    def texts(self) -> list[str]:
        return [text for text, *_ in self.stops]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as s:
        s.run(SOURCE, "c")
        yield s


@pytest.fixture
def watcher(session: Session) -> Iterator[Watcher]:
    session.run("g = 0; h[1] = 0;", "c")
    made = Watcher(session)
    try:
        made.debugger.watch("g")
    except UsageError as error:  # no such processor, or not allowed: it says so
        made.debugger.close()
        pytest.skip(str(error))
    for point in made.debugger.breakpoints:
        made.debugger.remove(point.number)
    yield made
    made.debugger.close()
    session.check()


def test_every_write_of_every_thread_is_told_with_what_was_there(watcher: Watcher) -> None:
    watcher.debugger.watch("g")
    assert watcher.session.call("many", 20) == 20
    assert watcher.texts == [f"g: {n} -> {n + 1}" for n in range(20)]
    assert watcher.session.call("copied") == 77  # by a library
    assert watcher.texts[20:] == ["g: 20 -> 77"]
    assert watcher.session.call("copied") == 77
    assert watcher.texts[21:] == ["g: 77, written again"]


def test_threads_that_start_later_are_watched(watcher: Watcher) -> None:
    point = watcher.debugger.watch("h[1]")
    assert watcher.session.call("threads") == 200
    assert point.hits == len(watcher.stops) == 200
    assert {name.split("+")[0] for _, name, _ in watcher.stops} == {"add"}


def test_conditions_and_counts_hold(watcher: Watcher) -> None:
    watcher.debugger.watch("g", condition="g > 5", hit_condition="% 3")
    watcher.session.call("many", 14)
    assert watcher.texts == ["g: 7 -> 8", "g: 10 -> 11", "g: 13 -> 14"]


def test_a_local_is_watched_until_its_function_returns(watcher: Watcher) -> None:
    debugger = watcher.debugger

    def watch() -> None:
        debugger.watch("r")

    debugger.set_breakpoints(SOURCE, [Breakpoint(source=SOURCE, line=8)])
    watcher.acts = [watch]
    assert watcher.session.call("twice", 3) == 720
    texts = [t for t in watcher.texts if t]
    assert texts[1:] == ["r: 1 -> 2", "r: 2 -> 6"]  # what was there before 1 is the stack's
    assert texts[0].endswith(" -> 1")
    assert [t for t in watcher.told if "returned" in t] == [
        "watchpoint 3, r: its function has returned"
    ] or watcher.told[-1].endswith("r: its function has returned")
    assert not [p for p in debugger.breakpoints if p.watch]
    debugger.set_breakpoints(SOURCE, [])


def test_a_breakpoint_behind_the_write_is_met_too(watcher: Watcher) -> None:
    """`return r` begins behind the instruction that writes."""
    debugger = watcher.debugger
    debugger.set_breakpoints(SOURCE, [Breakpoint(source=SOURCE, line=12)])
    debugger.watch("g")
    watcher.session.call("fact", 4)
    assert [text or line for text, _, line in watcher.stops] == ["g: 0 -> 24", 12]
    debugger.set_breakpoints(SOURCE, [])


def test_a_write_that_ends_a_single_step_is_told(watcher: Watcher) -> None:
    """The system sends one signal where there were two reasons."""
    debugger = watcher.debugger
    debugger.set_breakpoints(SOURCE, [Breakpoint(source=SOURCE, line=11)])
    debugger.watch("g")
    go = debugger.go
    reasons: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "stopped" and event.stopped is not None:
            reasons.append(event.stopped.text or event.stopped.reason)
            go("instruction" if len(reasons) < 6 else "continue")

    debugger.listener = hear
    watcher.session.call("fact", 4)
    assert reasons.count("g: 0 -> 24") == 1
    assert reasons[0] == "breakpoint" and "step" in reasons
    debugger.set_breakpoints(SOURCE, [])


def test_what_the_debugger_sets_is_no_write(watcher: Watcher) -> None:
    debugger = watcher.debugger
    debugger.watch("g")
    watcher.acts = [lambda: debugger.evaluate("g = 100")]
    assert watcher.session.call("many", 2) == 101
    assert watcher.texts == ["g: 0 -> 1", "g: 100 -> 101"]
    assert not watcher.told


def test_reads_are_told_where_they_are_asked_for(watcher: Watcher) -> None:
    point = watcher.debugger.watch("pair.i")
    watcher.session.call("look")
    assert not watcher.stops  # neither a read nor a write beside it
    watcher.debugger.remove(point.number)
    watcher.debugger.watch("pair.i", access="readWrite")
    watcher.session.call("look")
    assert watcher.texts == ["pair.i: 0, read, or written again"]


def test_what_the_system_writes_is_told_when_the_call_is_over(watcher: Watcher) -> None:
    point = watcher.debugger.watch("g")
    assert watcher.session.call("system_writes") == 99
    assert not watcher.stops
    words = f"watchpoint {point.number}, g: 0 -> 99, by the system or another process"
    assert watcher.told == [words]


def test_forked_children_are_not_stopped(watcher: Watcher) -> None:
    watcher.debugger.watch("g")
    assert watcher.session.call("child") == 5
    assert not watcher.stops


def test_nothing_is_watched_between_calls(watcher: Watcher) -> None:
    def events() -> int:
        names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sum("perf_event" in os.readlink(n) for n in names if os.path.islink(n))

    during: list[int] = []
    watcher.debugger.watch("g")
    watcher.acts = [lambda: during.append(events())]
    watcher.session.call("many", 1)
    assert during == [1] and not events()


def test_a_variable_that_moves_is_followed(watcher: Watcher) -> None:
    s = watcher.session
    s.run("int moves = 1;", "c")
    watcher.debugger.watch("moves")
    s.run("long moves = 2; void set(long v) { moves = v; }", "c")
    s.call("set", 3)
    assert len(watcher.stops) == 1


def test_what_cannot_be_watched_is_refused_with_words(watcher: Watcher) -> None:
    debugger = watcher.debugger
    for what, words in {
        "h": "48 bytes cannot be watched at once",
        "1 + 2": "in no memory that could be watched",
        "g = 5": "set",
        "missing": "nothing here is called missing",
    }.items():
        with pytest.raises(UsageError, match=words.replace("+", r"\+")):
            debugger.watch(what)
    with pytest.raises(UsageError, match="no multiple of 4"):
        debugger.watch(debugger.address_of("g") + 1, 4)
    with pytest.raises(UsageError, match="tells 'write' and 'readWrite'"):
        debugger.watch("g", access="read")  # type: ignore[arg-type]
    for index in range(4):
        debugger.watch(f"h[{index}]")
    with pytest.raises(UsageError, match="4 places at once: remove one"):
        debugger.watch("h[4]")
    debugger.watch("h[3]", condition="h[3] > 1")  # the same place
    assert watcher.session.call("many", 0) == 0


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "the system forbids it"), (errno.EPERM, "the system forbids it"),
        (errno.ENOSYS, "has no watchpoints"), (errno.EINVAL, "from 5.13 on"),
        (errno.EOPNOTSUPP, "no debug registers"), (errno.ENOSPC, "are in use"),
    ],
)  # fmt: skip
def test_a_system_that_refuses_is_told(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    """At once, or as the call begins that is not watched then."""
    point = watcher.debugger.watch("g")

    def refused(watch: watches.Watch, thread: int) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(watches, "_event", refused)
    with pytest.raises(UsageError, match=words):
        watcher.debugger.watch("h[1]")
    assert watcher.session.call("many", 1) == 1
    assert len(watcher.told) == 1 and words in watcher.told[0]
    assert not point.verified and words in point.message
