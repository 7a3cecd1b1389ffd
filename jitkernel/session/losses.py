"""Data that runs wrote and of which nothing was kept, so that an undo cannot bring it back.

Start from `refuse_losses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.languages.llvm.quoting import quote_name
from jitkernel.session.change import Change
from jitkernel.session.snapshot import CHUNK

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["apart", "beyond", "lost_words", "refuse_losses"]

_SHOWN = 5  # names

Range = tuple[int, int]


def apart(lost: Sequence[Range], change: Change) -> list[Range]:
    """Those of the ranges that are no data of a cell that the change brought: that leaves."""
    own = [
        block.extent
        for cell in change.arrived
        for block in (*cell.strings, cell.image.data if cell.image is not None else None)
        if block is not None
    ]
    return [r for r in lost if not any(e.start <= r[0] and r[1] <= e.stop for e in own)]


def beyond(changes: Sequence[Change], limit: int) -> list[Change]:
    """The earliest ones, without which the old pages of the others are no more than `limit` bytes;
    never the last."""
    found: list[Change] = []
    total = 0
    for change in reversed(changes):
        total += len(change.pages) * CHUNK
        if total > limit and change.pages and change is not changes[-1]:
            found.append(change)
    return found


def refuse_losses(session: Core, changes: Sequence[Change], what: str) -> None:
    """Raise UsageError where an undo or a redo of the changes could not bring all data back."""
    lost = lost_words(session, changes)
    if not lost:
        return
    titles = ", ".join(c.title for c in changes if c.lost)
    limit = session.settings.undo_data >> 20
    raise UsageError(
        f"{titles} wrote data that is no longer known as it was before: {lost}. What is kept for "
        f"undo has a limit (undo_data, {limit} MB of the data zone).\n"
        f"Nothing was {what}ne. %{what} --partial takes the rest back and leaves that as it is now"
    )


def lost_words(session: Core, changes: Sequence[Change]) -> str:
    """What would be lost: `at least 1.2 MB of @big (100.0 MB), 64 KB of @more (2.0 MB)`."""
    ranges = [r for c in changes for r in c.lost]
    if not ranges:
        return ""
    sizes: dict[str, tuple[int, int]] = {}
    known = 0
    variables = [
        (s.address, s.address + s.size, name)
        for name, s in session.program.linker.symbols.items()
        if s.image is not None and not s.is_function
    ]
    for start, stop in sorted(set(ranges)):
        for low, high, name in variables:
            inside = min(stop, high) - max(start, low)
            if inside > 0:
                sizes[name] = sizes.get(name, (0, 0))[0] + inside, high - low
                known += inside
    rows = sorted(sizes.items(), key=lambda row: -row[1][0])
    words = [f"@{quote_name(n)} ({_size(size)} of {_size(of)})" for n, (size, of) in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        words.append(f"{len(rows) - _SHOWN} more variables")
    other = sum(stop - start for start, stop in set(ranges)) - known
    if other > 0:
        words.append(f"{_size(other)} without a name")
    return ", ".join(words)


def _size(size: int) -> str:
    if size >= 1 << 20:
        return f"{size / (1 << 20):.1f} MB"
    return f"{size / 1024:.1f} KB" if size >= 1024 else f"{size} bytes"
