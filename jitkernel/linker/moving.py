"""Which fields of an object depend on where its code is: what it takes to put the code elsewhere.

Code that comes back lies where there is room; its constants and variables are where they were.
What has to be written again then are the sites of symbols, which the linker knows, and the fields
listed here: those of the code that count from their own place to something of the object's that
did not move, and those in constants that lead into the code.  Start from `moves`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.linker.layout import Layout, arrange, read_names
from jitkernel.linker.naming import is_special
from jitkernel.linker.pins import pieces, pinned_sections
from jitkernel.linker.unwind import split
from jitkernel.linker.x86_64 import BRANCH, PC32, R_32, R_32S

__all__ = ["FIELD", "STUCK", "Moves", "moves"]

#: a field: whether it is in constants (else in code), its relocation type, its offset in the zone
FIELD: Final = struct.Struct("<BBxxI")
#: Relocation types by what their fields hold of a symbol of the object's own (AMD64 psABI 4.4.1):
#: the way to it, or its address.
_WAY: Final = {PC32: PC32, BRANCH: PC32, 24: 24}  # PC32, PLT32, PC64
_ADDRESS: Final = frozenset((1, R_32, R_32S))  # and 64


class Moves(NamedTuple):
    """The alignment of an object's code in bytes, and its `FIELD`s that depend on where it is."""

    align: int
    fields: bytes


#: of an object whose code moves only by linking it another time
STUCK: Final = Moves(0, b"")


def moves(obj: ElfObject, pins: Mapping[str, int]) -> Moves:
    """What moving the code of an object takes, whose variables named in `pins` lie elsewhere.

    `STUCK` where a field is of a kind that is not told from its bytes alone.
    """
    names = read_names(obj)
    unclear = frozenset(names.private).union(i for i, name, _ in names.imports if is_special(name))
    dropped = pinned_sections(obj, pieces(obj, names, pins)) if pins else frozenset()
    layout = arrange(obj, dropped)
    fields = bytearray()
    for index in obj.relocations:
        found = _fields(obj, layout, index, unclear)
        if found is None:
            return STUCK
        fields += found
    return _shared(layout.needs.get("text", (0, 16))[1], bytes(fields))


@lru_cache(256)
def _shared(align: int, fields: bytes) -> Moves:
    """Most cells have the same ones: none."""
    return Moves(align, fields)


def _fields(obj: ElfObject, layout: Layout, section: int, unclear: frozenset[int]) -> bytes | None:
    """The fields of one section; None where one of them is of another kind than is known here.

    `unclear` are global symbols that are addresses to the linker, which could be of anything.
    """
    places, symbols = layout.places, obj.symbols
    place = places[section]
    begins: set[int] = set()  # offsets of the fields of unwind records that say where code begins
    if section in layout.frames:
        begins = {at + 8 for at, _, cie in split(obj.content(section)) if cie >= 0}
    elif place is None:
        return b""
    zone, start = place or ("unwind", 0)
    fields = bytearray()
    for offset, info, _ in obj.relocations[section]:
        type = info & 0xFFFF_FFFF
        if info >> 32 in unclear:
            return None
        _, kind, _, there, _, _ = symbols[info >> 32]
        target = places[there] if 0 < there < c.SHN_LORESERVE else None
        into_code = target is not None and target[0] == "text"
        if zone == "unwind":
            if into_code and (type != PC32 or offset not in begins):
                return None
        elif kind >> 4 or type == 0:
            continue  # the site of a symbol
        elif zone == "text" and into_code:
            if type not in _WAY:
                return None
        elif zone == "text":
            if type in _WAY:
                fields += FIELD.pack(0, _WAY[type], start + offset)
            elif type not in _ADDRESS:
                return None
        elif into_code:
            if zone != "rodata" or (type not in _WAY and type not in _ADDRESS):
                return None
            fields += FIELD.pack(1, _WAY.get(type, type), start + offset)
    return bytes(fields)
