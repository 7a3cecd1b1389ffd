"""Frames, however the bytes arrive."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from jitkernel.compiler.wire import FrameReader, frame

FRAMES = [({"a": 1}, b""), ({"text": "ü\n"}, b"blob"), ([], b"x" * 300_000), ({}, b"\0")]
BYTES = b"".join(frame(header, blob) for header, blob in FRAMES)


@pytest.mark.parametrize("size", [1, 7, 4096, len(BYTES)])
@pytest.mark.parametrize("spin", [0, 100_000])
def test_receive(size: int, spin: int) -> None:
    ours, theirs = socket.socketpair()
    data = BYTES if size > 1 else frame(*FRAMES[0]) + frame(*FRAMES[1])
    wanted = FRAMES if size > 1 else FRAMES[:2]

    def send() -> None:
        with theirs:
            for at in range(0, len(data), size):
                theirs.sendall(data[at : at + size])

    sender = threading.Thread(target=send)
    sender.start()
    with ours:
        inbox = FrameReader(ours)
        assert [inbox.receive(spin) for _ in wanted] == wanted
        with pytest.raises(EOFError):
            inbox.receive(spin)
    sender.join()


@pytest.mark.parametrize("sent", [b"", frame({"n": 1}, b"12")[:-1]])
def test_a_frame_that_does_not_come(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(sent)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            FrameReader(ours).receive(1_000_000, 0.1)
        assert 0.09 < time.monotonic() - began < 2
