"""What a measurement needs on a machine that does other things too.  Start from `strain`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["meanwhile", "soon", "strain", "until", "within"]

_WORK = 0.03  # seconds of processor time
_NAPS, _NAP = 5, 0.002


def strain() -> float:
    """How many times longer than on an idle machine things take just now; at least 1.

    Both what computes and what sleeps and is to be woken are tried.  It takes 40 ms, or that many
    times longer.
    """
    began, used = time.perf_counter(), time.thread_time()
    while time.thread_time() - used < _WORK:
        pass
    computing = (time.perf_counter() - began) / _WORK
    began = time.perf_counter()
    for _ in range(_NAPS):
        time.sleep(_NAP)
    waking = (time.perf_counter() - began) / (_NAPS * (_NAP + 0.0005))
    return max(1.0, computing, waking)


def within(measure: Callable[[], float], bound: float, tries: int = 4) -> None:
    """Check that a measurement is at most `bound`: one of some tries, for what else the machine
    does can only spoil it."""
    seen: list[float] = []
    for _ in range(tries):
        seen.append(measure())
        if seen[-1] <= bound:
            return
    raise AssertionError(f"never at most {bound}: {', '.join(f'{s:.3g}' for s in seen)}")


def until(done: Callable[[], object], seconds: float = 60, pause: float = 0.005) -> bool:
    """Wait for something, so many seconds at most; whether it has come."""
    deadline = time.monotonic() + seconds
    while not (found := done()) and time.monotonic() < deadline:
        time.sleep(pause)
    return bool(found)


@contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Work in a thread until the block ends: told then."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def soon(action: Callable[[], object], after: float = 0.1) -> Iterator[None]:
    """Do something in a thread while the block runs, so many seconds on: until what it gives is
    true, for what it is done to may begin later than that.  It must come to it."""
    done: list[bool] = []

    def act(over: threading.Event) -> None:
        pause = after
        while not done and not over.wait(pause):
            done.extend([True] if action() else [])
            pause = 0.001

    with _beside(act):
        yield
    assert done


@contextmanager
def meanwhile(action: Callable[[], object], pause: float = 0) -> Iterator[None]:
    """Do something again and again, so many seconds apart, in a thread, until the block ends."""

    def repeat(over: threading.Event) -> None:
        while not over.wait(pause):
            action()

    with _beside(repeat):
        yield
