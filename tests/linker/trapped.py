"""Runs code that has breakpoints, in a child of this process whose signal handler goes on through
their slots (trapped.c); the oracle is the processor, which does one instruction at a time."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import select
import signal
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from native import mapped
from toolchain import tool

from jitkernel.arena import Arena, Extent
from jitkernel.linker.breakpoints import Breakpoints

__all__ = ["REGISTERS", "Call", "Outcome", "Runs", "in_child"]

T = TypeVar("T")

#: The order of gregs in <sys/ucontext.h>.
REGISTERS = "r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags".split()
_ROOM = 1 << 16


class _Result(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("rax", "xmm0", "signal", "count", "hash", "path")),
        ("registers", ctypes.c_uint64 * 18),
    ]


class Call(NamedTuple):
    """A function's address, what its first two parameters and its first two of floating point get
    (the third is a buffer); `exact`: its registers are the same each time."""

    function: int
    a: int = 0
    b: int = 0
    x: float = 1.5
    exact: bool = True


class Outcome(NamedTuple):
    """What a call left: results, a signal, memory; the instructions that were noted, how many, and
    two hashes: of all registers at each, of their addresses."""

    rax: int
    xmm0: int
    signal: int
    memory: int
    registers: dict[str, int]
    count: int
    hash: int
    path: int
    noted: list[tuple[int, int]]

    @property
    def effect(self) -> tuple[int, ...]:
        return self.rax, self.xmm0, self.signal, self.memory


@functools.cache
def _library() -> Any:
    source = Path(__file__).with_name("trapped.c")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "trapped.so"))
        tool("gcc", "-O1", "-mno-red-zone", "-shared", "-fPIC", "-o", out, str(source))
        return ctypes.CDLL(out)


class Runs:
    """Calls with the breakpoints of an arena, which note instructions in `code`; only in a
    child."""

    def __init__(self, arena: Arena, breakpoints: Breakpoints, code: Extent):
        self.arena, self.breakpoints, self.code = arena, breakpoints, code
        self._library = _library()
        self._library.set_up()
        self._result = _Result.in_dll(self._library, "result")
        self._noted = ((ctypes.c_uint64 * 2) * 100_000).in_dll(self._library, "noted")
        self._buffer = ctypes.create_string_buffer(_ROOM)
        zone = arena.zones["data"]
        self._data = slice(zone.start - arena.base, zone.high - arena.base)
        self._first = bytes(arena.view[self._data])

    def stack(self, address: int, size: int) -> bytes | None:
        """Bytes of the stack that calls ran on."""
        start = ctypes.c_void_p.in_dll(self._library, "stack").value or 0
        if start <= address and address + size <= start + (1 << 20):
            return ctypes.string_at(address, size)
        return None

    def __call__(self, call: Call, stepping: bool = False) -> Outcome:
        """Run it once, from the same memory as ever."""
        self.arena.view[self._data] = self._first
        ctypes.memmove(self._buffer, bytes(range(256)) * (_ROOM // 256), _ROOM)
        rows = [word for row in self.breakpoints.table() for word in row]
        table = (ctypes.c_uint64 * max(len(rows), 1))(*rows)
        buffer = ctypes.addressof(self._buffer)
        given = (ctypes.c_uint64 * 4)(call.a & (1 << 64) - 1, call.b & (1 << 64) - 1, buffer, 0)
        code, u64 = self.code, ctypes.c_uint64
        self._library.run(
            u64(call.function), given, ctypes.c_double(call.x), int(stepping), u64(code.start),
            u64(code.start + code.size), table, u64(len(rows) // 2),
        )  # fmt: skip
        r = self._result
        registers = dict(zip(REGISTERS, r.registers, strict=True))
        registers["eflags"] &= ~0x10100  # TF, RF
        memory = hash(bytes(self.arena.view[self._data]) + self._buffer.raw)
        noted = [(n[0], n[1]) for n in self._noted[: min(r.count, 100_000)]]
        return Outcome(
            r.rax, r.xmm0, r.signal, memory, registers, r.count, r.hash, r.path, noted
        )  # fmt: skip


def in_child(arena: Arena, work: Callable[[], T], seconds: float = 40) -> T:
    """What `work` returns in a child that has the arena where its code expects it."""
    _library()
    with mapped(arena):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _work(work, writer)
        os.close(writer)
        data = b""
        try:
            while select.select([reader], [], [], seconds)[0] and (part := os.read(reader, 65536)):
                data += part
        finally:
            os.close(reader)
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
    assert data, f"the child ended with status {status:#x}"
    fine, found = pickle.loads(data)
    assert fine, found
    return found


def _work(work: Callable[[], Any], writer: int) -> None:
    """The child's life."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        answer = True, work()
    except BaseException:
        answer = False, traceback.format_exc()
    try:
        data = pickle.dumps(answer)
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def first_difference(one: Sequence[Any], other: Sequence[Any]) -> str:
    """Where two lists of what was noted part."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return f"number {i}: {a[0]:#x} and {b[0]:#x}, before that {one[max(i - 1, 0)][0]:#x}"
    return f"one has {len(one)}, the other {len(other)}"
