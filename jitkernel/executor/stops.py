"""Threads of the program that a debugger stops, as the kernel process sees them.

A thread that meets a trap stands in its signal handler (native/stop.ll) and asks; every other
thread of the program is made to stand there too, and all go on together.  What a breakpoint or a
line is, is not known here.  Start from `Stops.serve`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from jitkernel import procfs
from jitkernel.errors import UsageError
from jitkernel.executor import abi
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.peek import unblock
from jitkernel.executor.records import signal_name
from jitkernel.executor.restart import LOOKED_AT, begun_again, just_begun
from jitkernel.procfs import SystemCall
from jitkernel.record import record, replace
from jitkernel.syscalls import SYS

if TYPE_CHECKING:
    from jitkernel.executor.spawn import Spawned

_REGISTERS = struct.Struct(f"<{len(abi.REGISTERS)}Q")
_PAIR, _ROW = struct.Struct("<2Q"), struct.Struct("<4Q")
_WORD = (1 << 64) - 1
_TABLE_SIZE = _PAIR.size * abi.STOP_TABLE
# Words of programs of one table, and where those of the one and the other are.
_ROOM = (abi.STOP_PROGRAM_WORDS - abi.STOP_CELLS) // 2
_PROGRAMS = abi.STOP_CELLS, abi.STOP_CELLS + _ROOM
# Seconds for all threads to stand: until they are looked at for what they block, until the signal
# is sent once more, and until those that do not are left alone; but not before so many looks: on a
# busy machine they wait for a processor as we do.
_SHORT, _AGAIN, _LONGEST = 0.005, 0.1, 0.5
_LOOKS = 1000
_NAP = 0.0001
_PAUSE = abi.WHYS.index("pause")
_DEAF = 4  # a pause that was in vain so often meets a thread that blocks the signal
# To wake a thread takes no time to speak of: not worth letting another Python thread run meanwhile.
_syscall = ctypes.PyDLL(None).syscall


@record(slots=False)
class Stop:
    """A thread that has stopped.

    `why` is
    "trap"   an int3: `rip` is the address behind it
    "step"   a single step (the trap flag of `eflags` is on)
    "pause"  `Stops.pause`
    "fault"  a fault of the cell's thread, before anything is done about it
    "watch"  a watchpoint of the processor's
    `signal` is its name ("SIGSEGV"), `code` its si_code, `address` the address it concerns.
    `registers` are the thread's, by the names of `abi.REGISTERS`; `context` is where its ucontext
    is, in the process's own memory: vector registers are there.  `contexts` has the same for each
    thread that stands, this one first; `running` are those that could not be made to stand.
    """

    why: str
    tid: int
    signal: str
    code: int
    address: int
    registers: Mapping[str, int]
    context: int
    contexts: Mapping[int, int]
    running: tuple[int, ...] = ()

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads that stand, this one first."""
        return tuple(self.contexts)


class Stops:
    """The threads that a debugger stops in the executor's process, which `child` is; `asked` gives
    the number of the request that is waited for, 0 where none is; `interrupt` begins to end it.

    `on_stop(stop)` is called in the thread that waits for the call when a thread has stopped, and
    answers with `go`, at once or later; while it is None, what stopped goes on as if no debugger
    were there.  `screen(stop)` is called before it, while other threads may run, of which nothing
    is known yet; it may answer with `go` at once, as where a condition is false: to make all
    threads stand takes ten times as long as the stop.  `standing` is what was not answered yet.
    `stood` counts the seconds of the present request in which something stood.
    """

    def __init__(
        self, control: ControlBlock, asked: Callable[[], int], interrupt: Callable[[], None]
    ):
        self.on_stop: Callable[[Stop], None] | None = None
        self.screen: Callable[[Stop], None] | None = None
        self.standing: Stop | None = None
        self.child: Spawned | None = None
        self.stood = 0.0
        self._control, self._asked, self._interrupt = control, asked, interrupt
        self.active = self._on = self._faults = False  # `active`: as `on`, to be read often
        # The table in use, None where that is not known, and its number.
        self._told: tuple[dict[int, int], dict[int, Sequence[int]]] | None = {}, {}
        self._tables = 0
        self._kept = False  # it stands, and nobody is about to answer
        self._since = 0.0  # when the thread that stands stopped
        self._calls: dict[int, SystemCall] = {}  # that threads waited in, before they were told
        self._pressed = 0  # how often the pause that is wanted was asked for

    # -- settings ------------------------------------------------------------------------------

    @property
    def on(self) -> bool:
        """True if traps are a debugger's; the other settings hold while this is so.  To be set
        where `go` may be called, or while no request is in progress."""
        return self._on

    @on.setter
    def on(self, value: bool) -> None:
        self.active = self._on = value
        self._tell_settings()
        if not value:  # what stands, or is about to, goes on
            self.forget()
            if self._control["stop_pending"]:
                self._answer(abi.PASS)

    @property
    def faults(self) -> bool:
        """True if faults of the cell's thread stop it before the cell is ended."""
        return self._faults

    @faults.setter
    def faults(self, value: bool) -> None:
        self._faults = value
        self._tell_settings()

    def _tell_settings(self) -> None:
        self._control["stop_faults"] = int(self._on and self._faults)
        self._control["stop_on"] = int(self._on)

    def table(
        self, slots: Mapping[int, int], programs: Mapping[int, Sequence[int]] | None = None
    ) -> None:
        """The place where threads go on that meet a breakpoint where nobody can be asked, as in a
        forked child: addresses of int3s, and of the copies of what was there.

        `programs` are of those that need not ask where it ends with zero: words, as `program` of
        programs.py gives them.  For what there is no room they ask.

        Raises UsageError for more than `abi.STOP_TABLE` breakpoints.
        """
        programs = programs or {}
        if self._told == (slots, programs):
            return
        if len(slots) > abi.STOP_TABLE:
            raise UsageError(
                f"{len(slots)} breakpoints are too many: up to {abi.STOP_TABLE} can be in code "
                "at once; remove some"
            )
        self._told, number = None, self._tables + 1
        offset, at = _TABLE_SIZE * (number % 2), _PROGRAMS[number % 2]
        stop, rows = at + _ROOM, []
        for address, slot in sorted(slots.items()):
            words, first = programs.get(address, ()), 0
            if words and at + len(words) <= stop:
                data = struct.pack(f"<{len(words)}Q", *(word & _WORD for word in words))
                self._control.write(abi.STOP_PROGRAMS_AT + 8 * at, data)
                first, at = at, at + len(words)
            rows.append(_PAIR.pack(address, slot | first << abi.STOP_PROGRAM))
        self._control.write(abi.STOP_TABLES_AT + offset, b"".join(rows))
        named = (number & abi.STOP_COUNT) << 16
        self._control["stop_table"] = offset << 32 | named | len(slots)
        self._tables, self._told = number, (dict(slots), dict(programs))

    def hits(self, cell: int) -> int:
        """The count that programs have in a cell, from 1 on."""
        at = abi.STOP_PROGRAMS_AT + 8 * cell
        return int.from_bytes(self._control.read(at, 8), "little")

    def set_hits(self, cell: int, count: int) -> None:
        """Set a count.  While a thread asks, or none runs: else some may be lost."""
        self._control.write(abi.STOP_PROGRAMS_AT + 8 * cell, count.to_bytes(8, "little"))

    def reset(self) -> None:
        """There will be another process, and its control words are zero."""
        self.forget()
        self._calls.clear()
        self._control.write(abi.STOP_THREADS_AT, bytes(_ROW.size * abi.STOP_THREADS))
        self._tell_settings()
        (slots, programs), self._told = self._told or ({}, {}), None
        self.table(slots, programs)

    def begin(self) -> None:
        """A call begins.  A thread that has stopped when the last one had just ended goes on."""
        if not self._on:
            return
        if self._control["stop_pending"]:
            self._answer(abi.PASS)
        self._calls.clear()
        if self.child is not None and self.child.threads:
            self._open(self.child.program_threads() - {self.child.pid})

    # -- stops ---------------------------------------------------------------------------------

    @property
    def asking(self) -> bool:
        """True if a thread has stopped of which nobody has taken note."""
        return self.standing is None and bool(self._control["stop_pending"])

    def serve(self, ending: bool = False) -> None:
        """Take note of a thread that has stopped, if one has; where the call is being ended, say so
        to it.  Raises what `on_stop` raises, and leaves the thread where it stands then."""
        if not self.asking:
            return
        if ending:
            self._answer(abi.END)
            return
        self._since = time.monotonic()
        self.standing = stop = self._look()
        if self.on_stop is None:
            self.go(abi.PASS)
            return
        if self.screen is not None:
            self.screen(stop)
        if self.standing is stop:
            self.standing = stop = self._with_others(stop)
            self.on_stop(stop)
        if self.standing is stop:
            self._kept = True
            self._control["pause_seq"] = 0  # who wants a stop has one

    def go(self, answer: int = abi.GO, registers: Mapping[str, int] | None = None) -> None:
        """Let all threads go on.

        `answer`: abi.GO, with these `registers`, those that are not named as they were; abi.END
        ends the cell as an interrupt does (in another thread than the cell's: PASS); abi.OWN: the
        trap or fault is the program's, and what is done about it without a debugger follows;
        abi.PASS as GO, but a breakpoint is gone through by `table`, and steps are over.

        Raises UsageError where nothing stands.
        """
        if (stop := self.standing) is None:
            raise UsageError("no thread stands: it can go on only where it has stopped")
        if answer == abi.END:
            self._interrupt()
            return
        if stop.running:  # by now they may stand too
            late = self._contexts()
            self._renew_calls({t: late[t] for t in late.keys() & set(stop.running)})
        if registers is not None:
            words = {**stop.registers, **registers}
            at = self._control.start + abi.FIELDS[f"stop_reg_{abi.REGISTERS[0]}"]
            values = (words[name] & _WORD for name in abi.REGISTERS)
            _REGISTERS.pack_into(self._control.view, at, *values)
        self.forget()
        self._answer(answer)

    def end(self) -> None:
        """The cell is being ended: what stands goes on to that."""
        if self.standing is not None:
            self.forget()
            self._answer(abi.END)

    def forget(self) -> None:
        """Forget what stood."""
        self._kept = False
        if self.standing is not None:
            self.standing = None
            self.stood += time.monotonic() - self._since

    def _answer(self, answer: int) -> None:
        control = self._control
        control["stop_answer"] = answer
        control["stop_standing"] = 0
        control["stop_pending"] = 0
        control["stop_done"] = 1  # from here on the next one may ask
        self._wake("stop_done", 1)
        if control["stop_listed"] > 1:  # others have stood by, or do: they are listed before
            self._wake("stop_standing", abi.INT_MAX)

    def _wake(self, name: str, count: int) -> None:
        """Wake threads that wait for a control word (futex(2))."""
        at = self._control.start + abi.FIELDS[name]
        word = ctypes.addressof(ctypes.c_uint32.from_buffer(self._control.view, at))
        _syscall(SYS["futex"], ctypes.c_void_p(word), abi.FUTEX_WAKE, count, 0, 0, 0)

    def _look(self) -> Stop:
        """The stop that the control words tell of."""
        control = self._control
        tid, why = control["stop_tid"], control["stop_why"]
        at = control.start + abi.FIELDS[f"stop_reg_{abi.REGISTERS[0]}"]
        words = _REGISTERS.unpack_from(control.view, at)
        registers = dict(zip(abi.REGISTERS, words, strict=True))
        if why == _PAUSE:
            registers.update(self._renewed(tid, registers))
            _REGISTERS.pack_into(control.view, at, *registers.values())
        code = control["stop_code"] & 0xFFFFFFFF
        sent = code == 0 or code >> 31
        return Stop(
            why=abi.WHYS[why] if why < len(abi.WHYS) else "trap",
            tid=tid,
            signal=signal_name(control["stop_signal"]),
            code=code - (code >> 31 << 32),
            address=0 if sent else control["stop_address"],
            registers=registers,
            context=control["stop_context"],
            contexts={tid: control["stop_context"]},
        )

    def _with_others(self, stop: Stop) -> Stop:
        """A stop once all threads stand."""
        contexts, running = self._halt(stop.tid)
        self._renew_calls(contexts)
        every = {**stop.contexts, **contexts}
        return replace(stop, contexts=every, running=tuple(sorted(running)))

    # -- all threads ---------------------------------------------------------------------------

    def _halt(self, first: int) -> tuple[dict[int, int], frozenset[int]]:
        """Make all threads of the program stand but for the `first`, which does: where their
        ucontexts are; and the threads that cannot be stopped."""
        child, began = self.child, time.monotonic()
        if child is None or (not child.threads and first == child.pid):
            return {}, frozenset()
        told: set[int] = set()
        before: frozenset[int] | None = None
        steps = [(_SHORT, self._open), (_AGAIN, self._tell)]
        looks = 0
        while True:
            looks += 1
            threads = child.program_threads() - {first}
            contexts = self._contexts()
            missing = threads - contexts.keys()
            passed = time.monotonic() - began
            # A thread may have been started by one that ran yet when the list was made.
            if (not missing and threads == before) or (passed > _LONGEST and looks > _LOOKS):
                return {t: contexts[t] for t in sorted(threads - missing)}, missing
            before = threads
            self._tell(missing - told)
            told |= missing
            if steps and passed > steps[0][0]:
                steps.pop(0)[1](missing)
            if missing:
                time.sleep(_NAP)

    def _contexts(self) -> dict[int, int]:
        """The threads that stand, and where their ucontexts are."""
        count = min(self._control["stop_listed"], abi.STOP_THREADS)
        rows = _ROW.iter_unpack(self._control.read(abi.STOP_THREADS_AT, _ROW.size * count))
        stops = abi.EVERY_STOP & _WORD, self._control["stop_number"]
        return {tid: context for tid, context, stop, _ in rows if stop in stops}

    def _tell(self, threads: frozenset[int]) -> None:
        """Send threads the signal that makes them stand."""
        for thread in threads:
            self._note(thread)
            _syscall(SYS["tgkill"], self._pid, thread, abi.SIGINTERRUPT)

    def _open(self, threads: frozenset[int]) -> None:
        """Let threads get the signals of stops that block them, but not in our handler."""
        control = self._control
        handler = range(control["runtime_start"], control["runtime_stop"])
        for thread in threads.intersection(procfs.threads_that_block(self._pid, abi.STOP_SIGNALS)):
            unblock(thread, abi.STOP_SIGNALS, handler)

    def _note(self, thread: int) -> None:
        """Remember what a thread waits in that is to be sent the signal."""
        if (call := procfs.system_call(self._pid, thread)) is not None:
            self._calls[thread] = call

    def _renew_calls(self, contexts: Mapping[int, int]) -> None:
        """Have the calls that the signal ended begun again."""
        for thread, context in contexts.items():
            registers = self._read(context)
            if changed := self._renewed(thread, registers):
                self._write(context, {**registers, **changed})

    def _renewed(self, thread: int, registers: Mapping[str, int]) -> dict[str, int]:
        """The registers to change of a thread whose call the signal ended."""
        call = self._calls.pop(thread, None)
        if registers.get("rax") != -abi.EINTR & _WORD:
            return {}
        # It had not begun when we looked; or the thread was held (`_open`), and has gone on in it.
        if call is None or call.pc != registers["rip"] or call.number == SYS["restart_syscall"]:
            code = procfs.memory(self._pid, registers["rip"] - LOOKED_AT, LOOKED_AT)
            call = just_begun(registers, code)
        return begun_again(call, registers) if call is not None else {}

    def _read(self, context: int) -> dict[str, int]:
        """The registers in a ucontext, none where the process has ended."""
        data = procfs.memory(self._pid, context + abi.UC_REGISTERS, _REGISTERS.size)
        if len(data) != _REGISTERS.size:
            return {}
        return dict(zip(abi.REGISTERS, _REGISTERS.unpack(data), strict=True))

    def _write(self, context: int, registers: Mapping[str, int]) -> bool:
        data = _REGISTERS.pack(*(registers[name] & _WORD for name in abi.REGISTERS))
        at = context + abi.UC_REGISTERS
        return procfs.write_memory(self._pid, at, data) == len(data)

    def registers(self, tid: int) -> dict[str, int]:
        """The registers of a thread that stands.  Raises UsageError where it does not."""
        stop, context = self._stands(tid)
        if tid == stop.tid:
            return dict(stop.registers)
        if not (registers := self._read(context)):
            raise UsageError(f"the registers of thread {tid} cannot be read: the process is ending")
        return registers

    def set_registers(self, tid: int, registers: Mapping[str, int]) -> None:
        """Change registers of a thread that stands because another one has stopped; what has
        stopped itself gets its own from `go`.  Raises UsageError where it does not stand."""
        stop, context = self._stands(tid)
        if tid == stop.tid:
            raise UsageError(f"thread {tid} has stopped itself: give its registers as it goes on")
        if not self._write(context, {**self.registers(tid), **registers}):
            raise UsageError(f"the registers of thread {tid} cannot be set: the process is ending")

    def _stands(self, tid: int) -> tuple[Stop, int]:
        stop = self.standing
        if stop is None or tid not in stop.contexts:
            raise UsageError(f"thread {tid} does not stand")
        return stop, stop.contexts[tid]

    @property
    def _pid(self) -> int:
        return self.child.pid if self.child is not None else 0

    # -- pauses --------------------------------------------------------------------------------

    def pause(self) -> bool:
        """Stop the call in progress where it is, soon; False where there is none, or it stands.

        May be called from any thread.  Where the call ends meanwhile, nothing stops.
        """
        seq, child = self._asked(), self.child
        if not (self._on and seq and child is not None and child.ready) or self._kept:
            return False
        self._pressed = 0
        self._control["pause_seq"] = seq
        self._press(child)
        return True

    def press_on(self) -> None:
        """Ask again for the pause that is wanted, if one is: a call that has hardly begun, and a
        thread that blocks the signal, do not see it at once."""
        child = self.child
        if child is None or not self._control["pause_seq"]:
            return
        if self._control["pause_seq"] != self._asked():
            self._control["pause_seq"] = 0  # that call has ended
            return
        self._pressed += 1
        if self._pressed == _DEAF:
            self._open(frozenset({child.pid}))
        self._press(child)

    def _press(self, child: Spawned) -> None:
        self._note(child.pid)
        try:
            os.kill(child.pid, abi.SIGINTERRUPT)
        except OSError:
            pass  # it has ended meanwhile
