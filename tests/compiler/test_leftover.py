"""The block that stays behind each time, told by measuring; a model of llvmlite's pass builder."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from random import Random

import pytest

from jitkernel.compiler import heap
from jitkernel.compiler.leftover import find

malloc = ctypes.CDLL(None).malloc
malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p

BUILDER = 2200  # bytes; of LLVM 22's


@pytest.fixture
def no_holes() -> Iterator[None]:
    """A heap whose free blocks are smaller than any of the model's: new ones come from its end,
    each of just its size.  (One taken from a hole may be 16 bytes larger than was asked for.)"""
    kept = []
    for size in (5000, *range(2400, 300, -16)):
        end = heap.bounds().stop - heap.mallinfo().keepcost  # where the part begins that is unused
        while True:
            kept.append(malloc(size))
            if kept[-1] >= end:
                break
    yield
    for block in kept:
        heap.free(block)


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
def test_what_stays_is_told_for_certain_or_not_at_all(no_holes, blocks, freed, found):
    assert find(builder(blocks), frees(*freed)) == found


def test_what_else_is_allocated_or_freed_meanwhile_does_not_matter(no_holes):
    """Blocks of others' that come and go now and then, as other threads' do."""
    others = [malloc(3000) for _ in range(3)]
    made = 0

    def create() -> int:
        nonlocal made
        made += 1
        if made % 10 == 0:
            heap.free(others.pop())
        return builder({96: 1480})()

    assert find(create, frees()) == 96
    for block in others:
        heap.free(block)


def test_in_a_heap_of_holes_nothing_that_is_free_is_told(no_holes):
    """Blocks of a size are not all of a size there: it may not be told then, but never wrongly."""
    random = Random(1)
    blocks = [malloc(random.randrange(1000, 6000)) for _ in range(3000)]
    random.shuffle(blocks)
    while blocks:
        for _ in range(100):
            heap.free(blocks.pop())
        assert find(builder({96: 1480, 104: 1480}), frees(104)) in (96, None)
        assert find(builder({96: 1480}), frees(96)) is None


def test_a_block_that_stays_for_another_reason_is_left_alone(no_holes):
    """One that is lost, and one of its size that is freed: the free one must not be freed again."""
    lost = []

    def create() -> int:
        lost.append(malloc(1480))
        return builder({96: 1480})()

    assert find(create, frees(96)) is None
