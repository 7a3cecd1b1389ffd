"""The sentences that tell what a cell has defined and replaced.  Start from `status_lines`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jitkernel.languages.llvm.quoting import quote_name
from jitkernel.linker import Image
from jitkernel.linker.image import sites
from jitkernel.session.cell import Cell
from jitkernel.session.change import Change
from jitkernel.session.signatures import Signature

if TYPE_CHECKING:
    from jitkernel.session.program import Program

__all__ = ["status_lines"]


def status_lines(program: Program, cell: Cell, image: Image, change: Change) -> Iterator[str]:
    """`cell 2: @sq i32 (i32), 6 bytes, compiled in 1.4 ms, ...`, then what moved."""
    words = []
    for symbol, _, size in image.exports:
        if symbol.info is None:
            continue
        shown = symbol.info.shown if isinstance(symbol.info, Signature) else str(symbol.info)
        words.append(f"@{quote_name(symbol.name)} {shown}, {size} bytes")
    if words:
        more = f" and {len(words) - 4} more" if len(words) > 4 else ""
        spent = sum(cell.times[:-1])
        compiled = f"compiled in {_duration(spent, 1)}" if spent else "compiled before"
        if cell.cached:
            compiled = f"compiled earlier in {_duration(spent, 1)} and kept (object cache)"
        yield (
            f"cell {cell.number}: {'; '.join(words[:4])}{more}, {compiled}, "
            f"linked in {_duration(cell.times[-1], 2)}"
        )
    for name, (owner, info) in change.moved.items():
        moved = program.symbol(name)
        if not owner or moved is None or moved.image is not image:
            continue
        users = {i: p for i, p in (moved.users or {}).items() if i is not image and i.cell}
        calls = sum(1 for packed in users.values() for _ in sites(packed))
        same = owner == change.replaced
        moves = "replaced" if same else f"moved from cell {owner} to cell {cell.number}"
        what = f"@{quote_name(name)} {moves}"
        if users:
            kind = "call" if isinstance(info, Signature) else "use"
            who = "caller" if isinstance(info, Signature) else "user"
            what += (
                f"; {len(users)} {who}{'s' * (len(users) != 1)} "
                f"({calls} {kind}{'s' * (calls != 1)}) now use{'s' * (len(users) == 1)} it"
            )
        other = program.cells.get(owner)
        if other is not None and other.closed:
            what += f"; cell {owner} was compiled closed: its own uses of it may not follow"
        yield (what)


def _duration(nanoseconds: int, places: int) -> str:
    """Milliseconds, of one form on every run; seconds where they are thousands."""
    value = nanoseconds / 1e6
    return f"{value:.{places}f} ms" if value < 1000 else f"{value / 1000:.1f} s"
