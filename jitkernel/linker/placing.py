"""One object on its way into the arena, step by step.  Start from `Placing.link`.

Nothing that the session has is changed before `commit`, except symbols whose new definition is in
the object.  An object that cannot be linked leaves nothing: see `Linker.place`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jitkernel.arena import Extent
from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.errors import ArenaFull, LinkError
from jitkernel.linker import x86_64
from jitkernel.linker.binding import OutOfRange, Target
from jitkernel.linker.exceptions import through_slots
from jitkernel.linker.frames import place_frames
from jitkernel.linker.hibernation import pointed
from jitkernel.linker.image import SITE, Block, Image
from jitkernel.linker.layout import Names, arrange, initialisers
from jitkernel.linker.naming import define, drop_groups, place_commons, resolve
from jitkernel.linker.pins import Piece, pieces, pinned_sections
from jitkernel.linker.symbols import Definition, Symbol, SymbolKind, SymbolState
from jitkernel.linker.x86_64 import (
    BRANCH,
    GOTPCREL,
    GOTPCRELX,
    PC32,
    RELAXABLE,
    REX_GOTPCRELX,
    TABLE,
)
from jitkernel.rollback import RecordedDict, set_first

if TYPE_CHECKING:
    from jitkernel.linker.linker import Linker

__all__ = ["Placing"]

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState
UNKNOWN, FUNCTION, DATA = SymbolKind
_I32 = struct.Struct("<i")


class Placing:
    """An object, where its parts go, and what must be undone if it cannot be linked.

    The order is: `link`, then `commit`, in an atomic block.  The parameters are those of
    `Linker.place`.
    """

    __slots__ = (
        "at", "base", "bind", "commons", "forced", "image", "kinds", "layout", "linker",
        "missing", "names", "new", "obj", "pieces", "pins", "private", "saved", "starts", "targets",
        "text_was", "uses", "view", "weak", "write_data",
    )  # fmt: skip

    def __init__(
        self,
        linker: Linker,
        obj: ElfObject,
        names: Names,
        cell: int,
        kinds: Mapping[str, str] | None = None,
        weak: frozenset[str] | None = None,
        pins: Mapping[str, int] | None = None,
        at: Mapping[str, Block] | None = None,
        write_data: bool = True,
    ):
        self.linker, self.obj, self.names = linker, obj, names
        self.kinds, self.weak, self.at, self.write_data = kinds, weak, at, write_data
        self.pins: Mapping[str, int] = pins or {}
        self.missing = False
        self.bind = linker.bind
        self.view, self.base = linker.bind.view, linker.bind.base
        self.image = Image(cell)
        self.forced: frozenset[int] = frozenset()
        self.text_was = 0
        self.pieces: dict[int, list[Piece]] = {}
        self.commons: dict[int, int] = {}
        self.starts: dict[str, int] = {}
        self.targets: list[Target | None] = []
        self.uses: dict[Symbol, bytearray] = {}
        self.private: dict[int, Symbol] = {}
        #: symbols that did not exist, and definitions that the object's replace
        self.new: set[Symbol] = set()
        self.saved: list[tuple[Symbol, Definition]] = []

    def link(self, takeover: frozenset[str] = frozenset()) -> None:
        """Everything but the users that the object's symbols have elsewhere.

        Raises LinkError or ArenaFull.
        """
        obj = self.obj
        dropped = drop_groups(self, takeover) if obj.groups else frozenset()
        if self.pins:
            self.pieces = pieces(obj, self.names, self.pins)
            dropped |= pinned_sections(obj, self.pieces)
        self.layout = arrange(obj, dropped)
        tentative = place_commons(self)
        self._reserve()
        if self.pins:
            self._adopt()
        self.copy()
        for index, size in tentative:
            self.bind.arena.zero(self.starts["data"] + self.commons[index], size)
        self.find_locals()
        define(self)
        if self.names.imports:
            resolve(self)
        if obj.relocations or self.layout.frames:
            self.relocate()
        if "rodata" in self.starts:
            self._find_initialisers()

    def commit(self) -> None:
        """Write the users that the object's symbols have elsewhere.

        Raises LinkError where one of them cannot hold the new address.
        """
        image = self.image
        for symbol, was in self.saved:
            if symbol.users or symbol.stub or symbol.slot:
                self.bind.rebind(symbol, self.bind.held_value(was, symbol.stub))
        image.pins = tuple(self.pins.items())

    # -- the steps -------------------------------------------------------------------------------

    def _reserve(self) -> None:
        image, arena, starts = self.image, self.bind.arena, self.starts
        for zone, (size, align) in self.layout.needs.items():
            if zone == "text":
                extent = self._reserve_text(size, align)
                self.linker.put_code(image, extent)
                starts[zone] = extent[1]
                continue
            block = self.at.get(zone) if self.at else None
            if block is None:
                block = Block(arena.reserve(zone, size, align))
            elif block.extent.size < size or block.extent.start & (align - 1):
                raise LinkError(
                    f"{size} bytes of {zone} aligned to {align} do not fit the extent they had"
                )
            else:
                block.holders += 1
            if zone == "rodata":
                set_first(image, "rodata", block)
            else:
                set_first(image, "data", block)
            starts[zone] = block.extent[1]

    def _reserve_text(self, size: int, align: int) -> Extent:
        """Room for the code: where it was before, if it fills a hole there, or if the program may
        have pointers into it.  To cut up a larger hole only to be back would waste text."""
        arena, was = self.bind.arena, self.text_was
        if was and was & (align - 1) == 0 and (arena.fills("text", was, size) or pointed(self.obj)):
            try:
                return arena.reserve_at("text", was, size)
            except ArenaFull:
                pass
        return arena.reserve("text", size, align)

    def _adopt(self) -> None:
        """Hold the blocks that pinned symbols lie in."""
        image = self.image
        for name, address in self.pins.items():
            symbol = self.linker.symbols.get(name)
            owner = symbol.image if symbol is not None else None
            for block in owner.blocks if owner is not None else ():
                start, size = block.extent[1], block.extent[2]
                if start <= address < start + size and block not in image.adopted:
                    block.holders += 1
                    image.adopted += (block,)

    def copy(self) -> None:
        """Copy the sections; what lies between two of them, or behind code, is int3 or zero."""
        view, base, obj, starts = self.view, self.base, self.obj, self.starts
        raw, sections, arena = obj.data, obj.sections, self.bind.arena
        ends = dict(starts)
        index = -1
        for place in self.layout.places:
            index += 1
            if place is None:
                continue
            zone, offset = place
            _, kind, _, _, source, size, _, _, _, _ = sections[index]
            if not size or (zone == "data" and not self.write_data):
                continue
            address = starts[zone] + offset
            if (gap := address - ends[zone]) > 0:
                fill = b"\xcc" if zone == "text" else b"\0"
                view[ends[zone] - base : address - base] = fill * gap
            ends[zone] = address + size
            if kind == c.SHT_NOBITS:
                arena.zero(address, size)
            else:
                view[address - base : address - base + size] = raw[source : source + size]
        if (text := self.image.text) is not None:
            view[ends["text"] - base : text.stop - base] = b"\xcc" * (text.stop - ends["text"])
        if self.pieces and self.write_data:
            for section, ranges in self.pieces.items():
                content = obj.content(section)
                for piece in ranges:
                    size = piece.stop - piece.start
                    arena.save(piece.address, size)
                    if content:
                        arena.write(piece.address, content[piece.start : piece.stop])
                    else:
                        arena.zero(piece.address, size)

    def find_locals(self) -> None:
        """By symbol index: the address of a local symbol; None where it has none."""
        places, starts, targets = self.layout.places, self.starts, self.targets
        for _, info, _, section, value, _ in self.obj.symbols:
            if info >> 4:
                targets.append(None)
            elif section == 0 or section == c.SHN_ABS:
                targets.append(value)
            elif section >= c.SHN_LORESERVE or (place := places[section]) is None:
                targets.append(None)
            else:
                targets.append(starts.get(place[0], 0) + place[1] + value)
        for index in self.names.private:
            _, _, _, section, value, _ = self.obj.symbols[index]
            if section < c.SHN_LORESERVE and (place := places[section]) is not None:
                targets[index] = starts.get(place[0], 0) + place[1] + value

    def relocate(self) -> None:
        """Apply every relocation, and remember those that refer to a symbol as its sites."""
        base, places, targets, site = self.base, self.layout.places, self.targets, self.site
        frames, sections, count = self.layout.frames, self.obj.sections, len(self.targets)
        for index, entries in self.obj.relocations.items():
            place = places[index]
            moved = self.pieces.get(index) if self.pieces else None
            if place is None and moved is None:
                continue
            start = self.starts.get(place[0], 0) + place[1] - base if place is not None else 0
            name, _, _, _, _, size, _, _, _, _ = sections[index]
            if frames and self.obj.names.startswith(b".gcc_except_table", name):
                entries = through_slots(self, index, start + base, entries)
            for entry in entries:
                offset, info, _ = entry
                if offset + 8 > size:
                    self._check_field(index, entry, size)
                if info >> 32 >= count:
                    raise LinkError(
                        f"cell {self.image.cell}: {self.obj.section_name(index)}+{offset:#x}: "
                        f"a relocation against symbol {info >> 32} of {count}"
                    )
                at = start + offset
                if moved is not None:
                    for low, high, address in moved:
                        if low <= offset < high:
                            at = address + offset - low - base
                site(targets[info >> 32], at, index, entry)
        for index in frames:
            place_frames(self, index)
        image, uses = self.image, self.uses
        if uses:
            set_first(image, "refs", tuple(uses))
            for symbol, packed in uses.items():
                if symbol.users is None:
                    symbol.users = RecordedDict({image: bytes(packed)})
                else:
                    symbol.users[image] = bytes(packed)
        for symbol in self.private.values():
            if symbol.slot:
                image.extra += (Extent("rodata", symbol.slot, 8),)

    def site(
        self, target: Target | None, at: int, section: int, entry: tuple[int, int, int]
    ) -> None:
        """Relocate one field at `at`, an offset into the slab."""
        offset, info, addend = entry
        type = info & 0xFFFF_FFFF
        if (type == PC32 or type == BRANCH) and target.__class__ is int and self.write_data:
            value = target + addend - self.base - at  # type: ignore[operator]
            if -0x8000_0000 <= value <= 0x7FFF_FFFF:  # most are of this kind
                _I32.pack_into(self.view, at, value)
                return
        opcode = modrm = rex = 0
        if type == PC32 or type == GOTPCRELX or type == REX_GOTPCRELX:
            view, rexed = self.view, type == REX_GOTPCRELX
            code = self.obj.sections[section][2] & c.SHF_EXECINSTR
            if type == PC32:
                if code and offset and view[at - 1] & 0xFE == 0xE8:
                    type = BRANCH  # call and jmp, as older compilers mark them
            elif code and addend == -4 and offset >= 2 + rexed and view[at - 2] in RELAXABLE:
                opcode, modrm = view[at - 2], view[at - 1]
                rex = view[at - 3] if rexed else 0
            else:
                type = GOTPCREL
        elif type == 0:
            return
        try:
            if target is None:
                raise LinkError("refers to a section that is not loaded")
            if target.__class__ is Symbol:
                if self.write_data or self._is_fixed(at):
                    self.bind.apply(target, at, type, opcode, modrm, rex, addend)
                elif type not in TABLE:
                    raise LinkError(x86_64.REFUSED.get(type, "this relocation type is not known"))
                packed = SITE.pack(at, type, opcode, modrm, rex, addend)
                if target in self.uses:
                    self.uses[target] += packed  # type: ignore[index]
                else:
                    self.uses[target] = bytearray(packed)  # type: ignore[index]
            elif self.write_data or self._is_fixed(at):
                row = TABLE.get(type)
                if row is not None and row.base == "G":
                    target = self._private(target)  # type: ignore[arg-type]
                elif row is not None and row.base == "Z":
                    addend += self.obj.symbols[info >> 32][5]
                self.bind.apply(target, at, type, opcode, modrm, rex, addend)
            elif self.text_was and self._led_to_text(target, at, type, addend):  # type: ignore[arg-type]
                self.bind.apply(target, at, type, opcode, modrm, rex, addend)
        except (OutOfRange, LinkError) as error:
            raise self._refusal(section, entry, str(error)) from None

    def _led_to_text(self, target: int, at: int, type: int, addend: int) -> bool:
        """Whether a field in a variable still holds an address of the code where that was."""
        text, row = self.image.text, TABLE.get(type)
        if text is None or not text.start <= target <= text.start + text.size:
            return False
        if row is None or row.base != "S" or row.relative:
            return False
        was = target - text.start + self.text_was + addend
        stands = int.from_bytes(self.view[at : at + row.field], "little")
        return stands == was & (1 << 8 * row.field) - 1

    def _is_fixed(self, at: int) -> bool:
        """Whether a field lies outside writable data."""
        zone = self.bind.arena.zones["data"]
        return not zone.start <= at + self.base < zone.stop

    def _private(self, address: int) -> Symbol:
        """A symbol without a name, for an address of the object that needs a GOT slot."""
        symbol = self.private.get(address)
        if symbol is None:
            symbol = self.private[address] = Symbol("", DATA)
            symbol.state, symbol.address = FIXED, address
        return symbol

    def _find_initialisers(self) -> None:
        """What runs when the image comes and goes: its own functions, whoever redefines them."""
        image = self.image
        arrays = initialisers(self.obj, self.layout, self.starts, self.bind.arena)
        if arrays[0] or arrays[1]:
            own = {symbol.stub: address for symbol, address, _ in image.exports if symbol.stub}
            image.init, image.fini = (tuple(own.get(a, a) for a in array) for array in arrays)

    def _check_field(self, section: int, entry: tuple[int, int, int], size: int) -> None:
        row = TABLE.get(entry[1] & 0xFFFF_FFFF)
        if row is not None and entry[0] + row.field > size:
            raise self._refusal(section, entry, f"the section ends before the field: {size} bytes")

    def _refusal(self, section: int, entry: tuple[int, int, int], why: str) -> LinkError:
        obj, (offset, info, addend) = self.obj, entry
        row = TABLE.get(info & 0xFFFF_FFFF)
        name = row.name if row else f"relocation type {info & 0xFFFF_FFFF}"
        symbol = obj.symbol_name(info >> 32) if info >> 32 < len(obj.symbols) else "no symbol"
        hint = ""
        if self.base + self.bind.arena.capacity > 1 << 31:
            hint = "; the arena lies above 2 GiB here, where only position-independent code links"
        return LinkError(
            f"cell {self.image.cell}: {obj.section_name(section)}+{offset:#x}: {name} against "
            f"{symbol}{addend:+#x}: {why}{hint}"
        )
