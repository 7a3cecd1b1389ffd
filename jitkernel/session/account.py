"""Where a session's memory is: zones, processes, thunks.  Start from `memory`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.session.session import Session

__all__ = ["memory", "own_bytes"]


def own_bytes(pid: int) -> int:
    """Bytes of a process that are its own (USS), without the slab; 0 where it cannot be read.

    Source: proc(5), `/proc/PID/smaps`: Private_Clean and Private_Dirty.
    """
    total = 0
    ours = False
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("Private_"):
                    if not ours:
                        total += int(line.split()[1]) * 1024
                elif line[0] in "0123456789abcdef" and "-" in line.split(None, 1)[0]:
                    ours = "memfd:jitkernel" in line
    except OSError:
        return 0
    return total


def memory(session: Session) -> dict[str, Any]:
    """The whole account, in bytes.

    `zones` is `Arena.usage()`; `slab` what of the slab occupies memory now; `kernel`, `executor`
    and `workers` are the processes' own memory without the slab; `total` is their sum with the
    slab counted once.  `object_cache` is on disk and in no sum: see `CacheMemory`; None: off.
    """
    engine = session.engine
    zones = engine.arena.usage()
    slab = engine.arena.resident()
    kernel = own_bytes(os.getpid())
    executor = own_bytes(engine.executor.pid) if engine.started else 0
    pool = engine.pool.memory()
    workers = [{"pid": w.pid, "role": w.role, "uss": w.uss, "compiles": w.compiles} for w in pool]
    return {
        "zones": zones,
        "slab": slab,
        "kernel": kernel,
        "executor": executor,
        "workers": workers,
        "thunks": engine.thunk_bytes() if engine.started else 0,
        "cells": len(session.program.cells) if engine.started else 0,
        "symbols": len(engine.linker.symbols) if engine.started else 0,
        "object_cache": asdict(engine.pool.cache.memory()) if engine.pool.cache else None,
        "undo": session.history.bytes if engine.started else 0,
        "total": slab + kernel + executor + sum(w.uss for w in pool),
    }
