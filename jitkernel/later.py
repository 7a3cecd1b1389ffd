"""Attributes of classes that are made when they are first asked for.  Start from `Later`."""

from __future__ import annotations

TYPE_CHECKING = False  # the module that has it is not needed
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Later"]


class Later:
    """An attribute of a class, until it is first asked for: then `make` makes it of the class."""

    __slots__ = ("make", "name", "of")

    def __init__(self, of: type, name: str, make: Callable[[Any], Any]):
        self.of, self.name, self.make = of, name, make
        setattr(of, name, self)

    def __get__(self, instance: Any, owner: type) -> Any:
        made = self.make(self.of)
        setattr(self.of, self.name, made)
        bind = getattr(made.__class__, "__get__", None)
        return made if bind is None else bind(made, instance, owner)
