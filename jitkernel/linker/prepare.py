"""What is done to an object of another compiler before it is placed.  Start from `prepared`.

A linker of programs has means that a session has not: variables of libraries are copied into the
program, an address may be chosen when the program starts.  What asks for those becomes something
here that any linker can do: see `far_data`.
"""

from __future__ import annotations

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.linker.builder import Builder
from jitkernel.linker.far_data import detour, near_names
from jitkernel.linker.records import SymbolState
from jitkernel.linker.resolver import Resolver

__all__ = ["prepare", "prepared"]


def prepared(obj: ElfObject, resolver: Resolver) -> bytes:
    """An object as it is to be placed: the same bytes, where nothing has to be done."""
    references = (
        (obj.symbol_name(info >> 32), info & 0xFFFF_FFFF, obj.data, obj.sections[index][4] + offset)
        for index, entries in obj.relocations.items()
        if obj.sections[index][2] & c.SHF_EXECINSTR
        for offset, info, _ in entries
        if info >> 32 < len(obj.symbols) and obj.symbols[info >> 32][3] == 0
    )
    if not _far(near_names(references), resolver):
        return obj.data
    builder = Builder()
    builder.add(obj, "the object")
    return prepare(builder, resolver)


def prepare(builder: Builder, resolver: Resolver) -> bytes:
    """The same for an object that is being put together."""
    references = (
        (symbol.name, kind, section.content, offset)
        for section in builder.sections
        if section.flags & c.SHF_EXECINSTR
        for offset, kind, symbol, _ in section.relocations
        if symbol.section == 0
    )
    if far := _far(near_names(references), resolver):
        detour(builder, far)
    return builder.write()


def _far(names: list[str], resolver: Resolver) -> set[str]:
    """Those of the names that the executor's process has and the session does not define."""
    unknown = [n for n in names if n and ((s := resolver.symbols.get(n)) is None
                                          or s.state is SymbolState.FAR)]  # fmt: skip
    found = zip(unknown, resolver.look_up(unknown), strict=True) if unknown else ()
    return {name for name, where in found if where and where[0] is SymbolState.FAR}
