"""What is done to an object of another compiler before it is placed.  Start from `prepared`.

A linker of programs has means that a session has not: variables of libraries are copied into the
program, a function may be chosen when the program starts, its threads have variables of their own.
What asks for those becomes something here that needs none of it: see `far_data`, `ifuncs` and
`thread_locals`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.linker.builder import Builder
from jitkernel.linker.far_data import detour, near_names
from jitkernel.linker.ifuncs import make_ordinary
from jitkernel.linker.records import SymbolState
from jitkernel.linker.resolver import Resolver
from jitkernel.linker.thread_locals import emulate
from jitkernel.linker.x86_64 import GOTPCRELX, REX_GOTPCRELX, TABLE

__all__ = ["prepare", "prepared"]

_SPECIAL = (c.STT_TLS, c.STT_GNU_IFUNC)
#: bytes before a field that are written with it: opcode, ModRM, REX
_BEFORE = {GOTPCRELX: 2, REX_GOTPCRELX: 3}


def prepared(obj: ElfObject, label: str, resolver: Resolver) -> bytes:
    """An object as it is to be placed: the same bytes, where nothing has to be done.

    `label` is what it is called in messages.  Raises LinkError for what cannot be done.
    """
    references = (
        (obj.symbol_name(info >> 32), info & 0xFFFF_FFFF, obj.data, obj.sections[index][4] + offset)
        for index, entries in obj.relocations.items()
        if obj.sections[index][2] & c.SHF_EXECINSTR
        for offset, info, _ in entries
        if info >> 32 < len(obj.symbols)
        and obj.symbols[info >> 32][3] == 0
        and offset < obj.sections[index][5]
    )
    for index, entries in obj.relocations.items():
        if obj.sections[index][2] & c.SHF_ALLOC:
            _check_apart(entries, f"{label}: {obj.section_name(index)}")
    special = any(info & 15 in _SPECIAL for _, info, _, _, _, _ in obj.symbols)
    if not special and not _far(near_names(references), resolver):
        return obj.data
    builder = Builder()
    builder.add(obj, label)
    return prepare(builder, label, resolver)


def prepare(builder: Builder, label: str, resolver: Resolver) -> bytes:
    """The same for an object that is being put together."""
    try:
        return _changed(builder, label, resolver)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise LinkError(f"{label}: not a whole object: {error}") from error


def _changed(builder: Builder, label: str, resolver: Resolver) -> bytes:
    for section in builder.sections:
        if section.flags & c.SHF_ALLOC:
            entries = [(at, kind, addend) for at, kind, _, addend in section.relocations]
            _check_apart(entries, f"{label}: {section.name}")
    emulate(builder, label)
    make_ordinary(builder)
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


def _check_apart(entries: Sequence[tuple[int, int, int]], where: str) -> None:
    """Each field is written for one relocation: psABI 4.4.1 knows no others for this machine."""
    end = -3
    for offset, info, _ in sorted(entries):
        if (row := TABLE.get(info & 0xFFFF_FFFF)) is None:
            continue
        if offset - _BEFORE.get(row.number, 0) < end:
            raise LinkError(f"{where}+{offset:#x}: two relocations of one field")
        end = offset + row.field


def _far(names: list[str], resolver: Resolver) -> set[str]:
    """Those of the names that the executor's process has and the session does not define."""
    unknown = [n for n in names if n and ((s := resolver.symbols.get(n)) is None
                                          or s.state is SymbolState.FAR)]  # fmt: skip
    found = zip(unknown, resolver.look_up(unknown), strict=True) if unknown else ()
    return {name for name, where in found if where and where[0] is SymbolState.FAR}
