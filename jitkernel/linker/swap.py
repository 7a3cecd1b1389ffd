"""Hibernated code on disk, in a file without a name.  Start from `SwapFile`."""

from __future__ import annotations

import os
import tempfile

from jitkernel.arena import FreeList
from jitkernel.linker.records import Image
from jitkernel.rollback import RecordedDict, later

__all__ = ["SwapFile"]

_ROOM = 1 << 40  # bytes of addresses; the file is as long as what was ever in it at once


class SwapFile:
    """Bytes by image, on disk from `put` to `drop`; the file goes with the process.

    It is a copy for speed: what the disk has no room for is made again from the image's object.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._room = FreeList(0, _ROOM)
        self._at: RecordedDict[Image, int] = RecordedDict()

    def put(self, image: Image, data: bytes) -> bool:
        """Keep bytes for an image that has none here; False where the disk is full."""
        at = self._room.take(len(data))
        if at is None:
            return False
        try:
            if self._fd < 0:
                self._fd, path = tempfile.mkstemp(prefix="jitkernel-", suffix=".code")
                os.unlink(path)
            whole = os.pwrite(self._fd, data, at) == len(data)
        except OSError:
            whole = False
        if whole:
            self._at[image] = at
        else:
            self._room.give(at)
        return whole

    def get(self, image: Image) -> bytes | None:
        """What is kept for an image; None where there is nothing."""
        at = self._at.get(image)
        if at is None:
            return None
        size = self._room.live[at]
        try:
            data = os.pread(self._fd, size, at)
        except OSError:
            return None
        return data if len(data) == size else None

    def drop(self, image: Image) -> None:
        """Forget what is kept for an image, if there is something."""
        at = self._at.pop(image, None)
        if at is not None:
            later(self._give, at)  # the bytes may be wanted again until then

    def _give(self, at: int) -> None:
        if at in self._room.live:
            self._room.give(at)
        else:  # an earlier call was interrupted
            self._room.rebuild()

    @property
    def size(self) -> int:
        """Bytes on disk that are in use."""
        return self._room.used

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._at.clear()
