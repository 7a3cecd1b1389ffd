"""The bytes of an object as they will be in memory, and what of them is relocated when they are.

Start from `Content.add_field`.
"""

from __future__ import annotations

import struct

from jitkernel.arena import Extent
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.linker import x86_64
from jitkernel.linker.binding import Target
from jitkernel.linker.records import SITE, Symbol, SymbolKind, SymbolState, hold, new_symbol
from jitkernel.linker.resolution import Job
from jitkernel.linker.x86_64 import (
    BRANCH,
    GOTPCREL,
    GOTPCRELX,
    PC32,
    RELAXABLE,
    REX_GOTPCRELX,
    TABLE,
    Relocation,
)

_I32 = struct.Struct("<i")

#: A relocation as the object has it: offset, info, addend.
Entry = tuple[int, int, int]
#: A field to be written: what it refers to, its site (see `records.SITE`), and for messages the
#: section that it is in and its relocation.
Fixup = tuple[Target, int, int, int, int, int, int, int, Entry]


class Content:
    """The memory to be, gathered: `bytes` by address, `zeroed` by address and size; `pinned` where
    live variables are, by address and size, without bytes where they become zero.

    `fixups` are the fields that are written then, `calls` those of calls, by symbol, as offsets
    into the slab, which count from 4 bytes on; `uses` the packed sites of every symbol that the
    object refers to, whether they are written or not; `slots` stand for local addresses that need a
    GOT slot; `frames` are extents of unwind records.
    """

    def __init__(self, job: Job, text: Extent | None):
        self._job, self._text = job, text
        self._bind, self._keeps_data = job.bind, "data" in job.former.keeps
        self.bytes: list[tuple[int, bytes | bytearray]] = []
        self.pinned: list[tuple[int, int, bytes | bytearray]] = []
        self.zeroed: list[tuple[int, int]] = []
        self.fixups: list[Fixup] = []
        self.calls: list[tuple[Symbol, list[int]]] = []
        self.uses: dict[Symbol, bytes | bytearray] = {}
        self.slots: dict[int, Symbol] = {}
        self.frames: list[Extent] = []

    def add_field(
        self,
        target: Target | None,
        at: int,
        buffer: bytearray | None,
        where: int,
        flags: int,
        section: int,
        entry: Entry,
    ) -> None:
        """A field at `at`, an offset into the slab, and at `where` in the bytes to be there.

        `flags` are those of its section.  Where there are no bytes, variables stay as they are.
        """
        offset, info, addend = entry
        type = info & 0xFFFF_FFFF
        if target.__class__ is int and (type == PC32 or type == BRANCH) and buffer is not None:
            value = target + addend - self._bind.base - at
            if -0x8000_0000 <= value <= 0x7FFF_FFFF:  # most are of this kind
                _I32.pack_into(buffer, where, value)
                return
        opcode = modrm = rex = 0
        if type == PC32 or type == GOTPCRELX or type == REX_GOTPCRELX:
            code = buffer if flags & c.SHF_EXECINSTR else None
            type, opcode, modrm, rex = _form(type, offset, addend, code, where)
        elif type in x86_64.IGNORED:
            return
        if target is None:
            raise refusal(self._job, section, entry, "refers to a section that is not loaded")
        if type not in TABLE:
            raise refusal(self._job, section, entry, x86_64.refusal_of(type))
        kept = self._keeps_data and self._bind.data_start <= at < self._bind.data_stop
        if target.__class__ is Symbol:
            self._use(target, SITE.pack(at, type, opcode, modrm, rex, addend))
            if kept:
                return
        elif kept:
            if not self._led_to_text(target, at, TABLE[type], addend):  # type: ignore[arg-type]
                return
        elif TABLE[type].base == "G":
            target = self._slot(target)  # type: ignore[arg-type]
        elif TABLE[type].base == "Z":
            addend += self._job.obj.symbols[info >> 32][5]
        self.fixups.append((target, at, type, opcode, modrm, rex, addend, section, entry))

    def hold(self, symbol: Symbol, text: int) -> None:
        """The code has a symbol's body or its value, of the `text` with that number."""
        self._use(symbol, hold(text))

    def _use(self, symbol: Symbol, packed: bytes) -> None:
        if symbol in self.uses:
            self.uses[symbol] += packed
        else:
            self.uses[symbol] = bytearray(packed)

    def _led_to_text(self, target: int, at: int, row: Relocation, addend: int) -> bool:
        """True if a field in a variable still holds an address of the code where that was."""
        text = self._text
        if not self._job.former.text or text is None or not text.start <= target <= text.stop:
            return False
        if row.base != "S" or row.relative:
            return False
        was = target - text.start + self._job.former.text + addend
        now = int.from_bytes(self._bind.view[at : at + row.field], "little")
        return now == was & (1 << 8 * row.field) - 1

    def _slot(self, address: int) -> Symbol:
        """A symbol without a name, for an address of the object that needs a GOT slot."""
        symbol = self.slots.get(address)
        if symbol is None:
            symbol = new_symbol("", SymbolKind.DATA, SymbolState.FIXED, address)
            self.slots[address] = symbol
        return symbol


def _form(
    type: int, offset: int, addend: int, code: bytearray | None, where: int
) -> tuple[int, int, int, int]:
    """The type that a field in `code` is kept under, and the opcode, ModRM and REX bytes of its
    instruction where that may be relaxed."""
    if type == PC32:  # call and jmp, as older compilers mark them
        branches = code is not None and offset and code[where - 1] & 0xFE == 0xE8
        return BRANCH if branches else PC32, 0, 0, 0
    rexed = type == REX_GOTPCRELX
    if code is None or addend != -4 or offset < 2 + rexed or code[where - 2] not in RELAXABLE:
        return GOTPCREL, 0, 0, 0
    return type, code[where - 2], code[where - 1], code[where - 3] if rexed else 0


def ends_behind(entry: Entry, at: int, size: int) -> bool:
    """True if the field of a relocation, at `at` of so many bytes, is not wholly in them."""
    row = TABLE.get(entry[1] & 0xFFFF_FFFF)
    return row is not None and at + row.field > size


def refusal(job: Job, section: int, entry: Entry, why: str) -> LinkError:
    """The error of a relocation that cannot be done."""
    obj, (offset, info, addend) = job.obj, entry
    name = x86_64.type_name(info & 0xFFFF_FFFF)
    symbol = obj.symbol_name(info >> 32) if info >> 32 < len(obj.symbols) else "no symbol"
    hint = ""
    if job.bind.base + job.bind.arena.capacity > 1 << 31:
        hint = "; the arena lies above 2 GiB here, where only position-independent code links"
    return LinkError(
        f"cell {job.cell}: {obj.section_name(section)}+{offset:#x}: {name} against "
        f"{symbol}{addend:+#x}: {why}{hint}"
    )
