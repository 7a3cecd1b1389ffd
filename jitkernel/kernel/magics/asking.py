"""Questions to the user.  Start from `agrees`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["agrees"]


def agrees(frontend: Frontend, question: str, unasked: bool = False) -> bool:
    """Whether the user says yes; `unasked` where the client has no input box.

    No answer is no.  Raises Interrupted.
    """
    try:
        answer = frontend.out.input(f"{question} (y/[n]) ")
    except EOFError:
        return False
    if answer is None:
        return unasked
    return answer.strip().lower() in ("y", "yes")
