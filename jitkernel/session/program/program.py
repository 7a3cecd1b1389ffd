"""The cells that are in memory and how one takes another's place.  Start from `Program`.

Here a cell is placed, replaced and superseded; `eviction`, `relinking` and `reverting` have the
rest of a life.  Nothing compiles or runs code: what must run (constructors, destructors) is called
through functions given by the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from sys import intern
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.records import Compiled, Summary
from jitkernel.elf.constants import STACK_MAPS
from jitkernel.errors import CompileError
from jitkernel.ir.module import global_values
from jitkernel.ir.names import CONTROL
from jitkernel.ir.signature import alignment
from jitkernel.languages import find
from jitkernel.languages.llvm.plan import LanguageNote, NoteKey, Plan, Said
from jitkernel.linker import Former, Image, Linker, Symbol, SymbolState
from jitkernel.linker.layout import ReadObject
from jitkernel.linker.records import NOWHERE, Export, held_text, holds, value_of
from jitkernel.linker.resolution import NEW
from jitkernel.linker.retargeting import Retargeting, stale_symbols
from jitkernel.printable import shortened
from jitkernel.record import record
from jitkernel.rollback import Recorded, RecordedDict, RecordedList
from jitkernel.session.program.cell import (
    Cell,
    CellState,
    Change,
    Definition,
    Version,
    cells_words,
)
from jitkernel.session.program.lending import Lender
from jitkernel.session.program.names import Uses, defined_types
from jitkernel.session.program.relinking import retype as split_off
from jitkernel.session.program.signatures import (
    Described,
    Signature,
    TypeLayouts,
    Variable,
    described,
    imports,
    same_type,
    variable_of,
)
from jitkernel.session.program.state import Kind, State
from jitkernel.session.saved.store import Store
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.arena import Extent
    from jitkernel.elf.stack_maps import StackMaps
    from jitkernel.session.engine import Engine

_WEAK = frozenset(
    "weak weak_odr weak_any linkonce linkonce_odr linkonce_any common extern_weak".split()
)
_NOBODYS = Definition()
_OF_LIBRARIES = (SymbolState.FAR, SymbolState.FIXED)


@record
class CellText:
    """The facts in a cell's text about its definitions that LLVM's summary has not.

    `known` are all its names, with their types, `module` is what was compiled of it; `plan` says
    which variables keep their values when they are defined again, and all do with `keep_data`.
    """

    known: Described
    module: str
    plan: Plan
    keep_data: bool

    def keeps(self, name: str) -> bool:
        """True if a variable that is defined again keeps its value."""
        return self.keep_data or name.removeprefix(CONTROL) in self.plan.keep


class Program(Recorded):
    """All cells by number, and the linker that holds them together.

    Invariant: every image in the linker is that of a cell here, or one of the session's thunks.
    """

    def __init__(self, linker: Linker, store: Store, engine: Engine):
        self.linker = linker
        self.world_stopped = engine.world_stopped  # text is written under that
        self.store = store
        self.speaks = "llvm"  # the language of the latest cell
        linker.bind.called = self.called
        self.cells: RecordedDict[int, Cell] = RecordedDict()
        self.lender = Lender(linker, store, self.cells)
        self.state = State()
        # By a notebook cell's id: the number of its first run, which stays whatever is taken back.
        self.positions: dict[str, int] = {}
        self.layouts = TypeLayouts(engine, self.state.types)
        self.running: tuple[Image, ...] = ()
        self.leaving: RecordedList[Cell] = RecordedList()  # see `let_go`
        # The last pieces of text that were freed, so that a stale pointer can be named: where they
        # began and ended, of which cell, and the functions that were there (no container).
        self.freed: deque[tuple[int, int, int, str]] = deque(maxlen=256)
        linker.on_unlink = self._freed
        self.data_cells = 0  # cells so far that had data and no code
        self.uses = Uses()
        # By cell: what `__dso_handle` was in it before its object was linked again.
        self.handles: RecordedDict[int, tuple[int, ...]] = RecordedDict()

    # -- looking -------------------------------------------------------------------------------

    def named(self, name: str) -> Symbol | None:
        """The name by which a user knows `name`: a symbol, or a thread-local variable by its
        control block."""
        symbols = self.linker.symbols
        symbol = symbols.get(name)
        if symbol is None or symbol.state is SymbolState.MISSING:
            return symbols.get(CONTROL + name) or symbol
        return symbol

    def called(self, name: str, cell: int | None = None) -> str:
        """A symbol as the user knows it: as the language of the cell writes it that defines it,
        or where that has none (a library, an object, nobody), the language of the latest cell.  A
        `cell` (0: none) may define it for itself alone."""
        if cell is None:
            cell = self.owner(name.removeprefix(CONTROL))
        language = self.state.notes.language_of(cell)
        if not language and self.speaks != "llvm" and not self._is_ir(cell):
            language = self.speaks
        return find(language or "llvm").called(name, self.state.notes.kept_of(cell))

    def _freed(self, image: Image) -> None:
        """The text of an image is about to be freed; threads may still be in it."""
        if (text := image.text) is not None:
            first, last = text.start, text.stop
            names = "\0".join(s.name for s, at, _ in image.exports if first <= at < last)
            self.freed.append((first, last, image.cell, names))

    def listed(self, names: Sequence[str]) -> str:
        """The first four of some names as the user knows them, and how many more there are."""
        return cut_list(list(map(self.called, names)), 4)

    def _is_ir(self, cell: int) -> bool:
        """True if a cell, which has left no notes, has IR of its own."""
        record = self.store.get(cell) if cell in self.cells else None
        return record is not None and not record.is_linked

    def users(self, symbol: Symbol, excluding: Iterable[Cell | None] = ()) -> list[int]:
        """Numbers of the cells that refer to a symbol, except those of `excluding`."""
        skip = {c.number for c in excluding if c is not None}
        return sorted({i.cell for i in symbol.users or () if i.cell and i.cell not in skip})

    def owner(self, name: str) -> int:
        """The number of the cell that defines what a user calls `name`, 0 for none."""
        symbol = self.named(name)
        return symbol.cell if symbol is not None else 0

    def images(self) -> list[Image]:
        """The images of cells, and of code that runs and is none's."""
        return [*self.running, *(c.image for c in self.cells.values() if c.image is not None)]

    def every_symbol(self) -> Iterator[Symbol]:
        """All of them, those of a type that has changed too, which only their users know."""
        known = self.linker.symbols
        yield from known.values()
        for image in self.images():
            yield from (symbol for symbol in image.refs if known.get(symbol.name) is not symbol)

    def stack_maps(self) -> Iterator[tuple[Extent | None, StackMaps]]:
        """The stack maps of the cells that are in memory, as they stand in the arena, and of former
        code that threads may still be in; with the extent of the code."""
        from jitkernel.elf.stack_maps import read_stack_maps  # few programs have any

        arena = self.linker.arena
        tables: list[tuple[Extent | None, int, int]] = [
            (cell.image.text, address, size)
            for _, cell in sorted(self.cells.items()) if cell.image is not None
            for symbol, address, size in cell.image.exports if symbol.name == STACK_MAPS
        ]  # fmt: skip
        departed = self.linker.departed.items()
        tables += [(text, *place) for text, place in departed if text in arena.deferred]
        for text, address, size in tables:
            yield text, read_stack_maps(arena.read(address, size))

    def check(self) -> None:
        """Prove the books of the linker and the notes, and that stack maps are of the code that
        their cells have.  Raises AssertionError."""
        self.linker.check()
        self.state.notes.check()
        for text, maps in self.stack_maps():
            for point in maps.records:
                begin, at = point.function.address, point.address
                if text is None or not text.start <= begin < at <= text.stop:
                    raise AssertionError(f"a stack map is of {at:#x}, which is not there")

    def holders(self, names: Iterable[str]) -> set[int]:
        """The numbers of the cells whose code has bodies or values of these names in it."""
        found: set[int] = set()
        for name in names:
            symbol = self.linker.symbols.get(name)
            for image, packed in (symbol.users or {}).items() if symbol is not None else ():
                if holds(packed):
                    found.add(image.cell)
        return found

    def outdated(self, numbers: Iterable[int]) -> list[int]:
        """Of these cells those that hold bodies or values which are no more what they were."""
        return sorted({n for n in numbers if n in self.cells and self._is_outdated(self.cells[n])})

    def _is_outdated(self, cell: Cell) -> bool:
        image, symbols = cell.image, self.linker.symbols
        if image is None:
            return False
        for symbol in image.refs:
            packed = symbol.users.get(image) if symbol.users is not None else None
            text = held_text(packed) if packed else None
            if text is None:
                continue
            if symbols.get(symbol.name) is not symbol or symbol.state is not SymbolState.DEFINED:
                return True
            if symbol.image is not image if not text else self.lender.number(symbol.name) != text:
                return True
        return False

    # -- placing -------------------------------------------------------------------------------

    def place(
        self,
        cell: Cell,
        compiled: Compiled,
        change: Change,
        text: CellText,
        *,
        retype: Sequence[str] = (),
        missing: bool = False,
        read: ReadObject | None = None,
    ) -> Image:
        """Link a compiled cell in and move what it redefines; raises with nothing changed.

        `retype` are names whose type changes under their users.  `missing` allows variables that
        nobody defines yet; `read` is the object, where somebody has read it.
        """
        with self.world_stopped:
            linker, summary, symbols = self.linker, compiled.summary, self.linker.symbols
            old = self.cells.get(self.state.ids.get(cell.cell_id, 0)) if cell.cell_id else None
            known, weak = text.known, set(summary.defined(_WEAK))
            kinds = imports(known)
            if old is not None:
                weak.difference_update(old.names)
            read = read or ReadObject.of(compiled.code)
            pins = self._pins(summary, text, read) if summary.variables else {}
            names = dict.fromkeys(map(itemgetter(0), known))
            names.update(dict.fromkeys(map(attrgetter("name"), read.names.exports)))
            there = names.keys() & symbols.keys()
            before = dict(zip(there, map(self.definition, there), strict=True))
            values = self._kept(text, pins) if pins else []
            groups = frozenset(old.image.groups if old and old.image else ())
            image = linker.place(
                read, cell.number, kinds=kinds, pins=pins,
                weak=frozenset(weak) if known else None,
                # Groups that only this cell provided so far are its own to redefine.
                former=Former(groups=groups) if groups else NEW, missing=missing,
            )  # fmt: skip
            for start, data in values:
                linker.arena.write(start, data)
            cell.image = image
            self.cells[cell.number] = cell
            self._arrives(cell, change)
            if taken := self._taken_from_libraries(known):
                cell.libraries = taken
            if summary.types:
                cell.types = tuple(map(intern, summary.types))
                cell.defines = tuple(filter(defined_types(text.module).__contains__, cell.types))
            if taken or cell.types:
                self.uses.add(cell)
            if retype:
                self._retype(image, retype, before, change)
            exports = image.exports
            self._learn(exports, known, kinds, before, change)
            if summary.types:
                self._learn_types(summary.types, cell, change, tell=not text.plan.notes)
            if not exports and image.text is None and not image.blocks:
                # Declarations alone: they are remembered, and only a cell of types is in memory.
                linker.unlink(image)
                self.uses.drop(cell)
                cell.image, cell.libraries = None, ()
                if defined_types(text.module) or text.plan.notes:
                    self.uses.add(cell)
                else:
                    del self.cells[cell.number]
            if cell.cell_id and cell.number in self.cells:
                self.name(cell.cell_id, cell.number, change)
            return image

    def supersede(self, cell: Cell, old: Cell | None, change: Change) -> None:
        """Let go of the cells that have lost to another one what it defines, `old`, whose place in
        the notebook it takes, among them; see `let_go`."""
        numbers = {old.number} if old else set()
        for (kind, _), was in change.before.items():
            if kind in ("name", "owner"):
                numbers.add(was.cell if kind == "name" else was)
        others = [*filter(None, map(self.cells.get, numbers - {cell.number}))]
        if not others:
            return
        with self.world_stopped:
            for other in others:
                self._retire(other, cell, old, change)

    def _join(self, cell: Cell, change: Change) -> None:
        """A cell without code is in memory from now on."""
        self.cells[cell.number] = cell
        self._arrives(cell, change)
        if cell.cell_id:
            self.name(cell.cell_id, cell.number, change)

    def _pins(self, summary: Summary, text: CellText, read: ReadObject) -> dict[str, int]:
        """The places of variables that a module defines again with the same type: they stay there,
        unless they are longer now, as a flexible array member may be (C11 6.7.2.1), or their
        section is asked for as a whole."""
        pins: dict[str, int] = {}
        whole = read.bounded()
        sizes = {export.name: export.size for export in read.names.exports}
        aligned = _alignments(text.module) if " align " in text.module else {}
        for v in summary.variables:
            symbol = self.linker.symbols.get(v.name) if v.defined else None
            if symbol is None or symbol.state != SymbolState.DEFINED:
                continue
            info, was = variable_of(v, summary.types), symbol.info
            if not isinstance(was, Variable) or was.constant or info.constant:
                continue
            if was.same(info) or v.name.removeprefix(CONTROL) in text.plan.unchanged:
                # New users may rely on an alignment that the old place does not have.
                fits = v.name not in whole and sizes.get(v.name, 0) <= symbol.size
                if fits and not symbol.address % (aligned.get(v.name) or 1):
                    pins[v.name] = symbol.address
        return pins

    def _kept(self, text: CellText, pins: Mapping[str, int]) -> list[tuple[int, bytes]]:
        """The values of variables that keep them, each with its place."""
        places = [
            value_of(name, at, self.linker.symbols[name].size)
            for name, at in pins.items()
            if text.keeps(name)
        ]
        return [(start, self.linker.arena.read(start, size)) for start, size in places]

    def _retype(
        self, image: Image, names: Sequence[str], before: Mapping[str, Definition], change: Change
    ) -> None:
        """Users of what an image defines with another type keep the version that they know."""
        with Retargeting(self.linker) as retargeting:
            for name in names:
                if name in before:
                    symbol, info = self.linker.symbols[name], before[name].info
                    split_off(retargeting, symbol, image, info, change, self.called(name))

    def _learn(
        self,
        exports: Sequence[Export],
        known: Sequence[tuple[str, Any, bool]],
        kinds: Mapping[str, str],
        before: Mapping[str, Definition],
        change: Change,
    ) -> None:
        """Remember what a module says of its names, and which of them it has moved."""
        symbols, exported = self.linker.symbols, set()
        for own, _, _ in exports:
            exported.add(own.name)
            change.before.setdefault(("name", own.name), before.get(own.name, _NOBODYS))
        untold = exported.copy()
        for name, info, _ in known:
            untold.discard(name)
            symbol = symbols.get(name)
            if name in kinds and (symbol is None or not (symbol.users or symbol.address)):
                self.state.put("declared", name, info)  # what nobody defines or uses may go
            if symbol is None:
                continue  # where it is not in `kinds`, it is the module's own: internal or private
            if name in exported:
                symbol.info = info
            elif symbol.info is None or (
                # Who took it for something else leaves now, or has left.
                symbol.state in NOWHERE and not same_type(symbol.info, info)
            ):
                change.before.setdefault(("taken", name), symbol.info)
                symbol.info = info
        for name in untold:
            if symbols[name].info is None and name in self.state.declared:
                symbols[name].info = self.state.declared[name]

    def _taken_from_libraries(self, known: Described) -> tuple[tuple[str, Signature], ...]:
        symbols, taken = self.linker.symbols, []
        for name, info, defined in known:
            symbol = symbols.get(name)
            if isinstance(info, Signature) and not defined:
                if symbol is None or symbol.state in _OF_LIBRARIES:
                    taken.append((name, info))
        return tuple(taken)

    def retire(self, old: Cell, cell: Cell, change: Change) -> None:
        """`cell` takes the place of `old` in the notebook and defines nothing."""
        with self.world_stopped:
            self._arrives(cell, change)
            self._retire(old, cell, old, change)

    def learn_notes(self, cell: Cell, notes: Said, change: Change) -> None:
        """Keep what a cell's language leaves for later ones; a cell may have nothing else."""
        if cell.number not in self.cells:
            self._join(cell, change)
        self.say(cell, notes, change)

    def say(self, cell: Cell, notes: Said, change: Change) -> None:
        """Have a cell's notes in place of those of their keys; what it says of notes of others is
        for those that are still there, or whose cells stand in the notebook."""
        said = self.state.notes
        new = notes.keys() - said.found.keys() - said.below.keys()
        others = {notes[key].cell for key in new} - {0}
        gone = others.difference(self.state.ids.values()) if others else others
        for key, note in notes.items():
            if key not in new or note.cell not in gone:
                owner = note.cell or cell.number
                self._say(key, note._replace(cell=owner) if note.kept else None, change)

    def _say(self, key: NoteKey, note: LanguageNote | None, change: Change) -> None:
        """Have a note, or none, of this key."""
        kind: Kind = "note" if isinstance(key, str) else "below"
        self.state.put(kind, key, note, change.before)

    def retype_cell(self, cell: Cell, summary: Summary, change: Change) -> None:
        """A live cell has been made anew: what it takes from libraries, and its types."""
        self.uses.drop(cell)
        cell.libraries = self._taken_from_libraries(described(summary))
        cell.types = tuple(map(intern, summary.types))
        self.uses.add(cell)
        if summary.types:
            self._learn_types(summary.types, cell, change, tell=False)

    def adopt(self, cell: Cell, change: Change) -> None:
        """Keep a cell that has data but no code."""
        self.data_cells += 1
        self._join(cell, change)

    def name(self, cell_id: str, number: int, change: Change) -> None:
        """A notebook cell is this cell from now on; 0: none."""
        self.state.put("id", cell_id, number, change.before)

    def position(self, cell: Cell) -> int:
        """A cell's place in the notebook: the number of the first run of that notebook cell."""
        if not cell.cell_id:
            return cell.number
        return self.positions.setdefault(cell.cell_id, cell.number)

    def _arrives(self, cell: Cell, change: Change) -> None:
        change.before.setdefault(("cell", cell.number), Version(cell))

    def _retire(self, other: Cell, cell: Cell, old: Cell | None, change: Change) -> None:
        """Let go of a cell that has lost definitions, unless others still need the rest of it."""
        image = other.image
        if image is None:
            if other is old or not (other.strings or self.state.defines(other)):
                self.leaving.append(other)
            return
        if other is old:
            kept = self.linker.dependents(image)
            for symbol, others in kept.items():
                cells = sorted({i.cell for i in others})
                verb = "call" if symbol.is_function else "use"
                change.notes.append(
                    f"cell {cell.number} no longer defines {self.called(symbol.name)}; "
                    f"{cells_words(cells)} still {verb}{'s' * (len(cells) == 1)} the old one. "
                    f"%evict {self.called(symbol.name)} --cascade removes them."
                )
            if kept:
                return
        elif not image.superseded:
            return
        self.leaving.append(other)

    def let_go(self, change: Change, finish: Callable[[Image], None]) -> None:
        """Take out the cells that a run has superseded, after their destructors."""
        leaving, self.leaving = self.leaving, RecordedList()
        for cell in leaving:
            if cell.image is not None:
                finish(cell.image)
        with self.world_stopped:
            for cell in leaving:
                self.remove(cell, CellState.SUPERSEDED, change)
        # The notebook cell was run again without them; who is superseded otherwise still stands in
        # the notebook with its types.
        again = {cell.cell_id for cell in change.arrived} - {None}
        self.forget_types([c for c in leaving if c.cell_id in again], change)

    def _learn_types(
        self, types: Mapping[str, str], cell: Cell, change: Change, tell: bool
    ) -> None:
        """Take a module's named types in; `tell` who uses one that is another type now."""
        known = {n: b for n, b in types.items() if b != "opaque" or n not in self.state.types}
        new = {n: body for n, body in known.items() if self.state.types.get(n) != body}
        for name in cell.defines:
            if name in known:
                self.state.put("owner", name, cell.number, change.before)
        users: dict[str, list[int]] = {}
        if tell and new.keys() & self.state.types.keys():
            for other in self.cells.values():
                if other is not cell and other.image is not None:
                    for name in new.keys() & other.types:
                        users.setdefault(name, []).append(other.number)
        for name, body in new.items():
            was = self.state.types.get(name)
            self.state.put("type", name, body, change.before)
            if was is not None and (cells := users.get(name)):
                change.notes.append(
                    f"%{name} was {shortened(was)} and is {shortened(body)} now; "
                    f"{cells_words(cells)} "
                    f"{'was' if len(cells) == 1 else 'were'} built with the old one"
                )

    def forget_types(self, gone: Iterable[Cell], change: Change) -> None:
        """Forget the named types of cells that left, those that no cell mentions any more, and
        their notes."""
        gone = list(gone)
        notes = self.state.notes
        keys = notes.unneeded(gone)
        for key in keys:
            self._say(key, None, change)
        for name, below in notes.again(keys).items():
            self._say(name, notes.below[below], change)
            self._say(below, None, change)
        for name in self.uses.unused_types(gone):
            if name in self.state.types:
                self.state.put("type", name, None, change.before)
            if name in self.state.owners:
                self.state.put("owner", name, 0, change.before)

    # -- leaving -------------------------------------------------------------------------------

    def remove(self, cell: Cell, state: CellState, change: Change, why: str = "") -> None:
        """Take a cell's image out; its data stays reserved for as long as `change` is kept.  Calls
        of what it defined raise `why`."""
        image = cell.image
        exports = cell.exports
        for symbol in exports:
            change.before.setdefault(("name", symbol.name), Definition(cell.number, symbol.info))
        self.keep_symbols(exports, change)  # entries and types, for as long as it may come back
        if image is not None and (image.fini or image.dso):
            change.affected(destroyed=(*change.effects.destroyed, cell.number))
        if ("cell", cell.number) not in change.before:  # else it came with the change
            was = self.version(cell, change)
            for block in was.held:
                self.linker.retain_block(block)
            self.keep_symbols(was.stale, change)
            change.before["cell", cell.number] = was
        if why:
            for symbol in exports:
                symbol.why = why
        if image is not None:
            asked = [symbol for symbol in image.refs if symbol.state is SymbolState.MISSING]
            self.abandon([*self.linker.unlink(image), *asked])
        for block in cell.strings:
            self.linker.release_block(block)
        cell.image = None
        cell.state = state
        self.cells.pop(cell.number, None)
        self.uses.drop(cell)
        for name in cell.defines:
            if self.state.owners.get(name) == cell.number:
                self.state.put("owner", name, 0, change.before)
        stands = state is CellState.SUPERSEDED and self.has_notes(cell.number)
        if cell.cell_id and self.state.ids.get(cell.cell_id) == cell.number:
            self.name(cell.cell_id, cell.number if stands else 0, change)

    def abandon(self, symbols: Iterable[Symbol]) -> None:
        """Nobody defines these now: the address of one is null where all who are left refer to it
        weakly.  gABI, "Symbol Table", STB_WEAK."""
        weak = cache(self._weak_names)
        for symbol in symbols:
            if symbol.users and all(symbol.name in weak(user.cell) for user in symbol.users):
                self.linker.redefine(symbol, (SymbolState.NULL, 0, 0, None, symbol.kind, ""))

    def _weak_names(self, number: int) -> frozenset[str]:
        """The names that a cell's object refers to weakly."""
        record = self.store.get(number)
        names = ReadObject.of(record.object).names.imports if record is not None else ()
        return frozenset(name for _, name, weak in names if weak)

    def has_notes(self, number: int) -> bool:
        """True if a cell has left notes: its text stands in the notebook, be its code gone."""
        return bool(self.state.notes.language_of(number))

    def version(self, cell: Cell, change: Change) -> Version:
        """A cell that is in memory as it was before a change."""
        image = cell.image
        if image is None:
            return Version(cell, True)
        text = image.text.start if image.text else 0
        # Its data may have the addresses of their entries.
        self.keep_symbols([s for s in image.refs if s.stub and s.state in NOWHERE], change)
        infos = {s.name: self._taken_for(s, change) for s in image.refs if s.name}
        return Version(cell, True, image, text, stale_symbols(self.linker, image), infos)

    def object_version(self, cell: Cell, change: Change) -> Version:
        """The same of a cell that stays and is about to have another object.  Raises
        CompileError."""
        record = self.store.get(cell.number)
        if record is None or cell.image is None:
            raise CompileError(f"cell {cell.number} cannot be made again: its source is gone")
        version = self.version(cell, change)
        own = {s.name: s.info for s in cell.exports if s.info is not None}
        infos, uses = {**version.infos, **own}, (cell.libraries, cell.types)
        return version._replace(infos=infos, record=record, uses=uses)

    def definition(self, name: str) -> Definition:
        """The present definition of a name."""
        symbol = self.linker.symbols.get(name)
        if symbol is None:
            return Definition()
        return Definition(symbol.cell, symbol.info, symbol.why)

    def keep_symbols(self, symbols: Iterable[Symbol], change: Change) -> None:
        """Keep symbols for as long as a change is."""
        for symbol in symbols:
            self.linker.retain_symbol(symbol)
            change.symbols.append(symbol)

    def _taken_for(self, symbol: Symbol, change: Change) -> Any:
        """The type that a cell which a change removes takes a symbol for: the one before the
        change."""
        if self.linker.symbols.get(symbol.name) is not symbol:
            return symbol.info  # a stale version has its own
        was = change.before.get(("name", symbol.name))
        if was is not None and was.info:
            return was.info
        return change.before.get(("taken", symbol.name)) or symbol.info


def _alignments(source: str) -> dict[str, int]:
    """The alignments that a module's variables ask for, by name."""
    values = global_values(source)
    found = {value.name: alignment(value.rest.rpartition('"')[2]) for value in values}
    return {name: align for name, align in found.items() if align}
