"""Output is handed on while the cell runs and is complete when it ends; input is asked for."""

from __future__ import annotations

import os
import select
import struct
import time

import pytest

from jitkernel.settings import SessionSettings
from tests.busy import soon

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program

SCANF = program('printf("how many? ");\nscanf("%d", (int *)ret);')
FGETS = program("fgets((char *)ret, 40, stdin);")
READ = program("read(0, ret, 40);")
POLL = program("struct pollfd in = {0, POLLIN};\npoll(&in, 1, -1);\nread(0, ret, 40);")
SELECT = program(
    """  fd_set in;
  FD_ZERO(&in);
  FD_SET(0, &in);
  select(1, &in, 0, 0, 0);
  read(0, ret, 40);"""
)
CHILD_READS = program("""system("read line; echo \\"got $line\\"");""")


@pytest.mark.parametrize(
    ("ir", "given", "result"),
    [
        (SCANF, "42", struct.pack("<i", 42)),
        (p.GETCHAR, "A", b"A\0\0\0"),
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
    counts = program(
        """  char *line = malloc(300000);
  fgets(line, 300000, stdin);
  *ret = strlen(line);
  free(line);"""
    )
    outcome = lab.run(counts, ret_size=8)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 200_001))


@timed
def test_a_long_line_that_nobody_reads_on(lab: Lab) -> None:
    """The cell ends, or is late, while more of its input waits than a pipe holds."""
    began = time.monotonic()
    for _ in range(2):
        lab.lines = ["x" * 200_000]
        assert lab.run(p.GETCHAR, ret_size=1).result == b"x"
    in_time(began, 2.0)
    lab.lines, lab.executor.settings = ["x" * 200_000], SessionSettings(cell_timeout=0.3)
    outcome = lab.run(program("read(0, ret, 1);\nfor (;;);"), ret_size=1)
    assert outcome.kind == "interrupted" and not outcome.respawned
    lab.assert_sound()


def test_what_a_cell_leaves_unread_is_gone(lab: Lab) -> None:
    lab.lines = ["AB", "C"]
    for expected in (b"A", b"C"):
        outcome = lab.run(p.GETCHAR, ret_size=1)
        assert (outcome.kind, outcome.result) == ("ok", expected)
    lab.lines = ["DE", "F"]
    for expected in (b"D", b"F"):
        outcome = lab.run(p.READ_ONE, ret_size=1)
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
    lab.executor.settings = SessionSettings(cell_timeout=0.8)
    lab.executor.on_input = lambda prompt: time.sleep(1.0) or "12"
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
    assert lab.run(program("for (;;) getchar();")).kind == "interrupted"
    lab.assert_sound()


def test_everything_is_there_when_the_call_returns(lab: Lab) -> None:
    """8,000 lines are several times what a pipe holds; a partial line and stderr come too."""
    prints = program(
        """  for (int i = 0; i < 8000; i++)
    printf("number %d and some more words to fill the line\\n", i);
  printf("end");
  write(2, "end", 3);"""
    )
    for _ in range(3):
        assert lab.run(prints).kind == "ok"
        lines = lab.out.split(b"\n")
        assert (len(lines), lines[-1]) == (8001, b"end")
        assert lines[7999].startswith(b"number 7999 ")
        assert lab.err == b"end"


def test_output_between_calls(lab: Lab) -> None:
    later = 'void *later(void *x) { usleep(50000); puts("from a thread"); return 0; }'
    lab.run(program("start(later);", p.THREAD, later))
    if not lab.out:  # on a busy machine it may have come before the call ended
        ready, _, _ = select.select(lab.executor.fds(), [], [], 60)
        assert ready
        lab.executor.drain()
    assert lab.out == b"from a thread\n"


def test_a_thread_of_the_kernel_process_may_watch(lab: Lab) -> None:
    """fds() stay the same through a respawn and never report an end of file."""
    before = lab.executor.fds()
    lab.executor.respawn()
    assert lab.executor.fds() == before
    assert lab.square(3) == 9
    assert select.select(before, [], [], 0) == ([], [], [])


@timed
def test_a_thread_that_waits_for_input_holds_nobody_up(fresh: Lab) -> None:
    """It owns stdin's lock; cells end all the same, and faults in libraries are recovered from."""
    reader = "void *reader(void *x) { putchar(getchar()); return 0; }"
    fresh.run(p.KEEP)
    assert fresh.run(program("start(reader);\nusleep(10000);", p.THREAD, reader)).kind == "ok"
    began = time.monotonic()
    for i in range(20):
        assert fresh.square(i) == i * i
    in_time(began, 0.1)
    outcome = fresh.run(p.FAULT_IN_A_LIBRARY)
    assert outcome.kind == "fault" and not outcome.respawned
    assert fresh.square(9) == 81


#: A thread takes the lock of a stream, and keeps it until `over` is set.
KEEP_LOCK = program(
    "start(keeping);\nwhile (!held) usleep(1000);",
    p.THREAD,
    """volatile int over, held;
void *keeping(void *x) {
  flockfile(stdout);
  held = 1;
  while (!over) usleep(1000);
  funlockfile(stdout);
  held = 0;
  return 0;
}""",
)
LET_GO = program("over = 1;\nwhile (held) usleep(1000);", "extern volatile int over, held;")


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
    hello = program('puts("hello");')
    at = fresh.place(hello)
    with soon(fresh.executor.interrupt):
        outcome = fresh.executor.call(at, 0)  # that one waits for the lock itself
    assert outcome.kind == "interrupted" and not outcome.respawned
    assert outcome.lock_holder is not None
    assert fresh.executor.pid == pid
    outcome = fresh.run(LET_GO)
    assert outcome.kind == "ok" and outcome.lock_holder is None
    assert fresh.run(hello).kind == "ok" and fresh.out == b"hello\n"
    fresh.assert_sound()
