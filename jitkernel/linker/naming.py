"""What an object's names become: the session's symbols.  Start from `define` and `resolve`.

`define` makes symbols lead to the object's definitions (their users elsewhere are not written yet),
`resolve` finds what the object asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.ir.names import written
from jitkernel.linker import x86_64
from jitkernel.linker.image import SITE
from jitkernel.linker.symbols import Symbol, SymbolKind, SymbolState
from jitkernel.linker.x86_64 import BRANCH, GOTPCRELX
from jitkernel.rollback import set_first

if TYPE_CHECKING:
    from jitkernel.linker.placing import Placing

__all__ = ["define", "drop_groups", "is_special", "place_commons", "resolve"]

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState
UNKNOWN, FUNCTION, DATA = SymbolKind
_COMMON = (c.SHN_COMMON, c.SHN_X86_64_LCOMMON)
_SPECIAL = ("_GLOBAL_OFFSET_TABLE_", "__dso_handle", "atexit")
_BOUNDS = ("__start_", "__stop_")  # of sections


def drop_groups(placing: Placing, takeover: frozenset[str]) -> frozenset[int]:
    """Sections of COMDAT groups that another image provides."""
    obj, image, groups = placing.obj, placing.image, placing.linker.groups
    dropped: set[int] = set()
    forced: set[int] = set()
    provided: list[str] = []
    copies: list[str] = []
    private = placing.names.private
    for signature, members in obj.groups:
        if signature in private:
            continue
        name = obj.symbol_name(signature)
        provider = groups.get(name)
        if name in takeover:
            forced.update(members)
        if provider is not None and name not in takeover and provider.cell != image.cell:
            dropped.update(members)
            copies.append(name)
        else:
            provided.append(name)
    set_first(image, "groups", tuple(provided))
    set_first(image, "copies", tuple(copies))
    placing.forced = frozenset(forced)
    return frozenset(dropped)


def place_commons(placing: Placing) -> list[tuple[int, int]]:
    """Room for tentative definitions that nobody has made yet: symbol index and size."""
    found: list[tuple[int, int]] = []
    for index, name, _, _, section, align, size in placing.names.exports:
        if section not in _COMMON or name in placing.pins:
            continue
        known = placing.linker.symbols.get(name)
        if known is not None and known.state is DEFINED and _gives_way(placing, name, c.STB_WEAK):
            if known.size < size:
                raise LinkError(
                    f"{written(name)} has {known.size} bytes in the session and {size} here"
                )
            continue
        if align & (align - 1):
            raise LinkError(f"{written(name)}: alignment {align} is not a power of 2")
        used, most = placing.layout.needs.get("data", (0, 1))
        offset = (used + align - 1) & -align
        placing.layout.needs["data"] = (offset + size, max(most, align))
        placing.commons[index] = offset
        found.append((index, size))
    return found


def define(placing: Placing) -> None:
    """Make the session's symbols lead to the object's definitions, not yet their users."""
    exports: list[tuple[Symbol, int, int]] = []
    symbols, places, image = placing.linker.symbols, placing.layout.places, placing.image
    targets, pins, starts = placing.targets, placing.pins, placing.starts
    for index, name, binding, elf_type, section, value, size in placing.names.exports:
        symbol = symbols.get(name)
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
            if address not in placing.bind.arena:
                raise LinkError(f"{written(name)} lies outside the object")
        elif section == c.SHN_ABS:
            address, state = value, FIXED
        elif index in placing.commons:
            address = starts["data"] + placing.commons[index]
        elif section in _COMMON:  # defined already
            targets[index] = symbol
            continue
        else:
            raise LinkError(f"{written(name)} lies in section {section:#x}, which is not known")
        put: Callable[[Symbol, str, object], None] = setattr
        if symbol is None:
            symbol, put = Symbol(name), set_first  # what fails leaves no trace of a new symbol
            symbols[name] = symbol
            placing.new.add(symbol)
        else:
            if (
                symbol.state is DEFINED
                and _gives_way(placing, name, binding)
                and section not in placing.forced
                and index not in placing.commons
            ):
                targets[index] = symbol
                continue
            placing.saved.append((symbol, symbol.definition))
        code = elf_type == c.STT_FUNC or (elf_type == c.STT_NOTYPE and zone == "text")
        put(symbol, "kind", FUNCTION if code else DATA)
        put(symbol, "state", state)
        put(symbol, "address", address)
        put(symbol, "size", size)
        put(symbol, "image", image)
        put(symbol, "why", "")
        targets[index] = symbol
        exports.append((symbol, address, size))
    set_first(image, "_exports", tuple(exports))


def resolve(placing: Placing) -> None:
    """Resolve what the object asks for; what nobody defines is looked up in the process."""
    symbols, targets = placing.linker.symbols, placing.targets
    new: list[Symbol] = []
    asked: list[tuple[Symbol, bool]] = []
    for index, name, weak in placing.names.imports:
        symbol = symbols.get(name)
        if symbol is None or symbol.state is not DEFINED:
            special = _special(placing, name)
            if special is not None:
                targets[index] = special
                continue
        if symbol is None:
            symbol = symbols[name] = Symbol(name)
            new.append(symbol)
            placing.new.add(symbol)
        elif symbol.state is MISSING and not symbol.users:  # only held: nobody has asked yet
            new.append(symbol)
            placing.saved.append((symbol, symbol.definition))
        targets[index] = symbol
        if symbol.state is MISSING or symbol.state is NULL:
            asked.append((symbol, weak))
        if symbol.kind is UNKNOWN:
            kind = placing.kinds.get(name) if placing.kinds else None
            if kind is not None:
                symbol.kind = FUNCTION if kind == "function" else DATA
    for symbol in new:
        if symbol.kind is UNKNOWN:
            _guess_kinds(placing)
            break
    if new:
        placing.linker.table.find(new)
    for symbol, weak in asked:
        if symbol.state is MISSING and weak and not symbol.users:
            symbol.state = NULL
        elif symbol.state is NULL and not weak and symbol not in placing.new:
            placing.saved.append((symbol, symbol.definition))
            symbol.state = MISSING
        elif symbol.state is NULL and not weak:
            symbol.state = MISSING
        if symbol.state is MISSING and symbol.kind is DATA and not placing.missing:
            where = "define it in this cell or an earlier one, or load the library that has it"
            if symbol.name.startswith(("_ZTI", "_ZTV", "_ZTS", "_ZNS", "_ZSt")):
                where = "C++'s library has it: %lib libstdc++.so.6"
            raise LinkError(
                f"cell {placing.image.cell} reads {written(symbol.name)}, which nobody defines; "
                f"{where}"
            )


def _gives_way(placing: Placing, name: str, binding: int) -> bool:
    """Whether an existing definition is kept instead of the object's own."""
    return binding == c.STB_WEAK if placing.weak is None else name in placing.weak


def _guess_kinds(placing: Placing) -> None:
    """Imports of unknown kind are functions if the object ever branches to them."""
    called: set[int] = set()
    for index, entries in placing.obj.relocations.items():
        content = placing.obj.content(index)
        for offset, info, _ in entries:
            type = info & 0xFFFF_FFFF
            if (
                index in placing.layout.frames
                or type in x86_64.BRANCHES
                or (
                    type == GOTPCRELX and content[offset - 2 : offset] in (b"\xff\x15", b"\xff\x25")
                )
            ):
                called.add(info >> 32)
    for index, _, _ in placing.names.imports:
        symbol = placing.targets[index]
        if isinstance(symbol, Symbol) and symbol.kind is UNKNOWN:
            symbol.kind = FUNCTION if index in called else DATA


def is_special(name: str) -> bool:
    """Whether the linker may supply what a name means: an address, and no symbol."""
    return name in _SPECIAL or name.startswith(_BOUNDS)


def _special(placing: Placing, name: str) -> int | None:
    """The address of what only the linker can supply; None for all other names."""
    if not is_special(name):
        return None
    image = placing.image
    if name == "_GLOBAL_OFFSET_TABLE_":
        return placing.bind.got
    if name == "__dso_handle" or name == "atexit":
        if not image.dso:
            image.dso = min(placing.starts.values(), default=placing.base)
        return image.dso if name == "__dso_handle" else _atexit(placing)
    for prefix, at_end in zip(_BOUNDS, (False, True), strict=True):
        if name.startswith(prefix):
            for index, place in enumerate(placing.layout.places):
                if place and placing.obj.section_name(index) == name.removeprefix(prefix):
                    size = placing.obj.sections[index][5] if at_end else 0
                    return placing.starts.get(place[0], 0) + place[1] + size
    return None


def _atexit(placing: Placing) -> int:
    """`atexit` of this object: it registers with the object's own `__dso_handle`."""
    bind = placing.bind
    new = "__cxa_atexit" not in placing.linker.symbols
    register = placing.linker.known("__cxa_atexit", FUNCTION)
    if register is None:
        raise LinkError("atexit: the executor's process has no __cxa_atexit")
    if new:
        placing.new.add(register)
    extent = bind.arena.reserve("text", x86_64.STUB_SIZE)
    placing.image.extra += (extent,)
    code, field = x86_64.atexit_stub(extent.start, placing.image.dso)
    bind.arena.write(extent.start, code)
    at = extent.start + field - placing.base
    bind.apply(register, at, BRANCH, 0, 0, 0, -4)
    placing.uses.setdefault(register, bytearray()).extend(SITE.pack(at, BRANCH, 0, 0, 0, -4))
    return extent.start
