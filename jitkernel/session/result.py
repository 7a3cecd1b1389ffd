"""What running a cell gives back, and where its output goes meanwhile.

Start from `Result`; a kernel implements `Sink`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from jitkernel.session.results import LARGE

if TYPE_CHECKING:
    from jitkernel.languages.llvm import TypedValue
    from jitkernel.session.cell import Cell

__all__ = ["Collector", "Result", "Sink"]


class Result:
    """The outcome of one cell.

    `typed` is the last value (None where there is none), `text` and `html` how it is printed.
    `notes` are the status lines.  `cell` is None for a cell of magics only.
    """

    __slots__ = ("_value", "cell", "html", "notes", "stderr", "stdout", "text", "typed")

    def __init__(self) -> None:
        self.cell: Cell | None = None
        self.typed: TypedValue | None = None
        self._value: Any = None  # what Python sees, once it is made
        self.text = ""
        self.html = ""
        self.stdout = ""
        self.stderr = ""
        self.notes: list[str] = []

    @property
    def value(self) -> Any:
        """The last value as Python sees it; None where there is none."""
        if self._value is None and self.typed is not None:
            self._value = self.typed.python
        return self._value

    def give(self, value: TypedValue) -> None:
        """This is the last value.  A large one is made Python's when that is first asked for: a
        tuple takes ten times the bytes."""
        self.typed = value
        if len(value.data) <= LARGE:
            self._value = value.python

    def __repr__(self) -> str:
        return f"<Result {self.text or 'without a value'}>"


class Sink(Protocol):
    """Where a running cell reports to.  All calls come from the thread that runs the cell."""

    def output(self, name: str, data: bytes) -> None:
        """Bytes the program wrote to `stdout` or `stderr`."""

    def input(self, prompt: str) -> str | None:
        """A line for the program's standard input; None where nobody can be asked."""

    def shown(self, label: str, text: str, html: str) -> None:
        """A value other than the cell's last."""

    def note(self, text: str) -> None:
        """A status line."""

    def magic(self, action: Any, run: Any = None) -> None:
        """Do a line magic."""

    def shell(self, action: Any) -> None:
        """Run a shell command."""

    def inspect(self, action: Any) -> None:
        """Show help for a name."""


class Collector:
    """The sink of library use: keeps output for `Result.stdout`; magics need a kernel."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.err = bytearray()

    def output(self, name: str, data: bytes) -> None:
        (self.out if name == "stdout" else self.err).extend(data)

    def input(self, prompt: str) -> str | None:
        return None

    def shown(self, label: str, text: str, html: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def magic(self, action: Any, run: Any = None) -> None:
        self._refuse(f"%{action.name}")

    def shell(self, action: Any) -> None:
        self._refuse("!" + action.command)

    def inspect(self, action: Any) -> None:
        self._refuse(f"{action.name}?")

    def _refuse(self, what: str) -> None:
        from jitkernel.errors import UsageError

        raise UsageError(
            f"{what}: magics and shell commands need the kernel; call the method instead"
        )
