"""Breakpoints in the arena's text: an `int3` over the first byte of an instruction, which is there
only while code runs.  Start from `Breakpoints`.

Who goes on from one runs a copy of the instruction in a slot, beside the zones (`Arena.slots`), so
that the `int3` stays for other threads; a child of a fork does so without the kernel process
(`table`).  Places in slots are told as those they stand for: `place`, `original_registers`.
Lines and functions are somebody else's business: here are addresses.

Writes to the text go through the slab's view and are in no log of an atomic block: an operation
that fails has the books put back, and the text follows them (`refresh`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from jitkernel.arena import Arena, Extent
from jitkernel.arena.slab import PAGE
from jitkernel.linker.displaced import LONGEST, ROOM, TRAP, NotDisplaced, Row, displace
from jitkernel.record import NamedTuple
from jitkernel.rollback import RecordedDict, log_undo

_FREE: Final = bytes([TRAP]) * ROOM


class Slot(NamedTuple):
    """The place where the copy of an instruction is; the bytes that it was made of, and what places
    in it stand for."""

    start: int
    address: int
    original: bytes
    rows: tuple[Row, ...]


class Breakpoints:
    """The breakpoints of one arena.

    `armed`: they are in the text.  What runs now meets them; whoever reads text of the arena
    meanwhile reads it through `original`, or within `hidden`.
    """

    def __init__(self, arena: Arena):
        self._arena = arena
        self.armed = False
        #: Told `table` before any of it is in the text: a thread may meet it at once.
        self.tell: Callable[[list[tuple[int, int]]], object] | None = None
        #: By address that cannot have a breakpoint any more: why.  It is not in the text.
        self.unset: dict[int, str] = {}
        self._counts: RecordedDict[int, int] = RecordedDict()  # how often each was asked for
        self._bytes: dict[int, int] = {}  # by address of each int3: what it is over
        # By address, also of those that have gone while code runs: they may come again.
        self._slots: dict[int, Slot] = {}
        self._held: dict[int, Slot] = {}  # by start; those that somebody may still be in, too
        self._hidden = 0
        self._runs = False  # a call does: who stands in a slot, or returns to one, goes on there
        self._free: deque[int] = deque()  # slots that were in use, the one longest free first
        self._high, self._stop = arena.slots  # slots from here on were never in use
        self._landing = 0
        arena.leaving["text"] = self._leaving

    def landing(self) -> int:
        """An int3 where no code of the session's or of slots ever is: who comes there has returned
        from a call of the debugger's.  Raises `NotDisplaced` where there is no room for it."""
        if not self._landing:
            if self._stop - ROOM < self._high:
                raise NotDisplaced("there is no room for a call: remove some breakpoints")
            self._landing = self._stop = self._stop - ROOM
        self._arena.view[self._landing - self._arena.base] = TRAP
        return self._landing

    # -- which there are -------------------------------------------------------------------------

    def __contains__(self, address: int) -> bool:
        return address in self._counts

    def insert(self, address: int) -> None:
        """A breakpoint at an instruction, in the text at once where they are armed.

        Counted: it is there until it was removed as often.  Raises `NotDisplaced`, with nothing
        changed, where there is none to be: outside the text, or what cannot be run elsewhere.
        """
        count = self._counts.get(address, 0)
        if not count:
            self._make_ready(address)
        log_undo(self.refresh)
        self._counts[address] = count + 1
        if self.armed and not count:
            self._told()
            self._put_in(address)

    def remove(self, address: int) -> None:
        """One who wants it less; nothing where it is gone already, with its code."""
        count = self._counts.get(address, 0)
        if count > 1:
            self._counts[address] = count - 1
        elif count:
            self._drop(address)
            self._reclaim_all()

    def forget(self, start: int, stop: int) -> None:
        """The code in `[start, stop)` goes: no breakpoints are there any more, however often they
        were asked for.

        The arena says so of what it frees.  What moves has them set again where it is then.
        """
        gone = [address for address in self._counts if start <= address < stop]
        for address in gone:
            self._drop(address)
        if gone:
            self._reclaim_all()

    def _leaving(self, extent: Extent) -> None:
        if self._counts:
            self.forget(extent.start, extent.start + extent.size)

    def _drop(self, address: int) -> None:
        log_undo(self.refresh)
        del self._counts[address]
        self._take_out(address)
        self.unset.pop(address, None)

    # -- the text --------------------------------------------------------------------------------

    def arm(self) -> None:
        """Code is about to run: they are in the text from now on."""
        self.armed = self._runs = True
        if self._counts:
            self.refresh()

    def disarm(self, stands: bool = False) -> None:
        """It has ended, or `stands`: the text is as it was without any."""
        self.armed, self._runs = False, stands
        for address in list(self._bytes):
            self._take_out(address)
        if not stands:
            self._reclaim()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """A block that reads or writes text as if there were none; what runs meanwhile misses
        them."""
        was, self.armed = self.armed, False
        self._hidden += 1
        for address in list(self._bytes):
            self._take_out(address)
        try:
            yield
        finally:
            self._hidden -= 1
            if was:
                self.arm()

    def refresh(self) -> None:
        """Others have written to text: every breakpoint is in it again, and its copy is that of the
        instruction as it is now.

        For whoever links while they are armed; a thread that runs there meanwhile may miss one.
        """
        for address in [a for a in (*self._bytes, *self.unset) if a not in self._counts]:
            self._take_out(address)
            self.unset.pop(address, None)
        view, base = self._arena.view, self._arena.base
        for address in self._bytes:
            if (byte := view[address - base]) != TRAP:
                self._bytes[address] = byte  # it was written over: that is what is there now
        for address in self._counts:
            try:
                self._make_ready(address)
                self.unset.pop(address, None)
            except NotDisplaced as error:
                self._take_out(address)
                self.unset[address] = str(error)
        if self.armed:
            self._told()
            for address in self._counts:
                if address not in self.unset:
                    self._put_in(address)

    def _told(self) -> None:
        if self.tell is not None:
            self.tell(self.table())

    def _put_in(self, address: int) -> None:
        view, at = self._arena.view, address - self._arena.base
        self._bytes.setdefault(address, view[at])
        view[at] = TRAP

    def _take_out(self, address: int) -> None:
        """The byte that was there; where others have written since, it is theirs."""
        view, at = self._arena.view, address - self._arena.base
        byte = self._bytes.get(address)
        if byte is not None:
            if view[at] == TRAP:
                view[at] = byte
            del self._bytes[address]

    def original(self, address: int, data: bytes) -> bytes:
        """Bytes read at `address` as they are without breakpoints."""
        if not self._bytes:
            return data
        within = range(address, address + len(data))
        small, large = (within, self._bytes) if len(data) < len(self._bytes) else (
            self._bytes, within
        )  # fmt: skip
        found = [at for at in small if at in large]
        if not found:
            return data
        clean = bytearray(data)
        for at in found:
            if clean[at - address] == TRAP:
                clean[at - address] = self._bytes[at]
        return bytes(clean)

    def _now(self, address: int, size: int) -> bytes:
        """The bytes in the text now, without breakpoints."""
        zone = self._arena.zones["text"]
        if not zone.start <= address < zone.high:
            raise NotDisplaced(f"no breakpoint at {address:#x}: no code of the session is there")
        return self.original(address, self._arena.read(address, min(size, zone.stop - address)))

    # -- slots -----------------------------------------------------------------------------------

    def slot(self, address: int) -> int:
        """The place where whoever stands at a breakpoint goes on.  Raises KeyError where there is
        none: he goes on where he stands."""
        if address not in self._counts or address in self.unset:
            raise KeyError(address)
        return self._slots[address].start

    def table(self) -> list[tuple[int, int]]:
        """`(address, slot)` of those that are in the text, or about to be, ascending: for who goes
        on without asking."""
        if not self.armed:
            return []
        there = (address for address in self._counts if address not in self.unset)
        return sorted((address, self._slots[address].start) for address in there)

    def place(self, pc: int) -> int:
        """The place that one in a slot stands for; any other address is itself.

        That is the instruction, or the one behind it where all of it is done.
        """
        row = self._row(pc)
        return row.address if row is not None else pc

    def original_registers(self, registers: Mapping[str, int]) -> dict[str, int]:
        """Registers of a thread that stopped, or met a fault, as if there were no slots.

        A call that is half done in one is not begun: `rsp` is what it was.  So tables of frames
        hold; return addresses on the stack never lead into slots.
        """
        found = dict(registers)
        row = self._row(found["rip"])
        if row is not None:
            found["rip"] = row.address
            if "rsp" in found:
                found["rsp"] += row.pushed
        return found

    def _row(self, pc: int) -> Row | None:
        start = self._arena.slots[0]
        slot = self._held.get(pc - (pc - start) % ROOM)
        if slot is None:
            return None
        return slot.rows[bisect_right(slot.rows, pc - slot.start, key=lambda row: row.offset) - 1]

    def _make_ready(self, address: int) -> None:
        """Have a copy of the instruction as it is now; who is in an older one stays there.

        Raises `NotDisplaced`, with nothing changed.
        """
        known = self._slots.get(address)
        if known is not None and self._is_same(known):
            return
        data = self._now(address, LONGEST)
        if known is not None and data.startswith(known.original):
            return
        if not self._free and self._high + ROOM > self._stop:
            self._reclaim()
        if self._free:
            start = self._free[0]
        elif self._high + ROOM <= self._stop:
            start = self._high
        else:
            room = (self._stop - self._arena.slots[0]) // ROOM
            raise NotDisplaced(
                f"no breakpoint at {address:#x}: there is room for {room}; remove some"
            )
        size, copy = displace(data, address, start)
        at = start - self._arena.base
        self._arena.view[at : at + ROOM] = copy.code + _FREE[len(copy.code) :]
        if start == self._high:
            self._high += ROOM
        else:
            self._free.popleft()
        slot = Slot(start, address, data[:size], copy.rows)
        self._slots[address] = self._held[start] = slot

    def _is_same(self, slot: Slot) -> bool:
        """True if an instruction is what it was, and nothing is over it."""
        at = slot.address - self._arena.base
        return self._arena.view[at : at + len(slot.original)] == slot.original

    def _reclaim_all(self) -> None:
        """Else it is soon enough as a call ends, and where there is no room."""
        if not self._counts and not self._runs:
            self._reclaim()

    def _reclaim(self) -> None:
        """Give back the slots that nobody can be in: none while code runs."""
        if len(self._held) == len(self._counts) - len(self.unset):
            return
        arena = self._arena
        if self.armed or self._hidden or arena.defers:
            return
        if arena.in_use is not None and arena.in_use():
            return
        for address in [a for a in self._slots if a not in self._counts or a in self.unset]:
            del self._slots[address]
        view, base = arena.view, arena.base
        used = {slot.start for slot in self._slots.values()}
        for start in [s for s in self._held if s not in used]:
            view[start - base : start - base + ROOM] = _FREE
            del self._held[start]
            self._free.append(start)
        if not self._held:
            first = arena.slots[0]
            arena.punch(first - base, self._high + -self._high % PAGE - base)
            self._free.clear()
            self._high = first
