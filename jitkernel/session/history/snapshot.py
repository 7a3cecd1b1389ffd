"""What the data zone held before each run, and what no undo can bring back.

Pages are compared with a copy as of when the last run began (arena/mirror.py); only those that
changed are kept, in the record of the run that changed them.  Of data beyond the copy's limit it is
known whether it was written (arena/writes.py), and what was there before is lost.  Start from
`DataShadow`, `lost_words`, and `lasting` for effects outside the arena.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from jitkernel.arena import Arena
from jitkernel.arena.mirror import Digests, Mirror, Snapshot
from jitkernel.arena.ranges import Range, overlapping
from jitkernel.executor.services import UPPER
from jitkernel.ir.names import symbols_in
from jitkernel.linker import SymbolState
from jitkernel.reach import reached
from jitkernel.rollback import log_undo
from jitkernel.session.program.cell import Change, cells_words
from jitkernel.wording import counted, size_text

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

CHUNK = PAGESIZE
_SMALL = 1 << 16  # no memory is below (vm.mmap_min_addr)

_SMALL_ZONE = 1 << 20  # bytes of data

_GROWTH = 64 << 20  # bytes by which memory may have grown since it was last looked at

#: Asks where the executor has memory of its own, ascending.
Memory = Callable[[], Sequence[Range]]


class DataShadow:
    """The data zone as it was at the last `changes`, up to `limit` bytes of it.

    `memory` says where the executor has its own.
    """

    def __init__(self, arena: Arena, limit: int, memory: Memory):
        self._arena, self.limit, self._memory = arena, limit, memory
        self._zone = arena.zones["data"]
        self._mirror = Mirror(arena, "data", limit)
        self._digests = Digests(arena, "data", limit)
        self._lost: list[Range] = []  # was told in a block that failed: is told again

    @property
    def is_small(self) -> bool:
        """True if looking takes next to no time."""
        return self._zone.high - self._zone.start < _SMALL_ZONE

    def changes(
        self, by: Iterable[Change] = (), own: bool = False
    ) -> tuple[list[tuple[int, bytes]], list[Range]]:
        """`(address, old bytes)` of what changed since the last call, and what was written beyond
        the limit; what is now is remembered.  `own`: what others than this process wrote may wait
        for the next call.

        Of pages that differ, those where something is live that is not new `by` the changes, which
        nobody had before; freed data is filled anew.
        """
        if lost := self._lost + self._digests.look():
            log_undo(self._lose, lost)
            self._lost = []
        found = self._mirror.look(own)
        if not found:
            return [], lost
        new = [b.extent for change in by for cell in change.arrived for b in cell.strings]
        holes = sorted([*self._zone.list.holes(), *((e.start, e.stop) for e in new)])
        return [
            (address, was) for address, was, now in found
            if was and without(holes, address, was) != without(holes, address, now[: len(was)])
        ], lost  # fmt: skip

    def _lose(self, ranges: list[Range]) -> None:
        """These were written, too: who took them has failed."""
        self._lost = [*ranges, *(r for r in self._lost if r not in ranges)]

    def take_back_on_failure(self) -> None:
        """Have the data zone as it was at the last `changes` again, should the atomic block that is
        open fail; it costs next to nothing."""
        log_undo(self._back, self._mirror.snapshot())

    def _back(self, taken: Snapshot) -> None:
        self.restore(self._mirror.since(taken))

    def restore(self, pages: Sequence[tuple[int, bytes]]) -> int:
        """Write old bytes back where extents are live; the number of words that point into the
        executor's own memory: its heap, stack and libraries."""
        heap = 0
        if not pages:
            return heap
        arena, memory = self._arena, cache(self._memory)
        live = sorted((start, start + size) for start, size in self._zone.list.live.items())
        for address, old in pages:
            for start, stop in overlapping(live, address, address + len(old)):
                low, high = max(start, address), min(stop, address + len(old))
                piece = old[low - address : high - address]
                if arena.view[low - arena.base : high - arena.base] != piece:
                    arena.save(low, len(piece))
                    arena.write(low, piece)
                    heap += count_far_words(low, piece, memory)
        return heap


def without(ranges: Sequence[Range], address: int, content: bytes) -> bytes:
    """The content at an address, zero where it is in one of the ordered ranges."""
    found = bytearray(content)
    for start, stop in overlapping(ranges, address, address + len(content)):
        low, high = max(start - address, 0), min(stop - address, len(content))
        found[low:high] = bytes(high - low)
    return bytes(found)


def far_words(arena: Arena, memory: Sequence[Range]) -> int:
    """The number of words of all live data that look like pointers into `memory` that an executor
    had of its own."""
    total = 0
    for start, size in arena.zones["data"].list.live.items():
        offset = start - arena.base
        piece = arena.view[offset : offset + min(size, 1 << 20)]
        total += count_far_words(start, piece, lambda: memory)
    return total


def grown(memory: Iterable[Range]) -> list[Range]:
    """The ranges where a process may have had memory of its own when it ended that had it there
    before."""
    found: list[Range] = []
    for start, stop in memory:
        if start >= UPPER:
            start, stop = max(start - _GROWTH, UPPER), stop + _GROWTH
        if found and start <= found[-1][1]:
            start, _ = found.pop()
        found.append((start, stop))
    return found


def count_far_words(address: int, data: bytes | memoryview, memory: Memory) -> int:
    """The number of aligned words that look like pointers into memory that a process has of its
    own: ranges, ascending, that do not meet.

    Small numbers that stand beside each other make words that could be addresses of some process,
    and of this one next to never.
    """
    skip = -address % 8
    usable = len(data) - skip
    if usable < 8:
        return 0
    words = memoryview(data)[skip : skip + usable // 8 * 8].cast("Q")
    found = [w for w in words if _SMALL <= w < 1 << 47]
    if not found:
        return 0
    bounds = list(chain.from_iterable(memory()))
    return sum(bisect_right(bounds, w) & 1 for w in found)


_SHOWN = 5  # names


def excluding(lost: Sequence[Range], change: Change) -> list[Range]:
    """Those of the ranges that are no data of a cell that the change brought: that leaves."""
    own = [block.extent for cell in change.arrived for block in cell.data]
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


def lost_words(program: Program, changes: Sequence[Change]) -> str:
    """The loss: `at least 1.2 MB of @big (100.0 MB), 64 KB of @more (2.0 MB)`."""
    ranges = [r for c in changes for r in c.lost]
    if not ranges:
        return ""
    sizes: dict[str, tuple[int, int]] = {}
    known = 0
    variables = [
        (s.address, s.address + s.size, name)
        for name, s in program.linker.symbols.items()
        if s.image is not None and not s.is_function
    ]
    for start, stop in sorted(set(ranges)):
        for low, high, name in variables:
            inside = min(stop, high) - max(start, low)
            if inside > 0:
                sizes[name] = sizes.get(name, (0, 0))[0] + inside, high - low
                known += inside
    rows = sorted(sizes.items(), key=lambda row: -row[1][0])
    words = [
        f"{program.called(name)} ({size_text(size)} of {size_text(of)})"
        for name, (size, of) in rows[:_SHOWN]
    ]
    if len(rows) > _SHOWN:
        words.append(f"{len(rows) - _SHOWN} more variables")
    other = sum(stop - start for start, stop in set(ranges)) - known
    if other > 0:
        words.append(f"{size_text(other)} without a name")
    return ", ".join(words)


_HEAP = frozenset(
    "malloc calloc realloc reallocarray free strdup strndup aligned_alloc posix_memalign memalign "
    "asprintf vasprintf getline mmap munmap sbrk _Znwm _Znam _ZdlPv _ZdlPvm _ZdaPv".split()
)
_FILES = frozenset(
    "fopen fopen64 freopen fdopen fclose fwrite fputs fputc fprintf open open64 openat creat close "
    "write pwrite unlink remove rename mkdir rmdir truncate ftruncate link symlink chmod "
    "tmpfile mkstemp system popen dup dup2 pipe socket send sendto".split()
)


def mentioned(texts: Iterable[str]) -> frozenset[str]:
    """The names in statements."""
    return frozenset().union(*map(symbols_in, texts))


def lasting(program: Program, change: Change) -> str:
    """`5 bytes that it printed, what @malloc gave` of a change that is still done; or nothing.

    Which functions of libraries a run has called is not recorded: those that it could reach count.
    """
    effects = change.effects
    words: list[str] = []
    if effects.printed:
        words.append(f"{counted(effects.printed, 'byte')} that it printed")
    reached = _reached(program, mentioned(effects.statements))
    if heap := sorted(reached & _HEAP):
        words.append(f"the heap ({program.listed(heap)})")
    if files := sorted(reached & _FILES):
        words.append(f"files ({program.listed(files)})")
    if effects.constructed:
        words.append(f"what the constructors of cell {effects.constructed} did elsewhere")
    if effects.destroyed:
        words.append(f"what the destructors of {cells_words(effects.destroyed)} did elsewhere")
    return ", ".join(words)


def _reached(program: Program, names: frozenset[str]) -> set[str]:
    """Functions of libraries that code under those names leads to, cell by cell."""
    symbols = program.linker.symbols
    start = [s for n in names if (s := symbols.get(n)) is not None]
    met = reached(start, lambda s: s.image.refs if s.image is not None else ())
    # What a block of instructions called is known to the executor only by name.
    found = {n for n in names if n not in symbols}
    return found | {symbol.name for symbol in met if symbol.state is SymbolState.FAR}
