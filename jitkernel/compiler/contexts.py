"""Where modules live while they are compiled: LLVM contexts.  Worker only.  Start from `Throwaway`.

A context keeps every type and constant that was ever made in it, so each compile has its own, which
goes when its object is out.  Other policies (one context for all, one for each live cell) answer
the same two calls.
"""

from __future__ import annotations

from typing import Protocol

from jitkernel.compiler.binding import lib

__all__ = ["Contexts", "Throwaway"]


class Contexts(Protocol):
    """Who hands out contexts and decides how long they last."""

    def take(self) -> int:
        """A context for the next compile."""

    def give_back(self, context: int) -> None:
        """The compile is over, its module disposed; there is time."""


class Throwaway:
    """A new context for each compile, made ahead while nobody waits."""

    def __init__(self) -> None:
        self._ahead: list[int] = []

    def take(self) -> int:
        return self._ahead.pop() if self._ahead else lib.ContextCreate()

    def give_back(self, context: int) -> None:
        lib.ContextDispose(context)
        if not self._ahead:
            self._ahead.append(lib.ContextCreate())
