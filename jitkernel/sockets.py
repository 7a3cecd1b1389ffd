"""Sockets between processes of one machine.  Start from `pair`.

What the module `socket` has besides is for networks, and takes two milliseconds of the start of
each process that imports it; what it is made of is here as it is.
"""

from __future__ import annotations

import _socket
from _socket import MSG_DONTWAIT, MSG_PEEK, SHUT_WR, SOCK_SEQPACKET, SOCK_STREAM
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


class Socket(_socket.socket):
    """One that is closed when nobody has it, and Python does not complain of that: a process that
    ends, or is a fork of a session's, lets go of sockets that others have.  No line of Python runs
    then, in which the handler of a signal could raise what is lost."""

    __slots__ = ()
    __del__ = _socket.socket.close


def pair(kind: int) -> tuple[Socket, Socket]:
    """Two sockets that are connected."""
    one, other = _socket.socketpair(_socket.AF_UNIX, kind, 0)
    return _taken(one), _taken(other)


def _taken(sock: _socket.socket) -> Socket:
    return Socket(sock.family, sock.type, sock.proto, sock.detach())


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
