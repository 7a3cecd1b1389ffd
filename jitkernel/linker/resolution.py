"""What an object's names become: the phases of a plan that deal with symbols.

Start from `resolve`.  Nothing that the session has is changed here: a symbol that is new is made,
but in no table yet; what an existing one becomes is noted in `Resolution.changes` and `.exports`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jitkernel.arena import Extent
from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.elf.constants import COMMON
from jitkernel.errors import LinkError
from jitkernel.ir.names import BOUNDS, CONTROL, written
from jitkernel.linker import x86_64
from jitkernel.linker.binding import Bindings, Target
from jitkernel.linker.layout import Layout, Names, is_special, pinned_ranges
from jitkernel.linker.records import (
    Block,
    Definition,
    Image,
    Symbol,
    SymbolKind,
    SymbolState,
    new_symbol,
)
from jitkernel.linker.resolver import Resolver
from jitkernel.linker.x86_64 import GOTPCRELX
from jitkernel.record import NamedTuple
from jitkernel.rollback import set_first

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState
UNKNOWN, FUNCTION, DATA = SymbolKind
_TYPE = 0xFFFF_FFFF  # of a relocation: its symbol is above


class Former(NamedTuple):
    """The places of an object that was linked before, to have them again.

    `blocks` are whole zones; what is in those that it `keeps` stays, elsewhere it is as the object
    says.  `groups` are COMDAT groups to provide although another image has them.  `text` is where
    the code was, 0 for nowhere: it goes there again if that is free, and fills a hole or has
    pointers to it; otherwise variables that still point into it there are written.  `image` is the
    one that its code comes back to, whose symbols it has.  `dso` is what `__dso_handle` is in it, 0
    for an address of its own.  `addresses` are those of names that it only refers to, whoever has
    such a name in the session.
    """

    blocks: Mapping[str, Block] = {}
    keeps: Collection[str] = ()
    groups: frozenset[str] = frozenset()
    text: int = 0
    image: Image | None = None
    dso: int = 0
    addresses: Mapping[str, int] = {}


#: Of an object that is linked for the first time.
NEW = Former()


class Job(NamedTuple):
    """An object to place, and how: the parameters of `Linker.place`."""

    obj: ElfObject
    names: Names
    cell: int
    bind: Bindings
    resolver: Resolver
    kinds: Mapping[str, str] = {}
    weak: frozenset[str] | None = None
    pins: Mapping[str, int] = {}
    former: Former = NEW
    missing: bool = False

    def keeps_existing(self, name: str, binding: int) -> bool:
        """True if an existing definition is kept instead of the object's own."""
        return binding == c.STB_WEAK if self.weak is None else name in self.weak


class Groups(NamedTuple):
    """COMDAT groups: sections that another image provides, those of groups that are taken over,
    and the names of groups that this object provides or has but a copy of."""

    dropped: frozenset[int] = frozenset()
    forced: frozenset[int] = frozenset()
    provided: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()


#: What a symbol will be that the object defines: state, address, size, kind.
Own = tuple[SymbolState, int, int, SymbolKind]


class Resolution(NamedTuple):
    """The symbol of each symbol table entry of the object, and which symbols change with it.

    `targets` are by symbol index: None for what is not loaded.  `exports` are the symbols that the
    object defines, `new` those that come into the table, `changes` the new definitions of others
    that it refers to.  `dso` is what `__dso_handle` is, 0 where the object does not ask; `stubs`
    are by name those for its own `x86_64.REGISTERING`, and the symbols that these branch to.
    """

    targets: list[Target | None]
    exports: dict[Symbol, Own]
    new: dict[str, Symbol]
    changes: dict[Symbol, Definition]
    dso: int
    stubs: dict[str, tuple[Extent, Symbol]]

    def definition(self, symbol: Symbol) -> Definition:
        """The definition that a symbol will have which others define, or nobody."""
        return self.changes.get(symbol) or symbol.definition

    def change(self, symbol: Symbol, state: SymbolState, address: int, kind: SymbolKind) -> None:
        """Let a symbol be something else that the object refers to."""
        if self.new.get(symbol.name) is symbol:
            set_first(symbol, "state", state)
            set_first(symbol, "address", address)
            set_first(symbol, "kind", kind)
        else:
            _, _, size, image, _, why = self.definition(symbol)
            self.changes[symbol] = state, address, size, image, kind, why

    def body(self, target: Target | None) -> Target | None:
        """The place of the object's own definition of a symbol; the same for all other targets."""
        own = self.exports.get(target) if isinstance(target, Symbol) else None
        return target if own is None else own[1]

    def is_far_data(self, target: Target | None) -> bool:
        """True if it is a variable of the executor's process."""
        if not isinstance(target, Symbol) or target in self.exports:
            return False
        state, _, _, _, kind, _ = self.definition(target)
        return state is FAR and kind is DATA


def select_groups(job: Job, providers: Mapping[str, Image]) -> Groups:
    """Select the COMDAT groups that the object provides, and those that another image does."""
    obj, private = job.obj, job.names.private
    dropped: set[int] = set()
    forced: set[int] = set()
    provided: list[str] = []
    copies: list[str] = []
    for signature, members in obj.groups:
        if signature in private:
            continue
        name = obj.symbol_name(signature)
        provider = providers.get(name)
        if name in job.former.groups:
            forced.update(members)
        if provider is not None and name not in job.former.groups and provider.cell != job.cell:
            dropped.update(members)
            copies.append(name)
        else:
            provided.append(name)
    return Groups(frozenset(dropped), frozenset(forced), tuple(provided), tuple(copies))


def place_commons(job: Job, layout: Layout) -> tuple[Layout, dict[int, tuple[int, int]]]:
    """A layout with room for tentative definitions that nobody has made yet, and where they are:
    offset in the data and size, by symbol index."""
    found: dict[int, tuple[int, int]] = {}
    used, most = layout.needs.get("data", (0, 1))
    for index, name, _, _, _, align, size in job.names.tentative:
        if name in job.pins:
            continue
        known = job.resolver.symbols.get(name)
        if known is not None and known.state is DEFINED and job.keeps_existing(name, c.STB_WEAK):
            if known.size < size:
                raise LinkError(
                    f"{job.bind.called(name)} has {known.size} bytes in the session and {size} here"
                )
            continue
        if align & (align - 1):
            raise LinkError(f"{written(name)}: alignment {align} is not a power of 2")
        offset = (used + align - 1) & -align
        found[index] = offset, size
        used, most = offset + size, max(most, align)
    if found:
        layout = layout._replace(needs={**layout.needs, "data": (used, most)})
    return layout, found


def resolve(
    job: Job,
    layout: Layout,
    starts: Mapping[str, int],
    commons: Mapping[int, tuple[int, int]],
    forced: frozenset[int],
) -> Resolution:
    """Resolve the object's symbols, where its zones begin at `starts`.

    Raises LinkError for what cannot be, and for a variable that nobody defines.
    """
    made = Resolution(local_targets(job.obj, job.names, layout, starts), {}, {}, {}, 0, {})
    _define(job, layout, starts, commons, forced, made)
    if job.names.imports and (dso := _import(job, layout, starts, made)):
        made = made._replace(dso=dso)
    return made


def resolve_again(job: Job, layout: Layout, starts: Mapping[str, int], image: Image) -> Resolution:
    """The symbols of an object whose code comes back: those that its image had, whatever their
    names mean by now."""
    targets = local_targets(job.obj, job.names, layout, starts)
    refs = {symbol.name: symbol for symbol in image.refs}
    own = {symbol.name: (symbol, address) for symbol, address, _ in image.exports}
    exports: dict[Symbol, Own] = {}
    for index, name, _, _, section, value, size in job.names.exports:
        place = layout.places[section] if section < c.SHN_LORESERVE else None
        target: Target | None = None if place is None else starts[place[0]] + place[1] + value
        if name in own:
            symbol, address = own[name]
            if place is not None and place[0] == "text":
                address = starts["text"] + place[1] + value
            state = symbol.state if symbol.image is image else MISSING  # another one's by now
            exports[symbol] = state, address, size, symbol.kind
            target = symbol
        if job.obj.symbols[index][1] >> 4:  # else the object's own references are to its own
            targets[index] = refs.get(name, target)
    for index, name, _ in job.names.imports:
        targets[index] = refs.get(name)
        if name not in refs and is_special(name):
            targets[index] = _special(job, layout, starts, name)
    return Resolution(targets, exports, {}, {}, 0, {})


def local_targets(
    obj: ElfObject, names: Names, layout: Layout, starts: Mapping[str, int]
) -> list[Target | None]:
    """By symbol index: the address of a symbol that only the object knows; None for the others."""
    places = layout.places
    targets: list[Target | None] = []
    for _, info, _, section, value, _ in obj.symbols:
        if info >> 4:
            targets.append(None)
        elif section == 0 or section == c.SHN_ABS:
            targets.append(value)
        elif section >= c.SHN_LORESERVE or (place := places[section]) is None:
            targets.append(None)
        else:
            targets.append(starts.get(place[0], 0) + place[1] + value)
    for index in names.private:
        _, _, _, section, value, _ = obj.symbols[index]
        if section < c.SHN_LORESERVE and (place := places[section]) is not None:
            targets[index] = starts.get(place[0], 0) + place[1] + value
    return targets


def _define(
    job: Job,
    layout: Layout,
    starts: Mapping[str, int],
    commons: Mapping[int, tuple[int, int]],
    forced: frozenset[int],
    made: Resolution,
) -> None:
    """Define what the object defines; what is `made` is filled in."""
    targets, exports, new = made.targets, made.exports, made.new
    symbols, places, pins, arena = job.resolver.symbols, layout.places, job.pins, job.bind.arena
    for index, name, binding, elf_type, section, value, size in job.names.exports:
        symbol = symbols.get(name) or new.get(name)
        state, zone = DEFINED, ""
        if name in pins:
            address = pins[name]
        elif section < c.SHN_LORESERVE:
            place = places[section]
            if place is None:  # in a COMDAT group that another image provides
                targets[index] = symbol
                continue
            zone = place[0]
            address = starts.get(zone, 0) + place[1] + value
            if address not in arena:
                raise LinkError(f"{written(name)} lies outside the object")
        elif section == c.SHN_ABS:
            address, state = value, FIXED
        elif index in commons:
            address = starts["data"] + commons[index][0]
        elif section in COMMON:  # defined already
            targets[index] = symbol
            continue
        else:
            raise LinkError(f"{written(name)} lies in section {section:#x}, which is not known")
        code = elf_type == c.STT_FUNC or (elf_type == c.STT_NOTYPE and zone == "text")
        kind = FUNCTION if code else DATA
        if symbol is None:
            symbol = new[name] = new_symbol(name, kind, state, address, size)
        elif (
            symbol.state is DEFINED
            and job.keeps_existing(name, binding)
            and section not in forced
            and index not in commons
        ):
            targets[index] = symbol
            continue
        if job.obj.symbols[index][1] >> 4:  # else the object's own references are to its own
            targets[index] = symbol
        exports[symbol] = state, address, size, kind


def _import(job: Job, layout: Layout, starts: Mapping[str, int], made: Resolution) -> int:
    """Import what the object asks for; what nobody defines is looked up in the executor's process.

    What is `made` is filled in; what `__dso_handle` is in the object is returned.
    """
    symbols, targets, new, stubs = job.resolver.symbols, made.targets, made.new, made.stubs
    dso = 0
    unresolved: list[Symbol] = []
    asked: list[tuple[Symbol, bool]] = []
    for index, name, weak in job.names.imports:
        if (address := job.former.addresses.get(name)) is not None:
            targets[index] = address
            continue
        symbol = symbols.get(name) or new.get(name)
        if (symbol is None or symbol.state is not DEFINED) and is_special(name):
            if name == "__dso_handle" or name in x86_64.REGISTERING:
                dso = dso or job.former.dso or min(starts.values(), default=job.bind.base)
            if name in x86_64.REGISTERING:
                stub = stubs[name] = stubs.get(name) or _registering(job, name, new)
                targets[index] = stub[0].start
                continue
            special = dso if name == "__dso_handle" else _special(job, layout, starts, name)
            if special is not None:
                targets[index] = special
                continue
        if symbol is None:
            symbol = new[name] = new_symbol(name)
            unresolved.append(symbol)
        elif symbol.state is MISSING and not symbol.users:  # only held: nobody has asked yet
            unresolved.append(symbol)
        targets[index] = symbol
        if symbol.state is MISSING or symbol.state is NULL:
            asked.append((symbol, weak))
        if symbol.kind is UNKNOWN and (said := job.kinds.get(name)) is not None:
            kind = FUNCTION if said == "function" else DATA
            made.change(symbol, symbol.state, symbol.address, kind)
    if unresolved:
        _look_up(job, layout, unresolved, made)
    for symbol, weak in asked:
        _leave(job, symbol, weak, made)
    return dso


def _leave(job: Job, symbol: Symbol, weak: bool, made: Resolution) -> None:
    """Give a symbol that nobody defined the state that it has where that is still so; `weak`: a
    weak reference asks for it.  Raises LinkError for a variable."""
    state, address, _, _, kind, _ = made.definition(symbol)
    if state is MISSING and weak and not symbol.users:
        state = NULL
    elif state is NULL and not weak:
        state = MISSING
    elif state is not MISSING:
        return
    if state is MISSING and kind is DATA and not job.missing:
        raise _undefined(symbol.name, job)
    if state is not symbol.state:
        made.change(symbol, state, address, kind)


def _look_up(job: Job, layout: Layout, unresolved: list[Symbol], made: Resolution) -> None:
    """Find symbols outside the session; of those that nobody has it is known what they would be."""
    if any(symbol.kind is UNKNOWN and symbol not in made.changes for symbol in unresolved):
        called = _called(job, layout)
        for index, _, _ in job.names.imports:
            symbol = made.targets[index]
            if isinstance(symbol, Symbol) and symbol.kind is UNKNOWN and symbol not in made.changes:
                kind = FUNCTION if index in called else DATA
                made.change(symbol, symbol.state, symbol.address, kind)
    found = job.resolver.look_up([symbol.name for symbol in unresolved])
    for symbol, where in zip(unresolved, found, strict=True):
        if where is not None:
            made.change(symbol, *where, made.definition(symbol)[4])


def _called(job: Job, layout: Layout) -> set[int]:
    """Imports that the object branches to somewhere: functions, then."""
    called: set[int] = set()
    obj = job.obj
    for index, table in obj.tables.items():
        if index in layout.frames:
            called.update(table.columns.symbols)
            continue
        called |= table.columns.symbols_of(x86_64.BRANCHES)
        if GOTPCRELX in table.columns.types:
            content = obj.content(index)
            called.update([
                info >> 32 for offset, info, _ in table
                if info & _TYPE == GOTPCRELX
                and content[offset - 2 : offset] in (b"\xff\x15", b"\xff\x25")
            ])  # fmt: skip
    return called


def _special(job: Job, layout: Layout, starts: Mapping[str, int], name: str) -> int | None:
    """The GOT, or a bound of one of the object's sections; None where it has no such section."""
    if name == "_GLOBAL_OFFSET_TABLE_":
        return job.bind.got
    at_end = name.startswith("__stop_")
    wanted = name.removeprefix("__stop_" if at_end else "__start_")
    for index, place in enumerate(layout.places):
        if place and job.obj.section_name(index) == wanted:
            size = job.obj.sections[index][5] if at_end else 0
            return starts.get(place[0], 0) + place[1] + size
    for index, ranges in pinned_ranges(job.obj, job.names, job.pins).items() if job.pins else ():
        begins = {address - low for low, _, address in ranges}
        if job.obj.section_name(index) == wanted and len(begins) == 1:  # all of it is where it was
            return begins.pop() + (job.obj.sections[index][5] if at_end else 0)
    return None


def _registering(job: Job, own: str, new: dict[str, Symbol]) -> tuple[Extent, Symbol]:
    """Room for one of the object's own `x86_64.REGISTERING`, and what that calls."""
    name = x86_64.REGISTERING[own][0]
    register = job.resolver.symbols.get(name) or new.get(name)
    if register is None:
        found = job.resolver.look_up([name])[0]
        if found is None:
            raise LinkError(f"{own}: the executor's process has no {name}")
        register = new[name] = new_symbol(name, FUNCTION, *found)
    return job.bind.arena.reserve("text", x86_64.STUB_SIZE), register


def _undefined(name: str, job: Job) -> LinkError:
    where = "define it in this cell or an earlier one, or load the library that has it"
    if name.startswith(("_ZTI", "_ZTV", "_ZTS", "_ZNS", "_ZSt")):
        where = "C++'s library has it: %lib libstdc++.so.6"
    if name.startswith(CONTROL):
        where = "define it thread_local; a library's own thread-local variables are out of reach"
    for bound in BOUNDS:
        if section := name.removeprefix(bound) * name.startswith(bound):
            where = f"it bounds section {section} of its own cell: put what that is to have there"
    from jitkernel.linker.exporters import exporter  # only for errors
    from jitkernel.linker.instrumented import remedy

    if do := remedy(name):
        where = do
    elif library := exporter(name):
        where = f"a library has it: %lib {library}"
    called = job.bind.called(name)
    error = LinkError(f"cell {job.cell} reads {called}, which nobody defines; {where}")
    error.undefined = name
    return error
