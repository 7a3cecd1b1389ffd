"""Output is handed on while the cell runs and is complete when it ends; input is asked for."""

from __future__ import annotations

import os
import struct
import threading
import time

import pytest

from jitkernel.settings import SessionSettings

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program, string

SCANF = program(
    """  %n = call i32 (ptr, ...) @printf(ptr @q)
  %r = call i32 (ptr, ...) @scanf(ptr @f, ptr %ret)""",
    string("q", "how many? "),
    string("f", "%d"),
)
GETCHAR = program("  %c = call i32 @getchar()\n  store i32 %c, ptr %ret")
FGETS = program(
    "  %f = load ptr, ptr @stdin\n  %r = call ptr @fgets(ptr %ret, i32 40, ptr %f)",
    "@stdin = external global ptr",
)
READ = program("  %n = call i64 @read(i32 0, ptr %ret, i64 40)")
POLL = program(
    """  %p = alloca i64
  store i64 4294967296, ptr %p
  %n = call i32 @poll(ptr %p, i64 1, i32 -1)
  %m = call i64 @read(i32 0, ptr %ret, i64 40)"""
)
SELECT = program(
    """  %p = alloca [16 x i64]
  %z = call ptr @memset(ptr %p, i32 0, i64 128)
  store i64 1, ptr %p
  %n = call i32 @select(i32 1, ptr %p, ptr null, ptr null, ptr null)
  %m = call i64 @read(i32 0, ptr %ret, i64 40)"""
)
CHILD_READS = program("  %n = call i32 @system(ptr @c)", string("c", 'read line; echo "got $line"'))


@pytest.mark.parametrize(
    ("ir", "given", "result"),
    [
        (SCANF, "42", struct.pack("<i", 42)),
        (GETCHAR, "A", b"A\0\0\0"),
        (FGETS, "some words", b"some words\n\0"),
        (READ, "raw", b"raw\n"),
        (POLL, "polled", b"polled\n"),
        (SELECT, "selected", b"selected\n"),
    ],
    ids=["scanf", "getchar", "fgets", "read", "poll", "select"],
)
@timed
def test_input_is_asked_for(lab: Lab, ir: str, given: str, result: bytes) -> None:
    lab.lines = [given]
    began = time.monotonic()
    outcome = lab.run(ir, ret_size=len(result))
    assert (outcome.kind, outcome.result) == ("ok", result)
    assert lab.prompts[-1:] == ["how many? " if ir is SCANF else ""]
    in_time(began, 0.3)
    assert lab.square(3) == 9


def test_a_program_of_the_cell_reads(lab: Lab) -> None:
    lab.lines = ["a line"]
    assert lab.run(CHILD_READS).kind == "ok"
    assert lab.out == b"got a line\n"


def test_a_long_line(lab: Lab) -> None:
    """More than a pipe holds."""
    lab.lines = ["x" * 200_000]
    ir = program(
        """  %b = call ptr @malloc(i64 300000)
  %f = load ptr, ptr @stdin
  %r = call ptr @fgets(ptr %b, i32 300000, ptr %f)
  %n = call i64 @strlen(ptr %b)
  store i64 %n, ptr %ret
  call void @free(ptr %b)""",
        "@stdin = external global ptr",
    )
    outcome = lab.run(ir, ret_size=8)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 200_001))


@timed
def test_a_long_line_that_nobody_reads_on(lab: Lab) -> None:
    """The cell ends, or is late, while more of its input waits than a pipe holds."""
    began = time.monotonic()
    for _ in range(2):
        lab.lines = ["x" * 200_000]
        assert lab.run(GETCHAR, ret_size=1).result == b"x"
    in_time(began, 2.0)
    lab.lines, lab.executor.settings = ["x" * 200_000], SessionSettings(cell_timeout=0.3)
    spin = program(
        "  %n = call i64 @read(i32 0, ptr %ret, i64 1)\n  br label %on\non:\n  br label %on",
    )
    outcome = lab.run(spin, ret_size=1)
    assert outcome.kind == "interrupted" and not outcome.respawned
    lab.assert_sound()


def test_what_a_cell_leaves_unread_is_gone(lab: Lab) -> None:
    lab.lines = ["AB", "C"]
    for expected in (b"A", b"C"):
        outcome = lab.run(GETCHAR, ret_size=1)
        assert (outcome.kind, outcome.result) == ("ok", expected)
    lab.lines = ["DE", "F"]
    one = program("  %n = call i64 @read(i32 0, ptr %ret, i64 1)")
    for expected in (b"D", b"F"):
        outcome = lab.run(one, ret_size=1)
        assert (outcome.kind, outcome.result) == ("ok", expected)


def test_input_that_is_not_to_be_had(lab: Lab) -> None:
    for ir in (SCANF, READ, POLL, CHILD_READS):
        outcome = lab.run(ir)
        assert outcome.kind == "interrupted" and outcome.record is not None
        assert outcome.record.cause == "stdin" and not outcome.respawned
        lab.assert_sound()
    lab.executor.on_input = None
    outcome = lab.run(READ)
    assert outcome.record is not None and outcome.record.cause == "stdin"


def test_the_time_limit_does_not_count_the_users_time(lab: Lab) -> None:
    lab.executor.settings = SessionSettings(cell_timeout=0.3)
    lab.executor.on_input = lambda prompt: time.sleep(0.5) or "12"
    outcome = lab.run(SCANF, ret_size=4)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<i", 12))


def test_what_an_input_callback_raises(lab: Lab) -> None:
    def ask(prompt: str) -> str:
        raise KeyError(prompt)

    lab.executor.on_input = ask
    with pytest.raises(KeyError):
        lab.run(SCANF)
    lab.assert_sound()


def test_keyboard_interrupt_while_the_user_is_asked(lab: Lab) -> None:
    def ask(prompt: str) -> str:
        raise KeyboardInterrupt

    lab.executor.on_input = ask
    assert lab.run(SCANF).kind == "interrupted"
    lab.assert_sound()


def test_interrupt_while_the_user_is_asked(lab: Lab) -> None:
    lab.executor.on_input = lambda prompt: str(lab.executor.interrupt())
    ir = program("  br label %l\nl:\n  %c = call i32 @getchar()\n  br label %l\nu:")
    assert lab.run(ir).kind == "interrupted"
    lab.assert_sound()


def test_everything_is_there_when_the_call_returns(lab: Lab) -> None:
    """8,000 lines are several times what a pipe holds; a partial line and stderr come too."""
    ir = program(
        """  br label %l
l:
  %i = phi i32 [ 0, %0 ], [ %j, %l ]
  %n = call i32 (ptr, ...) @printf(ptr @s, i32 %i)
  %j = add i32 %i, 1
  %c = icmp ult i32 %j, 8000
  br i1 %c, label %l, label %done
done:
  %m = call i32 (ptr, ...) @printf(ptr @e)
  %w = call i64 @write(i32 2, ptr @e, i64 3)""",
        string("s", "number %d and some more words to fill the line\n"),
        string("e", "end"),
    )
    for _ in range(3):
        assert lab.run(ir).kind == "ok"
        lines = lab.out.split(b"\n")
        assert (len(lines), lines[-1]) == (8001, b"end")
        assert lines[7999].startswith(b"number 7999 ")
        assert lab.err == b"end"


def test_output_between_calls(lab: Lab) -> None:
    ir = program(
        "  %id = call i64 @start(ptr @later)",
        p.THREAD,
        """
define ptr @later(ptr %x) {
  %u = call i32 @usleep(i32 50000)
  %n = call i32 @puts(ptr @s)
  ret ptr null
}""",
        string("s", "from a thread"),
    )
    import select

    lab.run(ir)
    if not lab.out:  # on a busy machine it may have come before the call ended
        ready, _, _ = select.select(lab.executor.fds(), [], [], 20)
        assert ready
        lab.executor.drain()
    assert lab.out == b"from a thread\n"


def test_a_thread_of_the_kernel_process_may_watch(lab: Lab) -> None:
    """fds() stay the same through a respawn and never report an end of file."""
    import select

    before = lab.executor.fds()
    lab.executor.respawn()
    assert lab.executor.fds() == before
    assert lab.square(3) == 9
    assert select.select(before, [], [], 0) == ([], [], [])


@timed
def test_a_thread_that_waits_for_input_holds_nobody_up(fresh: Lab) -> None:
    """It owns stdin's lock; cells end all the same, and faults in libraries are recovered from."""
    ir = program(
        "  %id = call i64 @start(ptr @reader)\n  %u = call i32 @usleep(i32 10000)",
        p.THREAD,
        """
define ptr @reader(ptr %x) {
  %c = call i32 @getchar()
  %n = call i32 @putchar(i32 %c)
  ret ptr null
}""",
    )
    fresh.run(p.KEEP)
    assert fresh.run(ir).kind == "ok"
    began = time.monotonic()
    for i in range(20):
        assert fresh.square(i) == i * i
    in_time(began, 0.1)
    outcome = fresh.run(program("  %n = call i64 @strlen(ptr null)\n  store i64 %n, ptr %ret"))
    assert outcome.kind == "fault" and not outcome.respawned
    assert fresh.square(9) == 81


#: A thread takes the lock of a stream, and keeps it until @over is set.
KEEPING = """
@stdout = external global ptr
@over = global i32 0
define ptr @keeping(ptr %x) {
  %f = load ptr, ptr @stdout
  call void @flockfile(ptr %f)
  br label %l
l:
  %s = call i32 @usleep(i32 1000)
  %q = load volatile i32, ptr @over
  %c = icmp eq i32 %q, 0
  br i1 %c, label %l, label %done
done:
  call void @funlockfile(ptr %f)
  ret ptr null
}
declare void @flockfile(ptr)
declare void @funlockfile(ptr)
"""
KEEP_LOCK = program(
    """  %id = call i64 @start(ptr @keeping)
  %u = call i32 @usleep(i32 50000)""",
    p.THREAD,
    KEEPING,
)
LET_GO = program("  store volatile i32 1, ptr @over\n  %u = call i32 @usleep(i32 50000)",
                 "@over = external global i32")  # fmt: skip


def test_a_thread_that_keeps_a_streams_lock_keeps_no_cell(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    pid = fresh.executor.pid
    fresh.run(KEEP_LOCK)
    for _ in range(3):
        outcome = fresh.run(p.SQUARE, struct.pack("<q", 5), 8)
        assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 25))
        holder = outcome.lock_holder
        assert holder is not None and holder.stream == "stdout"
        assert str(holder.tid) in os.listdir(f"/proc/{pid}/task") and holder.tid != pid
        _, text = fresh.cache[KEEP_LOCK]
        assert any(at in text for at in holder.stack)
    hello = program("  %n = call i32 @puts(ptr @s)", string("s", "hello"))
    at = fresh.place(hello)
    timer = threading.Timer(0.2, fresh.executor.interrupt)
    timer.start()
    outcome = fresh.executor.call(at, 0)  # that one waits for the lock itself
    timer.join()
    assert outcome.kind == "interrupted" and not outcome.respawned
    assert outcome.lock_holder is not None
    assert fresh.executor.pid == pid
    outcome = fresh.run(LET_GO)
    assert outcome.kind == "ok" and outcome.lock_holder is None
    assert fresh.run(hello).kind == "ok" and fresh.out == b"hello\n"
    fresh.assert_sound()
