"""A limit on memory as containers have it, where this system lets one be made.  Start from
`confined`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Container", "confined", "descendants", "shared_out"]

_ROOT = Path("/sys/fs/cgroup")


class Container:
    """A control group with a limit in bytes; cgroup-v2.rst and cgroup-v1/memory.rst name the
    files."""

    def __init__(self, folder: Path, second: bool):
        self.folder, self._second = folder, second

    @property
    def peak(self) -> int:
        """The most bytes charged to it so far, page cache included; 0 where it is not told."""
        name = "memory.peak" if self._second else "memory.max_usage_in_bytes"
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):
            return 0

    @property
    def killed(self) -> int:
        """How many of its processes the system killed for memory."""
        name = "memory.events" if self._second else "memory.oom_control"
        try:
            lines = (self.folder / name).read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _create(limit: int) -> Container | None:
    second = (_ROOT / "cgroup.controllers").exists()
    parent = _ROOT if second else _ROOT / "memory"
    folder = parent / f"jitkernel-{os.getpid()}"
    try:
        folder.mkdir()
        limits = ("memory.max",) if second else ("memory.limit_in_bytes",)
        for name in limits:
            (folder / name).write_text(str(limit))
    except OSError:
        if folder.is_dir():
            folder.rmdir()
        return None
    for name in ("memory.swap.max", "memory.swappiness"):
        try:
            (folder / name).write_text("0")
        except OSError:
            pass
    return Container(folder, second)


@contextmanager
def confined(limit: int) -> Iterator[Container | None]:
    """This process and those it starts from now on within `limit` bytes; None where that takes
    rights which we do not have."""
    container = _create(limit)
    back = None
    if container is not None:
        back = _own_group(container)
        (container.folder / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield container
    finally:
        if container is not None and back is not None:
            (back / "cgroup.procs").write_text(str(os.getpid()))
            try:
                container.folder.rmdir()
            except OSError:
                pass  # a process of it is still ending


def _own_group(container: Container) -> Path:
    """The folder of the group that this process is in."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers if container._second else "memory" in controllers.split(","):
            return container.folder.parent / path.lstrip("/")
    return container.folder.parent


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            for child in map(int, children):
                found += [child, *descendants(child)]
    except OSError:
        pass
    return found


def shared_out(pid: int) -> int:
    """Bytes of a process, where a page that n processes map counts for one n-th.

    Over all processes of a session each page is counted once, the slab's too.  Source: proc(5),
    Pss.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as lines:
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    except OSError:
        return 0
