"""The bodies of earlier cells that LLVM may look into while it compiles a cell.

Start from `Lending.lend`.  What a cell names is lent, what that names, and so on, as long as it is
small.  What the object has taken of it the object says: see `compiler.inlining`, `Program.holders`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

from jitkernel.compiler.records import Lent, Options, Request
from jitkernel.ir.bodies import Bodies, Body
from jitkernel.ir.names import symbols_in
from jitkernel.linker import SymbolState
from jitkernel.linker.layout import ReadObject
from jitkernel.linker.records import holds
from jitkernel.recent import Recent
from jitkernel.record import NamedTuple
from jitkernel.session.settings import stored_options, stored_request

if TYPE_CHECKING:
    from jitkernel.linker import Image, Linker
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.saved.store import Record, Store

_MOST = 64  # bodies
_INSTRUCTIONS = 4000  # of all of them
_LARGEST_TEXT = 1 << 19  # characters of a module that is looked through
_KEPT = 128  # modules whose definitions are known
# Who defines a symbol again waits for the compiles of all cells that hold it.  Where those took
# longer together, the next cell calls it, or loads it.
_FEW, _LONGEST = 8, 60_000_000  # holders; nanoseconds


class Lender:
    """Knows the definitions of the cells that are in memory."""

    def __init__(self, linker: Linker, store: Store, cells: Mapping[int, Cell]):
        self._linker, self._store, self._cells = linker, store, cells
        self._known: Recent[Image, Module | None] = Recent(_KEPT)

    def stored(self, record: Record, own: frozenset[str] = frozenset()) -> Request:
        """The request for a stored cell, with the bodies that its object holds; of functions, `own`
        are the session's from now on, too, and no library's."""
        request = stored_request(record)
        request = request._replace(nobuiltin=request.nobuiltin | own) if own else request
        if not record.object or record.is_linked:
            return request
        read = ReadObject.of(record.object)
        if held := read.held():
            lending = Lending(self, own)
            request = lending.lend(request, None, record.number, only=held)
        near = read.near()
        return request._replace(near=near) if near else request

    def near(self, names: Iterable[str]) -> frozenset[str]:
        """Those of some symbols whose places are in the session's memory."""
        symbols, found = self._linker.symbols, set()
        for name in names:
            symbol = symbols.get(name)
            if symbol is not None and symbol.state is SymbolState.DEFINED:
                found.add(name)
        return frozenset(found)

    def find(self, name: str, changing: Container[int] = ()) -> tuple[Body, Module] | None:
        """The body of a symbol and the module that has it, unless its cell is `changing`; None
        where it may not be lent."""
        module, symbols = self._module(name, changing), self._linker.symbols
        body = module.bodies.get(name) if module is not None else None
        if module is None or body is None:
            return None
        image = symbols[name].image
        for symbol in image.refs if image is not None else ():
            if symbol.name in body.uses and symbols.get(symbol.name) is not symbol:
                return None  # it knows that as of another type
        return body, module

    def _module(self, name: str, changing: Container[int]) -> Module | None:
        symbol = self._linker.symbols.get(name)
        if symbol is None or symbol.state is not SymbolState.DEFINED or symbol.image is None:
            return None
        image = symbol.image
        if image.cell in changing:
            return None
        if image not in self._known:
            self._known[image] = self._read(image)
        return self._known[image]

    def number(self, name: str) -> int:
        """The number of the text that a symbol's body has now, 0 where none could be lent."""
        found = self.find(name)
        if found is None:
            return 0
        body, module = found
        placed = body.at(module.places()) if body.placed else body.text
        return _lent(body, placed, module.nobuiltin & body.uses).number if placed else 0

    def is_held_widely(self, name: str, cell: int) -> bool:
        """True if so many other cells hold a symbol that no more are to; a `cell` that holds it
        goes on to."""
        symbol = self._linker.symbols.get(name)
        users = symbol.users if symbol is not None else None
        if users is None or len(users) <= _FEW:
            return False
        held = {image.cell for image, packed in users.items() if holds(packed)}
        if len(held) <= _FEW or cell in held:
            return False
        cells = (self._cells.get(number) for number in held)
        return sum(sum(c.times[1:5]) for c in cells if c is not None) > _LONGEST

    def _read(self, image: Image) -> Module | None:
        record = self._store.get(image.cell) if image.cell else None
        if record is None or not 0 < len(record.module) <= _LARGEST_TEXT:
            return None
        if not _takes(stored_options(record)):
            return None
        read = partial(self._local_places, image, record.object)
        return Module(Bodies(record.module), frozenset(record.nobuiltin), cache(read))

    def _local_places(self, image: Image, object: bytes) -> dict[str, int]:
        """The addresses of an object's local variables and constants."""
        from jitkernel.linker.linkmap import read_symbols  # few bodies have any

        return {
            symbol.name: symbol.address for symbol in read_symbols(self._linker, image, object)
            if symbol.binding == "local" and symbol.kind == "object"
        }  # fmt: skip


class Module(NamedTuple):
    """A module that lends, what it takes for the session's own, and where its local variables and
    constants are."""

    bodies: Bodies
    nobuiltin: frozenset[str]
    places: Callable[[], Mapping[str, int]] = dict


class Lending:
    """Lends to the cells that one run compiles.  Modules that it is about to place are looked into
    instead of what they take the place of."""

    def __init__(self, lender: Lender, own: frozenset[str] = frozenset()):
        self._lender, self._own = lender, own
        self._expected: list[tuple[str, bool, frozenset[str]]] = []
        self._anew: dict[str, Module] = {}
        self._changing: set[int] = set()
        self._barred: set[str] = set()

    def expect(self, text: str, options: Options, nobuiltin: Iterable[str], cell: int = 0) -> None:
        """A module is about to be placed, in place of a `cell`'s (0: of none): what it defines is
        lent as it is there, or not at all."""
        if cell:
            self._changing.add(cell)
        self._expected.append((text, _takes(options), frozenset(nobuiltin)))

    def arrived(self) -> None:
        """All that was expected is there now."""
        self._expected.clear()
        self._anew.clear()
        self._changing.clear()

    def bar(self, cells: Iterable[int] = (), names: Iterable[str] = ()) -> None:
        """These cells lend nothing: they are about to be made anew otherwise; nor is any of these
        names lent."""
        self._changing.update(cells)
        self._barred.update(names)

    def lend(
        self,
        request: Request,
        names: Collection[str] | None = None,
        cell: int = 0,
        own: Container[str] | None = None,
        only: Container[str] | None = None,
        apart: Collection[str] = (),
    ) -> Request:
        """The request with the bodies that it may use: of `names`, which it mentions, and of what
        those use; but for its `own` definitions and those of a `cell`, and `only` some.  Of the
        names that it mentions it knows those `apart` as of another type than they are: neither they
        nor bodies that use them go with it.  Always in the same order: what LLVM makes of them
        depends on it."""
        if names is None:
            names = symbols_in(request.source)
        if not names:
            return request
        apart = frozenset(apart).intersection(names)
        near = self._lender.near(names)
        if not _takes(request.options):
            return request._replace(near=near)
        for text, lends, builtin in self._expected:  # most runs lend nothing to another cell
            bodies = Bodies(text)
            module = Module(bodies if lends else Bodies(""), builtin)
            self._anew.update(dict.fromkeys(bodies.names(), module))
        self._expected.clear()
        if own is None:
            own = Bodies(request.source).defined()
        found: dict[str, Lent] = {}
        nobuiltin: set[str] = set()
        todo, left = sorted(names), _INSTRUCTIONS
        seen = {*self._barred, *apart}
        while todo and len(found) < _MOST:
            later: list[str] = []
            for name in todo:
                if name in seen or name in own:
                    continue
                seen.add(name)
                there = self._find(name, cell)
                if there is None or there[0].size > left or len(found) >= _MOST:
                    continue
                body, known = there
                if apart and not apart.isdisjoint(body.uses):
                    continue
                if only is None and self._lender.is_held_widely(name, cell):
                    continue
                if only is not None and name not in only:
                    continue
                placed = body.at(known.places()) if body.placed else body.text
                if placed is None:
                    continue
                left -= body.size
                builtin = (known.nobuiltin | self._own) & body.uses
                found[name] = _lent(body, placed, builtin)
                nobuiltin |= builtin
                later += sorted(body.uses)
            todo = later
        if not found:
            return request._replace(near=near)
        return request._replace(
            bodies=tuple(found.values()), nobuiltin=request.nobuiltin | nobuiltin,
            near=near | self._lender.near(seen),
        )  # fmt: skip

    def _find(self, name: str, cell: int) -> tuple[Body, Module] | None:
        """A symbol's body, of a module that is about to be placed rather than of one that is
        there, and that module."""
        if (module := self._anew.get(name)) is None:
            return self._lender.find(name, {*self._changing, cell})
        body = module.bodies.get(name)
        return (body, module) if body is not None else None


def _takes(options: Options) -> bool:
    """True if code that is compiled so takes bodies from other cells, and gives them."""
    return bool(options.opt_level and options.inline) and not (options.passes or options.internal)


def _lent(body: Body, text: str, nobuiltin: frozenset[str]) -> Lent:
    from hashlib import sha256  # it loads OpenSSL

    builtin = tuple(sorted(nobuiltin))
    key = sha256("\0".join((text, *builtin)).encode("utf-8", "surrogateescape")).hexdigest()
    return Lent(key[:32], body.name, text, builtin, body.telling, body.null_is_valid)
