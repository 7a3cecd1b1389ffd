"""The vector registers of a thread that stands: a ucontext_t has them elsewhere.

Start from `Vectors.of`.  Source: asm/sigcontext.h, `struct _fpstate_64` and the header behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jitkernel.errors import UsageError

__all__ = ["REALS", "Vectors"]

REALS = 8  # registers for arguments that are numbers with a point (psABI 3.2.3)
# Of a ucontext_t, and of what it leads to: registers, the magic number and the size of all, which
# parts are there.
_UC_FPREGS, _XMM, _SOFTWARE, _LEGACY = 224, 160, 464, 512
_MAGIC = 0x46505853
_SSE = 2
_LARGEST = 1 << 16  # bytes of it


class Vectors(NamedTuple):
    """The address and the bytes of them; no bytes where that cannot be told."""

    address: int
    data: bytes

    @classmethod
    def of(cls, read: Callable[[int, int], bytes], context: int) -> Vectors:
        """Those of the ucontext at an address, 0 where there is none."""
        address = int.from_bytes(read(context + _UC_FPREGS, 8), "little") if context else 0
        head = read(address, _LEGACY) if address else b""
        if len(head) < _LEGACY:
            return cls(0, b"")
        magic, size = struct.unpack_from("<2I", head, _SOFTWARE)
        size = size if magic == _MAGIC and _LEGACY < size <= _LARGEST else _LEGACY
        data = read(address, size)
        return cls(address, data if len(data) == size else b"")

    @property
    def registers(self) -> dict[str, int]:
        """The lower 16 bytes of each, by name."""
        data = self.data
        if len(data) > _LEGACY and not data[_LEGACY] & _SSE:
            data = bytes(_LEGACY)  # they are what they were at the start
        return {
            f"xmm{number}": int.from_bytes(data[at : at + 16], "little")
            for number, at in enumerate(range(_XMM, _XMM + 256, 16) if data else ())
        }

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
        for number, bits in enumerate(reals[:REALS]):
            at = _XMM + 16 * number
            data[at : at + 16] = bits.to_bytes(16, "little")
        write(self.address, bytes(data))

    def restore(self, write: Callable[[int, bytes], None], saved: Vectors) -> None:
        """Let them be again what they were."""
        if self.data and saved.data:  # of what is there now the rest is as at the start
            write(self.address, saved.data[: len(self.data)])
