"""Code and memory that are no cell's, for the time of one operation: `Scratch`.

Code is compiled and placed as thunks are: no cell, no name in the symbol table, nothing to undo, so
the session's own functions can have any name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.compiler import Options, Request
from jitkernel.errors import Interrupted, UsageError
from jitkernel.ir.module import functions
from jitkernel.languages.llvm import TypedValue, from_python
from jitkernel.linker import Block, Image
from jitkernel.rollback import note
from jitkernel.session.program.signatures import Signature
from jitkernel.session.run.calls import Caller
from jitkernel.session.run.host import Execution

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.run.results import Sink

__all__ = ["Scratch"]


class Scratch:
    """A context manager: what it has taken is given back when it ends.

    `what` says in messages what was interrupted.
    """

    def __init__(self, core: Core, what: str):
        self._core, self._what = core, what
        self._blocks: list[Block] = []

    def __enter__(self) -> Scratch:
        self._core.cleanups.add(self._release)
        return self

    def __exit__(self, *exception: object) -> None:
        self._core.cleanups.done(self._release)

    def _release(self) -> None:
        linker = self._core.program.linker
        while self._blocks:
            linker.release_block(self._blocks[-1])
            self._blocks.pop()

    def reserve(self, size: int) -> int:
        """The address of so many bytes of the data zone."""
        block = Block(self._core.arena.reserve("data", size, 16))
        self._blocks.append(block)
        return block.extent.start

    def write(self, address: int, data: bytes) -> None:
        """Fill what was reserved."""
        self._core.arena.write(address, data)

    @contextlib.contextmanager
    def limited(self, patience: float) -> Iterator[float]:
        """The seconds that a call may take meanwhile: the session's own limit, else `patience`."""
        executor = self._core.engine.executor
        before = executor.settings
        limit = before.cell_timeout or patience
        executor.settings = before._replace(cell_timeout=limit)
        try:
            yield limit
        finally:
            executor.settings = before

    @contextlib.contextmanager
    def function(self, bitcode: bytes, name: str) -> Iterator[int]:
        """The address of a module's function `name` while it lasts.  Raises UsageError where the
        session has that name, and what compiling and linking raise."""
        engine = self._core.engine
        linker = engine.linker
        if name in linker.symbols:
            raise UsageError(f"@{name} is defined in this session; {self._what} needs that name")
        text = engine.pool.disassembled(bitcode)
        request = Request(text, Options(opt_level=1, internal=True), label=f"@{name}")
        compiled = engine.pool.compile(request)
        kinds = {found.name: "function" for found in functions(text, "declare")}
        placed: list[Image] = []

        def drop() -> None:
            with engine.writing(), engine.arena.rollback.atomic():
                for image in placed:
                    linker.unlink(image)
                placed.clear()

        self._core.cleanups.add(drop)
        try:
            with engine.writing(), engine.arena.rollback.atomic():
                image, address = linker.place_unnamed(compiled.object, name, kinds=kinds)
                note(placed.clear)
                placed.append(image)
            yield address
        finally:
            self._core.cleanups.done(drop)

    def call_cell(self, name: str, arguments: Sequence[Any], sink: Sink) -> TypedValue:
        """Call a function of the session with Python values; raises what stops it."""
        return Caller(self._core, sink).call(name, arguments)

    def call(
        self, address: int, signature: Signature, arguments: Sequence[Any], sink: Sink
    ) -> TypedValue | None:
        """Call what `function` gave, with Python values; None where it was stopped by a fault or
        the limit.  Raises Interrupted where the user has stopped it."""
        engine = self._core.engine
        host, function = Execution(self._core, sink).host(), signature.function
        types = function.parameters
        packed = [from_python(t, v, host) for t, v in zip(types, arguments, strict=True)]
        target = engine.target(signature, tuple(map(str, types)))
        outcome, data = host.run(target, address, packed)
        if outcome.kind == "ok":
            return TypedValue(function.result, data, host.layout)
        if engine.stopping or (outcome.record and outcome.record.cause == ""):
            raise Interrupted(f"{self._what} was interrupted")
        return None
