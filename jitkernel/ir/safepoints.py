"""Functions whose references a garbage collector follows, by LLVM's statepoints.

Start from `has_statepoints`.  Source: LLVM, "Garbage Collection Safepoints in LLVM".
"""

from __future__ import annotations

from collections.abc import Iterator

from jitkernel.ir.text import closing, replaced
from jitkernel.regex import regex

_LEAF = '"gc-leaf-function"'  # a call of what never collects, which is no safepoint
# Those with UseRS4GC in llvm/lib/IR/BuiltinGCs.cpp.
_STRATEGY = regex(r'\bgc "(?:statepoint-example|coreclr)"')
#: Strategies that LLVM compiles by itself (the same file): others need a printer of their tables.
KNOWN = ("shadow-stack", "statepoint-example", "coreclr")
_NAMED = regex(r'\bgc\s+"([^"\n]*)"|"[^"]*"|;[^\n]*')  # behind it: what is no name of one
_GUARD = regex(r"\bcall\b[^\n;]*@llvm\.experimental\.guard\(")
_ASSEMBLY = regex(r'\bcall\b.*?\basm (?:[a-z]+ )*"[^"\n]*", "[^"\n]*"(?=\()')


def has_statepoints(source: str) -> bool:
    """True if a function of a text has a strategy of garbage collection by statepoints."""
    return 'gc "' in source and _STRATEGY.search(source) is not None


def strategies(source: str) -> Iterator[tuple[str, int]]:
    """The strategies of garbage collection that a text names, and where."""
    if "gc" in source:
        for match in _NAMED.finditer(source):
            if match[1] is not None:
                yield match[1], match.start()


def guard_at(source: str) -> int:
    """The offset of the first call of `@llvm.experimental.guard`; -1 where there is none."""
    match = _GUARD.search(source) if "llvm.experimental.guard" in source else None
    return match.start() if match else -1


def with_leaf_assembly(text: str) -> str:
    """A module as LLVM prints it, with its calls of inline assembly marked as ones that never
    collect: LLVM makes statepoints of them that it cannot compile."""
    edits = []
    for call in _ASSEMBLY.finditer(text):
        end = closing(text, call.end())
        if end > 0 and not text.startswith(f" {_LEAF}", end):
            edits.append((end, end, f" {_LEAF}"))
    return replaced(text, edits)
