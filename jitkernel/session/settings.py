"""What a session is started with.  Start from `SessionSettings`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jitkernel.errors import UsageError

__all__ = ["SessionSettings", "settings_with"]


@dataclass(slots=True)
class SessionSettings:
    """Sizes are bytes, times seconds; 0 means no limit where a limit is meant.

    What is read when a session starts: capacity, base, workers, spare, executor_memory_limit,
    stack_size, env, cwd, store_path, autosave, trust, object_cache, object_cache_size.  All else
    takes effect with the next cell.

    `store_path` is the session's file; one that is there already is gone on with.  `autosave`
    writes to it after each cell (else when the session closes), so that a session whose process was
    killed is there up to its last cell.  `trust` loads the libraries that a session's file names:
    a library runs code of its own when it is loaded, and whoever wrote the file chose which.

    `undo_data` is how much of the data zone an undo can bring back whatever a run wrote there; four
    times as many bytes of old values are kept for all steps together.

    `object_cache` keeps compiled code on disk for other sessions of this user (a kernel does; a
    library writes to nobody's home unasked).  `context` is `throwaway`, `shared` or `kept`.
    """

    capacity: int = 1 << 30
    base: int = 0
    undo_depth: int = 20
    undo_data: int = 64 << 20
    results_kept: int = 100
    opt_level: int = 2
    passes: str = ""
    cpu: str = "native"
    timeout: float = 60.0
    worker_memory_limit: int = 512 << 20
    workers: int = 1
    spare: bool = True
    prelude: bool = True
    interrupt_grace: float = 2.0
    cell_timeout: float = 0.0
    executor_memory_limit: int = 0
    stack_size: int = 8 << 20
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    store_path: str = ""
    autosave: bool = False
    trust: bool = False
    object_cache: bool = False
    object_cache_size: int = 256 << 20
    context: str = "throwaway"
    budget: int = 0


def settings_with(
    settings: SessionSettings | None, overrides: Mapping[str, Any]
) -> SessionSettings:
    """Settings, or the defaults, with some of them replaced.  Raises UsageError for other names."""
    known = {f.name for f in fields(SessionSettings)}
    for name in overrides:
        if name not in known:
            raise UsageError(
                f"Session has no setting {name!r}; there are {', '.join(sorted(known))}"
            )
    return replace(settings or SessionSettings(), **overrides)
