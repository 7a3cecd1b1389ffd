"""Frames between the kernel process and a worker.  Start from `frame` and `FrameReader`.

A frame is two little-endian lengths, a JSON header and raw bytes: none in a question, an object in
most answers.  Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import select
import struct
from collections.abc import Callable
from time import monotonic, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any

from jitkernel.sockets import MSG_DONTWAIT, MSG_PEEK, Socket

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

LENGTHS = struct.Struct("<IQ")  # bytes of JSON, bytes of blob
_CHUNK = 1 << 16

# When one round of asking takes so many nanoseconds, others want the processor: then it is given
# up at once for a while.  Who sleeps is woken before those who compute; who asks is one of them.
_CROWDED = 50_000
_REST = 100_000_000

# With one processor, asking again only keeps the other side from answering.
SPIN_ALLOWED = len(os.sched_getaffinity(0)) > 1

# What JSON does not have are sets: they travel as lists.
_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=sorted).encode
_loads = json.JSONDecoder().raw_decode


def frame(header: Any, blob: bytes = b"") -> bytes:
    """The bytes of one frame."""
    text = _dumps(header).encode()
    return LENGTHS.pack(len(text), len(blob)) + text + blob


def readable(descriptor: FileDescriptorLike, seconds: float) -> bool:
    """True if there is something to read by then, or an end: whatever the descriptor's number,
    which select(2) cannot do from 1,024 on."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class FrameReader:
    """The receiving end of a socket: frames in order; bytes of the next one wait until asked for.

    Works on a socket that blocks (then `timeout` must be None) and on one that does not.
    """

    def __init__(self, sock: Socket):
        #: called when a wait without an end has taken `idle` seconds
        self.on_idle: Callable[[], object] | None = None
        self.idle = 0.0
        self._sock = sock
        self._data = b""
        self._rest = 0  # the time until which it sleeps at once
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def receive(self, spin: int = 0, timeout: float | None = None) -> tuple[Any, bytes]:
        """Wait for one frame: header and blob.

        The first `spin` nanoseconds it asks again and again instead of sleeping: to wake a
        sleeping processor takes some 30 us each way, a tenth of what a tiny cell costs.
        Raises EOFError at the end of the stream, TimeoutError after `timeout` seconds.
        """
        deadline = None if timeout is None else monotonic() + timeout
        data = self._data or (spin and SPIN_ALLOWED and self._spin(spin)) or self._part(deadline)
        if len(data) < LENGTHS.size:
            data = self._more(data, LENGTHS.size, deadline)
        text, blob = LENGTHS.unpack_from(data)
        middle = LENGTHS.size + text
        end = middle + blob
        if len(data) < end:
            data = self._more(data, end, deadline)
        self._data = data[end:]
        return _loads(data[LENGTHS.size : middle].decode())[0], data[middle:end]

    def peek(self, timeout: float) -> tuple[Any, int]:
        """The header of the frame that comes next and the frame's size in bytes; it stays to be
        received.  Raises EOFError, TimeoutError."""
        deadline = monotonic() + timeout
        while True:
            data = self._data or self._part(deadline, flags=MSG_PEEK)
            if not data:
                raise EOFError
            if len(data) >= LENGTHS.size:
                text, blob = LENGTHS.unpack_from(data)
                middle = LENGTHS.size + text
                if len(data) >= middle:
                    return _loads(data[LENGTHS.size : middle].decode())[0], middle + blob
            if monotonic() > deadline:
                raise TimeoutError
            sleep(0.001)  # the rest is on its way

    def _spin(self, spin: int) -> bytes:
        now = perf_counter_ns()
        if now < self._rest:
            return b""
        end = now + spin
        receive = self._sock.recv
        while now < end:
            try:
                return receive(_CHUNK, MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
            before, now = now, perf_counter_ns()
            if now - before > _CROWDED:
                self._rest = now + _REST
                break
        return b""

    def _part(self, deadline: float | None, size: int = _CHUNK, flags: int = 0) -> bytes:
        """Some bytes, after waiting for them; none at the end of the stream."""
        if deadline is not None:
            left = deadline - monotonic()
            if not self._poll.poll(max(0.0, left) * 1000):
                raise TimeoutError
        elif self.on_idle is not None and not self._poll.poll(self.idle * 1000):
            self.on_idle()
        return self._sock.recv(size, flags)

    def _more(self, data: bytes, wanted: int, deadline: float | None) -> bytes:
        """`data` and what follows it, at least `wanted` bytes."""
        if not data:
            raise EOFError
        whole = bytearray(data)
        while len(whole) < wanted:
            part = self._part(deadline, max(_CHUNK, min(wanted - len(whole), 1 << 20)))
            if not part:
                raise EOFError
            whole += part
        return bytes(whole)
