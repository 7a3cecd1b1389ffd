"""Operations that an exception, or a signal, ends at a line of our choice.  Start from `torn`.

Python's own tracing counts the lines of `jitkernel` that an operation runs, in this thread, and
raises at one of them: what MemoryError can do to any line, and Ctrl-C to any moment.
"""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import jitkernel
from jitkernel import Session

ROOT = os.path.dirname(jitkernel.__file__)


class Torn(MemoryError):
    """What is raised at the chosen line."""


@contextmanager
def each_line(seen: Callable[[FrameType], None]) -> Iterator[None]:
    """A block of which each line of `jitkernel` that it comes to, in this thread, is told before it
    runs; what `seen` raises, that line does."""

    def local(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            seen(frame)
        return local

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return local if frame.f_code.co_filename.startswith(ROOT) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def torn(
    operation: Callable[[], object], line: int, by_signal: bool
) -> tuple[str, BaseException | None]:
    """Run an operation and end it at the `line`-th line it comes to: where that was (empty: it has
    fewer lines), and what it raised.  `by_signal`: SIGINT arrives there instead."""
    count, where = 0, ""

    def seen(frame: FrameType) -> None:
        nonlocal count, where
        count += 1
        if count == line:
            code = frame.f_code
            where = f"{code.co_filename.removeprefix(ROOT)}:{frame.f_lineno} {code.co_name}"
            sys.settrace(None)
            if by_signal:
                signal.raise_signal(signal.SIGINT)
            else:
                raise Torn(where)

    gc.collect()
    gc.disable()  # what is raised in a finaliser is nobody's
    try:
        with each_line(seen):
            operation()
    except BaseException as error:
        return where, error
    finally:
        gc.enable()
    return where, None


def lines(operation: Callable[[], object]) -> list[str]:
    """The lines of `jitkernel` that an operation comes to, in their order, as `torn` counts them."""
    found: list[str] = []
    with each_line(lambda frame: found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")):
        operation()
    return found


def state(s: Session) -> dict[str, Any]:
    """All that a session is, so that two moments can be compared: books, symbols with every site,
    cells, history, results, and the bytes of all that is live."""
    program, linker, arena = s.inspect.program, s.inspect.program.linker, s.inspect.engine.arena
    s.inspect.history.steps()  # what data changed belongs to the last run from here on
    found: dict[str, Any] = {}
    for zone in arena.zones.values():
        live = sorted(zone.list.live.items())
        digest = hashlib.sha1()
        for start, size in live:
            digest.update(arena.read(start, size))
        found[f"{zone.name} books"] = live, list(zone.list.holes()), zone.list.used
        found[f"{zone.name} bytes"] = digest.hexdigest()
    found["symbols"] = {
        name: (
            symbol.definition[:3], symbol.image and symbol.image.cell, symbol.kind, symbol.why,
            symbol.stub, symbol.slot, symbol.far_slot, symbol.held, str(symbol.info),
            sorted((image.cell, packed) for image, packed in (symbol.users or {}).items()),
        )
        for name, symbol in linker.symbols.items()
    }  # fmt: skip
    found["cells"] = {
        c.number: (
            c.state, c.cell_id, c.names, c.sizes, c.kept, [e[:3] for e in c.extras],
            [(b.extent, b.holders) for b in c.strings],
            [(b.extent, b.holders) for b in (c.image.blocks if c.image else ())],
        )
        for c in program.cells.values()
    }  # fmt: skip
    found["names"] = (
        dict(program.state.ids),
        dict(program.state.types),
        dict(program.state.declared),
    )
    found["groups"] = {g: i.cell for g, i in linker.groups.items()}, sorted(linker.copies)
    found["history"] = (
        [(c.title, sorted(map(str, c.before)), dict(c.pages)) for c in s.inspect.history],
        s.inspect.history.undone,
    )
    found["results"] = {number: value.data for number, value in s.results.items()}
    found["away"] = linker.code, arena.deferred
    found["sources"] = [n for n in program.cells if s.inspect.store.get(n) is None]
    found["busy"] = (
        s._core.operating,
        s.inspect.engine.running,
        s.inspect.engine.stopping,
        program.running,
    )
    return found
