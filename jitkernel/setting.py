"""A setting, declared once: what its name, type, default, meaning, bounds and effect are.

A setting is a field of a record, made by `setting`: of `SessionSettings`
(`settings.py`) where the session needs it, of `KernelSettings` (`kernel/settings.py`) where
only a front end does.  The configuration's sections, `%config`, the command line, completion, the
reference, what is said of wrong values and what a session's file has are made from `declared`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from jitkernel.later import Later
from jitkernel.record import MISSING, field, fields, record, replace

Effect = Literal["now", "next cell", "start"]
Saved = Literal["no", "unless given", "always", "harmless"]
Settings = TypeVar("Settings", bound=type)

#: When a change of a setting acts, as the help says it.
_WHEN: Mapping[Effect, str] = {"now": "now", "next cell": "with the next cell", "start": "at start"}
_KINDS = {"int": "a whole number", "float": "a number"}


@record
class Setting:
    """All there is to know of a setting.

    `trait` is `Section.name` in the configuration, "" for one of the library alone; `short` its
    option on the command line (`--budget`).  `effect` says when a change acts.  Of numbers `unit`
    is what they count and `least` and `most` are their bounds, of which `because` gives the reason.
    `completes` is what TAB offers, in the words of a magic's `Argument`.

    `kernel_default` is the default of kernels where that is another one than the library's.
    `takes_path` allows any path beside text.  `saved` says whether a session's file has it: and
    gives it back unless the session is restored with another, or always, or only in so far as it
    runs no code of whoever wrote the file.  `language` names the one that checks a change.
    `not_inline` is why a session without a process of its own cannot have it.
    """

    trait: str
    effect: Effect
    help: str
    unit: Literal["", "bytes", "seconds"] = ""
    least: float | None = None
    most: float | None = None
    because: str = ""
    short: str = ""
    completes: Literal["", "cpu", "language", "passes"] = ""
    kernel_default: Any = None
    takes_path: bool = False
    saved: Saved = "no"
    language: str = ""
    not_inline: str = ""
    # Of the field:
    name: str = ""
    annotation: str = ""
    default: Any = None

    @property
    def choices(self) -> tuple[str, ...]:
        """Its possible values, where its type lists them."""
        return _choices(self.annotation)

    @property
    def type(self) -> str:
        """The type of its values, without what they are chosen from."""
        return "str" if self.choices else self.annotation

    @property
    def described(self) -> str:
        """Its meaning, and when a change of it acts."""
        return f"{self.help} Takes effect {_WHEN[self.effect]}."

    @property
    def bound(self) -> str:
        """The most bytes that it may be: `1776M`."""
        return f"{int(self.most or 0) >> 20}M"

    @property
    def takes(self) -> str:
        """The values it has, for what is said of another one; "" where all of its type are."""
        if self.choices:
            return f"is one of {', '.join(self.choices)}"
        if self.annotation == "bool":
            return "is True or False"
        if self.unit == "bytes":
            at_most = f", at most {self.bound} ({self.because})" if self.most else ""
            return f"is a number of bytes{at_most}"
        if (kind := _KINDS.get(self.annotation)) is None:
            return ""
        if self.least is not None and self.most is not None:
            return f"takes {kind} from {self.least:g} to {self.most:g}"
        return f"takes {kind}" + (f", at least {self.least:g}" if self.least is not None else "")

    def fits(self, number: float) -> bool:
        """True if a number is within the bounds."""
        return (self.least is None or number >= self.least) and (
            self.most is None or number <= self.most
        )


@cache
def _choices(annotation: str) -> tuple[str, ...]:
    """The values in `Literal[...]`."""
    if not annotation.startswith("Literal["):
        return ()
    return tuple([each.strip("'") for each in annotation[len("Literal[") : -1].split(", ")])


def setting(default: Any, trait: str, effect: Effect, help: str, **more: Any) -> Any:
    """A field that is a setting; `more` as in `Setting`.

    Of `trait` the section is enough where the configuration calls it as the field is called.  What
    can be changed in place, such as a list, is given as the function that makes one.
    """
    if more.get("unit") == "bytes":
        more.setdefault("least", 0)
    metadata = {"setting": Setting(trait, effect, help, **more)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def declared(settings: type) -> Mapping[str, Setting]:
    """The settings of a record, by the names of its fields."""
    return {field.name: _complete(field) for field in fields(settings)}


def _complete(field: Any) -> Setting:
    told: Setting = field.metadata["setting"]
    whole = "." in told.trait or not told.trait
    return replace(
        told,
        trait=told.trait if whole else f"{told.trait}.{field.name}",
        name=field.name,
        annotation=str(field.type),
        default=field.default_factory() if field.default is MISSING else field.default,
    )


def documented(settings: Settings) -> Settings:
    """Put what the fields of a record mean below what its docstring says."""
    said = settings.__doc__ or ""
    Later(settings, "__doc__", lambda settings: _document(settings, said))
    return settings


def _document(settings: Settings, said: str) -> str:
    from inspect import cleandoc  # many modules, for who asks for help

    told = [f"* `{s.name}`: {s.described}" for s in declared(settings).values()]
    return "\n".join([cleandoc(said), "", *told])
