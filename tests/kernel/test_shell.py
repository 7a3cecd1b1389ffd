"""`!command`: its status and output, and that nothing of it outlives the kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from uuid import uuid4

import psutil
import pytest

from jitkernel.kernel.shell import ShellCommand
from tests.busy import until
from tests.kernel.conftest import Kernel, gone_within

STATUS = {
    "true": (0, ""),
    "echo one; echo two >&2; exit 3": (3, "one\ntwo\n"),
    "kill -9 $$": (-9, ""),
    "kill -15 $$": (-15, ""),
    "no-such-command 2>/dev/null": (127, ""),
    "exec >&- 2>&-; sleep 0.1; exit 4": (4, ""),
    "seq 20000 | tail -1; printf end": (0, "20000\nend"),
    "yes | head -1": (0, "y\n"),
    "cat": (0, ""),
    "sleep 1000 & echo $!; kill $!": (0, None),
}
LEFT = {
    "waited for": "sleep 1000",
    "in the background": "sleep 1000 & echo; sleep 1000",
    "left behind": "sleep 1000 & sleep 1000 & echo",
    "in a session of its own": "setsid -f sleep 1000; setsid sleep 1000 & echo; sleep 1000",
    "deaf": "trap '' INT TERM HUP; sleep 1000 & echo; sleep 1000",
    "a chain": "sh -c 'sh -c \"sleep 1000\" & sleep 1000' & echo; sleep 1000",
    "forking": "f() { sleep 0.01; f & }; f & f & echo; sleep 1000",
}


def shell(command: str) -> tuple[int, str]:
    pieces: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def output(name: str, data: bytes) -> None:
        pieces[name] += data

    return ShellCommand(command).run(output), b"".join(pieces.values()).decode()


@pytest.mark.parametrize("command", STATUS)
def test_status_and_output(command: str) -> None:
    status, text = STATUS[command]
    found = shell(command)
    assert found[0] == status and text in (None, found[1])


#: SIGCANCEL and SIGSETXID, 32 and 33, are glibc's own: what posix_spawn starts, as make does,
#: ignores them, and nobody can ask for anything else.
GLIBC = 3 << 31


def test_signals_of_a_command_are_as_in_a_terminal() -> None:
    ignored = "awk '/SigIgn|SigBlk/ {print $2}' /proc/self/status"
    assert [int(mask, 16) & ~GLIBC for mask in shell(ignored)[1].split()] == [0, 0]


def test_a_command_sees_no_descriptors_of_ours() -> None:
    assert shell("ls /proc/self/fd")[1].split() == ["0", "1", "2", "3"], "3 is that of the folder"


@pytest.fixture
def kernel() -> Kernel:
    return Kernel("--Arena.capacity=64M")


def end_by(kernel: Kernel, how: str) -> None:
    if how == "killed":
        os.kill(kernel.pid, signal.SIGKILL)
    kernel.stop(now=how != "shut down")


@pytest.mark.parametrize("command", LEFT)
def test_nothing_outlives_a_kernel_that_is_killed(kernel: Kernel, command: str) -> None:
    mark = uuid4().hex
    kernel.start(f"!export LEFT_MARK={mark}; {LEFT[command]}")
    assert until(lambda: len(marked(mark)) >= LEFT[command].count("sleep 1000"))
    everything = kernel.processes | marked(mark)
    end_by(kernel, "killed")
    assert not gone_within(everything, 60)
    assert until(lambda: not marked(mark))


@pytest.mark.parametrize("how", ["restart", "shut down"])
def test_nothing_outlives_a_kernel_that_ends(kernel: Kernel, how: str) -> None:
    kernel.ok("!sleep 1000 & setsid sleep 1000 & echo")
    everything = kernel.processes
    end_by(kernel, how)
    assert not gone_within(everything, 60)


def test_what_is_left_running_goes_on_while_the_kernel_does(kernel: Kernel) -> None:
    shown = kernel.ok("!sleep 1000 >/dev/null 2>&1 & echo $!")
    (pid,) = [int(word) for word in shown.split() if word.isdigit()]
    kernel.ok("!true")
    os.kill(pid, 0)
    end_by(kernel, "shut down")
    assert not gone_within({pid}, 60)


def test_nothing_outlives_a_script_that_is_killed() -> None:
    script = (
        "from jitkernel.kernel.shell import ShellCommand\n"
        "ShellCommand('sleep 1000 & echo $!; sleep 1000').run(lambda n, d: print(d.decode()))"
    )
    command = [sys.executable, "-u", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    assert not gone_within({pid}, 60)


def marked(mark: str) -> set[int]:
    """The processes that have this in their environment, whoever their parents are."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("LEFT_MARK") == mark:
                found.add(process.pid)
    return found
