"""All that some names of a session need: modules, objects of other compilers, values of variables.

Start from `Gathering`.  What cells define and others define by now gives way, as in the session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jitkernel.compiler.records import Options, Part, Request
from jitkernel.elf import read_object
from jitkernel.errors import LinkError, TypeMismatch, UsageError
from jitkernel.ir.module import functions, global_values
from jitkernel.ir.names import CONTROL, bare, symbols_in
from jitkernel.ir.text import after_space, closing, split_at_commas, type_at
from jitkernel.languages.llvm.assignment import ASSIGNED
from jitkernel.linker import SymbolState
from jitkernel.linker.layout import read_names
from jitkernel.linker.retargeting import stale_symbols
from jitkernel.portable.values import OURS, PresentValues
from jitkernel.reach import reached
from jitkernel.session.program.signatures import Signature, Variable
from jitkernel.session.saved.store import LINKED, Record
from jitkernel.session.settings import CellOptions, options_for, stored_request

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Prototype
    from jitkernel.session.engine import Engine
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.program.program import Program

#: An appending array of `{ i32 priority, ptr function, ptr data }`: LLVM's Language Reference, "The
#: 'llvm.global_ctors' Global Variable".
_CONSTRUCTORS = "llvm.global_ctors"


class Declarations(Protocol):
    """The languages' view of names, where that is more than IR tells."""

    def declared(self, name: str) -> Prototype: ...


class ExportSource(Protocol):
    """The parts of a session's core that functions leave from."""

    program: Program
    engine: Engine

    @property
    def prototypes(self) -> Declarations: ...


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


class Gathering:
    """The need of some functions and variables of a session: `cells` are those that have the code
    of the names and of what they refer to, `run` collects all.

    `present`: variables begin with the values that they have now; otherwise only those do that
    have no other (`@r = @f(3)`).  `more` are names that are needed besides.  Raises UsageError for
    a name that no cell defines, and where a variable's value cannot leave.
    """

    def __init__(
        self,
        core: ExportSource,
        names: Iterable[str],
        present: bool = False,
        cpu: str = "",
        more: Iterable[str] = (),
    ):
        self._program, self._engine, self._present = core.program, core.engine, present
        self._exports = {name: self._known(name) for name in dict.fromkeys(map(bare, names))}
        if not self._exports:
            raise UsageError("export what? The name of a function: @f")
        self.cells: dict[int, Cell] = {}
        self._roots = set(self._exports) | set(more)
        engine = core.engine
        options = options_for(CellOptions(cpu=cpu), engine.settings, engine.arena)
        self._options = options._replace(reloc="pic", closed=False, internal=True, passes="")
        self._values = PresentValues(self._program, engine.arena)
        self._take(self._roots)

    def _known(self, name: str) -> Signature | Variable:
        symbol = self._program.linker.symbols.get(name)
        if symbol is None or symbol.state is not SymbolState.DEFINED or symbol.image is None:
            why = "no cell defines it"
            if symbol is not None and symbol.state is SymbolState.FAR:
                why = "it is a library's"
            elif self._program.linker.symbols.get(CONTROL + name) is not None:
                why = "it is thread-local; functions that use it can"
            raise UsageError(f"{self._program.called(name)} cannot leave: {why}")
        if symbol.info is None:
            called = self._program.called(name)
            raise UsageError(
                f"{called} cannot leave: nobody has declared its type; a cell that declares it does"
            )
        return symbol.info  # type: ignore[no-any-return]

    def run(self) -> Gathered:
        """All that they need."""
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
            before = len(self.cells)
            self._take(values.mentioned)
            if not new and len(self.cells) == before:
                break
        return Gathered(
            self._exports, tuple(sorted(self.cells)), (*parts, *self._value_parts()),
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
            cell = self._program.cells.get(symbol.cell)
            if cell is None or cell.image is None or cell.number in self.cells:
                continue
            self.cells[cell.number] = cell
            if stale_symbols(self._program.linker, cell.image):
                raise TypeMismatch(
                    f"cell {cell.number} uses something whose type has changed since; run it again"
                )
            todo += cell.image.refs

    def _owned(self, cell: Cell) -> frozenset[str]:
        return frozenset(cell.names) - {name for name, *_ in cell.extras}

    def _records(self, linked: bool) -> list[tuple[Cell, Record]]:
        """The cells that were compiled here, or those that were `linked`, with what is stored."""
        found = []
        for number, cell in sorted(self.cells.items()):
            record = self._program.store.get(number)
            if record is None:
                raise LinkError(f"the code of cell {number} is gone: run it again")
            if record.is_linked == linked:
                found.append((cell, record))
        return found

    def _parts(self) -> list[Part]:
        parts, records, values = [], self._records(linked=False), self._values.names
        sources = [record.module for _, record in records]
        # Without the constructors whose work is in values that leave with their variables.
        done = values and any(_CONSTRUCTORS in source for source in sources)
        called = _mentions(sources) if done else {}
        for cell, record in records:
            renamed, source = self._values.renamed(cell) if self._present else (), record.module
            if done:
                valued = {old for old, new in renamed if new in values}
                valued |= values - dict(renamed).keys()
                source = _without_constructors(source, called, valued)
            owned = self._owned(cell) - values
            owned = frozenset(name.removeprefix(CONTROL) for name in owned)  # as modules have them
            parts.append(Part(stored_request(record)._replace(source=source), owned, renamed))
        return parts

    def _value_parts(self) -> list[Part]:
        text = self._values.text()
        return [Part(Request(text), self._values.names)] if text else []

    def _objects(self) -> tuple[tuple[str, bytes, frozenset[str]], ...]:
        return tuple(
            (record.source.removeprefix(LINKED), record.object, self._owned(cell))
            for cell, record in self._records(linked=True)
        )

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

    def _assigned(self, name: str) -> bool:
        """True if a variable has no first value but what a statement has given it."""
        cell = self._program.cells.get(self._program.owner(name))
        if cell is None:
            return False
        if any(extra == name for extra, *_ in cell.extras):
            return True
        record = self._program.store.get(cell.number)
        return record is not None and record.source.endswith(ASSIGNED)


def _plain(name: str) -> str:
    """A name as the user knows it."""
    return name.partition(OURS)[0]


def _mentions(sources: Iterable[str]) -> dict[str, frozenset[str]]:
    """The symbols that each function of the modules mentions, by its name."""
    found: dict[str, frozenset[str]] = {}
    for source in sources:
        for function in functions(source, "define"):
            found[function.name] = found.get(function.name, frozenset()) | symbols_in(function.text)
    return found


def _without_constructors(
    source: str, called: Mapping[str, Collection[str]], valued: Collection[str]
) -> str:
    """A module's text without the constructors that reach a variable that is `valued`; `called` is
    what functions mention."""
    for found in global_values(source):
        if found.name != _CONSTRUCTORS or found.kind != "global":
            continue
        at = after_space(source, found.value)
        at = after_space(source, at + len(type_at(source, at)))
        end = closing(source, at) if source[at : at + 1] == "[" else -1
        if end < 0:
            continue
        entries = split_at_commas(source[at + 1 : end - 1])
        kept = [
            e for e in entries
            if not any(n in valued for n in reached(symbols_in(e), lambda n: called.get(n, ())))
        ]  # fmt: skip
        if len(kept) == len(entries):
            continue
        text = f"[{len(kept)} x {{ i32, ptr, ptr }}] [{', '.join(kept)}]"
        lines = "\n" * source.count("\n", found.start, end)
        head = source[found.start : found.value]
        return source[: found.start] + (f"{head} {text}" if kept else "") + lines + source[end:]
    return source
