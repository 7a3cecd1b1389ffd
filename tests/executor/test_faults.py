"""Whatever a cell does to itself, it is told and the next one works, with all state kept."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import pytest

from tests.busy import soon

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program

BIG_FRAMES = p.RECURSE.replace("[100]", "[4000]")

# name: program, signal, access, address (None: any), library frames below; the session's tests
# have those whose words matter
FAULTS = {
    "null read": (p.NULL, "SIGSEGV", "read", 0, False),
    "non-canonical read": (
        program("*(volatile char *)0x1234567890000000;"), "SIGSEGV", "", None, False,
    ),
    "int3": (program('__asm__ volatile("int3");'), "SIGTRAP", "", None, False),
    "call of a non-canonical pointer": (
        program("((void (*)(void))0x1234567890000000)();"), "SIGSEGV", "", None, False,
    ),
    "endless recursion, large frames": (BIG_FRAMES, "SIGSEGV", "write", None, False),
    "strlen(null)": (p.FAULT_IN_A_LIBRARY, "SIGSEGV", "read", 0, True),
    "printf of a wild string": (
        program('printf("so far %s\\n", (char *)0x1234);'), "SIGSEGV", "read", 0x1234, True,
    ),
    "all units in disorder": (
        program(
            """  fesetround(FE_UPWARD);
  __asm__ volatile("std; fldz; fldz; fldz; fldz; fldz; fldz; fldz; fldz");
  __asm__ volatile("pushq $0x0040; fldcw (%%rsp); popq %%rax" ::: "rax");
  *(volatile char *)0 = 1;"""
        ),
        "SIGSEGV", "write", 0, False,
    ),
    "every signal blocked but ours": (
        program(
            f"""  sigset_t set;
  memset(&set, 255, sizeof set);
  *(long *)&set = 0xDFFFFFFFFFFFFB07;
  sigprocmask(SIG_SETMASK, &set, 0);
  {p.FAULT}"""
        ),
        "SIGSEGV", "read", 0, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_the_cell_only(lab: Lab, name: str) -> None:
    ir, signal_name, access, address, library = FAULTS[name]
    lab.place(ir)
    pid = lab.executor.pid
    outcome = lab.run(ir)
    assert outcome.kind == "fault", outcome
    assert (outcome.respawned, outcome.lost) == (False, "")
    record = outcome.record
    assert record is not None
    assert (record.signal, record.access, record.library, record.thread) == (
        signal_name, access, library, "cell",
    )  # fmt: skip
    if address is not None:
        assert record.address == address
    if not library and record.access != "execute" and "call of a non" not in name:
        assert record.pc in lab.cache[ir][1]
    assert lab.executor.pid == pid
    lab.assert_sound()


def test_pc_of_int3_is_the_instruction_itself(lab: Lab) -> None:
    record = lab.run(FAULTS["int3"][0]).record
    assert record is not None
    assert lab.arena.read(record.pc, 1) == b"\xcc"


def test_stale_pointers_run_into_poison(lab: Lab) -> None:
    extent = lab.arena.reserve("text", 64)
    at = extent.start
    calls = program(f"((void (*)(void)){at})();")
    lab.place(calls)
    lab.arena.free(extent)
    outcome = lab.run(calls)
    assert outcome.record is not None
    assert (outcome.record.signal, outcome.record.pc) == ("SIGTRAP", at)


def test_registers_and_stack_are_those_of_the_fault(lab: Lab) -> None:
    known = program(
        """  volatile long room[4];
  *room = 0x1122334455667788;
  getpid();
  __asm__ volatile("movq $0x5a5a5a5a, %%r11; movb $1, (%0)" :: "d"(0L) : "r11");
  *room;"""
    )
    record = lab.run(known).record
    assert record is not None
    assert record.registers["rdx"] == 0
    assert record.registers["r11"] == 0x5A5A5A5A
    assert record.registers["rsp"] == record.sp
    assert record.registers["rip"] == record.pc
    assert bytes.fromhex("8877665544332211") in record.stack
    assert len(record.stack) == record.stack_top - record.sp


def test_the_copy_of_a_deep_stack_is_bounded(lab: Lab) -> None:
    """Also where a frame is so large that it ends below the stack."""
    for text in (p.RECURSE, BIG_FRAMES, p.RECURSE.replace("[100]", "[20000]")):
        record = lab.run(text).record
        assert record is not None
        assert len(record.stack) == 32 << 10
        assert record.stack_top - record.sp > 7 << 20


def test_what_was_printed_before_a_fault_is_kept(lab: Lab) -> None:
    assert lab.run(program(f'printf("no newline");\n{p.FAULT}')).kind == "fault"
    assert lab.out == b"no newline"
    assert lab.run(FAULTS["printf of a wild string"][0]).kind == "fault"
    assert lab.out in (b"so far ", b"")  # from glibc 2.37 on, printf keeps it until it is through
    assert lab.run(program('puts("next");')).kind == "ok"
    assert lab.out == b"next\n"


def test_where_in_a_library_it_happened(lab: Lab) -> None:
    record = lab.run(FAULTS["strlen(null)"][0]).record
    assert record is not None
    [where] = lab.executor.services.locate([record.pc], record.generation)
    assert where.startswith("strlen+0x") and where.endswith("libc.so.6")
    assert lab.executor.services.locate([0, 8, lab.place(p.SQUARE), 1 << 63]) == [""] * 4


def test_an_address_of_an_earlier_process_is_still_known(fresh: Lab) -> None:
    record = fresh.run(FAULTS["strlen(null)"][0]).record
    assert record is not None
    [before] = fresh.executor.services.locate([record.pc])
    fresh.executor.respawn()
    assert fresh.executor.services.locate([record.pc], record.generation) == [before]


def test_a_heap_whose_lock_is_held_for_ever(fresh: Lab) -> None:
    """A fault inside malloc with two threads: only another process helps, and says so."""
    break_heap = program(
        """  start(idle);
  char *a = malloc(5000), *b = malloc(5000);
  memset(a, 'A', 10080);
  free(b);
  free(a);
  malloc(100000);""",
        p.THREAD,
        "void *idle(void *x) { sleep(100); return 0; }",
    )
    fresh.run(p.KEEP)
    outcome = fresh.run(break_heap)
    assert outcome.kind == "fault"
    if outcome.respawned:
        assert "malloc" in outcome.lost
    fresh.assert_sound(heap=not outcome.respawned)


@timed
def test_a_fault_on_another_thread_ends_the_process(fresh: Lab) -> None:
    joins = program(
        "pthread_join(start(bad), 0);\n*ret = 1;",
        p.THREAD,
        f"void *bad(void *x) {{ {p.FAULT} return 0; }}",
    )
    assert fresh.run(p.KEEP).kind == "ok"
    began = time.monotonic()
    outcome = fresh.run(joins)
    assert (outcome.kind, outcome.respawned) == ("fault", True)
    assert outcome.record is not None
    assert (outcome.record.thread, outcome.record.signal) == ("other", "SIGSEGV")
    assert outcome.lost
    assert fresh.square(9) == 81
    in_time(began, 0.2)
    fresh.assert_sound(heap=False)


@timed
def test_sigkill_from_outside(fresh: Lab) -> None:
    assert fresh.square(2) == 4
    at, pid = fresh.place(program("for (;;) spins++;", "volatile long spins;")), fresh.executor.pid
    spins = fresh.linker.symbols["spins"].address
    kill = partial(os.kill, pid, signal.SIGKILL)
    with soon(lambda: any(fresh.arena.read(spins, 8)) and kill() is None):
        outcome = fresh.executor.call(at, 0)
    assert (outcome.kind, outcome.respawned, outcome.started) == ("died", True, True)
    assert "SIGKILL" in outcome.lost
    began = time.monotonic()
    assert fresh.square(8) == 64
    in_time(began, 0.2)


def test_a_process_that_died_between_calls(fresh: Lab) -> None:
    assert fresh.square(2) == 4
    os.kill(fresh.executor.pid, signal.SIGKILL)
    while fresh.executor.alive:
        time.sleep(0.001)
    outcome = fresh.run(p.SQUARE, (5).to_bytes(8, "little"), 8)
    assert (outcome.kind, outcome.respawned, outcome.started) == ("died", True, False)
    assert fresh.square(5) == 25
    os.kill(fresh.executor.pid, signal.SIGKILL)
    renewed = []
    fresh.executor.on_respawn = lambda: renewed.append(fresh.executor.services.lookup(["puts"]))
    assert fresh.square(6) == 36
    assert len(renewed) == 1 and renewed[0][0]


@timed
def test_a_fault_below_library_frames_that_hold_a_lock(fresh: Lab) -> None:
    """fflush(NULL) holds the lock of the list of streams while it calls session code."""
    flushes = program(
        """  times = 0;
  cookie_io_functions_t io = {.write = sink};
  fputs("w", fopencookie(0, "w", io));
  fflush(0);""",
        f"""long times;
ssize_t sink(void *cookie, const char *data, size_t size) {{
  if (!times++) {p.FAULT}
  return size;
}}""",
    )
    began = time.monotonic()
    outcome = fresh.run(flushes)
    assert outcome.kind == "fault" and outcome.record is not None
    assert outcome.record.library and outcome.respawned
    assert fresh.square(4) == 16
    in_time(began, 0.5)  # a process is replaced; what that takes is measured in benchmarks
    fresh.assert_sound(heap=False)


def test_a_callback_of_a_library_may_fault(lab: Lab) -> None:
    sorts = program(
        "qsort(malloc(800), 100, 8, bad);",
        "int bad(const void *a, const void *b) { return *(volatile int *)0; }",
    )
    outcome = lab.run(sorts)
    assert outcome.kind == "fault" and outcome.record is not None
    assert outcome.record.library and not outcome.respawned
    assert outcome.record.pc in lab.cache[sorts][1]
    lab.assert_sound()


def test_a_return_address_overwritten(lab: Lab) -> None:
    for target in (0, 0x1234, 0x123456789000, 0x4141414141414141):
        jump = f'__asm__ volatile("movq %0, (%%rsp); retq" :: "r"({target}L));'
        outcome = lab.run(program(jump))
        assert outcome.kind == "fault" and outcome.record is not None
        assert outcome.record.signal == "SIGSEGV" and not outcome.respawned
        lab.assert_sound()
