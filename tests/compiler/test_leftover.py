"""The block that stays behind each time, told by measuring; a model of llvmlite's pass builder."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from jitkernel.compiler import heap
from jitkernel.compiler.leftover import find

malloc = ctypes.CDLL(None).malloc
malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p

BUILDER = 2200  # bytes; of LLVM 22's


def builder(blocks: dict[int, int]) -> Callable[[], int]:
    """Makes blocks of `BUILDER` bytes that have, at each offset, the address of one of a size."""

    def create() -> int:
        made = int(malloc(BUILDER))
        ctypes.memset(made, 0, BUILDER)
        for offset, size in blocks.items():
            ctypes.c_size_t.from_address(made + offset).value = malloc(size)
        return made

    return create


def frees(*offsets: int) -> Callable[[int], None]:
    def dispose(made: int) -> None:
        for offset in offsets:
            heap.free(heap.word(made + offset))
        heap.free(made)

    return dispose


@pytest.mark.parametrize(
    ("blocks", "freed", "found"),
    [
        ({96: 1480}, (), 96),
        ({96: 1480, 104: 344, 512: 5000}, (104, 512), 96),
        ({96: 1480, 104: 1480}, (104,), None),  # two of that size: which one stays?
        ({96: 1480, 104: 2000}, (), None),  # two stay
        ({96: 1480}, (96,), None),  # nothing stays
        ({96: 500}, (), None),  # whether so small a block was freed cannot be told
        ({}, (), None),
    ],
)
def test_what_stays_is_told_for_certain_or_not_at_all(blocks, freed, found):
    assert find(builder(blocks), frees(*freed)) == found


def test_a_block_that_stays_for_another_reason_is_left_alone():
    """One that is lost, and one of its size that is freed: the free one must not be freed again."""
    lost = []

    def create() -> int:
        lost.append(malloc(1480))
        return builder({96: 1480})()

    assert find(create, frees(96)) is None
