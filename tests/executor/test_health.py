"""Whether a process counts as sick depends on what its threads do, not on how busy the machine is."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jitkernel import procfs
from jitkernel.executor import abi
from tests.busy import until
from tests.seeds import few

from . import programs as p
from .conftest import Lab, in_time
from .programs import program

#: A fault in a library beside a thread that holds a lock which the check takes, for so many
#: microseconds of processor time, and does something then.
HOLDER = """void _IO_list_lock(void), _IO_list_unlock(void);
volatile int held;
void *holder(void *x) {
  _IO_list_lock();
  held = 1;
  for (clock_t began = clock(); clock() - began < TIME;);
  THEN
  sleep(1000);
  return 0;
}"""


def beside_a_holder(microseconds: int, then: str) -> str:
    holder = HOLDER.replace("TIME", str(microseconds)).replace("THEN", then)
    return program("start(holder);\nwhile (!held);\n*ret = strlen(0);", p.THREAD, holder)


def test_a_process_that_does_not_get_to_run_is_not_sick(
    fresh: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that does much else: here it is held from the beginning of the check."""
    fresh.run(p.KEEP)
    pid, ask = fresh.executor.pid, fresh.executor._request

    def held(child: Any, message: bytes, *rest: Any) -> Any:
        if struct.unpack_from("<Q", message)[0] == abi.CHECK:
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(2.0, os.kill, (pid, signal.SIGCONT)).start()
        return ask(child, message, *rest)

    monkeypatch.setattr(fresh.executor, "_request", held)
    outcome = fresh.run(p.FAULT_IN_A_LIBRARY)
    assert (outcome.kind, outcome.respawned) == ("fault", False)
    fresh.assert_sound()


@pytest.fixture
def busy(fresh: Lab) -> Iterator[None]:
    """The executor gets what others leave of the processors, which is next to nothing."""
    fresh.run(p.KEEP)
    os.setpriority(os.PRIO_PROCESS, fresh.executor.pid, 19)
    loop, environment = ["sh", "-c", "while :; do :; done"], dict(os.environ)
    count = 2 * len(os.sched_getaffinity(0))
    others = [os.posix_spawn("/bin/sh", loop, environment) for _ in range(count)]
    yield
    for pid in others:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_on_a_busy_machine_a_fault_costs_no_process(fresh: Lab, busy: None) -> None:
    for _ in range(5):
        outcome = fresh.run(p.FAULT_IN_A_LIBRARY)
        assert (outcome.kind, outcome.respawned) == ("fault", False)
    fresh.assert_sound()


def test_a_lock_whose_holder_runs_is_waited_for(fresh: Lab) -> None:
    fresh.run(p.KEEP)
    outcome = fresh.run(beside_a_holder(500_000, "_IO_list_unlock();"))
    assert (outcome.kind, outcome.respawned) == ("fault", False)
    fresh.assert_sound()


@pytest.mark.parametrize("microseconds", few([0, 1 << 60], 1), ids=["sleeps", "runs for ever"])
def test_a_lock_that_nobody_gives_back_is_not(fresh: Lab, microseconds: int) -> None:
    fresh.run(p.KEEP)
    began = time.monotonic()
    outcome = fresh.run(beside_a_holder(microseconds, ""))
    assert (outcome.kind, outcome.respawned) == ("fault", True)
    in_time(began, 6.0)
    fresh.assert_sound(heap=False)


def test_what_threads_do() -> None:
    """As /proc tells it of this process."""
    pid, event = os.getpid(), threading.Event()
    sleeper = threading.Thread(target=event.wait, daemon=True)
    sleeper.start()
    before = procfs.processor_time(pid)
    while procfs.processor_time(pid) - before < 0.05:
        pass
    assert procfs.activity(pid)[threading.get_native_id()].state == "R"
    assert until(lambda: procfs.activity(pid)[sleeper.native_id or 0].state == "S")
    event.set()
    sleeper.join()
    assert procfs.activity(0) == {} and procfs.processor_time(0) == 0
