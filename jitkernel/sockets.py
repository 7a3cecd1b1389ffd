"""Sockets between processes of one machine.  Start from `pair`.

What the module `socket` has besides is for networks, and takes two milliseconds of the start of
each process that imports it; what it is made of is here as it is.
"""

from __future__ import annotations

import _socket
from _socket import MSG_DONTWAIT, MSG_PEEK, SHUT_WR, SOCK_SEQPACKET, SOCK_STREAM
from _socket import socket as Socket
from collections.abc import Sequence

__all__ = [
    "MSG_DONTWAIT",
    "MSG_PEEK",
    "SHUT_WR",
    "SOCK_SEQPACKET",
    "SOCK_STREAM",
    "Socket",
    "pair",
    "receive_files",
    "send_files",
]

_SIZE = 4  # bytes of a descriptor's number


def pair(kind: int) -> tuple[Socket, Socket]:
    """Two sockets that are connected."""
    return _socket.socketpair(_socket.AF_UNIX, kind, 0)


def send_files(sock: Socket, data: bytes, files: Sequence[int]) -> None:
    """Send bytes, and copies of descriptors with them (unix(7), SCM_RIGHTS).  Raises OSError."""
    numbers = memoryview(bytearray(_SIZE * len(files))).cast("i")
    for at, file in enumerate(files):
        numbers[at] = file
    sock.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers.cast("B"))])


def receive_files(sock: Socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """At most so many bytes, none at the end of the stream, and the descriptors that came along."""
    data, more, _, _ = sock.recvmsg(size, _socket.CMSG_LEN(_SIZE * most))
    files: list[int] = []
    for level, kind, numbers in more:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            whole = len(numbers) - len(numbers) % _SIZE
            files += memoryview(numbers)[:whole].cast("i").tolist()
    return data, files
