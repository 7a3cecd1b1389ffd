"""Whether cells can be compiled with some settings, told when they are set.  Start from `check`."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable

from jitkernel.errors import CompileError, UsageError
from jitkernel.languages.c.clang import clang_of
from jitkernel.linker.libraries import find_library

__all__ = ["check"]

_TRIED = """#include <stdlib.h>
static int twice(int x) { return 2 * x; }
struct pair { int first; double second; } both;
int used(int x) { both.first = x; return twice(both.first); }
"""
_FEATURES = re.compile(r'"target-features"="([^"]*)"')
#: What LLVM's runtime for OpenMP has, and GCC's has not.  openmp.llvm.org, kmp.h.
_FORK = "__kmpc_fork_call"
_SHOWN = 3  # features that are named


def check(setting: Callable[[str], str], is_defined: Callable[[str], bool]) -> None:
    """Raise UsageError for a compiler or flags with which no cell would do; `is_defined` tells
    what the session's cells and libraries have."""
    clang = clang_of(setting)
    if "-fopenmp" in clang.more and not is_defined(_FORK):
        raise UsageError(f"Compiler.clang_flags: -fopenmp needs LLVM's OpenMP: {_openmp()}")
    try:
        output = clang.compile(_TRIED)
    except CompileError as error:
        raise UsageError(f"Compiler.clang_flags: {error}") from None
    wrong = [c.message for c in output.complaints if c.is_error or not c.file]
    if wrong:
        raise UsageError(f"Compiler.clang_flags: {wrong[0]}")
    if clang.has_own_processor and (lacking := _lacking(output.text, setting("machine"))):
        more = ", ..." if len(lacking) > _SHOWN else ""
        raise UsageError(
            f"Compiler.clang_flags: this machine has no {', '.join(lacking[:_SHOWN])}{more}: what "
            "is compiled so would end with an illegal instruction"
        )


def _lacking(text: str, machine: str) -> list[str]:
    """The features that functions of a module's text are compiled for and a machine has not."""
    features = machine.partition(" ")[2].split(",")
    absent = {feature[1:] for feature in features if feature[:1] == "-"}
    used = {f[1:] for found in _FEATURES.findall(text) for f in found.split(",") if f[:1] == "+"}
    return sorted(absent & used)


def _openmp() -> str:
    """Advice on loading LLVM's OpenMP."""
    for name in ("omp", "iomp5"):
        try:
            return f"%lib {find_library(name)[0]} first"
        except UsageError:
            pass
    found = sorted(glob.glob("/usr/lib/llvm-*/lib/libomp.so*"), key=os.path.realpath)
    if found:
        return f"%lib {found[-1]} first"
    return "install it (on Debian: apt-get install libomp-dev), then %lib -lomp first"
