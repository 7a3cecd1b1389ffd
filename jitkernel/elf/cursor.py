"""Numbers in debug sections and unwind tables, read one after the other.  Start from `Cursor`."""

from __future__ import annotations

__all__ = ["Cursor"]


class Cursor:
    """Reads numbers from `data`, little-endian, from position `at` on.  Raises IndexError where
    they end too early."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes | bytearray, at: int = 0):
        self.data, self.at = data, at

    def byte(self) -> int:
        """The next byte."""
        value = self.data[self.at]
        self.at += 1
        return value

    def fixed(self, size: int, signed: bool = False) -> int:
        """A number of `size` bytes."""
        return int.from_bytes(self.bytes(size), "little", signed=signed)

    def bytes(self, size: int) -> bytes:
        """So many bytes."""
        found = bytes(self.data[self.at : self.at + size])
        if len(found) < size:
            raise IndexError("the data ends in the middle of a field")
        self.at += size
        return found

    def uleb(self) -> int:
        """An unsigned number in groups of seven bits (DWARF 7.6)."""
        return self._leb()[0]

    def sleb(self) -> int:
        """A signed one."""
        value, bits = self._leb()
        return value - (1 << bits) if value >> bits - 1 else value

    def _leb(self) -> tuple[int, int]:
        data, at, value, shift = self.data, self.at, 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.at = at
                return value, shift

    def text(self) -> str:
        """A text up to its NUL."""
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return found
