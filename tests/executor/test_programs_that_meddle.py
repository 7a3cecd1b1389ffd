"""Handlers of the user's own, closed descriptors, changed directories: the next cell works."""

from __future__ import annotations

import os
import struct
import time

import pytest

from jitkernel.errors import JitError
from jitkernel.settings import SessionSettings
from tests.busy import soon

from . import programs as p
from .conftest import Lab, in_time, timed
from .programs import program

PUTS = program('puts("still here");')


def test_closed_standard_streams_are_opened_again(lab: Lab) -> None:
    for fds in ((1,), (2,), (0,), (0, 1, 2)):
        pid = lab.executor.pid
        outcome = lab.run(program("\n".join(f"close({fd});" for fd in fds)))
        assert outcome.kind == "ok" and not outcome.respawned
        assert "opened again" in outcome.lost
        assert lab.executor.pid == pid
        assert lab.run(PUTS).kind == "ok"
        assert lab.out == b"still here\n"
        lab.lines = ["x"]
        assert lab.run(p.READ_ONE, ret_size=1).result == b"x"
    lab.assert_sound()


@pytest.mark.parametrize("first", [0, 3])
@timed
def test_every_descriptor_closed(fresh: Lab, first: int) -> None:
    fresh.run(p.KEEP)
    close_all = program(f"for (int fd = {first}; fd <= 1 << 15; fd++) close(fd);\n*ret = 99;")
    outcome = fresh.run(close_all, ret_size=8)
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
        outcome = fresh.run(program(f"fclose({name});"))
        assert outcome.kind == "ok" and not outcome.respawned
        assert "opened again" in outcome.lost
        assert fresh.run(PUTS).kind == "ok"
        assert fresh.out == b"still here\n"
        fresh.lines = ["x"]
        assert fresh.run(p.GETCHAR, ret_size=1).result == b"x"
        fresh.assert_sound()


def test_redirected_output_stays_redirected(fresh: Lab) -> None:
    fresh.run(program("dup2(2, 1);"))
    fresh.run(PUTS)
    assert (fresh.out, fresh.err) == (b"", b"still here\n")


def test_handlers_of_the_users_own(lab: Lab) -> None:
    handles = program(
        """  int every[] = {SIGSEGV, SIGFPE, SIGABRT, 62, SIGUSR1};
  for (int i = 0; i < 5; i++) signal(every[i], mine);
  raise(SIGSEGV);
  raise(SIGUSR1);
  *ret = caught;""",
        "volatile long caught;\nvoid mine(int signal) { caught++; }",
    )
    outcome = lab.run(handles, ret_size=8)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<q", 2))
    outcome = lab.run(p.NULL)
    assert outcome.kind == "fault" and not outcome.respawned
    again = program("raise(SIGUSR1);\n*ret = caught;", "extern volatile long caught;")
    assert lab.run(again, ret_size=8).result == struct.pack("<q", 3)  # SIGUSR1's stays
    lab.assert_sound()


def test_a_fault_inside_a_handler_of_the_users_own(lab: Lab) -> None:
    bad = f"void bad(int signal) {{ {p.FAULT} }}"
    for _ in range(2):
        outcome = lab.run(program("signal(SIGUSR1, bad);\nraise(SIGUSR1);", bad))
        assert outcome.kind == "fault" and outcome.record is not None
        assert outcome.record.signal == "SIGSEGV" and not outcome.respawned
    lab.assert_sound()


def test_blocked_signals(lab: Lab) -> None:
    assert lab.run(program(p.BLOCK)).kind == "ok"
    assert lab.run(p.NULL).kind == "fault"
    lab.assert_sound()


def test_a_fault_with_its_signal_blocked_takes_the_process(fresh: Lab) -> None:
    outcome = fresh.run(program(p.BLOCK + p.FAULT))
    assert (outcome.kind, outcome.respawned) == ("died", True)
    assert "SIGSEGV" in outcome.lost
    fresh.assert_sound(heap=False)


def test_a_signal_that_ends_programs(fresh: Lab) -> None:
    outcome = fresh.run(program("raise(SIGTERM);"))
    assert (outcome.kind, outcome.respawned) == ("died", True)
    assert "SIGTERM" in outcome.lost
    fresh.assert_sound(heap=False)


def test_the_runtimes_own_data_overwritten(fresh: Lab) -> None:
    """A wild store over the control block costs the process, never the session."""
    data = next(r for r in fresh.arena.regions if r.name == "runtime.data")
    for value in (0, 255):
        fresh.executor.on_respawn = None
        outcome = fresh.run(program(f"memset((void *){data.start}, {value}, 8192);\n{p.FAULT}"))
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
    fresh.run(p.KEEP)
    outcome = fresh.run(
        program('execl("/bin/sh", "/bin/sh", "-c", "echo from the shell; exit 5", (char *)0);')
    )
    assert (outcome.kind, outcome.respawned) == ("exit", True)
    assert outcome.record is not None and outcome.record.status == 5
    assert fresh.out == b"from the shell\n"
    fresh.assert_sound(heap=False)


def test_a_larger_pipe_is_emptied_too(fresh: Lab) -> None:
    """F_SETPIPE_SZ: more fits than is read at once."""
    much = program(
        """  fcntl(1, F_SETPIPE_SZ, 1 << 20);
  char *text = malloc(700000);
  memset(text, 'x', 700000);
  write(1, text, 700000);"""
    )
    assert fresh.run(much).kind == "ok"
    assert fresh.out == b"x" * 700_000


def test_a_stopped_process_is_replaced_when_interrupted(fresh: Lab) -> None:
    fresh.executor.settings = SessionSettings(interrupt_grace=0.3)
    at = fresh.place(program("raise(SIGSTOP);"))
    with soon(fresh.executor.interrupt):
        outcome = fresh.executor.call(at, 0)
    assert (outcome.kind, outcome.respawned) == ("interrupted", True)
    fresh.assert_sound(heap=False)


def test_the_slab_cannot_be_cut_under_the_kernel_process(fresh: Lab) -> None:
    """The file is reached through the kernel process's own descriptors, or a mapping's."""
    path = f"/proc/{os.getpid()}/fd/{fresh.arena.fd}"
    outcome = fresh.run(program(f'*ret = truncate("{path}", 0);'), ret_size=4)
    assert (outcome.kind, outcome.result) == ("ok", struct.pack("<i", -1))
    assert fresh.square(6) == 36
    fresh.arena.check()
