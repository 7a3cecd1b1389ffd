"""Where a session's memory is: the slab, processes, files they map.  Start from `memory`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["Pages", "memory", "pages"]


class Pages(NamedTuple):
    """Bytes of one process: `own` that are no file's, and its share of the `files` it maps."""

    own: int
    files: int


def pages(pid: int) -> Pages:
    """What a process holds, the slab left out; zeros where that cannot be read.

    Source: proc(5), `/proc/PID/smaps_rollup`: Anonymous, and Pss_File, where a page that n
    processes map counts for one n-th in each.  Pages of the slab are neither.
    """
    own = files = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("Anonymous:"):
                    own = int(line.split()[1]) << 10
                elif line.startswith("Pss_File:"):
                    files = int(line.split()[1]) << 10
    except OSError:
        pass
    return Pages(own, files)


def memory(session: Core) -> dict[str, Any]:
    """The whole account, in bytes.

    `zones` is `Arena.usage()`; `regions` what of each region of the slab occupies memory now and
    `slab` their sum; `kernel`, `executor` and `workers` (`own`) are the processes' own memory
    without the slab; `files` the pages of programs and libraries that they map, each counted once.
    `total` is exactly slab + kernel + executor + workers + files: what a container has to hold,
    though the system drops pages of files when it needs room.  `object_cache` is on disk and in
    no sum: see `CacheMemory`; None: off.
    """
    engine = session.engine
    regions = engine.arena.resident_regions()
    kernel = pages(os.getpid())
    executor = pages(engine.executor.pid) if engine.started else Pages(0, 0)
    workers: list[dict[str, Any]] = []
    files = kernel.files + executor.files
    for pid, role, compiles in engine.pool.processes():
        held = pages(pid)
        files += held.files
        workers.append({"pid": pid, "role": role, "own": held.own, "compiles": compiles})
    slab = sum(regions.values())
    return {
        "zones": engine.arena.usage(),
        "regions": regions,
        "slab": slab,
        "kernel": kernel.own,
        "executor": executor.own,
        "workers": workers,
        "files": files,
        "thunks": engine.thunk_bytes() if engine.started else 0,
        "cells": len(session.program.cells) if engine.started else 0,
        "symbols": len(engine.linker.symbols) if engine.started else 0,
        "object_cache": asdict(engine.pool.cache.memory()) if engine.pool.cache else None,
        "undo": session.history.bytes if engine.started else 0,
        "total": slab + kernel.own + executor.own + sum(w["own"] for w in workers) + files,
    }
