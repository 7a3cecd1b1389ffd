"""One request after another to the executor's process, its streams served meanwhile.

A single loop in the caller's thread waits for the answer, hands on output, asks for input and
stops what is to be stopped; there are no threads here.  What requests mean is not known here
(process.py), nor how a process starts (spawn.py).  Start from `ExecutorChannel.ask`.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence

from jitkernel import procfs
from jitkernel.errors import JitError
from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.doorbell import Doorbell
from jitkernel.executor.inbox import Inbox, ThreadRequests
from jitkernel.executor.interrupt import Check, Interruption, StopRequest
from jitkernel.executor.peek import unblock_faults
from jitkernel.executor.records import Callbacks
from jitkernel.executor.spawn import Pipes, Spawned, waiting

__all__ = ["ExecutorChannel"]

_PIECE = 1 << 16  # bytes read at once; as much as a pipe holds
_END = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_FIRST_LOOK, _LOOK = 0.02, 0.03  # seconds until a call counts as long, and between looks at it
_START = 20.0  # seconds for a process to say hello


class ExecutorChannel:
    """The executor's side of a socket, and the program's streams, through changing processes.

    `user` is told and asked; `on_ready` hears of a process that is ready.  `stop` is the
    interruption in progress, `failure` what a callback raised during this request.
    """

    def __init__(self, user: Callbacks, control: ControlBlock, on_ready: Callable[[], None]):
        self._user, self._control, self._on_ready = user, control, on_ready
        self._threads, self._bell = ThreadRequests(user, control), Doorbell(control)
        self.pipes = Pipes()
        self.child: Spawned | None = None
        self.busy = False
        self.pending = False  # a request was sent, and its answer not waited for to the end
        self.serving = False  # somebody waits for it: what runs is a callback
        self.stop: Interruption | None = None
        self.failure: BaseException | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.stop_request = StopRequest()  # to stop the present request
        self._inbox = Inbox(control, self._bell)
        self._began, self._due, self._looks = 0.0, 0.0, 0
        self._fed = False  # input was written that may be unread
        self._line = b""  # what stands on the last line of stdout

    # -- its partners --------------------------------------------------------------------------

    def attach(self, child: Spawned) -> None:
        """Talk to this process from now on."""
        self.child = child
        self._cut = False
        self._poll = select.poll()
        # The socket first: when its answer is seen, output written before it is seen too.
        self._socket = child.socket.fileno()
        self._poll.register(self._socket, select.POLLIN | select.POLLRDHUP)
        for fd in (self.pipes.stdout, self.pipes.stderr, self._wake, child.pidfd):
            self._poll.register(fd, select.POLLIN)

    def detach(self, patience: float = 0.0) -> int:
        """End the process, waiting `patience` seconds for it to do so itself; its exit status."""
        child, self.child = self.child, None
        return child.end(patience) if child else 0

    def close(self) -> None:
        """Give up for good."""
        if self._wake >= 0:
            self.drain()
            self.pipes.close()
            os.close(self._wake)
            self._wake = -1

    @property
    def closed(self) -> bool:
        return self._wake < 0

    # -- requests ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a request; requests to stop the last one do not concern it."""
        self.stop, self.stop_request = None, StopRequest()
        self.busy = True

    def end(self) -> BaseException | None:
        """End a request; what a callback raised meanwhile."""
        failure, self.failure = self.failure, None
        self.busy, self.stop = False, None
        return failure

    def begin_call(self) -> None:
        """Begin a call; nor does input that the last one left unread."""
        if self._fed:
            self.pipes.reopen_input()
            self.pipes.drop_input()
            self._fed = False
        self._line = b""
        self._threads.forget()
        self.begin()

    def ask(
        self, child: Spawned, message: bytes, check: Check | None = None
    ) -> tuple[int, ...] | None:
        """Send a request and serve the streams until its answer: (op, seq, ...).

        None: the process has ended or has to, or the `check` that was asked for has failed.
        """
        self._inbox.expect(message)
        self.pending = True
        try:
            if not (self._inbox.is_call and self._bell.ring(message)):
                self._bell.disturb()
                child.socket.send(message)
        except OSError:
            if not child.ready:
                self._take(child, self._poll.poll(0))  # it may have said why it ended
            self.pending = False
            return None
        return self.wait(child, check)

    def wait(self, child: Spawned, check: Check | None = None) -> tuple[int, ...] | None:
        """Serve the streams until the request that was sent is answered; see `ask`."""
        self.serving = True
        try:
            answer = self._serve(child, check)
        finally:
            self.serving = False
        self.pending = False
        self._bell.ended()
        return answer

    def _serve(self, child: Spawned, check: Check | None) -> tuple[int, ...] | None:
        self._began = time.monotonic()
        self._due, self._looks = self._began + _FIRST_LOOK, 0
        wait, watched = int(1000 * _FIRST_LOOK), False
        while True:
            try:
                if self.child is not child:
                    raise JitError("the executor was closed while it ran a call")
                if not watched:
                    watched = True
                    self._bell.watch()
                if (answer := self._inbox.answer()) is not None:
                    if self._bell.rang(self._inbox.seq):  # nobody has said what else there is
                        self._take(child, self._poll.poll(0))
                    return answer
                if self._take(child, self._poll.poll(wait)) and not self._answered():
                    self.drain()
                    return None
                now = time.monotonic()
                if now >= self._due and not self._answered():
                    self._due = now + _LOOK
                    if not self._monitor(child, now, check):
                        self._take(child, self._poll.poll(0))  # it may have come just now
                        if not self._answered():
                            return None
                wait = max(1, int(1000 * (self._due - now)))
            except ConnectionError:
                self.drain()
                return None
            except OSError:
                if self.child is child:
                    raise  # else a callback, or another thread, has closed what was waited on
            except KeyboardInterrupt:
                if self.stop is None:
                    self.interrupt_now("")

    def payload(self) -> bytes:
        """The bytes that followed the last answer's head."""
        return self._inbox.payload()

    def _answered(self) -> bool:
        return self._inbox.answer() is not None

    def _take(self, child: Spawned, events: Sequence[tuple[int, int]]) -> bool:
        """Take in what has come; True when the process has ended."""
        ended = False
        for fd, event in events:
            if fd == self._socket:
                if self._inbox.receive(child.socket):
                    self._handle(child)
                elif event & _END:
                    # The cell closed it, or the process is about to end: its descriptor tells.
                    self._poll.unregister(fd)
                    self._cut = True
            elif fd == self._wake:
                os.eventfd_read(fd)
                if self.stop_request.pressed and self.stop is None:
                    self.interrupt_now("")
            elif fd == child.pidfd:
                ended = True
            elif self._read(fd) == _PIECE and self._answered():
                self.drain()  # what was written before the answer comes before it
        return ended

    def _handle(self, child: Spawned) -> None:
        """Handle a message that is no answer: a thread called hibernated code or Python, or a
        greeting."""
        op = self._inbox.op
        if op in (abi.WAKE, abi.ASK):
            self._answer_requests()
        elif op == abi.HELLO and not child.ready:
            self._greet(child)

    def _answer_requests(self) -> None:
        """Bring back the code that a thread waits for; what stops the cell has to wait for it.  Run
        the function of Python's that one waits for."""
        try:
            self._threads.bring_code()
            if self.stop is None:
                self._threads.run_function()
        except BaseException as error:
            self._fail(error)

    def _greet(self, child: Spawned) -> None:
        """The process says that it is ready, or why it never will be."""
        if self._inbox.status:
            self.detach(0.5)
            words = self.payload().decode("utf-8", "replace")
            raise JitError(f"the executor cannot start: {words}")
        child.greet()
        self._began = time.monotonic()  # nor is the time that its process takes to start
        self._on_ready()

    def _monitor(self, child: Spawned, now: float, check: Check | None) -> bool:
        """Every 30 ms of a long request: what does it wait for?  False to give it up."""
        self._looks += 1
        if not child.ready:
            self._due = now + _LOOK
            return now - self._began < _START
        self._answer_requests()  # a cell that closed the socket cannot send the message
        if check is not None:
            return not check.failed()
        if self._user.on_wait is not None and self.failure is None:
            try:
                self._user.on_wait(now - self._began)
            except BaseException as error:
                self._fail(error)
        if self.stop is not None:
            alive = self.stop.step(now)
            self._due = self.stop.due
            return alive
        if self._over_limit():
            self.interrupt_now("timeout")
            return True
        if (self._cut or self._looks % 32 == 0) and child.ended():
            return False
        if not self.pipes.unread():
            if procfs.waits_for_input(procfs.family(child.pid), self.pipes.stdin_name):
                self._serve_input(child)
        return True

    def _over_limit(self) -> bool:
        """True if the request has taken longer than it may."""
        limit = self._user.settings.cell_timeout
        return limit > 0 and time.monotonic() - self._began >= limit

    # -- stopping ------------------------------------------------------------------------------

    def interrupt(self) -> bool:
        """Ask for the request in progress to be stopped; False where there is none.

        May be called from any thread and from a signal handler; returns at once.
        """
        if not self.busy or not self.stop_request.press():
            return False
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:
            return False
        return True  # though the call may have ended by now: it ends as interrupted

    def interrupt_now(self, cause: str) -> None:
        """Begin to stop the request, in the loop's own thread."""
        if self.child is None:
            return
        now = time.monotonic()
        grace = self._user.settings.interrupt_grace
        self.stop = Interruption(self.child.pid, self._inbox.seq, self._control, grace, cause, now)
        if self.child.ready:  # before that, a signal would end it
            if self.child.threads:
                unblock_faults(self.child.pid, self._control["lifeline_tid"])
            self.stop.step(now)
        self._due = self.stop.due

    def _fail(self, error: BaseException) -> None:
        """A callback raised: remember that, and stop the cell.  A KeyboardInterrupt only stops."""
        if not self.busy:
            raise error
        if not isinstance(error, KeyboardInterrupt):
            self.failure = self.failure or error
        if self.stop is None:
            self.interrupt_now("")

    # -- between requests ----------------------------------------------------------------------

    @property
    def watched(self) -> list[int]:
        """Descriptors that say that something has come between requests."""
        if self.closed:
            return []
        streams = [self.pipes.stdout, self.pipes.stderr]
        return streams if self.child is None or self._cut else [*streams, self._socket]

    def attend(self) -> None:
        """Take in what has come since the last request: output, and threads that ask for code."""
        if self.closed or self.busy:
            return
        self.drain()
        if self.child is not None:
            with contextlib.suppress(ConnectionError):
                self._take(self.child, self._poll.poll(0))
            self._answer_requests()  # a cell that closed the socket cannot send the message

    # -- streams -------------------------------------------------------------------------------

    def drain(self) -> None:
        """Hand on what has been written by now."""
        if not self.closed:
            for fd in (self.pipes.stdout, self.pipes.stderr):
                left = waiting(fd)  # somebody may write as fast as we read
                while left > 0 and (size := self._read(fd)):
                    left -= size

    def _read(self, fd: int) -> int:
        """Hand on one piece of output; its size."""
        try:
            data = os.read(fd, _PIECE)
        except BlockingIOError:
            return 0
        name = "stderr"
        if fd == self.pipes.stdout:
            name = "stdout"
            self._line = (self._line + data[-1000:]).rpartition(b"\n")[2][-1000:]
        if self._user.on_output is not None and self.failure is None:
            try:
                self._user.on_output(name, data)
            except BaseException as error:
                self._fail(error)
        return len(data)

    def _serve_input(self, child: Spawned) -> None:
        """The program waits for a line: get one, or stop it."""
        self.drain()
        line, asked, ended = None, time.monotonic(), False
        try:
            if self._user.on_input is not None:
                line = self._user.on_input(self._line.decode("utf-8", "replace"))
        except EOFError:
            ended = True
        except BaseException as error:
            self._fail(error)
            return
        self._began += time.monotonic() - asked  # the user's time is not the cell's
        self._fed, self._line = True, b""
        if ended and self.pipes.end_input():
            return
        if line is None:
            self.interrupt_now("stdin")
            return
        data = line.encode("utf-8", "surrogateescape") + b"\n"
        while data and self.stop is None and not child.ended():
            try:
                data = data[os.write(self.pipes.stdin, data) :]
            except BlockingIOError:
                # More than a pipe holds: the reader needs time, and may do anything meanwhile.
                if self._take(child, self._poll.poll(1)) or self._answered() or self._over_limit():
                    return
                self._answer_requests()
