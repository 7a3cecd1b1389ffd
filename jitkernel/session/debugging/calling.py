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

if TYPE_CHECKING:
    from jitkernel.executor.stops import Stop
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.view import View

__all__ = ["Arguments", "Calls", "Returned"]

_INTEGERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_REALS = 8  # registers for numbers with a point
_RED_ZONE = 128
_DIRECTION, _TRACE = 0x400, 0x100  # EFLAGS.DF, EFLAGS.TF
# Of a ucontext_t, and of what it leads to: `struct _fpstate_64` and the header behind it
# (asm/sigcontext.h): registers, the magic number and the size of all, which parts are there.
_UC_FPREGS, _XMM, _SOFTWARE, _LEGACY = 224, 160, 464, 512
_MAGIC = 0x46505853
_SSE = 2
_LARGEST = 1 << 16  # bytes of it


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
        saved = _State.of(self._read, view.context)
        registers, reals, stack = _placed(given)
        landing, pointer = self._core.engine.linker.breakpoints.landing(), 0
        pointer = (view.registers["rsp"] - _RED_ZONE - 8 * len(stack)) & -16
        self._write(pointer - 8, struct.pack(f"<{1 + len(stack)}Q", landing, *stack))
        if reals or saved.data:
            saved.enter(self._write, reals)
        flags = view.registers["eflags"] & ~(_DIRECTION | _TRACE)
        now = {
            **view.registers, **registers, "rip": address, "rsp": pointer - 8, "eflags": flags,
            "rax": min(len(reals), _REALS) if given.variadic else 0,
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
        left = _State.of(self._read, ended.context)
        result = Returned(ended.registers["rax"], left.real)
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


class _State(NamedTuple):
    """The registers of a thread that a ucontext has elsewhere: where, and their bytes."""

    address: int
    data: bytes

    @classmethod
    def of(cls, read: Callable[[int, int], bytes], context: int) -> _State:
        """That of the ucontext at an address."""
        address = int.from_bytes(read(context + _UC_FPREGS, 8), "little") if context else 0
        head = read(address, _LEGACY) if address else b""
        if len(head) < _LEGACY:
            return cls(0, b"")
        magic, size = struct.unpack_from("<2I", head, _SOFTWARE)
        size = size if magic == _MAGIC and _LEGACY < size <= _LARGEST else _LEGACY
        data = read(address, size)
        return cls(address, data if len(data) == size else b"")

    @property
    def real(self) -> int:
        """The lower half of xmm0."""
        data = self.data
        if len(data) > _LEGACY and not data[_LEGACY] & _SSE:
            return 0
        return int.from_bytes(data[_XMM : _XMM + 8], "little")

    def enter(self, write: Callable[[int, bytes], None], reals: Sequence[int]) -> None:
        """Let the first registers for numbers with a point have these bits."""
        if not reals:
            return
        if not self.data:
            raise UsageError("the registers for numbers with a point cannot be reached here")
        data = bytearray(self.data)
        if len(data) > _LEGACY:
            if not data[_LEGACY] & _SSE:
                data[_XMM : _XMM + 256] = bytes(256)
            data[_LEGACY] |= _SSE
        for number, bits in enumerate(reals[:_REALS]):
            at = _XMM + 16 * number
            data[at : at + 16] = bits.to_bytes(16, "little")
        write(self.address, bytes(data))

    def restore(self, write: Callable[[int, bytes], None], saved: _State) -> None:
        """Let them be again what they were."""
        if self.data and len(self.data) == len(saved.data):
            write(self.address, saved.data)
        elif self.data and saved.data:  # of what is there now the rest is as at the start
            write(self.address, saved.data[: min(len(saved.data), len(self.data))])


def _placed(given: Arguments) -> tuple[dict[str, int], list[int], list[int]]:
    """The registers of arguments, those for numbers with a point, and what is on the stack."""
    registers: dict[str, int] = {}
    reals: list[int] = []
    stack: list[int] = []
    for bits, is_real in given.words:
        if is_real and len(reals) < _REALS:
            reals.append(bits)
        elif not is_real and len(registers) < len(_INTEGERS):
            registers[_INTEGERS[len(registers)]] = bits
        else:
            stack.append(bits)
    return registers, reals, stack
