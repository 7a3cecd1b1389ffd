"""LLVM IR cells: from a cell's text to a module's text and actions, from bytes to text.

No session state and no LLVM: `parse_cell` reads a cell into a `Plan`, `assemble` makes the module
that the compiler gets, `evaluate` runs the expressions of call lines and assignments against a
`Host`, and `TypedValue` reads and writes values.  Start from `parse_cell`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jitkernel.ir.types import Type, parse_type
from jitkernel.languages.llvm.assemble import Assembled, assemble, stands_alone
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.languages.llvm.plan import (
    ENTRY,
    Action,
    AssignAction,
    BlockAction,
    CallAction,
    CellMagic,
    InspectAction,
    MagicAction,
    Plan,
    RunAction,
    ShellAction,
    ShowAction,
    parse_cell,
    progress,
)
from jitkernel.languages.llvm.values import Pointer, TypedValue, scalar_layout

if TYPE_CHECKING:
    from jitkernel.languages.llvm.assignment import Assignment, assign
    from jitkernel.languages.llvm.completeness import Completeness, Token, is_complete, token_at
    from jitkernel.languages.llvm.hints import Context, explain
    from jitkernel.languages.llvm.host import Host
    from jitkernel.languages.llvm.keywords import KEYWORDS, describe_word
    from jitkernel.languages.llvm.prelude import PRELUDE, prelude_type
    from jitkernel.languages.llvm.python_values import from_python

__all__ = [
    "Action",
    "Assembled",
    "AssignAction",
    "Assignment",
    "BlockAction",
    "CallAction",
    "CellMagic",
    "Completeness",
    "Context",
    "ENTRY",
    "Host",
    "InspectAction",
    "KEYWORDS",
    "MagicAction",
    "PRELUDE",
    "Plan",
    "Pointer",
    "RunAction",
    "ShellAction",
    "ShowAction",
    "Token",
    "Type",
    "TypedValue",
    "assemble",
    "assign",
    "describe_word",
    "evaluate",
    "explain",
    "from_python",
    "is_complete",
    "parse_cell",
    "parse_type",
    "prelude_type",
    "progress",
    "scalar_layout",
    "stands_alone",
    "token_at",
]

_PLACES = {
    "Assignment": "assignment",
    "Completeness": "completeness",
    "Context": "hints",
    "Host": "host",
    "KEYWORDS": "keywords",
    "PRELUDE": "prelude",
    "Token": "completeness",
    "assign": "assignment",
    "describe_word": "keywords",
    "explain": "hints",
    "from_python": "python_values",
    "is_complete": "completeness",
    "prelude_type": "prelude",
    "token_at": "completeness",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: a cell that is right needs neither hints nor completeness.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
