"""The kernel without Jupyter's messages: `jitkernel run FILE`, and the way into `jupyter console`.

A file of IR, C or Kaleidoscope runs as one cell in a session of this process, magics included; a
notebook runs through a real kernel.  Start from `run_file`.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jitkernel.errors import Interrupted
from jitkernel.kernel.output import Output
from jitkernel.printable import printable
from jitkernel.views.view import View

_LOOK = 0.05  # seconds between two looks whether the user has pressed Ctrl-C


class TerminalOutput(Output):
    """The frontend's `Output` on this process's own streams.

    On a terminal a live display is written over itself as long as nothing else is printed; what
    goes to a file or a pipe has its last state alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stopped: Callable[[], bool] = bool  # nobody waits for a line any more
        self._over = 0  # lines above the cursor that the next live display may take
        self._line_open = False  # what was printed last has no newline

    def write(self, name: str, data: bytes | str) -> None:
        self._over = 0
        if data:
            self._line_open = data[-1:] not in ("\n", b"\n")
        if isinstance(data, bytes):
            from jitkernel.session.run.results import print_bytes

            print_bytes(name, data)
        else:
            print(data, end="", file=sys.stdout if name == "stdout" else sys.stderr, flush=True)

    def display(self, view: View, live: str = "", update: bool = False) -> None:
        self.write("stdout", view.text + "\n")

    def live(self, view: View, last: bool) -> None:
        if not sys.stdout.isatty():
            if last:
                self.display(view)
            return
        columns = shutil.get_terminal_size().columns
        lines = [line if len(line) <= columns else line[:columns] for line in view.text.split("\n")]
        back = f"\x1b[{self._over}F\x1b[J" if self._over else "\n" * self._line_open
        self.write("stdout", back + "\n".join(lines) + "\n")
        self._over = 0 if last else len(lines)

    def input(self, prompt: str) -> str | None:
        if prompt:
            self.write("stdout", prompt)
        if sys.stdin.isatty():  # whoever types there may press Ctrl-C instead
            while not select.select([sys.stdin], [], [], _LOOK)[0]:
                if self.stopped():
                    raise Interrupted("interrupted while waiting for input")
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")


def run_file(
    path: Path, session: str = "", trust: bool = False, arguments: Sequence[str] = ()
) -> int:
    """Run a file; 0 if nothing failed.  `session` is the file of the session that it goes on with,
    and that is saved when it ends; with `trust` the libraries that it names are loaded.  Where it
    defines `main`, that is called with the `arguments`, and gives the status."""
    try:
        if path.suffix == ".ipynb":
            return _run_notebook(path, session, trust)
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        no_text = isinstance(error, UnicodeDecodeError)
        words = "it is no text" if no_text else getattr(error, "strerror", None) or error
        print(f"jitkernel run: {path}: {words}", file=sys.stderr)
        return 1
    from jitkernel.languages import of_file

    return _run_source(source, of_file(str(path)), session, trust, [str(path), *arguments])


def _run_source(source: str, language: str, path: str, trust: bool, words: list[str]) -> int:
    from jitkernel.errors import CompileError, Exited, Fault
    from jitkernel.kernel.displays import error_lines
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.kernel.program_main import run_main
    from jitkernel.kernel.settings import configured, sections, session_settings
    from jitkernel.session import CellOptions, Session

    found = sections(configured())
    found["JITKernel"].set_trait("status_line", False)
    settings = session_settings(found)
    if path:
        settings["store_path"] = path
    settings["trust"] |= trust
    with Session(**settings) as session:
        frontend = Frontend(session, output := TerminalOutput(), found)
        output.stopped = lambda: frontend.was_interrupted
        session.frontend.core.begin()
        if session.frontend.core.withheld:
            names = printable(", ".join(session.frontend.core.withheld))
            print(f"{path}: not loaded without --trust: {names}", file=sys.stderr)
        signal.signal(signal.SIGINT, lambda *_: frontend.interrupt())
        try:
            with frontend.cell_runs(None, start=False):
                options = CellOptions(file=words[0])
                result = frontend.execute(source, options=options, language=language)
                if result is not None and result.cell is not None and "main" in result.cell.names:
                    return run_main(frontend, words)
        except Exited as error:
            return error.status & 0xFF
        except Exception as error:
            told = error.in_file(words[0]) if isinstance(error, CompileError) else error
            lines = error_lines(told)
            if isinstance(error, Fault):  # the file is cell 1, what calls `main` the next
                lines = [
                    line.replace(", cell 1", f", {printable(words[0])}") for line in lines
                    if not line.startswith(("  called from cell", "Kept:", "Lost:"))
                ]  # fmt: skip
            print("\n".join(lines), file=sys.stderr)
            return 1
        if result is not None and result.text:
            print(result.text)
    return 0


def _run_notebook(path: Path, session: str, trust: bool) -> int:
    from jitkernel.kernel.client import kernel_for, outputs_text, read_notebook, run_cells

    notebook = read_notebook(path)
    arguments = [f"--session={Path(session).resolve()}"] if session else []
    arguments += ["--Session.trust=True"] if trust else []

    def hear(name: str, text: str) -> None:
        print(text, end="", file=sys.stderr if name == "stderr" else sys.stdout, flush=True)

    def ask(prompt: str) -> str:
        try:
            return input(prompt)
        except (EOFError, KeyboardInterrupt):
            print()
            return "\x04"

    asks = ask if sys.stdin.isatty() and sys.stdout.isatty() else None
    with kernel_for(notebook, path.resolve().parent, *arguments) as client:
        for ran in run_cells(client, notebook, hear, asks):
            for output in ran.outputs:
                if output["output_type"] == "stream":  # it was heard; the next begins a line
                    hear(output["name"], "" if output["text"].endswith("\n") else "\n")
                    continue
                kind, _, body = outputs_text([output])[0].partition(": ")
                hear("stderr" if kind == "error" else "stdout", body.rstrip("\n") + "\n")
            if ran.failed and not ran.meant:
                print(f"stopped at cell [{ran.number}]", file=sys.stderr)
                return 1
    return 0


def _own_transport(arguments: list[str]) -> list[str]:
    """Sockets in a folder of the user's, where nobody chose others: over TCP the kernel would have
    to warn of them."""
    from jitkernel.kernel.client import own_transport

    chosen = any(a.startswith(("--existing", "--transport", "--ip", "--ssh")) for a in arguments)
    return [] if chosen else [f"--transport={own_transport()}"]


def console(arguments: list[str]) -> int:
    """Replace this process by `jupyter console` with our kernel; 1 where it cannot be."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    from jitkernel.kernel.install import NAME

    try:
        KernelSpecManager().get_kernel_spec(NAME)
    except NoSuchKernel:
        print("Jupyter does not see the kernel yet: jitkernel install --user", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "jupyter_console"]
    if not any(a.partition("=")[0] == "--kernel" for a in arguments):
        command += ["--kernel", NAME]
    command += [*_own_transport(arguments), *arguments]
    os.execv(sys.executable, command)
