"""Frames between the kernel process and a worker.  Start from `frame` and `Inbox`.

A frame is two little-endian lengths, a JSON header and raw bytes: source text one way, an object
the other.  Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

__all__ = ["Inbox", "frame"]

LENGTHS = struct.Struct("<IQ")  # bytes of JSON, bytes of blob
_CHUNK = 1 << 16

_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_loads = json.JSONDecoder().decode


def frame(header: Any, blob: bytes = b"") -> bytes:
    """The bytes of one frame."""
    text = _dumps(header).encode()
    return LENGTHS.pack(len(text), len(blob)) + text + blob


class Inbox:
    """The receiving end of a socket: frames in order, bytes of the next one kept until asked for."""

    __slots__ = ("_data", "_sock")

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._data = b""

    def receive(self) -> tuple[Any, bytes]:
        """Wait for one frame: header and blob.  Raises EOFError at the end of the stream."""
        data = self._data or self._sock.recv(_CHUNK)
        if len(data) < LENGTHS.size:
            data = self._more(data, LENGTHS.size)
        text, blob = LENGTHS.unpack_from(data)
        middle = LENGTHS.size + text
        end = middle + blob
        if len(data) < end:
            data = self._more(data, end)
        self._data = data[end:]
        return _loads(data[LENGTHS.size : middle].decode()), data[middle:end]

    def fill(self) -> bool:
        """Take what a socket that does not block has now; False at the end of the stream."""
        try:
            part = self._sock.recv(1 << 20)
        except BlockingIOError:
            return True
        self._data += part
        return bool(part)

    def next(self) -> tuple[Any, bytes] | None:
        """A frame that `fill` has completed, if there is one."""
        data = self._data
        if len(data) < LENGTHS.size:
            return None
        text, blob = LENGTHS.unpack_from(data)
        middle = LENGTHS.size + text
        end = middle + blob
        if len(data) < end:
            return None
        self._data = data[end:]
        return _loads(data[LENGTHS.size : middle].decode()), data[middle:end]

    def _more(self, data: bytes, wanted: int) -> bytes:
        """`data` and what follows it, at least `wanted` bytes."""
        if not data:
            raise EOFError
        whole = bytearray(data)
        while len(whole) < wanted:
            part = self._sock.recv(max(_CHUNK, min(wanted - len(whole), 1 << 20)))
            if not part:
                raise EOFError
            whole += part
        return bytes(whole)
