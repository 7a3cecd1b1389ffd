"""Symbols of an object that get an address before it is linked.  Start from `with_addresses`."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from jitkernel.elf.constants import SHN_ABS, SHT_SYMTAB
from jitkernel.elf.reader import read_object

_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym, gABI "Symbol Table"


def with_addresses(data: bytes, addresses: Mapping[str, int]) -> bytes:
    """The object with these addresses for symbols that it only refers to: they are absolute, and
    its own."""
    obj = read_object(data)
    table = next((row for row in obj.sections if row[1] == SHT_SYMTAB), None)
    if table is None:
        return data
    made = bytearray(data)
    for index, (name, info, other, section, _, size) in enumerate(obj.symbols):
        if section or not info >> 4:
            continue
        address = addresses.get(obj.symbol_name(index))
        if address is not None:
            at = table[4] + index * _SYMBOL.size
            _SYMBOL.pack_into(made, at, name, info & 15, other, SHN_ABS & 0xFFFF, address, size)
    return bytes(made)
