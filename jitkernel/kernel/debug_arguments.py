"""The arguments of a debugger's requests, which may be anything.  Start from `Arguments`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitkernel.errors import UsageError

__all__ = ["Arguments"]


class Arguments:
    """The arguments of a request, of the given kinds.

    Each raises UsageError, which names the argument, where it is absent or of another kind; where
    there is a `default`, an argument that is absent or null is that.
    """

    def __init__(self, given: object, name: str):
        if not isinstance(given, Mapping):
            raise UsageError(f"{name} is an object with members, not {_kind(given)}")
        self.given: Mapping[str, Any] = given
        self.name = name

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        return str(self._of(name, str, "a string", default))

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        return int(self._of(name, int, "a whole number", default))

    def flag(self, name: str) -> bool:
        """True or false; false where it is absent."""
        return bool(self._of(name, bool, "true or false", False))

    def address(self, name: str) -> int:
        """A number that is written as a string: `0x1000`."""
        text = self.text(name)
        try:
            return int(text, 0)
        except ValueError:
            raise UsageError(f"{self.name}: {name} is no address: '{text}'") from None

    def within(self, name: str) -> Arguments:
        """An object with arguments of its own."""
        return Arguments(self._of(name, Mapping, "an object with members"), name)

    def each(self, name: str, absent: bool = False) -> list[Arguments]:
        """A list of such objects; empty where it may be `absent`."""
        found = self._of(name, list, "a list", [] if absent else None)
        return [Arguments(one, f"{name}[{index}]") for index, one in enumerate(found)]

    def words(self, name: str) -> list[str]:
        """A list of strings."""
        found = self._of(name, list, "a list")
        if not all(isinstance(one, str) for one in found):
            raise UsageError(f"{self.name}: {name} has to be a list of strings")
        return list(found)

    def _of(self, name: str, kind: type, words: str, default: Any = None) -> Any:
        value = self.given.get(name)
        if value is None:
            if default is None:
                raise UsageError(f"{self.name} needs `{name}`, {words}")
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise UsageError(f"{self.name}: {name} has to be {words}, not {_kind(value)}")
        return value


def _kind(value: object) -> str:
    names = {
        bool: "true or false", int: "a number", float: "a number", str: "a string",
        list: "a list", dict: "an object", type(None): "null",
    }  # fmt: skip
    return names.get(type(value), type(value).__name__)
