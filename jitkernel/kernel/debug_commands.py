"""Magics that are typed where a debugger's client evaluates: `%break 3 if i == 10`, `%asm`.

Start from `typed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.views.view import View

__all__ = ["typed"]


class _Kept:
    """A frontend whose output is kept."""

    def __init__(self, frontend: Frontend):
        self._frontend = frontend
        self.lines: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontend, name)

    def print(self, text: str) -> None:
        self.lines.append(text)

    def display(self, view: View) -> None:
        self.lines.append(self._frontend.masked(view).text)

    page = display

    def live(self, view: View, last: bool = True) -> None:
        if last:
            self.display(view)


def typed(frontend: Frontend, text: str, frame: int) -> str | None:
    """The text that a magic shows, for this frame of what stands; None for what is no magic.
    Raises UsageError."""
    kept = _Kept(frontend)
    if not frontend.standing.does(text, frame, cast("Frontend", kept)):
        return None
    return "\n".join(kept.lines)
