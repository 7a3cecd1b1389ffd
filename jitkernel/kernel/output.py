"""A cell's output on its way to a client of any kind.  Start from `Output`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import uuid4

from jitkernel.views.view import View


class Output(ABC):
    """The place where a cell's output goes; its client may have no pager and no input box.

    A request that names no notebook cell comes from a client that prints what it gets (a console)
    or keeps what is there at the end: it gets one live display, the last, at the end.
    """

    def __init__(self) -> None:
        self.begin(in_place=False)

    def begin(self, in_place: bool) -> None:
        """A cell begins; `in_place`: its client writes over a live display."""
        self.in_place = in_place
        self._live = ""  # the identity of the cell's display that is updated in place
        self._held: View | None = None

    def end(self) -> None:
        """It is over: nothing of its output is held back."""
        self.show_held()

    @abstractmethod
    def write(self, name: str, data: bytes | str) -> None:
        """Bytes or text for `stdout` or `stderr`."""

    @abstractmethod
    def display(self, view: View, live: str = "", update: bool = False) -> None:
        """A display between the streams; `live` is its identity, by which it can be updated."""

    def live(self, view: View, last: bool) -> None:
        """A display that takes the place of the cell's last one of this kind; `last`: for good."""
        if not self.in_place:
            self._held = view if last else self._held
            return
        update, self._live = bool(self._live), self._live or uuid4().hex
        self.display(view, self._live, update)

    def show_held(self) -> None:
        """Display what was held back."""
        held, self._held = self._held, None
        if held is not None:
            self.display(held)

    def page(self, view: View) -> None:
        """Help, for the pager where there is one."""
        self.display(view)

    def clear(self, wait: bool) -> None:  # noqa: B027  (a terminal keeps what was printed)
        """Clear the cell's output, where that can be."""

    @abstractmethod
    def input(self, prompt: str) -> str | None:
        """A line from the user; None where the client has no input box."""

    def leave(self) -> None:  # noqa: B027
        """Ask the client to end, where that is something a client can do."""
