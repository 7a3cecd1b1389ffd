"""The whole account of a session's memory, as a table: `memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.views.view import View, join, size_text, table

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["memory"]


def memory(session: Session, arena_only: bool = False) -> View:
    """What `session.memory()` says: the arena's zones, then every process.

    `arena_only` leaves out what differs from run to run.
    """
    account = session.memory()
    zones = [
        (name, zone["used"], zone["padding"], zone["extents"], size_text(zone["capacity"]))
        for name, zone in account["zones"].items()
    ]
    arena = table(
        "Arena (bytes)",
        ("zone", "#used", "#padding", "#extents", "#capacity"),
        zones,
        f"{account['cells']} cell{'s' * (account['cells'] != 1)}",
    )
    if arena_only:
        return arena
    processes = [
        ("slab, shared by kernel and executor", size_text(account["slab"])),
        ("kernel process", size_text(account["kernel"])),
        ("executor", size_text(account["executor"])),
        *(
            (f"compiler worker ({worker['role']})", size_text(worker["uss"]))
            for worker in account["workers"]
        ),
        ("total", size_text(account["total"])),
    ]
    own = table("Processes (own memory)", ("what", "#size"), processes)
    cache = account["object_cache"]
    if cache is None:
        return join([arena, own])
    kept = table(
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
    return join([arena, own, kept])
