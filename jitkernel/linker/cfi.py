"""Call frame information: how to find a caller's frame from an address.  Start from `row_at`.

A reader of what compilers emit into `.eh_frame`, and an interpreter of it: enough for frames whose
CFA is a register plus an offset and whose registers are saved at offsets from the CFA.  Anything
else (DWARF expressions) is `None`: the caller must find another way on.  Nothing here knows of
arenas: it reads bytes at addresses.  Source: DWARF 5, 6.4; Linux Standard Base, "Exception Frames".

(pyelftools has such a reader, which parses all records before it has one: 0.2 ms each where this
takes 11 us for the one that is asked for, and 30 to 60 ms to import.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from jitkernel.elf.cursor import Cursor
from jitkernel.record import NamedTuple

Read = Callable[[int, int], bytes]

#: DWARF's number of the return address (AMD64 psABI 3.6.2), behind those of `registers.GENERAL`.
RETURN_ADDRESS = 16

_HEAD = struct.Struct("<II")
#: DW_EH_PE formats: size in bytes, signed
FORMATS = {0x0: (8, False), 0x2: (2, False), 0x3: (4, False), 0x4: (8, False),
            0xA: (2, True), 0xB: (4, True), 0xC: (8, True)}  # fmt: skip
_PCREL, OMIT, _ULEB = 0x10, 0xFF, 0x01
_TABLE_HEAD = 24  # bytes that the head of a table of landing pads may take


class Row(NamedTuple):
    """CFA = `register` + `offset`; `saved` says where registers are, relative to the CFA."""

    register: int
    offset: int
    saved: dict[int, int]


class Cie(NamedTuple):
    """A common information entry; `encoding` is how its FDEs write addresses, `tables` how those of
    tables of landing pads."""

    code_align: int
    data_align: int
    encoding: int
    augmented: bool
    initial: bytes
    tables: int = OMIT


class _Unsupported(Exception):
    """An instruction or an encoding that this reader does not follow."""


class RecordCursor(Cursor):
    """Reads the fields of one record, which is at `address`, in order."""

    def __init__(self, data: bytes | bytearray, address: int, at: int = 0):
        super().__init__(data, at)
        self.address = address

    def pointer(self, encoding: int) -> int:
        here = self.address + self.at
        if encoding & 0x0F not in FORMATS or encoding & 0x70 not in (0, _PCREL):
            raise _Unsupported(f"pointer encoding {encoding:#x}")
        size, signed = FORMATS[encoding & 0x0F]
        value = self.fixed(size, signed)
        return value + here if encoding & 0x70 == _PCREL and value else value

    def number(self, encoding: int) -> int:
        """A number, in a form of those that pointers have, or as ULEB128."""
        return self.uleb() if encoding == _ULEB else self.pointer(encoding & 0x0F)


def read_cie(read: Read, address: int) -> Cie | None:
    """The CIE at `address`; None where it is of a kind that is not followed."""
    try:
        length, zero = _HEAD.unpack(read(address, 8))
        if zero or not 4 < length < 1 << 16:
            return None
        cursor = RecordCursor(read(address + 8, length - 4), address + 8)
        version = cursor.byte()
        end = cursor.data.index(b"\0", cursor.at)
        augmentation = cursor.data[cursor.at : end].decode("ascii")
        cursor.at = end + 1
        if version not in (1, 3) or (augmentation and augmentation[0] != "z"):
            return None
        code_align, data_align = cursor.uleb(), cursor.sleb()
        column = cursor.byte() if version == 1 else cursor.uleb()
        if column != RETURN_ADDRESS:
            return None
        encoding, tables = 0, OMIT
        if augmentation:
            stop = cursor.uleb()
            stop += cursor.at
            for letter in augmentation[1:]:
                if letter == "R":
                    encoding = cursor.byte()
                elif letter == "L":
                    tables = cursor.byte()
                elif letter == "P":
                    cursor.pointer(cursor.byte() & 0x7F)
                elif letter not in "SB":
                    return None
            cursor.at = stop
        return Cie(
            code_align, data_align, encoding, bool(augmentation), bytes(cursor.data[cursor.at :]),
            tables,
        )  # fmt: skip
    except (IndexError, ValueError, struct.error, _Unsupported):
        return None


def pc_range(read: Read, fde: int, cie: Cie) -> tuple[int, int] | None:
    """The addresses `[start, stop)` that the FDE at `fde` is about."""
    length = _HEAD.unpack(read(fde, 8))[0]
    cursor = RecordCursor(read(fde + 8, length - 4), fde + 8)
    try:
        start = cursor.pointer(cie.encoding)
        return start, start + cursor.pointer(cie.encoding & 0x0F)
    except (IndexError, _Unsupported):
        return None


def landing_pads(read: Read, fde: int) -> list[int]:
    """The addresses where exceptions arrive in the function of the FDE at `fde`.

    Source: Itanium C++ ABI, "Exception Handling Tables", 7.4: the call site table.
    """
    try:
        length, back = _HEAD.unpack(read(fde, 8))
        cie = read_cie(read, fde + 4 - back)
        if cie is None or cie.tables == OMIT:
            return []
        cursor = RecordCursor(read(fde + 8, length - 4), fde + 8)
        start = cursor.pointer(cie.encoding)
        cursor.pointer(cie.encoding & 0x0F)
        cursor.uleb()
        if not (table := cursor.pointer(cie.tables)):
            return []
        head = RecordCursor(read(table, _TABLE_HEAD), table)
        if (encoding := head.byte()) != OMIT:
            start = head.pointer(encoding)
        if head.byte() != OMIT:
            head.uleb()
        encoding, size = head.byte(), head.uleb()
        sites = RecordCursor(read(table + head.at, size), table + head.at)
        found: set[int] = set()
        while sites.at < size:
            *_, pad = (sites.number(encoding) for _ in range(3))
            sites.uleb()
            found |= {start + pad} if pad else set()
        return sorted(found)
    except (IndexError, struct.error, _Unsupported):
        return []


def row_at(read: Read, fde: int, pc: int) -> Row | None:
    """The frame that stands at `pc`, as the FDE at `fde` has it; None where that is not known."""
    try:
        length, back = _HEAD.unpack(read(fde, 8))
        cie = read_cie(read, fde + 4 - back)
        if cie is None:
            return None
        cursor = RecordCursor(read(fde + 8, length - 4), fde + 8)
        start = cursor.pointer(cie.encoding)
        stop = start + cursor.pointer(cie.encoding & 0x0F)
        if not start <= pc < stop:
            return None
        if cie.augmented:
            size = cursor.uleb()
            cursor.at += size
        empty = Row(7, 8, {})
        initial = _run(RecordCursor(cie.initial, 0), cie, empty, empty, start, pc)
        return _run(cursor, cie, initial, initial, start, pc)
    except (IndexError, struct.error, _Unsupported):
        return None


def _run(cursor: RecordCursor, cie: Cie, row: Row, initial: Row, at: int, pc: int) -> Row:
    """Execute instructions until they are about addresses past `pc` (DWARF 5, 6.4.2)."""
    register, offset, saved = row.register, row.offset, dict(row.saved)
    stack: list[tuple[int, int, dict[int, int]]] = []
    while cursor.at < len(cursor.data):
        code = cursor.byte()
        step = _advance(cursor, cie, code, at)
        if step is not None:
            at += step
            if at > pc:
                break
        elif code == 0x0A:  # remember_state
            stack.append((register, offset, dict(saved)))
        elif code == 0x0B:  # restore_state
            register, offset, saved = stack.pop()
        elif code in (0x0C, 0x0D, 0x0E, 0x12, 0x13):
            if code in (0x0C, 0x0D, 0x12):  # def_cfa, def_cfa_register, def_cfa_sf
                register = cursor.uleb()
            if code in (0x0C, 0x0E):  # def_cfa, def_cfa_offset
                offset = cursor.uleb()
            elif code != 0x0D:  # def_cfa_sf, def_cfa_offset_sf
                offset = cursor.sleb() * cie.data_align
        else:
            _save(cursor, cie, code, saved, initial)
    return Row(register, offset, saved)


def _advance(cursor: RecordCursor, cie: Cie, code: int, at: int) -> int | None:
    """The bytes of code that an instruction goes on by; None where it says something else."""
    if code & 0xC0 == 0x40:  # advance_loc
        return (code & 0x3F) * cie.code_align
    if code == 0x01:  # set_loc: to that address
        return cursor.pointer(cie.encoding) - at
    if code in (0x02, 0x03, 0x04):  # advance_loc1, 2, 4
        return cursor.fixed(1 << code - 2) * cie.code_align
    return None


def _save(cursor: RecordCursor, cie: Cie, code: int, saved: dict[int, int], initial: Row) -> None:
    """An instruction that says where a register is saved."""
    high, low = code & 0xC0, code & 0x3F
    if high == 0x80:  # offset
        saved[low] = cursor.uleb() * cie.data_align
    elif high == 0xC0:  # restore
        _restore(saved, initial, low)
    elif code in (0x05, 0x11):  # offset_extended, offset_extended_sf
        number = cursor.uleb()
        saved[number] = (cursor.uleb() if code == 0x05 else cursor.sleb()) * cie.data_align
    elif code == 0x06:  # restore_extended
        _restore(saved, initial, cursor.uleb())
    elif code in (0x07, 0x08):  # undefined, same_value
        saved.pop(cursor.uleb(), None)
    elif code == 0x2E:  # GNU_args_size
        cursor.uleb()
    elif code == 0x10:  # expression: a register that cannot be found; the frame still can
        saved.pop(cursor.uleb(), None)
        size = cursor.uleb()
        cursor.at += size
    elif code:  # but for nop: def_cfa_expression and what is rarer still
        raise _Unsupported(f"call frame instruction {code:#x}")


def _restore(saved: dict[int, int], initial: Row, number: int) -> None:
    if number in initial.saved:
        saved[number] = initial.saved[number]
    else:
        saved.pop(number, None)
