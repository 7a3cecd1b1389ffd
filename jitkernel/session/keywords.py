"""Settings as keywords of `Session` and of `Session.restore`, for checkers of types.

Written by `tools/make_keywords.py` from the fields of `SessionSettings`, which say what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypedDict


class Again(TypedDict, total=False):
    """The keywords of `Session.restore`."""

    capacity: int
    base: int
    undo_depth: int
    undo_data: int
    results_kept: int
    opt_level: int
    passes: str
    inlining: bool
    cpu: str
    timeout: float
    worker_memory_limit: int
    workers: int
    spare: bool
    prelude: bool
    clang: str
    clang_flags: str
    interrupt_grace: float
    cell_timeout: float
    executor_memory_limit: int
    stack_size: int
    env: Mapping[str, str]
    cwd: str
    symbol_folder: str | os.PathLike[str]
    store_path: str | os.PathLike[str]
    autosave: bool
    object_cache: bool
    object_cache_size: int
    context: Literal["throwaway", "shared", "kept"]
    budget: int
    executor: Literal["process", "inline"]


class Given(Again, total=False):
    """The keywords of `Session`."""

    trust: bool
