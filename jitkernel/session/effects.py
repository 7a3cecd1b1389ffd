"""What a run did that undo cannot take back, in words.  Start from `lasting`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitkernel.linker import SymbolState
from jitkernel.printable import written
from jitkernel.session.cell import cells_words
from jitkernel.session.change import Change

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["lasting", "mentioned"]

_NAME = re.compile(r'@("[^"\n]*"|[-a-zA-Z$._0-9]+)')
_HEAP = frozenset(
    "malloc calloc realloc reallocarray free strdup strndup aligned_alloc posix_memalign memalign "
    "asprintf vasprintf getline mmap munmap sbrk _Znwm _Znam _ZdlPv _ZdlPvm _ZdaPv".split()
)
_FILES = frozenset(
    "fopen fopen64 freopen fdopen fclose fwrite fputs fputc fprintf open open64 openat creat close "
    "write pwrite unlink remove rename mkdir rmdir truncate ftruncate link symlink chmod "
    "tmpfile mkstemp system popen dup dup2 pipe socket send sendto".split()
)


def mentioned(texts: Iterable[str]) -> frozenset[str]:
    """The names in statements."""
    return frozenset(name.strip('"') for text in texts for name in _NAME.findall(text))


def lasting(program: Program, change: Change) -> str:
    """`5 bytes that it printed, what @malloc gave` of a change that is still done; or nothing.

    Which functions of libraries a run has called is not recorded: those that it could reach count.
    """
    effects = change.effects
    words: list[str] = []
    if effects.printed:
        words.append(f"{effects.printed} byte{'s' * (effects.printed != 1)} that it printed")
    reached = _reached(program, effects.names)
    if heap := sorted(reached & _HEAP):
        words.append(f"the heap ({_shown(heap)})")
    if files := sorted(reached & _FILES):
        words.append(f"files ({_shown(files)})")
    if effects.constructed:
        words.append(f"what the constructors of cell {effects.constructed} did elsewhere")
    if effects.destroyed:
        words.append(f"what the destructors of {cells_words(effects.destroyed)} did elsewhere")
    return ", ".join(words)


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(written(n) for n in names[:4]) + more


def _reached(program: Program, names: frozenset[str]) -> set[str]:
    """Functions of libraries that code under those names leads to, cell by cell."""
    symbols = program.linker.symbols
    todo = [s for n in names if (s := symbols.get(n)) is not None]
    # What a block of instructions called is known to the executor only by name.
    found = {n for n in names if n not in symbols}
    seen = set(todo)
    while todo:
        symbol = todo.pop()
        if symbol.state is SymbolState.FAR:
            found.add(symbol.name)
        image = symbol.image
        for used in image.refs if image is not None else ():
            if used not in seen:
                seen.add(used)
                todo.append(used)
    return found
