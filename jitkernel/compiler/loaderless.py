"""Objects of cells that ask for what a loader does for a program.  Start from `without_loader`.

A session loads no program, so what objects of other compilers have is done to those of cells, too:
see `linker.thread_locals` and `linker.ifuncs`.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from jitkernel.elf import read_object
from jitkernel.errors import CompileError, LinkError
from jitkernel.ir.names import CONTROL, written
from jitkernel.linker.builder import Builder
from jitkernel.linker.ifuncs import make_ordinary
from jitkernel.linker.thread_locals import NO_CONSTANT, emulate

_LABEL = 16  # digits that tell the variables of one module's own from another's


def without_loader(code: bytes, source: str, names: Collection[str]) -> bytes:
    """The object of a module, with its thread-local variables and ifuncs made ordinary.

    `source` tells it from the objects of other modules; `names` are control blocks that it may ask
    for.  Raises CompileError for what cannot be.
    """
    label = sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_LABEL]
    builder = Builder()
    try:
        builder.add(read_object(code), label)
        emulate(builder, label)
        make_ordinary(builder)
        for symbol in builder.symbols:
            if symbol.section == 0 and CONTROL + symbol.name in names:
                raise LinkError(f"{written(symbol.name)} {NO_CONSTANT}")
        return builder.write()
    except LinkError as error:
        raise CompileError(str(error).removeprefix(f"{label}: ")) from None
