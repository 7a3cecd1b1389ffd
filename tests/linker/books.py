"""The whole state of a linker as a value, to compare before and after."""

from __future__ import annotations

from typing import Any

from jitkernel.linker import Linker

__all__ = ["state"]


def state(linker: Linker) -> dict[str, Any]:
    """Everything that must not change when something fails: bytes, books, symbols."""
    arena = linker.arena
    zones = {}
    for name, zone in arena.zones.items():
        live = dict(zone.list.live)
        content = {start: arena.read(start, size) for start, size in live.items()}
        zones[name] = (live, content, list(zone.list.holes()), zone.list.used, zone.list.padding)
    symbols = {
        name: (
            s.definition, s.stub, s.slot, s.far_slot, s.held, dict(s.users or {}), s.users is None
        )
        for name, s in linker.symbols.items()
    }  # fmt: skip
    return {
        "zones": zones,
        "symbols": symbols,
        "groups": dict(linker.groups),
        "copies": {k: list(v) for k, v in linker.copies.items()},
        "cies": dict(linker.unwind._shared),
    }
