"""The executor as the kernel process sees it: start it, call thunks in it, outlive its end.

Everything happens in the caller's thread: one loop waits for the answer and serves the program's
streams meanwhile.  What the process does with a request is in child.py and runtime.ll.  Start from
`Executor.call`.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitkernel.errors import JitError
from jitkernel.executor import control, procfs
from jitkernel.executor.interrupt import Interruption
from jitkernel.executor.records import (
    ExecutorSettings,
    FaultRecord,
    Outcome,
    decode_record,
    signal_name,
)
from jitkernel.executor.spawn import Pipes, Spawned, control_words

__all__ = ["Executor"]

_CALL, _CHECK = 1, 2  # served by the native loop (runtime.ll)
_HELLO, _LOOKUP, _LIBRARY, _LOCATE, _CHDIR, _SETENV = 16, 17, 18, 19, 20, 21  # by child.py
_HEAD = struct.Struct("<8Q")
_WORD = struct.Struct("<Q")
_RECORD = struct.Struct(f"<{len(control.RECORD)}Q")
_MANY = 2000  # names or addresses in one message
_FIRST_TICK, _TICK = 0.02, 0.03  # seconds until a call counts as long, and between looks at it
_HEALTH = 0.1  # seconds for a check to be answered
_START = 20.0  # seconds for a process to say hello

_LOST = (
    "the executor was started again: memory from malloc, open files and threads are lost; "
    "functions and globals in the arena are as they were"
)


class Executor:
    """A process that runs session code; at most one call at a time, from one thread.

    `entry` has the addresses of the runtime's symbols (`runtime_ir`, linked into the arena).
    `on_output(name, data)` gets what the program writes to "stdout" and "stderr", while it runs;
    `on_input(prompt)` is asked for a line when it reads, and may answer None: not available.
    `on_respawn()` is called before a call that found the process dead goes on in another one.
    """

    def __init__(
        self,
        arena: Any,
        entry: Mapping[str, int],
        settings: ExecutorSettings | None = None,
        on_output: Callable[[str, bytes], object] | None = None,
        on_input: Callable[[str], str | None] | None = None,
    ):
        self.settings = settings or ExecutorSettings()
        self.on_output, self.on_input = on_output, on_input
        self.on_respawn: Callable[[], None] | None = None
        self.generation = 0
        self._arena, self._entry = arena, dict(entry)
        self._view: memoryview = arena.view
        regions = {r.name: r for r in arena.regions}
        data = regions["runtime.data"]
        self._data = data.start - arena.base  # index of the control block in the view
        self._address = data.start
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._mark = secrets.token_hex(8)
        self._libraries: list[str] = []
        self._env = dict(self.settings.env)
        self._cwd = self.settings.cwd
        self._pipes: Pipes | None = None
        self._child: Spawned | None = None
        self._seq = 0
        self._buffer = bytearray(1 << 16)
        self._busy = self._asked = False
        self._due, self._ticks, self._received = 0.0, 0, 0
        self._fed = False  # input was written that may be unread
        self._line = b""  # what stands on the last line of stdout
        self._stop: Interruption | None = None
        self._failure: BaseException | None = None
        self._spans: dict[int, list[procfs.Mapped]] = {}
        self._unwind = (0, 0)

    # -- its life ------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process's id, 0 while there is none."""
        return self._child.pid if self._child else 0

    @property
    def alive(self) -> bool:
        """Whether the process is there; False once it ended, until the next call or respawn."""
        return self._child is not None and not self._child.ended()

    def start(self) -> None:
        """Start the process without waiting for it; nothing where it runs already."""
        if self._child is not None:
            return
        if self._pipes is None:
            self._pipes = Pipes()
        for name in control.FIELDS:
            self._put(name, 0)
        self._put("unwind_start", self._unwind[0])
        self._put("unwind_generation", self._unwind[1])
        regions = self._arena.regions
        setup = {
            "base": self._arena.base,
            "regions": [(r.start, r.stop, r.prot) for r in regions],
            "fields": {name: self._address + at for name, at in control.FIELDS.items()},
            "control": control_words([(r.name, r.start, r.stop) for r in regions]),
            "entry": self._entry,
            "frame": self._address + control.FRAME_AT,
            "reaper_area": self._address + control.REAPER_AT,
            "stack_size": self.settings.stack_size,
            "memory_limit": self.settings.memory_limit,
            "libraries": self._libraries,
        }
        self._child = Spawned(self._pipes, self._arena.fd, setup, self._mark, self._env, self._cwd)
        self._cut = False
        self._poll = select.poll()
        # The socket first: when its answer is seen, output written before it is seen too.
        self._socket_fd = self._child.socket.fileno()
        self._poll.register(self._socket_fd, select.POLLIN)
        self._poll.register(self._pipes.stdout, select.POLLIN)
        self._poll.register(self._pipes.stderr, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(self._child.pidfd, select.POLLIN)

    def respawn(self) -> None:
        """Replace the process by a new one at the same addresses."""
        self._end()
        self.generation += 1
        self.start()

    def close(self) -> None:
        """End the process and all that it started."""
        self._end()
        if self._pipes is not None:
            self.drain()
            self._pipes.close()
            self._pipes = None
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    def _end(self, patience: float = 0.0) -> int:
        child, self._child = self._child, None
        return child.end(patience) if child else 0

    def _running(self) -> Spawned:
        if self._wake < 0:
            raise JitError("the executor is closed")
        if self._child is None:
            self.start()
        assert self._child is not None
        return self._child

    # -- calls ---------------------------------------------------------------------------------

    def call(self, thunk: int, fn: int, args: bytes = b"", ret_size: int = 0) -> Outcome:
        """Run `thunk(fn, args, ret)` until it is done; the first `ret_size` bytes of ret.

        Raises `JitError` where the executor cannot be started, and whatever `on_output` or
        `on_input` raised, after the call was stopped.
        """
        if len(args) > control.BUFFER_SIZE or ret_size > control.BUFFER_SIZE:
            raise JitError(f"arguments and results are limited to {control.BUFFER_SIZE} bytes")
        if args:
            at = self._data + control.ARGS_AT
            self._view[at : at + len(args)] = args
        base = self._address
        return self._call(thunk, fn, base + control.ARGS_AT, base + control.RESULT_AT, ret_size)

    def call_many(self, addresses: Sequence[int]) -> Outcome:
        """Call functions `void()` in order, until one is stopped; `done` says how many finished."""
        done, outcome = 0, Outcome("ok")
        room = control.LIST_SIZE // 8
        for first in range(0, len(addresses), room):
            part = addresses[first : first + room]
            at = self._data + control.LIST_AT
            self._view[at : at + 8 * len(part)] = struct.pack(f"<{len(part)}Q", *part)
            list_at = self._address + control.LIST_AT
            outcome = self._call(self._entry["jk_each"], list_at, len(part), 0, 0)
            finished = len(part) if outcome.kind == "ok" else min(outcome.done, len(part))
            done += finished
            if outcome.kind != "ok":
                break
        return _with(outcome, done=done)

    def _call(self, thunk: int, fn: int, args: int, ret: int, ret_size: int) -> Outcome:
        if self._busy:
            raise JitError("the executor is running another call")
        if self._fed and self._pipes:
            self._pipes.drop_input()
            self._fed = False
        self._busy, self._asked, self._line = True, False, b""
        try:
            while True:
                self._seq = seq = self._seq + 1
                answer = self._converse(_HEAD.pack(_CALL, seq, thunk, fn, args, ret, 0, 0), seq)
                if answer is not None and not answer[2] and not answer[4] and not self._failure:
                    at = self._data + control.RESULT_AT
                    return Outcome("ok", bytes(self._view[at : at + ret_size]))
                outcome = self._explain(answer, seq, ret_size)
                if not outcome.started and self.on_respawn is not None and not self._failure:
                    self.on_respawn()
                    continue
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise failure
                return outcome
        finally:
            self._busy, self._stop = False, None

    def _explain(self, answer: tuple[int, ...] | None, seq: int, ret_size: int) -> Outcome:
        """What became of a call that did not simply return."""
        stop, self._stop = self._stop, None
        cause = stop.cause if stop else ""
        at = self._data + control.RESULT_AT
        if answer is not None:
            kind, record = self._record(seq, cause)
            done = self._get("progress")
            if not answer[2]:
                lost = "the cell closed a standard stream; it was opened again" if answer[4] else ""
                return Outcome("ok", bytes(self._view[at : at + ret_size]), lost=lost)
            sick = bool(answer[3]) or record is None
            if record is not None and record.library and not sick:
                sick = not self._healthy()
            if not sick:
                return Outcome(kind, record=record, done=done)
            self.respawn()
            if record is None:
                kind = "died"
            return Outcome(kind, record=record, respawned=True, lost=_LOST, done=done)
        # The process is gone, or has to go; what it left in shared memory says how far it got.
        status = self._end(0.0 if stop else 0.5)
        kind, record = self._record(seq, cause)
        done = self._get("progress")
        finished = self._get("done_seq") == seq
        stopped = self._get("done_stopped")
        started = self._get("seq") == seq
        self.generation += 1
        self.start()
        why = _ending(status)
        if finished and not stopped:
            return Outcome(
                "ok", bytes(self._view[at : at + ret_size]), respawned=True,
                lost=f"the cell closed descriptors that the executor needs; {_LOST}",
            )  # fmt: skip
        if stop and status == -signal.SIGKILL:
            kind = "interrupted"
            record = record or FaultRecord(
                cause=cause, stdin_refused=cause == "stdin", generation=self.generation - 1
            )
            return Outcome(kind, record=record, respawned=True, lost=_LOST, done=done)
        if record is not None:
            return Outcome(kind, record=record, respawned=True, lost=_LOST, done=done)
        if status >= 0 and started:
            record = FaultRecord(status=status, cause="exit", generation=self.generation - 1)
            return Outcome("exit", record=record, respawned=True, lost=_LOST, done=done)
        lost = f"the executor {why}; {_LOST}"
        return Outcome("died", respawned=True, lost=lost, started=started, done=done)

    def _record(self, seq: int, cause: str) -> tuple[str, FaultRecord | None]:
        at = self._data + control.RECORD_AT
        words = _RECORD.unpack_from(self._view, at)
        if words[control.RECORD["seq"]] != seq:
            return "died", None
        at = self._data + control.STACK_AT
        stack = bytes(self._view[at : at + control.STACK_SIZE])
        kind, record = decode_record(words, stack, self.generation, cause)
        return kind, record

    def _healthy(self) -> bool:
        """Whether the library still works for the cell's thread and for a fresh one."""
        self._seq += 1
        frame = _HEAD.pack(_CHECK, self._seq, 0, 0, 0, 0, 0, 0)
        answer = self._converse(frame, self._seq, time.monotonic() + _HEALTH)
        return answer is not None and not answer[3]

    # -- rare requests -------------------------------------------------------------------------

    def lookup(self, names: Sequence[str]) -> list[int]:
        """Addresses of symbols of the loaded libraries, 0 where unknown."""
        found: list[int] = []
        for first in range(0, len(names), _MANY):
            part = [n.encode("utf-8", "surrogateescape") for n in names[first : first + _MANY]]
            payload = self._ask(_LOOKUP, b"\0".join(part))
            found += struct.unpack(f"<{len(part)}Q", payload)
        return found

    def library(self, path: str) -> None:
        """Load a shared library for all to see; raises OSError with the loader's words."""
        path = os.path.abspath(path) if "/" in path else path
        self._ask(_LIBRARY, os.fsencode(path))
        if path not in self._libraries:
            self._libraries.append(path)
        if self._child is not None:
            self._spans[self.generation] = procfs.libraries(self._child.pid)

    def locate(self, addresses: Sequence[int], generation: int | None = None) -> list[str]:
        """`strlen+0x2d, libc.so.6` for addresses in libraries, "" for others.

        `generation` is of the process that they come from, by default the present one.
        """
        if generation is not None and generation != self.generation:
            self._ask(_LOCATE, b"0")  # so that the present process has said where its files are
            addresses = [self._moved(a, generation) for a in addresses]
        found: list[str] = []
        for first in range(0, len(addresses), 200):
            part = addresses[first : first + 200]
            text = self._ask(_LOCATE, b"\0".join(b"%x" % (a & (1 << 64) - 1) for a in part))
            found += text.decode("utf-8", "replace").split("\0")
        return found

    def chdir(self, path: str) -> None:
        """Change the program's working directory; raises OSError."""
        self._ask(_CHDIR, os.fsencode(path))
        self._cwd = os.path.abspath(os.path.join(self._cwd, path))

    def setenv(self, name: str, value: str) -> None:
        """Set an environment variable of the program."""
        self._ask(_SETENV, os.fsencode(name) + b"\0" + os.fsencode(value))
        self._env[name] = value

    def _ask(self, op: int, payload: bytes) -> bytes:
        if self._busy:
            raise JitError("the executor is running a call")
        for attempt in range(2):
            self._seq += 1
            head = _HEAD.pack(op, self._seq, 0, 0, 0, 0, 0, 0)
            self._busy = True
            try:
                answer = self._converse(head + payload, self._seq)
            finally:
                self._busy, self._stop = False, None
            if answer is not None:
                break
            self._end(0.5)
            self.generation += 1
            self.start()
            if attempt:
                raise JitError("the executor ended while it was asked")
        data = bytes(self._buffer[_HEAD.size : self._received])
        if answer is not None and answer[3]:
            raise OSError(data.decode("utf-8", "replace"))
        return data

    def _moved(self, address: int, generation: int) -> int:
        """Where an address of an earlier process's library is in the present one."""
        old = self._spans.get(generation, [])
        new = {path: low for low, _, path in self._spans.get(self.generation, [])}
        for low, high, path in old:
            if low <= address < high and path in new:
                return address - low + new[path]
        return 0

    # -- the loop ------------------------------------------------------------------------------

    def _converse(self, message: bytes, seq: int, deadline: float = 0.0) -> tuple[int, ...] | None:
        """Send a request and serve the streams until its answer: (op, seq, ...).

        None: the process has ended or has to.
        """
        child = self._running()
        try:
            child.socket.send(message)
        except OSError:
            return None
        self._received = 0
        _HEAD.pack_into(self._buffer, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        began = time.monotonic()
        self._due, self._ticks = began + _FIRST_TICK, 0
        wait = int(1000 * _FIRST_TICK)
        while True:
            try:
                head = _HEAD.unpack_from(self._buffer)
                if head[1] == seq:
                    return head
                if self._take(child, self._poll.poll(wait)) and not self._answered(seq):
                    self.drain()
                    return None
                now = time.monotonic()
                if now >= self._due and not self._answered(seq):
                    self._due = now + _TICK
                    if not self._tick(child, now, began, deadline):
                        return None
                wait = max(1, int(1000 * (self._due - now)))
            except ConnectionError:
                self.drain()
                return None
            except KeyboardInterrupt:
                self._asked = True
                if self._stop is None:
                    self._interrupt("")

    def _answered(self, seq: int) -> bool:
        return bool(_HEAD.unpack_from(self._buffer)[1] == seq)

    def _take(self, child: Spawned, events: Sequence[tuple[int, int]]) -> bool:
        """Take in what has come; True when the process has ended."""
        ended = False
        for fd, _ in events:
            if fd == self._socket_fd:
                self._received = child.socket.recv_into(self._buffer)
                if not self._received:
                    # The cell closed it, or the process is about to end: its descriptor tells.
                    self._poll.unregister(fd)
                    self._cut = True
                elif _HEAD.unpack_from(self._buffer)[0] == _HELLO:
                    self._greet(child)
            elif fd == self._wake:
                os.eventfd_read(self._wake)
                if self._asked and self._stop is None:
                    self._interrupt("")
            elif fd == child.pidfd:
                ended = True
            else:
                self._read(fd)
        return ended

    def _tick(self, child: Spawned, now: float, began: float, deadline: float) -> bool:
        """The call takes its time: look what it waits for; False to give it up."""
        self._ticks += 1
        if not child.ready:
            return now - began < _START
        if deadline:
            # Slow because the machine is busy is not the same as blocked for ever.
            return now < deadline or (now < deadline + 1.0 and not procfs.all_asleep(child.pid))
        if self._stop is not None:
            alive = self._stop.step(now)
            self._due = self._stop.due
            return alive
        limit = self.settings.cell_timeout
        if limit and now - began >= limit:
            self._interrupt("timeout")
            return True
        if (self._cut or self._ticks % 32 == 0) and child.ended():
            return False
        if self._pipes is not None and not self._pipes.unread():
            if procfs.waits_for_input(procfs.family(child.pid), self._pipes.stdin_name):
                self._serve_input()
        return True

    def _greet(self, child: Spawned) -> None:
        """The process says that it is ready, or why it never will be."""
        head = _HEAD.unpack_from(self._buffer)
        words = bytes(self._buffer[_HEAD.size : self._received]).decode("utf-8", "replace")
        _HEAD.pack_into(self._buffer, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        if head[3]:
            self._end(0.5)
            raise JitError(f"the executor cannot start: {words}")
        child.ready = True
        self._spans[self.generation] = procfs.libraries(child.pid)
        self._spans.pop(self.generation - 8, None)

    def _interrupt(self, cause: str) -> None:
        """Begin to stop the call."""
        now = time.monotonic()
        grace = self.settings.interrupt_grace
        self._stop = Interruption(self.pid, self._seq, self._put, grace, cause, now)
        self._stop.step(now)
        self._due = self._stop.due

    def interrupt(self) -> bool:
        """Stop the call in progress; False where there is none.

        May be called from any thread and from a signal handler; returns at once.
        """
        if not self._busy:
            return False
        self._asked = True
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:
            return False
        return True

    # -- streams -------------------------------------------------------------------------------

    def fds(self) -> list[int]:
        """Descriptors to watch while idle: when one is readable, call `drain`."""
        return [self._pipes.stdout, self._pipes.stderr] if self._pipes else []

    def drain(self) -> None:
        """Hand on what the program's threads and children have written by now."""
        for fd in self.fds():
            self._read(fd)

    def _read(self, fd: int) -> None:
        assert self._pipes is not None
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                return
            if fd == self._pipes.stdout:
                self._line = (self._line + data[-1000:]).rpartition(b"\n")[2][-1000:]
            name = "stdout" if fd == self._pipes.stdout else "stderr"
            if self.on_output is not None and self._failure is None:
                try:
                    self.on_output(name, data)
                except BaseException as error:
                    self._fail(error)
            if len(data) < 1 << 16 or self._busy:
                return

    def _serve_input(self) -> None:
        """The program waits for a line: get one, or stop it."""
        self.drain()
        line: str | None = None
        try:
            if self.on_input is not None:
                line = self.on_input(self._line.decode("utf-8", "replace"))
        except BaseException as error:
            self._fail(error)
            return
        if line is None:
            self._interrupt("stdin")
            return
        self._fed, self._line = True, b""
        self._feed(line.encode("utf-8", "surrogateescape") + b"\n")

    def _feed(self, data: bytes) -> None:
        assert self._pipes is not None
        while data:
            try:
                data = data[os.write(self._pipes.stdin, data) :]
            except BlockingIOError:
                # More than a pipe holds: the reader needs time.
                time.sleep(0.001)
                self.drain()
                if not self.alive or self._asked:
                    return

    def _fail(self, error: BaseException) -> None:
        """A callback raised: remember that, and stop the cell."""
        if self._busy:
            self._failure = self._failure or error
            self._asked = True
            if self._stop is None:
                self._interrupt("")
        else:
            raise error

    # -- memory --------------------------------------------------------------------------------

    @property
    def unwind(self) -> tuple[int, int]:
        """Start address and generation of the unwind tables; renewed before the next call."""
        return self._unwind

    @unwind.setter
    def unwind(self, value: tuple[int, int]) -> None:
        self._unwind = value
        self._put("unwind_start", value[0])
        self._put("unwind_generation", value[1])

    def _put(self, name: str, value: int) -> None:
        _WORD.pack_into(self._view, self._data + control.FIELDS[name], value)

    def _get(self, name: str) -> int:
        return int(_WORD.unpack_from(self._view, self._data + control.FIELDS[name])[0])


def _with(outcome: Outcome, **changes: Any) -> Outcome:
    from dataclasses import replace

    return replace(outcome, **changes)


def _ending(status: int) -> str:
    return f"was ended by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
