"""All that some names of a session need: modules, objects of other compilers, values of variables.

Start from `gather`.  What cells define and others define by now gives way, as in the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitkernel.compiler.records import Options, Part
from jitkernel.elf import read_object
from jitkernel.errors import LinkError, TypeMismatch, UsageError
from jitkernel.ir.module import global_values
from jitkernel.ir.names import CONTROL, bare
from jitkernel.languages.llvm.assignment import ASSIGNED
from jitkernel.linker import SymbolState
from jitkernel.linker.layout import read_names
from jitkernel.linker.retargeting import stale_symbols
from jitkernel.portable.constructors import CONSTRUCTORS, mentions, without_constructors
from jitkernel.portable.values import OURS, PresentValues
from jitkernel.session.program.signatures import Signature, Variable
from jitkernel.session.saved.store import LINKED
from jitkernel.session.settings import CellOptions, options_for, stored_options

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Prototype
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program

__all__ = ["Gathered", "ExportSource", "cells_of", "gather"]


@dataclass(frozen=True, slots=True)
class ExportSource:
    """The place that functions leave from: a session's program, and what compiles it.

    `prototype` says what their language sees in them, where that is more than IR tells.
    """

    program: Program
    engine: Engine
    prototype: Callable[[str], Prototype]


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that the names `exports` need: modules, and objects of other compilers by label with what
    each of them owns.  `seen` are the names of modules that objects refer to, besides.

    `variables` are those that come along and can be written, `present` those of them that begin
    with the values that they have now.
    """

    exports: dict[str, Signature | Variable]
    cells: tuple[int, ...]
    parts: tuple[Part, ...]
    objects: tuple[tuple[str, bytes, frozenset[str]], ...]
    seen: frozenset[str]
    variables: tuple[str, ...]
    present: tuple[str, ...]
    options: Options


def gather(
    home: ExportSource,
    names: Iterable[str],
    present: bool,
    cpu: str = "",
    more: Iterable[str] = (),
) -> Gathered:
    """Collect what some functions and variables of a session need.

    `present`: variables begin with the values that they have now; otherwise only those do that
    have no other (`@r = @f(3)`).  `more` are names that are needed besides.  Raises UsageError for
    a name that no cell defines, and where a variable's value cannot leave.
    """
    return _Gathering(home, names, present, cpu, more).run()


def cells_of(home: ExportSource, names: Iterable[str]) -> list[Cell]:
    """The cells that have the code of names and of what they refer to, by number."""
    found = _Gathering(home, names, False, "", ())
    found.take_all()
    return found.cells


class _Gathering:
    def __init__(
        self, home: ExportSource, names: Iterable[str], present: bool, cpu: str, more: Iterable[str]
    ):
        self._program, self._engine, self._present = home.program, home.engine, present
        self._exports = {name: self._known(name) for name in dict.fromkeys(map(bare, names))}
        if not self._exports:
            raise UsageError("export what? The name of a function: @f")
        self._cells: dict[int, Cell] = {}
        self._roots = set(self._exports) | set(more)
        engine = home.engine
        options = options_for(CellOptions(cpu=cpu), engine.settings, engine.arena)
        self._options = options._replace(reloc="pic", closed=False, internal=True, passes="")
        self._values = PresentValues(self._program, engine.arena)

    def _known(self, name: str) -> Signature | Variable:
        symbol = self._program.symbol(name)
        if symbol is None or symbol.state is not SymbolState.DEFINED or symbol.image is None:
            why = "no cell defines it"
            if symbol is not None and symbol.state is SymbolState.FAR:
                why = "it is a library's"
            elif self._program.symbol(CONTROL + name) is not None:
                why = "it is thread-local; functions that use it can"
            raise UsageError(f"{self._program.called(name)} cannot leave: {why}")
        if symbol.info is None:
            called = self._program.called(name)
            raise UsageError(
                f"{called} cannot leave: nobody has declared its type; a cell that declares it does"
            )
        return symbol.info  # type: ignore[no-any-return]

    def take_all(self) -> None:
        """Find the cells of all that is asked for."""
        self._take(self._roots)

    @property
    def cells(self) -> list[Cell]:
        """Those that were found."""
        return [cell for _, cell in sorted(self._cells.items())]

    def run(self) -> Gathered:
        self.take_all()
        pool, values = self._engine.pool, self._values
        while True:
            parts, objects, seen = self._parts(), self._objects(), frozenset[str]()
            if objects:
                seen = self._asked(objects)
            roots = {*self._roots, *seen, *values.mentioned}
            (text,) = pool.merged(
                [*parts, *self._value_parts()], self._options, roots, ("text",)
            ) if parts else (b"",)  # fmt: skip
            writable = self._writable(text.decode("utf-8", "surrogateescape"))
            wanted = [n for n in writable if self._present or self._assigned(n)]
            new = [n for n in wanted if n not in values]
            for name in new:
                values.add(name)
            before = len(self._cells)
            self._take(values.mentioned)
            if not new and len(self._cells) == before:
                break
        return Gathered(
            self._exports, tuple(sorted(self._cells)), (*parts, *self._value_parts()),
            objects, seen, tuple(map(_plain, writable)), tuple(map(_plain, wanted)), self._options,
        )  # fmt: skip

    # -- which cells -----------------------------------------------------------------------------

    def _take(self, names: Iterable[str]) -> None:
        """The cells that define names, and those whose names they use in turn."""
        symbols = self._program.linker.symbols
        todo = [symbols[n] for n in names if n in symbols]
        while todo:
            symbol = todo.pop()
            if symbol.state is not SymbolState.DEFINED:
                continue
            cell = self._program.cell_of(symbol)
            if cell is None or cell.image is None or cell.number in self._cells:
                continue
            self._cells[cell.number] = cell
            if stale_symbols(self._program.linker, cell.image):
                raise TypeMismatch(
                    f"cell {cell.number} uses something whose type has changed since; run it again"
                )
            todo += cell.image.refs

    def _owned(self, cell: Cell) -> frozenset[str]:
        return frozenset(cell.names) - {name for name, *_ in cell.extras}

    def _parts(self) -> list[Part]:
        parts = []
        done = self._constructed()
        for number, cell in sorted(self._cells.items()):
            record = self._program.store.get(number)
            if record is None:
                raise LinkError(f"the code of cell {number} is gone: run it again")
            if record.is_linked:
                continue
            owned = self._owned(cell) - self._values.names
            owned = frozenset(name.removeprefix(CONTROL) for name in owned)  # as modules have them
            source = done(cell, record.module)
            parts.append(
                Part(
                    source, stored_options(record), owned, frozenset(record.nobuiltin),
                    record.first_line, self._values.renamed(cell) if self._present else (),
                )
            )  # fmt: skip
        return parts

    def _constructed(self) -> Callable[[Cell, str], str]:
        """A function that gives a cell's module without the constructors whose work is in values
        that leave with their variables."""
        store, values = self._program.store, self._values.names
        records = map(store.get, self._cells) if values else ()
        sources = [r.module for r in records if r is not None and not r.is_linked]
        if not any(CONSTRUCTORS in source for source in sources):
            return lambda cell, source: source
        called = mentions(sources)

        def done(cell: Cell, source: str) -> str:
            own = dict(self._values.renamed(cell)) if self._present else {}
            return without_constructors(source, called, lambda n: own.get(n, n) in values)

        return done

    def _value_parts(self) -> list[Part]:
        text = self._values.text()
        return [Part(text, Options(), self._values.names)] if text else []

    def _objects(self) -> tuple[tuple[str, bytes, frozenset[str]], ...]:
        found = []
        for number, cell in sorted(self._cells.items()):
            record = self._program.store.get(number)
            if record is not None and record.is_linked:
                label = record.source.removeprefix(LINKED)
                found.append((label, record.object, self._owned(cell)))
        return tuple(found)

    @staticmethod
    def _asked(objects: Sequence[tuple[str, bytes, frozenset[str]]]) -> frozenset[str]:
        """The names that objects of other compilers want from others."""
        found: set[str] = set()
        for _, data, owned in objects:
            names = read_names(read_object(data))
            found.update(name for _, name, _ in names.imports)
            found.update(e.name for e in names.exports if e.name not in owned)
        return frozenset({*found, *(name.removeprefix(CONTROL) for name in found)})

    # -- which variables -------------------------------------------------------------------------

    def _writable(self, text: str) -> list[str]:
        """The variables of the session that a module has and that can be written."""
        names = [v.name for v in global_values(text) if v.kind == "global"]
        names += [n for n, info in self._exports.items() if isinstance(info, Variable)]
        return [
            n for n in dict.fromkeys(names)
            if not n.startswith(OURS) and (n in self._values or self._values.has(n))
        ]  # fmt: skip

    def _place(self, name: str) -> Cell | None:
        symbol = self._program.symbol(name)
        return self._program.cell_of(symbol) if symbol is not None else None

    def _assigned(self, name: str) -> bool:
        """True if a variable has no first value but what a statement has given it."""
        cell = self._place(name)
        if cell is None:
            return False
        if any(extra == name for extra, *_ in cell.extras):
            return True
        record = self._program.store.get(cell.number)
        return record is not None and record.source.endswith(ASSIGNED)


def _plain(name: str) -> str:
    """A name as the user knows it."""
    return name.partition(OURS)[0]
