"""A cell's output as Jupyter messages: streams, displays, results, errors, pages, input requests.

Everything carries the parent header of the request that runs, also when it is sent from another
thread.  Start from `WireOutput`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import zmq

from jitkernel.errors import Interrupted, present
from jitkernel.kernel.streams import OutputStreams
from jitkernel.views.view import View

if TYPE_CHECKING:
    from ipykernel.kernelbase import Kernel

_PATIENCE = 1.0  # seconds for what was said to leave


class WireOutput(OutputStreams):
    """The frontend's `Output` in a kernel; `stopped` says that nobody waits for a line any more."""

    def __init__(
        self, kernel: Kernel, limit: Callable[[], int], stopped: Callable[[], bool]
    ) -> None:
        super().__init__(limit)
        self._kernel, self._stopped = kernel, stopped
        self._parent: dict[str, Any] = {}
        self._ident: Any = b""
        self._silent = False
        self._allow_stdin = False
        self._count = 0
        self.payload: list[dict[str, Any]] = []

    # -- around a cell ---------------------------------------------------------------------

    def begin_request(self, *, silent: bool, allow_stdin: bool, count: int) -> None:
        """A request starts to run."""
        self._parent = self._kernel.get_parent("shell")
        self._ident = self._kernel._get_shell_context_var(self._kernel._shell_parent_ident)
        self._silent, self._allow_stdin, self._count = silent, allow_stdin, count
        self.payload = []
        self.begin(in_place=bool((self._parent.get("metadata") or {}).get("cellId")))

    def end(self) -> None:
        super().end()
        self._silent = False

    # -- as an Output ----------------------------------------------------------------------

    def write(self, name: str, data: bytes | str) -> None:
        if not self._silent:
            super().write(name, data)

    def display(self, view: View, live: str = "", update: bool = False) -> None:
        if not self._silent:
            kind = "update_display_data" if update else "display_data"
            self._show(kind, view, transient={"display_id": live} if live else {})

    def page(self, view: View) -> None:
        self.payload.append({"source": "page", "data": view._repr_mimebundle_(), "start": 0})

    def leave(self) -> None:
        self.payload.append({"source": "ask_exit", "keepkernel": False})

    def clear(self, wait: bool) -> None:
        if not self._silent:
            self._send("clear_output", {"wait": wait})

    def result(self, view: View) -> None:
        """The cell's `Out`."""
        self.show_held()
        self._show("execute_result", view, execution_count=self._count)

    def error(self, content: dict[str, Any]) -> None:
        self.show_held()
        self._send("error", content)

    def _published(self) -> None:
        """Wait until what was said before is on its way: it goes by another socket."""
        sent = threading.Event()
        self._kernel.iopub_thread.schedule(sent.set)
        sent.wait(_PATIENCE)

    def input(self, prompt: str) -> str | None:
        """Ask the client for a line; None when it has no input box.  EOFError on Ctrl-D."""
        if not self._allow_stdin:
            return None
        prompt = self.unshown(prompt)
        kernel, socket = self._kernel, self._kernel.stdin_socket
        session = present(kernel.session, "the kernel's connection")
        self._published()
        while socket.poll(0, zmq.POLLIN):
            socket.recv_multipart()  # an answer to a request that was given up
        content = {"prompt": prompt, "password": False}
        session.send(socket, "input_request", content, self._parent, ident=self._ident)
        while True:
            if self._stopped():
                raise Interrupted("interrupted while waiting for input")
            if not socket.poll(20, zmq.POLLIN):
                continue
            _, reply = session.recv(socket)
            if reply is not None and reply["header"]["msg_type"] == "input_reply":
                value = str(reply["content"].get("value", ""))
                if value == "\x04":
                    raise EOFError
                return value

    # -- sending ---------------------------------------------------------------------------

    def _show(self, kind: str, view: View, **more: Any) -> None:
        self._send(kind, {"data": view._repr_mimebundle_(), "metadata": {}, **more})

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        self.flush()
        self._publish(kind, content)

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        kernel = self._kernel
        if kernel.session is not None:
            kernel.session.send(
                kernel.iopub_socket, kind, content, parent=self._parent, ident=kernel._topic(kind)
            )

    def publish(self, name: str, text: str) -> None:
        self._publish("stream", {"name": name, "text": text})

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call on the thread that owns the iopub socket."""
        loop = self._kernel.iopub_thread.io_loop
        loop.add_callback(loop.call_later, seconds, call)
