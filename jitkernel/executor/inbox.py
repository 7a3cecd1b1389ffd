"""What the executor's process says and asks: on its socket, and for code that is not in memory.

Session code runs in that process and can write to the socket: it may have said anything, before it
was asked or instead of the runtime.  So each request has a number that nobody can know before, an
answer has to repeat it, and what has another number, kind or size is dropped.  Start from `Inbox`.

A thread that has called hibernated code waits in native/wake.ll; `WakeRequests.serve` has the code
brought back and tells the thread where to continue.  How code comes back is not known here.
"""

from __future__ import annotations

# The half of `signal` that is in C: the other makes enums of what it is given, and takes ten times
# as long.
import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from jitkernel.executor import abi
from jitkernel.executor.doorbell import Doorbell
from jitkernel.executor.records import Callbacks
from jitkernel.syscalls import SYS

__all__ = ["HEAD", "AskRequests", "Inbox", "WakeRequests", "new_number", "undisturbed"]

#: A request: op, seq, then up to six words; an answer: op, seq, then up to six words.
HEAD = struct.Struct("<8Q")
_NOTHING = bytes(HEAD.size)
_LARGEST = 1 << 16  # bytes of a message


def new_number() -> int:
    """A request's number: 64 random bits, not zero."""
    return int.from_bytes(os.urandom(8), "little") | 1


class Inbox:
    """The last message, and whether it is the answer to the present request.

    `get` reads a control word: the native loop notes there what it is about to answer.  Answers to
    calls may be in shared memory alone, as `bell` knows.
    """

    def __init__(self, get: Callable[[str], int], bell: Doorbell):
        self._get, self._bell = get, bell
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
    def is_call(self) -> bool:
        """True if the present request is a call."""
        return self._op == abi.CALL

    @property
    def op(self) -> int:
        """The kind of message that the last one is."""
        return int(HEAD.unpack_from(self._buffer)[0])

    @property
    def status(self) -> int:
        """0 where the last message tells of no failure."""
        return int(HEAD.unpack_from(self._buffer)[3])

    # The answer is found in the buffer each time, so that no exception can lose it.

    def answer(self) -> tuple[int, ...] | None:
        """The answer to the present request: (op, seq, ...), None where it is not here."""
        if self._bell.rang(self.seq) and (answer := self._bell.answer()) is not None:
            return answer
        head = HEAD.unpack_from(self._buffer)
        if head[1] != self.seq or head[0] != self._op:
            return None
        if self._op < abi.HELLO and self._get("done_seq") != self.seq:
            return None
        return head

    def payload(self) -> bytes:
        """The bytes that followed the last message's head."""
        return bytes(self._buffer[HEAD.size : self._size])


class WakeRequests:
    """Answers requests for code with what `user.on_wake` says.

    `get` and `put` read and write control words, `view` is the slab, `done_at` where `wake_done` is
    in it.
    """

    def __init__(
        self,
        user: Callbacks,
        get: Callable[[str], int],
        put: Callable[[str, int], None],
        view: memoryview,
        done_at: int,
    ):
        self._user, self._get, self._put = user, get, put
        self._notify = _waker(view, done_at)

    def serve(self) -> None:
        """Answer the request that there is, if there is one.  Raises what `on_wake` raises, after
        the thread was told that nothing came."""
        stub = self._get("wake_stub")
        if not stub or self._get("wake_done"):
            return
        target = 0
        with undisturbed():
            try:
                target = self._user.on_wake(stub, self._get("wake_alone") != 0)
            finally:
                self._put("wake_target", target)
                self._put("wake_done", 1)
                self._notify()  # futex(2); the thread would look by itself, but later


class AskRequests:
    """Calls of Python's functions by the program: see native/ask.ll."""

    def __init__(
        self,
        user: Callbacks,
        get: Callable[[str], int],
        put: Callable[[str, int], None],
        view: memoryview,
        control: int,
    ):
        self._user, self._get, self._put = user, get, put
        self._view, self._frame = view, control + abi.ASK_AT
        self._notify = _waker(view, control + abi.FIELDS["ask_done"])

    def forget(self) -> None:
        """A call begins: what the cells' thread asked in the last one, which was stopped, is
        over."""
        if (holder := self._get("ask_lock")) and holder == self._get("tid"):
            self._put("ask_number", 0)
            self._put("ask_lock", 0)

    def serve(self) -> None:
        """Run the function that a thread waits for, if one does.

        Raises what that raises; then the cells' thread waits on, to be stopped, and any other gets
        zeros.
        """
        number = self._get("ask_number")
        if not number or self._get("ask_done"):
            return
        at, size = self._frame, min(self._get("ask_size"), abi.ASK_SIZE)
        try:
            answer = self._user.on_ask(number, bytes(self._view[at : at + size]))
        except BaseException:
            if self._get("ask_lock") == self._get("tid"):
                self._put("ask_number", 0)
            else:
                self._answer(bytes(size))
            raise
        self._answer(answer)

    def _answer(self, answer: bytes) -> None:
        at = self._frame
        self._view[at : at + len(answer)] = answer
        self._put("ask_done", 1)
        self._notify()


def _waker(view: memoryview, at: int) -> Callable[[], object]:
    """A function to wake a thread of the program that waits for the word to change (futex(2))."""
    # The slab stays where it is for as long as it is mapped; nothing is held of the view.
    word = ctypes.addressof(ctypes.c_uint32.from_buffer(view, at))
    # It takes no time to speak of: not worth letting another Python thread run meanwhile.
    syscall = ctypes.PyDLL(None).syscall
    return partial(syscall, SYS["futex"], ctypes.c_void_p(word), abi.FUTEX_WAKE, 1, 0, 0, 0)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C in this process waits: code that is half linked is no place to stop at."""
    before = _signal.getsignal(signal.SIGINT)
    if threading.get_ident() != threading.main_thread().ident or not callable(before):
        yield
        return
    pressed: list[tuple[int, Any]] = []
    _signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        _signal.signal(signal.SIGINT, before)
        if pressed:
            before(*pressed[0])
