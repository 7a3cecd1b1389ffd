"""What expressions of a cell ask of the session: symbols, calls, loads, strings.  Start from
`SessionHost`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UndefinedSymbol, UsageError
from jitkernel.executor import Outcome
from jitkernel.ir.names import written
from jitkernel.ir.types import FunctionType, Type, parse_type
from jitkernel.languages.llvm import PRELUDE, TypedValue, prelude_type
from jitkernel.languages.llvm.words import nearest
from jitkernel.linker import Block, Image, Symbol, SymbolKind, SymbolState
from jitkernel.linker.editing import describe
from jitkernel.session.program.signatures import Signature, Variable

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.engine import CallTarget, Engine
    from jitkernel.session.program.program import Program

__all__ = ["SessionHost", "host_of"]


class SessionHost:
    """Expressions of one cell; `own` is called with each block of data that the cell comes to own.

    `fail` turns an outcome that is not "ok" into the error to raise; `use` is told whose code is
    about to be called.
    """

    def __init__(
        self,
        engine: Engine,
        program: Program,
        results: Callable[[int | None], TypedValue | None],
        own: Callable[[Block], None],
        fail: Callable[[Outcome], Exception],
        use_prelude: bool,
        use: Callable[[Image | None], None] = lambda image: None,
    ):
        self._engine, self._program = engine, program
        self._results, self._own, self._fail = results, own, fail
        self.layout = program.layouts  # all that its values keep
        self._prelude = use_prelude
        # Where a language that runs a cell by itself puts what the cell prints.
        self.output: Callable[[str, bytes], None] = lambda name, data: None
        self._use = use

    # -- what is known ---------------------------------------------------------------------------

    def signature(self, name: str) -> FunctionType | None:
        """The type of a function of the session or the prelude."""
        found = self.full_signature(name)
        return None if found is None else found.function

    def full_signature(self, name: str) -> Signature | None:
        """The same with everything that calling it depends on."""
        symbol = self._program.symbol(name)
        known = symbol.info if symbol is not None else self._program.declared.get(name)
        if isinstance(known, Signature):
            return known
        if self._prelude and (symbol is None or symbol.info is None):
            type = prelude_type(name)
            if type is not None:
                return Signature(str(type), "", "", "", str(type))
        return None

    def variable(self, name: str) -> tuple[Type, int, bool] | None:
        """Type, address and constancy of a variable that has storage."""
        symbol = self._program.symbol(name)
        declared = self._program.declared.get(name)
        if symbol is None and isinstance(declared, Variable):
            with self._engine.arena.rollback.atomic():
                symbol = self._engine.linker.known(name, SymbolKind.DATA)
                if symbol is not None:
                    describe(self._engine.linker, symbol, declared)
        if symbol is None or not isinstance(symbol.info, Variable):
            return None
        if symbol.state not in (SymbolState.DEFINED, SymbolState.FAR):
            return None
        return parse_type(symbol.info.shown), symbol.address, symbol.info.constant

    def address(self, name: str) -> int | None:
        """A function's canonical entry, a variable's storage."""
        symbol = self.known(name)
        return None if symbol is None else self._engine.linker.canonical(symbol)

    def known(self, name: str) -> Symbol | None:
        """The symbol, looked up in the executor's process where the session lacks it."""
        symbol = self._program.symbol(name)
        if symbol is None and (signature := self.full_signature(name)) is not None:
            with self._engine.arena.rollback.atomic():
                symbol = self._engine.linker.known(name, SymbolKind.FUNCTION)
                if symbol is not None:
                    describe(self._engine.linker, symbol, signature)
        return symbol

    def nearest(self, name: str) -> str | None:
        """The known name closest to one that is not."""
        names = list(self._program.linker.symbols)
        return nearest(name, [*names, *PRELUDE] if self._prelude else names)

    # -- what is done ----------------------------------------------------------------------------

    def call(self, name: str, arguments: Sequence[TypedValue]) -> TypedValue:
        """Call a function by name; raises what stopped it."""
        signature = self.full_signature(name)
        symbol = self.known(name)
        if signature is None or symbol is None:
            raise UndefinedSymbol(f"call of {written(name)}, which nobody defines", symbol=name)
        entry = self.entry(symbol)
        types = tuple([self.layout.text(a.type) for a in arguments])
        target = self._engine.target(signature, types)
        outcome, data = self.run(target, entry, arguments)
        if outcome.kind != "ok":
            raise self._fail(outcome)
        result = signature.function.result
        return TypedValue(result, data, self.layout)

    def intrinsic(
        self,
        name: str,
        arguments: Sequence[Sequence[str]],
        constants: Sequence[str],
        results: Sequence[str],
    ) -> FunctionType | str:
        """The type of an intrinsic that is called so, or why there is none."""
        types = [[self.layout.text(parse_type(t)) for t in choices] for choices in arguments]
        found = self._engine.pool.intrinsic(name, types, constants, results)
        if isinstance(found, str):
            return found
        return FunctionType(parse_type(found[0]), tuple(map(parse_type, found[1])))

    def call_intrinsic(
        self, name: str, type: FunctionType, arguments: Sequence[TypedValue | str]
    ) -> TypedValue:
        """Call an intrinsic; an argument that is text is a constant."""
        kinds = zip(type.parameters, arguments, strict=True)
        target = self._engine.intrinsic(
            name,
            str(type.result),
            tuple((str(t), a if isinstance(a, str) else "") for t, a in kinds),
        )
        outcome, data = self.run(target, 0, [a for a in arguments if not isinstance(a, str)])
        if outcome.kind != "ok":
            raise self._fail(outcome)
        return TypedValue(type.result, data, self.layout)

    def entry(self, symbol: Symbol) -> int:
        """Where a function's code begins, in memory from now on."""
        self._use(symbol.image)
        return self._engine.linker.entry(symbol)

    def run(
        self, target: CallTarget, entry: int, arguments: Sequence[TypedValue], before: bytes = b""
    ) -> tuple[Outcome, bytes]:
        """Call `entry` through a thunk; the outcome and the bytes of its result."""
        packed = b""
        layout = target.arguments
        if layout is not None:
            buffer = bytearray(layout.size)
            offsets = layout.offsets
            if before:
                buffer[: len(before)] = before
                offsets = offsets[1:]
            for offset, argument in zip(offsets, arguments, strict=True):
                data = argument.data
                buffer[offset : offset + len(data)] = data
            packed = bytes(buffer)
        size = target.result.size if target.result is not None else 0
        outcome = self._engine.call(target.address, entry, packed, 8 if before else size)
        return outcome, outcome.result

    def load(self, type: Type, address: int) -> TypedValue:
        """The value at an address of the arena."""
        size = self.layout(type).size
        arena = self._engine.arena
        if address not in arena:
            raise UsageError(
                f"the variable is in the executor's own memory ({address:#x}); "
                "load it with an instruction"
            )
        return TypedValue(type, arena.read(address, size), self.layout)

    def store(self, address: int, data: bytes) -> None:
        """Write a variable."""
        self._engine.arena.write(address, data)

    def allocate(self, data: bytes, align: int) -> int:
        """Data that the cell owns."""
        arena = self._engine.arena
        with arena.rollback.atomic():
            extent = arena.reserve("data", max(len(data), 1), max(align, 1))
            arena.write(extent.start, data)
            self._own(Block(extent))
        return extent.start

    def result(self, number: int | None) -> TypedValue | None:
        """The last result, or that of a cell."""
        return self._results(number)


def host_of(
    session: Core, own: Callable[[Block], None], fail: Callable[[Outcome], Exception]
) -> SessionHost:
    """What expressions of a session are evaluated with; see `SessionHost`."""
    return SessionHost(
        session.engine, session.program, session.results.find, own, fail,
        session.settings.prelude, session.residency.use,
    )  # fmt: skip
