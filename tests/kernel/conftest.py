"""A kernel per module, started as a client starts it, and the means to talk to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from jupyter_client.manager import KernelManager

from jitkernel.kernel.client import kernel_manager, outputs_text, run_cell
from jitkernel.kernel.displays import FOLD, plain
from jitkernel.kernel.install import NAME, kernelspec_source
from tests.busy import until
from tests.jupyter_home import jupyter_home as home
from tests.processes import runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def jupyter_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of their own, with this tree's kernel."""
    from jitkernel.kernel.install import install

    with home(tmp_path_factory.mktemp("jupyter home")) as folder:
        install("user")
        yield folder


def children(pid: int) -> set[int]:
    """All living descendants of a process."""
    import psutil

    try:
        return {p.pid for p in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def alive(pids: set[int]) -> set[int]:
    """Those that still run (a zombie does not)."""
    return {pid for pid in pids if runs(pid)}


def gone_within(pids: set[int], seconds: float) -> set[int]:
    """What of `pids` is still there after `seconds`; returns as soon as nothing is."""
    until(lambda: not alive(pids), seconds, 0.02)
    return alive(pids)


def unfolded(text: str) -> str:
    """The lines of an error as they were before they were folded between words."""
    lines: list[str] = []
    before = ""
    for line in text.split("\n"):
        word = line.split(" ")[0]
        if word and before[:1].strip() and len(before) + 1 + len(word) > FOLD:
            lines[-1] += " " + line
        else:
            lines.append(line)
        before = line
    return "\n".join(lines)


class Kernel:
    """A kernel process and a blocking client of it."""

    #: What kernels write to stderr, and how much of it has been read.
    logs: dict[IO[bytes], int] = {}

    @staticmethod
    def logged() -> str:
        """What kernels have logged since this was asked last."""
        told = b""
        for log, start in Kernel.logs.items():
            stop = os.fstat(log.fileno()).st_size
            told += os.pread(log.fileno(), stop - start, start)  # kernels write at the offset
            Kernel.logs[log] = stop
        return told.decode(errors="replace")

    def __init__(self, *arguments: str, cwd: str | None = None) -> None:
        log = tempfile.TemporaryFile()  # noqa: SIM115 (read for as long as there are tests)
        Kernel.logs[log] = 0
        manager = kernel_manager(NAME, [str(kernelspec_source().parent)])
        more = ["--log-level=ERROR", *arguments]
        self.begin(manager, extra_arguments=more, cwd=cwd or os.getcwd(), stderr=log)

    def begin(self, manager: KernelManager, **how: Any) -> None:
        """Start the kernel of a manager, whatever kernel that is."""
        self.manager = manager
        self.manager.start_kernel(**how)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def pid(self) -> int:
        return self.manager.provisioner.pid

    @property
    def processes(self) -> set[int]:
        """The kernel and everything it started."""
        return {self.pid} | children(self.pid)

    def run(self, source: str, timeout: float = 60, cell_id: str = "") -> tuple[dict, list[dict]]:
        return run_cell(self.client, source, timeout=timeout, cell_id=cell_id)

    def ok(self, source: str, **options: Any) -> str:
        """Run a cell that must not fail; everything it showed, as text."""
        reply, outputs = self.run(source, **options)
        text = "\n".join(outputs_text(outputs))
        assert reply["status"] == "ok", text
        return text

    def fails(self, source: str, **options: Any) -> str:
        """Run a cell that must fail; its error as plain text, each sentence in one line."""
        reply, outputs = self.run(source, **options)
        errors = [o for o in outputs if o["output_type"] == "error"]
        assert reply["status"] == "error", outputs
        assert len(errors) == 1, outputs
        assert errors[0]["ename"] == reply["ename"] and errors[0]["evalue"] == reply["evalue"]
        return unfolded(plain("\n".join(errors[0]["traceback"])))

    def page(self, source: str) -> str:
        """Run a cell that opens the pager; the page's text."""
        reply, _ = self.run(source)
        assert reply["status"] == "ok", reply
        (payload,) = reply["payload"]
        assert payload["source"] == "page"
        return str(payload["data"]["text/plain"])

    def result(self, source: str, **options: Any) -> str:
        """The text of a cell's `Out`."""
        reply, outputs = self.run(source, **options)
        assert reply["status"] == "ok", outputs_text(outputs)
        (out,) = [o for o in outputs if o["output_type"] == "execute_result"]
        return str(out["data"]["text/plain"])

    def start(self, source: str, **options: Any) -> str:
        """Send a cell and do not wait; its message id."""
        return self.client.execute(source, **options)

    def reply_to(self, identity: str, timeout: float = 60) -> dict:
        while True:
            reply = self.client.get_shell_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == identity:
                return reply["content"]

    def iopub_of(self, identity: str, timeout: float = 60) -> list[dict]:
        """The messages of a request up to its idle."""
        found = []
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") != identity:
                continue
            found.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return found

    def begun(self, identity: str, timeout: float = 60) -> None:
        """Wait until a cell that was sent is being run."""
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            same = message["parent_header"].get("msg_id") == identity
            if same and message["msg_type"] == "execute_input":
                return

    def reached(self) -> None:
        """Wait until what was sent before has come to the process: a request by the control channel,
        which is answered while a cell runs, and back."""
        request = self.client.session.msg("kernel_info_request", {})
        self.client.control_channel.send(request)
        while True:
            reply = self.client.get_control_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return

    def wait_output(self, identity: str, text: str, timeout: float = 60) -> None:
        """Wait until a running cell has printed `text`."""
        seen = ""
        while text not in seen:
            message = self.client.get_iopub_msg(timeout=timeout)
            if (
                message["parent_header"].get("msg_id") == identity
                and message["msg_type"] == "stream"
            ):
                seen += message["content"]["text"]

    def stop(self, now: bool = False) -> None:
        """End the kernel, if it has not ended, and what the client holds; more than once does no harm."""
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=now or not self.manager.is_alive())
        self.manager.cleanup_resources()


@pytest.fixture(autouse=True)
def no_error_inside() -> Iterator[None]:
    """A kernel answers also where it failed inside: then its log says so, and the test fails.  But
    its ports are chosen before it takes them, and another process may be quicker."""
    yield
    told = Kernel.logged()
    assert not told or "Address already in use" in told, told


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    running = Kernel()
    yield running
    processes = running.processes
    running.stop()
    assert not gone_within(processes, 60), "processes were left behind"


@pytest.fixture(scope="module")
def c_kernel() -> Iterator[Kernel]:
    """A kernel of C."""
    pytest.importorskip("ziglang")
    running = Kernel("--JITKernel.default_language=c")
    yield running
    running.stop()
