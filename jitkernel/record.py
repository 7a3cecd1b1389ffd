"""Records that nobody changes.  Start from `record`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

__all__ = ["record"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class what `dataclass(frozen=True, slots=True)` makes of it, for less.

    That fields are not written is for the type checker to say, not for each new record to see to
    (PEP 681); and what all such classes do alike is not compiled anew for each of them, which would
    be most of what they cost a start.
    """
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    compared = [each.name for each in fields(made) if each.compare]
    made._compared = staticmethod(_values_of(compared))
    for name, method in (("__eq__", _equal), ("__hash__", _hash), ("__repr__", _repr)):
        if cls.__dict__.get(name) is None:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda one: ()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    said = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(said)})"
