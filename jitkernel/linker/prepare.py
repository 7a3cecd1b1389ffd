"""What is done to an object of another compiler before it is placed.  Start from `prepared`.

A linker of programs has means that a session has not: variables of libraries are copied into the
program, a function may be chosen when the program starts, its threads have variables of their own.
What asks for those becomes something here that needs none of it: see `far_data`, `ifuncs` and
`thread_locals`.
"""

from __future__ import annotations

import struct

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.linker.builder import Builder
from jitkernel.linker.far_data import detour, near_names
from jitkernel.linker.ifuncs import make_ordinary
from jitkernel.linker.records import SymbolState
from jitkernel.linker.resolver import Resolver
from jitkernel.linker.thread_locals import emulate

_SPECIAL = (c.STT_TLS, c.STT_GNU_IFUNC)


def prepared(obj: ElfObject, label: str, resolver: Resolver) -> ElfObject:
    """An object as it is to be placed: the same one, where nothing has to be done.

    `label` is what it is called in messages.  Raises LinkError for what cannot be done.
    """
    builder = Builder()
    builder.add(obj, label)
    return prepare(builder, label, resolver, obj)


def prepare(
    builder: Builder, label: str, resolver: Resolver, plain: ElfObject | None = None
) -> ElfObject:
    """The same for an object that is being put together, of `plain` alone where that is given."""
    try:
        same = plain is not None and builder.kinds.isdisjoint(_SPECIAL)
        emulate(builder, label)
        make_ordinary(builder)
        if far := _far(near_names(builder.sections), resolver):
            detour(builder, far)
        elif plain is not None and same:
            return plain
        return builder.object()
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise LinkError(f"{label}: not a whole object: {error}") from error


def _far(names: list[str], resolver: Resolver) -> set[str]:
    """Those of the names that the executor's process has and the session does not define."""
    unknown = [n for n in names if n and ((s := resolver.symbols.get(n)) is None
                                          or s.state is SymbolState.FAR)]  # fmt: skip
    found = zip(unknown, resolver.look_up(unknown), strict=True) if unknown else ()
    return {name for name, where in found if where and where[0] is SymbolState.FAR}
