"""Images whose code leaves memory until somebody calls it.  Start from `hibernate`.

What stays of the code is one 16-byte stub for each function that others know, which calls the
runtime's `jk_wake`; its address is the function's definition meanwhile, so that every branch and
every canonical entry leads there.  Constants and variables stay where they are: the program may
have pointers to them.  Linking the object again, over the same constants and variables, brings the
code back; that is the session's business, like everything that is done with objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.linker.image import SITE, Image
from jitkernel.linker.layout import arrange
from jitkernel.linker.symbols import SymbolState
from jitkernel.linker.x86_64 import BRANCH, PC32, STUB_SIZE, raise_stub

if TYPE_CHECKING:
    from jitkernel.linker.linker import Linker

__all__ = ["asleep", "gain", "hibernate", "stays"]

_CALL_OR_JUMP = (0xE8, 0xE9)


def gain(image: Image) -> int:
    """Bytes that hibernating an image frees; below 0 where its stubs are larger than its code."""
    text = image.text
    if text is None:
        return 0
    inside = sum(text.start <= at < text.start + text.size for _, at, _ in image.exports)
    return text.size - STUB_SIZE * inside


def hibernate(linker: Linker, image: Image) -> dict[int, str]:
    """Take an image's code out of memory; the stubs, by address, with the names they stand for.

    Raises ArenaFull, with nothing changed, where there is no room for the stubs.
    """
    text = image.text
    assert text is not None
    arena, base = linker.arena, linker.arena.base
    functions = [
        i for i, (_, address, _) in enumerate(image.exports)
        if text.start <= address < text.start + text.size
    ]  # fmt: skip
    stubs = arena.reserve("text", STUB_SIZE * len(functions)) if functions else None
    low, high = text.start - base, text.start - base + text.size
    for symbol in image.refs:
        users = symbol.users
        if users is not None and (packed := users.get(image)):
            users[image] = b"".join(
                SITE.pack(*site) for site in SITE.iter_unpack(packed) if not low <= site[0] < high
            )
    exports = list(image.exports)
    found: dict[int, str] = {}
    handler = linker.fixed["jk_wake"]
    for count, i in enumerate(functions):
        assert stubs is not None
        symbol, _, size = exports[i]
        at = stubs.start + STUB_SIZE * count
        arena.view[at - base : at - base + STUB_SIZE] = raise_stub(at, handler)
        exports[i] = (symbol, at, size)
        found[at] = symbol.name
    image.exports = tuple(exports)
    for i in functions:
        symbol, at, size = exports[i]
        if symbol.image is image:
            linker.redefine(symbol, (SymbolState.DEFINED, at, size, image, symbol.kind, ""))
    linker.release_code(image)
    linker.take_code(image, stubs)
    linker.changed(image)
    return found


def asleep(linker: Linker, image: Image) -> dict[int, str]:
    """What `hibernate` has said of an image whose code is away; its stubs are written again."""
    text = image.text
    if text is None:
        return {}
    found = {at: symbol.name for symbol, at, _ in image.exports if text.start <= at < text.stop}
    for at in found:
        linker.arena.write(at, raise_stub(at, linker.fixed["jk_wake"]))
    return found


def stays(obj: ElfObject) -> str:
    """Why an object's code has to stay where it is; empty where it may leave and come back.

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
        for offset, info, addend in entries:
            _, kind, _, section, value, _ = symbols[info >> 32]
            if kind >> 4 or not 0 < section < len(places):
                continue  # not a symbol that only this object knows
            target = places[section]
            if target is None or target[0] != "text":
                continue
            if place[0] == "text":
                type = info & 0xFFFF_FFFF
                jump = offset and code[offset - 1] in _CALL_OR_JUMP
                if type == BRANCH or (type == PC32 and (jump or _conditional(code, offset))):
                    continue
                return "its code takes the address of a function or a label of its own"
            if place[0] == "data":
                return "its variables hold addresses of its own code"
            if (section, value + addend) in starts:
                return "its constants hold the address of a function of its own"
            if any(start <= offset < stop for start, stop in objects.get(index, ())):
                return "its constants hold addresses of labels"
    return ""


def _conditional(code: bytes, offset: int) -> bool:
    """Whether the field at `offset` is that of a conditional jump (SDM volume 2, Jcc: 0F 80+cc)."""
    return offset > 1 and code[offset - 2] == 0x0F and code[offset - 1] & 0xF0 == 0x80
