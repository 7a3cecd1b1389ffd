"""Caches that forget the oldest entry.  Start from `Recent`."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """The entries that were set last, at most so many: where one more comes, the oldest goes.

    An entry is as old as the last time that it was set by `[]`; to be read makes none younger.
    """

    def __init__(self, most: int):
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        while len(self) >= self._most:
            del self[next(iter(self))]
        super().__setitem__(key, value)
