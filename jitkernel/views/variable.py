"""A variable of the program in full: members and elements as a table, numbers as a curve, too.

Nothing runs: its memory is read, while the program stands and while it does not.  Start from
`variable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.session.debugging.values import children, shown, type_text
from jitkernel.views.data import Data, elements, look_up, series
from jitkernel.views.plot import curves
from jitkernel.views.rows import rows_of
from jitkernel.views.view import View, join, preformatted, table

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["variable"]

_LEAST = 4  # numbers that make a curve
_MEMBERS = 100


def variable(session: Session, text: str, frame: int = 0) -> View:
    """The value of an expression, in a frame where the program stands.  Raises UsageError."""
    data = look_up(session, text, frame)
    value = shown(data.value, data.read, data.describe)
    head = f"{data.text}: {type_text(data.value)}"
    title = f"<p><b>{escape(head)}</b></p>"
    line = View(f"{data.text} = {value}", preformatted(escape(value)))
    views = list(_parts(data))
    if not views:
        return View(f"{type_text(data.value)} {value}", title + line.html)
    made = join([line, *views] if data.value.type.bare.kind in ("array", "vector") else views)
    return View(f"{head}\n{made.text}", title + made.html)


def _parts(data: Data) -> Iterator[View]:
    """A curve and a table, as far as there is something to show."""
    bare = data.value.type.bare
    if bare.kind in ("array", "vector") and not bare.is_text:
        try:
            found = elements(data)
        except UsageError:  # it is too large, or cannot be read
            return
        lines = series(found) if len(found.shape) == 1 and not found.type.bare.members else []
        known = {v for one in lines for v in one.values if v - v == 0}
        if found.count >= _LEAST and len(known) > 1:
            yield curves(data, found, lines, "", alone=True)
        yield rows_of(data, found)
    elif not bare.is_text and (parts := children(data.value, data.read, 0, _MEMBERS)):
        rows = [
            (part.name, type_text(part.value), shown(part.value, data.read, data.describe))
            for part in parts
        ]
        yield table("", ("member", "type", "value"), rows)
