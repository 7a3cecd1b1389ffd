"""Which part of an object goes to which zone.  Start from `arrange`.

Sections are told apart by their flags, not their names: compilers call code `.text`, `.ltext` or
`.text.unlikely`.  Sizes and offsets are known before anything is placed.
"""

from __future__ import annotations

from typing import NamedTuple

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError

__all__ = ["Layout", "Names", "arrange", "read_names"]

_UNWIND_NAME = ".eh_frame"


class Export(NamedTuple):
    """A global definition of an object, as its symbol table has it."""

    index: int
    name: str
    binding: int
    type: int
    section: int
    value: int
    size: int


class Names(NamedTuple):
    """What an object defines and asks for: `imports` are `(symbol index, name, weak)`."""

    exports: list[Export]
    imports: list[tuple[int, str, bool]]


class Layout(NamedTuple):
    """Where each section goes: `places[i]` is `(zone, offset)`, None where it is not loaded.

    `needs` maps a zone to `(size, alignment)` in bytes; `frames` are sections of unwind records.
    """

    places: list[tuple[str, int] | None]
    needs: dict[str, tuple[int, int]]
    frames: list[int]


def read_names(obj: ElfObject) -> Names:
    """The global symbols of an object.  Raises LinkError for kinds that are not supported."""
    exports: list[Export] = []
    imports: list[tuple[int, str, bool]] = []
    strings = obj.strings
    for index, (name, info, _, section, value, size) in enumerate(obj.symbols):
        binding = info >> 4
        if not binding:
            continue
        text = strings[name : strings.index(0, name)].decode("utf-8", "surrogateescape")
        kind = info & 15
        if kind == c.STT_TLS:
            raise LinkError(f"@{text} is thread-local; thread-local storage is not supported yet")
        if kind == c.STT_GNU_IFUNC:
            raise LinkError(f"@{text} is an ifunc; IFUNC symbols are not supported yet")
        if section:
            exports.append(Export(index, text, binding, kind, section, value, size))
        elif text:
            imports.append((index, text, binding == c.STB_WEAK))
    return Names(exports, imports)


def arrange(obj: ElfObject, dropped: frozenset[int] = frozenset()) -> Layout:
    """Offsets for every loaded section, packed in file order; `dropped` sections are left out."""
    places: list[tuple[str, int] | None] = []
    needs: dict[str, tuple[int, int]] = {}
    frames: list[int] = []
    for index, (name, kind, flags, _, _, size, _, _, align, _) in enumerate(obj.sections):
        if not flags & c.SHF_ALLOC or index in dropped:
            places.append(None)
            continue
        if flags & c.SHF_TLS:
            raise LinkError(
                f"section {obj.section_name(index)}: thread-local storage is not supported yet"
            )
        if flags & c.SHF_EXECINSTR:
            zone = "text"
        elif kind == c.SHT_X86_64_UNWIND or (
            kind == c.SHT_PROGBITS and not flags & c.SHF_WRITE and _is_unwind(obj, name)
        ):
            frames.append(index)
            places.append(None)
            continue
        elif kind == c.SHT_INIT_ARRAY or kind == c.SHT_FINI_ARRAY or not flags & c.SHF_WRITE:
            zone = "rodata"
        else:
            zone = "data"
        if align & (align - 1):
            raise LinkError(f"section {obj.section_name(index)}: alignment {align} is not a power of 2")
        if size == 0:
            places.append((zone, 0))
            continue
        align = align or 1
        used, most = needs.get(zone, (0, 1))
        offset = (used + align - 1) & -align
        needs[zone] = (offset + size, align if align > most else most)
        places.append((zone, offset))
    return Layout(places, needs, frames)


def _is_unwind(obj: ElfObject, name: int) -> bool:
    return obj.names.startswith(b".eh_frame\0", name)
