"""Every setting of a kernel as a trait, and how the early ones are found before Jupyter is loaded.

The compiler worker and the executor start while the Jupyter libraries are still being imported,
so this module needs traitlets only.  Each trait says when a change takes effect in its tag
`effect`: "now", "next cell" or "start".  Not the wire session of jupyter_client: `app.Session` adds
that to the `Session` of this module, since both read the configuration section `Session`.
Start from `JITKernelSettings` and `session_settings`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from traitlets import (
    Bool,
    Dict,
    Enum,
    Float,
    Integer,
    List,
    TraitError,
    TraitType,
    Unicode,
    validate,
)
from traitlets.config import Config, Configurable
from traitlets.config.loader import (
    ConfigFileNotFound,
    DeferredConfigString,
    JSONFileConfigLoader,
    PyFileConfigLoader,
)

__all__ = [
    "ALIASES",
    "FLAGS",
    "Arena",
    "ByteSize",
    "Compiler",
    "Executor",
    "ObjectCache",
    "Session",
    "load_files",
    "only_ours",
    "read_arguments",
    "session_settings",
]

CONFIG_NAME = "jitkernel_config"

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$", re.IGNORECASE)


def parse_size(text: str) -> int:
    """`64M` as bytes (1024 to the K).  Raises ValueError."""
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no size: write bytes, or a number with K, M or G")
    scale = 1024 ** ("kmgt".index(match[2].lower()) + 1 if match[2] else 0)
    return int(float(match[1]) * scale)


class ByteSize(TraitType[int, Any]):
    """A number of bytes; `64M` and `1G` are understood."""

    default_value = 0
    info_text = "a size in bytes (64M, 1G)"

    def validate(self, obj: Any, value: Any) -> int:
        if isinstance(value, str):
            try:
                value = parse_size(value)
            except ValueError as error:
                raise TraitError(f"{self.name}: {error}") from None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.error(obj, value)
        return int(value)

    def from_string(self, s: str) -> int:
        return self.validate(None, s)


class Arena(Configurable):
    """The slab that holds code, constants and globals."""

    capacity = ByteSize(
        1 << 30, help="Bytes of the slab, at most 1776M. Takes effect at start."
    ).tag(config=True, effect="start")
    base = Integer(
        0, help="Address of the slab in the executor; 0: random. Takes effect at start."
    ).tag(config=True, effect="start")

    @validate("capacity")
    def _fits(self, proposal: Any) -> int:
        if proposal.value > 1776 << 20:
            raise TraitError("Arena.capacity: at most 1776M, so that all addresses are in reach")
        return int(proposal.value)


class Session(Configurable):
    """The growing program."""

    undo_depth = Integer(20, min=0, help="How many cell runs can be undone. Takes effect now.").tag(
        config=True, effect="now"
    )
    results_kept = Integer(
        100,
        min=1,
        help="How many results `_5` can name; of arrays and other large ones 64 MB at most."
        " Takes effect now.",
    ).tag(config=True, effect="now")
    context = Enum(
        ["throwaway", "shared", "kept"],
        "throwaway",
        help="The LLVM context of a cell: one for each compile, one for all, or one for as long as"
        " the cell lives. Takes effect with the next cell.",
    ).tag(config=True, effect="next cell")
    budget = ByteSize(
        0,
        help="Bytes of code that may be in memory between runs; what was used least recently leaves"
        " and comes back when it is called; 0: no limit. Takes effect now.",
    ).tag(config=True, effect="now")
    store_path = Unicode(
        "",
        help="The session's file, written when it ends and gone on with where it is there; empty:"
        " a temporary one. Takes effect at start.",
    ).tag(config=True, effect="start")
    autosave = Bool(
        False,
        help="Save after each cell, to store_path or to a file of the notebook's own, which"
        " %restore --last brings back after a restart. Takes effect at start.",
    ).tag(config=True, effect="start")
    trust = Bool(
        False,
        help="Load the libraries that the session's file names: a library runs code when it is"
        " loaded, and whoever wrote the file chose which. Takes effect at start.",
    ).tag(config=True, effect="start")


class ObjectCache(Configurable):
    """Compiled code on disk, found again by other kernels of this user."""

    enabled = Bool(
        True,
        help="Whether to keep it; never where JITKernel.deterministic is set. Takes effect at"
        " start.",
    ).tag(config=True, effect="start")
    size = ByteSize(256 << 20, help="Bytes on disk. Takes effect at start.").tag(
        config=True, effect="start"
    )


class Compiler(Configurable):
    """How cells are compiled."""

    opt_level = Integer(2, min=0, max=3, help="-O0 to -O3. Takes effect with the next cell.").tag(
        config=True, effect="next cell"
    )
    passes = Unicode(
        "", help="Passes to run instead of the level's own. Takes effect with the next cell."
    ).tag(config=True, effect="next cell")
    cpu = Unicode("native", help="The CPU to compile for. Takes effect with the next cell.").tag(
        config=True, effect="next cell"
    )
    timeout = Float(
        60.0, min=0.1, help="Seconds until a compile is given up. Takes effect with the next cell."
    ).tag(config=True, effect="next cell")
    memory_limit = ByteSize(
        512 << 20, help="Bytes; a larger worker is replaced. Takes effect with the next cell."
    ).tag(config=True, effect="next cell")
    workers = Integer(
        1, min=1, max=64, help="Compiler processes beside the spare. Takes effect at start."
    ).tag(config=True, effect="start")
    prelude = Bool(
        True, help="Declare the common C functions when used. Takes effect with the next cell."
    ).tag(config=True, effect="next cell")


class Executor(Configurable):
    """The process in which cells run."""

    interrupt_grace = Float(
        2.0, min=0.0, help="Seconds until an interrupt uses force. Takes effect now."
    ).tag(config=True, effect="now")
    cell_timeout = Float(
        0.0, min=0.0, help="Seconds until a cell is interrupted; 0: never. Takes effect now."
    ).tag(config=True, effect="now")
    memory_limit = ByteSize(
        0, help="Bytes of address space of cells; 0: no limit. Takes effect at start."
    ).tag(config=True, effect="start")
    stack_size = ByteSize(8 << 20, help="Bytes of stack of cells. Takes effect at start.").tag(
        config=True, effect="start"
    )
    env = Dict(help="Environment variables to add. Takes effect at start.").tag(
        config=True, effect="start"
    )
    cwd = Unicode("", help="Working directory; empty: the notebook's. Takes effect at start.").tag(
        config=True, effect="start"
    )


class JITKernelSettings(Configurable):
    """What the Jupyter side does; `JITKernel` inherits these traits."""

    default_language = Unicode(
        "llvm",
        help="The language of a cell without %%; %language lists what there is."
        " Takes effect at start.",
    ).tag(config=True, effect="start")
    asm_syntax = Enum(["intel", "att"], "intel", help="The syntax of %asm. Takes effect now.").tag(
        config=True, effect="now"
    )
    max_output = ByteSize(
        10_000_000, help="Bytes of a cell's output that are shown. Takes effect now."
    ).tag(config=True, effect="now")
    status_line = Bool(True, help="Say under a cell what it defined. Takes effect now.").tag(
        config=True, effect="now"
    )
    deterministic = Bool(
        False,
        help="The same displays on every run: a fixed base and CPU, addresses and times masked."
        " For courses and documentation. Takes effect at start.",
    ).tag(config=True, effect="start")
    startup_files = List(
        Unicode(), help="Files that run as cells before the first one. Takes effect at start."
    ).tag(config=True, effect="start")
    history_length = Integer(
        10_000, min=0, help="Cells of history kept; 0: none. Takes effect at start."
    ).tag(config=True, effect="start")

    @validate("default_language")
    def _known_language(self, proposal: Any) -> str:
        if proposal.value != "llvm":  # always there, and a start need not look for it
            from jitkernel.errors import UsageError
            from jitkernel.languages import find

            try:
                find(proposal.value)
            except UsageError as error:
                raise TraitError(str(error)) from None
        return str(proposal.value)


FLAGS: dict[str, tuple[dict[str, dict[str, Any]], str]] = {
    **{
        f"O{level}": ({"Compiler": {"opt_level": level}}, f"compile cells with -O{level}")
        for level in range(4)
    },
    "deterministic": ({"JITKernel": {"deterministic": True}}, "the same displays on every run"),
}
ALIASES = {
    "budget": "Session.budget",
    "capacity": "Arena.capacity",
    "cpu": "Compiler.cpu",
    "workers": "Compiler.workers",
    "session": "Session.store_path",
}

DETERMINISTIC_BASE = 0x2000_0000
DETERMINISTIC_CPU = "x86-64-v2"


def config_path() -> list[str]:
    """Where `jitkernel_config.py` and `.json` are looked for, the strongest first."""
    from jupyter_core.paths import jupyter_config_path

    return jupyter_config_path()


def load_files(paths: Sequence[str], name: str = CONFIG_NAME) -> Config:
    """The configuration files `name.json` and `name.py` of all `paths`, the first path wins."""
    config = Config()
    for folder in reversed(paths):
        for loader, suffix in ((JSONFileConfigLoader, ".json"), (PyFileConfigLoader, ".py")):
            if os.path.isfile(os.path.join(folder, name + suffix)):
                try:
                    config.merge(loader(name + suffix, path=folder).load_config())
                except ConfigFileNotFound:
                    continue
    return config


def read_arguments(argv: Sequence[str]) -> Config:
    """The settings among the command line's arguments, without building the application.

    Only `--Class.trait=value`, our aliases and flags; the application reads them all again.
    """
    config = Config()
    sections = {"Arena", "Session", "Compiler", "Executor", "ObjectCache", "JITKernel"}
    for argument in argv:
        if not argument.startswith("--"):
            continue
        name, equals, value = argument[2:].partition("=")
        if not equals and name in FLAGS:
            config.merge(Config(FLAGS[name][0]))
            continue
        section, _, trait = ALIASES.get(name, name).partition(".")
        if equals and section in sections and trait:
            config[section][trait] = DeferredConfigString(value)
    return config


# `%config` names and the session's own.
SESSION_NAMES = {
    "Session.undo_depth": "undo_depth",
    "Session.results_kept": "results_kept",
    "Session.budget": "budget",
    "Session.context": "context",
    "Compiler.opt_level": "opt_level",
    "Compiler.passes": "passes",
    "Compiler.cpu": "cpu",
    "Compiler.timeout": "timeout",
    "Compiler.memory_limit": "worker_memory_limit",
    "Compiler.prelude": "prelude",
    "Executor.interrupt_grace": "interrupt_grace",
    "Executor.cell_timeout": "cell_timeout",
}


def session_settings(config: Config) -> dict[str, Any]:
    """What `jitkernel.Session` is started with, by the names of its own settings."""
    arena, session = Arena(config=config), Session(config=only_ours(config, Session))
    compiler, executor = Compiler(config=config), Executor(config=config)
    cache = ObjectCache(config=config)
    kernel = JITKernelSettings(config=only_ours(config, JITKernelSettings, "JITKernel"))
    base, cpu = arena.base, compiler.cpu
    if kernel.deterministic:
        base = base or DETERMINISTIC_BASE
        cpu = DETERMINISTIC_CPU if cpu == "native" else cpu
    return {
        "capacity": arena.capacity,
        "base": base,
        "undo_depth": session.undo_depth,
        "context": session.context,
        "budget": session.budget,
        "store_path": session.store_path,
        "autosave": session.autosave,
        "trust": session.trust,
        "object_cache": cache.enabled and not kernel.deterministic,
        "object_cache_size": cache.size,
        "results_kept": session.results_kept,
        "opt_level": compiler.opt_level,
        "passes": compiler.passes,
        "cpu": cpu,
        "timeout": compiler.timeout,
        "worker_memory_limit": compiler.memory_limit,
        "workers": compiler.workers,
        "prelude": compiler.prelude,
        "interrupt_grace": executor.interrupt_grace,
        "cell_timeout": executor.cell_timeout,
        "executor_memory_limit": executor.memory_limit,
        "stack_size": executor.stack_size,
        "env": dict(executor.env),
        "cwd": executor.cwd,
    }


def only_ours(config: Config, section: type[Configurable], name: str = "") -> Config:
    """The section of `config` for one class, without options that are no traits of that class.

    `Session` is read by the wire session too, `JITKernel` by the base classes of the kernel.
    """
    known = section.class_trait_names(config=True)
    found = config[name or section.__name__]
    return Config({section.__name__: {k: v for k, v in found.items() if k in known}})
