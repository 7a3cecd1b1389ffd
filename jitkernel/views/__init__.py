"""What a user sees of a session: assembly, IR, tables, the arena's map.

Each function returns a `View`: complete as plain text and as HTML without styling.
"""

from __future__ import annotations

from jitkernel.views.arena import arena
from jitkernel.views.asm import asm
from jitkernel.views.callgraph import callgraph
from jitkernel.views.cfg import cfg
from jitkernel.views.compare import compare
from jitkernel.views.deps import deps
from jitkernel.views.explain import explain
from jitkernel.views.ir import ir
from jitkernel.views.memory import memory
from jitkernel.views.mir import mir
from jitkernel.views.object import object
from jitkernel.views.passes import passes
from jitkernel.views.residency import residency
from jitkernel.views.stack import stack
from jitkernel.views.tables import cells, symbols
from jitkernel.views.timeline import timeline
from jitkernel.views.view import View
from jitkernel.views.watch import watch

__all__ = [
    "View",
    "arena",
    "asm",
    "callgraph",
    "cfg",
    "cells",
    "compare",
    "deps",
    "explain",
    "ir",
    "memory",
    "mir",
    "object",
    "passes",
    "residency",
    "stack",
    "symbols",
    "timeline",
    "watch",
]
