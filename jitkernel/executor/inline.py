"""The executor that is no process of its own: code runs in the process that asks.

The slab is mapped a second time (own_map.py), a call is a function call (native/inline.ll), and
code that is not in memory is brought back by a function that the runtime calls.  No signal has a
handler of ours, no stream is redirected: what a fault, an endless loop or a closed stream does, it
does to this process, as with ctypes.  Start from `InlineExecutor`.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from jitkernel import procfs
from jitkernel.errors import JitError, UsageError
from jitkernel.executor import abi, child
from jitkernel.executor.executor import Executor
from jitkernel.executor.exit_report import record_of
from jitkernel.executor.looks import looked_at
from jitkernel.executor.own_threads import OwnThreads
from jitkernel.executor.records import FaultRecord, Outcome
from jitkernel.executor.replies import HEAD, undisturbed
from jitkernel.executor.turn import Turn
from jitkernel.settings import SessionSettings

if TYPE_CHECKING:
    from jitkernel.executor.own_map import OwnMap

#: What a user does who wants what only a process of its own can do.
_REMEDY = 'Session(executor="process") runs code in a process of its own'
_STALE = (
    "an emulator runs this process, and goes on with what code was before it changed; "
    'Session(executor="process") may be told of changes'
)
_TELL, _ASK = 1, 2  # what the runtime calls for, else for code
_STACK = 8 << 20  # bytes of stack that a record may be of
_WAIT = 0.005  # seconds between looks at whether a session can be asked for code
_HANDLER = ctypes.c_uint64 * 19  # struct sigaction of glibc: 152 bytes, the handler first

_alive: WeakSet[InlineExecutor] = WeakSet()


class InlineExecutor(Executor):
    """Runs session code on the thread that asks.

    `lock` is held by whoever uses the session; a thread that has called hibernated code waits for
    it, or for another thread to be in session code, where it can do no harm.  `enter` runs the
    request that is in the frame; `turn` says who may change the program while calls are in
    progress; `functions` are objects of ctypes that call code of the program, until `close`.

    The session tells: `lend` gives another thread what the caller's has of it, `name_of` says what
    a stub stands for, `changing` whether the program is being changed.
    """

    lend: Callable[[int], contextlib.AbstractContextManager[object]]
    name_of: Callable[[int], str]
    changing: Callable[[], bool]

    can_park = False
    unseen = f"nobody looks at code that runs in this process; {_REMEDY}"
    unstopped = f"no debugger stops code that runs in this process; {_REMEDY}"

    def __init__(
        self,
        arena: Any,
        entry: Mapping[str, int],
        place: OwnMap,
        lock: Any,
        settings: SessionSettings,
    ):
        super().__init__(arena, entry, settings)
        self._place, self._lock, self.turn = place, lock, Turn()
        self._pid = 0
        self._closed = False
        self._failure: BaseException | None = None  # of the upcall
        self._numbers = count(1)
        self._loader = child.Loader()
        self.own_threads = OwnThreads()
        self._mask: set[Any] | None = None  # of signals, before `park`
        self.view = self.control.view
        self.frame = self.control.start + abi.FRAME_AT  # index of the request in the view
        self.arguments = self.control.address + abi.FRAME_AT + HEAD.size
        # Memory that a forked child has a copy of: it returns through the same thunk.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.result = mmap.mmap(-1, abi.BUFFER_SIZE, flags=flags)
        self.result_address = ctypes.addressof(ctypes.c_char.from_buffer(self.result))
        self.functions: WeakValueDictionary[int, Any] = WeakValueDictionary()

    # -- its life ------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def process(self) -> int:
        return 0

    @property
    def alive(self) -> bool:
        return self._pid != 0 and not self._closed

    def start(self) -> None:
        if self._closed:
            raise JitError("the executor is closed")
        if self._pid:
            return
        try:
            self._place.show(self._arena, self._arena.regions)
        except OSError as error:
            raise JitError(f"the slab cannot be mapped in this process: {error}") from None
        self._refuse_stale()
        self._loader.open([])
        self._reset(_STACK)
        child.tell_runtime(self.control.__setitem__, abi.FIELDS, self._native)
        self._upcall = self._called  # the runtime has its address
        self.control["upcall"] = id(self._upcall)
        self.enter = self._native("jk_here")
        self._known = child.KnownCode(self.control["runtime_start"], self.control["text_stop"])
        self._pid = os.getpid()
        self.services.remember()
        self.own_threads.look()
        _alive.add(self)

    def _refuse_stale(self) -> None:
        """Raise UsageError where code that has changed would run as it was."""
        from jitkernel.linker import x86_64  # a session's start does without

        extent, word = self._arena.reserve("text", len(x86_64.answer(0))), ctypes.c_uint32()
        thunk = ctypes.CFUNCTYPE(None, *3 * [ctypes.c_void_p])(extent.start)
        try:
            for number in (1, 2):
                self._arena.write(extent.start, x86_64.answer(number))
                thunk(None, None, ctypes.addressof(word))
                if word.value != number:
                    raise UsageError(_STALE)
        finally:
            self._arena.free(extent)

    def _native(self, name: str) -> Callable[[], int]:
        return ctypes.CFUNCTYPE(ctypes.c_long)(self._entry[name])

    def respawn(self) -> None:
        raise UsageError(f"code runs in this process, which nobody can replace; {_REMEDY}")

    def close(self) -> None:
        """Take the code away, but where threads of the program are, which may run it."""
        if self._closed:
            return
        self._closed = True
        _alive.discard(self)
        if not self._pid:
            self._place.close()
            return
        why = "this session is closed"
        self.enter = _refusing(why)
        for function in list(self.functions.values()):
            function.refuse(why)
        if not self.threads and not self.turn.depth:
            self._known.take_back()
            self._place.close()

    def forked(self) -> None:
        """This process is a child of the one whose session it is."""
        self.enter = _refusing(_CHILD)
        if self._pid:
            self._known.hide()  # the parent goes on to change what is shared
        self._pid = -1

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, thunk: int, fn: int, args: int, ret: int, ret_size: int) -> Outcome:
        self.start()
        self.own_threads.look()
        seq = next(self._numbers)
        HEAD.pack_into(self.view, self.frame, abi.CALL, seq, thunk, fn, args, ret, ret_size, 0)
        if self.turn.depth and not self.turn.is_callers:
            raise JitError("the executor is running another call")
        if self.on_wait is None or self.turn.depth:
            stopped = self.run()
        else:
            with looked_at(self._look, self.lend):
                stopped = self.run()
        self.own_threads.look()
        if stopped:
            return self.outcome(seq)
        if self.stopping():
            record = FaultRecord()
            return Outcome("interrupted", record=record, done=self.control["progress"])
        return Outcome("ok", self.result[:ret_size])

    def run(self) -> int:
        """Run the request that is in the frame: 0 where the call returned."""
        try:
            return self.turn.call(self.enter)
        finally:
            self.own_threads.called = True

    def _look(self, seconds: float) -> None:
        with self.turn.taken():
            if self.on_wait is not None and self.turn.depth:
                self.on_wait(seconds)

    def outcome(self, seq: int) -> Outcome:
        """The outcome of the stopped call with this number.  Raises what the upcall raised."""
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:  # which its traceback leads to: no cycle keeps arguments
                del failure
        kind, record = record_of(self.control, seq, "", 0)
        return Outcome(kind, record=record, done=self.control["progress"])

    def interrupt(self) -> bool:
        """Nobody can stop native code in this process; what comes next does not run."""
        return self.turn.depth > 0

    def peek(self, thread: int = 0) -> FaultRecord:
        raise UsageError(self.unseen)

    def program_threads(self) -> frozenset[int]:
        raise UsageError(self.unseen)

    # -- code that is not in memory ------------------------------------------------------------

    def _called(self, which: int, kind: int, at: int, size: int) -> int:
        """The runtime calls, on any thread (native/inline.ll, `jk_up`): the address of the code
        behind a stub, 1 where a function of Python's has run; 0 where that failed."""
        try:
            if kind == _TELL:
                self._tell(which)
                return 0
            if kind == _ASK:
                with self.turn.taken() if self.turn.is_callers else contextlib.nullcontext():
                    answer = self.on_ask(which, ctypes.string_at(at, size))
                ctypes.memmove(at, answer, min(len(answer), size))
                return 1
            with undisturbed(), self._session():
                return self.on_wake(which, self.own_threads.alone)
        except BaseException as error:
            if kind == _ASK:
                ctypes.memset(at, 0, size)
            if self.turn.is_callers:
                self._failure = self._failure or error
            else:
                print(f"jitkernel: {error}", file=sys.stderr, flush=True)
            return 0

    @contextlib.contextmanager
    def _session(self) -> Iterator[None]:
        """While it lasts, nobody else changes the program."""
        if self._pid != os.getpid():
            raise UsageError(_CHILD)
        if self.turn.is_callers:
            with self.turn.taken():
                yield
            return
        while True:
            with self.turn.taken():
                if self.turn.depth:  # who has the session is in native code, and may wait for us
                    yield
                    return
            if self._lock.acquire(timeout=_WAIT):
                break
        try:
            if self.changing():
                raise UsageError("code that is not in memory was called while the program changes")
            yield
        finally:
            self._lock.release()

    def _tell(self, stub: int) -> None:
        """The process is about to end: a symbol that nobody defines was called, and no session's
        call is there that could raise."""
        name = self.name_of(stub)
        print(
            f"jitkernel: {name or hex(stub)} was called past the session, and nobody defines it; "
            "the process ends",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    # -- what it does --------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self.turn.depth > 0

    @property
    def serving(self) -> bool:
        return self.turn.depth > 0

    @property
    def threads(self) -> int:
        """Threads of this process that have come while code of the program ran, and are not
        Python's."""
        self.own_threads.called |= bool(self.functions) or self.turn.depth > 0
        return self.own_threads.look()

    @property
    def handles_signals(self) -> bool:
        signals = procfs.handled(self._pid)
        return any(signals >> n - 1 & 1 and self._handler(n) in self._arena for n in range(1, 65))

    def _handler(self, number: int) -> int:
        now = _HANDLER()
        child.libc.sigaction(number, None, now)
        return int(now[0])

    def park(self, threads: bool = True) -> None:
        """Hold signals back on this thread."""
        if self._mask is None:
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def unpark(self) -> None:
        if self._mask is not None:
            mask, self._mask = self._mask, None
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _answer_of(
        self, name: str, *arguments: Any, fits: Callable[[bytes], bool] = lambda payload: True
    ) -> bytes:
        self.start()
        if name in ("map", "unmap"):
            return b""  # an array of this process is where the program sees it
        try:
            return getattr(self._loader, name)(*arguments) or b""
        except ValueError as error:
            raise OSError(str(error)) from None

    def tell_unwind(self, unwind: tuple[int, int]) -> None:
        """At once: other libraries of this process throw when they like, and what calls code past
        the session does."""
        self.unwind = unwind
        if self.alive and unwind[0]:
            self._known.show(*unwind)

    def hide_code(self) -> None:
        if self.alive:
            self._known.hide()
            self.unwind = (0, 0)


_CHILD = (
    "this session is of the process that was forked: make one in the child, or use "
    "multiprocessing's start method spawn"
)


def _refusing(why: str) -> Callable[[], int]:
    """The function that is called in place of the runtime from now on."""

    def refuse() -> int:
        raise UsageError(why)

    return refuse


def _forked() -> None:
    for executor in list(_alive):
        executor.forked()


os.register_at_fork(after_in_child=_forked)
