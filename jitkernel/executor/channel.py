"""One request after another to the executor's process, its streams served meanwhile.

A single loop in the caller's thread waits for the answer, hands on output, asks for input and
stops what is to be stopped; there are no threads here.  What requests mean is not known here
(process.py), nor how a process starts (spawn.py).  Start from `ExecutorChannel._request`.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jitkernel import procfs
from jitkernel.arena.writes import PageTable
from jitkernel.errors import JitError, UsageError
from jitkernel.executor import abi
from jitkernel.executor.dirty_pages import Tracking
from jitkernel.executor.doorbell import Doorbell
from jitkernel.executor.executor import Executor
from jitkernel.executor.interrupt import Check, Interruption
from jitkernel.executor.jobs import Jobs
from jitkernel.executor.peek import addresses, unblock_faults
from jitkernel.executor.replies import Replies, ThreadRequests
from jitkernel.executor.spawn import Pipes, Spawned, waiting
from jitkernel.executor.stops import Stops
from jitkernel.settings import SessionSettings

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
_PIECE = 1 << 16  # bytes read at once; as much as a pipe holds
_END = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_FIRST_LOOK, _LOOK = 0.02, 0.03  # seconds until a call counts as long, and between looks at it
STOPPED = "stopped"
_START = 20.0  # seconds for a process to say hello


class ExecutorChannel(Executor):
    """An executor as a socket and the program's streams, through changing processes.

    `_stop` is the interruption in progress, `_failure` what a callback raised during this request.
    """

    stops: Stops
    busy = False
    serving = False  # somebody waits for a request: what runs is a callback

    def __init__(self, arena: Any, entry: Mapping[str, int], settings: SessionSettings):
        super().__init__(arena, entry, settings)
        self._requests, self._bell = ThreadRequests(self, self.control), Doorbell(self.control)
        self._pipes, self._tracking = Pipes(), Tracking()
        self._child: Spawned | None = None
        self._pending = False  # a request was sent, and its answer not waited for to the end
        self._stop: Interruption | None = None
        self._failure: BaseException | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._jobs = Jobs(self._ring)
        # Whether the present request is to be stopped, once that is decided: by what comes first,
        # `interrupt` or the request's end.  (`dict.setdefault` is atomic.)
        self._decided: dict[str, bool] = {}
        self._replies = Replies(self.control, self._bell)
        self.stops = Stops(
            self.control,
            lambda: self._replies.seq if self.serving else 0,
            lambda: self._interrupt_now(""),
        )
        self._began, self._due, self._looks = 0.0, 0.0, 0
        self._fed = False  # input was written that may be unread
        self._line = b""  # what stands on the last line of stdout

    # -- its partners --------------------------------------------------------------------------

    def _attach(self, child: Spawned) -> None:
        """Talk to this process from now on."""
        self._child = self.stops.child = child
        self._cut = False
        self._poll = select.poll()
        # The socket first: when its answer is seen, output written before it is seen too.
        self._socket = child.socket.fileno()
        self._poll.register(self._socket, select.POLLIN | select.POLLRDHUP)
        for fd in (self._pipes.stdout, self._pipes.stderr, self._wake, child.pidfd):
            self._poll.register(fd, select.POLLIN)

    def _detach(self, patience: float = 0.0) -> int:
        """End the process, waiting `patience` seconds for it to do so itself; its exit status."""
        child, self._child = self._child, None
        self.stops.child = None
        self.stops.forget()
        return child.end(patience) if child else 0

    def _reset(self, stack_size: int) -> None:
        super()._reset(stack_size)
        self.stops.reset()

    def close(self) -> None:
        """End the process and all that it started."""
        self._detach()
        if self._wake >= 0:
            self._hand_on()
            self._pipes.close()
            self._tracking.close()
            os.close(self._wake)
            self._wake = -1

    def taken(self) -> Collection[int]:
        child, text = self._child, range(self.control["text_start"], self.control["text_stop"])
        if child is None or not child.threads:
            return ()
        try:
            return addresses(child.pid, child.program_threads() - {child.pid}, text)
        except UsageError:
            return text

    def page_table(self) -> PageTable | None:
        if self.busy or self.threads:
            return None  # what the system writes for a thread by and by it notes when it begins
        return self._tracking.table(self.pid, self.control["fork_pages"])

    @property
    def _closed(self) -> bool:
        return self._wake < 0

    # -- requests ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin a request; requests to stop the last one do not concern it."""
        self._stop, self._decided = None, {}
        self.busy = True

    def _end(self) -> BaseException | None:
        """End a request; what a callback raised meanwhile."""
        failure, self._failure = self._failure, None
        self.busy, self._stop = False, None
        return failure

    def _begin_call(self) -> None:
        """Begin a call; nor does input that the last one left unread."""
        if self._fed:
            self._pipes.reopen_input()
            self._pipes.drop_input()
            self._fed = False
        self._line = b""
        if self.control["ask_lock"]:
            self._requests.forget()
        if self.stops.active:
            self.stops.begin()
        self._begin()

    def _request(
        self, child: Spawned, message: bytes, check: Check | None = None
    ) -> tuple[int, ...] | None:
        """Send a request and serve the streams until its answer: (op, seq, ...).

        None: the process has ended or has to, or the `check` that was asked for has failed.
        """
        self._replies.expect(message)
        self._pending = True
        try:
            if not (self._replies.asked == abi.CALL and self._bell.ring(message)):
                self._bell.disturb()
                child.socket.send(message)
        except OSError:
            if not child.ready:
                self._take(child, self._poll.poll(0))  # it may have said why it ended
            self._pending = False
            return None
        return self._wait(child, check)

    def _wait(self, child: Spawned, check: Check | None = None) -> tuple[int, ...] | None:
        """Serve the streams until the request that was sent is answered; see `_request`."""
        self.serving, served = True, False
        self._jobs.taker = threading.get_ident()
        try:
            answer = self._serve(child, check)
            served = True
        finally:
            self._jobs.taker = 0
            if self._jobs.waiting:
                self._jobs.close(cancelled=not served)
            self.serving = False
        self._pending = False
        self._bell.ended()
        return answer

    def _serve(self, child: Spawned, check: Check | None) -> tuple[int, ...] | None:
        self._began = time.monotonic()
        self._due, self._looks = self._began + _FIRST_LOOK, 0
        self.stops.stood = 0.0
        wait, watched = int(1000 * _FIRST_LOOK), False
        while True:
            try:
                if self._child is not child:
                    raise JitError("the executor was closed while it ran a call")
                if self._bell.rung and not watched:
                    watched = True
                    self._bell.watch()
                answer = self._replies.answer()
                if answer is not None and not (self.stops.active and self._stands()):
                    if self._bell.rung == self._replies.seq:  # nobody has said what else there is
                        self._take(child, self._poll.poll(0))
                    return answer
                if self._take(child, self._poll.poll(wait)) and not self._answered():
                    self._hand_on()
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
                self._hand_on()
                return None
            except OSError:
                if self._child is child:
                    raise  # else a callback, or another thread, has closed what was waited on
            except KeyboardInterrupt:
                if self._stop is None:
                    self._interrupt_now("")

    def _answer(self) -> tuple[int, ...] | None:
        """The answer to the present request, once it is here and no thread stands."""
        answer = self._replies.answer()
        if answer is not None and self.stops.active and self._stands():
            return None
        return answer

    def _answered(self) -> bool:
        return self._answer() is not None

    def _take(self, child: Spawned, events: Sequence[tuple[int, int]]) -> bool:
        """Take in what has come; True when the process has ended."""
        ended = False
        for fd, event in events:
            if fd == self._socket:
                if head := self._replies.receive(child.socket):
                    if head[0] != self._replies.asked:
                        self._handle(child, head)
                elif event & _END:
                    # The cell closed it, or the process is about to end: its descriptor tells.
                    self._poll.unregister(fd)
                    self._cut = True
            elif fd == self._wake:
                os.eventfd_read(fd)
                self._jobs.run()
                if self._decided.get(STOPPED) and self._stop is None:
                    self._interrupt_now("")
            elif fd == child.pidfd:
                self.stops.forget()
                ended = True
            elif self._read(fd) == _PIECE and self._answered():
                self._hand_on()  # what was written before the answer comes before it
        return ended

    def _handle(self, child: Spawned, head: tuple[int, ...]) -> None:
        """Handle a message that is no answer: a thread has stopped, called hibernated code or
        Python, or a greeting."""
        if head[0] == abi.STOP:
            self._stands()
        elif head[0] in (abi.WAKE, abi.ASK):
            self._answer_requests()
        elif head[0] == abi.HELLO and not child.ready:
            self._greet(child, failed=head[3] != 0)

    def serve_until(self, done: Callable[[], bool]) -> str:
        child, began, due = self._child, time.monotonic(), 0.0
        try:
            while child is not None and self._child is child:
                try:
                    if done():
                        return ""
                    if self._stop is not None:
                        return "the cell is being ended"
                    if self._replies.answer() is not None and not self.stops.asking:
                        return "the cell has gone on without it, as behind a longjmp, and has ended"
                    events = self._poll.poll(int(1000 * _LOOK))
                    if any(fd == self._wake for fd, _ in events):
                        os.eventfd_read(self._wake)
                        if self._decided.pop(STOPPED, False):
                            self.stops.pause()
                    if self._take(child, [e for e in events if e[0] != self._wake]):
                        break
                    if (now := time.monotonic()) >= due and not done():
                        due = now + _LOOK
                        self._answer_requests()
                        self._stands()
                        self.stops.press_on()
                except KeyboardInterrupt:
                    self.stops.pause()
            return "the process has ended"
        finally:
            self.stops.stood += time.monotonic() - began
            if self._jobs.waiting:
                self._ring()

    def _stands(self) -> bool:
        """Take note of a thread that has stopped for a debugger; True while one stands."""
        try:
            if self.stops.asking:
                self._hand_on()  # what was written before it stopped comes before that
            self.stops.serve(ending=self._stop is not None or not self.busy)
        except BaseException as error:
            self._fail(error)
        return self.stops.standing is not None

    def _answer_requests(self) -> None:
        """Bring back the code that a thread waits for; what stops the cell has to wait for it.  Run
        the function of Python's that one waits for."""
        try:
            self._requests.bring_code()
            if self._stop is None:
                self._requests.run_function()
        except BaseException as error:
            self._fail(error)

    def _greet(self, child: Spawned, failed: bool) -> None:
        """The process says that it is ready, or why it never will be."""
        if failed:
            self._detach(0.5)
            words = self._replies.payload().decode("utf-8", "replace")
            raise JitError(f"the executor cannot start: {words}")
        child.greet()
        self._began = time.monotonic()  # nor is the time that its process takes to start
        self.services.remember()

    def _monitor(self, child: Spawned, now: float, check: Check | None) -> bool:
        """Every 30 ms of a long request: what does it wait for?  False to give it up."""
        self._looks += 1
        if not child.ready:
            self._due = now + _LOOK
            return now - self._began < _START
        self._answer_requests()  # a cell that closed the socket cannot send the message
        if self.stops.active:
            if self._stands():  # it has all the time of its user
                return not ((self._cut or self._looks % 8 == 0) and child.ended())
            self.stops.press_on()
        if check is not None:
            return not check.failed()
        if self.on_wait is not None and self._failure is None:
            try:
                self.on_wait(now - self._began - self.stops.stood)
            except BaseException as error:
                self._fail(error)
        if self._stop is not None:
            alive = self._stop.step(now)
            self._due = self._stop.due
            return alive
        if self._over_limit():
            self._interrupt_now("timeout")
            return True
        if (self._cut or self._looks % 32 == 0) and child.ended():
            return False
        if not self._pipes.unread():
            if procfs.waits_for_input(procfs.family(child.pid), self._pipes.stdin_name):
                self._serve_input(child)
        return True

    def _over_limit(self) -> bool:
        """True if the request has taken longer than it may."""
        limit = self.settings.cell_timeout
        return limit > 0 and time.monotonic() - self._began - self.stops.stood >= limit

    # -- stopping ------------------------------------------------------------------------------

    def interrupt(self) -> bool:
        if not self.busy or not self._decided.setdefault(STOPPED, True):
            return False
        return self._ring()  # though the call may have ended by now: it ends as interrupted

    def _ring(self) -> bool:
        """Wake the loop; False where the executor was closed meanwhile."""
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:
            return False
        return True

    def post(self, job: Callable[[], T]) -> Future[T] | None:
        return self._jobs.post(job)

    def _interrupt_now(self, cause: str) -> None:
        """Begin to stop the request, in the loop's own thread."""
        if self._child is None:
            return
        if self._child.ready and self._child.threads:
            unblock_faults(self._child.pid, self.control["lifeline_tid"])
        now = time.monotonic()
        grace = self.settings.interrupt_grace
        self._stop = Interruption(
            self._child.pid, self._replies.seq, self.control, grace, cause, now
        )
        self.stops.end()
        if self._child.ready:  # before that, a signal would end it
            self._stop.step(now)
        self._due = self._stop.due

    def _fail(self, error: BaseException) -> None:
        """A callback raised: remember that, and stop the cell.  A KeyboardInterrupt only stops."""
        if not self.busy:
            raise error
        if not isinstance(error, KeyboardInterrupt):
            self._failure = self._failure or error
        if self._stop is None:
            self._interrupt_now("")

    # -- between requests ----------------------------------------------------------------------

    def fds(self) -> list[int]:
        if self._closed:
            return []
        streams = [self._pipes.stdout, self._pipes.stderr]
        return streams if self._child is None or self._cut else [*streams, self._socket]

    def drain(self) -> None:
        if self._closed or self.busy:
            return
        self._hand_on()
        if self._child is not None:
            with contextlib.suppress(ConnectionError):
                self._take(self._child, self._poll.poll(0))
            self._answer_requests()  # a cell that closed the socket cannot send the message
            if self.stops.active:
                self._stands()

    # -- streams -------------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """Hand on what has been written by now."""
        if not self._closed:
            for fd in (self._pipes.stdout, self._pipes.stderr):
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
        if fd == self._pipes.stdout:
            name = "stdout"
            self._line = (self._line + data[-1000:]).rpartition(b"\n")[2][-1000:]
        if self.on_output is not None and self._failure is None:
            try:
                self.on_output(name, data)
            except BaseException as error:
                self._fail(error)
        return len(data)

    def _serve_input(self, child: Spawned) -> None:
        """The program waits for a line: get one, or stop it."""
        self._hand_on()
        line, asked, ended = None, time.monotonic(), False
        try:
            if self.on_input is not None:
                line = self.on_input(self._line.decode("utf-8", "replace"))
        except EOFError:
            ended = True
        except BaseException as error:
            self._fail(error)
            return
        self._began += time.monotonic() - asked  # the user's time is not the cell's
        self._fed, self._line = True, b""
        if ended and self._pipes.end_input():
            return
        if line is None:
            self._interrupt_now("stdin")
            return
        data = line.encode("utf-8", "surrogateescape") + b"\n"
        while data and self._stop is None and not child.ended():
            try:
                data = data[os.write(self._pipes.stdin, data) :]
            except BlockingIOError:
                # More than a pipe holds: the reader needs time, and may do anything meanwhile.
                if self._take(child, self._poll.poll(1)) or self._answered() or self._over_limit():
                    return
                self._answer_requests()
