"""Every place that holds a symbol's address, written.  Start from `Bindings`.

A field of an instruction or a table is written by `apply`; the stub and the GOT slots of a symbol
are made when the first field asks for them; `rebind` writes them all again when the symbol moves.
Which symbol a name means, and who may define it, is not decided here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from jitkernel.arena import Arena
from jitkernel.errors import LinkError
from jitkernel.ir.names import shown
from jitkernel.linker import x86_64
from jitkernel.linker.records import SITE, Definition, Symbol, SymbolKind, SymbolState
from jitkernel.linker.x86_64 import BRANCH, STUB_SIZE, TABLE

_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")

MISSING, DEFINED, FAR, FIXED, NULL = SymbolState
FUNCTION = SymbolKind.FUNCTION

#: What a relocation refers to: an address inside the object that is being linked, or a symbol.
Target = int | Symbol


class OutOfRange(Exception):
    """A relocation's value does not fit its field."""


class Bindings:
    """Writes the fields, stubs and GOT slots of symbols into the arena; `view` is its bytes from
    the address `base` on.

    `fixed` are symbols whose addresses never change; `jk_raise` there is what stubs of missing
    symbols call.
    """

    def __init__(
        self, arena: Arena, fixed: Mapping[str, int], view: memoryview | None = None, base: int = 0
    ):
        self.arena = arena
        self.view, self.base = (arena.view, arena.base) if view is None else (view, base)
        self.fixed = fixed
        #: an image has had a body or a value of a symbol in its code
        self.holding = False
        #: how a symbol is written for the user
        self.called: Callable[[str], str] = shown
        #: what `_GLOBAL_OFFSET_TABLE_` is: slots lie anywhere in the zone that it begins
        self.got = arena.zones["rodata"].start
        #: what is at a variable that is gone: 200 MiB where nothing is mapped
        self._low = arena.base + arena.capacity <= 1 << 31
        self.unmapped = 0x0100_0000 if self._low else arena.base - (256 << 20)
        #: offsets into the slab where writable data begins and ends
        data = arena.zones["data"]
        self.data_start, self.data_stop = data.start - arena.base, data.stop - arena.base

    # -- where a symbol is -----------------------------------------------------------------------

    def value(self, symbol: Symbol) -> int:
        """A symbol's address for every use that is not a branch: a function's canonical entry."""
        if symbol.kind is FUNCTION and symbol.state in (DEFINED, FAR, MISSING):
            return symbol.stub or self.stub(symbol)
        return self.unmapped if symbol.state is MISSING else symbol.address

    def entry(self, symbol: Symbol) -> int:
        """The address a branch to a symbol goes to: its definition if near, else its stub."""
        state = symbol.state
        if state is DEFINED or (state is FIXED and symbol.address in self.arena):
            return symbol.address
        return 0 if state is NULL and self._low else self.stub(symbol)

    def former_value(self, definition: Definition, stub: int) -> int:
        """The value that fields held of a symbol while `definition` was its definition."""
        state, address, _, _, kind, _ = definition
        if kind is FUNCTION and state in (DEFINED, FAR, MISSING):
            return stub
        return self.unmapped if state is MISSING else address

    # -- stubs and slots -------------------------------------------------------------------------

    def stub(self, symbol: Symbol) -> int:
        """The address of a symbol's stub, made if there is none.  Raises ArenaFull."""
        if not symbol.stub:
            symbol.stub = self.arena.reserve("text", STUB_SIZE)[1]
            self.write_stub(symbol)
        return symbol.stub

    def stub_code(self, symbol: Symbol) -> bytes:
        """The code of a symbol's stub for where it leads; a far one has its slot."""
        stub, state = symbol.stub, symbol.state
        if state is DEFINED or (state is FIXED and symbol.address in self.arena):
            return x86_64.jump_stub(stub, symbol.address)
        if state is FAR or state is FIXED:
            return x86_64.far_stub(stub, symbol.far_slot)
        return x86_64.raise_stub(stub, self.fixed["jk_raise"])

    def write_stub(self, symbol: Symbol) -> None:
        """Make a symbol's stub lead to its definition."""
        stub, state = symbol.stub, symbol.state
        if state is FAR or (state is FIXED and symbol.address not in self.arena):
            if not symbol.far_slot:
                symbol.far_slot = self.arena.reserve("rodata", 8)[1]
            self.write_far_slot(symbol)
        self.view[stub - self.base : stub - self.base + STUB_SIZE] = self.stub_code(symbol)

    def write_far_slot(self, symbol: Symbol) -> None:
        """Fill the slot that a far function's stub jumps through."""
        if symbol.far_slot:
            _U64.pack_into(self.view, symbol.far_slot - self.base, symbol.address)

    def slot(self, symbol: Symbol) -> int:
        """The address of a symbol's GOT slot, made if there is none.  Raises ArenaFull."""
        if not symbol.slot:
            value = self.value(symbol)
            symbol.slot = self.arena.reserve("rodata", 8)[1]
            _U64.pack_into(self.view, symbol.slot - self.base, value)
        return symbol.slot

    def free(self, symbol: Symbol) -> None:
        """Give a symbol's stub and slots back."""
        for extent in symbol.extents:
            self.arena.free(extent)
        symbol.stub = symbol.slot = symbol.far_slot = 0

    # -- fields ----------------------------------------------------------------------------------

    def apply(
        self, target: Target, at: int, type: int, opcode: int, modrm: int, rex: int, addend: int
    ) -> None:
        """Write one field at `at`, an offset into the slab.

        `opcode`, not 0, `modrm` and `rex` are the original bytes of an instruction that may be
        relaxed.  Raises OutOfRange when the value does not fit, LinkError for a type that is not
        known, ArenaFull.
        """
        base = self.base
        if type == BRANCH:
            value = (target if isinstance(target, int) else self.entry(target)) + addend - base - at
            if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
                raise OutOfRange(f"L + A - P = {value:#x} does not fit 32 signed bits")
            _I32.pack_into(self.view, at, value)
            return
        if opcode:
            self._relax(target, at, (opcode, modrm, rex))
            return
        row = TABLE.get(type)
        if row is None:
            if type == 0:
                return
            raise LinkError(x86_64.refusal_of(type))
        kind = row.base
        if isinstance(target, int):
            value = 0 if kind in "0Z" else target
        elif kind == "S":
            value = self.value(target)
        elif kind == "L":
            value = self.entry(target)
        elif kind == "G":
            value = self.slot(target)
        elif kind == "Z":
            if target.state is FAR:
                raise OutOfRange(f"{row.name}: the size of a library's symbol is not known")
            value = target.size
        else:
            value = 0
        value += addend + row.got * self.got
        if row.relative:
            value -= base + at
        if not row.low <= value <= row.high:
            value = (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)  # addresses wrap
            if not row.low <= value <= row.high:
                sign = "signed " if row.high < 1 << 8 * row.field - 1 else ""
                raise OutOfRange(
                    f"{row.formula} = {value:#x} does not fit {8 * row.field} {sign}bits"
                )
        self.view[at : at + row.field] = value.to_bytes(row.field, "little", signed=value < 0)

    def _relax(self, target: Target, at: int, original: tuple[int, int, int]) -> None:
        """Write an instruction that loads through the GOT, without the GOT where it can be."""
        if isinstance(target, int):
            value = entry = target
        elif target.state is FAR and target.kind is not FUNCTION:
            value = entry = -1
        else:
            value, entry = self.value(target), self.entry(target)
        relax = x86_64.relax
        if value >= 0 and relax(self.view, at, self.base, original, value, entry, 0):
            return
        if isinstance(target, int):
            raise OutOfRange("this instruction needs a GOT slot for a local symbol")
        slot = self.slot(target)
        relax(self.view, at, self.base, original, value, entry, slot)

    # -- symbols that moved ----------------------------------------------------------------------

    def rebind(self, symbol: Symbol, was: int | None = None) -> None:
        """Write a symbol's stub, slots and sites for where it leads now.

        `was` is what fields held before (see `former_value`): a site in writable data is written
        only where that is still there, None: nowhere.  Raises LinkError when a site cannot hold the
        new address, with the sites before it written.
        """
        if symbol.stub:
            self.write_stub(symbol)
        if symbol.slot:
            _U64.pack_into(self.view, symbol.slot - self.base, self.value(symbol))
        if symbol.users is None:
            return
        view, base = self.view, self.base
        low, high = self.data_start, self.data_stop
        unpack, pack_into = SITE.iter_unpack, _I32.pack_into
        near = symbol.address - base if symbol.state is DEFINED else 0
        for image, packed in symbol.users.items():
            for offset, type, opcode, modrm, rex, addend in unpack(packed):
                if type == BRANCH and near:
                    pack_into(view, offset, near + addend - offset)
                    continue
                if low <= offset < high:
                    if was is None or not self._is_unchanged(offset, type, addend, was):
                        continue
                    self.arena.save(base + offset, TABLE[type].field)
                try:
                    self.apply(symbol, offset, type, opcode, modrm, rex, addend)
                except OutOfRange as error:
                    if symbol.state is not MISSING:
                        raise LinkError(
                            f"{self.called(symbol.name)} in cell {image.cell}: {error}"
                        ) from None
                    self.write_unmapped(offset, type, addend)

    def _is_unchanged(self, offset: int, type: int, addend: int, was: int) -> bool:
        """True if a field in writable data still holds what the linker wrote there."""
        row = TABLE[type]
        if row.base != "S":
            return True  # not an address that a program replaces by another
        value = was + addend + row.got * self.got - (self.base + offset if row.relative else 0)
        now = int.from_bytes(self.view[offset : offset + row.field], "little")
        return now == value & (1 << 8 * row.field) - 1

    def write_unmapped(self, offset: int, type: int, addend: int) -> None:
        """A field of a variable that is gone: an address where nothing is mapped, if it can be."""
        row = TABLE[type]
        value = self.unmapped + addend - (self.base + offset if row.relative else 0)
        if not row.low <= value <= row.high:
            value = 0
        self.view[offset : offset + row.field] = value.to_bytes(
            row.field, "little", signed=value < 0
        )


class CopiedFields(Bindings):
    """Fields in a copy of some bytes, which nobody runs.

    No stub or slot is made; raises OutOfRange where a symbol has not the one that it needs.
    """

    def stub(self, symbol: Symbol) -> int:
        """The address of a symbol's stub."""
        if not symbol.stub:
            raise OutOfRange("it has no stub")
        return symbol.stub

    def slot(self, symbol: Symbol) -> int:
        """The address of a symbol's GOT slot."""
        if not symbol.slot:
            raise OutOfRange("it has no GOT slot")
        return symbol.slot
