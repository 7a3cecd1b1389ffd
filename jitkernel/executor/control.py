"""The control block: the words and buffers of the slab that this process shares with the runtime.

Where each of them is says abi.py; session code can write to all.  Start from `ControlBlock`.
"""

from __future__ import annotations

import struct

from jitkernel.executor import abi

_WORD = struct.Struct("<Q")


class ControlBlock:
    """The block, at index `start` of the slab's `view`, and at `address` where code runs.

    `control["seq"]` is the control word of that name.  Offsets of buffers are from its beginning.
    """

    __slots__ = ("address", "start", "view")

    def __init__(self, view: memoryview, start: int, address: int = 0):
        self.view, self.start, self.address = view, start, address

    def __getitem__(self, name: str) -> int:
        return int(_WORD.unpack_from(self.view, self.start + abi.FIELDS[name])[0])

    def __setitem__(self, name: str, value: int) -> None:
        # All of it at once, for threads that look: `pack_into` makes it zero first.
        at = self.start + abi.FIELDS[name]
        self.view[at : at + _WORD.size] = _WORD.pack(value)

    def read(self, offset: int, size: int) -> bytes:
        """A copy of `size` bytes at an offset."""
        at = self.start + offset
        return bytes(self.view[at : at + size])

    def write(self, offset: int, data: bytes) -> None:
        """Copy bytes to an offset."""
        at = self.start + offset
        self.view[at : at + len(data)] = data
