"""What a name means beyond the session, and who has it.  Start from `Resolver.look_up`.

A name leads to the session's current definition; else to the runtime's, where it has one; else to
what the executor's process has under it.  What nobody has is missing until somebody defines it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jitkernel.ir.names import CONTROL
from jitkernel.linker.binding import Bindings
from jitkernel.linker.records import Symbol, SymbolState
from jitkernel.rollback import RecordedDict

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState

#: What a name was found to be outside the session (FAR or FIXED) and where; None: nobody has it.
Found = tuple[SymbolState, int] | None


class Resolver:
    """The session's symbols by name, and the search for what they do not define.

    `process` finds addresses in the executor's process, 0 where unknown; it is asked once for each
    new name, never for a name that the session defines.
    """

    def __init__(
        self,
        bind: Bindings,
        process: Callable[[Sequence[str]], Sequence[int]],
        fixed: Mapping[str, int],
        interposed: Mapping[str, str],
    ):
        self.symbols: RecordedDict[str, Symbol] = RecordedDict()
        self._bind, self._process = bind, process
        self._fixed, self._interposed = fixed, interposed

    def fixed(self, name: str) -> int | None:
        """The address of what the runtime has under a name."""
        return self._fixed.get(self._interposed.get(name, name))

    def look_up(self, names: Sequence[str]) -> list[Found]:
        """Look up what the runtime or the process has under names."""
        found: list[Found] = []
        ask: list[int] = []
        for index, name in enumerate(names):
            fixed = self.fixed(name)
            found.append(None if fixed is None else (FIXED, fixed))
            # No library has a name that is not UTF-8.
            if fixed is None and name.encode("utf-8", "ignore").decode() == name:
                ask.append(index)
        if ask:
            addresses = self._process([names[index] for index in ask])
            for index, address in zip(ask, addresses, strict=True):
                if address:
                    found[index] = FAR, address
        return found

    def find(self, symbols: Sequence[Symbol]) -> list[Symbol]:
        """Give missing symbols the addresses that the runtime or the process has; those found.

        Their users are not written: see `Bindings.rebind`.
        """
        found: list[Symbol] = []
        for symbol, where in zip(symbols, self.look_up([s.name for s in symbols]), strict=True):
            if where is not None:
                symbol.state, symbol.address = where
                found.append(symbol)
        return found

    def retry_missing(self) -> list[Symbol]:
        """Look up again what nobody defined (a library was loaded); the symbols found."""
        missing = [s for s in self.symbols.values() if s.state in (MISSING, NULL)]
        was = {s: self._bind.former_value(s.definition, s.stub) for s in missing}
        found = self.find(missing)
        for symbol in found:
            symbol.why = ""
            self._bind.rebind(symbol, was[symbol])
        return found

    def renew_far(self) -> list[str]:
        """Look all far symbols up again after the process was replaced; the names that are gone.

        Thread-local variables begin with their initial values.
        """
        far = [s for s in self.symbols.values() if s.state is FAR]
        lost: list[str] = []
        addresses = self._process([s.name for s in far]) if far else ()
        for symbol, address in zip(far, addresses, strict=True):
            was = self._bind.former_value(symbol.definition, symbol.stub)
            moved = symbol.address != address
            symbol.address = address
            if not address:
                symbol.state = MISSING
                lost.append(symbol.name)
            if moved:
                self._bind.write_far_slot(symbol)
                self._bind.rebind(symbol, was)
        for symbol in self.symbols.values():
            if symbol.name.startswith(CONTROL) and symbol.state is DEFINED:
                # its third word is libgcc's own, and of a process that is gone
                self._bind.arena.write(symbol.address + 16, bytes(8))
        return lost

    def drop_if_unused(self, symbol: Symbol) -> None:
        """Forget a symbol that nobody defines or uses; free its stub and slots."""
        if symbol.users or symbol.held or symbol.state in (DEFINED, FAR, FIXED):
            return
        if self.symbols.get(symbol.name) is symbol:
            del self.symbols[symbol.name]
        self._bind.free(symbol)
