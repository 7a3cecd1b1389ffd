"""What a session is started with, and how each of its cells is compiled.

Start from `settings_with`; the settings are declared in `jitkernel/settings.py`, and written out as
keywords of `Session` in `keywords.py`.  Of one cell start from `CellOptions` and `options_for`,
which makes of them the compiler's options.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.records import FOLLOWED, HOMES, Options, Request
from jitkernel.errors import UsageError, WrongArgument
from jitkernel.ir.marks import are_marked
from jitkernel.record import record, replace
from jitkernel.setting import declared
from jitkernel.settings import SessionSettings

if TYPE_CHECKING:
    from jitkernel.arena import Arena
    from jitkernel.session.saved.store import Record


def settings_with(
    settings: SessionSettings | None, overrides: Mapping[str, Any]
) -> SessionSettings:
    """Settings, or the defaults, with some of them replaced.  Raises UsageError for other names,
    and for values that a setting cannot have."""
    if settings is not None and not isinstance(settings, SessionSettings):
        raise WrongArgument(f"Session: settings are SessionSettings or None, not {settings!r}")
    known, given = declared(SessionSettings), dict(overrides)
    for name, value in given.items():
        if name in known and known[name].takes_path and isinstance(value, os.PathLike):
            given[name] = os.fspath(value)
        else:
            check_value("Session", name, value)
    chosen = replace(settings or SessionSettings(), **given)
    for name in known:
        _check_choice(name, getattr(chosen, name))
        check_inline(chosen, name, getattr(chosen, name))
    return chosen


def check_value(function: str, name: str, value: Any) -> None:
    """Raise UsageError for what is no setting of a session, or a value that it cannot have."""
    known = declared(SessionSettings)
    if not isinstance(name, str):
        raise UsageError(f"Session has no setting {name!r}: the name of one is text")
    if name not in known:
        raise UsageError(f"Session has no setting {name!r}; there are {', '.join(sorted(known))}")
    from jitkernel.arguments import check

    told = known[name]
    check(function, name, told.type, value)
    _check_choice(name, value)
    if told.annotation in ("int", "float") and not told.fits(value):
        raise UsageError(f"{function}: {name} {told.takes}, not {value!r}")


def _check_choice(name: str, value: Any) -> None:
    choices = declared(SessionSettings)[name].choices
    if choices and value not in choices:
        raise UsageError(f"there is no {name} {value!r}; there are {', '.join(choices)}")


def check_inline(settings: SessionSettings, name: str, value: Any) -> None:
    """Raise UsageError for a setting that takes a process, where there is none."""
    told = declared(SessionSettings)[name]
    if settings.executor == "inline" and told.not_inline and value != told.default:
        raise UsageError(
            f'{name} has no meaning with executor="inline": {told.not_inline}; '
            'executor="process" has it'
        )


def saved_settings(*, chosen: Container[str] = (), inline: bool = False) -> list[str]:
    """The settings that come back with a session's file, but for what runs code and those that are
    `chosen` where it is restored, or that a session has not whose code runs in this process."""
    return [
        name
        for name, told in declared(SessionSettings).items()
        if (told.saved == "always" or (told.saved == "unless given" and name not in chosen))
        and not (inline and told.not_inline)
    ]


@record
class CellOptions:
    """The options that `%%llvm` and its like give for one cell.

    `opt_level` and `cpu` None or empty: the session's.  `closed` lets LLVM inline the cell's own
    functions into each other, so that redefining one does not reach the others.  `retype` allows a
    type to change under its users; `keep_data` keeps the values of globals that are redefined.
    `passes` takes the place of the level's pipeline (`instcombine,simplifycfg`).  `fresh` compiles
    also what is in the object cache.  `keep_cpu` keeps a CPU that pasted functions name by default.
    `sanitize` lets clang check a C cell for undefined behaviour, and stop where there is any; a
    pointer beyond its array, or into memory that was freed, it does not know from others.
    `file` is the path of the file that the cell is the text of, "" for none.  `inline` is `on` or
    `off`, empty: as the session has it.  `regalloc` is LLVM's register allocator, `greedy` or
    `fast`, which allocates block by block; empty: the level's.
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
    sanitize: bool = False
    file: str = ""
    inline: str = ""
    regalloc: str = ""

    @property
    def words(self) -> str:
        """The differences from the session's settings: `-O0, closed`."""
        level = "" if self.opt_level is None else f"-O{self.opt_level}"
        inline = f"inline={self.inline}" if self.inline else ""
        words = level, self.passes, self.cpu, "closed" * self.closed, inline, self.regalloc
        return ", ".join(filter(None, words))


USUAL = CellOptions()  # as the session's settings have it


def same_options(options: Options, passes: str = "") -> CellOptions:
    """The options of a cell for one that takes its place and keeps its data, with its own `passes`
    unless those are given."""
    return CellOptions(
        opt_level=options.opt_level,
        cpu=options.cpu,
        closed=options.closed,
        ignore_optnone=options.ignore_optnone,
        keep_cpu=options.keep_cpu,
        regalloc=options.regalloc,
        keep_data=True,
        passes=passes or options.passes,
    )


def options_for(cell: CellOptions, settings: SessionSettings, arena: Arena) -> Options:
    """The compiler's options for a cell of a session."""
    level = settings.opt_level if cell.opt_level is None else cell.opt_level
    low = arena.base + arena.capacity <= 1 << 31
    cpu, reloc = cell.cpu or settings.cpu, "static" if low else "pic"
    # A level that a cell asks for is that level's own pipeline.
    passes = cell.passes or (settings.passes if cell.opt_level is None else "")
    return Options(
        opt_level=level, cpu=cpu, reloc=reloc, closed=cell.closed,
        ignore_optnone=cell.ignore_optnone, passes=passes, keep_cpu=cell.keep_cpu,
        inline=settings.inlining if not cell.inline else cell.inline == "on",
        regalloc=cell.regalloc,
    )  # fmt: skip


def for_debugging(options: Options, optimised: bool = False) -> Options:
    """The options for code that a debugger stops in, in place of other code; `optimised` as that
    is."""
    if optimised and (options.opt_level or options.passes):
        return options._replace(closed=False, debug=FOLLOWED)
    return options._replace(
        opt_level=0,
        passes="",
        regalloc="",
        closed=False,
        ignore_optnone=False,
        inline=False,
        debug=HOMES,
    )


@lru_cache(maxsize=64)
def row(options: Options) -> str:
    """The options as the store keeps them."""
    return json.dumps(options.row())


def stored_options(record: Record) -> Options:
    """The options a stored cell was compiled with."""
    return Options(*json.loads(record.options))


def stored_request(record: Record) -> Request:
    """The compiler's request for a stored cell."""
    return Request(
        record.module, stored_options(record), f"cell {record.number}",
        frozenset(record.nobuiltin), record.first_line,
        marked=are_marked(record.module, record.first_line, record.source),
    )  # fmt: skip
