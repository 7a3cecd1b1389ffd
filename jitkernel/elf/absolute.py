"""Symbols of an object that get an address before it is linked.  Start from `with_addresses`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from jitkernel.elf.constants import (
    SHN_ABS,
    SHT_GROUP,
    SHT_RELA,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
)
from jitkernel.elf.reader import read_object

_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym, gABI "Symbol Table"
_RELA = struct.Struct("<QQq")  # Elf64_Rela
_SECTIONS_AT, _SECTION_SIZE, _INFO_AT = 0x28, 64, 44  # e_shoff; of Elf64_Shdr, and sh_info in it


def with_addresses(data: bytes, addresses: Mapping[str, int]) -> bytes:
    """The object with these addresses for symbols that it only refers to: they are absolute, and
    its own.  Those come before all others (gABI "Symbol Table"), so that symbols have new
    numbers."""
    obj = read_object(data)
    own = {
        index: address
        for index, (_, info, _, section, _, _) in enumerate(obj.symbols)
        if not section and info >> 4
        and (address := addresses.get(obj.symbol_name(index))) is not None
    }  # fmt: skip
    if not own:
        return data
    count = len(obj.symbols)
    others = (index for index in range(obj.locals, count) if index not in own)
    order = [*range(obj.locals), *own, *others]
    number = [0] * count
    for new, old in enumerate(order):
        number[old] = new
    made = bytearray(data)
    (headers,) = struct.unpack_from("<Q", data, _SECTIONS_AT)
    for section, (_, kind, _, _, offset, size, _, info, _, _) in enumerate(obj.sections):
        info_at = headers + section * _SECTION_SIZE + _INFO_AT
        if kind == SHT_SYMTAB:
            _reorder(made, offset, _SYMBOL.size, order)
            for index, address in own.items():
                at = offset + number[index] * _SYMBOL.size
                name, type, other, _, _, size = _SYMBOL.unpack_from(made, at)
                _SYMBOL.pack_into(made, at, name, type & 15, other, SHN_ABS & 0xFFFF, address, size)
            struct.pack_into("<I", made, info_at, obj.locals + len(own))
        elif kind == SHT_SYMTAB_SHNDX:
            _reorder(made, offset, 4, order)
        elif kind == SHT_GROUP:
            struct.pack_into("<I", made, info_at, number[info])
        elif kind == SHT_RELA:
            for at in range(offset, offset + size, _RELA.size):
                place, what, addend = _RELA.unpack_from(made, at)
                _RELA.pack_into(
                    made, at, place, what & 0xFFFF_FFFF | number[what >> 32] << 32, addend
                )
    return bytes(made)


def _reorder(made: bytearray, offset: int, size: int, order: Sequence[int]) -> None:
    """Put the rows of a table into another order."""
    table = bytes(made[offset : offset + size * len(order)])
    rows = [table[size * index : size * (index + 1)] for index in order]
    made[offset : offset + len(table)] = b"".join(rows)
