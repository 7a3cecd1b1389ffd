"""Which fields of an object depend on where its code is: its base relocations.

Code that comes back lies where there is room; its constants and variables are where they were.
What has to be written again then are the sites of symbols, which the linker knows, and the fields
listed here: PC-relative ones in the code whose target did not move, and those in constants that
hold addresses of the code.  Start from `base_relocations`, and `pin_reason`: why code cannot move.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.linker.layout import (
    Layout,
    arrange,
    describes_code,
    is_special,
    pinned_ranges,
    pinned_sections,
    read_names,
)
from jitkernel.linker.records import BaseRelocations
from jitkernel.linker.unwind import split
from jitkernel.linker.x86_64 import BRANCH, IGNORED, PC32, R_32, R_32S

__all__ = ["FIELD", "IMMOVABLE", "base_relocations", "may_escape", "pin_reason"]

_CALL_OR_JUMP = (0xE8, 0xE9)
#: a field: whether it is in constants (else in code), its relocation type, its offset in the zone
FIELD: Final = struct.Struct("<BBxxI")
#: Relocation types by what their fields hold of a symbol of the object's own (AMD64 psABI 4.4.1):
#: its distance, or its address.
_DISTANCE: Final = {PC32: PC32, BRANCH: PC32, 24: 24}  # PC32, PLT32, PC64
_ADDRESS: Final = frozenset((1, R_32, R_32S))  # and 64


#: of an object whose code moves only by linking it another time
IMMOVABLE: Final = BaseRelocations(0, b"")


def base_relocations(obj: ElfObject, pins: Mapping[str, int]) -> BaseRelocations:
    """The facts to move an object's code by, whose variables named in `pins` lie elsewhere.

    `IMMOVABLE` where a field is of a kind that cannot be told from its bytes alone.
    """
    names = read_names(obj)
    unclear = frozenset(names.private).union(i for i, name, _ in names.imports if is_special(name))
    dropped = pinned_sections(obj, pinned_ranges(obj, names, pins)) if pins else frozenset()
    layout = arrange(obj, dropped)
    fields = bytearray()
    for index in obj.relocations:
        found = _fields(obj, layout, index, unclear)
        if found is None:
            return IMMOVABLE
        fields += found
    return _shared(layout.needs.get("text", (0, 16))[1], bytes(fields))


@lru_cache(256)
def _shared(align: int, fields: bytes) -> BaseRelocations:
    """Most cells have the same ones: none."""
    return BaseRelocations(align, fields)


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
    of_code = zone in ("rodata", "data") and describes_code(obj, section)
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
        elif (kind >> 4 and not (of_code and into_code)) or type in IGNORED:
            continue  # the site of a symbol
        elif zone == "text" and into_code:
            if type not in _DISTANCE:
                return None
        elif zone == "text":
            if type in _DISTANCE:
                fields += FIELD.pack(0, _DISTANCE[type], start + offset)
            elif type not in _ADDRESS:
                return None
        elif into_code:
            if zone != "rodata" or (type not in _DISTANCE and type not in _ADDRESS):
                return None
            fields += FIELD.pack(1, _DISTANCE.get(type, type), start + offset)
    return bytes(fields)


def pin_reason(obj: ElfObject) -> str:
    """The reason why an object's code stays where it is; empty where it may leave and come back.

    It has to where a program can hold an address of it that is no canonical entry: that of a
    function that only the object knows, or of a place inside one.
    """
    if obj.groups:
        return "it shares inline functions with other cells"
    layout = arrange(obj)
    places, symbols = layout.places, obj.symbols
    starts: set[tuple[int, int]] = set()
    objects: dict[int, list[tuple[int, int]]] = {}
    for _, info, _, section, value, size in symbols:
        if info & 15 == c.STT_FUNC:
            starts.add((section, value))
        elif info & 15 == c.STT_OBJECT and section < c.SHN_LORESERVE:
            objects.setdefault(section, []).append((value, value + size))
    for index, entries in obj.relocations.items():
        place = places[index]
        if place is None:
            continue
        name = obj.section_name(index)
        if name.startswith((".init_array", ".fini_array", ".ctors", ".dtors")):
            return "it has constructors or destructors"
        code = obj.content(index) if place[0] == "text" else b""
        of_code = place[0] != "text" and describes_code(obj, index)
        for offset, info, addend in entries:
            _, kind, _, section, value, _ = symbols[info >> 32]
            if (kind >> 4 and not of_code) or not 0 < section < len(places):
                continue  # not a symbol that only this object knows
            target = places[section]
            if target is None or target[0] != "text":
                continue
            if place[0] == "text":
                if _is_jump(code, offset, info & 0xFFFF_FFFF):
                    continue
                return "its code takes the address of a function or a label of its own"
            if place[0] == "data":
                return "its variables hold addresses of its own code"
            if (section, value + addend) in starts:
                return "its constants hold the address of a function of its own"
            if any(start <= offset < stop for start, stop in objects.get(index, ())):
                return "its constants hold addresses of labels"
    return ""


def may_escape(obj: ElfObject) -> bool:
    """True if a program may have addresses of an object's code that are no canonical entries.

    Position-independent code leaves no trace of those that it takes: having functions of its own
    counts as doing so.
    """
    return bool(pin_reason(obj)) or any(
        info >> 4 == 0 and info & 15 == c.STT_FUNC for _, info, _, _, _, _ in obj.symbols
    )


def _is_jump(code: bytes, offset: int, type: int) -> bool:
    """True if the field at `offset` is that of a call or a jump, a conditional one too (SDM volume
    2, Jcc: 0F 80+cc)."""
    if type == BRANCH:
        return True
    if type != PC32 or not offset:
        return False
    if code[offset - 1] in _CALL_OR_JUMP:
        return True
    return offset > 1 and code[offset - 2] == 0x0F and code[offset - 1] & 0xF0 == 0x80
