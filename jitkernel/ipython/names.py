"""Functions of cells as callables among the user's own names in Python.

A name that the user has, or that Python has built in, is left alone; what was put there is taken
away again when the session has the function no more, unless the user has put something else in its
place.  Start from `Names`.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitkernel.regex import regex
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session

_SHOWN = 4  # names in a sentence
#: IPython's own: the last results and inputs.
_HISTORY = regex(r"_+i*\d*\Z")


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of placing functions: names that Python has now, those that the user has already,
    and those that are no names in Python."""

    new: dict[str, Any]
    taken: list[str]
    unnameable: list[str]

    def sentence(self) -> str:
        """All that in one line; empty where there is nothing to say."""
        parts = []
        if self.new:
            parts.append(
                "in Python: " + cut_list([_call(*item) for item in self.new.items()], _SHOWN)
            )
        if self.taken:
            verb = "is a name" if len(self.taken) == 1 else "are names"
            parts.append(
                f"{cut_list(self.taken, _SHOWN)} {verb} of Python's or yours, left alone:"
                f' jitkernel.session["{self.taken[0]}"] is the cell\'s'
            )
        if self.unnameable and not self.taken:
            name = self.unnameable[0]
            parts.append(f"jitkernel.session[{name!r}] calls what Python cannot name")
        return "; ".join(parts)


class Names:
    """One session's functions in a namespace."""

    def __init__(self, namespace: dict[str, Any]):
        self._namespace = namespace
        self._ours: dict[str, Any] = {}

    def place(self, session: Session, names: Iterable[str]) -> Placed:
        """Put functions of the session there, where their names are free."""
        placed = Placed({}, [], [])
        for name in names:
            if self._has_ours(name):
                continue
            if not name.isidentifier() or keyword.iskeyword(name) or _HISTORY.match(name):
                placed.unnameable.append(name)
            elif name in self._namespace or hasattr(builtins, name):
                placed.taken.append(name)
            else:
                handle = session[name]
                self._ours[name] = self._namespace[name] = handle
                placed.new[name] = handle
        return placed

    def prune(self, defined: Callable[[str], bool]) -> None:
        """Take away what is not defined any more, unless it is something else by now."""
        for name in [name for name in self._ours if not defined(name)]:
            if self._has_ours(name):
                del self._namespace[name]
            del self._ours[name]

    def _has_ours(self, name: str) -> bool:
        ours = self._ours.get(name)
        return ours is not None and self._namespace.get(name) is ours


def _call(name: str, handle: Any) -> str:
    try:
        return f"{name}{inspect.signature(handle)}".replace(", /", "")
    except ValueError:
        return name
