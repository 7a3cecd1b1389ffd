"""Many modules on several workers at once.  Start from `compile_batch`.

One thread waits on all sockets.  Each worker has its next request before its last answer is read,
so none waits for this process.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from jitkernel.compiler.answers import compiled, died, interrupted, request_frame, timed_out
from jitkernel.compiler.process import WorkerProcess
from jitkernel.compiler.records import Compiled, Request
from jitkernel.errors import CompileError

__all__ = ["compile_batch"]

_AHEAD = 2  # requests that are with a worker at any time


class Lender(Protocol):
    """Who owns the workers; `stopping` tells whether the compile was interrupted as it began."""

    stopping: Callable[[], bool]

    def lend(self, index: int) -> WorkerProcess: ...

    def give_back(self, index: int, worker: WorkerProcess) -> None: ...

    def placed(self, worker: WorkerProcess, request: Request) -> None: ...


class _Lane:
    """One worker, the requests that it has, and the bytes that it has yet to be sent."""

    def __init__(self, index: int, worker: WorkerProcess):
        self.index = index
        self.worker = worker
        self.with_worker: deque[int] = deque()
        self.unsent = memoryview(b"")
        self.since = monotonic()  # when the request it works on began, as far as is known

    def events(self) -> int:
        return select.POLLIN | (select.POLLOUT if self.unsent else 0)


def compile_batch(
    lender: Lender, workers: int, requests: Sequence[Request], timeout: float, who: bool = False
) -> list[Compiled | CompileError]:
    """Results and errors in the order of `requests`; `who`: see `request_frame`.

    Raises Interrupted.
    """
    results: list[Compiled | CompileError | None] = [None] * len(requests)
    frames: dict[int, bytes] = {}
    for index, request in enumerate(requests):
        try:
            frames[index] = request_frame(request, who)
        except CompileError as error:
            results[index] = error
    waiting = deque(frames)
    lanes = [_Lane(i, lender.lend(i)) for i in range(min(workers, max(1, len(waiting))))]
    if lender.stopping():
        for lane in lanes:
            lender.give_back(lane.index, lane.worker)
        raise interrupted(requests[0].label)
    done = False
    try:
        while waiting or any(lane.with_worker for lane in lanes):
            for lane in lanes:
                _send(lane, waiting, frames)
            for lane in _ready(lanes, timeout):
                _receive(lender, lane, requests, results, waiting)
            for lane in lanes:
                if lane.with_worker and monotonic() - lane.since > timeout:
                    _give_up(lender, lane, requests, results, waiting, timeout)
        done = True
    finally:
        for lane in lanes:
            if not done:
                lane.worker.condemned = lane.worker.condemned or "abandoned"
                lane.worker.kill()
            lender.give_back(lane.index, lane.worker)
    return [result or CompileError("not compiled") for result in results]


def _send(lane: _Lane, waiting: deque[int], frames: dict[int, bytes]) -> None:
    """Give a worker what it has room for."""
    while True:
        if not lane.unsent:
            if not waiting or len(lane.with_worker) >= _AHEAD:
                return
            index = waiting.popleft()
            if not lane.with_worker:
                lane.since = monotonic()
            lane.with_worker.append(index)
            lane.unsent = memoryview(frames[index])
        try:
            sent = lane.worker.send_some(lane.unsent)
        except OSError:
            lane.unsent = memoryview(b"")  # it is gone: reading will tell
            return
        lane.unsent = lane.unsent[sent:]
        if lane.unsent:
            return


def _ready(lanes: list[_Lane], timeout: float) -> list[_Lane]:
    """Lanes that have something to read, after waiting for one."""
    poll = select.poll()
    by_descriptor = {}
    for lane in lanes:
        if lane.with_worker:
            poll.register(lane.worker.fileno(), lane.events())
            by_descriptor[lane.worker.fileno()] = lane
    if not by_descriptor:
        return []
    first = min(lane.since for lane in by_descriptor.values())
    left = max(0.0, first + timeout - monotonic())
    found = []
    for descriptor, events in poll.poll(left * 1000 + 1):
        if events & ~select.POLLOUT:
            found.append(by_descriptor[descriptor])
    return found


def _receive(
    lender: Lender,
    lane: _Lane,
    requests: Sequence[Request],
    results: list[Compiled | CompileError | None],
    waiting: deque[int],
) -> None:
    """Take the answers that came; if the worker died, go on with another one."""
    try:
        answers = lane.worker.receive_some()
    except (EOFError, OSError):
        index = lane.with_worker.popleft()
        if lane.worker.condemned == "interrupted":
            raise interrupted(requests[index].label) from None
        request = requests[index]
        results[index] = died(*lane.worker.post_mortem(), request.label, request)
        lane.worker.condemned = "died"
        _renew(lender, lane, waiting)
        return
    for header, blob in answers:
        index = lane.with_worker.popleft()
        lane.since = monotonic()
        lender.placed(lane.worker, requests[index])
        try:
            results[index] = compiled(header, blob)
        except CompileError as error:
            results[index] = error


def _give_up(
    lender: Lender,
    lane: _Lane,
    requests: Sequence[Request],
    results: list[Compiled | CompileError | None],
    waiting: deque[int],
    timeout: float,
) -> None:
    """End a worker whose request took too long."""
    index = lane.with_worker.popleft()
    results[index] = timed_out(requests[index].label, timeout)
    lane.worker.condemned = "timeout"
    lane.worker.kill()
    _renew(lender, lane, waiting)


def _renew(lender: Lender, lane: _Lane, waiting: deque[int]) -> None:
    """Another worker for this lane; what the last one had not begun goes back in line."""
    waiting.extendleft(reversed(lane.with_worker))
    lane.with_worker.clear()
    lane.unsent = memoryview(b"")
    lender.give_back(lane.index, lane.worker)
    lane.worker = lender.lend(lane.index)
    lane.since = monotonic()
