"""Texts of cells: a front end has the whole one, the session's may lack a first line such as `%%c`.

Start from `bodies` and `Wholes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitkernel.recent import Recent

__all__ = ["Wholes", "bodies"]

_HEADS = 10_000  # parts of cells of which it is known what is above


def bodies(whole: str) -> Iterator[tuple[str, int]]:
    """The texts that the session may have of a whole cell, and how many lines are above them: all
    of it, what is below a first line such as `%%c`, and that with an empty line for each above."""
    yield whole, 0
    if (start := _below(whole)) > 0:
        yield whole[start:], whole.count("\n", 0, start)
        yield "\n" * whole.count("\n", 0, start) + whole[start:], 0


def _below(whole: str) -> int:
    """The place where the text below a first line such as `%%c` begins; 0 where there is no such
    line."""
    start = len(whole) - len(whole.lstrip())
    return whole.find("\n", start) + 1 if whole.startswith("%%", start) else 0


class Wholes:
    """The whole texts of the cells that have run lately, of which a session gets a part."""

    def __init__(self) -> None:
        self._heads: Recent[int, tuple[str, int]] = Recent(
            _HEADS
        )  # what is above, by a part's hash

    def runs(self, whole: str) -> None:
        """A cell is about to run."""
        head = whole[: _below(whole)]
        if not head:
            return
        for part, above in bodies(whole):
            if part is not whole:
                self._heads[hash(part)] = head, 0 if above else head.count("\n")

    def whole(self, part: str) -> str:
        """The whole text of the cell of which a session has this."""
        head, empty = self._heads.get(hash(part), ("", 0))
        return head + part[empty:]
