"""LLVM contexts, where modules live while they are compiled.  Worker only.

Start from `ContextPool`.

A context keeps every type and constant that was ever made in it.  So each compile has one of its
own, which goes when its object is out (`throwaway`).  The other two ways exist to be compared with
it: one context for all cells (`shared`), and one for each cell as long as its code lives (`kept`).
None of them has a say in the code.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jitkernel.compiler.binding import lib
from jitkernel.compiler.memory import held

_COSTS_KEPT = 4096


class ContextPool:
    """The contexts, and how long they last.  Counts what stays of each compile
    once `watch` was called, or as soon as one is not thrown away."""

    def __init__(self) -> None:
        self._ahead: list[int] = []
        self._shared = 0
        self._kept: dict[int, int] = {}
        self._watched = False
        self._before: tuple[int, str, int, int] | None = None
        self._costs: deque[list[Any]] = deque(maxlen=_COSTS_KEPT)

    # -- lives

    def take(self, policy: str) -> int:
        """A context for the next compile."""
        if policy == "shared":
            self._shared = self._shared or lib.ContextCreate()
            return self._shared
        return self._ahead.pop() if self._ahead else lib.ContextCreate()

    def give_back(self, policy: str, cell: int, context: int) -> None:
        """The compile is over, its module disposed; there is time."""
        if policy == "shared":
            return
        if policy == "kept" and cell:
            self.release([cell])  # of an earlier compile of the cell
            self._kept[cell] = context
        else:
            lib.ContextDispose(context)
        if not self._ahead:
            self._ahead.append(lib.ContextCreate())

    def release(self, cells: list[int], shared: bool = False) -> None:
        """The code of these cells is gone; no cell is to be compiled in the context that is
        `shared` any more."""
        for cell in cells:
            if context := self._kept.pop(cell, 0):
                lib.ContextDispose(context)
        if shared and self._shared:
            lib.ContextDispose(self._shared)
            self._shared = 0

    # -- accounts

    @property
    def live(self) -> int:
        """Contexts that outlive a compile."""
        return len(self._kept) + bool(self._shared)

    def begin(self, policy: str, cell: int) -> None:
        """A compile begins."""
        if policy != "throwaway":
            self._watched = True
        if self._watched:
            self._before = (cell, policy, *held())

    def end(self) -> None:
        """It is over, and what it left has been tidied up."""
        if self._before is not None:
            cell, policy, resident, allocated = self._before
            self._before = None
            now = held()
            cost = [cell, policy, now[1] - allocated, now[0] - resident, self.live]
            self._costs.append(cost)

    def watch(self) -> dict[str, Any]:
        """The contexts, and the costs of the latest compiles; from now on all are counted."""
        self._watched = True
        return {"live": self.live, "kept": list(self._kept), "costs": list(self._costs)}
