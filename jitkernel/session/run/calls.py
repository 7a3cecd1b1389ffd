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
from typing import TYPE_CHECKING, Any, Self

from jitkernel.compiler.records import Options, Request
from jitkernel.elf import read_object
from jitkernel.errors import Interrupted, JitError, UsageError
from jitkernel.ir.expressions import Call
from jitkernel.ir.module import functions
from jitkernel.ir.signature import alignment
from jitkernel.ir.types import PTR, IntType, Type
from jitkernel.languages.llvm.evaluate import evaluate, evaluate_arguments
from jitkernel.languages.llvm.plan import CallAction, parse_cell
from jitkernel.linker import Block, Image, SymbolKind, SymbolState
from jitkernel.linker.layout import read_names
from jitkernel.rollback import RecordedList
from jitkernel.session.arrays import Copies
from jitkernel.session.program.signatures import Signature, attributes_of
from jitkernel.session.run.host import Execution, SessionHost
from jitkernel.session.run.results import Collector, Sink
from jitkernel.values.conversion import SIMPLE, from_python, to_bytes
from jitkernel.values.value import TypedValue
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Prototype
    from jitkernel.session.core import Core
    from jitkernel.session.run.thunks import Thunk
    from jitkernel.values.datatype import DataType

#: What fits any pointer, or is refused elsewhere: no prototype is asked for it.
_UNCHECKED = SIMPLE - {str}
_WORD = 8  # bytes: what is passed by value in registers, is so in parts of that size
_REGISTERS = 2 * _WORD  # what is no larger, and has nothing but padding, is not passed at all

#: Nanoseconds that a repetition should take, and from which a loop's time can be trusted.
_WANTED, _TRUSTED = 50_000_000, 5_000_000


def _call_of(expression: str) -> tuple[Call, str]:
    """The one call of a line, and the source that it was read from.  Raises UsageError."""
    plan = parse_cell(expression)
    action = plan.actions[0] if len(plan.actions) == 1 and not plan.entities else None
    expr = action.expr if isinstance(action, CallAction) else None
    if not isinstance(expr, Call):
        raise UsageError(f"this is no single call, as @f(arguments) is one: {expression.strip()}")
    return expr, plan.source


def _word(number: int, host: SessionHost) -> TypedValue:
    return TypedValue(IntType(64), number.to_bytes(8, "little"), host.layout)


def _spent(
    host: SessionHost, target: Thunk, entry: int, values: Sequence[TypedValue], count: int
) -> int:
    """The nanoseconds that a timer gives for so many rounds."""
    data = host.run_thunk(target, entry, [_word(count, host), *values])
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
    """The number of calls that make a repetition worth timing."""
    number = 1
    while (spent := loop(number)) < _TRUSTED and number < 1 << 40:
        number *= 10 if spent < _TRUSTED // 10 else 2
    return max(1, int(number * _WANTED / max(spent, 1)))


_FINALIZE = Signature(
    "void (ptr)", "", "", "", "void (ptr)"
)  # of __cxa_finalize, Itanium ABI 3.3.6


def finish(core: Core, image: Image) -> None:
    """Run an image's destructors, and tell what stopped them: that must not keep it in memory."""
    engine, linker = core.engine, core.engine.linker
    handles = (*core.program.handles.pop(image.cell, ()), *([image.dso] if image.dso else ()))
    outcomes = [engine.call_many(list(image.fini))] if image.fini else []
    finalize = linker.known("__cxa_finalize", SymbolKind.FUNCTION) if handles else None
    if finalize is not None and finalize.state == SymbolState.FAR:
        target = engine.thunks.target(_FINALIZE, ("ptr",))
        entry = linker.entry(finalize)
        for handle in handles:
            outcomes.append(engine.call(target.address, entry, handle.to_bytes(8, "little"), 0))
    # What is going on besides was to be stopped as well.
    engine.stopping |= engine.running and any(o.kind == "interrupted" for o in outcomes)
    for outcome in outcomes:
        if outcome.kind != "ok":
            from jitkernel.session.report.faults import error_of  # only where one was stopped

            words = str(error_of(outcome, core.places, "")[0]).replace("\n", "; ")
            core.sink.note(f"a destructor of cell {image.cell} was stopped: {words}")


class Scratch(Execution):
    """A context manager: what it has taken is given back when it ends.

    `what` says in messages what was interrupted.
    """

    def __init__(self, core: Core, what: str, sink: Sink | None = None):
        super().__init__(core, sink)
        self._what = what
        self._blocks: RecordedList[Block] = RecordedList()
        self._images: RecordedList[Image] = RecordedList()

    def own(self, block: Block) -> None:
        self._blocks.append(block)

    def __enter__(self) -> Self:
        self.core.cleanups.append(self._release)
        return super().__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.core.cleanups.done(self._release)

    def _release(self) -> None:
        engine = self.engine
        if self._images:
            with engine.world_stopped, engine.arena.rollback.atomic():
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
        engine = self.engine
        with engine.world_stopped, engine.arena.rollback.atomic():
            image, address = engine.linker.place_unnamed(code, name, **how)
            self._images.append(image)
        return address

    def place_beside(self, code: bytes, name: str) -> int:
        """The same of an object that defines a function of the session another way."""
        exports = [export.name for export in read_names(read_object(code)).exports]
        if name not in exports:
            raise UsageError(f"{self.program.called(name)} is not defined there")
        return self.place(code, name, weak=frozenset(exports) - {name}, missing=True)

    @contextlib.contextmanager
    def limited(self, patience: float) -> Iterator[float]:
        """The seconds that a call may take meanwhile: the session's own limit, else `patience`."""
        settings = self.engine.executor.settings
        if settings.executor == "inline":
            raise UsageError(
                f"{self._what} runs code that may be wrong or never end, and nobody could stop it "
                'in this process: use Session(executor="process")'
            )
        before = settings.cell_timeout
        settings.cell_timeout = before or patience
        try:
            yield settings.cell_timeout
        finally:
            settings.cell_timeout = before

    def function(self, bitcode: bytes, name: str) -> tuple[int, str]:
        """The address of a module's function `name`, and the module's text.  Raises UsageError
        where the session has that name, and what compiling and linking raise."""
        engine = self.engine
        if name in engine.linker.symbols:
            called = self.program.called(name)
            raise UsageError(f"{called} is defined in this session; {self._what} needs that name")
        text = engine.pool.disassembled(bitcode)
        request = Request(text, Options(opt_level=1, internal=True), label=f"@{name}")
        kinds = {found.name: "function" for found in functions(text, "declare")}
        return self.place(engine.pool.compile(request).object, name, kinds=kinds), text

    def _prepared(
        self, signature: Signature, arguments: Sequence[Any]
    ) -> tuple[Thunk, list[TypedValue]]:
        types = signature.function.parameters
        packed = [from_python(t, v, self) for t, v in zip(types, arguments, strict=True)]
        return self.engine.thunks.target(signature, tuple(map(str, types))), packed

    def call_at(
        self, address: int, signature: Signature, arguments: Sequence[Any]
    ) -> TypedValue | None:
        """Call what `function` gave, with Python values; None where it was stopped by a fault or
        the limit.  Raises Interrupted where the user has stopped it."""
        engine, function = self.engine, signature.function
        target, packed = self._prepared(signature, arguments)
        outcome = self.attempt(target, address, packed)
        if outcome.kind == "ok":
            return TypedValue(function.result, outcome.result, self.layout)
        if engine.stopping or (outcome.record and outcome.record.cause == ""):
            raise Interrupted(f"{self._what} was interrupted")
        return None


class Caller(Scratch):
    """One call in a core whose lock is held; data that its arguments need goes when it ends, and
    buffers among `_arguments` are copied while it lasts."""

    _arguments: Sequence[Any] = ()
    _pointees: Sequence[DataType | None] = ()
    _copies: Copies | None = None
    _result_at = 0  # where the function returns its result, where that is in memory
    links = True

    def __init__(self, core: Core, sink: Sink | None = None):
        super().__init__(core, "the call", sink)
        self._pinned: list[object] = []  # where arguments stay in their own memory

    def buffer(self, thing: object, what: str) -> int:
        arrays = self.core.arrays
        if (address := arrays.known(thing, what)) is not None:
            return address
        if (in_place := self.engine.address_of) is not None:
            if (found := in_place(thing)) is not None:
                self._pinned.append(found)
                return found[0]
        if self._copies is None:
            constant = [p is not None and p.constant for p in self._pointees]
            self._copies = Copies(arrays, self._arguments, constant)
        return self._copies.address(thing)

    def call_with(self, name: str, arguments: Sequence[Any]) -> TypedValue:
        """Call a function with Python values."""
        core = self.core
        core.residency.clock += 1
        said = core.said(name)
        if said is not None and any(map(callable, arguments)):
            arguments = self._with_functions(said, arguments)
        self._arguments = arguments
        with self:
            try:
                value = self.call(name, self._converted(name, arguments, said))
                if said is None or said.result is None:
                    return value
                size = said.result.size
                if self._result_at:
                    data = self.read(self._result_at, size)
                else:  # the words of padding below what registers have are in none
                    low = _WORD * min(said.result.eightbytes(), default=0)
                    data = (bytes(low) + value.data).ljust(size, b"\0")
                return TypedValue(value.type, data, value.layouts, said.result)
            finally:
                if self._copies is not None:
                    self._copies.end()

    def call_of(self, address: int, signature: Signature, arguments: Sequence[Any]) -> TypedValue:
        """Call what `place_beside` gave, as `call_with` does what has a name."""
        with self:
            target, packed = self._prepared(signature, arguments)
            data = self.run_thunk(target, address, packed)
            return TypedValue(signature.function.result, data, self.layout)

    def _with_functions(self, said: Prototype, arguments: Sequence[Any]) -> list[Any]:
        """The arguments, with the addresses of functions of the program that call Python's where
        those were given for pointers to functions."""
        from jitkernel.session.run.runner import Runner

        core, found = self.core, list(arguments)
        for at, thing in enumerate(arguments):
            if not callable(thing) or hasattr(thing, "__index__"):
                continue
            if not (type := said.callback(at)):
                continue
            functions = core.python_functions
            name = functions.name_of(thing, type)
            symbol = core.program.linker.symbols.get(name)
            if symbol is None or symbol.state is not SymbolState.DEFINED:
                name = name or functions.new_name()
                source, language = functions.add(name, thing, type)
                Runner(core, Collector(), cell_id=f"py:{name}").run(source, language)
            found[at] = self.address(name)
        return found

    def _converted(
        self, name: str, arguments: Sequence[Any], said: Prototype | None
    ) -> list[TypedValue]:
        """The values that IR's function takes, which passes some of a language in parts, or in
        memory.  Raises UsageError."""
        core = self.core
        signature, symbol = self.full_signature(name), self.known(name)
        if signature is None or symbol is None:
            hint = self.hint(name)
            raise UsageError(f"no function {self.called(name)}{f'; {hint}' * bool(hint)}")
        types = said.parameters if said is not None else None
        if types is None and symbol.state == SymbolState.MISSING:
            why = symbol.why or "nobody defines it yet"
            raise UsageError(f"{self.called(name)} is not defined: {why}")
        function = signature.function
        fixed = function.parameters
        wanted = len(fixed if types is None else types)
        text = said.text if said is not None and types is not None else ""
        if len(arguments) < wanted or (len(arguments) > wanted and not function.variadic):
            spelled = core.spelling(name) if not text else None
            raise UsageError(
                f"{self.called(name)} takes {counted(wanted, 'argument')} "
                f"({text or (spelled.text if spelled else function)}), {len(arguments)} given"
            )
        if core.has_prototypes and (
            types is not None or not _UNCHECKED.issuperset(map(type, arguments))
        ):
            self._pointees = core.prototypes.check(name, arguments)
        refusal = UsageError(
            f"{name} ({text}) is called in a way that Python does not know: give it pointers, or "
            "call it from a cell"
        )
        attributes = attributes_of(signature.attributes)[1] if types is not None else {}
        values: list[TypedValue] = []
        if said is not None and said.result and attributes.get(0, "").startswith("sret"):
            values.append(self._in_memory(bytes(said.result.size), attributes[0]))
            self._result_at = int.from_bytes(values[0].data, "little")
        for number, thing in enumerate(arguments):
            what, at = f"argument {number + 1}", len(values)
            seen = types[number] if types is not None and number < len(types) else None
            in_memory = "byval" in attributes.get(at, "")
            if seen is None or (seen.is_scalar and not in_memory):
                into = fixed[at] if at < len(fixed) else None
                type_of = partial(self._type_of, name, number)
                values.append(from_python(into, thing, self, what, type_of))
                continue
            data = to_bytes(seen, thing, self, what)
            if in_memory and (len(data) > _REGISTERS or seen.eightbytes()):
                values.append(self._in_memory(data, attributes[at]))
            else:
                values += self._parts(seen, data, fixed[at:], refusal)
        if len(values) < len(fixed):
            raise refusal
        return values

    def _in_memory(self, data: bytes, attributes: str) -> TypedValue:
        """The pointer to a value that is passed, or returned, in memory."""
        address = self.allocate(data, max(16, alignment(attributes)))
        return TypedValue(PTR, address.to_bytes(8, "little"), self.layout)

    def _parts(
        self, seen: DataType, data: bytes, types: Sequence[Type], refusal: UsageError
    ) -> Iterator[TypedValue]:
        """A value that is passed in registers; those of `types` are its own, as many as it takes.

        System V ABI, AMD64 supplement, 3.2.3; the compiler of its language has decided in which.
        """
        words, at, left = seen.eightbytes(), 0, iter(types)
        while at < len(data):
            if at // _WORD not in words:  # it is nothing but padding
                at += _WORD
                continue
            if (type := next(left, None)) is None:
                raise refusal
            size = self.layout(type).size
            yield TypedValue(type, data[at : at + size].ljust(size, b"\0"), self.layout)
            at += max(size, _WORD)

    def _type_of(self, name: str, index: int) -> str:
        """The type of a parameter as the function's language writes it, "" where that is IR."""
        said = self.core.spelling(name)
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
            line = find(language).call_line(source, self.core.program.state.notes.kept)
        with self, self.engine.measured():
            try:
                asked = line or language == "llvm"
                loop = self._loop(line, None) if asked else None
            except JitError as error:
                if language == "llvm" or isinstance(error, Interrupted):
                    raise
                loop = None  # the language knows how to, or says in its words what is wrong
            if loop is not None:
                return _times([loop], number, repeat)[0]
            with Runner(self.core, self.tee, self.options).placed(source, language) as parts:
                return _times([self._sequence(parts)], number, repeat)[0]

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
        with self, self.engine.measured():
            loops = [self._loop(*side) for side in sides]
            return _times(loops, number, repeat)

    def _loop(self, expression: str, code: bytes | None) -> Callable[[int], int]:
        """A function that makes so many calls and says how many nanoseconds they took."""
        call, source = _call_of(expression)
        entry = self.place_beside(code, call.name) if code is not None else 0
        signature, symbol = self.full_signature(call.name), self.known(call.name)
        if signature is None or symbol is None:
            called = self.core.program.called(call.name)
            raise UsageError(f"{called} is no function that this session knows")
        values = evaluate_arguments(call, self, source)
        types = tuple(self.layout.text(v.type) for v in values)
        target = self.core.engine.thunks.target(signature, types, timer=True)
        return partial(_spent, self, target, entry or self.entry(symbol), values)

    def _sequence(self, parts: Sequence[tuple[Type, int]]) -> Callable[[int], int]:
        """The same for functions without parameters, called one after another."""
        results = tuple(self.layout.text(type) for type, _ in parts)
        target = self.core.engine.thunks.timer_of(results)
        entries = [_word(entry, self) for _, entry in parts]
        return partial(_spent, self, target, 0, entries)

    def value(self, expression: str) -> TypedValue:
        """The value of one call line; one of type void where it gives nothing.

        It leaves no trace in the session but what it does.  Raises UsageError for anything else.
        """
        call, source = _call_of(expression)
        with self:
            return evaluate(call, None, self, source)
