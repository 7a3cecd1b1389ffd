"""Shutdown, restart, a killed client, a killed kernel: no process is ever left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel, children, gone_within

SPIN = "start:\n  br label %spin\nspin:\n  br label %spin"


@pytest.fixture
def running() -> Iterator[Kernel]:
    kernel = Kernel()
    kernel.ok("@abs(-1)")
    yield kernel
    kernel.stop(now=True)


def test_shutdown_while_idle(running: Kernel) -> None:
    processes = running.processes
    assert len(processes) >= 3  # kernel, worker, executor
    running.client.shutdown()
    assert not gone_within(processes, 60)


@pytest.mark.parametrize(
    "work", [SPIN, "!sleep 1000", "@sleep(1000)"], ids=["loop", "shell", "libc"]
)
def test_shutdown_while_a_cell_runs(running: Kernel, work: str) -> None:
    identity = running.start(work)
    running.begun(identity)
    time.sleep(0.4)
    processes = running.processes
    running.client.shutdown()
    assert not gone_within(processes, 60)
    assert running.reply_to(identity)["status"] == "error"


def test_restart_is_a_fresh_session(running: Kernel) -> None:
    running.ok("@n = i64 5")
    processes = running.processes
    running.manager.restart_kernel()
    running.client.wait_for_ready(timeout=60)
    assert not gone_within(processes, 60)
    assert "@n is not defined" in running.fails("@n")
    assert running.result("@abs(-3)") == "i32 3"


def test_restart_while_a_cell_runs(running: Kernel) -> None:
    running.begun(running.start(SPIN))
    time.sleep(0.3)
    processes = running.processes
    running.manager.restart_kernel(now=False)
    running.client.wait_for_ready(timeout=60)
    assert not gone_within(processes, 60)
    assert running.result("@abs(-3)") == "i32 3"


CLIENT = """
import sys, time
from tests.kernel.conftest import Kernel
kernel = Kernel()
kernel.ok("@abs(-1)")
print(kernel.pid, flush=True)
time.sleep(1000)
"""


def test_a_killed_client_leaves_nothing(tmp_path: Path) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # it cannot remove its connection file
    )  # fmt: skip
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    processes = {pid} | children(pid)
    assert len(processes) >= 3
    client.kill()
    client.wait()
    client.stdout.close()
    assert not gone_within(processes, 60)
