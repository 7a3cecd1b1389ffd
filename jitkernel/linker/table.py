"""Which symbol a name means, and who has it.  Start from `SymbolTable`.

A name leads to the session's current definition; else to the runtime's, where it has one; else to
what the executor's process has under it.  What nobody has is missing until somebody defines it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jitkernel.linker.binding import Bindings
from jitkernel.linker.symbols import Symbol, SymbolState
from jitkernel.rollback import RecordedDict

__all__ = ["SymbolTable"]

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState


class SymbolTable:
    """The session's symbols by name.

    `lookup` finds addresses in the executor's process, 0 where unknown; it is asked once for each
    new name, never for a name that the session defines.
    """

    def __init__(
        self,
        bind: Bindings,
        lookup: Callable[[Sequence[str]], Sequence[int]],
        fixed: Mapping[str, int],
        interposed: Mapping[str, str],
    ):
        self.symbols: RecordedDict[str, Symbol] = RecordedDict()
        self._bind, self._lookup = bind, lookup
        self._fixed, self._interposed = fixed, interposed

    def fixed(self, name: str) -> int | None:
        """The address of what the runtime has under a name."""
        return self._fixed.get(self._interposed.get(name, name))

    def find(self, symbols: Sequence[Symbol]) -> list[Symbol]:
        """Give missing symbols the addresses that the runtime or the process has; those found.

        Their users are not written: see `Bindings.rebind`.
        """
        found: list[Symbol] = []
        ask: list[Symbol] = []
        for symbol in symbols:
            fixed = self.fixed(symbol.name)
            if fixed is None:
                if symbol.name.isascii() or _is_text(symbol.name):
                    ask.append(symbol)
            else:
                symbol.state, symbol.address = FIXED, fixed
                self._bind.note(symbol)
                found.append(symbol)
        if ask:
            addresses = self._lookup([s.name for s in ask])
            for symbol, address in zip(ask, addresses, strict=True):
                if address:
                    symbol.state, symbol.address = FAR, address
                    self._bind.note(symbol)
                    found.append(symbol)
        return found

    def retry_missing(self) -> list[Symbol]:
        """Look up again what nobody defined (a library was loaded); the symbols found."""
        missing = [s for s in self.symbols.values() if s.state in (MISSING, NULL)]
        was = {s: self._bind.held_value(s.definition, s.stub) for s in missing}
        found = self.find(missing)
        for symbol in found:
            symbol.why = ""
            self._bind.rebind(symbol, was[symbol])
        return found

    def renew_far(self) -> list[str]:
        """Look all far symbols up again after the process was replaced; the names that are gone."""
        far = [s for s in self.symbols.values() if s.state is FAR]
        lost: list[str] = []
        addresses = self._lookup([s.name for s in far]) if far else ()
        for symbol, address in zip(far, addresses, strict=True):
            was = self._bind.held_value(symbol.definition, symbol.stub)
            moved = symbol.address != address
            symbol.address = address
            if moved:
                self._bind.note(symbol)
            if not address:
                symbol.state = MISSING
                lost.append(symbol.name)
            if moved:
                self._bind.write_far_slot(symbol)
                self._bind.rebind(symbol, was)
        return lost

    def drop_if_unused(self, symbol: Symbol) -> None:
        """Forget a symbol that nobody defines or uses; free its stub and slots."""
        if symbol.users or symbol.held or symbol.state in (DEFINED, FAR, FIXED):
            return
        if self.symbols.get(symbol.name) is symbol:
            del self.symbols[symbol.name]
        self._bind.free(symbol)


def _is_text(name: str) -> bool:
    """Whether a name's bytes are UTF-8: no library has others."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
