"""Memory as tables: the whole account, the code that is in it and why, the compiler's contexts.

Start from `memory`, `residency` and `contexts`.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from jitkernel.ir.names import written
from jitkernel.session.program.cell import CellState, cells_words
from jitkernel.views.memory_plot import plot
from jitkernel.views.view import View, join, paragraph, size_text, table
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.program.cell import Cell

__all__ = ["contexts", "last_use", "memory", "residency", "threads"]

_LATEST = 12  # compiles
_LISTED = 50  # cells
_ROLES = {"worker": "compiler worker", "spare": "compiler worker, spare"}


def memory(session: Session, arena_only: bool = False, over_time: bool = False) -> View:
    """What `session.memory()` says, every row of one sum; with `over_time` the plot's numbers too.

    `arena_only` leaves out what differs from run to run.
    """
    account = session.memory()
    if arena_only:
        return _zones(account)
    rows = [*_slab(account), *_processes(account)]
    rows.append(("program and library files", account["files"], "mapped; the system may drop them"))
    rows.append(("total", account["total"], size_text(account["total"])))
    view = table(
        "Memory (bytes)",
        ("what", "#bytes", "of which"),
        [(what, f"{size:,}", words) for what, size, words in rows],
        "Pages of the slab are counted once, though kernel and executor both see them.",
    )
    views = [view, plot(session.memory_samples(), short=not over_time)]
    if account["object_cache"] is not None:
        views.append(_cache(account["object_cache"]))
    return join(views)


def _zones(account: dict[str, Any]) -> View:
    zones = [
        (name, zone["used"], zone["padding"], zone["extents"], size_text(zone["capacity"]))
        for name, zone in account["zones"].items()
    ]
    return table(
        "Arena (bytes)",
        ("zone", "#used", "#padding", "#extents", "#capacity"),
        zones,
        counted(account["cells"], "cell"),
    )


def _slab(account: dict[str, Any]) -> list[tuple[str, int, str]]:
    rows = []
    runtime = 0
    for name, size in account["regions"].items():
        zone = account["zones"].get(name)
        if zone is None:
            runtime += size
        else:
            extents = counted(zone["extents"], "extent", ",")
            words = f"{zone['used']:,} used by {extents}, {zone['padding']:,} padding"
            rows.append((f"slab, {name}", size, words))
    return [*rows, ("slab, the runtime", runtime, "signal handlers, control block, buffers")]


def _processes(account: dict[str, Any]) -> list[tuple[str, int, str]]:
    cells, symbols = account["cells"], account["symbols"]
    kept = f"; undo keeps {account['undo']:,} bytes" if account["undo"] else ""
    held = f"{counted(cells, 'cell', ',')}, {counted(symbols, 'symbol', ',')}{kept}"
    rows = [("kernel process", account["kernel"], held), ("executor", account["executor"], "")]
    for worker in account["workers"]:
        words = counted(worker["compiles"], "compile", ",")
        rows.append((_ROLES.get(worker["role"], worker["role"]), worker["own"], words))
    return rows


def _cache(cache: dict[str, Any]) -> View:
    return table(
        "Object cache (on disk, of all sessions)",
        ("#hits", "#misses", "#entries", "#size", "#limit"),
        [
            (
                cache["hits"],
                cache["misses"],
                cache["entries"],
                size_text(cache["bytes"]),
                size_text(cache["limit"]),
            )
        ],
        f"hits and misses of this session; in {cache['folder']}",
    )


def residency(session: Session) -> View:
    """The budget, what is in memory and what is not, and the cells whose code cannot leave."""
    look = session.inspect
    cells = [c for c in session.cells if c.image is not None]
    asleep = [c for c in cells if c.state is CellState.HIBERNATED]
    awake = [c for c in cells if c.state is not CellState.HIBERNATED]
    budget = session.budget
    rows = [
        ("budget", f"{budget:,}" if budget else "none", size_text(budget) if budget else ""),
        (
            "code in memory",
            f"{look.code_bytes:,}",
            cells_words([c.number for c in awake]),
        ),
        ("hibernated cells", len(asleep), cells_words([c.number for c in asleep])),
        ("calls that brought code back", look.woken, ""),
    ]
    view = table("Code in memory (bytes)", ("what", "#how much", "which"), rows, threads(session))
    staying = [(c, why) for c in awake if (why := look.why_resident(c)) and c.sizes.get("text")]
    if not staying:
        return view
    listed = [
        (c.number, " ".join(map(written, c.names)), c.sizes["text"], why)
        for c, why in staying[:_LISTED]
    ]
    more = f"{len(staying) - _LISTED} more" if len(staying) > _LISTED else ""
    columns = ("#cell", "defines", "#bytes", "because")
    return join([view, table("Cells whose code stays in memory", columns, listed, more)])


def threads(session: Session) -> str:
    """That threads of the program hold code in memory, where there are any."""
    count = session.inspect.threads
    if not count:
        return ""
    running, ended = ("s are", "they have") if count > 1 else (" is", "it has")
    return (
        f"{count} thread{running} running of the program's own: no code leaves memory before "
        f"{ended} ended"
    )


def last_use(session: Session, cell: Cell) -> str:
    """`now`, `3 runs ago`; empty where it was never called."""
    if not cell.used:
        return ""
    ago = session.inspect.runs_since(cell)
    return "now" if ago <= 0 else f"{counted(ago, 'run')} ago"


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
                    f"{len(costs):,}",
                    size_text(int(median(cost.heap for cost in costs))),
                    size_text(sum(cost.heap for cost in costs)),
                    size_text(sum(cost.resident for cost in costs)),
                )
            )
    live = f"{counted(account.live, 'LLVM context', ',')} kept in the compiler"
    words = f"cells use {session.settings.context} contexts; {live}"
    if account.lost:
        words += f", {account.lost:,} gone with a worker that was replaced (code stays)"
    if not rows:
        return paragraph(words)
    summary = table(
        "Left in the compiler by each compile",
        ("context", "#compiles", "#median", "#in all", "#resident"),
        rows,
        words,
    )
    latest = [
        (cost.cell or "", cost.context, f"{cost.heap:,}", f"{cost.resident:,}", f"{cost.live:,}")
        for cost in account.costs[-_LATEST:]
    ]
    if not latest:
        return summary
    columns = ("#cell", "context", "#heap bytes", "#resident bytes", "#contexts")
    return join([summary, table("The latest", columns, latest)])
