"""What running a cell gives back, and where its output goes meanwhile.

Start from `Result`; a kernel implements `Sink`, `Streams` is that of library use.  `Results` are
the values behind `_` and `_5`; `OutputTee` passes what a running cell reports on to the sink and
into the result.
"""

from __future__ import annotations

import codecs
import sys
import time
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from jitkernel.errors import UsageError
from jitkernel.printable import printable
from jitkernel.rollback import Recorded, RecordedDict
from jitkernel.session.program.cell import LARGE, Cell
from jitkernel.settings import SessionSettings
from jitkernel.values.value import TypedValue

if TYPE_CHECKING:
    from jitkernel.values.value import TypedValue

LIMIT = 64 << 20  # bytes of large values that are kept, and only here


class Results(RecordedDict[int, TypedValue], Recorded):
    """Values by the number of their cell, the `results_kept` latest ones, and the `last` of all."""

    def __init__(self, settings: SessionSettings):
        super().__init__()
        self._settings = settings
        self.last: TypedValue | None = None

    def find(self, number: int | None) -> TypedValue | None:
        """That of a cell, or the last one."""
        return self.last if number is None else self.get(number)

    def keep(self, number: int, value: TypedValue) -> None:
        """Remember what a cell gave; the oldest large values go where there are too many bytes."""
        self.last = value
        self[number] = value
        while len(self) > self._settings.results_kept:
            del self[next(iter(self))]
        if len(value.data) > LARGE:
            large = {n: len(v.data) for n, v in self.items() if len(v.data) > LARGE}
            total = sum(large.values())
            for oldest, size in large.items():
                if total <= LIMIT or oldest == number:
                    break
                del self[oldest]
                total -= size

    def recall(self) -> Callable[[], TypedValue | None]:
        """A function that finds the value that is the last one now, later on: a large one as long
        as it is among the results."""
        last = self.last
        if last is None or len(last.data) <= LARGE:
            return lambda: last
        return weakref.ref(last)

    def forget(self) -> None:
        """Remember nothing."""
        self.clear()
        self.last = None


class Result:
    """The outcome of one cell.

    `typed` is the last value (None where there is none), `text` and `html` how it is printed.
    `notes` are the status lines.  `cell` is None for a cell of magics only.
    """

    def __init__(self) -> None:
        self.cell: Cell | None = None
        self.typed: TypedValue | None = None
        self.text = ""
        self.html = ""
        self.stdout = ""
        self.stderr = ""
        self.notes: list[str] = []

    @cached_property
    def value(self) -> Any:
        """The last value as Python sees it; None where there is none."""
        return None if self.typed is None else self.typed.python

    def give(self, value: TypedValue) -> None:
        """This is the last value.  It is made Python's when that is first asked for (a tuple takes
        ten times the bytes), or at once where the types that it names may be gone then."""
        self.typed = value
        if len(value.data) <= LARGE and "%" in str(value.type):
            self.value = value.python

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """In a notebook it is its value, as the kernel shows it."""
        if not self.text:
            return {"text/plain": repr(self)}
        bundle = {"text/plain": printable(self.text)}
        if self.html:
            bundle["text/html"] = printable(self.html)
        return bundle

    def __repr__(self) -> str:
        return f"<Result {self.text or 'without a value'}>"


class Sink(Protocol):
    """The receiver of a running cell's reports. All calls come from the thread that runs the cell.

    What is not defined otherwise shows nothing and has no input; magics need a kernel.
    """

    def output(self, name: str, data: bytes) -> None:
        """Bytes the program wrote to `stdout` or `stderr`."""
        return

    def input(self, prompt: str) -> str | None:
        """A line for the program's standard input; None where nobody can be asked.  EOFError is the
        end of that input, until the next call."""
        return None

    def shown(self, label: str, text: str, html: str) -> None:
        """A value other than the cell's last."""
        return

    def note(self, text: str) -> None:
        """A status line."""
        return

    def progress(self, text: str) -> None:
        """The work that takes long, and for how long so far: in the place of what was told
        before."""
        return

    def magic(self, action: Any, run: Any = None) -> None:
        """Do a line magic."""
        _refuse(f"%{action.name}")

    def shell(self, action: Any) -> None:
        """Run a shell command."""
        _refuse(f"!{action.command}")

    def inspect(self, action: Any) -> None:
        """Show help for a name."""
        _refuse(f"{action.name}?")


def _refuse(what: str) -> None:
    raise UsageError(f"{what}: magics and shell commands need the kernel; call the method instead")


class Collector(Sink):
    """A sink that keeps what is printed."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.err = bytearray()

    def output(self, name: str, data: bytes) -> None:
        (self.out if name == "stdout" else self.err).extend(data)


class Streams(Sink):
    """The sink of library use: what the program prints comes out of this process's `sys.stdout` and
    `sys.stderr`, as it is printed.  Nobody is asked for input: the program reads the end of it."""

    def output(self, name: str, data: bytes) -> None:
        print_bytes(name, data)


class StreamsOf(Sink):
    """The program's output and questions, for `sink`; status lines and values are not shown."""

    def __init__(self, sink: Sink):
        self.output, self.input = sink.output, sink.input  # type: ignore[method-assign]


_AT_FIRST, _EVERY = 0.5, 0.5  # seconds before the user is told of a compile, and between words
#: Of streams that take text only (a notebook's): what decodes the program's bytes.
_decoders: weakref.WeakKeyDictionary[Any, codecs.IncrementalDecoder] = weakref.WeakKeyDictionary()


def print_bytes(name: str, data: bytes) -> None:
    """Write to `sys.stdout` or `sys.stderr`, at once; where it takes text only, bytes that are no
    UTF-8 are replaced."""
    stream = sys.stdout if name == "stdout" else sys.stderr
    if stream is None:  # a process without them
        return
    buffer = getattr(stream, "buffer", None)
    if buffer is not None:
        stream.flush()
        buffer.write(data)
        buffer.flush()
        return
    decoder = _decoders.get(stream)
    if decoder is None:
        decoder = _decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
    stream.write(decoder.decode(data))


class OutputTee(Collector):
    """The session's sink while one cell runs: what the program prints and notes go on to `sink` and
    into the result.  What a statement shows or asks for goes to `sink` itself."""

    def __init__(self, sink: Sink):
        self.out, self.err = bytearray(), bytearray()
        self.sink = sink
        self.result = Result()
        self._began = self._told = 0.0  # of a compile that waits: when it began, and was told of

    def output(self, name: str, data: bytes) -> None:
        """Bytes from the program: kept for the result (the last megabyte) and passed on."""
        kept = self.out if name == "stdout" else self.err
        kept += data
        if len(kept) > 1 << 21:
            del kept[: 1 << 20]
        self.sink.output(name, data)

    def finish(self) -> None:
        """Nothing more comes: what was printed is in the result."""
        if self._told:
            self.compiled()
        self.result.stdout = self.out.decode("utf-8", "replace")
        self.result.stderr = self.err.decode("utf-8", "replace")

    def input(self, prompt: str) -> str | None:
        return self.sink.input(prompt)

    def note(self, text: str) -> None:
        self.result.notes.append(text)
        self.sink.note(text)

    def waiting(self, program: str) -> None:
        """A compiler's process works; the user is told when that takes long.  Called as often as
        twice a second."""
        now = time.monotonic()
        self._began = self._began or now
        if now - max(self._began + _AT_FIRST, self._told) >= _EVERY:
            self._told = now
            self.sink.progress(f"compiling, {now - self._began:.0f} s: {program}")

    def compiled(self) -> None:
        """The compile is over, if there was one."""
        if self._told:
            self.sink.progress(f"compiling took {time.monotonic() - self._began:.1f} s")
        self._began = self._told = 0.0
