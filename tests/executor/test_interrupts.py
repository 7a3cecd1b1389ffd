"""Whatever a cell waits for or does for ever, it can be stopped, and its state is kept."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import struct
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jitkernel import procfs
from jitkernel.errors import Interrupted
from jitkernel.executor import interrupt
from jitkernel.executor.records import Outcome
from jitkernel.settings import SessionSettings
from tests.busy import meanwhile, soon, until
from tests.seeds import sampled

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program

LOOP = program("for (;;);")
PRINT = program('for (;;) puts("again");')
SORT = program(
    "qsort(malloc(8000), 1000, 8, compare);",
    "int compare(const void *a, const void *b) { for (;;); }",
)
LOCK = program("pthread_mutex_lock(&m);\npthread_mutex_lock(&m);", "pthread_mutex_t m;")
JOIN = program(
    "pthread_join(start(idle), 0);", p.THREAD, "void *idle(void *x) { sleep(1000); return 0; }"
)
#: The second thread holds what the cell's thread wants, and waits for what that one holds.
DEADLOCK = program(
    """  held = 0;
  pthread_mutex_lock(&m);
  start(other);
  while (!held) usleep(100);
  pthread_mutex_lock(&n);""",
    p.THREAD,
    """pthread_mutex_t m, n;
volatile int held;
void *other(void *x) {
  pthread_mutex_lock(&n);
  held = 1;
  pthread_mutex_lock(&m);
  return 0;
}""",
)
HEAVY = program("char *a = malloc(1 << 26);\nfor (;;) memset(a, 1, 1 << 26);")

# name: program, seconds to be stopped in, at most
ENDLESS = {
    "loop": (LOOP, 0.2),
    "printf": (PRINT, 0.2),
    "sleep": (program("sleep(1000);"), 0.2),
    "sleep again and again": (program("for (;;) sleep(1000);"), 0.2),
    "read of a pipe": (program("int fds[2];\npipe(fds);\nread(fds[0], ret, 1);"), 0.2),
    "poll": (program("poll(0, 0, -1);"), 0.2),
    "comparison inside qsort": (SORT, 0.2),
    "memset of 64 MB": (HEAVY, 0.3),
    "mutex": (LOCK, 2.0),
    "join": (JOIN, 2.0),
    "deadlock of two threads": (DEADLOCK, 2.0),
    "system": (program('system("sleep 1000");'), 2.0),
    "system that ignores SIGINT": (program("""system("trap '' INT; sleep 1000");"""), 2.0),
}
SPINNER = program("start(spinner);", p.THREAD, p.SPIN_THREAD)
READ_SPINS = program("*ret = spins;", "extern volatile long spins;")


def interrupted(lab: Lab, ir: str, bound: float, delay: float = 0.1) -> Outcome:
    """Run a program, interrupt it after a while; from then on it has `bound` seconds to end."""
    at = lab.place(ir)
    stopped = []

    def stop() -> bool:
        stopped.append(time.monotonic())
        return lab.executor.interrupt()

    with soon(stop, delay):
        outcome = lab.executor.call(at, 0)
    in_time(stopped[-1], bound)
    return outcome


def test_a_press_is_told_that_it_counts_though_the_call_ends_first(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, counted = os.eventfd_write, []

    def slow(fd: int, value: int) -> None:
        write(fd, value)
        over.wait(20)

    over = threading.Event()
    monkeypatch.setattr(os, "eventfd_write", slow)
    at = lab.place(LOOP)

    def press() -> bool:
        counted.append(lab.executor.interrupt())
        return counted[-1]

    with soon(press):
        assert lab.executor.call(at, 0).kind == "interrupted"
        over.set()
    assert counted.count(True) == 1
    monkeypatch.undo()
    assert not lab.executor.interrupt()
    assert lab.square(9) == 81


@pytest.mark.parametrize("name", ENDLESS)
@timed
def test_interrupt(lab: Lab, name: str) -> None:
    ir, bound = ENDLESS[name]
    pid = lab.executor.pid
    outcome = interrupted(lab, ir, bound)
    assert outcome.kind == "interrupted"
    assert not outcome.respawned and lab.executor.pid == pid
    assert outcome.record is not None and outcome.record.pc
    assert outcome.record.cause == ""
    lab.assert_sound()


@pytest.mark.parametrize("name", sampled(ENDLESS, 3))
@timed
def test_interrupt_beside_a_thread_that_runs_session_code(fresh: Lab, name: str) -> None:
    ir, bound = ENDLESS[name]
    fresh.run(p.KEEP)
    assert fresh.run(SPINNER).kind == "ok"
    pid = fresh.executor.pid
    outcome = interrupted(fresh, ir, bound)
    assert outcome.kind == "interrupted"
    assert not outcome.respawned and fresh.executor.pid == pid
    fresh.assert_sound()

    def spins() -> int:
        return struct.unpack("<Q", fresh.run(READ_SPINS, ret_size=8).result)[0]

    before = spins()
    until(lambda: spins() != before)
    assert spins() > before  # it goes on


@timed
def test_with_every_signal_blocked_the_process_has_to_go(fresh: Lab) -> None:
    fresh.executor.settings = SessionSettings(interrupt_grace=0.4)
    outcome = interrupted(fresh, program(p.BLOCK + "for (;;);"), 0.7)
    assert (outcome.kind, outcome.respawned) == ("interrupted", True)
    assert "lost" in outcome.lost
    fresh.assert_sound(heap=False)


#: Nothing of the program's comes after what is waited for, so nothing of it is ever stopped.
JUMP = """typedef void thunk(void *, long *, long *);
#define JUMP(f, a, b, c) \\
  __attribute__((musttail)) return ((thunk *)f)((void *)a, (long *)b, (long *)c)
"""
TAILS = {
    "sleep": program("JUMP(sleep, 1000, 0, 0);", JUMP),
    "poll": program("JUMP(poll, 0, 0, -1);", JUMP),
    "usleep of a function that is called": program(
        "JUMP(nap, 0, 0, 0);",
        JUMP,
        "void nap(void *fn, long *args, long *ret) { JUMP(usleep, 900000000, 0, 0); }",
    ),
}


@pytest.mark.parametrize("name", TAILS)
@timed
def test_an_interrupt_that_meets_a_tail_call_counts(lab: Lab, name: str) -> None:
    pid = lab.executor.pid
    outcome = interrupted(lab, TAILS[name], 0.5)
    assert outcome.kind == "interrupted" and not outcome.respawned
    assert outcome.record is not None and outcome.record.cause == ""
    assert lab.executor.pid == pid
    lab.assert_sound()


def test_a_time_limit_that_meets_a_tail_call_is_told_as_such(lab: Lab) -> None:
    lab.executor.settings = SessionSettings(cell_timeout=0.1)
    outcome = lab.executor.call(lab.place(TAILS["sleep"]), 0)
    assert outcome.kind == "interrupted" and outcome.record is not None
    assert outcome.record.cause == "timeout"
    lab.executor.settings = SessionSettings()
    lab.assert_sound()


def test_an_interrupt_at_the_moment_of_the_answer_counts(lab: Lab) -> None:
    """It is asked for when the call may have returned, but nobody has been told so yet."""
    at = lab.place(program('puts("the last");'))
    wanted = []

    def output(name: str, data: bytes) -> None:
        time.sleep(0.002)  # the answer is there by now
        wanted.append(lab.executor.interrupt())

    lab.executor.on_output = output
    kinds = [lab.executor.call(at, 0).kind for _ in range(20)]
    assert all(wanted) and kinds == ["interrupted"] * 20
    lab.assert_sound()


def test_an_interrupt_of_calls_in_a_row_counts(lab: Lab) -> None:
    nap = lab.place(TAILS["sleep"])
    with soon(lab.executor.interrupt):
        outcome = lab.executor.call_many([nap])
    assert (outcome.kind, outcome.done) == ("interrupted", 1)
    lab.assert_sound()


def slow_library(folder: Path, wait: str) -> str:
    """A library that does this as it is loaded."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    path, source = folder / "slow.so", folder / "slow.c"
    source.write_text(
        "unsigned sleep(unsigned); int usleep(unsigned);\n"
        f"__attribute__((constructor)) void slow(void) {{ {wait} }}\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, source], check=True)
    return str(path)


def test_an_interrupt_of_a_library_that_is_being_loaded(fresh: Lab, tmp_path: Path) -> None:
    """What it does as it is loaded lasts for ever; one wish to stop it is enough."""
    path = slow_library(tmp_path, "for (;;) sleep(1000);")
    fresh.executor.settings = SessionSettings(interrupt_grace=0.3)
    fresh.square(2)
    with soon(fresh.executor.interrupt), pytest.raises(Interrupted, match="started again"):
        fresh.executor.services.library(path)
    assert fresh.executor.services.libraries == () and fresh.square(3) == 9


@pytest.mark.parametrize("wait", ["usleep(300000);", "for (;;) sleep(1000);"])
def test_what_a_callback_raises_while_a_library_is_loaded(
    fresh: Lab, tmp_path: Path, wait: str
) -> None:
    """It is raised there, and not by the next call."""
    path = slow_library(tmp_path, wait)
    fresh.executor.settings = SessionSettings(interrupt_grace=0.3)
    fresh.square(2)

    def fail(seconds: float) -> None:
        raise ZeroDivisionError

    fresh.executor.on_wait = fail
    with pytest.raises(ZeroDivisionError):
        fresh.executor.services.library(path)
    fresh.executor.on_wait = None
    assert fresh.square(3) == 9


def test_impatient_interrupts(lab: Lab) -> None:
    at = lab.place(PRINT)
    with meanwhile(lab.executor.interrupt, 0.0005):
        outcomes = [lab.executor.call(at, 0) for _ in range(30)]
    assert [o.kind for o in outcomes] == ["interrupted"] * 30
    assert not any(o.respawned for o in outcomes)
    lab.assert_sound()


def test_a_late_interrupt_hits_no_other_call(lab: Lab) -> None:
    at = lab.place(p.SQUARE)
    began, kinds = time.monotonic(), set()
    with meanwhile(lab.executor.interrupt):
        while time.monotonic() - began < 0.5:
            outcome = lab.executor.call(at, 0, struct.pack("<q", 3), 8)
            assert not outcome.respawned, outcome
            kinds.add(outcome.kind)
    assert kinds <= {"ok", "interrupted"}
    lab.assert_sound()


@timed
def test_time_limit(lab: Lab) -> None:
    lab.executor.settings = SessionSettings(cell_timeout=0.2)
    began = time.monotonic()
    outcome = lab.executor.call(lab.place(LOOP), 0)
    assert outcome.kind == "interrupted" and outcome.record is not None
    assert outcome.record.cause == "timeout"
    assert time.monotonic() - began >= 0.2
    in_time(began, 0.5)
    lab.assert_sound()


def test_keyboard_interrupt_of_a_plain_program(lab: Lab) -> None:
    at = lab.place(LOOP)
    press = partial(os.kill, os.getpid(), signal.SIGINT)
    with soon(lambda: lab.executor.busy and press() is None):
        outcome = lab.executor.call(at, 0)
    assert outcome.kind == "interrupted"
    lab.assert_sound()


def test_interrupt_of_a_call_whose_process_still_starts(fresh: Lab) -> None:
    at = fresh.place(LOOP)

    for delay in (0.0, 0.001, 0.005, 0.01, 0.02):
        fresh.executor.respawn()
        with soon(fresh.executor.interrupt, delay):
            outcome = fresh.executor.call(at, 0)
        assert outcome.kind == "interrupted" and not outcome.respawned


@pytest.mark.parametrize(
    ("state", "computed", "seconds"), [("S", 0, 2), ("R", 0.2, 2), ("R", 0.05, 10)]
)
def test_the_grace_period_is_longer_where_a_process_gets_no_processor(
    monkeypatch: pytest.MonkeyPatch, state: str, computed: float, seconds: float
) -> None:
    times = itertools.chain([1.0], itertools.repeat(1.0 + computed))
    monkeypatch.setattr(interrupt, "_send", lambda pid, number: None)
    monkeypatch.setattr(procfs, "first_thread", lambda pid: state)
    monkeypatch.setattr(procfs, "processor_time", lambda pid, first: next(times))
    control: Any = {}
    stop = interrupt.Interruption(2**31 - 1, 7, control, 2.0, "", 100.0)
    moment = next(t for t in itertools.count(100.0, interrupt.AGAIN) if not stop.step(t))
    assert 0 <= moment - 100 - seconds < 2 * interrupt.AGAIN


def test_parked_threads_run_no_session_code(fresh: Lab) -> None:
    """They stop at their next instruction of it, wherever they are, and go on as if nothing was."""
    assert fresh.executor.threads == 0
    assert fresh.run(SPINNER).kind == "ok"
    assert fresh.executor.threads == 1
    at = fresh.linker.symbols["spins"].address

    def spins() -> bytes:
        return fresh.arena.read(at, 8)

    for _ in range(50):
        fresh.executor.park()
        before = spins()
        time.sleep(0.001)
        assert spins() == before
        fresh.executor.unpark()
        assert until(lambda: spins() != before)  # noqa: B023 (at once)
    assert fresh.square(3) == 9
    fresh.executor.respawn()
    assert fresh.square(3) == 9 and fresh.executor.threads == 0


DEAF = program(
    p.BLOCK + "start(spinner);\nsigprocmask(SIG_SETMASK, &before, 0);",
    p.THREAD,
    p.SPIN_THREAD,
)


@timed
def test_threads_that_block_every_signal_are_parked_and_do_not_keep_a_cell(fresh: Lab) -> None:
    """The system ends a process whose thread blocks the signal of its own fault."""
    fresh.run(p.KEEP)
    assert fresh.run(DEAF).kind == "ok"
    pid = fresh.executor.pid
    at = fresh.linker.symbols["spins"].address
    for _ in range(5):
        fresh.executor.park()
        before = fresh.arena.read(at, 8)
        time.sleep(0.01)
        assert fresh.arena.read(at, 8) == before
        fresh.executor.unpark()
    assert interrupted(fresh, ENDLESS["sleep"][0], 0.5).kind == "interrupted"
    assert fresh.run(DEAF).kind == "ok"
    assert interrupted(fresh, ENDLESS["poll"][0], 0.5).kind == "interrupted"
    assert fresh.executor.pid == pid and fresh.executor.threads == 2
    fresh.assert_sound()
