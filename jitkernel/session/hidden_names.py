"""Names that ended with their cell, so that a hint can say where they were.

Start from `HiddenNames`.
"""

from __future__ import annotations

from jitkernel.languages.llvm import Plan

__all__ = ["HiddenNames"]

_KEPT = 1000  # names of each kind, the latest


class HiddenNames:
    """Values of instructions (`%x`) and private symbols (`@.str`), each with its cell's number."""

    def __init__(self) -> None:
        self.locals: dict[str, int] = {}
        self.private: dict[str, int] = {}

    def add(self, plan: Plan, number: int) -> None:
        """What a cell named for itself alone."""
        if plan.block is not None:
            for statement in plan.block.statements:
                name, equals, _ = statement.text.partition("=")
                if equals and name.startswith("%"):
                    self.locals[name[1:].strip()] = number
        self.private.update(dict.fromkeys(plan.local_names, number))
        for names in (self.locals, self.private):
            while len(names) > _KEPT:
                del names[next(iter(names))]
