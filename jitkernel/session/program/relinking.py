"""Objects that are linked another time: where they were, with the data that they had.

A cell is linked again when it provides what another one leaves behind, when its object changed
under it, and when it comes back: see `bring_back`.  Start from `relink`.

A cell whose object is made anew, because of what another cell has changed under it, keeps its
number and its place among the cells, and its variables where their types stay: see `remake`, and
`bring_back`, which takes it back.

When a definition changes its type under its users (`--retype`), they get a stale version of it: see
`retype`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jitkernel.compiler.records import Compiled, Summary
from jitkernel.errors import CompileError, LinkError, present
from jitkernel.ir.names import written
from jitkernel.languages.llvm.plan import Remake
from jitkernel.linker import Former, Image, Symbol, SymbolKind, SymbolState
from jitkernel.linker.editing import add_variable, adopt, attach_variable
from jitkernel.linker.layout import ReadObject, same_places
from jitkernel.linker.records import NOWHERE, appended, value_of
from jitkernel.linker.retargeting import Retargeting, keep_stale, stale_symbols
from jitkernel.record import NamedTuple
from jitkernel.session.program.cell import (
    Cell,
    CellState,
    Change,
    Definition,
    Version,
    cells_words,
    names_of,
)
from jitkernel.session.program.signatures import Signature, Variable, described, same_type
from jitkernel.session.saved.store import Record

if TYPE_CHECKING:
    from jitkernel.linker.linkmap import LinkedVariable
    from jitkernel.session.program.program import Program


#: What a cell has for itself: contents by names and sizes.
OwnValues = dict[tuple[str, int], bytes]


class _Made(NamedTuple):
    """A cell's new object: the names that are its own, the variables that stay with their places
    and sizes, those of them that begin anew, and the names of others that it mentions itself."""

    owned: frozenset[str]
    places: Mapping[str, tuple[int, int]]
    begins: frozenset[str]
    taken: frozenset[str]


def relink(program: Program, cell: Cell, takeover: frozenset[str]) -> None:
    """Link a cell's object again, its data where it is, with groups it did not provide."""
    _link_again(program, cell, program.store.object(cell.number), frozenset(("data",)), takeover)


def replace(program: Program, cell: Cell, record: Record) -> None:
    """Give a live cell another object made from the same source; its variables stay."""
    was = program.store.get(cell.number)
    same = same_places(was.object, record.object) if was is not None else frozenset()
    _link_again(program, cell, record.object, same)
    cell.pin_reason = None
    program.store.put(record)


def _variables(program: Program, image: Image, lost: bool = False) -> dict[str, tuple[int, int]]:
    """The addresses and sizes of the variables that an image defines now, or has `lost`."""
    data = program.linker.arena.zones["data"]
    return {
        symbol.name: (address, size)
        for symbol, address, size in image.exports
        if (lost or symbol.image is image) and data.start <= address < data.stop
    }


def _link_again(
    program: Program,
    cell: Cell,
    object: bytes,
    zones: frozenset[str],
    takeover: frozenset[str] = frozenset(),
    made: _Made | None = None,
) -> None:
    """Link an object in place of a live cell's image; `zones` are laid out as they were.

    Where the data zone is not, variables stay with their values: all, or those of `made`, whose
    cell keeps the values of what it has for itself, too, at other addresses.
    """
    image = cell.image
    if image is None:
        return
    arena = program.linker.arena
    at = {zone: block for zone, block in image.own.items() if zone in zones}
    names = {*names_of(image)}
    kept: list[tuple[int, int]] = []
    own: OwnValues = {}
    owned = _owned(cell) if made is None else made.owned
    pins, anew = dict(image.pins), image.data is not None and "data" not in zones
    if made is not None and "data" not in zones:
        anew, places, pins = True, made.places, {}
        begun = {places[name] for name in made.begins}  # another name may be an alias of one
        kept = [value_of(name, *place) for name, place in places.items() if place not in begun]
        own = own_values(program, cell)
    elif anew:
        places = _variables(program, image)
        kept = [value_of(name, *place) for name, place in places.items()]
    if anew:  # another object, which may define what others do by now
        pins |= {name: address for name, (address, _) in places.items()}
        names.update(export.name for export in ReadObject.of(object).names.exports)
    values = [(address, arena.read(address, size)) for address, size in kept]
    text = image.text.start if image.text else 0
    former = Former(at, () if anew else ("data",), takeover | frozenset(image.groups), text)
    fresh = place_again(program, cell, object, names, owned, pins.items(), former)
    _give_own(program, fresh, object, own)
    for address, content in values:
        arena.write(address, content)
    stale = stale_symbols(program.linker, image)
    if made is not None:  # what it has only in others' bodies it knows as those do
        stale = tuple(s for s in stale if s.name in made.taken)
    keep_stale(program.linker, fresh, stale)
    _exchange(program, cell, fresh)


def own_values(program: Program, cell: Cell) -> OwnValues:
    """The contents of what a cell has for itself, as `static` variables of functions, by names and
    sizes."""
    if cell.image is None:
        return {}
    return {
        (v.name, v.size): program.linker.arena.read(v.address, v.size)
        for v in _variables_of(program, cell, cell.image) if v.is_local and not v.is_first
    }  # fmt: skip


def give_own_values(program: Program, cell: Cell, values: OwnValues) -> None:
    """Have another cell's, which was made of the same, go on with them."""
    if cell.image is not None:
        _give_own(program, cell.image, program.store.object(cell.number), values)


def _give_own(program: Program, image: Image, object: bytes, values: OwnValues) -> None:
    for variable in _linked(program, image, object) if values else ():
        content = values.get((variable.name, variable.size), b"")
        if content and variable.is_local:
            program.linker.arena.write(variable.address, content)


def _exchange(program: Program, cell: Cell, fresh: Image) -> None:
    """Let a cell have a fresh image; the one that it has goes."""
    image = cell.image
    if image is not None:
        for block in image.blocks:  # what the program may have pointers to
            if block not in fresh.blocks:
                program.linker.retain_block(block)
                cell.strings += (block,)
        if image.dso:
            program.handles[cell.number] = (*program.handles.get(cell.number, ()), image.dso)
        program.linker.unlink(image)
    cell.image = fresh
    cell.state = CellState.LIVE


def bring_back(program: Program, was: Version, owned: frozenset[str]) -> None:
    """Link a cell again as it was, whether it has left or was made anew; only the names that it
    `owned` are its own again.

    Its data is what it is: see `DataShadow.restore`.
    """
    cell, linker = was.cell, program.linker
    if cell.number not in program.cells:
        for block in cell.strings:
            linker.retain_block(block)
        cell.state = CellState.LIVE
        program.cells[cell.number] = cell
        program.uses.add(cell)
    if was.image is None:
        return
    record = was.record or program.store.get(cell.number)
    if record is None:
        raise LinkError(f"cell {cell.number} cannot come back: its object is gone")
    groups = frozenset(cell.image.groups if cell.image is not None else ())
    former = Former(was.image.own, ("data",), groups, was.text)
    image = place_again(
        program, cell, record.object, names_of(was.image), owned, was.image.pins, former
    )
    adopt(linker, image, was.image.adopted)  # its variables, whoever had them meanwhile
    for name, info in was.taken.items():
        symbol = program.linker.symbols.get(name)
        if symbol is not None and info is not None:
            if symbol.image is image or symbol.state in NOWHERE:
                symbol.info = info  # as for its other users: see `dependence`
    if was.stale:
        keep_stale(linker, image, was.stale)
    _exchange(program, cell, image)
    if was.record is not None:
        program.uses.drop(cell)
        cell.libraries, cell.types = was.uses
        program.uses.add(cell)
        cell.pin_reason = None
        program.store.put(was.record)


def _variables_of(program: Program, cell: Cell, image: Image) -> list[LinkedVariable]:
    """The variables of a cell, those that it has for itself too, as `static` ones of functions."""
    record = program.store.get(cell.number)
    return _linked(program, image, record.object) if record is not None else []


def _linked(program: Program, image: Image, object: bytes) -> list[LinkedVariable]:
    from jitkernel.linker.linkmap import linked_variables  # few cells are made anew

    return linked_variables(program.linker, image, object)


def extend(
    program: Program, cell: Cell, name: str, info: Variable, data: bytes, align: int, change: Change
) -> bool:
    """Give a cell that is in memory one more variable; False where that takes a module."""
    image, known = cell.image, program.linker.symbols.get(name)
    if image is None:
        return False
    if known is not None:
        if known.is_function or known.state is not SymbolState.MISSING:
            return False
        if known.users and (known.info is None or not same_type(known.info, info)):
            return False
    block = add_variable(program.linker, image, name, data, align)
    cell.extras = appended(cell.extras, (name, block.extent.start, len(data), block))
    program.linker.symbols[name].info = info
    change.before.setdefault(("name", name), Definition())
    return True


def place_again(
    program: Program,
    cell: Cell,
    object: bytes,
    names: Iterable[str],
    owned: frozenset[str],
    pins: Iterable[tuple[str, int]],
    former: Former,
) -> Image:
    """Link an object where it has been before; only the names it owned are its own again."""
    symbols = program.linker.symbols
    lost = {n for n in names if n not in owned}
    others = {s: s.definition for n in lost if (s := symbols.get(n))}
    image = program.linker.place(
        object, cell.number, weak=frozenset(), pins=dict(pins), former=former, missing=True
    )
    for name, address, size, block in cell.extras:
        attach_variable(program.linker, image, name, address, size, block, name in owned)
    for symbol, was in others.items():
        program.linker.redefine(symbol, was)
    for symbol, _, _ in image.exports:
        if symbol.image is image and symbol.name in lost:  # nobody has defined it since
            program.linker.fail(symbol, "")
            program.abandon([symbol])
            program.linker.resolver.drop_if_unused(symbol)
    return image


def retype(
    retargeting: Retargeting,
    symbol: Symbol,
    new: Image,
    was: Signature | Variable,
    change: Change,
    called: str,
) -> None:
    """Give the users of a symbol's old type a stale version of it, until they are run again."""
    kind = SymbolKind.FUNCTION if isinstance(was, Signature) else SymbolKind.DATA
    users = [i for i in symbol.users or () if i is not new and i is not symbol.image and i.cell]
    cells = cells_words(sorted({i.cell for i in users}))
    why = (
        f"{called} is no longer {was}, as {cells} knew it when compiled, and would be used "
        f"wrongly: run {cells} again"
    )
    stale = retargeting.split(symbol, kind, was, why, users)
    change.symbols.append(stale)
    change.before["stale", stale] = None


def _owned(cell: Cell) -> frozenset[str]:
    return frozenset([symbol.name for symbol in cell.exports])


def check(cell: Cell, compiled: Compiled, leaving: frozenset[str]) -> None:
    """Raise CompileError where a new object lacks what the cell defines now, apart from the names
    that leave it."""
    missing = set(cell.names).difference(compiled.summary.defined(), leaving)
    if missing:  # assembly may define it
        missing -= {export.name for export in ReadObject.of(compiled.object).names.exports}
    if missing:
        names = ", ".join(map(written, sorted(missing)[:5]))
        raise CompileError(
            f"this changes what cell {cell.number} is made of, and {names} there cannot be made "
            f"again by itself: %evict {cell.number} --force, make the change, and run that cell "
            "again; who uses what it defines waits for that"
        )


def remake(
    program: Program,
    cell: Cell,
    record: Record,
    summary: Summary,
    leaving: frozenset[str],
    remade: Remake,
    change: Change,
) -> tuple[list[str], frozenset[str]]:
    """Link a cell's new object in place of the present one; the variables that began anew because
    their types have changed, and those that `remade` says may have other first values, because
    they still had theirs.

    `leaving` are names that another cell is about to define.
    """
    version, image = (
        program.object_version(cell, change),
        present(cell.image, f"the code of {cell}"),
    )
    same: frozenset[str] = frozenset()
    infos = {name: info for name, info, defined in described(summary) if defined}
    was = {symbol.name: symbol.info for symbol in cell.exports if symbol.info is not None}
    earlier = change.before.get(("object", cell.number))
    is_lent = remade.ir is None and (earlier is None or earlier.lent)
    change.before["object", cell.number] = (earlier or version)._replace(lent=is_lent)
    for name in leaving.intersection(was):
        change.before.setdefault(("name", name), program.definition(name))
    # Data of the version before has the addresses of entries: see `Program.remove`.
    program.keep_symbols([s for s in cell.exports if s.name in leaving], change)
    before = _variables(program, image)
    places = {
        name: place for name, place in before.items()
        if name in infos and name in was and same_type(infos[name], was[name])
    }  # fmt: skip
    if remade.ir is None:  # those that others define by now, too: they may come back
        places = _variables(program, image, lost=True)
        if version.record is not None:
            same = same_places(version.record.object, record.object)
    again = remade.begins & places.keys()
    if again:
        again &= {v.name for v in _variables_of(program, cell, image) if v.is_first}
    blocks = image.blocks
    taken = frozenset(name for name, _, defined in described(summary) if not defined)
    made = _Made(_owned(cell) - leaving, places, again, taken)
    _link_again(program, cell, record.object, same, made=made)
    cell.pin_reason = None
    program.store.put(record)
    fresh = present(cell.image, f"the code of {cell}")
    held = [
        block for block in blocks
        if any(block.extent.start <= at < block.extent.stop for at, _ in places.values())
    ]  # fmt: skip
    adopt(program.linker, fresh, held)
    for symbol in cell.exports:
        if symbol.name in infos:
            symbol.info = infos[symbol.name]
    program.retype_cell(cell, summary, change)
    return sorted(before.keys() - places.keys() - leaving), again
