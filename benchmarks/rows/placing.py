"""Messages to the executor, and many cells at once.  Start from `messages`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.harness import Figure, Scale, ratios
from benchmarks.programs import caller, sixty_lines, tiny
from jitkernel import Session

__all__ = ["messages", "run_many"]


class _Counting:
    """A socket that counts what is sent through it."""

    def __init__(self, socket: Any):
        self._socket, self.sent = socket, 0

    def send(self, *arguments: Any) -> int:
        self.sent += 1
        return int(self._socket.send(*arguments))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def messages(scale: Scale) -> Iterator[Figure]:
    """Frames that go to the executor while cells are placed, redefined and evicted."""
    count = scale.pick(20, 500)
    with Session(spare=False) as s:
        s.run(tiny("base"))
        s.call("base", 2)
        child: Any = s.engine.executor._talk.child
        counting = child.socket = _Counting(child.socket)
        s.call("base", 2)
        assert counting.sent == 1, "a call is one message: the count works"
        counting.sent = 0
        for i in range(count):
            s.run(caller(f"c{i}", "base"))
        placed = counting.sent
        for i in range(count):
            s.run(tiny("base", i))
        moved = counting.sent - placed
        for i in range(count):
            s.evict(f"c{i}")
        gone = counting.sent - placed - moved
    yield Figure("messages to the executor per placement", placed / count, "1", 0)
    yield Figure(f"messages per redefinition ({count} callers)", moved / count, "1", 0)
    yield Figure("messages per eviction", gone / count, "1")


def run_many(scale: Scale) -> Iterator[Figure]:
    """Cells of about 60 lines, compiled by two workers and by one."""
    count, rounds = scale.pick(40, 200), scale.pick(2, 5)
    took: dict[int, list[float]] = {1: [], 2: []}
    with Session(workers=1, spare=False) as one, Session(workers=2, spare=False) as two:
        sessions = {1: one, 2: two}
        for s in sessions.values():
            s.run_many([sixty_lines(f"w{i}", i) for i in range(8)])
        for turn in range(rounds):
            for workers in ((1, 2), (2, 1))[turn % 2]:
                cells = [sixty_lines(f"r{turn}_{i}", i) for i in range(count)]
                start = time.perf_counter()
                sessions[workers].run_many(cells)
                took[workers].append(time.perf_counter() - start)
    yield Figure(f"run_many of {count} cells of 60 lines, one worker", median(took[1]), "s")
    yield Figure("the same with two workers", median(took[2]), "s")
    yield Figure(
        "one worker / two workers", median(ratios(took[1], took[2])), "x", 1.6, at_least=True,
        note="on two processors; LLJIT of llvmlite compiles in the caller's thread, one at a time",
    )  # fmt: skip
