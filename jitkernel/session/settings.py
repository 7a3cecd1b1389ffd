"""What a session is started with, and how each of its cells is compiled.

Start from `SessionSettings`; of one cell from `CellOptions` and `options_for`, which makes of them
the compiler's options.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from jitkernel.compiler import Options, Request
from jitkernel.errors import UsageError, WrongArgument

if TYPE_CHECKING:
    from jitkernel.arena import Arena
    from jitkernel.session.saved.store import Record

__all__ = [
    "Again",
    "CONTEXTS",
    "CellOptions",
    "Given",
    "SessionSettings",
    "check_context",
    "check_executor",
    "check_inline",
    "check_value",
    "options_for",
    "row",
    "settings_with",
    "stored_options",
    "stored_request",
]


@dataclass(slots=True)
class SessionSettings:
    """Sizes are bytes, times seconds; 0 means no limit where a limit is meant.

    What is read when a session starts: capacity, base, workers, spare, executor,
    executor_memory_limit, stack_size, env, cwd, store_path, autosave, trust, object_cache,
    object_cache_size.  All else takes effect with the next cell.

    `store_path` is the session's file; one that is there already is gone on with.  `autosave`
    writes to it after each cell (else when the session closes), so that a session whose process was
    killed is there up to its last cell.  `trust` loads the libraries that a session's file names:
    a library runs code of its own when it is loaded, and whoever wrote the file chose which.

    `undo_data` is how much of the data zone an undo can bring back whatever a run wrote there; four
    times as many bytes of old values are kept for all steps together.

    `object_cache` keeps compiled code on disk for other sessions of this user (a kernel does; a
    library writes to nobody's home unasked).  `context` is `throwaway`, `shared` or `kept`.

    `executor` is `process`, or `inline`: code runs in this process, as with ctypes.  Then what it
    does wrong ends this process, nobody can stop it, and it prints where this process does.
    """

    capacity: int = 1 << 30
    base: int = 0
    undo_depth: int = 20
    undo_data: int = 64 << 20
    results_kept: int = 100
    opt_level: int = 2
    passes: str = ""
    cpu: str = "native"
    timeout: float = 60.0
    worker_memory_limit: int = 512 << 20
    workers: int = 1
    spare: bool = True
    prelude: bool = True
    clang: str = ""
    clang_flags: str = ""
    interrupt_grace: float = 2.0
    cell_timeout: float = 0.0
    executor_memory_limit: int = 0
    stack_size: int = 8 << 20
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    store_path: str = ""
    autosave: bool = False
    trust: bool = False
    object_cache: bool = False
    object_cache_size: int = 256 << 20
    context: str = "throwaway"
    budget: int = 0
    executor: str = "process"


class Again(TypedDict, total=False):
    """Settings as keywords of `Session.restore`, for checkers of types: see `SessionSettings`."""

    capacity: int
    base: int
    undo_depth: int
    undo_data: int
    results_kept: int
    opt_level: int
    passes: str
    cpu: str
    timeout: float
    worker_memory_limit: int
    workers: int
    spare: bool
    prelude: bool
    clang: str
    clang_flags: str
    interrupt_grace: float
    cell_timeout: float
    executor_memory_limit: int
    stack_size: int
    env: Mapping[str, str]
    cwd: str
    store_path: str | os.PathLike[str]
    autosave: bool
    object_cache: bool
    object_cache_size: int
    context: Literal["throwaway", "shared", "kept"]
    budget: int
    executor: Literal["process", "inline"]


class Given(Again, total=False):
    """The same of `Session`."""

    trust: bool


def settings_with(
    settings: SessionSettings | None, overrides: Mapping[str, Any]
) -> SessionSettings:
    """Settings, or the defaults, with some of them replaced.  Raises UsageError for other names,
    and for values of other types."""
    if settings is not None and not isinstance(settings, SessionSettings):
        raise WrongArgument(f"Session: settings are SessionSettings or None, not {settings!r}")
    for name, value in overrides.items():
        if name == "store_path" and isinstance(value, os.PathLike):
            overrides = {**overrides, name: os.fspath(value)}
        else:
            check_value("Session", name, value)
    return replace(settings or SessionSettings(), **overrides)


def check_value(function: str, name: str, value: Any) -> None:
    """Raise UsageError for what is no setting of a session, or a value of another type."""
    known = {f.name: str(f.type) for f in fields(SessionSettings)}
    if isinstance(name, str) and name in known:
        from jitkernel.arguments import check

        check(function, name, known[name], value)
    else:
        raise UsageError(f"Session has no setting {name!r}; there are {', '.join(sorted(known))}")


@dataclass(frozen=True, slots=True)
class CellOptions:
    """What `%%llvm` and its like say about one cell.

    `opt_level` and `cpu` None or empty: the session's.  `closed` lets LLVM inline the cell's own
    functions into each other, so that redefining one does not reach the others.  `retype` allows a
    type to change under its users; `keep_data` keeps the values of globals that are redefined.
    `passes` takes the place of the level's pipeline (`instcombine,simplifycfg`).  `fresh` compiles
    also what is in the object cache.  `keep_cpu` keeps a CPU that pasted functions name by default.
    `sanitize` lets clang check a C cell for undefined behaviour, and stop where there is any; a
    pointer beyond its array, or into memory that was freed, it does not know from others.
    `file` is the path of the file that the cell is the text of, "" for none.
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
    return Options(
        opt_level=level, cpu=cpu, reloc=reloc, closed=cell.closed,
        ignore_optnone=cell.ignore_optnone, passes=passes, keep_cpu=cell.keep_cpu,
    )  # fmt: skip


@lru_cache(maxsize=64)
def row(options: Options) -> str:
    """The options as the store keeps them."""
    return json.dumps(options.row())


def stored_options(record: Record) -> Options:
    """The options a stored cell was compiled with."""
    return Options.of(json.loads(record.options))


def stored_request(record: Record) -> Request:
    """What the compiler was asked for a stored cell."""
    return Request(
        record.module, stored_options(record), f"cell {record.number}",
        frozenset(record.nobuiltin), record.first_line,
    )  # fmt: skip


CONTEXTS = ("throwaway", "shared", "kept")


def check_context(policy: str) -> None:
    """Raise UsageError where there is no such policy."""
    if policy not in CONTEXTS:
        raise UsageError(f"there is no context {policy!r}; there are {', '.join(CONTEXTS)}")


EXECUTORS = ("process", "inline")
#: What code that runs in this process cannot have, and what is done instead.
_NOT_INLINE = {
    "cell_timeout": "nobody can stop code that runs in this process",
    "executor_memory_limit": "the memory is this process's own (resource.setrlimit)",
    "stack_size": "the stack is this process's own (threading.stack_size, ulimit -s)",
    "env": "the environment is this process's own (os.environ)",
    "cwd": "the working directory is this process's own (os.chdir)",
}


def check_executor(settings: SessionSettings) -> None:
    """Raise UsageError where there is no such executor, or it cannot have the other settings."""
    if settings.executor not in EXECUTORS:
        raise UsageError(
            f"there is no executor {settings.executor!r}; there are {', '.join(EXECUTORS)}"
        )
    if settings.executor == "inline":
        for name in _NOT_INLINE:
            check_inline(settings, name, getattr(settings, name))


def check_inline(settings: SessionSettings, name: str, value: Any) -> None:
    """Raise UsageError for a setting that takes a process, where there is none."""
    if settings.executor == "inline" and name in _NOT_INLINE:
        if value != getattr(SessionSettings(), name):
            raise UsageError(
                f'{name} has no meaning with executor="inline": {_NOT_INLINE[name]}; '
                'executor="process" has it'
            )
