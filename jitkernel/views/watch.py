"""Watched globals: value, least, most and how it went, as a table.  Start from `watch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.views.names import written
from jitkernel.views.view import View, paragraph, sparkline, table, time_text

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.report.watch import Watched

__all__ = ["watch", "watched_view"]

_WIDTH = 24


def watch(session: Session) -> View:
    """What `Session.watch` watches, as it is now."""
    return watched_view(session, session.watched())


def watched_view(session: Session, watched: Sequence[Watched]) -> View:
    """A table of `watched`: while code runs, or after it."""
    if not watched:
        words = "Nothing is watched. %watch @g watches a global while cells run."
        return paragraph(words)
    rows = [
        (
            written(w.name),
            w.typed.text(session.describe) if w.typed is not None else w.why,
            _number(w.least),
            _number(w.most),
            sparkline(w.samples, _WIDTH),
        )
        for w in watched
    ]
    seconds = watched[0].seconds
    when = f", {time_text(seconds * 1e9)} into the run" if seconds is not None else ""
    return table(f"Watched{when}", ("global", "value", "#least", "#most", "history"), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(int(value))
