"""What llvmlite leaves of each pass builder, found so that it can be freed.  Worker only.

`LLVMPY_CreatePassBuilder` makes a PassInstrumentationCallbacks beside the builder, and
`LLVMPY_DisposePassBuilder` frees the builder alone (llvmlite 0.50, ffi/newpassmanagers.cpp): 1.5 KB
a compile, which no function of llvmlite's gives back.  The builder has its address in one of its
words.  Which word that is no header says, so it is found by measuring, and used only where the
measurement leaves no doubt; elsewhere the memory stays, and a worker that has grown is replaced.
Start from `find`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from jitkernel.compiler import heap

__all__ = ["WORD", "find"]

WORD = 8  # bytes
_ROUNDS = 32  # measured one by one: what else is allocated or freed meanwhile spoils few of them
_COMPARED = 4  # builders whose words are
_CERTAIN = 1056  # bytes from which on `heap.in_use` is


def find(create: Callable[[], int], dispose: Callable[[int], None]) -> int | None:
    """Where in what `create` makes stands the address of a block that `dispose` leaves behind:
    an offset in bytes.

    None where nothing is left, or it cannot be told for certain.  It is certain when exactly one
    word of each of several leads to a block of just the size that is left each time, no two to the
    same, and those blocks are still in use afterwards.  (Other words may do so in one or two: what
    was never written holds what stood there before.)
    """
    for _ in range(2):  # what is made once, at first
        dispose(create())
    growth: Counter[int] = Counter()
    before = heap.allocated()
    for _ in range(_ROUNDS):
        dispose(create())
        after = heap.allocated()
        growth[after - before] += 1
        before = after
    left = growth.most_common(1)[0][0]
    if left < _CERTAIN:
        return None
    made = [create() for _ in range(_COMPARED)]
    blocks = heap.bounds()
    words = [_leads_to(each, left, blocks) for each in made]
    offsets = [
        offset
        for offset in words[0]
        if len({each[offset] for each in words if offset in each}) == _COMPARED
    ]
    for each in made:
        dispose(each)
    if len(offsets) != 1:
        return None
    found = [each[offsets[0]] for each in words]
    if not all(map(heap.in_use, found)):
        return None
    for address in found:
        heap.free(address)
    return offsets[0]


def _leads_to(made: int, size: int, blocks: range) -> dict[int, int]:
    """By offset, the words that are addresses of blocks of a size."""
    return {
        offset: address
        for offset in range(0, heap.size(made) - WORD, WORD)
        if (address := heap.word(made + offset)) % 16 == 0
        and address - WORD in blocks
        and address + size in blocks
        and heap.size(address) == size
    }
