"""A small Jupyter client: starts the kernel of this installation and runs a notebook's cells.

Used by `jitkernel run FILE.ipynb` and `jitkernel tour`; it needs nothing beyond jupyter_client.
Start from `kernel_for` and `run_cells`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple

from jitkernel.kernel.displays import plain
from jitkernel.kernel.install import KERNELS, NAME, kernelspec_source

START_TIMEOUT = 60.0  # seconds
_QUIET = 0.05  # seconds without output before somebody is asked
#: What a notebook stores of each message that is an output.
_OUTPUTS = {
    "stream": ("name", "text"),
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
    "error": ("ename", "evalue", "traceback"),
}


_SOCKET = 107 - len("/kernel-01234567-ipc-5")  # bytes that unix(7) leaves for the folder's name


def own_transport() -> str:
    """`ipc`: sockets in a folder of the user's, which no other user reaches, and no other program
    takes before the kernel does; `tcp` where that folder's name is too long for sockets."""
    from jupyter_core.paths import jupyter_runtime_dir

    return "ipc" if len(os.fsencode(jupyter_runtime_dir())) <= _SOCKET else "tcp"


def kernel_manager(name: str, own: list[str]) -> Any:
    """A manager of one kernel, which is looked for in the folders `own`, too."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager
    from jupyter_core.paths import jupyter_runtime_dir

    folder = jupyter_runtime_dir()
    os.makedirs(folder, 0o700, exist_ok=True)
    return KernelManager(
        kernel_name=name,
        kernel_spec_manager=KernelSpecManager(kernel_dirs=own),
        transport=own_transport(),
        connection_file=os.path.join(folder, f"kernel-{secrets.token_hex(4)}.json"),
    )


@contextlib.contextmanager
def running_kernel(
    folder: Path, arguments: tuple[str, ...] = (), python: bool = False
) -> Iterator[Any]:
    """A client of a fresh kernel that works in `folder`; the kernel is gone afterwards.  `python`:
    IPython's, whose notebooks load jitkernel as an extension, and not ours."""
    own = [] if python else [str(kernelspec_source().parent)]  # IPython's is found in any case
    manager = kernel_manager("python3" if python else NAME, own)
    # The kernel must find this very package, also when it is run from a source tree.
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    manager.start_kernel(
        extra_arguments=["--log-level=ERROR", *arguments],
        cwd=str(folder),
        env={**os.environ, "PYTHONPATH": path},
    )
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=START_TIMEOUT)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def run_cell(
    client: Any, source: str, cell_id: str = "", timeout: float | None = None,
    answers: Sequence[str] | None = None, hear: Callable[[str, str], None] | None = None,
    ask: Callable[[str], str] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """Run one cell: the reply's content and the outputs as a notebook stores them.  `answers` are
    the lines that it gets where it asks; None: somebody else is asked, with `ask(prompt)`, or the
    client has no input box.  Who wants to `hear` the streams while it runs is given their names and
    texts, and displays, too, where somebody is asked."""
    outputs: list[dict[str, Any]] = []
    live: dict[str, dict[str, Any]] = {}  # displays that may be updated in place

    def take(message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        display = content.get("transient", {}).get("display_id", "")
        last = outputs[-1] if outputs else {}
        if kind == "stream" and hear is not None:
            hear(content["name"], content["text"])
        if kind == "clear_output":
            outputs.clear()
        elif kind == "update_display_data" and display in live:
            live[display]["data"] = content["data"]
        elif kind == "stream" and last.get("name") == content["name"]:
            last["text"] += content["text"]
        elif kind == "display_data" and hear is not None and ask is not None:
            hear("stdout", content["data"].get("text/plain", "") + "\n")  # it is being looked at
        elif kind in _OUTPUTS:
            outputs.append({"output_type": kind, **{key: content[key] for key in _OUTPUTS[kind]}})
            if display:
                live[display] = outputs[-1]

    left = list(answers or ())

    def answer(message: dict[str, Any]) -> None:
        if answers is not None or ask is None:
            client.input(left.pop(0) if left else "\x04")
            return
        with contextlib.suppress(Empty):  # what it has said before comes by another socket
            while True:
                said = client.get_iopub_msg(timeout=_QUIET)
                if said["parent_header"].get("msg_id") == message["parent_header"].get("msg_id"):
                    take(said)
        client.input(ask(message["content"]["prompt"]))

    client.session.metadata = {"cellId": cell_id}
    reply = client.execute_interactive(
        source, allow_stdin=(answers, ask) != (None, None), stop_on_error=False, timeout=timeout,
        output_hook=take, stdin_hook=answer,
    )  # fmt: skip
    return reply["content"], outputs


def read_notebook(path: Path) -> dict[str, Any]:
    """A notebook of format 4, with sources and outputs as plain strings.  Raises OSError, and
    ValueError for what is none."""
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("it is not a notebook") from None
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4 or "cells" not in notebook:
        raise ValueError("it is not a notebook of format 4")
    for cell in notebook["cells"]:
        cell["source"] = _joined(cell["source"])
        for output in cell.get("outputs", ()):
            if "text" in output:
                output["text"] = _joined(output["text"])
            if "data" in output:
                output["data"] = {k: _joined(v) for k, v in output["data"].items()}
    return notebook


def _joined(value: Any) -> Any:
    return "".join(value) if isinstance(value, list) else value


def language_of(notebook: dict[str, Any]) -> tuple[str, ...]:
    """The arguments of a kernel for the notebook's language, where that is one of ours."""
    spec = notebook.get("metadata", {}).get("kernelspec", {})
    if spec.get("name") not in KERNELS[1:]:
        return ()
    language = spec.get("language") or spec["name"].removeprefix(f"{KERNELS[0]}-")
    return (f"--JITKernel.default_language={language}",)


def kernel_for(
    notebook: dict[str, Any], folder: Path, *arguments: str
) -> contextlib.AbstractContextManager[Any]:
    """A client of a fresh kernel for a notebook, of ours with these arguments; in a notebook of
    Python it is IPython's, and what is to be set is set in its cells."""
    python = notebook.get("metadata", {}).get("kernelspec", {}).get("language") == "python"
    return running_kernel(folder, () if python else (*arguments, *language_of(notebook)), python)


class Ran(NamedTuple):
    """A notebook's cell that was run: its number, what came; whether it failed, and was to."""

    cell: dict[str, Any]
    number: int | None
    outputs: list[dict[str, Any]]
    failed: bool
    meant: bool


def run_cells(
    client: Any, notebook: dict[str, Any], hear: Callable[[str, str], None] | None = None,
    ask: Callable[[str], str] | None = None,
) -> Iterator[Ran]:  # fmt: skip
    """Run the cells of a notebook in order, each as it is asked for; `hear` and `ask` as for
    `run_cell`."""
    for cell in code_cells(notebook):
        reply, outputs = run_cell(
            client, cell["source"], cell_id=cell.get("id", ""), answers=answers_of(cell), hear=hear,
            ask=ask,
        )  # fmt: skip
        meant = "raises-exception" in cell["metadata"].get("tags", ())
        failed = reply["status"] == "error"
        yield Ran(cell, reply.get("execution_count"), outputs, failed, meant)


def answers_of(cell: dict[str, Any]) -> list[str] | None:
    """The lines that a cell is to get where it asks for input, from its metadata."""
    own = cell.get("metadata", {}).get("jitkernel", {})
    return own.get("input") if isinstance(own, dict) else None


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells that hold anything."""
    return [c for c in notebook["cells"] if c["cell_type"] == "code" and c["source"].strip()]


def outputs_text(outputs: list[dict[str, Any]]) -> list[str]:
    """Each output as the text that a reader sees, with its kind, for comparing and printing."""
    texts = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            texts.append(f"{output['name']}: {output['text']}")
        elif kind == "error":
            texts.append("error: " + plain("\n".join(output["traceback"])))
        else:
            head = "Out" if kind == "execute_result" else "display"
            texts.append(f"{head}: {output['data'].get('text/plain', '')}")
    return texts
