"""The executor as the kernel process sees it: start it, call thunks in it, outlive its end.

What the process does with a request is in child.py and native/; how requests and streams are
served is in channel.py.  Start from `ProcessExecutor._call`.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from collections.abc import Callable
from typing import Any

from jitkernel import procfs
from jitkernel.errors import ArenaFull, Interrupted, JitError
from jitkernel.executor import abi
from jitkernel.executor.channel import STOPPED, ExecutorChannel
from jitkernel.executor.exit_report import LOST, left_library, process_ended, record_of
from jitkernel.executor.interrupt import Check, Interruption
from jitkernel.executor.peek import lock_holder, peek, unblock_faults
from jitkernel.executor.records import FaultRecord, Outcome
from jitkernel.executor.replies import HEAD, new_number
from jitkernel.executor.spawn import Spawned

#: What the runtime handles (native/enter.ll), and the C library for itself (nptl(7)).
_OUR_SIGNALS = abi.OUR_SIGNALS | abi.signal_set((32, 33))
_LEAST_STACK = 1 << 20  # bytes; child.py runs on the same stack
_STALE = (
    "this machine emulates an x86-64 processor, and goes on with what code was before it changed: "
    "cells could not be redefined, so none is run; a machine with that processor is needed"
)
_PAGE = 4096
_PATIENCE = 0.5  # seconds for a process that ends to end


class ProcessExecutor(ExecutorChannel):
    """A process of its own, which code may end: the next one maps the same slab."""

    _alone_after = 0  # how many forks had been when nothing lived of them any more
    _born = False  # a process was started
    _stale: bool | None = None  # whether code that has changed runs on; None: untried
    _handled: bool | None = False  # the last `handles_signals`; None: it may have changed

    # -- its life ------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        if not (self._born or self._closed):
            self.start()
        return self._child.pid if self._child else 0

    @property
    def alive(self) -> bool:
        return self._child is not None and not self._child.ended()

    def start(self) -> None:
        if self._closed:
            raise JitError("the executor is closed")
        if self._child is not None:
            return
        size = max(self.settings.stack_size, _LEAST_STACK)
        self._reset(size)
        self._alone_after = 0
        arena, services, cwd = self._arena, self.services, self.services.cwd
        if self._born:
            self.generation += 1  # wherever it is that the last one was given up
            if not os.path.isdir(cwd):
                cwd = ""  # it was removed meanwhile
        self._born = True
        setup = {
            "base": arena.base,
            "regions": [(r.start, r.stop, r.prot) for r in arena.regions],
            "numbers": dict(abi.NAMES),
            "fields": dict(abi.FIELDS),
            "control": self.control.address,
            "entry": self._entry,
            "memory_limit": self.settings.executor_memory_limit,
            "libraries": services.libraries,
            "shared": [(start, *row) for start, row in list(services.shared.items())],
            "slab_file": f"/proc/{os.getpid()}/fd/{arena.fd}",
            "cwd": cwd,
        }
        self._attach(Spawned(self._pipes, arena.fd, setup, services.env, size))

    def respawn(self) -> None:
        if self.serving:
            raise JitError("the executor runs a call: stop that, and replace it afterwards")
        self._detach()
        self.start()

    def _running(self) -> Spawned:
        while (child := self._child) is None:
            self.start()
        return child

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, thunk: int, fn: int, args: int, ret: int, ret_size: int) -> Outcome:
        if self.busy:
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
            self._begin_call()
            if asked or self.stopping():
                self.interrupt()
            try:
                message = HEAD.pack(abi.CALL, seq, thunk, fn, args, ret, ret_size, 0)
                answer = self._request(self._child or self._running(), message)
                stop, self._stop = self._stop, None
                if answer is not None and not answer[2] and not answer[4]:
                    outcome = Outcome("ok", self.control.read(abi.RESULT_AT, ret_size))
                else:
                    outcome = self._explain(answer, seq, ret_size, stop)
            finally:
                failure = self._end()
            if failure is not None:
                try:
                    raise failure
                finally:  # which its traceback leads to: no cycle keeps arguments
                    del failure
            if self.control["lock_owner"] and not outcome.respawned:
                outcome = outcome._replace(lock_holder=lock_holder(self.control, self.pid))
            asked = self._decided.setdefault(STOPPED, False) or stop is not None or self.stopping()
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
                if outcome.result != number.to_bytes(4, "little"):
                    if self._stale:
                        raise JitError(_STALE)
                    self._stale = True
                elif number > 1:
                    known = self._stale
                    break
            return None
        finally:
            self._stale = known
            arena.free(extent)

    def restore_order(self) -> str:
        if not self.busy and not self._pending:
            return ""
        lost, child = "", self._child
        if self._pending and child is not None:
            self.busy, self._failure = True, JitError("nobody waits for this")
            if self._stop is None:
                self._interrupt_now("")
            answer = self._wait(child)
            self._stop = None
            if answer is None or answer[3] or not self._healthy():
                self.respawn()
                lost = LOST
        self._end()
        self._pending = False
        return lost

    def _too_late(self, outcome: Outcome, cause: str) -> Outcome:
        """A call that returned by itself after it was to be stopped: the signal made a library give
        up waiting.  It counts as interrupted, so that what comes next does not run."""
        record = FaultRecord(cause=cause, generation=self.generation)
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
            status = self._detach(0.0 if stop else _PATIENCE)
            outcome = process_ended(
                self.control, seq, status, stop.cause if stop else None, self.generation
            )
            if outcome.kind == "ok":
                outcome = outcome._replace(result=self.control.read(abi.RESULT_AT, ret_size))
            self.start()
            return outcome
        if not answer[2]:
            lost = "the cell closed a standard stream; it was opened again"
            return Outcome("ok", self.control.read(abi.RESULT_AT, ret_size), lost=lost)
        kind, record = record_of(self.control, seq, cause, self.generation)
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
        for op, payload in ((abi.CHECK, b""), (abi.RARE, _request_of("locate", [address]))):
            message = HEAD.pack(op, new_number(), 0, 0, 0, 0, 0, 0) + payload
            check = Check(child.pid, lambda: self.control["fresh_tid"])
            answer = self._request(child, message, check)
            if answer is None or answer[3]:
                return False
        return True

    def peek(self, thread: int = 0) -> FaultRecord:
        return peek(self.pid, self.stack_top, self.generation, thread)

    def program_threads(self) -> frozenset[int]:
        child = self._child
        return child.program_threads() - {child.pid} if child and child.ready else frozenset()

    @property
    def stack_top(self) -> int:
        return self.control["saved_rsp"]

    # -- rare requests -------------------------------------------------------------------------

    @property
    def threads(self) -> int:
        return self._child.threads if self._child else 0

    @property
    def has_children(self) -> bool:
        forks = self.control["forks"]
        if forks == self._alone_after:
            return False
        if self._running().has_descendants():
            return True
        self._alone_after = forks  # each of them, and theirs, has ended
        return False

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
        self._ask(abi.PARK, argument=int(threads))

    def unpark(self) -> None:
        self._tell_ends()
        self._ask(abi.UNPARK)

    def _answer_of(
        self, name: str, *arguments: Any, fits: Callable[[bytes], bool] = lambda payload: True
    ) -> bytes:
        """The answer to a request that child.py serves."""
        if name == "library":
            self._handled = None
        return self._ask(abi.RARE, _request_of(name, *arguments), fits)

    def tell(self, name: str, *arguments: Any) -> None:
        if (child := self._child) is None:
            return
        head = HEAD.pack(abi.RARE, new_number(), 0, 0, 0, 0, 0, 0)
        self._bell.post()
        with contextlib.suppress(OSError):  # it has ended: the next request will find out
            child.socket.send(head + _request_of(name, *arguments))

    def _ask(
        self,
        op: int,
        payload: bytes = b"",
        fits: Callable[[bytes], bool] = lambda payload: True,
        argument: int = 0,
    ) -> bytes:
        """A rare request; one more attempt where the process turns out to be dead, or gives an
        answer that does not fit.  Raises OSError with the process's words, Interrupted, JitError,
        and what a callback raised meanwhile.
        """
        if self.busy:
            raise JitError("the executor is running a call")
        for _ in range(2):
            self._begin()
            try:
                head = HEAD.pack(op, new_number(), argument, 0, 0, 0, 0, 0)
                answer = self._request(self._running(), head + payload)
                stop = self._stop
            finally:
                failure = self._end()
            if answer is not None and (answer[3] or fits(self._replies.payload())):
                if failure is not None:
                    try:
                        raise failure
                    finally:  # which its traceback leads to: no cycle keeps arguments
                        del failure
                break
            self._detach(0.0 if answer or stop else _PATIENCE)
            self.start()
            if failure is not None:
                try:
                    raise failure
                finally:  # which its traceback leads to: no cycle keeps arguments
                    del failure
            if stop is not None:  # what a library does as it is loaded would be no shorter again
                raise Interrupted(f"interrupted; {LOST}")
        else:
            raise JitError("the executor ended twice, or gave no answer that makes sense")
        if answer[3]:
            raise OSError(self._replies.payload().decode("utf-8", "replace"))
        return self._replies.payload()


def _request_of(name: str, *arguments: Any) -> bytes:
    """A request to child.py: the name of a method and its arguments."""
    return marshal.dumps((name, arguments))
