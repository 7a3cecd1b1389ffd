"""Everything that some things lead to.  Start from `reached`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(start: Iterable[T], leads: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """The things to start from and all that they lead to at any depth, in the order in which they
    are met; `leads` is asked of each once."""
    found = dict.fromkeys(start)
    todo = list(found)
    while todo:
        for other in leads(todo.pop()):
            if other not in found:
                found[other] = None
                todo.append(other)
    return found
