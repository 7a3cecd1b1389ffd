"""The executor as the kernel process sees it: start it, call thunks in it, outlive its end.

What the process does with a request is in child.py and native/; how requests and streams are
served is in channel.py.  Start from `ProcessExecutor._call`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from jitkernel import procfs
from jitkernel.arena.writes import PageTable
from jitkernel.errors import ArenaFull, Interrupted, JitError, present
from jitkernel.executor import abi
from jitkernel.executor.channel import ExecutorChannel
from jitkernel.executor.executor import Executor
from jitkernel.executor.exit_report import LOST, left_library
from jitkernel.executor.inbox import HEAD, new_number
from jitkernel.executor.interrupt import Check, Interruption
from jitkernel.executor.peek import lock_holder, peek, unblock_faults
from jitkernel.executor.records import ExecutorSettings, FaultRecord, Outcome
from jitkernel.executor.services import Services
from jitkernel.executor.spawn import Spawned, first_message
from jitkernel.executor.tracking import Tracking

__all__ = ["ProcessExecutor"]

#: What the runtime handles (native/enter.ll), and the C library for itself (nptl(7)).
_OUR_SIGNALS = abi.OUR_SIGNALS | abi.signal_set((32, 33))
_LEAST_STACK = 1 << 20  # bytes; child.py runs on the same stack
_STALE = (
    "this machine emulates an x86-64 processor, and goes on with what code was before it changed: "
    "cells could not be redefined, so none is run; a machine with that processor is needed"
)
_PAGE = 4096
_PATIENCE = 0.5  # seconds for a process that ends to end


class ProcessExecutor(Executor):
    """A process of its own, which code may end: the next one maps the same slab."""

    def __init__(
        self,
        arena: Any,
        entry: Mapping[str, int],
        settings: ExecutorSettings | None = None,
        on_output: Callable[[str, bytes], object] | None = None,
        on_input: Callable[[str], str | None] | None = None,
    ):
        super().__init__(arena, entry, settings, on_output, on_input)
        self.services = Services(self._ask, self._here, self.settings.env, self.settings.cwd)
        self._channel = ExecutorChannel(self, self.control, self.services.remember)
        self._tracking = Tracking()
        self._mark = os.urandom(8).hex()
        self._alone_after = 0  # how many forks had been when nothing lived of them any more
        self._born = False  # a process was started
        self._stale: bool | None = None  # whether code that has changed runs on; None: untried
        self._handled: bool | None = False  # the last `handles_signals`; None: it may have changed

    # -- its life ------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        child = self._channel.child
        return child.pid if child else 0

    @property
    def alive(self) -> bool:
        child = self._channel.child
        return child is not None and not child.ended()

    def start(self) -> None:
        if self._channel.closed:
            raise JitError("the executor is closed")
        if self._channel.child is not None:
            return
        for name in abi.FIELDS:
            self.control[name] = 0
        self._alone_after = 0
        self._tell_unwind()
        setup = first_message(
            self._arena, self._entry, self.control.address, self.services,
            self.settings.memory_limit,
        )  # fmt: skip
        channel, size = self._channel, max(self.settings.stack_size, _LEAST_STACK)
        env, cwd = self.services.env, self.services.cwd
        if self._born:
            self.generation += 1  # wherever it is that the last one was given up
            if not os.path.isdir(cwd):
                cwd = ""  # it was removed meanwhile
        self._born = True
        channel.attach(Spawned(channel.pipes, self._arena.fd, setup, self._mark, env, cwd, size))

    def respawn(self) -> None:
        if self.serving:
            raise JitError("the executor runs a call: stop that, and replace it afterwards")
        self._channel.detach()
        self.start()

    def close(self) -> None:
        """End the process and all that it started."""
        self._channel.detach()
        self._channel.close()
        self._tracking.close()

    def _running(self) -> Spawned:
        if self._channel.child is None:
            self.start()
        return present(self._channel.child, "the executor's process")

    def _here(self) -> tuple[int, int]:
        return self.generation, self.pid

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, thunk: int, fn: int, args: int, ret: int, ret_size: int) -> Outcome:
        channel = self._channel
        if channel.busy:
            raise JitError(
                "the executor is running another call: Python that the program calls, or that "
                'watches it, cannot call it (what it calls can in Session(executor="inline"))'
            )
        if self._stale is None and (stopped := self._try_changes()) is not None:
            return stopped
        asked, self._handled = False, None
        for attempt in range(3):
            seq = new_number()
            self._tell_ends()
            channel.begin_call()
            if asked or self.stopping():
                channel.interrupt()
            try:
                message = HEAD.pack(abi.CALL, seq, thunk, fn, args, ret, ret_size, 0)
                answer = channel.ask(self._running(), message)
                stop, channel.stop = channel.stop, None
                if answer is not None and not answer[2] and not answer[4]:
                    outcome = Outcome("ok", self._result(ret_size))
                else:
                    outcome = self._explain(answer, seq, ret_size, stop)
            finally:
                failure = channel.end()
            if failure is not None:
                raise failure
            if self.control["lock_owner"] and not outcome.respawned:
                outcome = outcome._replace(lock_holder=lock_holder(self.control, self.pid))
            asked = channel.stop_request.end() or stop is not None or self.stopping()
            if asked and outcome.kind == "ok":
                outcome = self._too_late(outcome, stop.cause if stop is not None else "")
            if outcome.started or self.on_respawn is None or attempt == 2:
                break
            self.on_respawn()
        return outcome

    def _tell_ends(self) -> None:
        """Tell the process how far there are data and, where that matters, code."""
        zones = self._arena.zones
        self.control["data_high"] = zones["data"].high + _PAGE - 1 & -_PAGE
        if self._stale:
            self.control["text_stale"] = zones["text"].high + _PAGE - 1 & -_PAGE

    def _try_changes(self) -> Outcome | None:
        """Find out whether the process runs code as it is after this process has changed it, as it
        runs it after an mprotect, or neither: an emulator keeps what it has translated.

        What came of it where the call that is to follow was stopped meanwhile.  Raises JitError for
        the last.
        """
        from jitkernel.linker import x86_64  # a session's start does without

        arena, known = self._arena, None
        try:
            extent = arena.reserve("text", len(x86_64.answer(0)))
        except ArenaFull:
            return None
        self._stale = False
        try:
            for number in (1, 2, 3):
                arena.write(extent.start, x86_64.answer(number))
                outcome = self._call(extent.start, 0, 0, self.result_address, 4)
                if outcome.kind == "interrupted":
                    return outcome
                if outcome.kind != "ok":  # its process has ended
                    if self.on_respawn is not None:
                        self.on_respawn()
                    return None
                if outcome.result == number.to_bytes(4, "little"):
                    known = self._stale if number > 1 else None
                elif self._stale:
                    raise JitError(_STALE)
                else:
                    self._stale = True
                if known is not None:
                    return None
            return None
        finally:
            self._stale = known
            arena.free(extent)

    def restore_order(self) -> str:
        channel = self._channel
        if not channel.busy and not channel.pending:
            return ""
        lost, child = "", channel.child
        if channel.pending and child is not None:
            channel.busy, channel.failure = True, JitError("nobody waits for this")
            if channel.stop is None:
                channel.interrupt_now("")
            answer = channel.wait(child)
            channel.stop = None
            if answer is None or answer[3] or not self._healthy():
                self.respawn()
                lost = LOST
        channel.end()
        channel.pending = False
        return lost

    def _too_late(self, outcome: Outcome, cause: str) -> Outcome:
        """A call that returned by itself after it was to be stopped: the signal made a library give
        up waiting.  It counts as interrupted, so that what comes next does not run."""
        record = FaultRecord(
            cause=cause, stdin_refused=cause == "stdin", generation=self.generation
        )
        return outcome._replace(kind="interrupted", record=record, done=self.control["progress"])

    def _explain(
        self,
        answer: tuple[int, ...] | None,
        seq: int,
        ret_size: int,
        stop: Interruption | None,
    ) -> Outcome:
        """Find the outcome of a call that did not simply return."""
        cause = stop.cause if stop else ""
        if answer is None:
            # The process is gone, or has to go.
            status = self._channel.detach(0.0 if stop else _PATIENCE)
            words = self._report.process_ended(
                status, seq, self._result(ret_size), cause, stop is not None, self.generation
            )
            self.start()
            return words
        if not answer[2]:
            lost = "the cell closed a standard stream; it was opened again"
            return Outcome("ok", self._result(ret_size), lost=lost)
        kind, record = self._report.record(seq, cause, self.generation)
        done = self.control["progress"]
        sick = bool(answer[3]) or record is None
        if record is not None and not sick:
            if left_library(record, self.services.code()):
                record = record._replace(library=True)
            # Code that was stopped may have written anywhere before, over the heap too.
            sick = not self._healthy(record.pc)
        if not sick:
            return Outcome(kind, record=record, done=done)
        self.respawn()
        return Outcome(kind, record=record, respawned=True, lost=LOST, done=done)

    def _healthy(self, address: int = 0) -> bool:
        """True if the library still works for the cell's thread and for a fresh one, and then
        Python, which is asked what is at an address."""
        child = self._running()
        for op, payload in ((abi.CHECK, b""), (abi.LOCATE, b"%x" % address)):
            message = HEAD.pack(op, new_number(), 0, 0, 0, 0, 0, 0) + payload
            check = Check(child.pid, lambda: self.control["fresh_tid"])
            answer = self._channel.ask(child, message, check)
            if answer is None or answer[3]:
                return False
        return True

    def peek(self) -> FaultRecord:
        return peek(self.pid, self.control["saved_rsp"], self.generation)

    def interrupt(self) -> bool:
        return self._channel.interrupt()

    # -- rare requests -------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._channel.busy

    @property
    def serving(self) -> bool:
        return self._channel.serving

    @property
    def threads(self) -> int:
        child = self._channel.child
        return child.threads if child else 0

    @property
    def has_children(self) -> bool:
        forks = self.control["forks"]
        if forks == self._alone_after:
            return False
        if self._running().has_descendants():
            return True
        self._alone_after = forks  # each of them, and theirs, has ended
        return False

    def page_table(self) -> PageTable | None:
        if self.busy or self.threads:
            return None  # what the system writes for a thread by and by it notes when it begins
        return self._tracking.table(self.pid, self.control["fork_pages"])

    @property
    def emulated(self) -> bool:
        return bool(self._stale)

    @property
    def handles_signals(self) -> bool:
        if self._handled is None:
            self._handled = bool(procfs.handled(self.pid) & ~_OUR_SIGNALS)
        return self._handled

    def park(self, threads: bool = True) -> None:
        if threads:
            unblock_faults(self.pid, self.control["lifeline_tid"])
        self._ask(abi.PARK, b"", argument=int(threads))

    def unpark(self) -> None:
        self._tell_ends()
        self._ask(abi.UNPARK, b"")

    def _ask(
        self,
        op: int,
        payload: bytes,
        fits: Callable[[bytes], bool] = lambda payload: True,
        argument: int = 0,
    ) -> bytes:
        """A rare request; one more attempt where the process turns out to be dead, or gives an
        answer that does not fit.  Raises OSError with the process's words, Interrupted, JitError,
        and what a callback raised meanwhile.
        """
        channel = self._channel
        if channel.busy:
            raise JitError("the executor is running a call")
        if op == abi.LIBRARY:
            self._handled = None
        for _ in range(2):
            channel.begin()
            try:
                head = HEAD.pack(op, new_number(), argument, 0, 0, 0, 0, 0)
                answer = channel.ask(self._running(), head + payload)
                stop = channel.stop
            finally:
                failure = channel.end()
            if answer is not None and (answer[3] or fits(channel.payload())):
                if failure is not None:
                    raise failure
                break
            channel.detach(0.0 if answer or stop else _PATIENCE)
            self.start()
            if failure is not None:
                raise failure
            if stop is not None:  # what a library does as it is loaded would be no shorter again
                raise Interrupted(f"interrupted; {LOST}")
        else:
            raise JitError("the executor ended twice, or gave no answer that makes sense")
        if answer[3]:
            raise OSError(channel.payload().decode("utf-8", "replace"))
        return channel.payload()

    # -- streams and memory --------------------------------------------------------------------

    def fds(self) -> list[int]:
        return self._channel.watched

    def drain(self) -> None:
        self._channel.attend()
