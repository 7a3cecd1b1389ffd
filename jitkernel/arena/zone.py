"""The zones of a slab, with their poison.  Start from `Zone`.

What is free below a zone's high water holds poison, or is a whole page that was given back to the
system and reads as zero.  Which extents there are, and when they may go, is the arena's business.
"""

from __future__ import annotations

from jitkernel.arena.freelist import Extent, FreeList
from jitkernel.arena.slab import PAGE, Slab
from jitkernel.rollback import log_undo

#: What freed bytes are filled with.
POISON = {"text": 0xCC, "rodata": 0xDD, "unwind": 0xDD, "data": 0xDD}


class Zone:
    """One zone's free list, poison and high-water mark; all addresses are the executor's."""

    def __init__(self, slab: Slab, name: str, start: int, stop: int, granule: int):
        self._slab = slab
        self.name, self.poison = name, POISON[name]
        self.list = FreeList(start, stop, granule)
        self.start, self.stop = start, stop
        self.high = start  # bytes from here up were never handed out
        self.punched: set[int] = set()  # pages given back: they read as zero, not as poison

    def hand_out(self, start: int, size: int) -> Extent:
        """Make an extent that was taken its owner's: what is free beside it is poison."""
        log_undo(self.poison_again, start, size)
        stop = start + size
        if self.punched:
            self.unpunch(start, stop)
        if stop > self.high:
            if start > self.high:
                self.fill(self.high, start)
            if padding := -stop % self.list.granule:
                self.fill(stop, stop + padding)
            self.high = stop + padding
        return Extent(self.name, start, size)

    def poison_again(self, start: int, size: int) -> None:
        """Undo `hand_out`: fill the extent with poison again."""
        if self.list.kept is not None:
            return
        stop = min(start + self.list.room(size), self.high)
        self.clear(start, stop)

    def clear(self, start: int, stop: int) -> None:
        """Make a free range poison, or give its whole pages back to the system."""
        first, last = start + -start % PAGE, stop & -PAGE
        if self.name == "text" or last <= first:  # text that is free is never left zero
            self.fill(start, stop)
        else:
            self.fill(start, first)
            self.fill(last, stop)
            self.punch(first, last)

    def fill(self, start: int, stop: int) -> None:
        """Fill a range with poison."""
        if stop > start:
            base = self._slab.base
            self._slab.view[start - base : stop - base] = bytes([self.poison]) * (stop - start)

    def punch(self, start: int, stop: int) -> int:
        """Give the whole pages of a free range back to the system; the bytes that were not yet."""
        first, last = start + -start % PAGE, stop & -PAGE
        if last <= first:
            return 0
        before = len(self.punched)
        self.punched.update(range(first // PAGE, last // PAGE))
        self._slab.punch(first - self._slab.base, last - self._slab.base)
        return (len(self.punched) - before) * PAGE

    def unpunch(self, start: int, stop: int) -> None:
        """Pages about to be used again get their poison back where the extent leaves them free."""
        for page in (start // PAGE, (stop - 1) // PAGE):
            if page in self.punched:
                self.fill(page * PAGE, min((page + 1) * PAGE, self.high))
                self.punched.discard(page)
        if stop - start > PAGE:
            self.punched.difference_update(range(start // PAGE, stop // PAGE))

    def check(self) -> None:
        """Prove the books and the poison; raises AssertionError.  Reads no page that is a hole."""
        self.list.check()
        for start, size in self.list.live.items():
            if start + size > self.high:
                raise AssertionError(f"{self.name}: an extent at {start:#x} lies above high water")
        fill = bytes([self.poison]) * PAGE
        for start, stop in self.list.holes():
            for at, end in self._slab.held(start, min(stop, self.high)):
                for low in range(at & -PAGE, end, PAGE):
                    first, last = max(low, at), min(low + PAGE, end)
                    if (
                        low // PAGE not in self.punched
                        and self._slab.read(first, last - first) != (fill[: last - first])
                    ):
                        raise AssertionError(
                            f"{self.name}: freed bytes near {first:#x} were written"
                        )
