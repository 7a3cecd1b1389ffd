"""Why an object's code stays where it is: what a program may hold of it that is no canonical entry.

Start from `pin_reason`.
"""

from __future__ import annotations

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.linker.layout import arrange, describes_code
from jitkernel.linker.x86_64 import PC32, is_branch


def pin_reason(obj: ElfObject) -> str:
    """The reason why an object's code stays where it is; empty where it may leave and come back.

    It has to where a program can hold an address of it that is no canonical entry: that of a
    function that only the object knows, or of a place inside one.
    """
    if obj.groups:
        return "it shares inline functions with other cells"
    layout = arrange(obj)
    places, symbols = layout.places, obj.symbols
    starts = {(s[3], s[4]) for s in symbols if s[1] & 15 == c.STT_FUNC}
    objects: dict[int, list[tuple[int, int]]] = {}
    for _, info, _, section, value, size in symbols:
        if info & 15 == c.STT_OBJECT:
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
    return bool(pin_reason(obj)) or has_own_functions(obj)


def has_own_functions(obj: ElfObject) -> bool:
    """True if an object has functions that nobody else sees."""
    return any(
        info >> 4 == c.STB_LOCAL and info & 15 == c.STT_FUNC for _, info, _, _, _, _ in obj.symbols
    )


def _is_jump(code: bytes, offset: int, type: int) -> bool:
    """True if the field at `offset` is that of a call or a jump, a conditional one too (SDM volume
    2, Jcc: 0F 80+cc)."""
    if is_branch(type, code, offset):
        return True
    return (
        type == PC32 and offset > 1 and code[offset - 2] == 0x0F and code[offset - 1] & 0xF0 == 0x80
    )
