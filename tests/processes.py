"""What becomes of processes."""

from __future__ import annotations

from tests.busy import until


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid: int, seconds: float = 60) -> bool:
    """Whether a process ends within some seconds."""
    return until(lambda: not runs(pid), seconds)
