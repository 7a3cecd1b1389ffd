"""Places objects in the arena and keeps every reference to a symbol right.  Start from `Linker`.

Placing an object takes, in this order: its names; which COMDAT groups are already there; a layout;
extents; bytes; symbols; relocations; and only then the sites that others have of the symbols that
moved.  Whatever fails before that last step is undone and leaves nothing.

The linker knows objects, images and symbols.  What a cell is, which object replaces which and what
may be freed is the session's business.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from jitkernel.arena import Arena, Extent
from jitkernel.elf import ElfObject, read_object
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.linker import x86_64
from jitkernel.linker.image import SITE, Block, Image
from jitkernel.linker.layout import Layout, Names, arrange, read_names
from jitkernel.linker.symbols import Symbol, SymbolKind, SymbolState
from jitkernel.linker.unwind import UnwindRegion, pad, split
from jitkernel.linker.x86_64 import BRANCH, GOTPCRELX, PC32, REX_GOTPCRELX, STUB_SIZE, TABLE

__all__ = ["Linker", "OutOfRange"]

_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")
_PACK = {
    (1, True): struct.Struct("<b"), (1, False): struct.Struct("<B"),
    (2, True): struct.Struct("<h"), (2, False): struct.Struct("<H"),
    (4, True): _I32, (4, False): struct.Struct("<I"),
    (8, True): struct.Struct("<q"), (8, False): _U64,
}  # fmt: skip

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState
UNKNOWN, FUNCTION, DATA = SymbolKind

Target = int | Symbol
#: What a symbol's definition was, to put it back: state, address, size, image, kind, why.
Definition = tuple[SymbolState, int, int, "Image | None", SymbolKind, str]


class OutOfRange(Exception):
    """A relocation's value does not fit its field."""


class Linker:
    """All symbols of a session and the images that define and use them.

    `lookup` finds the addresses of names in the executor's process (0 where unknown); it is asked
    once for each new name, never for a name that the session defines.  `fixed` are symbols whose
    addresses never change: the runtime's.  `interposed` maps a C name to the fixed symbol that
    session code gets for it.
    """

    def __init__(
        self,
        arena: Arena,
        lookup: Callable[[Sequence[str]], Sequence[int]],
        fixed: Mapping[str, int] | None = None,
        interposed: Mapping[str, str] | None = None,
    ):
        self.arena = arena
        self.symbols: dict[str, Symbol] = {}
        self.unwind = UnwindRegion(arena)
        self.copies: dict[str, list[Image]] = {}
        self.groups: dict[str, Image] = {}
        self._lookup = lookup
        self._fixed = dict(fixed or {})
        self._interposed = dict(interposed or {})
        self._view, self._base = arena.view, arena.base
        self._got = arena.zones["rodata"].start
        data = arena.zones["data"]
        self._data = range(data.start - arena.base, data.stop - arena.base)
        self._cell = 0

    # -- placing -------------------------------------------------------------------------------

    def place(
        self,
        data: bytes | ElfObject,
        cell: int = 0,
        *,
        kinds: Mapping[str, str] | None = None,
        weak: frozenset[str] | None = None,
        pins: Mapping[str, int] | None = None,
        at: Mapping[str, Block] | None = None,
        write_data: bool = True,
        takeover: frozenset[str] = frozenset(),
        names: Names | None = None,
    ) -> Image:
        """Link an object and make its definitions the session's.

        `kinds` says which imports are `function` and which `variable`; `weak` which exports give
        way to an existing definition (None: those the object binds weakly).  `pins` puts data
        symbols at given addresses, `at` whole zones into blocks; `write_data` False leaves the data
        that is there.
        `takeover` names COMDAT groups to provide although another image has them.

        Raises LinkError or ArenaFull; then nothing of the object stays.
        """
        obj = read_object(data) if isinstance(data, bytes) else data
        if obj.machine != c.EM_X86_64:
            raise LinkError(f"the object is for ELF machine {obj.machine}; this session runs x86-64")
        if names is None:
            names = read_names(obj)
        image = Image(cell)
        self._cell = cell
        pins = pins or {}
        dropped = self._drop_groups(obj, image, takeover) if obj.groups else frozenset()
        pieces = None
        if pins:
            dropped |= self._pinned_sections(obj, names, pins)
            pieces = _pieces(names, pins)
        layout = arrange(obj, dropped)
        commons: dict[int, int] = {}
        if tentative := _commons(obj, names, self.symbols):
            commons = _place_commons(layout, tentative)
        saved: list[tuple[Symbol, Definition]] = []
        try:
            starts = self._reserve(image, layout, at or {})
            if pins:
                self._adopt(image, pins)
            self._write(obj, layout, starts, write_data)
            if pieces and write_data:
                self._write_pieces(obj, pieces)
            if commons:
                for index, offset in commons.items():
                    self.arena.zero(starts["data"] + offset, tentative[index][0])
            targets = self._targets(obj, layout, starts)
            self._define(image, names, layout, targets, weak, pins, commons, starts, saved)
            self._import(image, obj, names, targets, kinds or {}, layout, starts)
            self._relocate(image, obj, layout, starts, targets, pieces, write_data)
            if "rodata" in starts:
                image.init, image.fini = _arrays(obj, layout, starts, self.arena)
        except BaseException:
            self._rollback(image, saved)
            raise
        image.pins = tuple(pins.items())
        for symbol, was in saved:
            if symbol.users or symbol.stub or symbol.slot:
                self.rebind(symbol, was[1])
        for group in image.groups:
            self.groups[group] = image
        for group in image.copies:
            self.copies.setdefault(group, []).append(image)
        return image

    def unlink(self, image: Image) -> list[Symbol]:
        """Take an image out: free its extents, forget its references and definitions.

        The symbols that it still defined and that others use become missing (their callers reach
        a stub that raises); they are returned.  Whoever must not be left so asks `dependents` first.
        """
        self.forget_uses(image)
        orphans: list[Symbol] = []
        for symbol, _, _ in image.exports:
            if symbol.image is image:
                was = symbol.address
                symbol.state, symbol.address, symbol.image, symbol.size = MISSING, 0, None, 0
                if symbol.users and not self._found_far([symbol]):
                    orphans.append(symbol)
                    self.rebind(symbol, was)
                elif symbol.stub:
                    self._write_stub(symbol)
                self.drop_if_unused(symbol)
        for group in image.groups:
            if self.groups.get(group) is image:
                del self.groups[group]
        for group in image.copies:
            holders = self.copies.get(group, [])
            if image in holders:
                holders.remove(image)
            if not holders:
                self.copies.pop(group, None)
        self._release(image)
        return orphans

    def forget_uses(self, image: Image) -> None:
        """Drop an image's references to symbols."""
        for symbol in image.refs:
            users = symbol.users
            if users is not None:
                users.pop(image, None)
                if not users:
                    symbol.users = None
                    self.drop_if_unused(symbol)
        image.refs = ()

    def drop_if_unused(self, symbol: Symbol) -> None:
        """Forget a symbol that nobody defines or uses; free its stub and slots."""
        if symbol.users or symbol.held or symbol.state in (DEFINED, FAR, FIXED):
            return
        if self.symbols.get(symbol.name) is symbol:
            del self.symbols[symbol.name]
            self._free_stub(symbol)

    def hold(self, symbol: Symbol) -> None:
        """Keep a symbol's canonical entry where it is, although nobody defines or uses it."""
        symbol.held += 1

    def unhold(self, symbol: Symbol) -> None:
        """The opposite of `hold`."""
        symbol.held -= 1
        self.drop_if_unused(symbol)

    def dependents(self, image: Image) -> dict[Symbol, list[Image]]:
        """Who else uses what the image still defines, by symbol."""
        found: dict[Symbol, list[Image]] = {}
        for symbol, _, _ in image.exports:
            if symbol.image is image and symbol.users:
                others = [user for user in symbol.users if user is not image]
                if others:
                    found[symbol] = others
        return found

    def release_block(self, block: Block) -> None:
        """One holder less; the extent goes back with the last."""
        block.holders -= 1
        if block.holders == 0:
            self.arena.free(block.extent)

    # -- symbols that move ---------------------------------------------------------------------

    def redefine(self, symbol: Symbol, definition: Definition) -> None:
        """Point a symbol at an earlier definition again, all its users with it."""
        was = symbol.address
        symbol.state, symbol.address, symbol.size, symbol.image, symbol.kind, symbol.why = definition
        self.rebind(symbol, was)

    def rebind(self, symbol: Symbol, was: int) -> None:
        """Write a symbol's stub, slots and sites for where it leads now; it led to `was`.

        A site in writable data is written only where the old value still stands.
        """
        if symbol.stub:
            self._write_stub(symbol)
        if symbol.slot:
            self._write_slot(symbol)
        if symbol.users is None:
            return
        function = symbol.kind == FUNCTION
        view, base, data = self._view, self._base, self._data
        unpack = SITE.iter_unpack
        direct = symbol.address if symbol.state in (DEFINED, FIXED) else 0
        for image, packed in symbol.users.items():
            for offset, type, opcode, modrm, rex, addend in unpack(packed):
                if type == BRANCH and direct:
                    _I32.pack_into(view, offset, direct + addend - base - offset)
                    continue
                if offset in data:
                    if function:
                        continue
                    row = TABLE[type]
                    stands = int.from_bytes(view[offset : offset + row.field], "little")
                    mask = (1 << 8 * row.field) - 1
                    if row.base == "S" and stands != (was + addend) & mask:
                        continue
                try:
                    self._apply(symbol, offset, type, opcode, modrm, rex, addend)
                except OutOfRange as error:
                    raise LinkError(f"@{symbol.name} in cell {image.cell}: {error}") from None

    def retry_missing(self) -> list[Symbol]:
        """Look up again what nobody defined (a library was loaded); the symbols found."""
        missing = [s for s in self.symbols.values() if s.state in (MISSING, NULL)]
        return self._found_far(missing)

    def renew_far(self) -> list[str]:
        """Look all far symbols up again after the executor was replaced; the names that are gone."""
        far = [s for s in self.symbols.values() if s.state == FAR]
        lost: list[str] = []
        for symbol, address in zip(far, self._lookup([s.name for s in far]) if far else (), strict=True):
            was = symbol.address
            if address:
                symbol.address = address
            else:
                symbol.state, symbol.address = MISSING, 0
                lost.append(symbol.name)
            if symbol.address != was or not address:
                self._write_far_slot(symbol)
                self.rebind(symbol, was)
        return lost

    def canonical(self, symbol: Symbol) -> int:
        """A symbol's address for every use that is not a call: a function's canonical entry."""
        return self._value(symbol)

    def entry(self, symbol: Symbol) -> int:
        """Where a branch to a symbol goes: its definition where that is near, else its stub."""
        if symbol.state in (DEFINED, FIXED):
            return symbol.address
        return 0 if symbol.state == NULL else self._stub(symbol)

    def fail(self, symbol: Symbol, why: str) -> None:
        """Make calls of a symbol raise, for the reason given, until somebody defines it again."""
        was = symbol.address
        symbol.state, symbol.address, symbol.image, symbol.why = MISSING, 0, None, why
        self.rebind(symbol, was)

    def load_runtime(self, data: bytes, control: int) -> dict[str, int]:
        """Put the executor's runtime into its own regions; the addresses of what it exports.

        Its only import is `jk_control`, which is at `control`.
        """
        obj = read_object(data)
        regions = {r.name: r for r in self.arena.regions}
        layout = arrange(obj)
        room = {"text": regions["runtime.text"], "rodata": regions["runtime.text"]}
        starts = {"text": room["text"].start}
        size = layout.needs.get("text", (0, 1))[0]
        starts["rodata"] = starts["text"] + (size + 255 & -256)
        if "data" in layout.needs:
            raise LinkError("the runtime has writable data of its own")
        if starts["rodata"] + layout.needs.get("rodata", (0, 1))[0] > room["text"].stop:
            raise LinkError("the runtime is too large for its region")
        self._write(obj, layout, starts, True)
        targets = self._targets(obj, layout, starts)
        names = read_names(obj)
        for index, name, _ in names.imports:
            if name != "jk_control":
                raise LinkError(f"the runtime asks for {name}")
            targets[index] = control
        exports: dict[str, int] = {}
        for e in names.exports:
            where = layout.places[e.section] if e.section < len(layout.places) else None
            address = e.value if where is None else starts[where[0]] + where[1] + e.value
            targets[e.index] = exports[e.name] = address
        layout.frames.clear()
        self._relocate(Image(0), obj, layout, starts, targets, None, True)
        self._fixed.update(exports)
        return exports

    def check(self) -> None:
        """Prove the arena's books, the unwind region and who uses what.  Raises AssertionError."""
        self.arena.check()
        self.unwind.check()
        for name, symbol in self.symbols.items():
            if symbol.name != name:
                raise AssertionError(f"{symbol} is filed under {name}")
            for image in symbol.users or ():
                if symbol not in image.refs:
                    raise AssertionError(f"{image} uses {symbol} without knowing")
            if symbol.stub and symbol.state == DEFINED:
                target = symbol.stub + 5 + _I32.unpack_from(self._view, symbol.stub - self._base + 1)[0]
                if target != symbol.address:
                    raise AssertionError(f"the stub of {symbol} leads to {target:#x}")

    # -- the steps of placing --------------------------------------------------------------------

    def _drop_groups(self, obj: ElfObject, image: Image, takeover: frozenset[str]) -> frozenset[int]:
        dropped: set[int] = set()
        provided: list[str] = []
        copies: list[str] = []
        for signature, members in obj.groups:
            name = obj.symbol_name(signature)
            provider = self.groups.get(name)
            if provider is not None and name not in takeover and provider.cell != image.cell:
                dropped.update(members)
                copies.append(name)
            else:
                provided.append(name)
        image.groups, image.copies = tuple(provided), tuple(copies)
        return frozenset(dropped)

    def _pinned_sections(self, obj: ElfObject, names: Names, pins: Mapping[str, int]) -> frozenset[int]:
        """Data sections all of whose bytes belong to pinned symbols: they need no extent."""
        covered: dict[int, list[tuple[int, int]]] = {}
        for e in names.exports:
            if e.name in pins and e.section < c.SHN_LORESERVE:
                covered.setdefault(e.section, []).append((e.value, e.value + e.size))
        whole: set[int] = set()
        for index, ranges in covered.items():
            at = 0
            for start, stop in sorted(ranges):
                if start > at + 15:  # more than alignment between two variables
                    break
                at = max(at, stop)
            else:
                locals_here = any(
                    s[3] == index and s[1] >> 4 == 0 and s[1] & 15 != c.STT_SECTION for s in obj.symbols
                )
                if at >= obj.sections[index].size and not locals_here:
                    whole.add(index)
        return frozenset(whole)

    def _adopt(self, image: Image, pins: Mapping[str, int]) -> None:
        """Hold the blocks that pinned symbols lie in."""
        for name in pins:
            symbol = self.symbols.get(name)
            owner = symbol.image if symbol is not None else None
            for block in owner.blocks if owner is not None else ():
                extent = block.extent
                if extent.start <= pins[name] < extent.stop and block not in image.adopted:
                    block.holders += 1
                    image.adopted += (block,)

    def _write_pieces(self, obj: ElfObject, pieces: Mapping[int, list[tuple[int, int, int]]]) -> None:
        for index, ranges in pieces.items():
            content = obj.content(index)
            for low, high, address in ranges:
                if content:
                    self.arena.write(address, content[low:high])
                else:
                    self.arena.zero(address, high - low)

    def _reserve(self, image: Image, layout: Layout, at: Mapping[str, Block]) -> dict[str, int]:
        starts: dict[str, int] = {}
        arena = self.arena
        for zone, (size, align) in layout.needs.items():
            if zone == "text":
                image.text = extent = arena.reserve(zone, size, align)
            else:
                block = at.get(zone)
                if block is None:
                    extent = arena.reserve(zone, size, align)
                    block = Block(extent)
                else:
                    extent = block.extent
                    block.holders += 1
                if zone == "rodata":
                    image.rodata = block
                else:
                    image.data = block
            starts[zone] = extent[1]
        return starts

    def _write(self, obj: ElfObject, layout: Layout, starts: Mapping[str, int], data: bool) -> None:
        """Copy the sections; what lies between two of them becomes int3 or zero."""
        view, base, raw, sections = self._view, self._base, obj.data, obj.sections
        ends = dict(starts)
        for index, place in enumerate(layout.places):
            if place is None:
                continue
            zone, offset = place
            s = sections[index]
            size = s.size
            if not size or (zone == "data" and not data):
                continue
            address = starts[zone] + offset
            gap = address - ends[zone]
            if gap > 0:
                fill = b"\xcc" if zone == "text" else b"\0"
                view[ends[zone] - base : address - base] = fill * gap
            ends[zone] = address + size
            if s.type == c.SHT_NOBITS:
                self.arena.zero(address, size)
            else:
                view[address - base : address - base + size] = raw[s.offset : s.offset + size]

    def _targets(self, obj: ElfObject, layout: Layout, starts: Mapping[str, int]) -> list[Target | None]:
        """By symbol index: the address of a local symbol; None where it has none."""
        places = layout.places
        targets: list[Target | None] = []
        for _, info, _, section, value, _ in obj.symbols:
            if info >> 4:
                targets.append(None)
            elif section >= c.SHN_LORESERVE:
                targets.append(value if section == c.SHN_ABS else None)
            else:
                place = places[section]
                targets.append(None if place is None else starts.get(place[0], 0) + place[1] + value)
        return targets

    def _define(
        self,
        image: Image,
        names: Names,
        layout: Layout,
        targets: list[Target | None],
        weak: frozenset[str] | None,
        pins: Mapping[str, int],
        commons: Mapping[int, int],
        starts: Mapping[str, int],
        saved: list[tuple[Symbol, Definition]],
    ) -> None:
        """Make the session's symbols lead to the object's definitions, not yet their users."""
        exports: list[tuple[Symbol, int, int]] = []
        symbols, places = self.symbols, layout.places
        for index, name, binding, elf_type, section, value, size in names.exports:
            symbol = symbols.get(name)
            state, zone = DEFINED, ""
            if section < c.SHN_LORESERVE:
                place = places[section]
                if name in pins:
                    address = pins[name]
                elif place is not None:
                    zone = place[0]
                    address = starts.get(zone, 0) + place[1] + value
                elif symbol is not None:  # in a COMDAT group that another image provides
                    targets[index] = symbol
                    continue
                else:
                    continue
            elif section == c.SHN_ABS:
                address, state = value, FIXED
            elif index in commons:
                address = starts["data"] + commons[index]
            else:  # common, and defined already
                targets[index] = symbol
                continue
            gives_way = binding == c.STB_WEAK if weak is None else name in weak
            if symbol is None:
                symbol = symbols[name] = Symbol(name)
            elif gives_way and symbol.state == DEFINED:
                targets[index] = symbol
                continue
            saved.append(
                (symbol, (symbol.state, symbol.address, symbol.size, symbol.image, symbol.kind, symbol.why))
            )
            if elf_type == c.STT_FUNC:
                symbol.kind = FUNCTION
            elif elf_type == c.STT_NOTYPE:
                symbol.kind = FUNCTION if zone == "text" else DATA
            else:
                symbol.kind = DATA
            symbol.state, symbol.address, symbol.size = state, address, size
            symbol.image, symbol.why = image, ""
            targets[index] = symbol
            exports.append((symbol, address, size))
        image.exports = tuple(exports)

    def _import(
        self,
        image: Image,
        obj: ElfObject,
        names: Names,
        targets: list[Target | None],
        kinds: Mapping[str, str],
        layout: Layout,
        starts: Mapping[str, int],
    ) -> None:
        """Resolve what the object asks for; what nobody defines is looked up in the process once."""
        symbols = self.symbols
        new: list[Symbol] = []
        asked: list[tuple[Symbol, bool]] = []
        for index, name, weak in names.imports:
            symbol = symbols.get(name)
            if symbol is None or symbol.state != DEFINED:
                special = self._special(name, image, obj, layout, starts)
                if special is not None:
                    targets[index] = special
                    continue
            if symbol is None:
                symbol = symbols[name] = Symbol(name)
                new.append(symbol)
            if symbol.kind == UNKNOWN:
                kind = kinds.get(name)
                if kind is None:
                    branches = any(
                        info >> 32 == index and info & 0xFFFF_FFFF == BRANCH
                        for relocations in obj.relocations.values()
                        for _, info, _ in relocations
                    )
                    kind = "function" if branches else "variable"
                symbol.kind = FUNCTION if kind == "function" else DATA
            targets[index] = symbol
            if symbol.state == MISSING or symbol.state == NULL:
                asked.append((symbol, weak))
        if new:
            self._found_far(new)
        for symbol, weak in asked:
            if symbol.state == MISSING and weak and not symbol.users:
                symbol.state = NULL
            elif symbol.state == NULL and not weak:
                symbol.state = MISSING
                self.rebind(symbol, 0)
            if symbol.state == MISSING and symbol.kind == DATA:
                raise LinkError(
                    f"cell {self._cell} reads @{symbol.name}, which nobody defines; define it in this "
                    "cell or an earlier one, or load the library that has it"
                )

    def _special(
        self, name: str, image: Image, obj: ElfObject, layout: Layout, starts: Mapping[str, int]
    ) -> int | None:
        """The address of what only the linker can supply; None for all other names."""
        if name[0] not in "_a":
            return None
        if name == "_GLOBAL_OFFSET_TABLE_":
            return self._got
        if name == "__dso_handle" or name == "atexit":
            if not image.dso:
                image.dso = min(starts.values())
            if name == "__dso_handle":
                return image.dso
            register = self.known("__cxa_atexit", FUNCTION)
            extent = self.arena.reserve("text", STUB_SIZE)
            image.extra += (extent,)
            code = x86_64.atexit_stub(extent.start, image.dso, self.entry(register))
            self.arena.write(extent.start, code)
            return extent.start
        for prefix, at_end in (("__start_", False), ("__stop_", True)):
            if name.startswith(prefix):
                for index, place in enumerate(layout.places):
                    if place is not None and obj.section_name(index) == name.removeprefix(prefix):
                        return starts[place[0]] + place[1] + at_end * obj.sections[index].size
        return None

    def known(self, name: str, kind: SymbolKind) -> Symbol:
        """The symbol called `name`, looked up in the executor's process where it is new."""
        symbol = self.symbols.get(name)
        if symbol is None:
            symbol = self.symbols[name] = Symbol(name, kind)
            self._found_far([symbol])
        return symbol

    def _found_far(self, symbols: Sequence[Symbol]) -> list[Symbol]:
        """Give symbols that the runtime or the executor's process has their addresses there."""
        found: list[Symbol] = []
        ask: list[Symbol] = []
        for symbol in symbols:
            fixed = self._fixed.get(self._interposed.get(symbol.name, symbol.name))
            if fixed is None:
                ask.append(symbol)
            else:
                symbol.state, symbol.address = FIXED, fixed
                found.append(symbol)
        if ask:
            for symbol, address in zip(ask, self._lookup([s.name for s in ask]), strict=True):
                if address:
                    symbol.state, symbol.address = FAR, address
                    found.append(symbol)
        for symbol in found:
            if symbol.users or symbol.stub:
                self.rebind(symbol, 0)
        return found

    def _relocate(
        self,
        image: Image,
        obj: ElfObject,
        layout: Layout,
        starts: Mapping[str, int],
        targets: list[Target | None],
        pieces: Mapping[int, list[tuple[int, int, int]]] | None,
        write_data: bool,
    ) -> None:
        uses: dict[Symbol, bytearray] = {}
        base, places = self._base, layout.places
        for index, relocations in obj.relocations.items():
            if index in layout.frames:
                continue
            place = places[index]
            moved = pieces.get(index) if pieces else None
            if place is None and moved is None:
                continue
            start = starts.get(place[0], 0) + place[1] - base if place is not None else 0
            text = place is not None and place[0] == "text"
            write = write_data or text
            for offset, info, addend in relocations:
                at = start + offset
                if moved is not None:
                    for low, high, address in moved:
                        if low <= offset < high:
                            at = address + offset - low - base
                try:
                    self._site(uses, targets[info >> 32], at, info & 0xFFFF_FFFF, addend, text, write)
                except (OutOfRange, LinkError) as error:
                    raise self._refusal(obj, index, offset, info, addend, str(error)) from None
        for index in layout.frames:
            self._frames(image, obj, index, targets, uses)
        refs = tuple(uses)
        for symbol, packed in uses.items():
            if symbol.users is None:
                symbol.users = {}
            symbol.users[image] = bytes(packed)
        image.refs = refs

    def _site(
        self,
        uses: dict[Symbol, bytearray],
        target: Target | None,
        at: int,
        type: int,
        addend: int,
        text: bool,
        write: bool,
    ) -> None:
        """Relocate one field at `at` (an offset into the slab) and remember it as a site."""
        opcode = modrm = rex = 0
        view = self._view
        if type == PC32:
            if text and view[at - 1] & 0xFE == 0xE8:  # call and jmp, as older compilers mark them
                type = BRANCH
        elif type == GOTPCRELX or type == REX_GOTPCRELX:
            if addend != -4:
                type = x86_64.GOTPCREL
            else:
                opcode, modrm = view[at - 2], view[at - 1]
                rex = view[at - 3] if type == REX_GOTPCRELX else 0
        if target is None:
            raise LinkError("refers to a section that is not loaded")
        if write:
            self._apply(target, at, type, opcode, modrm, rex, addend)
        if type and not isinstance(target, int):
            packed = SITE.pack(at, type, opcode, modrm, rex, addend)
            if target in uses:
                uses[target] += packed
            else:
                uses[target] = bytearray(packed)

    def _apply(
        self, target: Target, at: int, type: int, opcode: int, modrm: int, rex: int, addend: int
    ) -> None:
        """Write one field.  Raises OutOfRange when the value does not fit it."""
        local = isinstance(target, int)
        if type == BRANCH:
            entry = target if local else self.entry(target)  # type: ignore[arg-type]
            value = entry + addend - self._base - at  # type: ignore[operator]
            if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
                raise OutOfRange(f"S + A - P = {value:#x} does not fit 32 signed bits")
            _I32.pack_into(self._view, at, value)
            return
        view, base = self._view, self._base
        if opcode:
            if local:
                value = entry = target  # type: ignore[assignment]
                far = False
            else:
                far = target.state == FAR and target.kind != FUNCTION  # type: ignore[union-attr]
                value = 0 if far else self._value(target)  # type: ignore[arg-type]
                entry = 0 if far else self.entry(target)  # type: ignore[arg-type]
            if not far and x86_64.relax(view, at, base, opcode, modrm, rex, value, entry, 0):
                return
            if local:
                raise OutOfRange("this instruction needs a GOT slot for a local symbol")
            slot = self._slot(target)  # type: ignore[arg-type]
            x86_64.relax(view, at, base, opcode, modrm, rex, value, entry, slot)
            return
        row = TABLE.get(type)
        if row is None:
            if type == 0:
                return
            why = x86_64.REFUSED.get(type, "this relocation type is unknown")
            raise LinkError(f"relocation type {type}: {why}")
        kind = row.base
        if local:
            if kind == "G":
                raise OutOfRange(f"{row.name} asks for a GOT slot of a local symbol")
            value = 0 if kind in "0Z" else target  # type: ignore[assignment]
        elif kind == "S":
            value = self._value(target)  # type: ignore[arg-type]
        elif kind == "L":
            value = self.entry(target)  # type: ignore[arg-type]
        elif kind == "G":
            value = self._slot(target)  # type: ignore[arg-type]
        else:
            value = target.size if kind == "Z" else 0  # type: ignore[union-attr]
        value += addend + row.got * self._got
        if row.relative:
            value -= base + at
        if not row.low <= value <= row.high:
            raise OutOfRange(f"{row.name}: {row.formula} = {value:#x} does not fit {8 * row.field} bits")
        _PACK[row.field, value < 0].pack_into(view, at, value)

    def _frames(
        self,
        image: Image,
        obj: ElfObject,
        index: int,
        targets: list[Target | None],
        uses: dict[Symbol, bytearray],
    ) -> None:
        """Put an object's call frame information into the unwind region."""
        records = split(obj.content(index))
        relocations = sorted(obj.relocations.get(index, ()))
        mine: list[list[tuple[int, int, int]]] = []
        position = 0
        for record in records:
            end = record.offset + len(record.content)
            first = position
            while position < len(relocations) and relocations[position][0] < end:
                position += 1
            mine.append(relocations[first:position])
        cies: dict[int, int] = {}
        kept: list[tuple[int, int, bytes]] = []  # place in `records`, offset in the extent, bytes
        size = 0
        for i, record in enumerate(records):
            if record.cie < 0 and not mine[i]:
                cies[record.offset] = self.unwind.shared_cie(record.content)
                continue
            if record.cie >= 0 and (not mine[i] or targets[mine[i][0][1] >> 32] is None):
                continue  # of a function that is not loaded
            content = record.content if len(record.content) % 8 == 0 else pad(record.content)
            kept.append((i, size, content))
            size += len(content)
        if not size:
            return
        extent = self.unwind.reserve(size)
        image.unwind = extent if image.unwind is None else image.unwind
        if image.unwind is not extent:
            image.extra += (extent,)
        start = extent[1]
        base, view = self._base, self._view
        for i, offset, content in kept:
            address = start + offset
            record = records[i]
            view[address - base : address - base + len(content)] = content
            if record.cie < 0:
                cies[record.offset] = address
            else:
                cie = cies.get(record.cie)
                if cie is None:
                    raise LinkError(f".eh_frame+{record.offset:#x} names no CIE before it")
                _I32.pack_into(view, address - base + 4, address + 4 - cie)
            for at, info, addend in mine[i]:
                target = targets[info >> 32]
                where = address - base + at - record.offset
                try:
                    self._site(uses, target, where, info & 0xFFFF_FFFF, addend, False, True)
                except (OutOfRange, LinkError) as error:
                    raise self._refusal(obj, index, at, info, addend, str(error)) from None

    def _refusal(
        self, obj: ElfObject, index: int, offset: int, info: int, addend: int, why: str
    ) -> LinkError:
        row = TABLE.get(info & 0xFFFF_FFFF)
        name = row.name if row else f"relocation type {info & 0xFFFF_FFFF}"
        symbol = obj.symbol_name(info >> 32)
        hint = ""
        if self._base + self.arena.capacity > 1 << 31:
            hint = "; the arena lies above 2 GiB here, where only position-independent code links"
        return LinkError(
            f"cell {self._cell}: {obj.section_name(index)}+{offset:#x}: {name} against "
            f"{symbol}{addend:+#x}: {why}{hint}"
        )

    # -- stubs and slots -------------------------------------------------------------------------

    def _value(self, symbol: Symbol) -> int:
        if symbol.kind == FUNCTION and symbol.state in (DEFINED, FAR, MISSING):
            return self._stub(symbol)
        return symbol.address

    def _stub(self, symbol: Symbol) -> int:
        if not symbol.stub:
            symbol.stub = self.arena.reserve("text", STUB_SIZE)[1]
            self._write_stub(symbol)
        return symbol.stub

    def _write_stub(self, symbol: Symbol) -> None:
        stub = symbol.stub
        if symbol.state == FAR:
            if not symbol.far_slot:
                symbol.far_slot = self.arena.reserve("rodata", 8)[1]
            self._write_far_slot(symbol)
            code = x86_64.far_stub(stub, symbol.far_slot)
        elif symbol.state in (DEFINED, FIXED):
            code = x86_64.jump_stub(stub, symbol.address)
        else:
            code = x86_64.raise_stub(stub, self._fixed["jk_raise"])
        self._view[stub - self._base : stub - self._base + STUB_SIZE] = code

    def _write_far_slot(self, symbol: Symbol) -> None:
        if symbol.far_slot:
            _U64.pack_into(self._view, symbol.far_slot - self._base, symbol.address)

    def _slot(self, symbol: Symbol) -> int:
        if not symbol.slot:
            symbol.slot = self.arena.reserve("rodata", 8)[1]
            self._write_slot(symbol)
        return symbol.slot

    def _write_slot(self, symbol: Symbol) -> None:
        _U64.pack_into(self._view, symbol.slot - self._base, self._value(symbol))

    def _free_stub(self, symbol: Symbol) -> None:
        if symbol.stub:
            self.arena.free(Extent("text", symbol.stub, STUB_SIZE))
        for slot in (symbol.slot, symbol.far_slot):
            if slot:
                self.arena.free(Extent("rodata", slot, 8))
        symbol.stub = symbol.slot = symbol.far_slot = 0

    # -- undoing ---------------------------------------------------------------------------------

    def _rollback(self, image: Image, saved: Iterable[tuple[Symbol, Definition]]) -> None:
        for symbol, (state, address, size, owner, kind, why) in saved:
            symbol.state, symbol.address, symbol.size = state, address, size
            symbol.image, symbol.kind, symbol.why = owner, kind, why
            if symbol.stub:
                self._write_stub(symbol)
            if symbol.slot:
                self._write_slot(symbol)
        for symbol, users in [(s, s.users) for s in self.symbols.values() if s.users]:
            if users and image in users:
                del users[image]
        for symbol in list(self.symbols.values()):
            if symbol.state in (MISSING, NULL) and not symbol.users:
                self.drop_if_unused(symbol)
        self._release(image)

    def _release(self, image: Image) -> None:
        if image.text is not None:
            self.arena.free(image.text)
        if image.unwind is not None:
            self.unwind.free(image.unwind)
        for extent in image.extra:
            if extent.zone == "unwind":
                self.unwind.free(extent)
            else:
                self.arena.free(extent)
        for block in image.blocks:
            self.release_block(block)
        image.text = image.unwind = image.rodata = image.data = None
        image.extra, image.adopted = (), ()


def _commons(obj: ElfObject, names: Names, symbols: Mapping[str, Symbol]) -> dict[int, tuple[int, int]]:
    """Tentative definitions that nobody has made yet: symbol index to (size, alignment)."""
    found: dict[int, tuple[int, int]] = {}
    for e in names.exports:
        if e.section in (c.SHN_COMMON, c.SHN_X86_64_LCOMMON):
            known = symbols.get(e.name)
            if known is None or known.state != DEFINED:
                found[e.index] = (e.size, e.value)
    return found


def _pieces(names: Names, pins: Mapping[str, int]) -> dict[int, list[tuple[int, int, int]]]:
    """By section: `(start, stop, address)` of what pinned symbols put elsewhere."""
    pieces: dict[int, list[tuple[int, int, int]]] = {}
    for e in names.exports:
        if e.name in pins and e.section < c.SHN_LORESERVE:
            pieces.setdefault(e.section, []).append((e.value, e.value + e.size, pins[e.name]))
    return pieces


def _place_commons(layout: Layout, commons: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Room for tentative definitions behind the object's data: symbol index to offset."""
    offsets: dict[int, int] = {}
    for index, (size, align) in commons.items():
        used, most = layout.needs.get("data", (0, 1))
        offset = (used + align - 1) & -align
        layout.needs["data"] = (offset + size, max(most, align))
        offsets[index] = offset
    return offsets


def _arrays(
    obj: ElfObject, layout: Layout, starts: Mapping[str, int], arena: Arena
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Constructors and destructors, in the order they run (gABI "Initialization and Termination")."""
    found: dict[int, list[tuple[int, tuple[int, ...]]]] = {c.SHT_INIT_ARRAY: [], c.SHT_FINI_ARRAY: []}
    for index, section in enumerate(obj.sections):
        place = layout.places[index] if index < len(layout.places) else None
        if section.type in found and place is not None and section.size:
            suffix = obj.section_name(index).rpartition(".")[2]
            priority = int(suffix) if suffix.isdigit() else 1 << 16
            content = arena.read(starts[place[0]] + place[1], section.size)
            found[section.type].append((priority, struct.unpack(f"<{section.size // 8}Q", content)))
    init = tuple(a for _, array in sorted(found[c.SHT_INIT_ARRAY]) for a in array)
    fini = tuple(a for _, array in sorted(found[c.SHT_FINI_ARRAY]) for a in array)
    return init, fini[::-1]
