"""The debug sections of an object, with the addresses that its code and data have.

Start from `placed_sections`.  Relocations: System V psABI, AMD64, 4.4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jitkernel.elf.reader import ElfObject, read_object
from jitkernel.elf.relocations import RelocationTuple

__all__ = ["placed_sections"]

#: Bytes by types of relocation: R_X86_64_64, _32, _32S, _DTPOFF64, _DTPOFF32.
_SIZES = {1: 8, 10: 4, 11: 4, 17: 8, 21: 4}
_COMPRESSED = 0x800  # SHF_COMPRESSED
_NONE: Mapping[str, int] = MappingProxyType({})


def placed_sections(
    code: bytes, addresses: Mapping[int, int], names: Mapping[str, int] = _NONE
) -> dict[str, bytes]:
    """The contents of sections `.debug_*` by name, relocated; `addresses` says where sections are
    placed, by index, and `names` where symbols of other objects are.  All else is at 0.

    Raises LinkError for what is no object.
    """
    elf = read_object(code)
    found: dict[str, bytes] = {}
    for index, section in enumerate(elf.sections):
        name = elf.section_name(index)
        if not name.startswith(".debug_") or section[2] & _COMPRESSED or name in found:
            continue
        content = elf.content(index)
        if relocations := elf.relocations.get(index):
            content = _relocated(elf, content, relocations, addresses, names)
        found[name] = content
    return found


def _relocated(
    elf: ElfObject,
    content: bytes,
    relocations: list[RelocationTuple],
    addresses: Mapping[int, int],
    names: Mapping[str, int],
) -> bytes:
    data, symbols = bytearray(content), elf.symbols
    for offset, info, addend in relocations:
        if size := _SIZES.get(info & 0xFFFFFFFF):
            number = info >> 32
            _, _, _, section, value, _ = symbols[number]
            start = addresses.get(section) if section else names.get(elf.symbol_name(number))
            value += (start or 0) + addend
            data[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(data)
