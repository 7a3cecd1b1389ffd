"""Calls that nobody is woken for: both processes look at memory that they share for a moment, since
to wake one takes longer than most calls.  Start from `Doorbell.ring`.

The executor looks for the next request for `patience` cycles after each answer (native/serve.ll),
while calls follow one another closely; this process looks for the answer.  Each says before that it
does, and looks once more after it has said that it does no more, so that nothing is missed: what
nobody looks for goes over the socket.  Where looking finds nothing, as where no core is free or the
call is long, it is not tried for the next calls, twice as many each time.
"""

from __future__ import annotations

import os
import struct
import threading
import time

from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock

_WORD, _PAIR, _THREE = struct.Struct("<Q"), struct.Struct("<2Q"), struct.Struct("<3Q")
_CYCLES = 250_000  # for which the executor looks: about 100 us
_NEAR = 80_000  # nanoseconds between an answer and the next request up to which it is to look
_LOOKS = 150  # at the answer: about 15 us
_MOST = 255  # calls without a try


class Doorbell:
    """Of the process that has this control block."""

    def __init__(self, control: ControlBlock):
        self._view = control.view
        self._frame = control.start + abi.FRAME_AT
        self._bell, self._listening, self._watched, self._patience, self._answer, self._done = (
            control.start + abi.FIELDS[name]
            for name in ("bell", "listening", "watched", "patience", "answered", "done_seq")
        )
        self._several = len(os.sched_getaffinity(0)) > 1
        self._fence = threading.Lock()  # taking it orders what stands before and behind
        self._pause = self._left = 0  # calls without a try: after the last failure, still to come
        self._ended = 0  # when the last answer came
        self._trying = False  # the process was to look for this request
        self.rung = 0  # the number of the last call that was handed over
        self._twice = False  # that went over the socket, too, and may lie there
        self._posted = False  # what nobody waits for may lie there

    def ring(self, message: bytes) -> bool:
        """Hand a call over, if the process looks for one; else it is to be sent."""
        view, twice = self._view, self._twice or self._posted
        self.rung, self._twice, self._posted = 0, False, False
        self._left -= self._left > 0
        near = time.monotonic_ns() - self._ended < _NEAR
        trying = self._several and near and not self._left
        listening = _WORD.unpack_from(view, self._listening)[0]
        if trying and self._trying and not listening:  # it looked while this process could not run
            self._failed()
            trying = False
        self._trying = trying
        _WORD.pack_into(view, self._patience, _CYCLES if trying else 0)
        if twice or not trying or not listening:
            return False
        (self.rung,) = _WORD.unpack_from(message, 8)
        _WORD.pack_into(view, self._watched, 1)
        view[self._frame : self._frame + abi.HEAD_SIZE] = message
        _WORD.pack_into(view, self._bell, self.rung)
        with self._fence:
            pass
        if not _WORD.unpack_from(view, self._listening)[0]:
            self._twice = _WORD.unpack_from(view, self._bell)[0] != 0
        return not self._twice

    def disturb(self) -> None:
        """There is something on the socket: the process is not to look elsewhere any more."""
        if not self._twice and _WORD.unpack_from(self._view, self._listening)[0]:
            _WORD.pack_into(self._view, self._bell, 1)

    def post(self) -> None:
        """The same, which nobody waits for: the next call goes over the socket, behind it, since
        the process may be reading that into the frame."""
        self.disturb()
        self._posted = True

    def watch(self) -> None:
        """Look for the answer to a call that was handed over for a moment."""
        view, at, number, read = self._view, self._answer, self.rung, _WORD.unpack_from
        try:
            for _ in range(_LOOKS):
                if read(view, at)[0] == number:
                    self._pause >>= 1
                    return
            self._failed()
        finally:
            _WORD.pack_into(view, self._watched, 0)
            with self._fence:
                pass

    def _failed(self) -> None:
        self._pause = self._left = min(2 * self._pause + 1, _MOST)

    def answer(self) -> tuple[int, ...] | None:
        """The answer to such a call, as on the socket; None where it is not here."""
        number, reopened = _PAIR.unpack_from(self._view, self._answer)
        done, stopped, sick = _THREE.unpack_from(self._view, self._done)
        if number != self.rung or done != number:
            return None
        return abi.CALL, number, stopped, sick, reopened, 0, 0, 0

    def ended(self) -> None:
        """A call has been answered."""
        self._ended = time.monotonic_ns()
