"""What a user sees of a session: assembly, IR, tables, the arena's map.

Each function returns a `View`: complete as plain text and as HTML without styling.  A function's
module is imported when the function is first asked for: a kernel starts without any of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.views.arena import arena
    from jitkernel.views.asm import asm
    from jitkernel.views.callgraph import callgraph, deps
    from jitkernel.views.cfg import cfg
    from jitkernel.views.compare import compare
    from jitkernel.views.explain import explain, timeline
    from jitkernel.views.inlining import inlining
    from jitkernel.views.ir import ir
    from jitkernel.views.linked import linked
    from jitkernel.views.live_ranges import live_ranges
    from jitkernel.views.memory import memory, residency
    from jitkernel.views.mir import mir
    from jitkernel.views.object import object
    from jitkernel.views.padding import layout
    from jitkernel.views.passes import loop, passes
    from jitkernel.views.plot import plot
    from jitkernel.views.pointers import draw
    from jitkernel.views.remarks import remarks
    from jitkernel.views.reproduce import reproduce
    from jitkernel.views.rows import rows
    from jitkernel.views.stack import stack
    from jitkernel.views.tables import cells, symbols, watch
    from jitkernel.views.threads import threads
    from jitkernel.views.view import View

__all__ = [
    "View",
    "arena",
    "asm",
    "callgraph",
    "cells",
    "cfg",
    "compare",
    "deps",
    "draw",
    "explain",
    "inlining",
    "ir",
    "layout",
    "loop",
    "linked",
    "live_ranges",
    "memory",
    "mir",
    "object",
    "passes",
    "plot",
    "remarks",
    "reproduce",
    "residency",
    "rows",
    "stack",
    "symbols",
    "threads",
    "timeline",
    "watch",
]

#: Functions that are not in a module of their own name.
_ELSEWHERE = {
    "View": "view",
    "cells": "tables",
    "deps": "callgraph",
    "draw": "pointers",
    "layout": "padding",
    "loop": "passes",
    "residency": "memory",
    "symbols": "tables",
    "timeline": "explain",
    "watch": "tables",
}


class _Views(ModuleType):
    """A package most of whose functions have the names of the modules that they are in."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, name)}"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        # An import sets the module it has imported; what has its name here is the function in it.
        if isinstance(value, ModuleType) and name in __all__:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Views
