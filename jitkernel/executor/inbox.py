"""What the executor's process says on its socket, and what of it can be believed.

Session code runs in that process and can write to the socket: it may have said anything, before it
was asked or instead of the runtime.  So each request has a number that nobody can know before, an
answer has to repeat it, and what has another number, kind or size is dropped.  Start from `Inbox`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable

from jitkernel.executor import abi

__all__ = ["HEAD", "Inbox", "new_number"]

#: A request: op, seq, then up to six words; an answer: op, seq, then up to six words.
HEAD = struct.Struct("<8Q")
_NOTHING = bytes(HEAD.size)
_LARGEST = 1 << 16  # bytes of a message


def new_number() -> int:
    """A request's number: 64 random bits, not zero."""
    return int.from_bytes(os.urandom(8), "little") | 1


class Inbox:
    """The last message, and whether it is the answer to the present request.

    `get` reads a control word: the native loop notes there what it is about to answer.
    """

    def __init__(self, get: Callable[[str], int]):
        self._get = get
        self._buffer, self._size = bytearray(_LARGEST), 0
        self._op = self.seq = 0

    def expect(self, message: bytes) -> None:
        """From now on the answer to this request is waited for."""
        self._buffer[: HEAD.size] = _NOTHING
        self._op, self.seq, *_ = HEAD.unpack_from(message)

    def receive(self, end: socket.socket) -> int:
        """Take in a message; its size, 0 also at the end.  Raises ConnectionError."""
        self._buffer[: HEAD.size] = _NOTHING  # of a short one the rest is zero
        try:
            self._size = end.recv_into(self._buffer)
        except ConnectionResetError:
            # Told once, before what the process said last, where it left a request unread.
            self._size = end.recv_into(self._buffer)
        return self._size

    @property
    def op(self) -> int:
        """What kind of message the last one is."""
        return int(HEAD.unpack_from(self._buffer)[0])

    @property
    def status(self) -> int:
        """0 where the last message tells of no failure."""
        return int(HEAD.unpack_from(self._buffer)[3])

    # The answer is found in the buffer each time, so that no exception can lose it.

    def answer(self) -> tuple[int, ...] | None:
        """The answer to the present request: (op, seq, ...), None where it is not here."""
        head = HEAD.unpack_from(self._buffer)
        if head[1] != self.seq or head[0] != self._op:
            return None
        if self._op < abi.HELLO and self._get("done_seq") != self.seq:
            return None
        return head

    def payload(self) -> bytes:
        """What followed the last message's head."""
        return bytes(self._buffer[HEAD.size : self._size])
