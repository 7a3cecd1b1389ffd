"""What became of a call that did not simply return, as shared memory and the exit status tell.

Nothing here asks the process, which may be gone.  Start from `ExitReport.record`.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable, Sequence

from jitkernel.executor import abi, control
from jitkernel.executor.records import FaultRecord, Outcome, decode_record, signal_name

__all__ = ["LOST", "ExitReport", "left_library"]

_RECORD = struct.Struct(f"<{len(control.RECORD)}Q")

LOST = (
    "the executor was started again: memory from malloc, open files and threads are lost; "
    "functions and globals in the arena are as they were"
)


class ExitReport:
    """Reads the control block, which begins at `data` in `view`; `get` reads a word of it."""

    def __init__(self, get: Callable[[str], int], view: memoryview, data: int):
        self._get, self._view, self._data = get, view, data

    def record(self, seq: int, cause: str, generation: int) -> tuple[str, FaultRecord | None]:
        """Kind and fault record of a call; None where nothing was recorded."""
        words = _RECORD.unpack_from(self._view, self._data + control.RECORD_AT)
        if words[control.RECORD["seq"]] != seq:
            return "died", None
        at = self._data + control.STACK_AT
        stack = bytes(self._view[at : at + control.STACK_SIZE])
        return decode_record(words, stack, generation, cause, self._get("pid"))

    def process_ended(
        self, status: int, seq: int, result: bytes, cause: str, stopped: bool, generation: int
    ) -> Outcome:
        """What is known of the call whose process ended with `status`; `stopped`: on our wish."""
        kind, record = self.record(seq, cause, generation)
        bare = FaultRecord(cause=cause, stdin_refused=cause == "stdin", generation=generation)
        done = self._get("progress")
        how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended with {status}"
        if status == abi.NO_SOCKET:
            how = "lost its descriptors, which the cell closed"
        if self._get("done_seq") == seq and not self._get("done_stopped"):
            return Outcome("ok", result, respawned=True, lost=f"the executor {how}; {LOST}")
        started = self._get("seq") == seq
        if stopped and status == -signal.SIGKILL:
            kind, record = "interrupted", record or bare
        elif record is None and status >= 0 and started:
            kind, record = "exit", FaultRecord(cause="exit", status=status, generation=generation)
        if record is not None:
            return Outcome(kind, record=record, respawned=True, lost=LOST, done=done)
        lost = f"the executor {how}; {LOST}"
        return Outcome("died", respawned=True, lost=lost, started=started, done=done)


def left_library(record: FaultRecord, codes: Sequence[range]) -> bool:
    """Whether the stack may hold frames of a library: it may own locks that are never freed."""
    if not codes:
        return True
    low, high = min(c.start for c in codes), max(c.stop for c in codes)
    words = struct.unpack(f"<{len(record.stack) // 8}Q", record.stack[: len(record.stack) & -8])
    return any(low <= w < high and any(w in c for c in codes) for w in words)
