"""What a running cell reports, on its way to the sink and into the result.  Start from `Relay`."""

from __future__ import annotations

from typing import Any

from jitkernel.session.result import Result, Sink

__all__ = ["Relay"]


class Relay:
    """The session's sink while one cell runs."""

    def __init__(self, sink: Sink):
        self.sink = sink
        self.result = Result()
        self.out, self.err = bytearray(), bytearray()

    def output(self, name: str, data: bytes) -> None:
        """Bytes from the program: kept for the result (the last megabyte) and passed on."""
        kept = self.out if name == "stdout" else self.err
        kept += data
        if len(kept) > 1 << 21:
            del kept[: 1 << 20]
        self.sink.output(name, data)

    def input(self, prompt: str) -> str | None:
        """The sink's input."""
        return self.sink.input(prompt)

    def shown(self, label: str, text: str, markup: str) -> None:
        """A value between."""
        self.sink.shown(label, text, markup)

    def note(self, text: str) -> None:
        """A status line."""
        self.result.notes.append(text)
        self.sink.note(text)

    def magic(self, action: Any, run: Any = None) -> None:
        """Passed on."""
        self.sink.magic(action, run)

    def shell(self, action: Any) -> None:
        """Passed on."""
        self.sink.shell(action)

    def inspect(self, action: Any) -> None:
        """Passed on."""
        self.sink.inspect(action)
