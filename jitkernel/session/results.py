"""The values of cells, for `_` and `_5`.  Start from `Results`."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from jitkernel.languages.llvm import TypedValue
from jitkernel.rollback import Recorded, RecordedDict
from jitkernel.session.settings import SessionSettings

__all__ = ["LARGE", "Results", "Values"]

#: Values of more bytes than this are large: `LIMIT` bytes of them are kept, and only here.
LARGE, LIMIT = 1 << 16, 64 << 20


class Values(RecordedDict[int, TypedValue]):
    """Values by the number of their cell that wait for an undo or a redo; large ones are let go."""

    def wait(self, number: int, value: TypedValue) -> None:
        """Keep a value that left the session's results."""
        if len(value.data) <= LARGE:
            self[number] = value


class Results(RecordedDict[int, TypedValue], Recorded):
    """Values by the number of their cell, the `results_kept` latest ones, and the `last` of all."""

    def __init__(self, settings: SessionSettings):
        super().__init__()
        self._settings = settings
        self.last: TypedValue | None = None

    def find(self, number: int | None) -> TypedValue | None:
        """That of a cell, or the last one."""
        return self.last if number is None else self.get(number)

    def keep(self, number: int, value: TypedValue) -> None:
        """Remember what a cell gave; the oldest large values go where there are too many bytes."""
        self.last = value
        self[number] = value
        while len(self) > self._settings.results_kept:
            del self[next(iter(self))]
        if len(value.data) > LARGE:
            large = {n: len(v.data) for n, v in self.items() if len(v.data) > LARGE}
            total = sum(large.values())
            for oldest, size in large.items():
                if total <= LIMIT or oldest == number:
                    break
                del self[oldest]
                total -= size

    def recall(self) -> Callable[[], TypedValue | None]:
        """What finds the value that is the last one now, later on: a large one as long as it is
        among the results."""
        last = self.last
        if last is None or len(last.data) <= LARGE:
            return lambda: last
        return weakref.ref(last)

    def forget(self) -> None:
        """Remember nothing."""
        self.clear()
        self.last = None
