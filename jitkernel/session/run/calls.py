"""Calls that are no cell, and code and memory of no cell.

Start from `Caller`, which calls from Python and measures how long calls take; `finish` runs the
destructors of what goes.  `Scratch` has code and memory for the time of one operation: compiled and
placed as thunks are, with no cell, no name in the symbol table and nothing to undo, so the
session's own functions can have any name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jitkernel.compiler.records import Options, Request
from jitkernel.elf import read_object
from jitkernel.errors import Interrupted, JitError, UsageError
from jitkernel.executor.records import NotReturned, Unfit
from jitkernel.ir.module import functions
from jitkernel.ir.types import IntType, Type
from jitkernel.languages.llvm.evaluate import evaluate, evaluate_arguments
from jitkernel.languages.llvm.expressions import Call
from jitkernel.languages.llvm.plan import CallAction, parse_cell
from jitkernel.linker import Block, Image, Symbol, SymbolKind, SymbolState
from jitkernel.linker.layout import read_names
from jitkernel.rollback import RecordedList
from jitkernel.session.arrays import Copies
from jitkernel.session.operation import operation
from jitkernel.session.program.signatures import Signature, attributes_of
from jitkernel.session.run.host import Execution, Heard, SessionHost
from jitkernel.session.run.results import Collector, Sink
from jitkernel.values.conversion import SIMPLE, from_python
from jitkernel.values.python import Pointer
from jitkernel.values.value import TypedValue
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.executor.inline import InlineExecutor
    from jitkernel.languages.prototypes import Prototype
    from jitkernel.session.core import Core
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.program import Program
    from jitkernel.session.report.places import Places
    from jitkernel.session.run.thunks import Thunk
    from jitkernel.values.datatype import DataType

__all__ = ["Caller", "DirectCalls", "Scratch", "finish"]


class _CallHost(SessionHost):
    """That of one call, whose `arguments` with buffers are copied while it lasts."""

    arguments: Sequence[Any] = ()
    pointees: Sequence[DataType | None] = ()
    copies: Copies | None = None

    def buffer(self, thing: object, what: str) -> int:
        if (address := self._arrays.known(thing, what)) is not None:
            return address
        if (in_place := self._engine.address_of) is not None:
            if (address := in_place(thing)) is not None:
                return address
        if self.copies is None:
            constant = [p is not None and p.constant for p in self.pointees]
            self.copies = Copies(self._arrays, self.arguments, constant)
        return self.copies.address(thing)


class Caller:
    """One call in a core whose lock is held; data that its arguments need goes when it ends."""

    def __init__(self, core: Core, sink: Sink | None = None):
        self._core, self._execution = core, Execution(core, sink)

    def call(self, name: str, arguments: Sequence[Any]) -> TypedValue:
        """Call a function with Python values."""
        self._core.residency.clock += 1
        core = self._core
        said = core.prototypes.of(name) if core.has_prototypes else None
        if said is not None and any(map(callable, arguments)):
            arguments = self._with_functions(said, arguments)
        with self._calling() as (host, _):
            host.arguments = arguments
            try:
                if said is not None and (said.result or said.parameters):
                    return self._by_value(host, name, arguments, said)
                return host.call(name, self._converted(host, name, arguments))
            finally:
                if host.copies is not None:
                    host.copies.end()

    def _with_functions(self, said: Prototype, arguments: Sequence[Any]) -> list[Any]:
        """The arguments, with the addresses of functions of the program that call Python's where
        those were given for pointers to functions."""
        from jitkernel.session.run.runner import Runner

        core, found = self._core, list(arguments)
        for at, thing in enumerate(arguments):
            if not callable(thing) or hasattr(thing, "__index__"):
                continue
            if not (type := said.callback(at)):
                continue
            functions = core.python_functions
            name = functions.name_of(thing, type)
            symbol = core.program.symbol(name)
            if symbol is None or symbol.state is not SymbolState.DEFINED:
                name = name or functions.new_name()
                source, language = functions.add(name, thing, type)
                Runner(Execution(core, Collector(), cell_id=f"py:{name}")).run(source, language)
            found[at] = SessionHost(core).address(name)
        return found

    def _by_value(
        self, host: _CallHost, name: str, arguments: Sequence[Any], said: Prototype
    ) -> TypedValue:
        """The same, of a function whose language sees more in what it takes and gives."""
        from jitkernel.session.run.by_value import ByValue

        signature = host.full_signature(name)
        if signature is None:
            raise UsageError(f"no function {self._core.program.called(name)}")
        call = ByValue(name, signature, said, host, partial(self._type_of, name))
        if said.parameters is None:
            return call.result(host.call(name, self._converted(host, name, arguments)))
        host.pointees = self._core.prototypes.check(name, arguments)
        return call.result(host.call(name, call.arguments(arguments)))

    def _converted(self, host: _CallHost, name: str, arguments: Sequence[Any]) -> list[TypedValue]:
        core, program = self._core, self._core.program
        signature, symbol = host.full_signature(name), host.known(name)
        if signature is None or symbol is None:
            hint = host.hint(name)
            raise UsageError(f"no function {program.called(name)}{f'; {hint}' * bool(hint)}")
        if symbol.state == SymbolState.MISSING:
            raise UsageError(
                f"{program.called(name)} is not defined: {symbol.why or 'nobody defines it yet'}"
            )
        function = signature.function
        wanted = len(function.parameters)
        if len(arguments) < wanted or (len(arguments) > wanted and not function.variadic):
            said = core.prototypes.spelling(name) if core.has_prototypes else None
            raise UsageError(
                f"{program.called(name)} takes {counted(wanted, 'argument')} "
                f"({said.text if said else function}), {len(arguments)} given"
            )
        if core.has_prototypes and not SIMPLE.issuperset(map(type, arguments)):
            host.pointees = core.prototypes.check(name, arguments)
        return [
            from_python(
                function.parameters[i] if i < wanted else None,
                a,
                host,
                f"argument {i + 1}",
                partial(self._type_of, name, i),
            )
            for i, a in enumerate(arguments)
        ]

    def _type_of(self, name: str, index: int) -> str:
        """The type of a parameter as the function's language writes it, "" where that is IR."""
        said = self._core.prototypes.spelling(name) if self._core.has_prototypes else None
        types = said.types if said is not None else ()
        found = types[min(index, len(types) - 1)] if types else ""
        return "long" if found == "..." else found if index < len(types) else ""

    def time(self, source: str, language: str, number: int, repeat: int) -> list[float]:
        """Nanoseconds that an expression or statements of a language take, as in `time_beside`;
        where they are no more than a call with constants, that call.  Nothing of them stays."""
        from jitkernel.languages import find  # only for measuring
        from jitkernel.session.run.runner import Runner

        line = source
        if language != "llvm":
            line = find(language).call_line(source, self._core.program.state.notes.kept)
        with self._calling() as (host, scratch):
            try:
                asked = line or language == "llvm"
                loop = self._loop(host, scratch, line, None) if asked else None
            except JitError as error:
                if language == "llvm" or isinstance(error, Interrupted):
                    raise
                loop = None  # the language knows how to, or says in its words what is wrong
            if loop is not None:
                return _times([loop], number, repeat)[0]
            with Runner(self._execution).placed(source, language) as parts:
                return _times([self._sequence(host, parts)], number, repeat)[0]

    def time_beside(
        self, sides: Sequence[tuple[str, bytes | None]], number: int, repeat: int
    ) -> list[list[float]]:
        """Nanoseconds per call of each side, one figure for each repetition of `number` calls (0:
        chosen).  Sides take turns, so that what else the machine does disturbs all alike.

        Beside its expression a side may have an object that defines the function another way.  It
        is placed while the times are taken; whatever else it defines and refers to is the
        session's.  Arguments are evaluated once.  Raises UsageError for what is not one call line,
        and what stopped a call.
        """
        with self._calling() as (host, scratch):
            loops = [self._loop(host, scratch, *side) for side in sides]
            return _times(loops, number, repeat)

    def _loop(
        self, host: SessionHost, scratch: Scratch, expression: str, code: bytes | None
    ) -> Callable[[int], int]:
        """A function that makes so many calls and says how many nanoseconds they took."""
        call, source = _call_of(expression)
        entry = scratch.place_beside(code, call.name) if code is not None else 0
        signature, symbol = host.full_signature(call.name), host.known(call.name)
        if signature is None or symbol is None:
            called = self._core.program.called(call.name)
            raise UsageError(f"{called} is no function that this session knows")
        values = evaluate_arguments(call, host, source)
        types = tuple(host.layout.text(v.type) for v in values)
        target = self._core.engine.thunks.target(signature, types, timer=True)
        return partial(_spent, host, target, entry or host.entry(symbol), values)

    def _sequence(
        self, host: SessionHost, parts: Sequence[tuple[Type, int]]
    ) -> Callable[[int], int]:
        """The same for functions without parameters, called one after another."""
        results = tuple(host.layout.text(type) for type, _ in parts)
        target = self._core.engine.thunks.timer_of(results)
        entries = [_word(entry, host) for _, entry in parts]
        return partial(_spent, host, target, 0, entries)

    def value(self, expression: str) -> TypedValue:
        """What one call line gives; a value of type void where it gives nothing.

        It leaves no trace in the session but what it does.  Raises UsageError for anything else.
        """
        call, source = _call_of(expression)
        with self._calling() as (host, _):
            return evaluate(call, None, host, source)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[tuple[_CallHost, Scratch]]:
        """While it lasts, the call hears the program, and what its arguments need is in memory."""
        with Scratch(self._core, "the call") as scratch, Heard(self._core, self._execution.tee):
            execution = self._execution
            host = _CallHost(self._core, scratch.own, execution.error, execution.provide)
            yield host, scratch


class DirectCalls:
    """Calls of functions of scalars where code runs in this process: they are no operations, and
    what they leave out of those is of no use to them.  The others are as everywhere.

    What is known of a function holds until the next operation.
    """

    def __init__(self, core: Core):
        self._core = core
        self._executor = cast("InlineExecutor", core.engine.executor)
        self.turn = self._executor.turn
        self.known: dict[str, Callable[[tuple[Any, ...]], Any]] = {}
        self._held: set[Symbol] = set()  # whose entry somebody has; it stays

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a function with Python values; its result as a Python value."""
        if (direct := self.known.get(name)) is not None:
            try:
                return direct(arguments)
            except Unfit:
                pass
            except NotReturned:
                raise self.error() from None
        with self._core.lock:
            value = self._ordinary(name, arguments)
            self._learn(name)
            return value

    def error(self) -> Exception:
        """What stopped a direct call."""
        from jitkernel.executor.direct import DIRECT

        return Execution(self._core).error(self._executor.outcome(DIRECT))

    @operation(observed=True)
    def _ordinary(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return Caller(self._core).call(name, arguments).python

    def _learn(self, name: str) -> None:
        """Find out whether a function may be called directly until the next operation."""
        from jitkernel.executor.direct import Values, direct_call

        core, settings = self._core, self._core.settings
        self.known.pop(name, None)
        symbol = core.program.symbol(name)
        if (
            symbol is None or symbol.state is not SymbolState.DEFINED
            or not isinstance(symbol.info, Signature)
            or settings.budget or settings.autosave or core.observers.watches
        ):  # fmt: skip
            return
        function = symbol.info.function
        types = tuple(map(core.program.layouts.text, function.parameters))
        thunk = core.engine.thunks.known(symbol.info, types)
        if thunk is None:
            return
        offsets = [m.offset for m in thunk.arguments.members] if thunk.arguments is not None else ()
        check, code = None, ""
        if core.has_prototypes:
            check, said = partial(core.prototypes.check, name), core.prototypes.of(name)
            if said.parameters is not None:
                return
            code = said.result.code if said.result is not None else ""
        gives = partial(Pointer.of, layouts=core.program.layouts)
        values = Values(Pointer, check, unsigned=code[:1] == "u", gives=gives)
        found = direct_call(self._executor, core, symbol, thunk.address, function, offsets, values)
        if found is not None:
            self.known[name] = found

    @operation()
    def function(self, name: str) -> Any:
        """A function object of ctypes for a function's canonical entry: see
        `FunctionHandle.ctypes`."""
        from jitkernel.executor.direct import ctypes_function

        core = self._core
        called = core.program.called(name)
        symbol = core.program.symbol(name)
        if symbol is None or symbol.state is SymbolState.MISSING:
            raise UsageError(f"{called} is not defined any more")
        if not isinstance(symbol.info, Signature):
            raise UsageError(f"the type of {called} is not known")
        signature = symbol.info
        if signature.convention or signature.features:
            raise UsageError(
                f"{called} is called by a convention that ctypes does not know "
                f"({signature}): call it by the session"
            )
        attributes = attributes_of(signature.attributes)
        linker = core.engine.linker
        leads_to, unsigned = [], False
        if core.has_prototypes:
            said = core.prototypes.of(name)
            if said.parameters is not None:
                raise UsageError(
                    f"{called} ({said.text}) passes more than numbers and pointers, "
                    "of which ctypes would have to know: call it by the session"
                )
            unsigned = said.result is not None and said.result.code[:1] == "u"
            texts = [p.name.removeprefix("const ") if p else "" for p in said.pointees]
            leads_to = [text.removesuffix("*").strip() for text in texts]
        address = linker.canonical(symbol)
        made = ctypes_function(address, signature.function, *attributes, called, leads_to, unsigned)
        if symbol not in self._held:
            self._held.add(symbol)
            linker.retain_symbol(symbol)
        self._executor.adopt(made)
        return made


#: Nanoseconds that a repetition should take, and from which a loop's time can be trusted.
_WANTED, _TRUSTED = 50_000_000, 5_000_000


def _call_of(expression: str) -> tuple[Call, str]:
    """The one call of a line, and the source that it was read from.  Raises UsageError."""
    plan = parse_cell(expression)
    action = plan.actions[0] if len(plan.actions) == 1 and not plan.entities else None
    expr = action.expr if isinstance(action, CallAction) else None
    if not isinstance(expr, Call):
        raise UsageError("what is timed is one call: @f(arguments)")
    return expr, plan.source


def _word(number: int, host: SessionHost) -> TypedValue:
    return TypedValue(IntType(64), number.to_bytes(8, "little"), host.layout)


def _spent(
    host: SessionHost, target: Thunk, entry: int, values: Sequence[TypedValue], count: int
) -> int:
    """The nanoseconds that a timer gives for so many rounds."""
    data = host.run(target, entry, [_word(count, host), *values])
    return int.from_bytes(data, "little", signed=True)


def _times(loops: Sequence[Callable[[int], int]], number: int, repeat: int) -> list[list[float]]:
    """Nanoseconds per round of each loop; they take turns."""
    counts = [number or _count(loop) for loop in loops]
    found: list[list[float]] = [[] for _ in loops]
    for _ in range(repeat):
        for loop, count, times in zip(loops, counts, found, strict=True):
            times.append(loop(count) / count)
    return found


def _count(loop: Callable[[int], int]) -> int:
    """How many calls make a repetition worth timing."""
    number = 1
    while (spent := loop(number)) < _TRUSTED and number < 1 << 40:
        number *= 10 if spent < _TRUSTED // 10 else 2
    return max(1, int(number * _WANTED / max(spent, 1)))


_FINALIZE = Signature(
    "void (ptr)", "", "", "", "void (ptr)"
)  # of __cxa_finalize, Itanium ABI 3.3.6


def finish(engine: Engine, program: Program, places: Places, image: Image) -> list[str]:
    """Run an image's destructors; what stopped them, in words: that must not keep it in memory."""
    linker = program.linker
    places.freed.add(image)
    handles = (*program.handles.pop(image.cell, ()), *([image.dso] if image.dso else ()))
    outcomes = [engine.call_many(list(image.fini))] if image.fini else []
    finalize = linker.known("__cxa_finalize", SymbolKind.FUNCTION) if handles else None
    if finalize is not None and finalize.state == SymbolState.FAR:
        target = engine.thunks.target(_FINALIZE, ("ptr",))
        entry = linker.entry(finalize)
        for handle in handles:
            outcomes.append(engine.call(target.address, entry, handle.to_bytes(8, "little"), 0))
    # What is going on besides was to be stopped as well.
    engine.stopping |= engine.running and any(o.kind == "interrupted" for o in outcomes)
    stopped: list[str] = []
    for outcome in outcomes:
        if outcome.kind != "ok":
            from jitkernel.session.report.faults import error_of  # only where one was stopped

            words = str(error_of(outcome, places, "")).replace("\n", "; ")
            stopped.append(f"a destructor of cell {image.cell} was stopped: {words}")
    return stopped


class Scratch:
    """A context manager: what it has taken is given back when it ends.

    `what` says in messages what was interrupted.
    """

    def __init__(self, core: Core, what: str):
        self._core, self._what = core, what
        self._blocks: RecordedList[Block] = RecordedList()
        self.own = self._blocks.append
        self._images: RecordedList[Image] = RecordedList()

    def __enter__(self) -> Scratch:
        self._core.cleanups.add(self._release)
        return self

    def __exit__(self, *exception: object) -> None:
        self._core.cleanups.done(self._release)

    def _release(self) -> None:
        engine = self._core.engine
        if self._images:
            with engine.writing(), engine.arena.rollback.atomic():
                for image in self._images:
                    engine.linker.unlink(image)
                self._images.clear()
        if self._blocks:
            with engine.arena.rollback.atomic():
                for block in self._blocks:
                    engine.linker.release_block(block)
                self._blocks.clear()

    def place(self, code: bytes, name: str, **how: Any) -> int:
        """The address of an object's function `name`; see `Linker.place_unnamed`."""
        engine = self._core.engine
        with engine.writing(), engine.arena.rollback.atomic():
            image, address = engine.linker.place_unnamed(code, name, **how)
            self._images.append(image)
        return address

    def place_beside(self, code: bytes, name: str) -> int:
        """The same of an object that defines a function of the session another way."""
        exports = [export.name for export in read_names(read_object(code)).exports]
        if name not in exports:
            raise UsageError(f"{self._core.program.called(name)} is not defined there")
        return self.place(code, name, weak=frozenset(exports) - {name}, missing=True)

    def reserve(self, size: int) -> int:
        """The address of so many bytes of the data zone."""
        arena = self._core.engine.arena
        with arena.rollback.atomic():
            extent = arena.reserve("data", size, 16)
            self.own(Block(extent))
        return extent.start

    def write(self, address: int, data: bytes) -> None:
        """Fill what was reserved."""
        self._core.engine.arena.write(address, data)

    @contextlib.contextmanager
    def limited(self, patience: float) -> Iterator[float]:
        """The seconds that a call may take meanwhile: the session's own limit, else `patience`."""
        executor = self._core.engine.executor
        if self._core.settings.executor == "inline":
            raise UsageError(
                f"{self._what} runs code that may be wrong or never end, and nobody could stop it "
                'in this process: use Session(executor="process")'
            )
        before = executor.settings
        limit = before.cell_timeout or patience
        executor.settings = before._replace(cell_timeout=limit)
        try:
            yield limit
        finally:
            executor.settings = before

    def function(self, bitcode: bytes, name: str) -> int:
        """The address of a module's function `name`.  Raises UsageError where the session has that
        name, and what compiling and linking raise."""
        engine = self._core.engine
        if name in engine.linker.symbols:
            called = self._core.program.called(name)
            raise UsageError(f"{called} is defined in this session; {self._what} needs that name")
        text = engine.pool.disassembled(bitcode)
        request = Request(text, Options(opt_level=1, internal=True), label=f"@{name}")
        kinds = {found.name: "function" for found in functions(text, "declare")}
        return self.place(engine.pool.compile(request).object, name, kinds=kinds)

    def call_cell(self, name: str, arguments: Sequence[Any], sink: Sink) -> TypedValue:
        """Call a function of the session with Python values; raises what stops it."""
        return Caller(self._core, sink).call(name, arguments)

    def call(
        self, address: int, signature: Signature, arguments: Sequence[Any]
    ) -> TypedValue | None:
        """Call what `function` gave, with Python values; None where it was stopped by a fault or
        the limit.  Raises Interrupted where the user has stopped it."""
        engine, host = self._core.engine, SessionHost(self._core, self.own)
        function = signature.function
        types = function.parameters
        packed = [from_python(t, v, host) for t, v in zip(types, arguments, strict=True)]
        target = engine.thunks.target(signature, tuple(map(str, types)))
        outcome = host.attempt(target, address, packed)
        if outcome.kind == "ok":
            return TypedValue(function.result, outcome.result, host.layout)
        if engine.stopping or (outcome.record and outcome.record.cause == ""):
            raise Interrupted(f"{self._what} was interrupted")
        return None
