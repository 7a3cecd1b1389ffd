"""Magics that are typed where a debugger's client evaluates: `%break 3 if i == 10`, `%breaks`.

Start from `typed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from jitkernel.kernel import magics
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session.debugging.records import Frame
    from jitkernel.views.view import View

__all__ = ["COMMANDS", "typed"]

COMMANDS = ("%break", "%breaks")
_LINE = regex(r"(%break\s+)(\d+)(?=\s|\Z)")


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


def typed(frontend: Frontend, text: str, frame: Frame | None) -> str:
    """The text that a line shows, where the innermost `frame` that is looked at is this one: lines
    without a cell are of its cell.  Raises UsageError."""
    if frame is not None and frame.cell:
        text = _LINE.sub(lambda line: f"{line[1]}{frame.cell}:{line[2]}", text)
    name, _, rest = text.removeprefix("%").partition(" ")
    kept = _Kept(frontend)
    magics.run_line_magic(cast("Frontend", kept), name, rest, within=True)
    return "\n".join(kept.lines)
