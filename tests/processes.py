"""What becomes of processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

from jitkernel import procfs
from tests.busy import until


def python(program: str, *arguments: str, **how: Any) -> str:
    """What a Python program prints, in a process of its own; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True, text=True, timeout=120, check=False, **how,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def computes(pid: int, seconds: float = 0.3) -> bool:
    """Wait until a process and what it has started have computed for some seconds more."""
    used = lambda: sum(map(procfs.processor_time, procfs.family(pid)))  # noqa: E731
    before = used()
    return until(lambda: used() >= before + seconds, 60)


def gone(pid: int, seconds: float = 60) -> bool:
    """Whether a process ends within some seconds."""
    return until(lambda: not runs(pid), seconds)
