"""A cell's output where IPython has it: streams, displays, the pager, input.

What the program prints goes through `sys.stdout` and `sys.stderr`, so that `%%capture` and
`redirect_stdout` work on it.  Start from `NotebookOutput`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from jitkernel.kernel.streams import OutputStreams
from jitkernel.kernel.terminal import TerminalOutput
from jitkernel.views.view import View

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["NotebookOutput"]


class NotebookOutput:
    """The frontend's `Output` in IPython.

    `limit` is how many bytes a cell may print, asked when it begins.  `aside` calls what waits for
    the user: a KeyboardInterrupt has to end that at once.
    """

    def __init__(self, shell: InteractiveShell, limit: Callable[[], int]):
        self._shell, self._limit = shell, limit
        self.aside: Callable[[Callable[[str], str], str], str] = lambda ask, prompt: ask(prompt)
        self.asking = False  # for a line; a signal handler reads it
        self._live = ""  # the identity of the cell's display that is updated in place
        self._held: View | None = None
        # As in the kernel: a client that names no cell prints what it gets, and gets the last one.
        self.in_place = False
        self._terminal = TerminalOutput()
        # IPython's streams have a pace of their own.
        self._streams = OutputStreams(_print, lambda seconds, call: None, limit(), interval=0)

    # -- around a cell ---------------------------------------------------------------------

    def begin(self, in_place: bool) -> None:
        """A cell of the notebook begins, of Python or another language."""
        self._live, self._held, self.in_place = "", None, in_place
        self._streams.reset(self._limit())

    def end(self) -> None:
        """It is over: nothing of its output is held back."""
        held, self._held = self._held, None
        if held is not None:
            self.display(held)
        self._streams.finish()

    # -- the Output protocol ---------------------------------------------------------------

    def write(self, name: str, data: bytes | str) -> None:
        self._streams.write(name, data)

    def display(self, view: View) -> None:
        self._show(view)

    def live(self, view: View, last: bool) -> None:
        if self.in_place:
            update = bool(self._live)
            self._live = self._live or uuid4().hex
            self._show(view, transient={"display_id": self._live}, update=update)
        elif not hasattr(self._shell, "kernel") and sys.stdout.isatty():
            self._terminal.live(view, last)
        else:
            self._held = view if last else self._held

    def page(self, view: View) -> None:
        from IPython.core.page import page

        page({"data": view._repr_mimebundle_(), "start": 0})

    def interrupt(self) -> None:
        """An exception ends the waiting: see `aside`."""

    def leave(self) -> None:
        """`%jit` has no prompt to leave."""

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

    def _show(self, view: View, **how: Any) -> None:
        from IPython.display import publish_display_data

        publish_display_data(view._repr_mimebundle_(), **how)  # type: ignore[no-untyped-call]


def _print(name: str, text: str) -> None:
    stream = sys.stdout if name == "stdout" else sys.stderr
    if stream is not None:
        stream.write(text)
        if not hasattr(stream, "pub_thread"):  # ipykernel's flush by themselves, at their pace
            stream.flush()
