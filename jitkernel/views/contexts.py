"""What the LLVM contexts of a session cost, cell by cell: `contexts`."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jitkernel.views.view import View, join, paragraph, size_text, table

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["contexts"]

_LATEST = 12


def contexts(session: Session) -> View:
    """What stays in the compiler worker of each compile: in all by kind of context, and of the
    latest cells.  What is counted begins with the first call, or with a context that lasts."""
    account = session.contexts()
    rows = []
    for policy in ("throwaway", "shared", "kept"):
        costs = [cost for cost in account.costs if cost.context == policy]
        if costs:
            rows.append(
                (
                    policy,
                    len(costs),
                    size_text(int(median(cost.heap for cost in costs))),
                    size_text(sum(cost.heap for cost in costs)),
                    size_text(sum(cost.resident for cost in costs)),
                )
            )
    words = f"cells use {session.settings.context} contexts; {account.live} outlive their compile"
    if account.lost:
        words += f"; {account.lost} went with a worker that was replaced (code stays)"
    if not rows:
        return paragraph(words)
    summary = table(
        "Left in the compiler by each compile",
        ("context", "#compiles", "#median", "#in all", "#resident"),
        rows,
        words,
    )
    latest = [
        (cost.cell or "", cost.context, cost.heap, cost.resident, cost.live)
        for cost in account.costs[-_LATEST:]
    ]
    if not latest:
        return summary
    columns = ("#cell", "context", "#heap bytes", "#resident bytes", "#contexts")
    return join([summary, table("The latest", columns, latest)])
