"""In which LLVM contexts cells are compiled, and what those keep.  Start from `use_context`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.errors import UsageError

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["CONTEXTS", "check_context", "use_context"]

CONTEXTS = ("throwaway", "shared", "kept")


def check_context(policy: str) -> None:
    """Raise UsageError where there is no such policy."""
    if policy not in CONTEXTS:
        raise UsageError(f"there is no context {policy!r}; there are {', '.join(CONTEXTS)}")


def use_context(session: Core, policy: str) -> None:
    """Compile so from now on; what the other policies kept is freed."""
    check_context(policy)
    if policy != session.settings.context:
        session.settings.context = policy
        session.engine.pool.release_contexts(lambda cell: False, shared=True)
