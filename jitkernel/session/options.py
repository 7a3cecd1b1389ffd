"""How a cell is compiled: what was asked for it, what the compiler is told, what the store keeps.

Start from `CellOptions` and `options_for`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from jitkernel.compiler import Options

if TYPE_CHECKING:
    from jitkernel.arena import Arena
    from jitkernel.session.settings import SessionSettings
    from jitkernel.session.store import Record

__all__ = ["CellOptions", "options_for", "row", "stored_options"]


@dataclass(frozen=True, slots=True)
class CellOptions:
    """What `%%llvm` and its like say about one cell.

    `opt_level` and `cpu` None or empty: the session's.  `closed` lets LLVM inline the cell's own
    functions into each other, so that redefining one does not reach the others.  `retype` allows a
    type to change under its users; `keep_data` keeps the values of globals that are redefined.
    `passes` takes the place of the level's pipeline (`instcombine,simplifycfg`).  `fresh` compiles
    also what is in the object cache.  `keep_cpu` keeps a CPU that pasted functions name by default.
    """

    opt_level: int | None = None
    cpu: str = ""
    closed: bool = False
    ignore_optnone: bool = False
    retype: bool = False
    keep_data: bool = False
    passes: str = ""
    fresh: bool = False
    keep_cpu: bool = False

    @property
    def words(self) -> str:
        """What differs from the session's settings: `-O0, closed`."""
        level = "" if self.opt_level is None else f"-O{self.opt_level}"
        return ", ".join(filter(None, (level, self.passes, self.cpu, "closed" * self.closed)))


def options_for(cell: CellOptions, settings: SessionSettings, arena: Arena) -> Options:
    """The compiler's options for a cell of a session."""
    level = settings.opt_level if cell.opt_level is None else cell.opt_level
    low = arena.base + arena.capacity <= 1 << 31
    cpu, reloc = cell.cpu or settings.cpu, "static" if low else "pic"
    # A level that a cell asks for is that level's own pipeline.
    passes = cell.passes or (settings.passes if cell.opt_level is None else "")
    return _options(level, cpu, reloc, cell.closed, cell.ignore_optnone, passes, cell.keep_cpu)


@lru_cache(maxsize=64)
def _options(
    level: int,
    cpu: str,
    reloc: str,
    closed: bool,
    ignore_optnone: bool,
    passes: str,
    keep_cpu: bool,
) -> Options:
    return Options(
        opt_level=level, cpu=cpu, reloc=reloc, closed=closed, ignore_optnone=ignore_optnone,
        passes=passes, keep_cpu=keep_cpu,
    )  # fmt: skip


@lru_cache(maxsize=64)
def row(options: Options) -> str:
    """The options as the store keeps them."""
    return json.dumps(options.row())


def stored_options(record: Record) -> Options:
    """The options a stored cell was compiled with."""
    return Options.of(json.loads(record.options))
