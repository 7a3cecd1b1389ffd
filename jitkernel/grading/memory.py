"""Memory for the arguments of a check, with pages on either side that nobody may touch.

In the executor's own memory, not in the arena: a value begins where its pages begin, or ends where
they end (`at_end`), so that reading or writing one byte beside it is a fault.  What is left of the
pages is filled, and told if it was written to.  Start from `Memory.place`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError
from jitkernel.grading.inputs import Kind, capacity, decode, encode, told
from jitkernel.procfs import memory, write_memory
from jitkernel.session.program.signatures import Signature

if TYPE_CHECKING:
    from jitkernel.session.run.calls import Scratch

PAGE = 4096  # bytes
_FILL = b"\xa5"
_NOTHING, _READ_WRITE, _OWN = 0, 3, 0x22  # PROT_NONE, PROT_READ|WRITE, MAP_PRIVATE|ANONYMOUS


def _signature(type: str) -> Signature:
    return Signature(type, "", "", "", type)


_MMAP = _signature("ptr (ptr, i64, i32, i32, i32, i64)")  # mmap(2)
_MPROTECT = _signature("i32 (ptr, i64, i32)")
_MUNMAP = _signature("i32 (ptr, i64)")


@dataclass(slots=True)
class _Room:
    """The `size` bytes from `start` that an argument may use; its `data` is at `at`."""

    kind: Kind
    start: int
    size: int
    at: int = 0
    data: bytes = b""
    what: str = ""  # the value in words

    @property
    def end(self) -> int:
        return self.start + self.size


class Memory:
    """The rooms of a function's arguments, None for those that are no pointers."""

    def __init__(self, scratch: Scratch, kinds: Sequence[Kind]):
        self._scratch, self._kinds = scratch, kinds
        self._process, self._rooms = (0, 0), list[_Room | None]()
        self.used = any(kind.in_memory for kind in kinds)

    def place(self, values: Sequence[Any], at_end: bool) -> list[Any]:
        """The arguments of a call, for the values of all of them: pointers to what was written."""
        if not self.used:
            return list(values)
        executor = self._scratch.engine.executor
        if self._process != (executor.pid, executor.generation) or not self._write(values, at_end):
            self._map()  # the process is new, or ended just now
            if not self._write(values, at_end):
                raise JitError("the system does not let the check write the program's memory")
        rooms = zip(self._rooms, values, strict=True)
        return [value if room is None else room.at for room, value in rooms]

    def after(self) -> tuple[list[tuple[Kind, Any]], str]:
        """Kind and value of what each pointer leads to now, and beside which value something was
        written, in words; empty where nothing was."""
        left, outside = list[tuple[Kind, Any]](), ""
        for room in self._used_rooms():
            content, offset = memory(self._process[0], room.start, room.size), room.at - room.start
            stop = offset + len(room.data)
            left.append((room.kind, decode(room.kind, content[offset:stop])))
            if content[:offset].strip(_FILL):
                outside = outside or f"in front of {room.what}"
            if content[stop:].strip(_FILL):
                outside = outside or f"behind the end of {room.what}"
        return left, outside

    def beside(self, address: int) -> str:
        """The value beside which an address is that nobody may touch, in words."""
        for room in self._used_rooms():
            if room.start - PAGE <= address < room.start:
                return f"in front of {room.what}"
            if room.end <= address < room.end + PAGE:
                return f"behind the end of {room.what}"
        return ""

    def within(self, pointer: int) -> tuple[int, int] | None:
        """The argument that a pointer leads into, from 1, and the distance from its beginning."""
        for number, room in enumerate(self._rooms, 1):
            if room is not None and room.at <= pointer <= room.at + capacity(room.kind):
                return number, pointer - room.at
        return None

    def release(self) -> None:
        """Give the pages back."""
        executor = self._scratch.engine.executor
        if self._process == (executor.pid, executor.generation):
            for room in self._used_rooms():
                self._call("munmap", _MUNMAP, room.start - PAGE, room.size + 2 * PAGE)
        self._rooms = []

    def _used_rooms(self) -> Iterator[_Room]:
        return (room for room in self._rooms if room is not None)

    def _call(self, name: str, signature: Signature, *arguments: int) -> int:
        (address,) = self._scratch.engine.executor.services.lookup([name])
        result = self._scratch.call_at(address, signature, arguments)
        return int(result.python) if result is not None and result.python is not None else 0

    def _map(self) -> None:
        self._rooms = []
        for kind in self._kinds:
            if not kind.in_memory:
                self._rooms.append(None)
                continue
            size = -(-capacity(kind) // PAGE) * PAGE
            start = self._call("mmap", _MMAP, 0, size + 2 * PAGE, _NOTHING, _OWN, -1, 0) + PAGE
            self._call("mprotect", _MPROTECT, start, size, _READ_WRITE)
            self._rooms.append(_Room(kind, start, size))
        executor = self._scratch.engine.executor
        self._process = executor.pid, executor.generation

    def _write(self, values: Sequence[Any], at_end: bool) -> bool:
        """Write each value, and the fill around it; False where that was refused."""
        for room, value in zip(self._rooms, values, strict=True):
            if room is None:
                continue
            room.data, room.what = encode(room.kind, value), told(room.kind, value)
            rest = _FILL * (room.size - len(room.data))
            room.at = room.start + (len(rest) if at_end else 0)
            content = rest + room.data if at_end else room.data + rest
            if write_memory(self._process[0], room.start, content) != room.size:
                return False
        return True
