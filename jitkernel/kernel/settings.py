"""Every setting of a kernel as a trait, and what of it reaches the session.

Each trait says when a change takes effect in its tag `effect`: "now", "next cell" or "start".  Not
the wire session of jupyter_client: `app.Session` adds that to the `Session` of this module, since
both read the configuration section `Session`.  Start from `JITKernelSettings` and `sections`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

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
from traitlets.config import Application, Config, Configurable

__all__ = [
    "ALIASES",
    "FLAGS",
    "Arena",
    "ByteSize",
    "Compiler",
    "Executor",
    "ObjectCache",
    "Session",
    "configured",
    "known_settings",
    "sections",
    "session_settings",
]

CONFIG_NAME = "jitkernel_config"
Trait = TypeVar("Trait", bound=TraitType[Any, Any])

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


def _setting(effect: Literal["now", "next cell", "start"], trait: Trait) -> Trait:
    """A setting, and when a change of it takes effect."""
    words = {"now": "now", "next cell": "with the next cell", "start": "at start"}[effect]
    trait.help += f" Takes effect {words}."
    return trait.tag(config=True, effect=effect)


class Arena(Configurable):
    """The slab that holds code, constants and globals."""

    capacity = _setting("start", ByteSize(1 << 30, help="Bytes of the slab, at most 1776M."))
    base = _setting("start", Integer(0, help="Address of the slab in the executor; 0: random."))

    @validate("capacity")
    def _fits(self, proposal: Any) -> int:
        if proposal.value > 1776 << 20:
            raise TraitError("Arena.capacity: at most 1776M, so that all addresses are in reach")
        return int(proposal.value)


class Session(Configurable):
    """The growing program."""

    undo_depth = _setting("now", Integer(20, min=0, help="How many cell runs can be undone."))
    results_kept = _setting(
        "now",
        Integer(
            100,
            min=1,
            help="How many results `_5` can name; of arrays and other large ones 64 MB at most.",
        ),
    )
    context = _setting(
        "next cell",
        Enum(
            ["throwaway", "shared", "kept"],
            "throwaway",
            help="The LLVM context of a cell: one for each compile, one for all, or one for as long"
            " as the cell lives.",
        ),
    )
    budget = _setting(
        "now",
        ByteSize(
            0,
            help="Bytes of code that may be in memory between runs; what was used least recently"
            " leaves and comes back when it is called; 0: no limit.",
        ),
    )
    store_path = _setting(
        "start",
        Unicode(
            "",
            help="The session's file, written when it ends and gone on with where it is there;"
            " empty: a temporary one.",
        ),
    )
    autosave = _setting(
        "start",
        Bool(
            False,
            help="Save after each cell, to store_path or to a file of the notebook's own, which"
            " %restore --last brings back after a restart.",
        ),
    )
    trust = _setting(
        "start",
        Bool(
            False,
            help="Load the libraries that the session's file names: loading one runs its code, and"
            " whoever wrote the file chose which.",
        ),
    )


class ObjectCache(Configurable):
    """Compiled code on disk, found again by other kernels of this user."""

    enabled = _setting(
        "start", Bool(True, help="Whether to keep it; never where JITKernel.deterministic is set.")
    )
    size = _setting("start", ByteSize(256 << 20, help="Bytes on disk."))


class Compiler(Configurable):
    """How cells are compiled."""

    opt_level = _setting("next cell", Integer(2, min=0, max=3, help="-O0 to -O3."))
    passes = _setting("next cell", Unicode("", help="Passes to run instead of the level's own."))
    cpu = _setting("next cell", Unicode("native", help="The CPU to compile for."))
    timeout = _setting(
        "next cell", Float(60.0, min=0.1, help="Seconds until a compile is given up.")
    )
    memory_limit = _setting(
        "next cell", ByteSize(512 << 20, help="Bytes; a larger worker is replaced.")
    )
    workers = _setting(
        "start", Integer(1, min=1, max=64, help="Compiler processes beside the spare.")
    )
    prelude = _setting("next cell", Bool(True, help="Declare the common C functions when used."))
    clang = _setting(
        "next cell",
        Unicode(
            "",
            help="The clang that reads C cells: the path of one from 19 on, or a name that the PATH"
            " has (clang-19); empty: that of the package ziglang, which pip install"
            " 'jitkernel[c]' brings.",
        ),
    )
    clang_flags = _setting(
        "next cell",
        Unicode(
            "",
            help="Its flags for C cells, as on a command line: -Wall -I folder -O3 -ffast-math"
            " -march=x86-64-v3 -fopenmp; what no cell can have is refused, and why.",
        ),
    )


class Executor(Configurable):
    """The process in which cells run."""

    kind = _setting(
        "start",
        Enum(
            ["process", "inline"],
            "process",
            help="Where cells run: in a process of their own, or in the kernel's, whose end a fault"
            " is then, and where they print past the notebook.",
        ),
    )
    interrupt_grace = _setting(
        "now", Float(2.0, min=0.0, help="Seconds until an interrupt uses force.")
    )
    cell_timeout = _setting(
        "now", Float(0.0, min=0.0, help="Seconds until a cell is interrupted; 0: never.")
    )
    memory_limit = _setting(
        "start", ByteSize(0, help="Bytes of address space of cells; 0: no limit.")
    )
    stack_size = _setting("start", ByteSize(8 << 20, help="Bytes of stack of cells."))
    env = _setting("start", Dict(help="Environment variables to add."))
    cwd = _setting("start", Unicode("", help="Working directory; empty: the notebook's."))


class JITKernelSettings(Configurable):
    """What the Jupyter side does; `JITKernel` inherits these traits."""

    default_language = _setting(
        "start",
        Unicode("llvm", help="The language of a cell without %%; %language lists what there is."),
    )
    asm_syntax = _setting("now", Enum(["intel", "att"], "intel", help="The syntax of %asm."))
    max_output = _setting(
        "now",
        ByteSize(
            1_000_000,
            help="Bytes of a cell's output that are shown; the rest is counted, and kept in a file"
            " while the session lives.",
        ),
    )
    status_line = _setting("now", Bool(True, help="Say under a cell what it defined."))
    deterministic = _setting(
        "start",
        Bool(
            False,
            help="The same displays on every run: a fixed base and CPU, addresses and times masked."
            " For courses and documentation.",
        ),
    )
    startup_files = _setting(
        "start", List(Unicode(), help="Files that run as cells before the first one.")
    )
    history_length = _setting(
        "start", Integer(10_000, min=0, help="Cells of history kept; 0: none.")
    )

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


#: What a setting is called in the session where that is another name.
_RENAMED = {
    "Compiler.memory_limit": "worker_memory_limit",
    "Executor.kind": "executor",
    "Executor.memory_limit": "executor_memory_limit",
    "ObjectCache.enabled": "object_cache",
    "ObjectCache.size": "object_cache_size",
}
#: Every setting that is the session's, with its name there.
SESSION_NAMES = {
    (name := f"{section.__name__}.{trait}"): _RENAMED.get(name, trait)
    for section in (Arena, Session, Compiler, Executor, ObjectCache)
    for trait in section.class_own_traits(config=True)
}


def configured() -> Config:
    """The configuration files `jitkernel_config.py` and `.json` on Jupyter's path."""
    from jupyter_core.paths import jupyter_config_path

    reader = Application()
    reader.load_config_file(CONFIG_NAME, jupyter_config_path())
    return reader.config


def sections(config: Config) -> dict[str, Any]:
    """The sections of the settings by name, each with what `config` says.

    `Session` is read by the wire session too, `JITKernel` by the base classes of the kernel:
    options that are no settings are left out.
    """
    found: dict[str, Any] = {}
    for section in (Arena, Session, Compiler, Executor, ObjectCache, JITKernelSettings):
        name, known = section.__name__.removesuffix("Settings"), section.class_own_traits()
        given = {trait: value for trait, value in config[name].items() if trait in known}
        found[name] = section(config=Config({section.__name__: given}))
    return found


def known_settings(
    found: Mapping[str, Configurable],
) -> dict[str, tuple[Any, Any]]:
    """`Section.trait` -> (its section, the trait), for every setting that says when it acts."""
    return {
        f"{section}.{name}": (owner, trait)
        for section, owner in found.items()
        for name, trait in owner.traits(config=True, effect=bool).items()
    }


def session_settings(found: Mapping[str, Any]) -> dict[str, Any]:
    """What `jitkernel.Session` is started with, by the names of its own settings."""
    settings = {
        own: getattr(found[section], trait)
        for name, own in SESSION_NAMES.items()
        for section, _, trait in [name.partition(".")]
    }
    if found["JITKernel"].deterministic:
        settings["base"] = settings["base"] or DETERMINISTIC_BASE
        settings["object_cache"] = False
        if settings["cpu"] == "native":
            settings["cpu"] = DETERMINISTIC_CPU
    return settings
