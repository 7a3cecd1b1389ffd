"""What the executor's process says and asks: on its socket, and for code that is not in memory.

Session code runs in that process and can write to the socket: it may have said anything, before it
was asked or instead of the runtime.  So each request has a number that nobody can know before, an
answer has to repeat it, and what has another number, kind or size is dropped.  Start from
`Replies`.

A thread that has called hibernated code waits in native/wake.ll, one that has called Python in
native/ask.ll; `ThreadRequests` answers both.  How code comes back is not known here.
"""

from __future__ import annotations

# The half of `signal` that is in C: the other makes enums of what it is given, and takes ten times
# as long.
import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import os
import signal
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.doorbell import Doorbell
from jitkernel.syscalls import SYS

if TYPE_CHECKING:
    from jitkernel.executor.executor import Executor
    from jitkernel.sockets import Socket

#: A request: op, seq, then up to six words; an answer: op, seq, then up to six words.
HEAD = struct.Struct("<8Q")
_NOTHING = bytes(HEAD.size)
_LARGEST = 1 << 16  # bytes of a message
# To wake a thread takes no time to speak of: not worth letting another Python thread run meanwhile.
_syscall = ctypes.PyDLL(None).syscall


def new_number() -> int:
    """A request's number: 64 random bits, not zero."""
    return int.from_bytes(os.urandom(8), "little") | 1


class Replies:
    """The last message, and whether it is the answer to the present request.

    In `words`, those of the control block, the native loop notes what it is about to answer.
    Answers to calls may be in shared memory alone, as `bell` knows.
    """

    def __init__(self, words: ControlBlock | Mapping[str, int], bell: Doorbell):
        self._words, self._bell = words, bell
        self._buffer, self._size = bytearray(_LARGEST), 0
        self._later = bytearray(HEAD.size)  # a message behind the answer
        self.asked = self.seq = 0  # the present request: its kind and number

    def expect(self, message: bytes) -> None:
        """From now on the answer to this request is waited for."""
        self._buffer[: HEAD.size] = _NOTHING
        self.asked, self.seq, *_ = HEAD.unpack_from(message)

    def receive(self, end: Socket) -> tuple[int, ...]:
        """Take in a message; its head, nothing at the end.  Raises ConnectionError."""
        if self.answer() is not None:  # that stays where it is
            self._later[:] = _NOTHING
            return HEAD.unpack_from(self._later) if end.recv_into(self._later) else ()
        self._buffer[: HEAD.size] = _NOTHING  # of a short one the rest is zero
        try:
            self._size = end.recv_into(self._buffer)
        except ConnectionResetError:
            # Told once, before what the process said last, where it left a request unread.
            self._size = end.recv_into(self._buffer)
        return HEAD.unpack_from(self._buffer) if self._size else ()

    # The answer is found in the buffer each time, so that no exception can lose it.

    def answer(self) -> tuple[int, ...] | None:
        """The answer to the present request: (op, seq, ...), None where it is not here."""
        if self._bell.rung == self.seq and (answer := self._bell.answer()) is not None:
            return answer
        head = HEAD.unpack_from(self._buffer)
        if head[1] != self.seq or head[0] != self.asked:
            return None
        if self.asked < abi.HELLO and self._words["done_seq"] != self.seq:
            return None
        return head

    def payload(self) -> bytes:
        """The bytes that followed the last message's head."""
        return bytes(self._buffer[HEAD.size : self._size])


class ThreadRequests:
    """The requests of the program's threads in shared memory: for code that is not there
    (native/wake.ll), which `user.on_wake` brings back, and for functions of Python's
    (native/ask.ll), which `user.on_ask` runs."""

    def __init__(self, user: Executor, control: ControlBlock):
        self._user, self._control = user, control

    def forget(self) -> None:
        """A call begins: what the cells' thread asked in the last one, which was stopped, is
        over."""
        if self._control["ask_lock"] == self._control["tid"]:
            self._control["ask_number"] = 0
            self._control["ask_lock"] = 0

    def bring_code(self) -> None:
        """Bring back the code that a thread waits for, if one does.  Raises what `on_wake` raises,
        after the thread was told that nothing came."""
        control = self._control
        stub = control["wake_stub"]
        if not stub or control["wake_done"]:
            return
        target = 0
        with undisturbed():
            try:
                target = self._user.on_wake(stub, control["wake_alone"] != 0)
            finally:
                control["wake_target"] = target
                self._tell("wake_done")  # the thread would look by itself, but later

    def run_function(self) -> None:
        """Run the function that a thread waits for, if one does.

        Raises what that raises; then the cells' thread waits on, to be stopped, and any other gets
        zeros.
        """
        control = self._control
        number = control["ask_number"]
        if not number or control["ask_done"]:
            return
        size = min(control["ask_size"], abi.ASK_SIZE)
        answer = bytes(size)
        try:
            answer = self._user.on_ask(number, control.read(abi.ASK_AT, size))
        except BaseException:
            if control["ask_lock"] == control["tid"]:
                control["ask_number"] = 0
                number = 0
            raise
        finally:
            if number:
                control.write(abi.ASK_AT, answer)
                self._tell("ask_done")

    def _tell(self, name: str) -> None:
        """Set a control word, and wake the thread that waits for it (futex(2))."""
        self._control[name] = 1
        at = self._control.start + abi.FIELDS[name]
        word = ctypes.addressof(ctypes.c_uint32.from_buffer(self._control.view, at))
        _syscall(SYS["futex"], ctypes.c_void_p(word), abi.FUTEX_WAKE, 1, 0, 0, 0)


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
