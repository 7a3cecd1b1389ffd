"""Code put elsewhere at random, as compaction does where it has to.  Start from `shake`."""

from __future__ import annotations

import random

from jitkernel import Session
from jitkernel.linker.hibernation import move


def shake(s: Session, rng: random.Random, most: int = 4) -> int:
    """Move the code of some cells to free places, or by less than its size; how many were moved."""
    books = s.arena.zones["text"].list
    moved = 0
    for cell in rng.sample(list(s.cells), min(most, len(s.cells))):
        image, align = cell.image, s.compaction.align(cell)
        if not align:
            continue
        size = image.text.size + -image.text.size % 16
        places = []
        for start, stop in books.holes():
            start, stop = start + -start % align, min(stop, start + 4 * size)
            if start + size <= stop:
                places.append(start)
            if stop == image.text.start:
                places.append(start)  # slide down over itself
        to = rng.choice(places)
        move(s.program.linker, image, to)
        assert image.text.start == to
        moved += 1
    return moved
