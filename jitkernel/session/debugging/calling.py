"""Functions that a debugger calls on the thread that stands.  Start from `Calls.call`.

The thread goes on in the function, below its red zone, and returns to an int3 that nobody else
comes to; then it has its registers again, and stands as before.  What the function has changed in
memory stays.  A call that meets a fault or a breakpoint, and one that is interrupted, is left where
it is.  Other threads run meanwhile, and stop at nothing.  System V psABI, AMD64, 3.2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from jitkernel import procfs
from jitkernel.errors import UsageError
from jitkernel.executor import abi
from jitkernel.session.debugging.vectors import REALS, Vectors

if TYPE_CHECKING:
    from jitkernel.executor.stops import Stop
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.view import View

__all__ = ["Arguments", "Calls", "Returned"]

_INTEGERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_RED_ZONE = 128
_DIRECTION, _TRACE = 0x400, 0x100  # EFLAGS.DF, EFLAGS.TF


class Arguments(NamedTuple):
    """The arguments of a call: bits of integers and addresses, and of numbers with a point, in
    order, each with whether it is one of these; `variadic` functions are told how many."""

    words: Sequence[tuple[int, bool]]
    variadic: bool = False


class Returned(NamedTuple):
    """The contents of `rax` and of `xmm0` behind a call."""

    word: int
    real: int


class Calls:
    """Calls on a thread that stands, one at a time.

    While one is in progress (`thread` is not 0) `Calls.screen` and `Calls.met` are asked about
    stops.  `hidden` and `shown` take breakpoints out of the text and put them there.
    """

    def __init__(
        self, core: Core, shown: Callable[[], object], hidden: Callable[[], object],
        meets: Callable[[Stop], str | None],
    ):  # fmt: skip
        self._core, self._shown, self._hidden, self._meets = core, shown, hidden, meets
        self.thread = 0
        self._landing = self._pointer = 0
        self._ended: Stop | None = None
        self._why = ""

    # -- stops -----------------------------------------------------------------------------------

    def screen(self, stop: Stop) -> None:
        """A thread has stopped: it stays where it is if that ends the call."""
        stops = self._stops
        if stop.tid != self.thread:
            stops.go(abi.PASS)
            return
        registers = stop.registers
        self._why = ""
        if stop.why == "trap" and registers["rip"] == self._landing + 1:
            if registers["rsp"] != self._pointer:
                self._why = "it returned with another stack pointer"
            return
        if stop.why == "fault":
            self._why = f"{stop.signal} at {self._core.name_of(registers['rip']) or 'some address'}"
        elif stop.why == "pause":
            self._why = "it was interrupted"
        elif stop.why == "trap":
            if (why := self._meets(stop)) is None:
                return
            self._why = why
        else:  # a watchpoint: what has changed is told at the next stop
            stops.go(abi.GO)

    def met(self, stop: Stop) -> None:
        """Everything stands."""
        self._ended = stop

    # -- calls -----------------------------------------------------------------------------------

    def call(self, view: View, address: int, given: Arguments, thread: int) -> Returned:
        """Call the function at an address on a thread, whose registers `view` has.  Raises
        UsageError where it did not return, and says why."""
        executor, stops = self._core.engine.executor, self._stops
        saved = Vectors.of(self._read, view.context)
        registers, reals, stack = _placed(given)
        landing, pointer = self._core.engine.linker.breakpoints.landing(), 0
        pointer = (view.registers["rsp"] - _RED_ZONE - 8 * len(stack)) & -16
        self._write(pointer - 8, struct.pack(f"<{1 + len(stack)}Q", landing, *stack))
        if reals or saved.data:
            saved.enter(self._write, reals)
        flags = view.registers["eflags"] & ~(_DIRECTION | _TRACE)
        now = {
            **view.registers, **registers, "rip": address, "rsp": pointer - 8, "eflags": flags,
            "rax": min(len(reals), REALS) if given.variadic else 0,
        }  # fmt: skip
        self._landing, self._pointer, self._ended, self.thread = landing, pointer, None, thread
        before = stops.faults
        try:
            stops.faults = True
            self._shown()
            stops.go(abi.GO, now)
            lost = executor.serve_until(lambda: self._ended is not None)
        finally:
            self.thread = 0
            self._hidden()
            stops.faults = before
        ended = self._ended
        if ended is None:
            raise UsageError(f"the call did not come back: {lost}")
        left = Vectors.of(self._read, ended.context)
        real = left.registers.get("xmm0", 0) & (1 << 64) - 1
        result = Returned(ended.registers["rax"], real)
        left.restore(self._write, saved)
        view.context = ended.context
        if self._why:
            raise UsageError(
                f"the call was left where it was, {self._why}; registers are as before it, what it "
                "has changed in memory stays"
            )
        return result

    @property
    def _stops(self):  # type: ignore[no-untyped-def]
        return self._core.engine.executor.stops

    def _read(self, address: int, size: int) -> bytes:
        return procfs.memory(self._core.engine.executor.pid, address, size)

    def _write(self, address: int, data: bytes) -> None:
        if procfs.write_memory(self._core.engine.executor.pid, address, data) != len(data):
            raise UsageError("there is no room for a call on this thread's stack")


def _placed(given: Arguments) -> tuple[dict[str, int], list[int], list[int]]:
    """The registers of arguments, those for numbers with a point, and what is on the stack."""
    registers: dict[str, int] = {}
    reals: list[int] = []
    stack: list[int] = []
    for bits, is_real in given.words:
        if is_real and len(reals) < REALS:
            reals.append(bits)
        elif not is_real and len(registers) < len(_INTEGERS):
            registers[_INTEGERS[len(registers)]] = bits
        else:
            stack.append(bits)
    return registers, reals, stack
