"""The settings as the configuration has them, and those that only a front end has.

Start from `KernelSettings`: of the session's, `SessionSettings` has the fields (see `setting.py`).
The traits of the sections are made from both.  Not the wire session of jupyter_client:
`app.Session` adds that to the `Session` of this module, since both read the configuration section
`Session`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from traitlets import (
    Bool,
    Dict,
    Enum,
    Float,
    Integer,
    List,
    MetaHasTraits,
    TraitError,
    TraitType,
    Unicode,
    validate,
)
from traitlets.config import Application, Config, Configurable

from jitkernel.record import record
from jitkernel.regex import regex
from jitkernel.setting import Setting, declared, setting
from jitkernel.settings import SessionSettings

CONFIG_NAME = "jitkernel_config"
Section = TypeVar("Section", bound=Configurable)

_SIZE = regex(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$", re.IGNORECASE)


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
        told: Setting | None = self.metadata.get("setting")
        if told is not None and not told.fits(value):
            raise TraitError(f"{told.trait}: at most {told.bound}, {told.because}")
        return int(value)

    def from_string(self, s: str) -> int:
        return self.validate(None, s)


@record
class KernelSettings:
    """Settings of the Jupyter side."""

    default_language: str = setting(
        "llvm", "JITKernel", "start",
        "The language of a cell without %%; %language lists what there is.",
        completes="language",
    )  # fmt: skip
    asm_syntax: Literal["intel", "att"] = setting(
        "intel", "JITKernel", "now", "The syntax of %asm."
    )
    max_output: int = setting(
        1_000_000, "JITKernel", "now",
        "Bytes of a cell's output that are shown; the rest is counted, and kept in a file while the"
        " session lives.", unit="bytes",
    )  # fmt: skip
    status_line: bool = setting(True, "JITKernel", "now", "Say under a cell what it defined.")
    deterministic: bool = setting(
        False, "JITKernel", "start",
        "The same displays on every run: a fixed base and CPU, addresses and times masked. For"
        " courses and documentation.",
    )  # fmt: skip
    startup_files: Sequence[str] = setting(
        list, "JITKernel", "start", "Files that run as cells before the first one."
    )
    history_length: int = setting(
        10_000, "JITKernel", "start", "Cells of history kept; 0: none.", least=0
    )


#: Every setting by its name in the configuration, `Section.trait`.
SETTINGS: dict[str, Setting] = dict(
    sorted(
        (told.trait, told)
        for told in (*declared(SessionSettings).values(), *declared(KernelSettings).values())
        if told.trait
    )
)


def _trait(told: Setting) -> TraitType[Any, Any]:
    """A setting as traitlets has it."""
    default = told.default if told.kernel_default is None else told.kernel_default
    trait: TraitType[Any, Any]
    match told.type:
        case _ if told.choices:
            trait = Enum(told.choices, default)
        case _ if told.unit == "bytes":
            trait = ByteSize(default)
        case "int":
            trait = Integer(default, min=told.least, max=told.most)
        case "float":
            trait = Float(default, min=told.least, max=told.most)
        case "bool":
            trait = Bool(default)
        case "str":
            trait = Unicode(default)
        case "Sequence[str]":
            trait = List(Unicode(), default)
        case "Mapping[str, str]":
            trait = Dict(default_value=default)
        case other:
            raise TypeError(f"{told.trait}: no trait is known for {other}")
    trait.help = told.described
    return trait.tag(config=True, setting=told)


def _declared_section(section: type[Section]) -> type[Section]:
    """The class with a trait for each setting of its section of the configuration."""
    name = section.__name__.removesuffix("Settings")
    traits = {
        trait: _trait(told)
        for full, told in SETTINGS.items()
        for owner, _, trait in [full.partition(".")]
        if owner == name
    }
    own = {k: v for k, v in vars(section).items() if k not in ("__dict__", "__weakref__")}
    return cast("type[Section]", MetaHasTraits(section.__name__, section.__bases__, own | traits))


def _section(name: str, words: str) -> type[Configurable]:
    """A section that has nothing but its settings; what it is about in `words`."""
    own = {"__doc__": words, "__module__": __name__}
    return _declared_section(type(name, (Configurable,), own))


Arena = _section("Arena", "The slab that holds code, constants and globals.")
Session = _section("Session", "The growing program.")
ObjectCache = _section(
    "ObjectCache", "Compiled code on disk, found again by other kernels of this user."
)
Compiler = _section("Compiler", "The way cells are compiled.")
Executor = _section("Executor", "The process in which cells run.")


@_declared_section
class JITKernelSettings(Configurable):
    """Settings of the Jupyter side; `JITKernel` inherits these traits."""

    def chosen(self, name: str) -> Any:
        """The value of a setting of `KernelSettings`."""
        return getattr(self, name)

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
ALIASES = {told.short: name for name, told in SETTINGS.items() if told.short}

DETERMINISTIC_BASE = 0x2000_0000
DETERMINISTIC_CPU = "x86-64-v2"

#: Every setting that is the session's, with its name there.
SESSION_NAMES = {told.trait: name for name, told in declared(SessionSettings).items() if told.trait}


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


def session_settings(found: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that `jitkernel.Session` is started with, by the names of its own settings."""
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
