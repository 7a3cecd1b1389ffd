"""The executor's native runtime as one module of LLVM IR, and what it was compiled to.

The text is in the folder native: entry.s has what must be written in instructions, base.ll is where
to start in the others.  Here only names become addresses and numbers (abi.py).  The
module imports nothing but `jk_control`, and has no data of its own.  Start from `runtime_ir`.

To compile it takes 75 ms, the half of a session's start, so the object lies beside the text, as
others do that are the same in each session (`tools/make_runtime.py` writes them).  They run on any
x86-64.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from zlib import crc32

from jitkernel.executor import abi
from jitkernel.regex import regex

#: What session code gets for the functions that would end the executor, for the one whose child
#: runs on its parent's stack: it would return from the cell there, and for those that keep signals
#: from a debugger.
INTERPOSED: Mapping[str, str] = MappingProxyType(
    {
        name: f"jk_{name}"
        for name in (
            "exit _exit _Exit quick_exit pthread_exit abort __stack_chk_fail vfork "
            "sigprocmask pthread_sigmask sigaction signal"
        ).split()
    }
)

#: The same where the code runs in the kernel process: `abort` ends that, as it does with ctypes,
#: and no debugger is there.
INLINE_INTERPOSED: Mapping[str, str] = MappingProxyType(
    {name: INTERPOSED[name] for name in "exit _exit _Exit quick_exit pthread_exit vfork".split()}
)

_PLACES = {
    **abi.FIELDS,
    **{f"r_{name}": abi.RECORD_AT + 8 * i for name, i in abi.RECORD.items()},
    "stack_copy": abi.STACK_AT,
    "frame": abi.FRAME_AT,
    "ask_frame": abi.ASK_AT,
    "stop_threads": abi.STOP_THREADS_AT,
    "stop_tables": abi.STOP_TABLES_AT,
    "stop_programs": abi.STOP_PROGRAMS_AT,
}
_PARTS = (
    "base", "enter", "record", "handler", "stop", "decide", "health", "wake", "ask", "fork",
    "serve", "inline",
)  # fmt: skip
_BESIDE = os.path.join(os.path.dirname(__file__), "native", "")
_NAME = regex(r"\$([A-Za-z]\w*)")
_TYPED = regex(r"(i64 )?" + _NAME.pattern)


def runtime_ir() -> str:
    """The module's text; its only external symbol is `jk_control`, the start of runtime.data."""
    assembly = re.sub("#.*", "", _native("entry.s")).replace("\\", r"\5C")
    lines = (line.rstrip() for line in _NAME.sub(_relative, assembly).splitlines())
    entries = "\n".join(f'module asm "{line}"' for line in lines if line)
    body = "\n".join(_native(f"{part}.ll") for part in _PARTS)
    return f"{entries}\n\n{_TYPED.sub(_pointer, re.sub(';.*', '', body))}"


def built_runtime() -> bytes:
    """The object that the text was compiled to beforehand; see `built`."""
    return built("runtime", made_of())


def built(name: str, made_of: int) -> bytes:
    """The object that what has this checksum was compiled to beforehand; empty where that was
    something else, or it is not as it was written."""
    try:
        facts = json.loads(_native("runtime.json"))[name]
        with open(f"{_BESIDE}{name}.o", "rb") as file:
            code = file.read()
        return code if facts["made of"] == made_of and facts["object"] == crc32(code) else b""
    except (OSError, ValueError, KeyError, TypeError):
        return b""


def made_of() -> int:
    """The checksum of what the text is made of: to make it takes as long as all else that a start
    does with it."""
    parts = [_native(name) for name in ("entry.s", *(f"{part}.ll" for part in _PARTS))]
    return crc32(repr((parts, abi.NAMES, _PLACES)).encode())


def _native(name: str) -> str:
    with open(_BESIDE + name, encoding="ascii") as file:
        return file.read()


def _relative(match: re.Match[str]) -> str:
    name = match[1]
    return str(abi.NAMES[name]) if name in abi.NAMES else f"rip + jk_control + {_PLACES[name]}"


def _pointer(match: re.Match[str]) -> str:
    kind, name = match[1] or "", match[2]
    if name in abi.NAMES:
        return f"{kind}{abi.NAMES[name]}"
    place = f"getelementptr (i8, ptr @jk_control, i64 {_PLACES[name]})"
    return f"i64 ptrtoint (ptr {place} to i64)" if kind else place
