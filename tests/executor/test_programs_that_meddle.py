"""Handlers of the user's own, closed descriptors, changed directories: the next cell works."""

from __future__ import annotations

import os
import struct
import threading
import time

import pytest

from jitkernel.errors import JitError
from jitkernel.settings import SessionSettings

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program, string

PUTS = program("  %n = call i32 @puts(ptr @s)", string("s", "still here"))
NULL = program("  %v = load volatile i64, ptr null")


def close(*fds: int) -> str:
    return program("\n".join(f"  %c{fd} = call i32 @close(i32 {fd})" for fd in fds))


def close_all(first: int, last: int) -> str:
    return program(
        f"""  br label %l
l:
  %i = phi i32 [ {first}, %0 ], [ %j, %l ]
  %c = call i32 @close(i32 %i)
  %j = add i32 %i, 1
  %m = icmp ule i32 %j, {last}
  br i1 %m, label %l, label %done
done:
  store i64 99, ptr %ret"""
    )


def test_closed_standard_streams_are_opened_again(lab: Lab) -> None:
    for fds in ((1,), (2,), (0,), (0, 1, 2)):
        pid = lab.executor.pid
        outcome = lab.run(close(*fds))
        assert outcome.kind == "ok" and not outcome.respawned
        assert "opened again" in outcome.lost
        assert lab.executor.pid == pid
        assert lab.run(PUTS).kind == "ok"
        assert lab.out == b"still here\n"
        lab.lines = ["x"]
        one = program("  %n = call i64 @read(i32 0, ptr %ret, i64 1)")
        assert lab.run(one, ret_size=1).result == b"x"
    lab.assert_sound()


@pytest.mark.parametrize("first", [0, 3])
@timed
def test_every_descriptor_closed(fresh: Lab, first: int) -> None:
    fresh.run(p.KEEP)
    outcome = fresh.run(close_all(first, 1 << 15), ret_size=8)
    began = time.monotonic()
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 99))
    assert outcome.respawned and "which the cell closed" in outcome.lost
    assert fresh.square(5) == 25
    in_time(began, 0.2)
    assert fresh.run(PUTS).kind == "ok" and fresh.out == b"still here\n"
    fresh.assert_sound(heap=False)


def test_streams_closed_through_stdio(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    for name in ("stdout", "stderr", "stdin", "stdout"):
        ir = program(
            f"  %f = load ptr, ptr @{name}\n  %c = call i32 @fclose(ptr %f)",
            f"@{name} = external global ptr",
        )
        outcome = fresh.run(ir)
        assert outcome.kind == "ok" and not outcome.respawned
        assert "opened again" in outcome.lost
        assert fresh.run(PUTS).kind == "ok"
        assert fresh.out == b"still here\n"
        fresh.lines = ["x"]
        char = program("  %c = call i32 @getchar()\n  store i32 %c, ptr %ret")
        assert fresh.run(char, ret_size=1).result == b"x"
        fresh.assert_sound()


def test_redirected_output_stays_redirected(fresh: Lab) -> None:
    ir = program("  %d = call i32 @dup2(i32 2, i32 1)")
    fresh.run(ir)
    fresh.run(PUTS)
    assert (fresh.out, fresh.err) == (b"", b"still here\n")


HANDLER = """
@caught = global i64 0
define void @mine(i32 %n) {
  %v = load i64, ptr @caught
  %w = add i64 %v, 1
  store i64 %w, ptr @caught
  ret void
}
"""


def test_handlers_of_the_users_own(lab: Lab) -> None:
    ir = program(
        """  %a = call ptr @signal(i32 11, ptr @mine)
  %b = call ptr @signal(i32 8, ptr @mine)
  %c = call ptr @signal(i32 6, ptr @mine)
  %d = call ptr @signal(i32 62, ptr @mine)
  %e = call ptr @signal(i32 10, ptr @mine)
  %r = call i32 @raise(i32 11)
  %s = call i32 @raise(i32 10)
  %v = load i64, ptr @caught
  store i64 %v, ptr %ret""",
        HANDLER,
    )
    outcome = lab.run(ir, ret_size=8)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 2))
    outcome = lab.run(NULL)
    assert outcome.kind == "fault" and not outcome.respawned
    again = program(
        "  %s = call i32 @raise(i32 10)\n  %v = load i64, ptr @caught\n  store i64 %v, ptr %ret",
        "@caught = external global i64",
    )
    assert lab.run(again, ret_size=8).result == struct.pack("<q", 3)  # SIGUSR1's stays
    lab.assert_sound()


def test_a_fault_inside_a_handler_of_the_users_own(lab: Lab) -> None:
    ir = program(
        "  %e = call ptr @signal(i32 10, ptr @bad)\n  %s = call i32 @raise(i32 10)",
        "define void @bad(i32 %n) {\n  %v = load volatile i64, ptr null\n  ret void\n}",
    )
    for _ in range(2):
        outcome = lab.run(ir)
        assert outcome.kind == "fault" and outcome.record is not None
        assert outcome.record.signal == "SIGSEGV" and not outcome.respawned
    lab.assert_sound()


def test_blocked_signals(lab: Lab) -> None:
    ir = program(
        """  %s = alloca [16 x i64]
  %f = call i32 @sigfillset(ptr %s)
  %r = call i32 @sigprocmask(i32 0, ptr %s, ptr null)"""
    )
    assert lab.run(ir).kind == "ok"
    assert lab.run(NULL).kind == "fault"
    lab.assert_sound()


def test_a_fault_with_its_signal_blocked_takes_the_process(fresh: Lab) -> None:
    ir = program(
        """  %s = alloca [16 x i64]
  %f = call i32 @sigfillset(ptr %s)
  %r = call i32 @sigprocmask(i32 0, ptr %s, ptr null)
  %v = load volatile i64, ptr null"""
    )
    outcome = fresh.run(ir)
    assert (outcome.kind, outcome.respawned) == ("died", True)
    assert "SIGSEGV" in outcome.lost
    fresh.assert_sound(heap=False)


def test_a_signal_that_ends_programs(fresh: Lab) -> None:
    outcome = fresh.run(program("  %r = call i32 @raise(i32 15)"))
    assert (outcome.kind, outcome.respawned) == ("died", True)
    assert "SIGTERM" in outcome.lost
    fresh.assert_sound(heap=False)


def test_the_runtimes_own_data_overwritten(fresh: Lab) -> None:
    """A wild store over the control block costs the process, never the session."""
    data = next(r for r in fresh.arena.regions if r.name == "runtime.data")
    for value in (0, 255):
        ir = program(
            f"  %m = call ptr @memset(ptr inttoptr (i64 {data.start} to ptr), i32 {value}, "
            "i64 8192)\n  %v = load volatile i64, ptr null"
        )
        fresh.executor.on_respawn = None
        outcome = fresh.run(ir)
        assert outcome.kind in ("died", "fault", "exit") and outcome.respawned
        assert fresh.square(4) == 16
        fresh.assert_sound(heap=False)


def test_calls_do_not_nest(lab: Lab) -> None:
    caught = []

    def output(name: str, data: bytes) -> None:
        try:
            lab.executor.call(0, 0)
        except JitError as error:
            caught.append(str(error))

    lab.executor.on_output = output
    lab.run(PUTS)
    (why,) = caught
    assert why.startswith("the executor is running another call: Python that the program calls")


def test_a_process_that_becomes_another_program(fresh: Lab) -> None:
    ir = program(
        "  %r = call i32 (ptr, ptr, ...) @execl(ptr @sh, ptr @sh, ptr @c, ptr @s, ptr null)",
        string("sh", "/bin/sh"),
        string("c", "-c"),
        string("s", "echo from the shell; exit 5"),
        "declare i32 @execl(ptr, ptr, ...)",
    )
    fresh.run(p.KEEP)
    outcome = fresh.run(ir)
    assert (outcome.kind, outcome.respawned) == ("exit", True)
    assert outcome.record is not None and outcome.record.status == 5
    assert fresh.out == b"from the shell\n"
    fresh.assert_sound(heap=False)


def test_a_larger_pipe_is_emptied_too(fresh: Lab) -> None:
    """F_SETPIPE_SZ: more fits than is read at once."""
    ir = program(
        """  %r = call i32 (i32, i32, ...) @fcntl(i32 1, i32 1031, i32 1048576)
  %p = call ptr @malloc(i64 700000)
  %m = call ptr @memset(ptr %p, i32 120, i64 700000)
  %w = call i64 @write(i32 1, ptr %p, i64 700000)""",
        "declare i32 @fcntl(i32, i32, ...)",
    )
    assert fresh.run(ir).kind == "ok"
    assert fresh.out == b"x" * 700_000


def test_a_stopped_process_is_replaced_when_interrupted(fresh: Lab) -> None:
    fresh.executor.settings = SessionSettings(interrupt_grace=0.3)
    ir = program("  %r = call i32 @raise(i32 19)")
    at = fresh.place(ir)
    timer = threading.Timer(0.1, fresh.executor.interrupt)
    timer.start()
    outcome = fresh.executor.call(at, 0)
    timer.join()
    assert (outcome.kind, outcome.respawned) == ("interrupted", True)
    fresh.assert_sound(heap=False)


def test_the_slab_cannot_be_cut_under_the_kernel_process(fresh: Lab) -> None:
    """The file is reached through the kernel process's own descriptors, or a mapping's."""
    path = f"/proc/{os.getpid()}/fd/{fresh.arena.fd}"
    ir = program(
        "  %r = call i32 @truncate(ptr @s, i64 0)\n  store i32 %r, ptr %ret",
        string("s", path),
        "declare i32 @truncate(ptr, i64)",
    )
    outcome = fresh.run(ir, ret_size=4)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<i", -1))
    assert fresh.square(6) == 36
    fresh.arena.check()
