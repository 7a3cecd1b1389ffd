"""Everything that some things lead to.  Start from `reached`; `postorder` says in which order."""

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


def postorder(start: Iterable[T], leads: Callable[[T], Iterable[T]]) -> list[T]:
    """The same, each behind those that were first met from it: behind all that it leads to, but for
    those on a circle with it.  A search in depth, which takes what each leads to in its order."""
    order: list[T] = []
    seen: set[T] = set()
    for first in start:
        if first in seen:
            continue
        seen.add(first)
        waiting = [(first, iter(leads(first)))]
        while waiting:
            one, others = waiting[-1]
            for other in others:
                if other not in seen:
                    seen.add(other)
                    waiting.append((other, iter(leads(other))))
                    break
            else:
                order.append(one)
                waiting.pop()
    return order
