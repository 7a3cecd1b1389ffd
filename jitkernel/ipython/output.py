"""A cell's output where IPython has it: streams, displays, the pager, input.

What the program prints goes through `sys.stdout` and `sys.stderr`, so that `%%capture` and
`redirect_stdout` work on it.  Start from `NotebookOutput`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.kernel.output import Output
from jitkernel.kernel.streams import OutputStreams
from jitkernel.kernel.terminal import TerminalOutput
from jitkernel.views.view import View

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["NotebookOutput"]


class NotebookOutput(Output):
    """The frontend's `Output` in IPython.

    `limit` is how many bytes a cell may print, asked when it begins.  `aside` calls what waits for
    the user: a KeyboardInterrupt has to end that at once.
    """

    def __init__(self, shell: InteractiveShell, limit: Callable[[], int]):
        super().__init__()
        self._shell, self._limit = shell, limit
        self.aside: Callable[[Callable[[str], str], str], str] = lambda ask, prompt: ask(prompt)
        self.asking = False  # for a line; a signal handler reads it
        self._terminal = TerminalOutput()
        # IPython's streams have a pace of their own.
        self._streams = OutputStreams(_print, lambda seconds, call: None, limit(), interval=0)

    # -- around a cell ---------------------------------------------------------------------

    def begin(self, in_place: bool) -> None:
        """A cell of the notebook begins, of Python or another language."""
        self.reset(in_place)
        self._streams.reset(self._limit())

    def end(self) -> None:
        """It is over: nothing of its output is held back."""
        self.show_held()
        self._streams.finish()

    def close(self) -> None:
        """The session ends."""
        self._streams.close()

    # -- as an Output ----------------------------------------------------------------------

    def write(self, name: str, data: bytes | str) -> None:
        self._streams.write(name, data)

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
            return self.aside(builtins.input, self._streams.unshown(prompt))
        except StdinNotImplementedError:
            return None
        finally:
            self.asking = False


def _print(name: str, text: str) -> None:
    stream = sys.stdout if name == "stdout" else sys.stderr
    if stream is not None:
        stream.write(text)
        if not hasattr(stream, "pub_thread"):  # ipykernel's flush by themselves, at their pace
            stream.flush()
