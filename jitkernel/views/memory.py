"""The whole account of a session's memory as one table, and how it came to that.  Start from
`memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.views.memory_plot import plot
from jitkernel.views.view import View, join, size_text, table

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["memory"]

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
        f"{account['cells']} cell{'s' * (account['cells'] != 1)}",
    )


def _slab(account: dict[str, Any]) -> list[tuple[str, int, str]]:
    rows = []
    runtime = 0
    for name, size in account["regions"].items():
        zone = account["zones"].get(name)
        if zone is None:
            runtime += size
        else:
            extents = f"{zone['extents']:,} extent{'s' * (zone['extents'] != 1)}"
            words = f"{zone['used']:,} used by {extents}, {zone['padding']:,} padding"
            rows.append((f"slab, {name}", size, words))
    return [*rows, ("slab, the runtime", runtime, "signal handlers, control block, buffers")]


def _processes(account: dict[str, Any]) -> list[tuple[str, int, str]]:
    cells, symbols = account["cells"], account["symbols"]
    kept = f"; undo keeps {account['undo']:,} bytes" if account["undo"] else ""
    held = f"{cells:,} cell{'s' * (cells != 1)}, {symbols:,} symbol{'s' * (symbols != 1)}{kept}"
    rows = [("kernel process", account["kernel"], held), ("executor", account["executor"], "")]
    for worker in account["workers"]:
        count = worker["compiles"]
        words = f"{count:,} compile{'s' * (count != 1)}"
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
