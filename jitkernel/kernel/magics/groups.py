"""The order in which help lists magics: by what they are for, the most used first: `grouped`."""

from __future__ import annotations

from collections.abc import Iterable

from jitkernel.kernel.magics.table import Magic

__all__ = ["grouped"]

_REST = "The rest"
_GROUPS = {
    "Every day": "cells symbols who asm ir time timeit undo evict reset run history help",
    "What became of the code": "explain cfg passes compare mir object callgraph timeline stack",
    "How a cell is compiled": "llvm opt pass language kaleidoscope",
    "The session": "redo deps gc save restore",
    "Memory": "memory arena watch budget keep hibernate context",
    "Libraries, files, folders": "lib load link writefile cd pwd env",
    "Exercises": "check exercise",
    _REST: "config clear lsmagic quickref",
}


def grouped(magics: Iterable[Magic]) -> list[tuple[str, list[Magic]]]:
    """Every magic once: titles, each with its magics; those that no group names are the rest."""
    left = {magic.name: magic for magic in magics}
    found = [
        (title, [left.pop(name) for name in names.split() if name in left])
        for title, names in _GROUPS.items()
    ]
    found[-1][1].extend(left.values())
    return [(title, members) for title, members in found if members]
