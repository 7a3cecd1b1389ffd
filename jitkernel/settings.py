"""What a session is started with: each field says all there is to know of a setting.

Front ends read them before there is a session: no other module of the session is needed for that.
Start from `SessionSettings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from jitkernel.record import record
from jitkernel.setting import documented, setting


@documented
@record(frozen=False)
class SessionSettings:
    """The settings of a session.

    Sizes are bytes, times seconds; 0 means no limit where a limit is meant.
    """

    capacity: int = setting(
        1 << 30, "Arena", "start", "Bytes of the slab, at most 1776M.",
        unit="bytes", most=1776 << 20, because="so that all addresses are in reach",
        short="capacity", saved="always",
    )  # fmt: skip
    base: int = setting(
        0, "Arena", "start", "Address of the slab in the executor; 0: random.", saved="always"
    )
    undo_depth: int = setting(
        20, "Session", "now", "How many cell runs can be undone.", least=0, saved="unless given"
    )
    undo_data: int = setting(
        64 << 20, "", "start",
        "Bytes of the data zone that an undo brings back whatever a run wrote there; four times as"
        " many bytes of old values are kept for all steps together.", unit="bytes",
    )  # fmt: skip
    results_kept: int = setting(
        100, "Session", "now",
        "How many results `_5` can name; of arrays and other large ones 64 MB at most.",
        least=1, saved="unless given",
    )  # fmt: skip
    opt_level: int = setting(
        2, "Compiler", "next cell", "-O0 to -O3.", least=0, most=3, saved="unless given"
    )
    passes: str = setting(
        "", "Compiler", "next cell", "Passes to run instead of the level's own.",
        completes="passes",
    )  # fmt: skip
    inlining: bool = setting(
        True, "Compiler", "next cell",
        "Whether LLVM puts functions and constants of cells into their callers.",
        saved="unless given",
    )  # fmt: skip
    cpu: str = setting(
        "native", "Compiler", "next cell", "The CPU to compile for.",
        short="cpu", completes="cpu", saved="unless given",
    )  # fmt: skip
    timeout: float = setting(
        60.0, "Compiler", "next cell", "Seconds until a compile is given up.",
        unit="seconds", least=0.1,
    )  # fmt: skip
    worker_memory_limit: int = setting(
        512 << 20, "Compiler.memory_limit", "next cell", "Bytes; a larger worker is replaced.",
        unit="bytes",
    )  # fmt: skip
    workers: int = setting(
        1, "Compiler", "start", "Compiler processes beside the spare.",
        least=1, most=64, short="workers",
    )  # fmt: skip
    spare: bool = setting(
        True, "", "start", "Whether a compiler process waits to take the place of one that ends."
    )
    prelude: bool = setting(
        True, "Compiler", "next cell", "Declare the common C functions when used.",
        saved="unless given",
    )  # fmt: skip
    clang: str = setting(
        "", "Compiler", "next cell",
        "The clang that reads C cells: the path of one from 19 on, or a name that the PATH has"
        " (clang-19); empty: that of the package ziglang, which pip install 'jitkernel[c]' brings.",
        language="c",
    )  # fmt: skip
    clang_flags: str = setting(
        "", "Compiler", "next cell",
        "Its flags for C cells, as on a command line: -Wall -I folder -O3 -ffast-math"
        " -march=x86-64-v3 -fopenmp; what no cell can have is refused, and why.",
        language="c", saved="harmless",
    )  # fmt: skip
    interrupt_grace: float = setting(
        2.0, "Executor", "now", "Seconds until an interrupt uses force.", unit="seconds", least=0.0
    )
    cell_timeout: float = setting(
        0.0, "Executor", "now", "Seconds until a cell is interrupted; 0: never.",
        unit="seconds", least=0.0,
        not_inline="nobody can stop code that runs in this process",
    )  # fmt: skip
    executor_memory_limit: int = setting(
        0, "Executor.memory_limit", "start", "Bytes of address space of cells; 0: no limit.",
        unit="bytes", not_inline="the memory is this process's own (resource.setrlimit)",
    )  # fmt: skip
    stack_size: int = setting(
        8 << 20, "Executor", "start", "Bytes of stack of cells.", unit="bytes",
        saved="unless given",
        not_inline="the stack is this process's own (threading.stack_size, ulimit -s)",
    )  # fmt: skip
    env: Mapping[str, str] = setting(
        dict, "Executor", "start", "Environment variables to add.",
        not_inline="the environment is this process's own (os.environ)",
    )  # fmt: skip
    cwd: str = setting(
        "", "Executor", "start", "Working directory; empty: the notebook's.",
        not_inline="the working directory is this process's own (os.chdir)",
    )  # fmt: skip
    symbol_folder: str = setting(
        "", "Executor", "now",
        "Folder in which each process that runs cells has one of its number, with what perf and gdb"
        " read of the code: a jitdump for perf inject --jit, commands for gdb -x; empty: none.",
        takes_path=True,
    )  # fmt: skip
    store_path: str = setting(
        "", "Session", "start",
        "The session's file, written when it ends and gone on with where it is there; empty: a"
        " temporary one.",
        short="session", takes_path=True,
    )  # fmt: skip
    autosave: bool = setting(
        False, "Session", "start",
        "Save after each cell, to store_path or to a file of the notebook's own, which %restore"
        " --last brings back after a restart.",
    )  # fmt: skip
    trust: bool = setting(
        False, "Session", "start",
        "Load the libraries that the session's file names: loading one runs its code, and whoever"
        " wrote the file chose which.",
    )  # fmt: skip
    # A kernel has it; a library writes to nobody's home unasked.
    object_cache: bool = setting(
        False, "ObjectCache.enabled", "start",
        "Whether to keep it; never where JITKernel.deterministic is set.", kernel_default=True,
    )  # fmt: skip
    object_cache_size: int = setting(
        256 << 20, "ObjectCache.size", "start", "Bytes on disk.", unit="bytes"
    )
    context: Literal["throwaway", "shared", "kept"] = setting(
        "throwaway", "Session", "next cell",
        "The LLVM context of a cell: one for each compile, one for all, or one for as long as the"
        " cell lives.", saved="unless given",
    )  # fmt: skip
    budget: int = setting(
        0, "Session", "now",
        "Bytes of code that may be in memory between runs; what was used least recently leaves and"
        " comes back when it is called; 0: no limit.",
        unit="bytes", short="budget", saved="unless given",
    )  # fmt: skip
    executor: Literal["process", "inline"] = setting(
        "process", "Executor.kind", "start",
        "Where cells run: in a process of their own, or, as with ctypes, in the one that the"
        " session is in: a fault ends that then, nobody can stop a cell, and it prints past the"
        " notebook.",
    )  # fmt: skip
