"""Code to be debugged, in the place of ordinary code, and back.  Start from `Forms`.

The debug form of a cell is its functions compiled another time, without optimisation and with debug
information.  It is in memory only while a call runs, behind the ordinary code and not instead of
it: where a function of that begins there is a jump to its debug form meanwhile.  So callers,
canonical entries and pointers to functions follow, nothing of the session's books changes but the
extents that it takes, and to take it back is to write those bytes again.

It has no variables but the cell's: exported ones are the session's symbols, others get the
addresses that they have in the ordinary image.  Constants that this has not, because they were
folded, are its own; they stay where they are from call to call, for the program may have pointers
to them.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING

from jitkernel.arena import Extent
from jitkernel.compiler.records import FOLLOWED, Request, Summary
from jitkernel.elf.constants import STT_FUNC
from jitkernel.errors import CompileError, JitError
from jitkernel.ir.module import Entity
from jitkernel.ir.names import CONTROL, quote_name, symbols_in
from jitkernel.ir.safepoints import has_statepoints
from jitkernel.ir.sharing import (
    ENTRY_OF,
    has_labels,
    hidden_aliases,
    sharing,
    taken,
    values,
    variables,
)
from jitkernel.ir.text import type_at
from jitkernel.languages import find
from jitkernel.linker import Block, Former, Image, SymbolState
from jitkernel.linker.layout import ReadObject, arrange
from jitkernel.linker.linkmap import MappedSymbol, read_symbols
from jitkernel.linker.records import sites
from jitkernel.linker.retargeting import keep_stale, stale_symbols
from jitkernel.linker.x86_64 import jump_stub
from jitkernel.reach import reached
from jitkernel.regex import regex
from jitkernel.session.program.cell import Cell, CellState
from jitkernel.session.program.signatures import described, imports
from jitkernel.session.settings import CellOptions, for_debugging, stored_options, stored_request

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.saved.store import Record

_RUNNING = "its code is being run: it can be stopped in from the next call on"
_JUMP = 5  # bytes: jmp rel32, Intel SDM volume 2
_FIELD, _BEFORE = 8, 3  # bytes: the largest that holds an address; of its instruction before it
_ABSOLUTE = frozenset((1, 10, 11))  # R_X86_64_64, _32, _32S
_CODE = frozenset(("function", "none"))
_CHECK = "@llvm.ubsantrap("  # what clang writes where it checks for undefined behaviour
#: Types of one value that takes more than a byte.
_LARGER = regex(r"i(?:9|[1-9]\d+)\b|ptr\b|half\b|bfloat\b|float\b|double\b|fp128\b|x86_fp80\b")
_DATA = (".data", ".bss", ".ldata", ".lbss")


@dataclass(frozen=True, slots=True)
class Remade:
    """Another module of a cell's code: the request for it, and the module that the ordinary code
    was made of, by which its variables are found."""

    request: Request
    ordinary: str


@dataclass(frozen=True, slots=True)
class _Text:
    """The module of a debug form: the request for it, the addresses of the variables and of the
    entries of functions that the cell's ordinary image has, by name, and the variables that are its
    own whoever has that name: with addresses of labels in it."""

    request: Request
    addresses: Mapping[str, int]
    own: frozenset[str]


@dataclass(slots=True, eq=False)
class _Form:
    """The debug form of a cell, for one image of it.

    `entries` are the functions of the ordinary code that lead to it, by name: address and room, in
    bytes.  `placed` is its own image while it is installed, `names` where the variables are that it
    refers to, `functions` where they begin, in order, and `before` what its jumps have overwritten;
    `blocks` are its own constants and variables.
    """

    cell: Cell
    image: Image
    text: Extent | None
    digest: bytes
    code: bytes
    summary: Summary
    addresses: Mapping[str, int]
    own: frozenset[str]
    entries: Mapping[str, tuple[int, int]]
    blocks: dict[str, Block] = field(default_factory=dict)
    placed: Image | None = None
    names: Mapping[str, int] = field(default_factory=dict)
    before: list[tuple[int, bytes]] = field(default_factory=list)
    functions: list[tuple[int, str]] = field(default_factory=list)

    @property
    def stands(self) -> bool:
        """True if the ordinary code is where it was when the form was made."""
        cell, image = self.cell, self.image
        return cell.image is image and image.text == self.text and cell.state is CellState.LIVE


class Forms:
    """The debug forms of cells; none is wanted at first.

    The session's lock is held by whoever calls.  `optimised`: forms are optimised as their cells
    are, from the next that is wanted on.  `left_out` are, by cell, functions whose ordinary code
    cannot lead to a debug form, and why.  Forms for another end than to be debugged are what
    `remade` gives for a cell, or the reason why there is none.
    """

    def __init__(self, core: Core, remade: Callable[[Record], Remade | str] | None = None):
        self._core = core
        self._remade = remade
        self._forms: dict[int, _Form] = {}
        self._wanted: frozenset[int] = frozenset()
        self._refused: dict[int, tuple[bytes, str]] = {}  # by cell: of which object, and why
        self._generations: tuple[int, int] | None = None  # of the linker: before, and installed
        self.left_out: dict[int, dict[str, str]] = {}
        self.optimised = False

    # -- what is wanted --------------------------------------------------------------------------

    def want(self, cells: Collection[int], alone: Collection[int] = ()) -> dict[int, str]:
        """Compile the debug forms of these cells and of those that hold their bodies, and of those
        `alone`, instead of all that were wanted before.  Returns the reasons of those that have
        none, by cell."""
        every = self._with_holders(cells) | (self._core.program.cells.keys() & alone)
        self._wanted = frozenset(every)
        reasons: dict[int, str] = {}
        todo: list[tuple[Cell, Record, bytes, _Text]] = []
        for number in sorted(every):
            try:
                found = self._prepare(number)
            except (JitError, CompileError) as error:
                reasons[number] = str(error)
                continue
            if isinstance(found, str):
                reasons[number] = found
            elif found is not None:
                todo.append(found)
        requests = [text.request for *_, text in todo]
        made = self._core.engine.pool.compile_many(requests) if requests else []
        for (cell, record, digest, text), compiled in zip(todo, made, strict=True):
            if isinstance(compiled, CompileError):
                why = f"its debug form does not compile: {compiled}"
                self._refused[cell.number] = digest, why
                reasons[cell.number] = why
            else:
                self._keep(cell, record, digest, text, compiled.object, compiled.summary)
        self._forget([n for n, f in self._forms.items() if n not in every and f.placed is None])
        return reasons

    def _with_holders(self, cells: Collection[int]) -> set[int]:
        program = self._core.program

        def holders(number: int) -> Set[int]:
            return program.holders(program.cells[number].names) & program.cells.keys()

        return {*reached(program.cells.keys() & {*cells}, holders)}

    def _prepare(self, number: int) -> tuple[Cell, Record, bytes, _Text] | str | None:
        """The request for a cell's form; the reason why there is none; None where it is there."""
        core = self._core
        cell, record = core.program.cells[number], core.store.get(number)
        if cell.image is None:
            return f"cell {number} has no code"
        if record is None or record.is_linked:
            return f"cell {number} is an object file, whose source the session has not"
        self._bring_back(cell)
        if cell.image.text is None:
            return f"cell {number} has no functions"
        kind = (b"", b"O", b"I")[self.optimised + (self.optimised and self._all_its(cell, record))]
        digest = sha256(kind + record.object).digest()
        form = self._forms.get(number)
        if form is not None and form.digest == digest and form.stands:
            return None
        if form is not None and form.placed is not None:
            return None  # the call that it is installed for has not ended
        if (refused := self._refused.get(number)) is not None and refused[0] == digest:
            return refused[1]
        found = self._text(cell, record, cell.image)
        if isinstance(found, str):
            self._refused[number] = digest, found
            return found
        return cell, record, digest, found

    def _bring_back(self, cell: Cell) -> None:
        """Have a cell's code in memory, as if nobody had used it."""
        if cell.state is CellState.HIBERNATED:
            used = cell.used
            self._core.residency.use(cell.image)
            cell.used = used

    def _all_its(self, cell: Cell, record: Record) -> bool:
        """True if what a cell has defined is its own still: nobody has defined it again."""
        owner = self._core.program.owner
        names = ReadObject.of(record.object).names.exports
        return all(owner(export.name) == cell.number for export in names)

    def _text(self, cell: Cell, record: Record, image: Image) -> _Text | str:
        """The module of a cell's debug form, or why there is none."""
        program = self._core.program
        made = self._debugged(record) if self._remade is None else self._remade(record)
        if isinstance(made, str):
            return made
        source, options = made.request.source, made.request.options
        own, ordinary = variables(source), variables(made.ordinary)
        if alone := [n for n, e in own.items() if e.is_local and "thread_local" in e.words]:
            return f"{alone[0]} of cell {cell.number} is thread-local and that cell's alone"
        if has_statepoints(source):
            return (
                f"a collector follows the references of functions of cell {cell.number}, by tables "
                "of the code that it always has"
            )
        if hidden := hidden_aliases(source):
            return f"{hidden[0]} of cell {cell.number} is an alias or an ifunc of its own"
        symbols = [
            s for s in read_symbols(program.linker, image, record.object)
            if s.address and s.name
        ]  # fmt: skip
        addresses = _shared(own, ordinary, symbols)
        split = _split(own, ordinary, addresses, symbols)
        if split:
            return (
                f"LLVM keeps {split} of cell {cell.number} in another form: run the cell with "
                "-O0 to debug it"
            )
        exported = {name for name, e in own.items() if not (e.is_local or has_labels(e))}
        pointers = _pointed_at(ReadObject.of(record.object))
        entries = {
            s.name: s.address for s in symbols
            if s.binding == "local" and s.kind == "function" and s.name in pointers
        }  # fmt: skip
        entries = {n: at for n, at in entries.items() if n in taken(source)} if entries else {}
        text = sharing(source, {*addresses, *exported}, entries)
        addresses |= {ENTRY_OF + name: at for name, at in entries.items()}
        if options.debug == FOLLOWED and not self._all_its(cell, record):
            options = options._replace(inline=False)  # what it would take has changed
        if options.debug == FOLLOWED and entries:
            text += _kept(entries)  # whoever has their addresses calls them as C does
        near = program.lender.near(symbols_in(text))
        request = made.request._replace(source=text, options=options, near=near)
        labelled = frozenset(name for name, e in own.items() if has_labels(e))
        return _Text(request, addresses, labelled)

    def _debugged(self, record: Record) -> Remade | str:
        """The module of a debug form."""
        core, source, number = self._core, record.module, record.number
        name = core.program.state.notes.language_of(number)
        with_debug = find(name).with_debug if name else None
        if with_debug is not None:
            from jitkernel.session.run.definer import Definer  # only cells with debug forms need it

            as_it_was = CellOptions(
                opt_level=stored_options(record).opt_level, sanitize=_CHECK in record.module
            )
            source = core.foreign.run(with_debug, number, Definer(core, options=as_it_was))
            if not source:
                return f"cell {number} defines nothing in {name} any more"
        first = record.first_line if source is record.module else 1
        request = stored_request(record)._replace(
            source=source, options=for_debugging(stored_options(record), self.optimised),
            first_line=first,
        )  # fmt: skip
        return Remade(request, record.module)

    def _keep(
        self, cell: Cell, record: Record, digest: bytes, text: _Text, code: bytes, summary: Summary
    ) -> None:
        image = cell.image
        if image is None or image.text is None:
            return
        self._forget([cell.number])
        made = _functions(ReadObject.of(code))
        symbols = read_symbols(self._core.program.linker, image, record.object)
        pointers = _pointed_at(ReadObject.of(record.object))
        books = self._core.program.linker.arena.zones["text"].list
        stop = image.text.start + books.room(image.text.size)
        code_at = sorted({s.address for s in symbols if s.kind in _CODE and s.address} | {stop})
        entries: dict[str, tuple[int, int]] = {}
        short: dict[str, str] = {}
        for s in symbols:
            inside = image.text.start <= s.address < stop
            if s.kind not in _CODE or not inside or s.name not in made:
                continue
            if s.binding == "local" and s.name not in pointers:
                continue  # nobody calls it but this code, perhaps otherwise than C does
            room = next((at for at in code_at if at > s.address), stop) - s.address
            if room < _JUMP:
                short[s.name] = "its code is too short to lead elsewhere"
            else:
                entries[s.name] = s.address, room
        self.left_out[cell.number] = short
        if not short:
            del self.left_out[cell.number]
        self._forms[cell.number] = _Form(
            cell, image, image.text, digest, code, summary, text.addresses, text.own, entries
        )

    def _forget(self, cells: Iterable[int]) -> None:
        linker = self._core.program.linker
        for number in cells:
            form = self._forms.pop(number, None)
            self.left_out.pop(number, None)
            for block in form.blocks.values() if form is not None else ():
                linker.release_block(block)

    def close(self) -> None:
        """Nothing is wanted any more: what is installed goes, and what forms have of their own."""
        self.restore()
        self._wanted = frozenset()
        self._forget([*self._forms])
        self._refused.clear()

    # -- in place and back -----------------------------------------------------------------------

    @property
    def waiting(self) -> list[_Form]:
        """The forms that are wanted and can be put in place, and are not."""
        return [
            form for number in sorted(self._wanted)
            if (form := self._forms.get(number)) is not None and form.placed is None and form.stands
        ]  # fmt: skip

    def request(self, cell: int) -> Request | None:
        """The compiler's request for a cell's form, made anew; None where none is in place."""
        form, record = self._forms.get(cell), self._core.store.get(cell)
        if form is None or form.placed is None or record is None:
            return None
        text = self._text(form.cell, record, form.image)
        return None if isinstance(text, str) else text.request

    def install(self, taken: Callable[[], Collection[int]] = tuple) -> None:
        """Put what is wanted in the place of the ordinary code, for a call that is about to begin,
        or that stands: `taken` gives the addresses where threads go on, where no jump may be; it is
        asked when nobody runs the program's code.  Raises ArenaFull, with nothing installed but
        what was before."""
        todo = self.waiting
        if not todo:
            return
        linker = self._core.program.linker
        for cell in {cell for form in todo for cell in self._asleep_under(form)}:
            self._bring_back(cell)
        before = linker.generation if self._generations is None else self._generations[0]
        with self._writing():
            try:
                for form in todo:
                    self._place(form)
            except BaseException:
                for form in todo:
                    self._take_back(form)
                raise
            addresses = taken()
            for form in todo:
                self._lead(form, addresses)
        self._generations = before, linker.generation
        self._core.places.debugged = self.find

    def restore(self) -> None:
        """Put the ordinary code back, byte for byte, where it still is."""
        todo = [form for form in self._forms.values() if form.placed is not None]
        if not todo:
            return
        linker = self._core.program.linker
        with self._writing():
            alone = self._generations is not None and linker.generation == self._generations[1]
            for form in todo:
                self._take_back(form)
            if alone and self._generations is not None:  # all is again as it was then
                linker.generation = self._generations[0]
            self._generations = None

    def leads(self, address: int) -> bool:
        """True where ordinary code leads to a form."""
        return any(address == at for form in self._forms.values() for at, _ in form.before)

    def objects(self) -> Iterator[tuple[Image, bytes, Mapping[str, int]]]:
        """The code in memory with debug information: images, the objects that they were made of,
        and where the variables are that these only refer to."""
        for form in self._forms.values():
            if form.placed is not None:
                yield form.placed, form.code, form.names
        for image, request, record in self._core.places.lines.running:
            if request.options.debug:
                yield image, record.object, {}

    def find(self, address: int) -> tuple[int, str, int] | None:
        """The cell and the function whose debug form is at an address, and the offset in it."""
        for form in self._forms.values():
            text = form.placed.text if form.placed is not None else None
            if text is not None and text.start <= address < text.stop:
                at = bisect_right(form.functions, address, key=itemgetter(0)) - 1
                start, name = form.functions[max(at, 0)]
                return form.cell.number, name, address - start
        return None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A block in which code is written: nobody runs it, or all who do stand."""
        engine = self._core.engine
        if engine.executor.serving:
            engine.arena.defer_frees(True)
            yield
        else:
            with engine.world_stopped:
                yield

    def _asleep_under(self, form: _Form) -> Iterator[Cell]:
        """The cells without code that are called from where a form's jumps will be: were one to
        come back during the call, its new address would be written over the jump."""
        image, program = form.image, self._core.program
        base = program.linker.arena.base
        for symbol in image.refs:
            cell, users = program.cells.get(symbol.cell), symbol.users
            if cell is None or cell.state is not CellState.HIBERNATED or users is None:
                continue
            at = [base + site.offset for site in sites(users.get(image, b""))]
            near = range(1 - _FIELD, _JUMP + _BEFORE)
            if any(a - entry in near for entry, _ in form.entries.values() for a in at):
                yield cell

    def _place(self, form: _Form) -> None:
        """Link a form's code; nobody comes there yet."""
        linker = self._core.program.linker
        symbols = linker.symbols
        form.names = addresses = dict(form.addresses)
        obj, names = ReadObject.of(form.code)
        stale = stale_symbols(linker, form.image)
        versions = {version.name: version for version in stale}
        for _, name, _ in names.imports:
            symbol = versions.get(name) or symbols.get(name)
            if name in addresses or symbol is None or symbol.is_function:
                continue
            if symbol.state is SymbolState.DEFINED and not name.startswith(CONTROL):
                addresses[name] = symbol.address
        there = {
            e.name for e in names.exports
            if (s := symbols.get(e.name)) is not None and s.state is SymbolState.DEFINED
            and e.name not in form.own
        }  # fmt: skip
        hidden = names._replace(
            exports=[e for e in names.exports if e.name in there],
            private=[*names.private, *(e.number for e in names.exports if e.name not in there)],
        )
        keeps = ("data",) if form.blocks else ()
        former = Former(form.blocks, keeps, dso=form.image.dso, addresses=addresses)
        image = linker.place(
            ReadObject(obj, hidden), form.cell.number, kinds=imports(described(form.summary)),
            weak=frozenset(there), former=former, missing=True,
        )  # fmt: skip
        form.placed = image
        used = [v for v in stale if (s := symbols.get(v.name)) and image in (s.users or ())]
        if used:  # it has types that others have changed since, as the ordinary code has
            keep_stale(linker, image, used)
        for zone, block in image.own.items():
            if zone not in form.blocks:
                linker.retain_block(block)
                form.blocks[zone] = block

    def _lead(self, form: _Form, taken: Collection[int]) -> None:
        """Let the ordinary functions of a form's cell lead to it."""
        image, arena = form.placed, self._core.program.linker.arena
        if image is None or image.text is None:
            return
        obj = ReadObject.of(form.code)
        places = _places(obj, image.text)
        form.functions = sorted((at, name) for name, at in places.items())
        for name, at in places.items():
            entry, room = form.entries.get(name, (0, 0))
            if any(at in taken for at in range(entry + 1, entry + _JUMP)):
                self.left_out.setdefault(form.cell.number, {})[name] = _RUNNING
            elif entry and room >= _JUMP:
                self.left_out.get(form.cell.number, {}).pop(name, None)
                form.before.append((entry, arena.read(entry, _JUMP)))
                arena.write(entry, jump_stub(entry, at)[:_JUMP])

    def _take_back(self, form: _Form) -> None:
        linker = self._core.program.linker
        if form.stands:
            for at, was in reversed(form.before):
                linker.arena.write(at, was)
        form.before.clear()
        form.functions.clear()
        image, form.placed, form.names = form.placed, None, {}
        if image is not None:
            with linker.arena.rollback.atomic():
                linker.unlink(image)


def _kept(names: Iterable[str]) -> str:
    """The words by which the optimiser leaves alone how internal functions are called."""
    listed = ", ".join(f"ptr @{quote_name(name)}" for name in names)
    count = listed.count("ptr @")
    return (
        f"\n@llvm.compiler.used = appending global [{count} x ptr] [{listed}], "
        'section "llvm.metadata"\n'
    )


def _functions(read: ReadObject) -> dict[str, tuple[int, int]]:
    """The functions of an object by name: section and offset in it."""
    obj = read.object
    found: dict[str, tuple[int, int]] = {}
    for index, (_, info, _, section, value, _) in enumerate(obj.symbols):
        if info & 15 == STT_FUNC and 0 < section < len(obj.sections):
            found[obj.symbol_name(index)] = section, value
    return found


def _places(read: ReadObject, text: Extent) -> dict[str, int]:
    """The addresses of an object's functions, whose code is there."""
    places = arrange(read.object).places
    found: dict[str, int] = {}
    for name, (section, value) in _functions(read).items():
        place = places[section]
        if place is not None and place[0] == "text":
            found[name] = text.start + place[1] + value
    return found


def _pointed_at(read: ReadObject) -> frozenset[str]:
    """The functions that only an object knows and whose addresses it takes."""
    obj = read.object
    local = {place: name for name, place in _functions(read).items()}
    found: set[str] = set()
    for table in obj.tables.values():
        for _, info, addend in table:
            if info & 0xFFFF_FFFF in _ABSOLUTE and info >> 32 < len(obj.symbols):
                _, kind, _, section, value, _ = obj.symbols[info >> 32]
                if not kind >> 4 and (name := local.get((section, value + addend))) is not None:
                    found.add(name)
    return frozenset(found)


def _shared(
    own: Mapping[str, Entity], ordinary: Mapping[str, Entity], symbols: Iterable[MappedSymbol]
) -> dict[str, int]:
    """The addresses that a debug form's variables which nobody else sees have in the ordinary code:
    a variable is told by its name and its type, a constant by what it is."""
    places = {s.name: s.address for s in symbols if s.binding == "local" and s.kind == "object"}
    known = {name: e for name, e in ordinary.items() if name in places}
    constants = values(ordinary)
    by_value = {constants[name]: name for name, e in known.items() if e.kind == "constant"}
    meant = values(own)
    found: dict[str, int] = {}
    for name, entity in own.items():
        if not entity.is_local or has_labels(entity):
            continue
        same = known.get(name)
        if entity.kind == "constant":
            if same is None or constants[name] != meant[name]:
                same = known.get(by_value.get(meant[name], ""))
        elif same is not None and type_at(same.rest.strip()) != type_at(entity.rest.strip()):
            same = None
        if same is not None:
            found[name] = places[same.name]
    return found


def _split(
    own: Mapping[str, Entity], ordinary: Mapping[str, Entity], shared: Collection[str],
    symbols: Iterable[MappedSymbol],
) -> str:  # fmt: skip
    """A variable that LLVM has put into others, as GlobalOpt does with members of structs and with
    those that are 0 or 1; "" where there is none."""
    sizes = {
        s.name: s.size for s in symbols
        if s.binding == "local" and s.kind == "object" and s.section.startswith(_DATA)
    }  # fmt: skip
    made = [name for name in sizes if name not in ordinary]
    for name, entity in own.items():
        if not entity.is_local or entity.kind != "global":
            continue
        if name in shared:
            if sizes.get(name) == 1 and _LARGER.match(entity.rest.strip()):
                return name
        elif any(other.startswith(f"{name}.") for other in made):
            return name
    return ""
