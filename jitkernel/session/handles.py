"""What a session hands out: functions and variables by name, compiled cells, the table of names.

A handle by name follows redefinition and undo, works after a respawn, and raises once the symbol is
gone.  Start from `FunctionHandle` and `VariableHandle`, or from `SymbolTable`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from jitkernel.compiler.records import Compiled, Request
from jitkernel.errors import JitError, UnknownName, UsageError, WrongArgument
from jitkernel.ir.names import CONTROL
from jitkernel.languages.llvm.pythonic import PerInstance, annotation, parameter_names, signature_of
from jitkernel.languages.llvm.pythonic import signature as python_signature
from jitkernel.linker import Symbol as LinkedSymbol
from jitkernel.linker import SymbolState
from jitkernel.printable import shortened
from jitkernel.session.operation import checked, operation
from jitkernel.session.program.signatures import Signature, Variable
from jitkernel.session.run.host import SessionHost
from jitkernel.values.conversion import from_python, to_bytes
from jitkernel.values.datatype import DataType
from jitkernel.values.python import to_python
from jitkernel.values.value import TypedValue
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

    from numpy.typing import NDArray

    from jitkernel.session.array_types import ArraySignature
    from jitkernel.session.core import Core
    from jitkernel.session.session import Session
    from jitkernel.session.settings import CellOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompiledCell:
    """The outcome of `Session.compile`: `sizes` are the exact bytes per zone, `object` the ELF
    file."""

    source: str
    request: Request = field(repr=False)
    compiled: Compiled = field(repr=False)
    sizes: dict[str, int]
    options: CellOptions

    @property
    def object(self) -> bytes:
        """The relocatable object."""
        return self.compiled.object


def _signature(handle: FunctionHandle) -> inspect.Signature:
    """For `inspect.signature`, and so for `help` and a notebook's `?`."""
    signature, cell, _ = _facts(handle)
    if signature is None:
        raise AttributeError(f"{_called(handle)} is not defined any more")
    core = handle._session._core
    said = core.said(handle.name)
    if said is not None and said.parameters is not None:
        function = signature.function
        result = annotation(said.result or function.result)
        kinds = [*map(annotation, said.parameters), result]
        return signature_of(kinds, said.names, function.variadic)
    record = core.store.get(cell) if cell else None
    names = list(said.names) if said is not None else []
    if record is not None:
        names = parameter_names(record.module, handle.name)
    return python_signature(signature.function, names)


def _document(handle: FunctionHandle) -> str:
    """The description, and the source of the cell that defines it."""
    signature, cell, source = _facts(handle)
    if signature is None:
        return f"{_called(handle)} is not defined any more."
    where = f"of cell {cell}" if cell else "of a library"
    if (said := handle._session._core.spelling(handle.name)) is not None:
        return f"{said.text}, {where}.\n\n{said.document()}".rstrip()
    return f"{_called(handle)}, {signature}, {where}.\n\n{source}".rstrip()


def _in_order(
    handle: FunctionHandle, given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """All arguments, those that are given by the names of the present definition's parameters, too.

    Raises WrongArgument for what fits no parameter, and where one is left out.
    """
    if _facts(handle)[0] is None:
        raise UsageError(f"{_called(handle)} is not defined any more")
    signature = _signature(handle)
    try:
        bound = signature.bind(*given, **named)
    except TypeError as error:
        how = str(signature).replace(", /", "")
        raise WrongArgument(f"{_called(handle)}{how}: {error}") from None
    return bound.args


def _facts(handle: FunctionHandle) -> tuple[Signature | None, int, str]:
    """Its signature, None once it is gone; the cell that defines it, 0 for none, and its source."""
    core = handle._session._core
    known = _known_info(core, handle.name)
    if known is None:
        return None, 0, ""
    cell = core.program.owner(handle.name)
    record = core.store.get(cell) if cell else None
    source = record.source.strip("\n") if record is not None else ""
    return known if isinstance(known, Signature) else None, cell, source


def _called(handle: FunctionHandle | VariableHandle) -> str:
    """A handle's name as its language writes it."""
    return handle._session._core.program.called(handle.name)


def _known_info(core: Core, name: str) -> Signature | Variable | None:
    """The type of a name: as its definition has it or, of an object's or a library's, as a cell has
    declared it; None where it is gone, or nobody knows."""
    symbol = core.program.named(name)
    if symbol is None:
        return core.program.state.declared.get(name)
    if symbol.state == SymbolState.MISSING:
        return None
    return symbol.info or core.program.state.declared.get(name)


_OF_FUNCTIONS = """A function by name; calling it runs the present definition.

        >>> made = s.run("define i32 @sq(i32 %x) { %r = mul i32 %x, %x  ret i32 %r }")
        >>> sq = s["sq"]
        >>> sq
        <@sq i32 (i32)>
        >>> list(map(sq, range(5)))
        [0, 1, 4, 9, 16]

    It has a signature and a docstring for `help`, and pickles as `Session.portable` says.
    """


class FunctionHandle:
    __doc__ = PerInstance(_OF_FUNCTIONS, _document)
    __signature__ = PerInstance(None, _signature)
    __slots__ = ("__weakref__", "_declared", "_session", "name")

    def __init__(self, session: Session, name: str, declared: ArraySignature | None = None):
        self._session, self.name, self._declared = session, name, declared

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call with Python values, in order or by the parameters' names.  Raises UsageError once
        the symbol is gone."""
        if named:
            arguments = _in_order(self, arguments, named)
        if self._declared is not None:
            arguments = tuple(self._declared.check(_called(self), arguments))
        if (direct := self._session._core.direct) is not None:
            return direct.call(self.name, arguments)
        return self._session.call(self.name, *arguments)

    @checked
    def arrays(self, parameters: str) -> FunctionHandle:
        """The function with a declaration of its arrays, such as `double[n], double[n], n`.

        An array's element type is numpy's or C's name, its sides are names, numbers or `:`.  A call
        checks types, shapes and order, and fills in numbers that are left out and that an array
        tells: `dot(a, b)`.  Raises UsageError for what cannot be read.

            >>> made = s.run('''
            ... define double @last(ptr %p, i64 %n) {
            ...   %i = sub i64 %n, 1
            ...   %q = getelementptr double, ptr %p, i64 %i
            ...   %x = load double, ptr %q
            ...   ret double %x
            ... }''')
            >>> last = s["last"].arrays("double[n], n")
            >>> last(s.share([1.5, 2.5, 3.5]))
            3.5
        """
        from jitkernel.session.array_types import ArraySignature

        return FunctionHandle(self._session, self.name, ArraySignature(parameters))

    @property
    def ctypes(self) -> CFuncPtr:
        """The function as an object of ctypes, where code runs in this process: it follows
        redefinition, and knows nothing of the session, which raises and waits; see the page on
        inline sessions.  Raises UsageError, also for types that ctypes cannot pass."""
        core = self._session._core
        core.begin()
        if (direct := core.direct) is None:
            raise UsageError(
                "code runs in another process, where ctypes cannot call it; "
                'Session(executor="inline") runs it in this one'
            )
        function: CFuncPtr = direct.function(self.name)
        function.session = self._session  # type: ignore[attr-defined]  # which lives as long
        return function

    @property
    def address(self) -> int:
        """The canonical entry, in the executor."""
        self._session._core.refuse_closed()
        symbol = self._session._core.program.named(self.name)
        if symbol is None or symbol.state == SymbolState.MISSING:
            raise UsageError(f"{_called(self)} is not defined any more")
        return self._session._core.program.linker.canonical(symbol)

    def __index__(self) -> int:
        return self.address

    def __reduce__(self) -> tuple[Any, ...]:
        """It pickles as `Session.portable(name)`: the code, not the session, as it is when it
        pickles.  A pool pickles what was submitted some time later: where the function may have
        been redefined by then, submit `session.portable(name)`."""
        return self._session.portable(self.name).__reduce__()

    def __repr__(self) -> str:
        core = self._session._core
        info = _known_info(core, self.name)
        said = core.spelling(self.name) if info is not None else None
        return f"<{said.text}>" if said is not None else f"<{_called(self)} {info or 'gone'}>"


class VariableHandle:
    """A global variable by name; `value` reads and writes it, also while a cell runs.

    >>> made = s.run("@count = global i32 3")
    >>> s["count"].value += 1
    >>> s["count"].value
    4
    """

    __slots__ = ("__weakref__", "_session", "name")

    def __init__(self, session: Session, name: str):
        self._session, self.name = session, name

    def _place(self) -> tuple[Any, int, bool, SessionHost]:
        host = SessionHost(self._session._core)
        found = host.variable(self.name)
        if found is None:
            raise UsageError(f"{_called(self)} is not defined any more")
        return *found, host

    def _seen(self) -> DataType | None:
        """Its type as its language has it, where that says more than IR's."""
        said = self._session._core.said(self.name)
        return said.result if said is not None else None

    @property
    def typed(self) -> TypedValue:
        """The value with its type."""
        type, address, _, host = self._place()
        return host.load(type, address)

    @property
    def value(self) -> Any:
        """The value as a Python value: with the signs, texts and structs of its language."""
        typed = self.typed
        seen = self._seen()
        return typed.python if seen is None else to_python(seen, typed.data, typed.layouts)

    @value.setter
    def value(self, new: Any) -> None:
        type, address, constant, host = self._place()
        if constant:
            raise UsageError(f"{_called(self)} is a constant")
        seen, said = self._seen(), self._session._core.spelling(self.name)
        what = said.text if said is not None else "the argument"
        number = seen is not None and seen.is_scalar and seen.kind != "pointer"
        if seen is not None and not number:
            host.store(address, to_bytes(seen, new, host, what))
        else:
            kind = said.types[-1] if said is not None and said.types else ""
            host.store(address, from_python(type, new, host, what, lambda: kind).data)

    @property
    def array(self) -> NDArray[Any]:
        """It as a numpy array that shares its memory, read-only where it is a constant; a struct is
        one of numpy's records.

        What is written there is seen by the program at once, and is no step that undo takes back.
        Where the variable is gone, or elsewhere by now, what is written there is seen by nobody:
        ask again after a redefinition.  Raises UsageError where numpy has nothing like the type.

            >>> made = s.run("@table = global [4 x i32] [i32 1, i32 2, i32 3, i32 4]")
            >>> s["table"].array[1:3] = 0
            >>> s["table"].value
            (1, 0, 0, 4)
        """
        from jitkernel.session.arrays import view_of

        type, address, constant, host = self._place()
        if address not in self._session._core.engine.arena:
            program = self._session._core.program
            whose = "each thread's own" if program.owner(self.name) else "a library's"
            raise UsageError(f"{_called(self)} is {whose}: session.read({address:#x}, n)")
        layout = host.layout(type)
        part = self._part(address, layout.size)
        view: NDArray[Any] = view_of(self._seen() or layout, part, constant)
        return view

    def _part(self, address: int, size: int) -> memoryview:
        """The variable's bytes, which are nobody else's as long as that is there."""
        program, arena = self._session._core.program, self._session._core.engine.arena
        symbol = program.named(self.name)
        cell = program.cells.get(program.owner(self.name))
        image = symbol.image if symbol is not None else None
        blocks = list(image.blocks) if image is not None else []
        blocks += [block for _, _, _, block in cell.extras] if cell is not None else []
        for block in blocks:
            if block.extent.start <= address < block.extent.start + max(block.extent.size, 1):
                return arena.part_of(block.extent, address, size)
        return arena.part(address, size)

    @property
    def address(self) -> int:
        """The address, in the executor."""
        return self._place()[1]

    def __index__(self) -> int:
        return self.address

    def __repr__(self) -> str:
        try:
            if (said := self._session._core.spelling(self.name)) is not None:
                return f"<{said.text} = {shortened(repr(self.value))}>"
            return f"<{_called(self)} {self.typed.text(self._session.describe)}>"
        except JitError:
            return f"<{_called(self)} gone>"


if TYPE_CHECKING:

    class Handle(FunctionHandle, VariableHandle):  # type: ignore[misc]  # no object is both
        """The thing that a name stands for: only the session knows whether a function or a
        variable."""

else:
    Handle = FunctionHandle | VariableHandle


def handle(session: Session, name: str) -> Any:
    """The thing that a name stands for in a session. Raises UnknownName."""
    core = session._core
    info = _known_info(core, name) or _declared(session, name)
    if info is None:
        symbols = core.program.linker.symbols
        if (symbol := symbols.get(name)) is not None and symbol.state is SymbolState.DEFINED:
            raise UnknownName(f"{core.program.called(name)}: {SessionHost(core).hint(name)}")
        known = [n for n, s in symbols.items() if _known(s) and s.info is not None]
        raise _unknown(name, known, core.program.called)
    if isinstance(info, Variable):
        return VariableHandle(session, name)
    return FunctionHandle(session, name)


@operation(atomic=True)
def _declared(session: Session, name: str) -> Signature | Variable | None:
    """A symbol of an object or a library, as cells or the headers that they include declare it."""
    core, program = session._core, session._core.program
    if not program.state.notes.found or core.engine.executor.busy:
        return None
    symbol, archives = program.linker.symbols.get(name), program.state.archives.values()
    if (
        (symbol is not None and symbol.state is not SymbolState.MISSING)
        or any(name in linked.archive.index for linked in archives)
        or any(core.engine.executor.services.lookup([name]))
    ):
        core.prototypes.declare(name)
    return _known_info(core, name)


def _unknown(name: str, known: Iterable[str], called: Callable[[str], str]) -> UnknownName:
    near = did_you_mean(name, [n.removeprefix(CONTROL) for n in known], called)
    return UnknownName(f"{called(name)} is not defined in this session{near}")


def names_of(session: Session, things: str | Handle | Iterable[str | Handle]) -> list[str]:
    """Names, or those that handles stand for.  Raises UsageError for another session's handles."""
    every = [things] if isinstance(things, str | FunctionHandle | VariableHandle) else things
    found: list[str] = []
    for thing in every:
        if not isinstance(thing, str) and thing._session is not session:
            raise UsageError(f"{thing!r} is another session's")
        found.append(thing if isinstance(thing, str) else thing.name)
    return found


class Symbol:
    """One name of the session, as it is at the moment it is asked."""

    __slots__ = ("_core", "_linked")

    def __init__(self, linked: LinkedSymbol, core: Core):
        self._linked, self._core = linked, core

    @property
    def name(self) -> str:
        """The name, without @."""
        return self._linked.name.removeprefix(CONTROL)

    @property
    def kind(self) -> str:
        """`function` or `variable`."""
        return "function" if self._linked.is_function else "variable"

    @property
    def type(self) -> str:
        """Its type as IR text; empty where unknown."""
        info = self._linked.info
        return str(info) if isinstance(info, Signature) else info.shown if info else ""

    @property
    def constant(self) -> bool:
        """True if it is a constant."""
        info = self._linked.info
        return isinstance(info, Variable) and info.constant

    @property
    def thread_local(self) -> bool:
        """True if each thread has its own; `address` is of what it is found by, then."""
        return self._linked.name.startswith(CONTROL)

    @property
    def state(self) -> str:
        """`defined`, `far` (a library's), `fixed` (the runtime's), `missing` or `null`."""
        return self._linked.state.name.lower()

    @property
    def defined(self) -> bool:
        """True if a cell of the session defines it."""
        return self._linked.state == SymbolState.DEFINED

    @property
    def address(self) -> int:
        """The address of its definition, in the executor; 0 where there is none."""
        return self._linked.address

    @property
    def entry(self) -> int:
        """Its canonical entry, 0 while no address of it was taken."""
        return self._linked.stub

    @property
    def size(self) -> int:
        """Bytes of its definition; 0 where not known."""
        return self._linked.size

    @property
    def cell(self) -> int:
        """The number of the cell that defines it, 0 for others."""
        return self._linked.cell

    @property
    def users(self) -> tuple[int, ...]:
        """Numbers of the other cells that refer to it."""
        own = self.cell
        return tuple(sorted({i.cell for i in self._linked.users or () if i.cell and i.cell != own}))

    def __repr__(self) -> str:
        said = self._core.spelling(self.name)
        what = said.text if said else f"{self._core.program.called(self.name)} {self.type}"
        return f"<Symbol {what} {self.state}>"


class SymbolTable(Mapping[str, Symbol]):
    """Every name that the session knows: its own, and those of libraries that cells use."""

    def __init__(self, core: Core):
        self._core, self._linker = core, core.program.linker

    def __getitem__(self, name: str) -> Symbol:
        if (found := self._find(name)) is None:
            if not isinstance(name, str):
                raise UnknownName(f"a symbol's name is text, such as 'f': {name!r} is none")
            raise _unknown(name.removeprefix("@"), self, self._core.program.called)
        return found

    def _find(self, name: object) -> Symbol | None:
        if not isinstance(name, str):
            return None
        symbols, bare = self._linker.symbols, name.removeprefix("@")
        for symbol in (symbols.get(bare), symbols.get(CONTROL + bare)):
            if symbol is not None and _known(symbol):
                return Symbol(symbol, self._core)
        return None

    # A name that is not there is no error to these, and none is to be made.

    @overload
    def get(self, name: str, default: None = None, /) -> Symbol | None: ...

    @overload
    def get(self, name: str, default: Symbol | T, /) -> Symbol | T: ...

    def get(self, name: str, default: Symbol | T | None = None, /) -> Symbol | T | None:
        """The symbol of that name, else `default`."""
        found = self._find(name)
        return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        symbols = self._linker.symbols
        return iter([name.removeprefix(CONTROL) for name, s in symbols.items() if _known(s)])

    def __len__(self) -> int:
        return sum(map(_known, self._linker.symbols.values()))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        names = [self._core.program.called(name) for name in self]
        more = f", ... ({len(names)} names)" if len(names) > _SHOWN else ""
        return f"<SymbolTable {', '.join(names[:_SHOWN])}{more}>"


_SHOWN = 20  # names of a table


def _known(symbol: LinkedSymbol) -> bool:
    """Not one whose entry is only kept so that an undo finds it where it was, nor a block of what
    has no name outside its object."""
    if symbol.name.startswith(f"{CONTROL}."):  # of variables that are an object's own
        return False
    return symbol.state != SymbolState.MISSING or bool(symbol.users)
