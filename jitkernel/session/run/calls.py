"""Calls that are no cell, and code and memory of no cell.

Start from `Caller`, which calls from Python; `time_beside` measures how long calls take by a loop
that runs natively; `finish` runs the destructors of what goes.  `Scratch` has code and memory for
the time of one operation: compiled and placed as thunks are, with no cell, no name in the symbol
table and nothing to undo, so the session's own functions can have any name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.compiler import Options, Request
from jitkernel.elf import read_object
from jitkernel.errors import ArenaFull, Interrupted, UsageError, present
from jitkernel.executor import Outcome
from jitkernel.ir.module import functions
from jitkernel.ir.names import written
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.languages.llvm.expressions import Call
from jitkernel.languages.llvm.plan import CallAction, parse_cell
from jitkernel.languages.llvm.values import TypedValue, from_python
from jitkernel.linker import Block, Image, SymbolKind, SymbolState
from jitkernel.linker.layout import read_names
from jitkernel.rollback import RecordedList, note
from jitkernel.session.program.signatures import Signature
from jitkernel.session.report.memory import explain_full
from jitkernel.session.run.host import Execution
from jitkernel.session.run.results import Sink

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.engine import Engine
    from jitkernel.session.operation import Cleanups
    from jitkernel.session.run.host import SessionHost

__all__ = ["Caller", "Scratch", "finish", "time_beside", "value_of"]


class Caller:
    """One call in a core whose lock is held; data that its arguments need goes when it ends."""

    def __init__(self, core: Core, sink: Sink | None = None):
        self._core, self._execution = core, Execution(core, sink)

    def call(self, name: str, arguments: Sequence[Any]) -> TypedValue:
        """Call a function with Python values."""
        self._core.residency.clock += 1
        try:
            with self._calling() as host:
                return self._call(host, name, arguments)
        except ArenaFull as error:
            raise explain_full(self._core, error) from None

    def _call(self, host: SessionHost, name: str, arguments: Sequence[Any]) -> TypedValue:
        signature = host.full_signature(name)
        if signature is None or not (self._core.program.symbol(name) or host.known(name)):
            near = host.nearest(name)
            raise UsageError(
                f"no function {written(name)}"
                + (f"; did you mean {written(near)}?" if near else "")
            )
        symbol = self._core.program.symbol(name)
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

    def time(self, expression: str, number: int, repeat: int) -> list[float]:
        """Nanoseconds per call of a call line; see `Session.time`."""
        return self.time_beside([(expression, None)], number, repeat)[0]

    def time_beside(
        self, sides: Sequence[tuple[str, bytes | None]], number: int, repeat: int
    ) -> list[list[float]]:
        """Times of several calls; see `calls.time_beside`."""
        core = self._core
        with self._calling() as host:
            return time_beside(
                core.engine, host, self._execution.error, sides, number, repeat, core.cleanups
            )

    def value(self, expression: str) -> TypedValue:
        """The value of a call line; see `Session.value`."""
        with self._calling() as host:
            return value_of(host, expression)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[SessionHost]:
        """While it lasts, the call hears the program; then what its arguments needed is freed."""
        self._core.cleanups.add(self._release)
        try:
            with self._core.heard_by(self._execution.relay):
                yield self._execution.host()
        finally:
            self._core.cleanups.done(self._release)

    def _release(self) -> None:
        """Free what the arguments needed."""
        if self._execution.cell.strings:
            with self._core.engine.arena.rollback.atomic():
                for block in self._execution.cell.strings:
                    self._core.program.linker.release_block(block)
                self._execution.cell.strings = ()


#: Nanoseconds that a repetition should take, and from which a loop's time can be trusted.
_WANTED, _TRUSTED = 50_000_000, 5_000_000


def time_beside(
    engine: Engine,
    host: SessionHost,
    fail: Callable[[Outcome], Exception],
    sides: Sequence[tuple[str, bytes | None]],
    number: int,
    repeat: int,
    cleanups: Cleanups,
) -> list[list[float]]:
    """Nanoseconds per call of each side, one figure for each repetition of `number` calls (0:
    chosen).  Sides take turns, so that what else the machine does disturbs all alike.

    Beside its expression a side may have an object that defines the function another way.  It is
    placed while the times are taken; whatever else it defines and refers to is the session's.
    Arguments are evaluated once.  Raises UsageError for what is not one call line, and what `fail`
    makes of an outcome that is not "ok".
    """
    loops: list[Callable[[int], int]] = []
    images: RecordedList[Image] = RecordedList()

    def drop() -> None:
        with engine.writing(), engine.arena.rollback.atomic():
            for image in images:
                engine.linker.unlink(image)
            images.clear()

    cleanups.add(drop)
    try:
        for expression, code in sides:
            name = _called(expression)
            entry = 0
            if code is not None:
                with engine.writing(), engine.arena.rollback.atomic():
                    image, entry = _place(engine, code, name)
                    images.append(image)
            loops.append(_loop(engine, host, fail, expression, name, entry))
        counts = [number or _count(loop) for loop in loops]
        found: list[list[float]] = [[] for _ in loops]
        for _ in range(repeat):
            for loop, count, times in zip(loops, counts, found, strict=True):
                times.append(loop(count) / count)
        return found
    finally:
        cleanups.done(drop)


def _call_of(expression: str) -> tuple[Call, str]:
    """The one call of a line, and the source that it was read from.  Raises UsageError."""
    plan = parse_cell(expression)
    action = plan.actions[0] if len(plan.actions) == 1 and not plan.entities else None
    expr = action.expr if isinstance(action, CallAction) else None
    if not isinstance(expr, Call):
        raise UsageError("what is timed is one call: @f(arguments)")
    return expr, plan.source


def value_of(host: SessionHost, expression: str) -> TypedValue:
    """What one call line gives; a value of type void where it gives nothing.

    It leaves no trace in the session but what it does.  Raises UsageError for anything else.
    """
    expr, source = _call_of(expression)
    return evaluate(expr, None, host, source)


def _called(expression: str) -> str:
    return _call_of(expression)[0].name


def _place(engine: Engine, code: bytes, name: str) -> tuple[Image, int]:
    """An object whose function `name` nobody but we can see; the function's address."""
    exports = [export.name for export in read_names(read_object(code)).exports]
    if name not in exports:
        raise UsageError(f"{written(name)} is not defined there")
    others = frozenset(exports) - {name}
    return engine.linker.place_unnamed(code, name, weak=others, missing=True)


def _loop(
    engine: Engine,
    host: SessionHost,
    fail: Callable[[Outcome], Exception],
    expression: str,
    name: str,
    entry: int,
) -> Callable[[int], int]:
    """A function that makes so many calls and says how many nanoseconds they took."""
    expr, source = _call_of(expression)
    signature = host.full_signature(name)
    symbol = host.known(name)
    if signature is None or symbol is None:
        raise UsageError(f"{written(name)} is no function that this session knows")
    values: list[TypedValue] = []
    evaluate(expr, None, _Arguments(host, name, values), source)
    types = tuple(host.layout.text(v.type) for v in values)
    target = engine.target(signature, types, timer=True)
    code = entry or host.entry(symbol)

    def loop(count: int) -> int:
        outcome, data = host.run(target, code, values, count.to_bytes(8, "little"))
        if outcome.kind != "ok":
            raise fail(outcome)
        return int.from_bytes(data, "little", signed=True)

    return loop


def _count(loop: Callable[[int], int]) -> int:
    """How many calls make a repetition worth timing."""
    number = 1
    while (spent := loop(number)) < _TRUSTED and number < 1 << 40:
        number *= 10 if spent < _TRUSTED // 10 else 2
    return max(1, int(number * _WANTED / max(spent, 1)))


class _Arguments:
    """A host whose outermost call is only noted: for timing, where a loop makes it."""

    def __init__(self, host: SessionHost, name: str, into: list[TypedValue]):
        self._host, self._name, self._into = host, name, into

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def call(self, name: str, arguments: list[TypedValue]) -> TypedValue:
        if name != self._name:
            return self._host.call(name, arguments)
        self._into[:] = arguments
        signature = present(self._host.full_signature(name), f"the signature of {written(name)}")
        result = signature.function.result
        size = 0 if str(result) == "void" else self._host.layout(result).size
        return TypedValue(result, bytes(size), self._host.layout)


_FINALIZE = Signature(
    "void (ptr)", "", "", "", "void (ptr)"
)  # of __cxa_finalize, Itanium ABI 3.3.6


def finish(session: Core, image: Image) -> None:
    """Run an image's destructors; what goes wrong in them must not keep it in memory."""
    engine, program, linker = session.engine, session.program, session.program.linker
    session.freed_code.add(image)
    handles = (*program.handles.pop(image.cell, ()), *([image.dso] if image.dso else ()))
    outcomes = [engine.call_many(list(image.fini))] if image.fini else []
    finalize = linker.known("__cxa_finalize", SymbolKind.FUNCTION) if handles else None
    if finalize is not None and finalize.state == SymbolState.FAR:
        target = engine.target(_FINALIZE, ("ptr",))
        entry = linker.entry(finalize)
        for handle in handles:
            outcomes.append(engine.call(target.address, entry, handle.to_bytes(8, "little"), 0))
    for outcome in outcomes:
        _ended(session, image.cell, outcome)
    # What is going on besides was to be stopped as well.
    engine.stopping |= engine.running and any(o.kind == "interrupted" for o in outcomes)


def _ended(session: Core, cell: int, outcome: Outcome) -> None:
    """Say what stopped a destructor."""
    if outcome.kind != "ok":
        # Only where a destructor was stopped.
        from jitkernel.session.report.faults import error_of
        from jitkernel.session.report.source_lines import line_finder

        find = line_finder(session)
        error = error_of(outcome, session.places, session.program.linker, find, "")
        words = str(error).replace("\n", "; ")
        session.sink.note(f"a destructor of cell {cell} was stopped: {words}")


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
