"""Threads stop for a debugger, are looked at and changed, and go on as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial

import pytest

from jitkernel import procfs
from jitkernel.arena.arena import RUNTIME
from jitkernel.errors import UsageError
from jitkernel.executor import abi, programs
from jitkernel.executor.inline import InlineExecutor
from jitkernel.executor.process import ProcessExecutor
from jitkernel.executor.records import Outcome
from jitkernel.executor.stops import Stop, Stops
from jitkernel.settings import SessionSettings
from tests.busy import until
from tests.seeds import seeds

from . import programs as p
from .conftest import Lab
from .programs import program

#: `hit` adds one, by an instruction of four bytes: `lea rax, [rdi + 1]`.
HIT = """__attribute__((naked, noinline)) long hit(long x) {
  __asm__ volatile("leaq 1(%rdi), %rax\\n\\tret");
}"""
LEA = bytes.fromhex("488d4701")
CALL_HIT = program("*ret = hit(*args);", HIT)
LOOP = program("for (;;) spins++;", "volatile long spins;")
TRAP_FLAG = 0x100


def word(value: int) -> bytes:
    return struct.pack("<q", value)


def number(outcome: Outcome) -> int:
    assert outcome.kind == "ok", outcome
    return int(struct.unpack("<q", outcome.result)[0])


class Debugger:
    """Breakpoints by hand in a laboratory, and what each stop is answered with."""

    def __init__(self, lab: Lab):
        assert isinstance(lab.executor.stops, Stops)
        self.lab, self.stops = lab, lab.executor.stops
        self.seen: list[Stop] = []
        self.slots: dict[int, int] = {}
        self.answer: Callable[[Stop], None] = self.go_on
        self.stops.on, self.stops.on_stop = True, self.stopped
        self.extents: list[object] = []

    def stopped(self, stop: Stop) -> None:
        self.seen.append(stop)
        self.answer(stop)

    def go_on(self, stop: Stop) -> None:
        """Through the displaced copy, where it is a breakpoint of ours."""
        slot = self.slots.get(stop.registers["rip"] - 1) if stop.why == "trap" else None
        flags = stop.registers["eflags"] & ~TRAP_FLAG
        self.stops.go(abi.GO, {"eflags": flags, **({"rip": slot} if slot else {})})

    def go(self, answer: int, registers: dict[str, int] | None, stop: Stop) -> None:
        self.stops.go(answer, registers)

    def put(self, address: int, data: bytes) -> None:
        at = address - self.lab.arena.base
        self.lab.arena.view[at : at + len(data)] = data

    def breakpoint_at_hit(self) -> int:
        """An int3 at `hit` of what was placed last, its instruction in a slot; the address."""
        address = self.lab.linker.symbols["hit"].address
        assert self.lab.arena.read(address, 4) == LEA
        extent = self.lab.arena.reserve("text", 16)
        jump = b"\xe9" + struct.pack("<i", address + 4 - (extent.start + 9))
        self.put(extent.start, LEA + jump)
        self.put(address, b"\xcc")
        self.extents.append(extent)
        self.slots[address] = extent.start
        self.stops.table(self.slots)
        return address

    def close(self) -> None:
        for address in self.slots:
            self.put(address, LEA[:1])
        self.stops.on_stop = None
        self.stops.on = self.stops.faults = False
        self.stops.table({})
        for extent in self.extents:
            self.lab.arena.free(extent)  # type: ignore[arg-type]


@pytest.fixture
def debugger(lab: Lab) -> Iterator[Debugger]:
    debugger = Debugger(lab)
    yield debugger
    debugger.close()
    lab.assert_sound()


@pytest.fixture
def alone(fresh: Lab) -> Iterator[Debugger]:
    debugger = Debugger(fresh)
    yield debugger
    debugger.close()


def test_a_breakpoint_stops_and_shows_registers(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(CALL_HIT)
    address = debugger.breakpoint_at_hit()
    for x in (5, -3, 1 << 40):
        assert number(lab.executor.call(at, 0, word(x), 8)) == x + 1
        stop = debugger.seen[-1]
        assert (stop.why, stop.signal, stop.code) == ("trap", "SIGTRAP", 0x80)
        assert stop.tid == lab.executor.pid and stop.threads == (stop.tid,)
        assert stop.registers["rip"] == address + 1
        assert stop.registers["rdi"] == x % 2**64
        assert set(stop.registers) == set(abi.REGISTERS)
    assert len(debugger.seen) == 3


def test_the_context_has_the_registers(debugger: Debugger) -> None:
    lab, read = debugger.lab, []

    def look(stop: Stop) -> None:
        data = procfs.memory(lab.executor.pid, stop.context + abi.UC_REGISTERS, 144)
        read.append(dict(zip(abi.REGISTERS, struct.unpack("<18Q", data), strict=True)))
        assert debugger.stops.registers(stop.tid) == stop.registers == read[0]
        debugger.go_on(stop)

    at = lab.place(CALL_HIT)
    debugger.breakpoint_at_hit()
    debugger.answer = look
    assert number(lab.executor.call(at, 0, word(7), 8)) == 8
    assert len(read) == 1


def test_registers_are_changed(debugger: Debugger) -> None:
    """The argument, and another way out: behind the instruction, its result by hand."""
    lab = debugger.lab
    at = lab.place(CALL_HIT)
    address = debugger.breakpoint_at_hit()
    ways = {
        "argument": ({"rdi": 41, "rip": debugger.slots[address]}, 42),
        "result": ({"rax": 2**64 - 9, "rip": address + 4}, -9),
    }
    for registers, expected in ways.values():
        debugger.answer = partial(debugger.go, abi.GO, registers)
        assert number(lab.executor.call(at, 0, word(5), 8)) == expected


def test_off_and_without_a_listener_breakpoints_are_gone_through(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(CALL_HIT)
    debugger.breakpoint_at_hit()
    debugger.stops.on_stop = None
    assert number(lab.executor.call(at, 0, word(5), 8)) == 6
    debugger.stops.on_stop = debugger.stopped
    debugger.answer = lambda stop: debugger.stops.go(abi.PASS)
    assert number(lab.executor.call(at, 0, word(6), 8)) == 7


def test_single_steps(debugger: Debugger) -> None:
    """From `hit` on, one instruction after another: `lea` in its slot, `jmp`, `ret`."""
    lab, places = debugger.lab, []
    at = lab.place(CALL_HIT)
    address = debugger.breakpoint_at_hit()
    slot = debugger.slots[address]

    def step(stop: Stop) -> None:
        flags = stop.registers["eflags"]
        if stop.why == "trap":
            debugger.stops.go(abi.GO, {"rip": slot, "eflags": flags | TRAP_FLAG})
            return
        assert (stop.why, stop.code) == ("step", 2)
        places.append(stop.registers["rip"])
        if len(places) == 3:
            assert stop.registers["rax"] == 6
            flags &= ~TRAP_FLAG
        debugger.stops.go(abi.GO, {"eflags": flags})

    debugger.answer = step
    assert number(lab.executor.call(at, 0, word(5), 8)) == 6
    assert places[:2] == [slot + 4, address + 4]
    assert address + 4 != places[2] and at <= places[2] < at + 200


def pause_once(lab: Lab, there: Callable[[], object]) -> threading.Thread:
    """Pause the call that is about to begin, from another thread, once it has come to some place."""

    def press() -> None:
        assert until(there)
        # A call that has just been handed over is not in progress yet.
        assert lab.executor.stops is not None and until(lab.executor.stops.pause)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def past(lab: Lab, name: str, waits: tuple[int, ...] = ()) -> Callable[[], bool]:
    """Tells whether the program has changed a variable since now, and then waits in one of some
    system calls, by their numbers."""
    at, pid = lab.linker.symbols[name].address, lab.executor.pid
    before = lab.arena.read(at, 8)

    def there() -> bool:
        if lab.arena.read(at, 8) == before:
            return False
        found = procfs.system_call(pid, pid) if waits else None
        return not waits or (found is not None and found.number in waits)

    return there


READ, SLEEPS = (0,), (35, 230)  # nanosleep, clock_nanosleep


def test_an_endless_loop_is_paused_changed_and_ended(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(LOOP)
    spins = lab.linker.symbols["spins"].address
    code = lab.cache[LOOP][1]

    def look(stop: Stop) -> None:
        assert (stop.why, stop.tid) == ("pause", lab.executor.pid)
        assert stop.registers["rip"] in code
        before = lab.arena.read(spins, 8)
        time.sleep(0.02)
        assert lab.arena.read(spins, 8) == before
        if len(debugger.seen) == 1:
            going_on = past(lab, "spins")
            debugger.stops.go()
            threads.append(pause_once(lab, going_on))
        else:
            debugger.stops.go(abi.END)

    debugger.answer = look
    threads = [pause_once(lab, past(lab, "spins"))]
    outcome = lab.executor.call(at, 0)
    for thread in threads:
        thread.join()
    assert (outcome.kind, outcome.respawned, len(debugger.seen)) == ("interrupted", False, 2)


def test_a_pause_in_a_library(debugger: Debugger) -> None:
    lab = debugger.lab
    for answer, kind in ((abi.GO, "ok"), (abi.END, "interrupted")):
        debugger.answer = partial(debugger.go, answer, None)
        text = program("begun++;\nusleep(2000000);\n*ret = 5;", "volatile long begun;")
        at = lab.place(text)
        thread = pause_once(lab, past(lab, "begun", SLEEPS))
        outcome = lab.executor.call(at, 0, b"", 8)
        thread.join()
        assert outcome.kind == kind and not outcome.respawned
        assert debugger.seen[-1].why == "pause"
        assert debugger.seen[-1].registers["rip"] not in lab.cache[text][1]


def test_pauses_around_the_end_of_a_call_hurt_nobody(debugger: Debugger) -> None:
    lab, chance = debugger.lab, random.Random(11)
    at = lab.place(program("for (volatile long i = 0; i < *args; i++);\n*ret = *args;"))
    pid, over, pressed = lab.executor.pid, threading.Event(), []
    delays = [chance.random() * 0.004 for _ in range(10_000)]

    def press() -> None:
        for delay in delays:
            if over.is_set():
                return
            time.sleep(delay)
            pressed.append(debugger.stops.pause())

    thread = threading.Thread(target=press)
    thread.start()
    calls = 0
    while len(pressed) < 400 or len(debugger.seen) < 20:
        n = chance.randrange(1, 200_000)
        assert number(lab.executor.call(at, 0, word(n), 8)) == n
        calls += 1
    over.set()
    thread.join()
    assert lab.executor.pid == pid and calls > 20
    assert {stop.why for stop in debugger.seen} == {"pause"}
    # what was asked for during one call stops no other
    assert len(debugger.seen) <= sum(pressed)


FAULTS = {
    "SIGSEGV": program("long *at = (long *)*args;\n*ret = *(volatile long *)at;"),
    "SIGFPE": program("volatile int zero = 0;\n*ret = 1 / zero;"),
    "SIGILL": program("__builtin_trap();"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_stops_first_and_ends_the_cell_then(debugger: Debugger, name: str) -> None:
    lab = debugger.lab
    at = lab.place(FAULTS[name])
    before = lab.executor.call(at, 0, word(16), 8)
    assert debugger.seen == [] and before.record is not None
    debugger.stops.faults = True
    debugger.answer = lambda stop: debugger.stops.go(abi.OWN)
    outcome = lab.executor.call(at, 0, word(16), 8)
    (stop,) = debugger.seen
    assert (stop.why, stop.signal) == ("fault", name)
    assert outcome.record is not None and not outcome.respawned
    assert (outcome.kind, outcome.record.pc) == ("fault", stop.registers["rip"])
    assert outcome.record._replace(registers={}, stack=b"") == before.record._replace(
        registers={}, stack=b""
    )
    debugger.answer = lambda stop: debugger.stops.go(abi.END)
    assert lab.executor.call(at, 0, word(16), 8).kind == "interrupted"


def test_a_fault_is_mended(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(program('__asm__ volatile("movq (%1), %0" : "=r"(*ret) : "D"(*args));'))
    good = lab.linker.symbols["hit"].address if "hit" in lab.linker.symbols else at
    debugger.stops.faults = True

    def mend(stop: Stop) -> None:
        assert stop.address == 8
        debugger.stops.go(abi.GO, {"rdi": good})

    debugger.answer = mend
    assert lab.executor.call(at, 0, word(8), 8).result == lab.arena.read(good, 8)
    assert len(debugger.seen) == 1


def test_a_fault_in_a_library_stops_and_can_end(debugger: Debugger) -> None:
    lab = debugger.lab
    debugger.stops.faults = True
    for answer, kind in ((abi.OWN, "fault"), (abi.END, "interrupted")):
        debugger.answer = partial(debugger.go, answer, None)
        outcome = lab.run(p.FAULT_IN_A_LIBRARY, ret_size=8)
        assert outcome.kind == kind
        assert debugger.seen.pop().why == "fault"


def stays(debugger: Debugger) -> threading.Event:
    """Stops are not answered from now on; the event is set at the first."""
    event = threading.Event()
    debugger.answer = lambda stop: event.set()
    return event


def test_an_interrupt_ends_what_stands(debugger: Debugger) -> None:
    lab = debugger.lab
    at, pid = lab.place(CALL_HIT), lab.executor.pid
    address = debugger.breakpoint_at_hit()
    for _ in range(5):
        event = stays(debugger)
        thread = threading.Thread(target=lambda e=event: e.wait(20) and lab.executor.interrupt())
        thread.start()
        outcome = lab.executor.call(at, 0, word(5), 8)
        thread.join()
        assert (outcome.kind, outcome.respawned) == ("interrupted", False)
        assert outcome.record is not None and outcome.record.pc == address
        assert debugger.stops.standing is None and lab.executor.pid == pid
    with pytest.raises(UsageError, match="no thread stands"):
        debugger.stops.go()


def test_a_process_that_is_killed_while_it_stands(alone: Debugger) -> None:
    lab = alone.lab
    for _ in range(2):
        at = lab.place(CALL_HIT)
        if not alone.slots:
            alone.breakpoint_at_hit()
        event, pid = stays(alone), lab.executor.pid
        thread = threading.Thread(target=lambda e=event: e.wait(20) and kill(lab.executor.pid))
        thread.start()
        outcome = lab.executor.call(at, 0, word(5), 8)
        thread.join()
        assert (outcome.kind, outcome.respawned) == ("died", True)
        assert "ended by SIGKILL" in outcome.lost and "\n" not in outcome.lost
        assert alone.stops.standing is None and lab.executor.pid != pid
        alone.answer = alone.go_on
        alone.seen.clear()
        assert number(lab.executor.call(at, 0, word(5), 8)) == 6
        assert [stop.why for stop in alone.seen] == ["trap"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_a_callback_that_raises_ends_the_cell(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(CALL_HIT)
    debugger.breakpoint_at_hit()

    def broken(stop: Stop) -> None:
        raise ZeroDivisionError("in a condition")

    debugger.answer = broken
    with pytest.raises(ZeroDivisionError, match="in a condition"):
        lab.executor.call(at, 0, word(5), 8)
    assert debugger.stops.standing is None
    debugger.answer = debugger.go_on
    assert number(lab.executor.call(at, 0, word(5), 8)) == 6


MANY = program(
    """  pthread_t ids[4];
  for (int i = 0; i < 4; i++) pthread_create(ids + i, 0, work, 0);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], 0);
  *ret = total;""",
    HIT,
    """long total;
void *work(void *x) {
  for (long i = 0; i < 1000; i++) __atomic_add_fetch(&total, hit(i), __ATOMIC_SEQ_CST);
  return 0;
}""",
)


def test_no_hit_of_many_threads_is_missed(alone: Debugger) -> None:
    """Each argument comes from each thread once; whatever stands is in no two places."""
    lab = alone.lab
    at = lab.place(MANY)
    alone.breakpoint_at_hit()
    hits: dict[int, list[int]] = {}

    def note(stop: Stop) -> None:
        hits.setdefault(stop.tid, []).append(stop.registers["rdi"])
        assert not stop.running
        alone.go_on(stop)

    alone.answer = note
    assert number(lab.executor.call(at, 0, b"", 8)) == 4 * sum(range(1, 1001))
    assert list(hits.values()) == [list(range(1000))] * 4


def test_a_condition_that_is_false_stops_nobody_else(alone: Debugger) -> None:
    """One in 50 is true; a pause that is wanted meanwhile comes all the same."""
    lab = alone.lab
    at = lab.place(MANY)
    alone.breakpoint_at_hit()
    asked: list[int] = []

    def screen(stop: Stop) -> None:
        assert stop.threads == (stop.tid,) and not stop.running
        if stop.why == "trap":
            asked.append(stop.registers["rdi"])
            if len(asked) > 1000 and thread.is_alive():
                time.sleep(0.001)  # it is to press before all is over
            if asked[-1] % 50:
                alone.go_on(stop)

    alone.stops.screen = screen
    thread = pause_once(lab, lambda: len(asked) > 100)
    assert number(lab.executor.call(at, 0, b"", 8)) == 4 * sum(range(1, 1001))
    thread.join()
    alone.stops.screen = None
    assert sorted(asked) == sorted(4 * list(range(1000)))
    found = [stop.registers["rdi"] for stop in alone.seen if stop.why == "trap"]
    assert sorted(found) == sorted(4 * list(range(0, 1000, 50)))
    assert all(len(stop.threads) > 1 for stop in alone.seen if stop.registers["rdi"] == 500)


def test_all_threads_stand_together(alone: Debugger) -> None:
    """A counter that another thread increments, and one that blocks every signal, do not move."""
    lab = alone.lab
    text = program(
        """  start(spinner);
  start(deaf);
  while (!spins || !others) usleep(100);
  for (long i = 0; i < 20; i++) hit(i);""",
        p.THREAD,
        p.SPIN_THREAD,
        HIT,
        """volatile long others;
void *deaf(void *x) {
  sigset_t every;
  sigfillset(&every);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &every, 0, 8);
  for (;;) others++;
}""",
    )
    at = lab.place(text)
    alone.breakpoint_at_hit()
    places = [lab.linker.symbols[name].address for name in ("spins", "others")]
    code = lab.cache[text][1]

    def values() -> list[bytes]:
        return [lab.arena.read(place, 8) for place in places]

    def look(stop: Stop) -> None:
        before = values()
        assert not stop.running and len(stop.threads) == 3
        assert set(stop.threads) == procfs.threads(lab.executor.pid) - {
            lab.executor.control["lifeline_tid"]
        }
        for thread in stop.threads[1:]:
            assert alone.stops.registers(thread)["rip"] in code
        time.sleep(0.005)
        assert values() == before
        alone.go_on(stop)

    alone.answer = look
    assert lab.executor.call(at, 0).kind == "ok"
    assert len(alone.seen) == 20
    before = values()
    assert until(lambda: all(a != b for a, b in zip(values(), before, strict=True)))


def test_registers_of_a_thread_that_stands_by_are_changed(alone: Debugger) -> None:
    lab = alone.lab
    text = program(
        """  start(waiter);
  while (!ready) usleep(100);
  hit(0);
  while (!left) usleep(100);
  *ret = left;""",
        p.THREAD,
        HIT,
        """volatile long ready, left;
void *waiter(void *x) {
  long flag = 0;
  ready = 1;
  __asm__ volatile("1: testq %%rbx, %%rbx\\n\\tjz 1b" : "+b"(flag));
  left = flag;
  return 0;
}""",
    )
    at = lab.place(text)
    alone.breakpoint_at_hit()

    def change(stop: Stop) -> None:
        first, other = stop.threads
        assert alone.stops.registers(other)["rbx"] == 0
        alone.stops.set_registers(other, {"rbx": 77})
        with pytest.raises(UsageError, match="give its registers"):
            alone.stops.set_registers(first, {"rbx": 1})
        with pytest.raises(UsageError, match="does not stand"):
            alone.stops.registers(1)
        alone.go_on(stop)

    alone.answer = change
    assert number(lab.executor.call(at, 0, b"", 8)) == 77


def test_a_thread_that_outlives_its_call_is_not_stopped(alone: Debugger) -> None:
    """It goes through breakpoints by the table: nobody waits who could be told."""
    lab = alone.lab
    text = program(
        "start(work);",
        p.THREAD,
        HIT,
        """volatile long go_on, done;
void *work(void *x) {
  while (!go_on);
  for (long i = 0; i < 1000; i++) done = hit(i);
  return 0;
}""",
    )
    assert lab.run(text).kind == "ok"
    address = alone.breakpoint_at_hit()
    alone.put(lab.linker.symbols["go_on"].address, word(1))
    done = lab.linker.symbols["done"].address
    assert until(lambda: lab.arena.read(done, 8) == word(1000))
    assert alone.seen == [] and lab.arena.read(address, 1) == b"\xcc"
    assert until(lambda: lab.executor.threads == 0) and lab.square(3) == 9


WAITS = {
    "read": ("char c = 0;\n  long r = read(pipes[0], &c, 1);", "r == 1 && c == 'x'"),
    "recv": ("char c = 0;\n  long r = recv(sockets[0], &c, 1, 0);", "r == 1 && c == 'x'"),
    "sem_wait": ("long r = sem_wait(&semaphore);", "r == 0"),
    "poll": ("struct pollfd p = {pipes[0], POLLIN};\n  long r = poll(&p, 1, -1);", "r == 1"),
    "select": (
        "fd_set s;\n  FD_ZERO(&s);\n  FD_SET(pipes[0], &s);\n  struct timeval t = {100, 0};\n"
        "  long r = select(pipes[0] + 1, &s, 0, 0, &t);",
        "r == 1",
    ),
    "sleep": ("long r = sleep(1);", "r == 0"),
    "clock_nanosleep": (
        "struct timespec t = {1, 0}, left;\n"
        "  long r = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left);",
        "r == 0",
    ),
    "waitpid": ("int status;\n  long r = waitpid(child, &status, 0);", "r == child"),
}


@pytest.mark.parametrize("name", ["read", "recv", "poll", "waitpid"])
def test_a_wait_that_began_just_before_the_signal_came_is_begun_again(
    alone: Debugger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it was looked what threads wait in, this one ran yet."""
    version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    if tuple(int(n) for n in version.split()[-1].split(".")) >= (2, 41):
        pytest.skip("its system calls are made in one place, by a number that is an argument")
    monkeypatch.setattr(procfs, "system_call", lambda pid, task: None)
    assert waits_to_the_end(alone, name)


@pytest.mark.parametrize("name", ["read", "clock_nanosleep"])
def test_the_wait_of_a_thread_that_stood_late_is_begun_again(
    alone: Debugger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine lets it run so seldom that nobody waits for it."""
    halt = Stops._halt

    def late(self: Stops, first: int) -> tuple[dict[int, int], frozenset[int]]:
        contexts, missing = halt(self, first)
        return {}, missing | contexts.keys()

    monkeypatch.setattr(Stops, "_halt", late)
    assert waits_to_the_end(alone, name)


@pytest.mark.parametrize("name", WAITS)
def test_what_a_thread_waits_in_does_not_end_by_stops(alone: Debugger, name: str) -> None:
    assert waits_to_the_end(alone, name)
    assert not any(stop.running for stop in alone.seen)


def waits_to_the_end(alone: Debugger, name: str) -> bool:
    """Whether a wait ends as it should, while other threads meet a breakpoint again and again."""
    lab = alone.lab
    wait, good = WAITS[name]
    text = program(
        f"""  pipe(pipes);
  socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
  sem_init(&semaphore, 0, 0);
  pipe(ends);
  if (!(child = fork())) {{ char c; read(ends[0], &c, 1); syscall(SYS_exit_group, 0); }}
  for (int i = 0; i < 3; i++) start(work);
  {wait}
  *ret = hits >= 150 || {int("sleep" in name)} ? {good} : -hits;
  while (hits < 150) usleep(1000);  // a second may be less than the others need""",
        "#include <semaphore.h>",
        p.THREAD,
        HIT,
        """int pipes[2], sockets[2], ends[2];
pid_t child;
sem_t semaphore;
volatile long hits;
void *work(void *x) {
  for (long i = 0; i < 50; i++) { hit(i); usleep(500); }
  if (__atomic_add_fetch(&hits, 50, __ATOMIC_SEQ_CST) < 150) return 0;
  write(pipes[1], "x", 1);
  write(sockets[1], "x", 1);
  write(ends[1], "x", 1);
  sem_post(&semaphore);
  return 0;
}""",
    )
    at = lab.place(text)
    alone.breakpoint_at_hit()
    return number(lab.executor.call(at, 0, b"", 8)) == 1 and len(alone.seen) == 150


def test_a_pause_does_not_end_what_the_thread_waits_in(debugger: Debugger) -> None:
    lab = debugger.lab
    text = program(
        """  int fds[2];
  pipe(fds);
  if (!fork()) {
    while (!*(volatile long *)args) usleep(1000);
    write(fds[1], "x", 1);
    syscall(SYS_exit_group, 0);
  }
  char c = 0;
  begun++;
  *ret = read(fds[0], &c, 1) == 1 && c == 'x';""",
        "volatile long begun;",
    )

    def look(stop: Stop) -> None:
        lab.executor.control.view[lab.executor.control.start + abi.ARGS_AT] = 1
        debugger.stops.go()

    debugger.answer = look
    at = lab.place(text)
    thread = pause_once(lab, past(lab, "begun", READ))
    assert number(lab.executor.call(at, 0, word(0), 8)) == 1
    thread.join()
    (stop,) = debugger.seen
    assert stop.why == "pause" and stop.registers["rax"] == 0  # read's number


def test_a_thread_that_meets_a_breakpoint_as_its_call_ends(alone: Debugger) -> None:
    """It is stopped while its call runs, which ends after that, or it is not stopped at all."""
    lab, chance = alone.lab, random.Random(3)
    text = program(
        "start(work);\nfor (volatile long i = 0; i < *args; i++);\n*ret = 3;",
        p.THREAD,
        HIT,
        "volatile long sum;\nvoid *work(void *x) { sum += hit(0); return 0; }",
    )
    at = lab.place(text)
    alone.breakpoint_at_hit()
    sum_at = lab.linker.symbols["sum"].address

    def check(stop: Stop) -> None:
        assert lab.executor.busy and not stop.running
        alone.go_on(stop)

    alone.answer = check
    for i in range(300):
        # Of ten calls one is so long that the thread comes to it, however late it starts.
        rounds = chance.randrange(100_000) if i % 10 else 5_000_000
        outcome = lab.executor.call(at, 0, word(rounds), 8)
        assert number(outcome) == 3 and alone.stops.standing is None
        assert until(lambda: lab.arena.read(sum_at, 8) == word(i + 1))  # noqa: B023 (at once)
        assert until(lambda: lab.executor.threads == 0)
    assert 0 < len(alone.seen) <= 300


FORK = program(
    """  int status;
  pid_t child = fork();
  if (!child) syscall(SYS_exit_group, (int)hit(*args));
  waitpid(child, &status, 0);
  *ret = status;""",
    HIT,
)


def test_a_forked_child_passes_breakpoints(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(FORK)
    address = debugger.breakpoint_at_hit()
    assert number(lab.executor.call(at, 0, word(41), 8)) == 42 << 8
    low = [(address - i, 8 * i) for i in range(1, 300)]
    high = [(address + i, 8 * i) for i in range(1, 200)]
    debugger.stops.table(dict([*high, (address, debugger.slots[address]), *low]))
    assert number(lab.executor.call(at, 0, word(11), 8)) == 12 << 8
    assert debugger.seen == []
    debugger.stops.table({})
    assert number(lab.executor.call(at, 0, word(41), 8)) == signal.SIGTRAP
    with pytest.raises(UsageError, match="too many"):
        debugger.stops.table({i: i for i in range(abi.STOP_TABLE + 1)})


UNBLOCK = "sigprocmask(SIG_SETMASK, &before, 0);"
BLOCKED = {
    "sigprocmask": p.BLOCK,
    "pthread_sigmask": p.BLOCK.replace("sigprocmask", "pthread_sigmask"),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_a_program_that_blocks_every_signal_is_stopped(debugger: Debugger, name: str) -> None:
    lab = debugger.lab
    at = lab.place(program(BLOCKED[name] + "*ret = hit(*args);\n" + UNBLOCK, HIT))
    debugger.breakpoint_at_hit()
    assert number(lab.executor.call(at, 0, word(5), 8)) == 6
    assert [stop.why for stop in debugger.seen] == ["trap"]


def test_a_breakpoint_in_a_handler_that_blocks_every_signal(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(
        program(
            """  struct sigaction mine = {.sa_handler = handler};
  sigfillset(&mine.sa_mask);
  sigaction(SIGUSR2, &mine, 0);
  raise(SIGUSR2);
  *ret = got;
  signal(SIGUSR2, SIG_DFL);""",
            HIT,
            "volatile long got;\nvoid handler(int signal) { got = hit(signal); }",
        )
    )
    debugger.breakpoint_at_hit()
    assert number(lab.executor.call(at, 0, b"", 8)) == signal.SIGUSR2 + 1
    assert len(debugger.seen) == 1


HANDLES = {
    "sigaction": """  struct sigaction mine = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO}, old;
  sigaction(SIGTRAP, &mine, &old);
  if (old.sa_handler != SIG_DFL) return;
  sigaction(SIGTRAP, 0, &old);
  if (old.sa_sigaction != trapped || old.sa_flags != SA_SIGINFO) return;""",
    "signal": "  if (signal(SIGTRAP, (void *)trapped) != SIG_DFL) return;",
}


@pytest.mark.parametrize("name", HANDLES)
def test_a_handler_of_the_programs_for_traps(debugger: Debugger, name: str) -> None:
    """It gets the program's own, and none of the debugger's."""
    lab = debugger.lab
    at = lab.place(
        program(
            HANDLES[name]
            + """
  long sum = hit(1);
  __builtin_debugtrap();
  sum += hit(2);
  raise(SIGTRAP);
  *ret = 100 * traps + sum;""",
            HIT,
            "volatile long traps;\nvoid trapped(int n, siginfo_t *i, void *c) { traps++; }",
        )
    )
    address = debugger.breakpoint_at_hit()
    traps = lab.linker.symbols["traps"].address

    def answer(stop: Stop) -> None:
        if stop.registers["rip"] == address + 1:
            debugger.go_on(stop)
        else:
            debugger.stops.go(abi.OWN)

    debugger.answer = answer
    for _ in range(2):
        debugger.put(traps, word(0))
        assert number(lab.executor.call(at, 0, b"", 8)) == 205
    assert len(debugger.seen) == 6


def test_a_trap_of_the_programs_own(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(program("__builtin_debugtrap();\n*ret = 7;"))
    debugger.stops.on = False
    plain = lab.executor.call(at, 0, b"", 8)
    debugger.stops.on = debugger.stops.faults = True
    debugger.answer = lambda stop: debugger.stops.go(abi.OWN)
    outcome = lab.executor.call(at, 0, b"", 8)
    assert plain.record is not None and outcome.record is not None
    assert outcome.kind == plain.kind == "fault"
    for a, b in zip(outcome.record, plain.record, strict=True):
        assert a == b or isinstance(a, dict | bytes)
    assert [stop.why for stop in debugger.seen] == ["trap"]  # not as a fault, too
    debugger.answer = lambda stop: debugger.stops.go()
    assert number(lab.executor.call(at, 0, b"", 8)) == 7


def test_a_watchpoint_of_the_processors(debugger: Debugger) -> None:
    """perf_event_open(2) with `sigtrap`: the program asks for it itself here."""
    lab = debugger.lab
    text = program(
        """  struct perf_event_attr e = {
    .type = PERF_TYPE_BREAKPOINT, .size = sizeof e, .bp_type = HW_BREAKPOINT_W, .bp_len = 8,
    .bp_addr = (long)&watched, .sample_period = 1, .exclude_kernel = 1, .exclude_hv = 1,
    .sigtrap = 1, .remove_on_exec = 1};
  long fd = syscall(SYS_perf_event_open, &e, 0, -1, -1, 0);
  for (long i = 1; i < 6; i++) watched = i;
  *ret = fd;
  close(fd);""",
        "#include <linux/perf_event.h>\n#include <linux/hw_breakpoint.h>\nvolatile long watched;",
    )
    at = lab.place(text)
    watched, values = lab.linker.symbols["watched"].address, []

    def look(stop: Stop) -> None:
        assert stop.signal == "SIGTRAP" and stop.address == watched
        values.append(lab.arena.read(watched, 8))
        debugger.stops.go()

    debugger.answer = look
    if number(lab.executor.call(at, 0, b"", 8)) < 0:
        pytest.skip("this system has no watchpoints for us")
    assert [stop.why for stop in debugger.seen] == ["watch"] * 5
    assert values == [word(i) for i in range(1, 6)]


def test_an_executor_that_cannot_says_so() -> None:
    assert InlineExecutor.stops is None and "process of its own" in InlineExecutor.unstopped
    assert ProcessExecutor.unstopped == ""


def test_turned_off_while_a_thread_stands(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(program("*ret = hit(1) + hit(2);", HIT))
    address = debugger.breakpoint_at_hit()

    def off(stop: Stop) -> None:
        debugger.put(address, LEA[:1])
        debugger.stops.table({})
        debugger.stops.on = False

    debugger.answer = off
    assert number(lab.executor.call(at, 0, b"", 8)) == 5
    assert len(debugger.seen) == 1 and debugger.stops.standing is None


def test_a_breakpoint_that_is_taken_away_as_a_thread_queues(alone: Debugger) -> None:
    """Both threads have met it; the second runs what is there again."""
    lab = alone.lab
    text = program(
        """  pthread_t a = start(work), b = start(work);
  void *x, *y;
  pthread_join(a, &x);
  pthread_join(b, &y);
  *ret = (long)x + (long)y;""",
        p.THREAD,
        HIT,
        "void *work(void *x) { return (void *)hit(10); }",
    )
    at = lab.place(text)
    address = alone.breakpoint_at_hit()

    def take_away(stop: Stop) -> None:
        alone.put(address, LEA[:1])
        alone.go_on(stop)

    alone.answer = take_away
    for _ in range(20):
        alone.put(address, b"\xcc")
        assert number(lab.executor.call(at, 0, b"", 8)) == 22
    assert len(alone.seen) >= 20


def test_output_flows_while_a_thread_stands(debugger: Debugger) -> None:
    lab, got = debugger.lab, threading.Event()
    at = lab.place(program('puts("before");\nfflush(stdout);\n*ret = hit(1);\nputs("after");', HIT))
    debugger.breakpoint_at_hit()
    lab.out = b""

    def output(name: str, data: bytes) -> None:
        lab.output(name, data)
        got.set()

    def later() -> None:
        assert until(lambda: debugger.stops.standing is not None)
        assert got.wait(20)
        said.append(lab.out)
        lab.executor.post(lambda: debugger.go_on(debugger.seen[0]))

    said: list[bytes] = []
    lab.executor.on_output = output
    debugger.answer = lambda stop: None
    thread = threading.Thread(target=later)
    thread.start()
    assert number(lab.executor.call(at, 0, b"", 8)) == 2
    thread.join()
    assert said == [b"before\n"] and lab.out == b"before\nafter\n"


def test_the_time_of_a_stop_does_not_count(debugger: Debugger) -> None:
    lab, told = debugger.lab, []
    lab.executor.settings = SessionSettings(cell_timeout=0.6)
    at = lab.place(program("*ret = hit(1);\nusleep(100000);", HIT))
    debugger.breakpoint_at_hit()

    def later() -> None:
        until(lambda: debugger.stops.standing is not None)
        time.sleep(1.0)
        lab.executor.post(lambda: debugger.go_on(debugger.seen[0]))

    debugger.answer = lambda stop: None
    lab.executor.on_wait = told.append
    try:
        thread = threading.Thread(target=later)
        thread.start()
        assert number(lab.executor.call(at, 0, b"", 8)) == 2
        thread.join()
        assert told and max(told) < 0.9
        # but the time of the program does
        debugger.answer = debugger.go_on
        outcome = lab.executor.call(lab.place(program("hit(1);\nfor (;;);", HIT)), 0)
        assert outcome.record is not None and outcome.record.cause == "timeout"
    finally:
        lab.executor.on_wait = None


def test_jobs_are_done_in_the_thread_that_waits(debugger: Debugger) -> None:
    lab, here = debugger.lab, threading.get_ident()
    at = lab.place(program("while (!*args);\n*ret = hit(*args);", HIT))
    debugger.breakpoint_at_hit()
    flag = lab.executor.control.start + abi.ARGS_AT
    done: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    def ask() -> None:
        until(lambda: lab.executor.serving)
        for stage in ("running", "standing"):
            if stage == "standing":
                lab.executor.control.view[flag] = 4
                until(lambda: debugger.stops.standing is not None)
            for _ in range(50):
                future = lab.executor.post(threading.get_ident)
                assert future is not None and future.result(20) == here
            failed = lab.executor.post(fail)
            assert failed is not None
            assert isinstance(failed.exception(20), ZeroDivisionError)
            done.append(stage)
        lab.executor.post(lambda: debugger.go_on(debugger.seen[0]))

    debugger.answer = lambda stop: None
    thread = threading.Thread(target=ask)
    thread.start()
    assert number(lab.executor.call(at, 0, word(0), 8)) == 5
    thread.join()
    assert done == ["running", "standing"]
    assert lab.executor.post(threading.get_ident) is None


def test_a_job_posted_by_a_callback_is_done_at_once(debugger: Debugger) -> None:
    lab, results = debugger.lab, []

    def output(name: str, data: bytes) -> None:
        future = lab.executor.post(lambda: 5)
        assert future is not None
        results.append(future.result(0))

    lab.executor.on_output = output
    assert lab.run(program('puts("x");')).kind == "ok"
    assert results == [5]


def test_no_job_is_lost_as_a_call_ends(debugger: Debugger) -> None:
    """Each of 2,000 is done, or its poster is told that there is no call."""
    lab, chance = debugger.lab, random.Random(5)
    at = lab.place(program("for (volatile long i = 0; i < *args; i++);\n*ret = *args;"))
    ran, refused, over = [], [], threading.Event()
    spans = [chance.randrange(30_000) for _ in range(500)]

    def post() -> None:
        for i in range(2000):
            future = lab.executor.post(partial(ran.append, i))
            if future is None:
                refused.append(i)
            else:
                try:
                    future.result(20)
                except CancelledError:
                    refused.append(i)
            time.sleep(chance.random() * 0.0003)
        over.set()

    thread = threading.Thread(target=post)
    thread.start()
    calls = 0
    while not over.is_set():
        n = spans[calls % len(spans)]
        assert number(lab.executor.call(at, 0, word(n), 8)) == n
        calls += 1
    thread.join()
    assert sorted(ran + refused) == list(range(2000))
    assert len(ran) > 20


CROWD = program(
    """  total = 0;
  for (int i = 0; i < 5; i++) pthread_create(ids + i, 0, work, 0);
  work(0);
  for (int i = 0; i < 5; i++) pthread_join(ids[i], 0);
  *ret = total;""",
    HIT,
    """long total;
pthread_t ids[5];
void *work(void *x) {
  for (long i = 0; i < 40; i++) {
    __atomic_add_fetch(&total, hit(i), __ATOMIC_SEQ_CST);
    if (i % 8 == 0) usleep(i);
    free(malloc(i * 100));
  }
  return 0;
}""",
)


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_random_interleavings(alone: Debugger, seed: int) -> None:
    """Six threads; stops are answered at once, later, or by another thread's job, with pauses
    between.  Every other call is interrupted at a random moment."""
    lab, chance = alone.lab, random.Random(seed)
    at = lab.place(CROWD)
    alone.breakpoint_at_hit()
    hits = 0

    def answer(stop: Stop) -> None:
        nonlocal hits
        hits += stop.why == "trap"
        assert stop.why in ("trap", "pause") and not stop.running
        if (dice := chance.random()) < 0.8:
            alone.go_on(stop)
        elif dice < 0.9:
            time.sleep(chance.random() * 0.002)
            alone.go_on(stop)
        else:
            threading.Timer(0.001, later, [stop]).start()

    def later(stop: Stop) -> None:
        lab.executor.post(lambda: alone.go_on(stop) if alone.stops.standing is stop else None)

    alone.answer = answer
    for turn in range(4):
        over, hits = threading.Event(), 0
        delay = chance.random() * 0.1

        def press(over: threading.Event = over) -> None:
            while not over.wait(0.003):
                alone.stops.pause()

        threads = [threading.Thread(target=press)]
        if turn % 2:
            threads.append(threading.Timer(delay, lab.executor.interrupt))
        for thread in threads:
            thread.start()
        outcome = lab.executor.call(at, 0, b"", 8)
        over.set()
        for thread in threads:
            thread.join()
        assert alone.stops.standing is None
        if turn % 2 == 0 or outcome.kind == "ok":
            assert number(outcome) == 6 * sum(range(1, 41)) and hits == 240
        else:
            assert outcome.kind == "interrupted"
        if outcome.respawned:
            assert turn % 2 and "started again" in outcome.lost
        else:
            assert until(lambda: lab.executor.threads == 0)
    assert lab.square(5) == 25


# -- what a thread decides itself ------------------------------------------------------------------

TURNS = program("long all = 0; for (long i = 0; i < *args; i++) all += hit(i); *ret = all;", HIT)
REG_RDI = programs.op("register", abi.UC_REGISTERS + 8 * abi.REGISTERS.index("rdi"))


def test_a_program_says_who_asks(debugger: Debugger) -> None:
    lab = debugger.lab
    at = lab.place(TURNS)
    address = debugger.breakpoint_at_hit()
    code = (*REG_RDI, *programs.constant(7), *programs.op("urem"))
    code = (*code, *programs.constant(3), *programs.op("eq"))
    words = programs.program(code)
    assert words is not None
    debugger.stops.table(debugger.slots, {address: words})
    assert number(lab.executor.call(at, 0, word(100), 8)) == 5050
    assert [stop.registers["rdi"] for stop in debugger.seen] == list(range(3, 100, 7))
    debugger.seen.clear()
    unreadable = programs.program((*REG_RDI, *programs.op("load", 8)))
    assert unreadable is not None
    debugger.stops.table(debugger.slots, {address: unreadable})
    assert number(lab.executor.call(at, 0, word(5), 8)) == 15
    assert len(debugger.seen) == 5  # it cannot tell


def test_any_words_are_a_program_that_ends(debugger: Debugger) -> None:
    """Whatever is written there while threads run it."""
    lab, pick = debugger.lab, random.Random(11)
    at = lab.place(TURNS)
    address = debugger.breakpoint_at_hit()
    operations = len(abi.PROGRAM_OPS)
    for _ in range(150):
        words = [
            pick.randrange(operations + 1) | pick.choice([0, 1, 3, 8, 17, 64, pick.getrandbits(56)]) << 8
            for _ in range(pick.randrange(1, 40))
        ]  # fmt: skip
        debugger.stops.table(debugger.slots, {address: words})
        assert number(lab.executor.call(at, 0, word(20), 8)) == 210


def test_a_table_is_as_large_as_its_room(debugger: Debugger) -> None:
    """Nothing is written behind it, nor are programs for which there is no room."""
    lab = debugger.lab
    at = lab.place(TURNS)
    address = debugger.breakpoint_at_hit()
    behind = lab.arena.base + RUNTIME
    before = lab.arena.read(behind, 1 << 16)
    never = programs.program(programs.constant(0))
    assert never is not None
    rest = range(address + 1, address + abi.STOP_TABLE)
    for _ in range(2):  # one table and the other
        slots = {**debugger.slots, **dict.fromkeys(rest, 1 << 40)}
        debugger.stops.table(slots, {i: [*never, *[0] * 100] for i in slots})
        assert number(lab.executor.call(at, 0, word(20), 8)) == 210
        assert lab.arena.read(behind, 1 << 16) == before
        debugger.stops.table({})
    assert debugger.seen == []
    with_none = {i: [*never, *[0] * 5000] for i in debugger.slots}
    debugger.stops.table(debugger.slots, with_none)
    assert number(lab.executor.call(at, 0, word(20), 8)) == 210
    assert len(debugger.seen) == 20


def test_hits_of_many_threads_are_counted(alone: Debugger) -> None:
    lab = alone.lab
    at = lab.place(MANY)
    address = alone.breakpoint_at_hit()
    words = programs.program(
        (*programs.op("hits", 5), *programs.constant(3900), *programs.op("eq"))
    )
    assert words is not None
    alone.stops.set_hits(5, 0)
    alone.stops.table(alone.slots, {address: words})

    def count(stop: Stop) -> None:
        alone.stops.set_hits(5, alone.stops.hits(5) + 1)
        alone.go_on(stop)

    alone.answer = count
    assert number(lab.executor.call(at, 0, b"", 8)) == 4 * sum(range(1, 1001))
    assert (alone.stops.hits(5), len(alone.seen)) == (4000, 1)
