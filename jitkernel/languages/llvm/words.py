"""The words of IR that begin a statement, and the names close to a mistyped one.

Start from `OPCODES`; what each word means to a reader is in `keywords`.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "BINARY_OPCODES",
    "CAST_OPCODES",
    "ENTITY_WORDS",
    "OPCODES",
    "TERMINATORS",
    "VARIABLE_WORDS",
    "nearest",
]

BINARY_OPCODES = frozenset(
    "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split()
)
CAST_OPCODES = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint ptrtoaddr inttoptr bitcast"
    " addrspacecast".split()
)
TERMINATORS = frozenset(
    "ret br switch indirectbr invoke callbr resume catchswitch catchret cleanupret"
    " unreachable".split()
)
# Words that may stand before `call` are opcodes to a reader.
OPCODES = (
    BINARY_OPCODES
    | CAST_OPCODES
    | TERMINATORS
    | frozenset(
        "fneg icmp fcmp phi select call tail musttail notail va_arg landingpad catchpad cleanuppad"
        " freeze extractelement insertelement shufflevector extractvalue insertvalue alloca load"
        " store fence cmpxchg atomicrmw getelementptr".split()
    )
)
ENTITY_WORDS = frozenset(
    "define declare target source_filename attributes module uselistorder uselistorder_bb".split()
)
# What may follow `@name =` in a definition of a variable, an alias or an ifunc (LangRef, "Global
# Variables"): linkage, preemption, visibility, DLL storage, thread-local, address, storage.
VARIABLE_WORDS = frozenset(
    "private internal available_externally linkonce weak common appending extern_weak linkonce_odr"
    " weak_odr external dso_local dso_preemptable default hidden protected dllimport dllexport"
    " thread_local unnamed_addr local_unnamed_addr addrspace externally_initialized global constant"
    " alias ifunc".split()
)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name closest to `name`, or None where none is close."""
    names = [n for n in known if abs(len(n) - len(name)) <= max(3, len(name))]
    by_lower = {n.lower(): n for n in names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    import difflib

    found = difflib.get_close_matches(name, names, n=5, cutoff=cutoff)
    if not found and 1 < len(name) < 4:  # in a short name one letter is much of it
        alike = [n for n in names if n[:1] == name[:1] and len(n) == len(name)]
        found = difflib.get_close_matches(name, alike, n=5, cutoff=0.5)
    if not found:
        return None
    best = [
        n for n in found if len(n) == len(found[0])
    ]  # equally close: the longest same beginning
    return max(best, key=lambda n: _same_beginning(n, name))


def _same_beginning(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
