"""The values of cells, for `_` and `_5`.  Start from `Results`."""

from __future__ import annotations

from jitkernel.languages.llvm import TypedValue
from jitkernel.session.settings import SessionSettings

__all__ = ["Results"]


class Results(dict[int, TypedValue]):
    """Values by the number of their cell, the `results_kept` latest ones, and the `last` of all."""

    def __init__(self, settings: SessionSettings):
        super().__init__()
        self._settings = settings
        self.last: TypedValue | None = None

    def find(self, number: int | None) -> TypedValue | None:
        """That of a cell, or the last one."""
        return self.last if number is None else self.get(number)

    def keep(self, number: int, value: TypedValue) -> None:
        """Remember what a cell gave."""
        self.last = value
        self[number] = value
        while len(self) > self._settings.results_kept:
            del self[next(iter(self))]

    def forget(self) -> None:
        """Remember nothing."""
        self.clear()
        self.last = None
