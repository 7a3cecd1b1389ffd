"""What a session asks of whatever runs its code.  Start from `Executor`.

There are two: a process of its own (process.py), and the process that asks (inline.py).  They
share what lies in the slab: the control block, arguments, results, the fault record.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jitkernel.arena.writes import PageTable
from jitkernel.errors import JitError
from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.records import FaultRecord, Outcome
from jitkernel.executor.services import Services
from jitkernel.executor.stops import Stops
from jitkernel.settings import SessionSettings

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
_PAIR = struct.Struct("<2Q")
#: Regions whose places are control words, and what these begin with.
_ZONES = {"text": "text", "data": "data", "runtime.text": "runtime"}


class Executor(ABC):
    """Runs session code; at most one call at a time, from one thread.

    `entry` has the addresses of the runtime's symbols (`runtime_ir`, linked into the arena).
    `generation` counts the processes that there have been; `services` looks up symbols, loads
    libraries, and what else is rare.

    Whom it tells and asks while it runs, and its settings, may be replaced:
    `settings` are the session's; some hold from the next call on, some from the next start.
    `on_output(name, data)` gets what the program writes to "stdout" and "stderr", while it runs.
    `on_input(prompt)` is asked for a line when it reads, and may answer None: not available;
    EOFError is the end of the input, until the next call.
    `on_wait(seconds)` is told how long a request has taken, some thirty times a second; not for
    those that take less than 20 ms.
    `on_wake(stub, alone)` says where a call of `jk_wake` from a stub goes on, 0 for nowhere;
    `alone`: no other thread can be in session code.
    `on_ask(number, frame)` runs a function of Python's for `jk_ask`: it gets the bytes of arguments
    and result, and gives them back with the result.
    `on_respawn()` is called before a call that found the process dead goes on in another one.
    `stopping()` is asked when a call has begun: whether it was interrupted before that.
    """

    can_park = True  # threads of the program, while its code is written
    unseen = ""  # why nobody can `peek`, where that is so
    unstopped = ""  # why no debugger can stop threads, where that is so
    stops: Stops | None = None  # what it stops where it can
    on_output: Callable[[str, bytes], object] | None = None
    on_input: Callable[[str], str | None] | None = None
    on_wait: Callable[[float], object] | None = None
    on_wake: Callable[[int, bool], int] = staticmethod(lambda stub, alone: 0)
    on_ask: Callable[[int, bytes], bytes] = staticmethod(lambda number, frame: bytes(len(frame)))
    on_respawn: Callable[[], None] | None = None
    stopping: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(self, arena: Any, entry: Mapping[str, int], settings: SessionSettings):
        self.settings, self.generation = settings, 0
        self.services = Services(self._answer_of, self, settings.env, settings.cwd)
        self._arena, self._entry = arena, dict(entry)
        start = next(r.start for r in arena.regions if r.name == "runtime.data")
        self.control = ControlBlock(arena.view, start - arena.base, start)
        self.result_address = start + abi.RESULT_AT  # where thunks leave results
        #: Address and flags of the unwinder's table of functions, 0 while there is none.
        self.unwind = (0, 0)

    # -- its life ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process's id, which is started by then; 0 while there is none any more."""

    @property
    def process(self) -> int:
        """The same where the process is its own, else 0."""
        return self.pid

    @property
    @abstractmethod
    def alive(self) -> bool:
        """True if the process is there; False once it ended, until the next call or respawn."""

    @abstractmethod
    def start(self) -> None:
        """Start it without waiting for it; nothing where it runs already."""

    @abstractmethod
    def respawn(self) -> None:
        """Replace the process by a new one at the same addresses.

        Raises JitError where it runs a call, and a callback of that asks for it.
        """

    @abstractmethod
    def close(self) -> None:
        """End it for good."""

    def _reset(self, stack_size: int) -> None:
        """Set the control block as it is before the first call in a process."""
        control, arena = self.control, self._arena
        control.write(0, bytes(8 * len(abi.FIELDS)))
        for region in arena.regions:
            if (zone := _ZONES.get(region.name)) is not None:
                control[f"{zone}_start"], control[f"{zone}_stop"] = region.start, region.stop
        control["data_offset"] = control["data_start"] - arena.base
        control["stack_size"] = stack_size
        self.tell_unwind(self.unwind)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, thunk: int, fn: int, args: bytes = b"", ret_size: int = 0) -> Outcome:
        """Run `thunk(fn, args, ret)` until it is done; the first `ret_size` bytes of ret.

        Raises `JitError` where the executor cannot be started, and whatever `on_output` or
        `on_input` raised, after the call was stopped.
        """
        if len(args) > abi.BUFFER_SIZE or ret_size > abi.BUFFER_SIZE:
            raise JitError(f"arguments and results are limited to {abi.BUFFER_SIZE} bytes")
        if args:
            self.control.write(abi.ARGS_AT, args)
        args_at = self.control.address + abi.ARGS_AT
        return self._call(thunk, fn, args_at, self.result_address, ret_size)

    def call_many(self, addresses: Sequence[int]) -> Outcome:
        """Call functions `void()` in order, until one is stopped; `done` says how many finished."""
        done, outcome = 0, Outcome("ok")
        room = abi.LIST_SIZE // 8
        list_at = self.control.address + abi.LIST_AT
        for first in range(0, len(addresses), room):
            part = addresses[first : first + room]
            self.control.write(abi.LIST_AT, struct.pack(f"<{len(part)}Q", *part))
            outcome = self._call(self._entry["jk_each"], list_at, len(part), 0, 0)
            done += len(part) if outcome.kind == "ok" else min(outcome.done, len(part))
            if outcome.kind != "ok":
                break
        return outcome._replace(done=done)

    @abstractmethod
    def _call(self, thunk: int, fn: int, args: int, ret: int, ret_size: int) -> Outcome:
        """Run `thunk(fn, args, ret)`."""

    @abstractmethod
    def _answer_of(
        self, name: str, *arguments: Any, fits: Callable[[bytes], bool] = lambda payload: True
    ) -> bytes:
        """The answer of a method of child.py's `Loader` that `fits`.  Raises OSError."""

    def tell(self, name: str, *arguments: Any) -> None:
        """Have the present process do what a method of `Loader` does, before whatever it is asked
        from now on; nobody waits for that, or hears how it went."""
        self._answer_of(name, *arguments)

    def restore_order(self) -> str:
        """End a request whose caller left by an exception; what was lost by that, in words."""
        return ""

    @abstractmethod
    def interrupt(self) -> bool:
        """Stop the call in progress; False where there is none.

        May be called from any thread and from a signal handler; returns at once.
        """

    @property
    def stack_top(self) -> int:
        """The place where the stack of the call in progress begins; 0 where that is not known."""
        return 0

    def post(self, job: Callable[[], T]) -> Future[T] | None:
        """Have the thread that waits for the request in progress do a job, while the program runs
        or stands: its result, or what it raised.  None where no request is in progress: whoever
        has the session's lock does it then.

        May be called from any thread.  What is posted as the request ends is done before its
        caller goes on.
        """
        return None

    @abstractmethod
    def peek(self, thread: int = 0) -> FaultRecord:
        """The registers and stack of the cell that runs, now; for `on_wait`; or of one of
        `program_threads`.  Raises UsageError."""

    @abstractmethod
    def program_threads(self) -> frozenset[int]:
        """The numbers of the threads that the program has running of its own.  Raises UsageError
        where nobody can tell."""

    # -- what it does --------------------------------------------------------------------------

    def serve_until(self, done: Callable[[], bool]) -> str:
        """Serve what runs, called by a callback: until `done`, which a stop makes true, or "", or
        until that cannot come any more: why.  An interrupt pauses what runs, and ends nothing."""
        raise JitError("nothing of this program is stopped")

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True if it runs a call, or does what it was asked."""

    @property
    @abstractmethod
    def serving(self) -> bool:
        """True if somebody waits for a request to be answered, and what runs meanwhile is one of
        the callbacks."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """The number of threads that the program has running of its own."""

    @property
    def shared(self) -> bool:
        """True if others than the thread of the cell may run session code: threads of the program's
        own, or children that it has forked."""
        return self.threads > 0 or self.has_children

    @property
    def has_children(self) -> bool:
        """True if children that the program has forked may run."""
        return False

    @property
    def emulated(self) -> bool:
        """True if the program runs in an emulator, which keeps what it has made of code: it is told
        of changes before each call."""
        return False

    @property
    @abstractmethod
    def handles_signals(self) -> bool:
        """True if the program may have handlers of its own for signals."""

    def taken(self) -> Collection[int]:
        """The addresses of session code where threads of the program's own go on that are parked,
        or to which they return, and perhaps others: all, where nobody can tell."""
        return ()

    def page_table(self) -> PageTable | None:
        """The page table that tells what the program wrote in the arena; None where none can."""
        return None

    @abstractmethod
    def park(self, threads: bool = True) -> None:
        """Hold the program's signals back; stop its own threads, where it has some, at their next
        instruction of session code."""

    @abstractmethod
    def unpark(self) -> None:
        """Let signals and threads go on."""

    # -- streams and memory --------------------------------------------------------------------

    def fds(self) -> list[int]:
        """Descriptors to watch while idle: when one is readable, call `drain`, then ask again."""
        return []

    def drain(self) -> None:  # noqa: B027  # mostly there is nothing
        """Hand on what the program's threads and children have written by now, and serve those that
        have called code which is not in memory."""

    def tell_unwind(self, unwind: tuple[int, int]) -> None:
        """The unwinder finds functions by this table, from the next call on, and when threads go on
        that were parked."""
        self.unwind = unwind
        at = self.control.start + abi.FIELDS["unwind_table"]  # with the flags behind it
        _PAIR.pack_into(self.control.view, at, *unwind)

    def hide_code(self) -> None:  # noqa: B027  # mostly nobody looks who does not run it
        """Records of the unwinder are about to go: it finds none until it is told again."""
