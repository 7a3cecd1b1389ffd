"""Functions whose references a garbage collector follows, by LLVM's statepoints.

Start from `has_statepoints`.  Source: LLVM, "Garbage Collection Safepoints in LLVM".
"""

from __future__ import annotations

from jitkernel.ir.text import closing, replaced
from jitkernel.regex import regex

_LEAF = '"gc-leaf-function"'  # a call of what never collects, which is no safepoint
# Those with UseRS4GC in llvm/lib/IR/BuiltinGCs.cpp.
_STRATEGY = regex(r'\bgc "(?:statepoint-example|coreclr)"')
_ASSEMBLY = regex(r'\bcall\b.*?\basm (?:[a-z]+ )*"[^"\n]*", "[^"\n]*"(?=\()')


def has_statepoints(source: str) -> bool:
    """True if a function of a text has a strategy of garbage collection by statepoints."""
    return 'gc "' in source and _STRATEGY.search(source) is not None


def with_leaf_assembly(text: str) -> str:
    """A module as LLVM prints it, with its calls of inline assembly marked as ones that never
    collect: LLVM makes statepoints of them that it cannot compile."""
    edits = []
    for call in _ASSEMBLY.finditer(text):
        end = closing(text, call.end())
        if end > 0 and not text.startswith(f" {_LEAF}", end):
            edits.append((end, end, f" {_LEAF}"))
    return replaced(text, edits)
