"""What is done to an object of another compiler before it is placed.  Start from `prepared`.

A linker of programs has means that a session has not: variables of libraries are copied into the
program, a function may be chosen when the program starts, its threads have variables of their own.
What asks for those becomes something here that needs none of it: see `far_data`, `ifuncs` and
`thread_locals`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection
from operator import sub

from jitkernel.elf import ElfObject, read_object
from jitkernel.elf import constants as c
from jitkernel.elf.constants import RELA
from jitkernel.errors import LinkError
from jitkernel.linker.builder import Builder
from jitkernel.linker.far_data import NEAR, detour, is_branch, near_names
from jitkernel.linker.ifuncs import make_ordinary
from jitkernel.linker.records import SymbolState
from jitkernel.linker.resolver import Resolver
from jitkernel.linker.thread_locals import emulate
from jitkernel.linker.x86_64 import GOTPCRELX, REX_GOTPCRELX, TABLE

__all__ = ["prepare", "prepared"]

_SPECIAL = (c.STT_TLS, c.STT_GNU_IFUNC)
#: bytes before a field that are written with it: opcode, ModRM, REX
_BEFORE = {GOTPCRELX: 2, REX_GOTPCRELX: 3}
#: bytes between two offsets that are enough for all types
_FAR_APART = 11


def prepared(obj: ElfObject, label: str, resolver: Resolver) -> ElfObject:
    """An object as it is to be placed: the same one, where nothing has to be done.

    `label` is what it is called in messages.  Raises LinkError for what cannot be done.
    """
    near: dict[str, None] = {}
    for index, table in obj.tables.items():
        flags = obj.sections[index][2]
        if flags & c.SHF_EXECINSTR:
            near |= dict.fromkeys(_near(obj, index, table))
        if flags & c.SHF_ALLOC:
            _check_apart(array("Q", table), f"{label}: {obj.section_name(index)}")
    special = any(info & 15 in _SPECIAL for _, info, _, _, _, _ in obj.symbols)
    if not special and not _far(list(near), resolver):
        return obj
    builder = Builder()
    builder.add(obj, label)
    return prepare(builder, label, resolver)


def _near(obj: ElfObject, section: int, table: bytes) -> list[str]:
    """Names that one section of an object takes for variables within reach."""
    symbols, count = obj.symbols, len(obj.symbols)
    infos = {
        info for info in set(array("Q", table)[1::3])
        if info >> 32 < count and symbols[info >> 32][3] == 0
    }  # fmt: skip
    names = {number: obj.symbol_name(number) for number in {info >> 32 for info in infos}}
    wanted = {info for info in infos if info & 0xFFFF_FFFF in NEAR}
    if not wanted:
        return []
    code, size = obj.content(section), obj.sections[section][5]
    return [
        names[info >> 32] for offset, info, _ in RELA.iter_unpack(table)
        if info in wanted and offset < size and not is_branch(info & 0xFFFF_FFFF, code, offset)
    ]  # fmt: skip


def prepare(builder: Builder, label: str, resolver: Resolver) -> ElfObject:
    """The same for an object that is being put together."""
    try:
        return _changed(builder, label, resolver)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise LinkError(f"{label}: not a whole object: {error}") from error


def _changed(builder: Builder, label: str, resolver: Resolver) -> ElfObject:
    for section in builder.sections:
        if section.flags & c.SHF_ALLOC:
            _check_apart(section.words, f"{label}: {section.name}", section.infos)
    emulate(builder, label)
    make_ordinary(builder)
    if far := _far(near_names(builder.sections), resolver):
        detour(builder, far)
    return read_object(builder.write())


def _check_apart(words: array[int], where: str, infos: Collection[int] = ()) -> None:
    """Each field is written for one relocation: psABI 4.4.1 knows no others for this machine.
    `words` are offset, info and addend of each, `infos` the second of those, where they are known.
    """
    if len(words) <= 3:
        return
    offsets = words[::3].tolist()
    apart = min(map(sub, offsets[1:], offsets), default=_FAR_APART)
    if apart >= _FAR_APART:
        return
    if apart < 0:  # in no order
        offsets.sort()
        apart = min(map(sub, offsets[1:], offsets))
    kinds = {info & 0xFFFF_FFFF for info in infos or set(words[1::3])}
    widest = max([row.field if (row := TABLE.get(kind)) is not None else 0 for kind in kinds])
    if apart >= widest + max([_BEFORE.get(kind, 0) for kind in kinds]):
        return
    end = -3
    for offset, info, _ in sorted(RELA.iter_unpack(words)):
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
