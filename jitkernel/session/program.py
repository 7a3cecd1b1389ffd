"""The cells that are in memory and how one takes another's place.  Start from `Program`.

Here a cell is replaced, superseded, evicted and brought back.  Nothing here compiles or runs code:
what must run (constructors, destructors) is called through functions given by the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from jitkernel.compiler import Compiled, FunctionInfo, Summary
from jitkernel.errors import EvictError, LinkError, TypeMismatch
from jitkernel.linker import Block, Image, Linker, Symbol, SymbolKind, SymbolState
from jitkernel.linker.layout import group_members, same_places
from jitkernel.session.cell import Cell, CellState
from jitkernel.session.change import Change, Removed
from jitkernel.session.libraries import LibraryNames
from jitkernel.session.signatures import Signature, Variable, same_type, signature_of, variable_of
from jitkernel.session.store import Record, Store

__all__ = ["Program"]

P = ParamSpec("P")
R = TypeVar("R")

_WEAK = frozenset(
    (
        "weak",
        "weak_odr",
        "weak_any",
        "linkonce",
        "linkonce_odr",
        "linkonce_any",
        "common",
        "extern_weak",
    )
)


def _written(method: Callable[Concatenate[Program, P], R]) -> Callable[Concatenate[Program, P], R]:
    """A method that writes text which is already known to others."""

    @wraps(method)
    def run(self: Program, *arguments: P.args, **named: P.kwargs) -> R:
        with self._writing():
            return method(self, *arguments, **named)

    return run


class Program:
    """All cells by number, and the linker that holds them together.

    Invariant: every image in the linker is that of a cell here, or one of the session's thunks.
    """

    def __init__(
        self,
        linker: Linker,
        store: Store,
        writing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        self.linker = linker
        self._writing = writing  # what text is written under
        self.store = store
        self.cells: dict[int, Cell] = {}
        self.by_id: dict[str, int] = {}
        self.types: dict[str, str] = {}
        self.running: Image | None = None
        self.libraries = LibraryNames()
        # By cell: what `__dso_handle` was in it before its object was linked again.
        self.handles: dict[int, tuple[int, ...]] = {}
        # What cells declared and did not use: the object does not mention it.
        self.declared: dict[str, Signature | Variable] = {}

    # -- looking -------------------------------------------------------------------------------

    def symbol(self, name: str) -> Symbol | None:
        """The symbol called `name`, defined or not."""
        return self.linker.symbols.get(name)

    def users(self, symbol: Symbol, apart: Iterable[Cell | None] = ()) -> list[int]:
        """Numbers of the cells that refer to a symbol, except those `apart`."""
        skip = {c.number for c in apart if c is not None}
        return sorted({i.cell for i in symbol.users or () if i.cell and i.cell not in skip})

    def cell_of(self, symbol: Symbol) -> Cell | None:
        """The cell that defines a symbol now."""
        return self.cells.get(symbol.image.cell) if symbol.image is not None else None

    # -- signatures ----------------------------------------------------------------------------

    def check_types(self, summary: Summary, cell: Cell, old: Cell | None) -> list[str]:
        """Refuse a module that disagrees with the session on a type.

        The names whose definition changes its type although others use the old one: the caller
        refuses those too, or retypes them.  Raises TypeMismatch for everything else.
        """
        symbols, types = self.linker.symbols, summary.types
        changed: list[str] = []
        for f in summary.functions:
            symbol = symbols.get(f.name)
            if symbol is not None and symbol.info is not None:
                self._compare(symbol, signature_of(f, types), f.defined, cell, old, changed)
            if f.defined and f.name not in changed:
                for _, info in self.libraries.users(f.name, (old, cell)):
                    if not info.same(signature_of(f, types)):
                        changed.append(f.name)
                        break
        for v in summary.variables:
            symbol = symbols.get(v.name)
            if symbol is None or symbol.info is None:
                continue
            self._compare(symbol, variable_of(v, types), v.defined, cell, old, changed)
        for call in summary.calls:
            symbol = symbols.get(call.callee)
            if symbol is not None and symbol.state == SymbolState.DEFINED:
                raise TypeMismatch(
                    f"line {call.line}: @{call.callee} is called as {call.type}, but it is "
                    f"{symbol.info}; the call would read its arguments wrongly"
                )
        return changed

    def _compare(
        self,
        symbol: Symbol,
        new: Signature | Variable,
        defined: bool,
        cell: Cell,
        old: Cell | None,
        changed: list[str],
    ) -> None:
        known = symbol.info
        if known is new or same_type(known, new):
            return
        if defined:
            provider = self.cell_of(symbol)
            if self.users(symbol, (provider, old, cell)):
                changed.append(symbol.name)
            return
        if symbol.state == SymbolState.FAR or symbol.state == SymbolState.FIXED:
            return
        if not self.users(symbol, (old,)) and symbol.state != SymbolState.DEFINED:
            return
        owner = self.cell_of(symbol)
        if owner is not None and owner is old:
            return
        by = f"cell {owner.number} defines it as" if owner else "earlier cells declare it as"
        raise TypeMismatch(f"@{symbol.name} is declared here as {new}, but {by} {known}")

    def refuse_change(self, names: Sequence[str], summary: Summary, old: Cell | None) -> None:
        """Raise the TypeMismatch that names who relies on the old types."""
        types = summary.types
        news = {f.name: str(signature_of(f, types)) for f in summary.functions}
        news |= {v.name: str(variable_of(v, types)) for v in summary.variables}
        lines = []
        for name in names:
            symbol = self.linker.symbols.get(name)
            library = dict(self.libraries.users(name, (old,)))
            known = symbol.info if symbol is not None else next(iter(library.values()))
            users = self.users(symbol, (self.cell_of(symbol), old)) if symbol is not None else []
            cells = sorted({*users, *library})
            lines.append(
                f"@{name} is {known} and would become {news[name]}, but "
                f"{_cells(cells)} {'uses' if len(cells) == 1 else 'use'} it as it is"
            )
        raise TypeMismatch(
            "\n".join(lines)
            + "\nNothing was changed. Run this cell with %%llvm --retype (the users then "
            f"raise TypeMismatch until they are run again), or %evict @{names[0]} --cascade first"
        )

    # -- placing -------------------------------------------------------------------------------

    @_written
    def place(
        self,
        cell: Cell,
        compiled: Compiled,
        change: Change,
        *,
        keep_data: bool = False,
        retype: Sequence[str] = (),
        aligned: Mapping[str, int] | None = None,
    ) -> Image:
        """Link a compiled cell in and move what it redefines; raises with nothing changed."""
        linker, summary = self.linker, compiled.summary
        symbols = linker.symbols
        old = self.cells.get(self.by_id.get(cell.cell_id, 0)) if cell.cell_id else None
        kinds: dict[str, str] = {}
        weak: list[str] = []
        pins: dict[str, int] = {}
        known: list[tuple[str, Any]] = []
        types = summary.types
        for f in summary.functions:
            if not f.defined:
                kinds[f.name] = "function"
            elif f.linkage in _WEAK:
                weak.append(f.name)
            known.append((f.name, signature_of(f, types)))
        for v in summary.variables:
            info = variable_of(v, types)
            known.append((v.name, info))
            if not v.defined:
                kinds[v.name] = "variable"
                continue
            if v.linkage in _WEAK:
                weak.append(v.name)
            symbol = symbols.get(v.name)
            if symbol is not None and symbol.state == SymbolState.DEFINED and not info.constant:
                was = symbol.info
                if isinstance(was, Variable) and was.same(info) and not was.constant:
                    # Its new users may rely on an alignment that the old place does not have.
                    if not symbol.address % ((aligned or {}).get(v.name) or 1):
                        pins[v.name] = symbol.address
        if old is not None:
            owned = set(old.names)
            weak = [n for n in weak if n not in owned]
        before = {
            n: (s.image.cell if s.image is not None else 0, s.info)
            for n, _ in known
            if (s := symbols.get(n)) is not None
        }
        owned_before = {
            number: frozenset(self.cells[number].names)
            for number, _ in before.values()
            if number in self.cells
        }
        if old is not None:
            owned_before[old.number] = frozenset(old.names)
        arena = linker.arena
        kept = [(at, arena.read(at, symbols[n].size)) for n, at in pins.items()]
        try:
            image = linker.place(
                compiled.object, cell.number, kinds=kinds,
                weak=frozenset(weak) if known else None, pins=pins or None,
                # Groups that only this cell provided so far are its own to redefine.
                takeover=frozenset(old.image.groups if old and old.image else ()),
            )  # fmt: skip
        except BaseException:
            for at, data in kept:
                arena.write(at, data)
            raise
        if keep_data:
            for at, data in kept:
                arena.write(at, data)
        cell.image = image
        self.cells[cell.number] = cell
        change.added = cell
        change.replaced = old.number if old is not None else 0
        exported = {s.name for s, _, _ in image.exports}
        cell.libraries = self._taken_from_libraries(summary)
        self.libraries.add(cell)
        for name in retype:
            if name not in before:
                continue
            self._retype(symbols[name], image, before[name], change)
        for name, info in known:
            symbol = symbols.get(name)
            if symbol is None:
                self.declared[name] = info
                continue
            if name in exported:
                change.moved[name] = before.get(name, (0, None))
                symbol.info = info
            elif symbol.info is None:
                symbol.info = info
        for name in exported.difference(change.moved):
            change.moved[name] = before.get(name, (0, None))
        self._learn_types(types, cell, change)
        for number in {n for n, _ in change.moved.values()} | ({old.number} if old else set()):
            other = self.cells.get(number)
            if other is not None and other is not cell:
                self._retire(other, cell, old, owned_before.get(number, frozenset()), change)
        if not image.exports and image.text is None and not image.blocks:
            # Declarations alone: they are remembered, and nothing is in memory.
            linker.unlink(image)
            del self.cells[cell.number]
            self.libraries.drop(cell)
            cell.image = None
        elif cell.cell_id:
            self.by_id[cell.cell_id] = cell.number
        return image

    def _taken_from_libraries(self, summary: Summary) -> tuple[tuple[str, Signature], ...]:
        symbols, types = self.linker.symbols, summary.types
        return tuple(
            (f.name, signature_of(f, types))
            for f in summary.functions
            if not f.defined
            and (
                (s := symbols.get(f.name)) is None
                or s.state in (SymbolState.FAR, SymbolState.FIXED)
            )
        )

    @_written
    def retire(self, old: Cell, cell: Cell, change: Change) -> None:
        """`cell` takes the place of `old` in the notebook and defines nothing."""
        change.added, change.replaced = cell, old.number
        self._retire(old, cell, old, frozenset(old.names), change)

    def adopt(self, cell: Cell, change: Change) -> None:
        """Keep a cell that has data but no code."""
        self.cells[cell.number] = cell
        if change.added is None:
            change.added = cell
            change.replaced = self.by_id.get(cell.cell_id, 0) if cell.cell_id else 0
        if cell.cell_id:
            self.by_id[cell.cell_id] = cell.number

    def learn(self, symbol: Symbol, info: FunctionInfo, types: Mapping[str, str]) -> None:
        """Remember the type that a function was declared with."""
        symbol.info = signature_of(info, types)

    def _retire(
        self, other: Cell, cell: Cell, old: Cell | None, owned: frozenset[str], change: Change
    ) -> None:
        """Let go of a cell that has lost definitions, unless others still need the rest of it."""
        image = other.image
        if image is None:
            if other is old:
                change.leaving.append((other, owned))
            return
        remaining = other.exports
        if other is old:
            kept = self.linker.dependents(image)
            for symbol, others in kept.items():
                cells = sorted({i.cell for i in others})
                verb = "call" if symbol.is_function else "use"
                change.notes.append(
                    f"cell {cell.number} no longer defines @{symbol.name}; {_cells(cells)} still "
                    f"{verb}{'s' * (len(cells) == 1)} the old one. "
                    f"%evict @{symbol.name} --cascade removes them."
                )
            if kept:
                return
        elif remaining or not image.exports:
            return
        change.leaving.append((other, owned))

    def let_go(self, change: Change, finish: Callable[[Image], None]) -> None:
        """Take out the cells that a run has superseded, after their destructors."""
        leaving, change.leaving = change.leaving, []
        for cell, _ in leaving:
            if cell.image is not None:
                finish(cell.image)
        if leaving:
            with self._writing():
                for cell, owned in leaving:
                    self.remove(cell, CellState.SUPERSEDED, owned, change)

    def _retype(self, symbol: Symbol, new: Image, before: tuple[int, Any], change: Change) -> None:
        """Give the users of a symbol's old type a ghost of it, until they are run again.

        The ghost has the symbol's name but is in no table.  It takes the canonical entry with it:
        pointers to the old function that the program stored raise as well.  Nothing defines it,
        so a call raises and a variable is where nothing is mapped.
        """
        was = before[1]
        ghost = Symbol(symbol.name, symbol.kind)
        if isinstance(was, Signature):
            ghost.kind = SymbolKind.FUNCTION
        elif isinstance(was, Variable):
            ghost.kind = SymbolKind.DATA
        ghost.info = was
        ghost.why = f"@{symbol.name} was {was} when this cell was compiled; it is another type now"
        users = symbol.users or {}
        moving = [i for i in users if i is not new and i is not symbol.image and i.cell]
        if ghost.kind is SymbolKind.FUNCTION and symbol.stub:
            ghost.stub, symbol.stub = symbol.stub, 0
            self.linker.rebind(ghost, ghost.stub)
        self._haunt(symbol, ghost, moving)
        self.linker.hold(ghost)
        change.symbols.append(ghost)
        change.ghosts.append(ghost)
        if symbol.users or symbol.slot:
            self.linker.rebind(symbol, symbol.address)

    def _haunt(self, symbol: Symbol, ghost: Symbol, images: Iterable[Image]) -> None:
        """Make images refer to one symbol instead of another, a ghost of it or the other way."""
        users = symbol.users or {}
        images = [i for i in images if i in users]
        was = self.linker.bind.held_value(symbol.definition, ghost.stub or symbol.stub)
        for image in images:
            if ghost.users is None:
                ghost.users = {}
            ghost.users[image] = users.pop(image)
            image.refs = tuple(ghost if s is symbol else s for s in image.refs)
        symbol.users = users or None
        if images:
            self.linker.rebind(ghost, was)

    def ghost_of(self, image: Image) -> Symbol | None:
        """A variable of another type by now that an image still refers to."""
        symbols = self.linker.symbols
        for symbol in image.refs:
            if not symbol.is_function and symbols.get(symbol.name) is not symbol:
                return symbol
        return None

    def _learn_types(self, types: Mapping[str, str], cell: Cell, change: Change) -> None:
        for name, body in types.items():
            was = self.types.get(name)
            if was == body:
                continue
            if was is not None:
                cells = sorted(
                    {
                        c.number
                        for c in self.cells.values()
                        if c is not cell and c.image is not None and self._mentions(c, name)
                    }
                )
                if cells:
                    change.notes.append(
                        f"%{name} was {was} and is {body} now; {_cells(cells)} "
                        f"{'was' if len(cells) == 1 else 'were'} built with the old one"
                    )
            change.types[name] = was
            self.types[name] = body

    def _mentions(self, cell: Cell, name: str) -> bool:
        text = "%" + name
        return any(s.info is not None and text in s.info.shown for s in cell.exports)

    # -- leaving -------------------------------------------------------------------------------

    def remove(self, cell: Cell, state: CellState, owned: frozenset[str], change: Change) -> None:
        """Take a cell's image out; its data stays reserved for as long as `change` is kept."""
        image = cell.image
        for symbol in cell.exports:
            # Its entry and its type stay for as long as the cell may come back.
            change.moved.setdefault(symbol.name, (cell.number, symbol.info))
            change.symbols.append(symbol)
            self.linker.hold(symbol)
        held = (image.blocks if image is not None else ()) + cell.strings
        for block in held:
            block.holders += 1
        change.removed.append(
            Removed(
                cell, owned, _names(image), image.rodata if image else None,
                image.data if image else None, image.pins if image else (), held,
                cell.cell_id, _text(cell), image is not None,
                self._ghosts(image),
            )
        )  # fmt: skip
        for ghost in change.removed[-1].ghosts:
            self.linker.hold(ghost)
            change.symbols.append(ghost)
        if image is not None:
            self.linker.unlink(image)
        for block in cell.strings:
            self.linker.release_block(block)
        cell.image = None
        cell.state = state
        self.cells.pop(cell.number, None)
        self.libraries.drop(cell)
        if cell.cell_id and self.by_id.get(cell.cell_id) == cell.number:
            del self.by_id[cell.cell_id]

    def _ghosts(self, image: Image | None) -> tuple[Symbol, ...]:
        symbols = self.linker.symbols
        return tuple(
            s for s in (image.refs if image else ()) if s.name and symbols.get(s.name) is not s
        )

    def _bind_ghosts(self, image: Image, ghosts: Iterable[Symbol]) -> None:
        """An image that was linked again goes on referring to what it was compiled for."""
        for ghost in ghosts:
            symbol = self.linker.symbols.get(ghost.name)
            if symbol is not None:
                self._haunt(symbol, ghost, [image])

    def closure(self, cells: Sequence[Cell]) -> tuple[list[Cell], list[str]]:
        """`cells` with everything that depends on them, dependents first; and who those are."""
        leaving = {c.number for c in cells}
        while True:
            order, words = self._closure(cells, leaving)
            more = {c.number for c in order}
            if more <= leaving:
                return order, words
            leaving |= more  # who leaves inherits nothing

    def _closure(self, cells: Sequence[Cell], leaving: set[int]) -> tuple[list[Cell], list[str]]:
        order: list[Cell] = []
        seen: set[int] = set()
        words: list[str] = []
        named = {c.number for c in cells}

        def visit(cell: Cell) -> None:
            if cell.number in seen:
                return
            seen.add(cell.number)
            users = self.linker.dependents(cell.image) if cell.image is not None else {}
            inherited = self._inherited(cell, leaving) if users else frozenset()
            for symbol, images in users.items():
                if symbol.name in inherited:
                    continue
                for image in images:
                    user = self.cells.get(image.cell)
                    if user is None:
                        continue
                    if user.number not in named:
                        what = ", ".join("@" + n for n in user.names) or "its statements"
                        word = f"cell {user.number} ({what}) uses @{symbol.name}"
                        if word not in words:
                            words.append(word)
                    visit(user)
            order.append(cell)

        for cell in cells:
            visit(cell)
        return order, words

    def _inherited(self, cell: Cell, leaving: set[int]) -> frozenset[str]:
        """Names that another cell has a copy of, in a COMDAT group, and will provide."""
        copies = self.linker.copies
        groups = {
            group
            for group in (cell.image.groups if cell.image is not None else ())
            if any(i.cell in self.cells and i.cell not in leaving for i in copies.get(group, ()))
        }
        record = self.store.get(cell.number) if groups else None
        return group_members(record.object, groups) if record is not None else frozenset()

    def evict(
        self,
        cells: Sequence[Cell],
        change: Change,
        *,
        cascade: bool = False,
        force: bool = False,
        finish: Callable[[Image], None] | None = None,
    ) -> list[Cell]:
        """Take cells out; the cells that went.  Raises EvictError, with nothing changed."""
        everything, words = self.closure(cells)
        if words and not (cascade or force):
            what = ", ".join(f"cell {c.number}" for c in cells)
            shown = "\n".join(f"  {w}" for w in words[:10])
            more = f"\n  and {len(words) - 10} more" if len(words) > 10 else ""
            raise EvictError(
                f"{what} cannot be evicted, others use it:\n{shown}{more}\n"
                "Take them along with --cascade, or leave stubs that raise with --force",
                words,
            )
        going = list(cells) if force and not cascade else everything
        leaving = {c.number for c in going}
        for cell in going:
            if finish is not None and cell.image is not None:
                finish(cell.image)
        with self._writing():
            for cell in going:
                self._hand_over(cell, leaving)
            for cell in going:
                owned = frozenset(cell.names)
                for symbol in cell.exports:
                    symbol.why = f"cell {cell.number}, which defined it, was evicted"
                self.remove(cell, CellState.EVICTED, owned, change)
        return going

    def _hand_over(self, cell: Cell, leaving: set[int]) -> None:
        """COMDAT groups that a leaving cell provides pass to a cell that has a copy of them."""
        for group in cell.image.groups if cell.image is not None else ():
            for image in self.linker.copies.get(group, ()):
                heir = self.cells.get(image.cell)
                if heir is not None and heir.number not in leaving:
                    self.relink(heir, frozenset((group,)))
                    break

    def relink(self, cell: Cell, takeover: frozenset[str] = frozenset()) -> None:
        """Link a live cell's object again, its data where it is, with groups it did not provide."""
        record = self.store.get(cell.number)
        if record is None:
            raise LinkError(f"cell {cell.number} cannot be linked again: its object is gone")
        self._link_again(cell, record, frozenset(("data",)), takeover)

    def replace(self, cell: Cell, record: Record) -> None:
        """Give a live cell another object made from the same source; its variables stay."""
        was = self.store.get(cell.number)
        same = same_places(was.object, record.object) if was is not None else frozenset()
        self._link_again(cell, record, same)
        self.store.put(record)

    def _link_again(
        self,
        cell: Cell,
        record: Record,
        zones: frozenset[str],
        takeover: frozenset[str] = frozenset(),
    ) -> None:
        """Link an object in place of a live cell's image; `zones` are laid out as they were."""
        image = cell.image
        if image is None:
            return
        arena = self.linker.arena
        owned = frozenset(cell.names)
        blocks = {"data": image.data, "rodata": image.rodata}
        at = {z: b for z, b in blocks.items() if b is not None and z in zones}
        pins = dict(image.pins)
        kept: list[tuple[int, bytes]] = []
        anew = image.data is not None and "data" not in zones
        if anew:
            data = arena.zones["data"]
            for symbol, address, size in image.exports:
                if symbol.image is image and data.start <= address < data.stop:
                    pins[symbol.name] = address
                    kept.append((address, arena.read(address, size)))
        fresh = self._place_again(
            cell, record.object, cell.number, _names(image), owned, pins.items(), at,
            takeover | frozenset(image.groups), anew, image.text.start if image.text else 0,
        )  # fmt: skip
        for address, content in kept:
            arena.write(address, content)
        self._bind_ghosts(fresh, self._ghosts(image))
        for block in image.blocks:  # what the program may have pointers to
            if block not in fresh.blocks:
                block.holders += 1
                cell.strings += (block,)
        if image.dso:
            self.handles[cell.number] = (*self.handles.get(cell.number, ()), image.dso)
        self.linker.unlink(image)
        cell.image = fresh

    def extend(
        self, cell: Cell, name: str, info: Variable, data: bytes, align: int, change: Change
    ) -> bool:
        """Give a cell that is in memory one more variable; False where that takes a module."""
        image, known = cell.image, self.linker.symbols.get(name)
        if image is None:
            return False
        if known is not None:
            if known.is_function or known.state is not SymbolState.MISSING:
                return False
            if known.users and (known.info is None or not same_type(known.info, info)):
                return False
        arena = self.linker.arena
        block = Block(arena.reserve("data", max(len(data), 1), align))
        arena.write(block.extent.start, data)
        extra = (name, block.extent.start, len(data), block)
        self._add_extra(image, extra, True)
        block.holders -= 1  # the image's hold is the only one
        cell.extras += (extra,)
        self.linker.symbols[name].info = info
        change.moved.setdefault(name, (0, None))
        return True

    def _add_extra(self, image: Image, extra: tuple[str, int, int, Block], owned: bool) -> None:
        name, address, size, block = extra
        symbol = self.linker.symbols.get(name)
        if symbol is None:
            if not owned:
                return
            symbol = self.linker.symbols[name] = Symbol(name, SymbolKind.DATA)
        if owned:
            definition = (SymbolState.DEFINED, address, size, image, SymbolKind.DATA, "")
            self.linker.redefine(symbol, definition)
        image.exports += ((symbol, address, size),)
        image.adopted += (block,)
        block.holders += 1

    def _place_again(
        self,
        cell: Cell,
        object: bytes,
        number: int,
        names: Iterable[str],
        owned: frozenset[str],
        pins: Iterable[tuple[str, int]],
        at: Mapping[str, Block],
        takeover: frozenset[str] = frozenset(),
        write_data: bool = False,
        text_was: int = 0,
    ) -> Image:
        """Link an object where it has been before; only the names it owned are its own again."""
        symbols = self.linker.symbols
        others = {s: s.definition for n in names if n not in owned and (s := symbols.get(n))}
        image = self.linker.place(
            object, number, weak=frozenset(), pins=dict(pins) or None, at=at or None,
            write_data=write_data, takeover=takeover, text_was=text_was, missing=True,
        )  # fmt: skip
        for extra in cell.extras:
            self._add_extra(image, extra, extra[0] in owned)
        for symbol, was in others.items():
            self.linker.redefine(symbol, was)
        return image

    # -- coming back ---------------------------------------------------------------------------

    @_written
    def revert(self, change: Change) -> None:
        """Take a change back: what it removed returns to its addresses, what it added goes."""
        linker, symbols = self.linker, self.linker.symbols
        for removed in reversed(change.removed):
            cell = removed.cell
            for block in cell.strings:
                block.holders += 1
            cell.state = CellState.LIVE
            self.cells[cell.number] = cell
            self.libraries.add(cell)
            if removed.cell_id:
                cell.cell_id = removed.cell_id
                self.by_id[removed.cell_id] = cell.number
            if not removed.linked:
                continue
            record = self.store.get(cell.number)
            if record is None:
                raise LinkError(f"cell {cell.number} cannot come back: its object is gone")
            at = {
                z: b
                for z, b in (("data", removed.data), ("rodata", removed.rodata))
                if b is not None
            }
            cell.image = image = self._place_again(
                cell, record.object, cell.number, removed.names, removed.owned, removed.pins, at,
                text_was=removed.text[0],
            )  # fmt: skip
            self._bind_ghosts(image, removed.ghosts)
        self.cells = dict(sorted(self.cells.items())) if change.removed else self.cells
        for name, (owner, info) in change.moved.items():
            symbol = symbols.get(name)
            if symbol is None:
                continue
            if owner:
                symbol.info = info
                holder = self.cells.get(owner)
                owned = holder.image if holder is not None else None
                if owned is not None and symbol.image is not owned:
                    for other, address, size in owned.exports:
                        if other is symbol:
                            linker.redefine(
                                symbol, (SymbolState.DEFINED, address, size, owned, symbol.kind, "")
                            )
        for ghost in change.ghosts:
            self._lay(ghost)
        for name, body in change.types.items():
            if body is None:
                self.types.pop(name, None)
            else:
                self.types[name] = body
        added = change.added
        if added is not None and added.number in self.cells:
            if added.image is not None:
                linker.unlink(added.image)
            for block in added.strings:
                linker.release_block(block)
            added.strings = ()
            added.extras = ()
            added.image, added.state = None, CellState.EVICTED
            self.cells.pop(added.number, None)
            self.libraries.drop(added)
            if added.cell_id and self.by_id.get(added.cell_id) == added.number:
                del self.by_id[added.cell_id]
        if added is not None and added.cell_id and change.replaced in self.cells:
            self.by_id[added.cell_id] = change.replaced
        self.forget(change)

    def _lay(self, ghost: Symbol) -> None:
        """The symbol has the ghost's type again: its users and its entry return to it."""
        symbol = self.linker.symbols.get(ghost.name)
        if symbol is None:
            return
        images = list(ghost.users or ())
        if ghost.stub:
            fresh, symbol.stub = symbol.stub, ghost.stub
            ghost.stub = fresh  # of the other type's users, who are gone
            self.linker.rebind(symbol, fresh or symbol.address)
        self._haunt(ghost, symbol, images)

    def forget(self, change: Change) -> None:
        """Give up what was kept so that a change could be taken back."""
        for removed in change.removed:
            for block in removed.held:
                self.linker.release_block(block)
            if removed.cell.image is None:
                self.store.drop(removed.cell.number)
        change.removed = []
        for symbol in change.symbols:
            self.linker.unhold(symbol)
        change.symbols = []


def _text(cell: Cell) -> tuple[int, int, int, list[str]]:
    """Where a cell's text is, for naming pointers into it later."""
    image = cell.image
    if image is None or image.text is None:
        return 0, 0, cell.number, []
    names = [s.name for s, _, _ in image.exports if s.is_function]
    return image.text.start, image.text.size, cell.number, names


def _names(image: Image | None) -> tuple[str, ...]:
    return tuple(s.name for s, _, _ in image.exports) if image is not None else ()


def _cells(numbers: Sequence[int]) -> str:
    """`cell 5`, `cells 5, 8`, `cells 1, 2, 3 and 7 more`."""
    if len(numbers) == 1:
        return f"cell {numbers[0]}"
    shown = ", ".join(map(str, numbers[:8]))
    return f"cells {shown}" + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
