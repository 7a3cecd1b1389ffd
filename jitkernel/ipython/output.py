"""A cell's output where IPython has it: streams, displays, the pager, input.

What the program prints goes through `sys.stdout` and `sys.stderr`, so that `%%capture` and
`redirect_stdout` work on it.  Start from `NotebookOutput`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.kernel.streams import OutputStreams
from jitkernel.kernel.terminal import TerminalOutput
from jitkernel.views.view import View

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class NotebookOutput(OutputStreams):
    """The frontend's `Output` in IPython.

    `aside` calls what waits for the user: a KeyboardInterrupt has to end that at once.
    """

    interval = 0.0  # IPython's streams have a pace of their own

    def __init__(self, shell: InteractiveShell, limit: Callable[[], int]):
        super().__init__(limit)
        self._shell = shell
        self.aside: Callable[[Callable[[str], str], str], str] = lambda ask, prompt: ask(prompt)
        self.asking = False  # for a line; a signal handler reads it
        self._terminal = TerminalOutput()

    def publish(self, name: str, text: str) -> None:
        stream = sys.stdout if name == "stdout" else sys.stderr
        if stream is not None:
            stream.write(text)
            if not hasattr(stream, "pub_thread"):  # ipykernel's flush by themselves, at their pace
                stream.flush()

    def display(self, view: View, live: str = "", update: bool = False) -> None:
        from IPython.display import publish_display_data

        how = {"transient": {"display_id": live}, "update": update} if live else {}
        publish_display_data(view._repr_mimebundle_(), **how)  # type: ignore[no-untyped-call]

    def live(self, view: View, last: bool) -> None:
        if not self.in_place and not hasattr(self._shell, "kernel") and sys.stdout.isatty():
            self._terminal.live(view, last)
        else:
            super().live(view, last)

    def page(self, view: View) -> None:
        from IPython.core.page import page

        page({"data": view._repr_mimebundle_(), "start": 0})

    def clear(self, wait: bool) -> None:
        from IPython.display import clear_output

        clear_output(wait)  # type: ignore[no-untyped-call]

    def input(self, prompt: str) -> str | None:
        from IPython.core.error import StdinNotImplementedError

        self.asking = True
        try:
            return self.aside(builtins.input, self.unshown(prompt))
        except StdinNotImplementedError:
            return None
        finally:
            self.asking = False
