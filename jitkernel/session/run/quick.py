"""Calls from Python of functions of numbers and pointers that have been called before.

They are operations as all calls are; only what was found out about the function is kept.  Start
from `QuickCalls.call`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jitkernel.executor.records import Unfit
from jitkernel.executor.scalars import scalars
from jitkernel.linker import SymbolState
from jitkernel.session.program.signatures import Signature
from jitkernel.session.run.calls import Caller
from jitkernel.session.run.host import Execution
from jitkernel.values.python import Pointer

if TYPE_CHECKING:
    from jitkernel.linker import Image, Symbol
    from jitkernel.session.core import Core
    from jitkernel.session.run.thunks import Thunk

__all__ = ["QuickCalls"]


class _Known(NamedTuple):
    """A function as it was: its definition and type, the thunk with which it is called, and how
    arguments are written and the result is read; no thunk where that takes more."""

    symbol: Symbol
    image: Image
    info: object
    thunk: Thunk | None
    kinds: frozenset[tuple[type, ...]]
    write: struct.Struct
    result: struct.Struct
    gives: Callable[[int], Any] | None


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
        value = Caller(self._core).call(name, arguments)
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
            packed = known.write.pack(*arguments)
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
        function, unsigned = symbol.info.function, False
        types = tuple(map(core.program.layouts.text, function.parameters))
        thunk = core.engine.thunks.known(symbol.info, types)
        if core.has_prototypes:
            said = core.prototypes.of(name)
            if said.parameters is not None or not core.prototypes.is_settled(name):
                thunk = None
            unsigned = said.result is not None and said.result.code[:1] == "u"
        offsets: Sequence[int] = ()
        if thunk is not None and thunk.arguments is not None:
            offsets = [member.offset for member in thunk.arguments.members]
        found = scalars(function, offsets, Pointer, unsigned) if thunk is not None else None
        nothing = struct.Struct("")
        if found is None:
            self._known[name] = _Known(
                symbol, symbol.image, symbol.info, None, frozenset(), nothing, nothing, None
            )
            return
        self._known[name] = _Known(
            symbol, symbol.image, symbol.info, thunk, found.kinds,
            struct.Struct("<" + found.layout), struct.Struct("<" + found.result),
            self._pointer if found.result == "Q" and not unsigned else None,
        )  # fmt: skip
