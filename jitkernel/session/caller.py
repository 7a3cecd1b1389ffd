"""Calls that are no cell: from Python, for times.  Start from `Caller`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitkernel.errors import ArenaFull, UsageError
from jitkernel.languages.llvm import TypedValue, from_python
from jitkernel.linker import SymbolState
from jitkernel.printable import written
from jitkernel.session.definer import Definer
from jitkernel.session.full import explain_full
from jitkernel.session.result import Sink
from jitkernel.session.timing import time_beside, value_of

__all__ = ["Caller"]


class Caller(Definer):
    """One call in a session whose lock is held; data that its arguments need goes when it ends."""

    def call(self, name: str, arguments: Sequence[Any]) -> TypedValue:
        """Call a function with Python values."""
        before = self._begin()
        self.session.residency.clock += 1
        host = self.host()
        try:
            signature = host.full_signature(name)
            if signature is None or not (self.program.symbol(name) or host.known(name)):
                near = host.nearest(name)
                raise UsageError(
                    f"no function {written(name)}"
                    + (f"; did you mean {written(near)}?" if near else "")
                )
            symbol = self.program.symbol(name)
            if symbol is not None and symbol.state == SymbolState.MISSING:
                raise UsageError(
                    f"{written(name)} is not defined: {symbol.why or 'nobody defines it yet'}"
                )
            function = signature.function
            wanted = len(function.parameters)
            if len(arguments) < wanted or (len(arguments) > wanted and not function.variadic):
                raise UsageError(
                    f"{written(name)} takes {wanted} arguments ({function}), {len(arguments)} given"
                )
            values = [
                from_python(
                    function.parameters[i] if i < wanted else None, a, host, f"argument {i + 1}"
                )
                for i, a in enumerate(arguments)
            ]
            return host.call(name, values)
        except ArenaFull as error:
            raise explain_full(self.session, error) from None
        finally:
            self._end(before)

    def time(self, expression: str, number: int, repeat: int) -> list[float]:
        """Nanoseconds per call of a call line; see `Session.time`."""
        return self.time_beside([(expression, None)], number, repeat)[0]

    def time_beside(
        self, sides: Sequence[tuple[str, bytes | None]], number: int, repeat: int
    ) -> list[list[float]]:
        """Times of several calls; see `timing.time_beside`."""
        before = self._begin()
        try:
            return time_beside(
                self.engine, self.host(), self.error, sides, number, repeat, self.session.cleanups
            )
        finally:
            self._end(before)

    def value(self, expression: str) -> TypedValue:
        """The value of a call line; see `Session.value`."""
        before = self._begin()
        try:
            return value_of(self.host(), expression)
        finally:
            self._end(before)

    def _begin(self) -> Sink:
        """The call hears the program; who heard it before."""
        before, self.session.sink = self.session.sink, self
        self.session.cleanups.add(self._release)
        return before

    def _end(self, sink: Sink) -> None:
        """The call is over: who heard the program before hears it again."""
        self.session.sink = sink
        self.session.cleanups.done(self._release)

    def _release(self) -> None:
        """Free what the arguments needed."""
        if self.cell.strings:
            with self.engine.arena.rollback.atomic():
                for block in self.cell.strings:
                    self.program.linker.release_block(block)
                self.cell.strings = ()
