"""Calls from Python of functions of numbers and pointers that have been called before: what was
found out about the function is kept.

Start from `QuickCalls.call`, and from `DirectCalls.call` where code runs in this process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from jitkernel.errors import UsageError
from jitkernel.executor.records import NotReturned, Unfit
from jitkernel.executor.scalars import scalars
from jitkernel.linker import SymbolState
from jitkernel.session.operation import operation
from jitkernel.session.program.signatures import Signature, attributes_of
from jitkernel.session.run.calls import Caller
from jitkernel.session.run.host import Execution
from jitkernel.values.python import Pointer

if TYPE_CHECKING:
    from jitkernel.executor.inline import InlineExecutor
    from jitkernel.linker import Image, Symbol
    from jitkernel.session.core import Core
    from jitkernel.session.run.thunks import Thunk


class _Known(NamedTuple):
    """A function as it was: its definition and type, the thunk with which it is called, and how
    arguments are written (see `Scalars`) and the result is read; no thunk where that takes more."""

    symbol: Symbol
    image: Image
    info: object
    thunk: Thunk | None = None
    kinds: frozenset[tuple[type, ...]] = frozenset()
    order: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None
    write: struct.Struct = struct.Struct("")
    result: struct.Struct = struct.Struct("")
    gives: Callable[[int], Any] | None = None


def _way(core: Core, name: str, symbol: Symbol | None) -> tuple[Thunk, Sequence[int], bool] | None:
    """The thunk that a function was called with, where its arguments lie for it (see `scalars`),
    and whether its result is an integer without a sign; None where that is not all there is to a
    call."""
    if symbol is None or not isinstance(symbol.info, Signature):
        return None
    said = core.said(name)
    types = tuple(map(core.program.layouts.text, symbol.info.function.parameters))
    thunk = core.engine.thunks.known(symbol.info, types)
    if thunk is None or (said is not None and not said.is_simple):
        return None
    layout = thunk.arguments
    offsets = [*(m.offset for m in layout.members), layout.size] if layout is not None else [0]
    return thunk, offsets, said is not None and said.is_unsigned


class QuickCalls:
    """Functions of a session by name, each as long as its definition is the same."""

    def __init__(self, core: Core):
        self._core, self._symbols = core, core.program.linker.symbols
        self._known: dict[str, _Known] = {}
        self._pointer = partial(Pointer.of, layouts=core.program.layouts)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a function with Python values; its result as a Python value."""
        try:
            return self._quick(name, arguments)
        except Unfit:
            pass
        value = Caller(self._core).call_with(name, arguments)
        self._learn(name)
        return value.python

    def _quick(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Raises Unfit, before anything happened, where more than is known is to be done."""
        known, core = self._known.get(name), self._core
        if known is None or tuple(map(type, arguments)) not in known.kinds:
            raise Unfit
        symbol, engine = known.symbol, core.engine
        thunk = known.thunk
        if thunk is None or not self._is_same(name, known) or not engine.thunks.has(thunk):
            raise Unfit
        try:
            packed = known.write.pack(*(known.order(arguments) if known.order else arguments))
        except (struct.error, OverflowError):
            raise Unfit from None
        core.residency.clock += 1
        core.residency.use(known.image)
        outcome = engine.call(thunk.address, symbol.address, packed, known.result.size)
        if outcome.kind != "ok":
            raise Execution(core).error(outcome)
        if not known.result.size:
            return None
        (value,) = known.result.unpack(outcome.result)
        return value if known.gives is None else known.gives(value)

    def _is_same(self, name: str, known: _Known) -> bool:
        symbol = known.symbol
        return (
            self._symbols.get(name) is symbol and symbol.image is known.image
            and symbol.info is known.info and symbol.state is SymbolState.DEFINED
        )  # fmt: skip

    def _learn(self, name: str) -> None:
        """A function was called the ordinary way: find out whether the next call may be quick."""
        core, symbol = self._core, self._symbols.get(name)
        known = self._known.pop(name, None)
        if symbol is None or symbol.image is None or not isinstance(symbol.info, Signature):
            return
        if known is not None and known.thunk is None and self._is_same(name, known):
            self._known[name] = known
            return
        made = _Known(symbol, symbol.image, symbol.info)
        way = _way(core, name, symbol)
        if way is not None and (not core.has_prototypes or core.prototypes.is_settled(name)):
            thunk, offsets, unsigned = way
            found = scalars(symbol.info.function, offsets, Pointer, unsigned)
            if found is not None:
                made = made._replace(
                    thunk=thunk, kinds=found.kinds, order=found.order,
                    write=struct.Struct("<" + found.layout),
                    result=struct.Struct("<" + found.result),
                    gives=self._pointer if found.result == "Q" and not unsigned else None,
                )  # fmt: skip
        self._known[name] = made


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
            finally:
                if self._core.deferred.waiting:
                    self._core.deferred.run()
        with self._core.lock:
            value = self._ordinary(name, arguments)
            self._learn(name)
            return value

    def error(self) -> Exception:
        """The reason why a direct call stopped."""
        from jitkernel.executor.direct import DIRECT

        return Execution(self._core).error(self._executor.outcome(DIRECT))

    @operation(observed=True)
    def _ordinary(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return Caller(self._core).call_with(name, arguments).python

    def _learn(self, name: str) -> None:
        """Find out whether a function may be called directly until the next operation."""
        from jitkernel.executor.direct import Values, direct_call

        core, settings = self._core, self._core.settings
        self.known.pop(name, None)
        symbol = core.program.linker.symbols.get(name)
        if (
            symbol is None or symbol.state is not SymbolState.DEFINED
            or settings.budget or settings.autosave or core.observers.series
            or (way := _way(core, name, symbol)) is None
        ):  # fmt: skip
            return
        thunk, offsets, unsigned = way
        check = partial(core.prototypes.check, name) if core.has_prototypes else None
        gives = partial(Pointer.of, layouts=core.program.layouts)
        values = Values(Pointer, check, unsigned, gives)
        function = symbol.info.function
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
        symbol = core.program.linker.symbols.get(name)
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
            if not said.is_simple:
                raise UsageError(
                    f"{called} ({said.text}) passes more than numbers and pointers, "
                    "of which ctypes would have to know: call it by the session"
                )
            unsigned = said.is_unsigned
            texts = [p.name.removeprefix("const ") if p else "" for p in said.pointees]
            leads_to = [text.removesuffix("*").strip() for text in texts]
        address = linker.canonical(symbol)
        made = ctypes_function(address, signature.function, *attributes, called, leads_to, unsigned)
        if symbol not in self._held:
            self._held.add(symbol)
            linker.retain_symbol(symbol)
        self._executor.functions[id(made)] = made
        return made
