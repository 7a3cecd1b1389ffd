"""The executor's native runtime as one module of LLVM IR.  Start from `runtime_ir`.

The text is in the folder native: entry.s has what must be written in instructions, base.ll is where
to start in the others.  Here only the names of control words become addresses.  The module imports
nothing but `jk_control`, and has no data of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from jitkernel.executor import control

__all__ = ["INTERPOSED", "runtime_ir"]

#: What session code gets for the functions that would end the executor.
INTERPOSED: Mapping[str, str] = MappingProxyType(
    {
        "exit": "jk_exit",
        "_exit": "jk__exit",
        "_Exit": "jk__Exit",
        "quick_exit": "jk_quick_exit",
        "pthread_exit": "jk_pthread_exit",
        "abort": "jk_abort",
        "__stack_chk_fail": "jk_stack_chk_fail",
    }
)

_NUMBERS = {
    "stack_copy_size": control.STACK_SIZE,
    "record_size": 8 * len(control.RECORD),
    "frame_size": control.FRAME_SIZE,
}
_PLACES = {
    **control.FIELDS,
    **{f"r_{name}": control.RECORD_AT + 8 * i for name, i in control.RECORD.items()},
    "stack_copy": control.STACK_AT,
    "frame": control.FRAME_AT,
}
_PARTS = ("base", "enter", "record", "handler", "health", "wake", "serve")
_NAME = re.compile(r"\$([a-z]\w*)")


def runtime_ir() -> str:
    """The module's text; its only external symbol is `jk_control`, the start of runtime.data."""
    assembly = re.sub("#.*", "", _native("entry.s"))
    lines = (line.rstrip() for line in _NAME.sub(_relative, assembly).splitlines())
    entries = "\n".join(f'module asm "{line}"' for line in lines if line)
    body = "\n".join(_native(f"{part}.ll") for part in _PARTS)
    return f"{entries}\n\n{_NAME.sub(_pointer, re.sub(';.*', '', body))}"


def _native(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "native", name), encoding="ascii") as file:
        return file.read()


def _relative(match: re.Match[str]) -> str:
    return f"rip + jk_control + {_PLACES[match[1]]}"


def _pointer(match: re.Match[str]) -> str:
    name = match[1]
    if name in _NUMBERS:
        return str(_NUMBERS[name])
    return f"getelementptr (i8, ptr @jk_control, i64 {_PLACES[name]})"
