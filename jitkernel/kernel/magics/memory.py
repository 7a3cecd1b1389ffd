"""Magics about memory: the account, the arena's map, giving back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.kernel.magics.table import Argument, Magic

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS"]


def memory(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.memory import memory as view

    frontend.display(view(frontend.session, arena_only=arguments.arena, over_time=arguments.plot))


def arena(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.arena import arena as view

    frontend.display(view(frontend.session, zone=arguments.zone, part=arguments.part))


def gc(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.undo import garbage as view

    frontend.display(view(frontend.session.gc(dry_run=arguments.dry_run, undo=arguments.undo)))


def context(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.contexts import contexts as view

    policy = arguments.policy
    if policy is not None:
        frontend.configure("Session.context", policy)
        frontend.session.contexts()  # from here on the cost is counted
        frontend.print(f"from the next cell on: {_CONTEXTS[policy]}")
    else:
        frontend.display(view(frontend.session))


_CONTEXTS = {
    "throwaway": "each cell is compiled in an LLVM context of its own, which goes with its IR",
    "shared": "all cells are compiled in one LLVM context, which only grows",
    "kept": "each cell keeps the LLVM context it was compiled in until it is evicted",
}

MAGICS = (
    Magic(
        "memory",
        "The whole account as one sum: the slab, every process, files; and how it came to that.",
        memory,
        (
            Argument("--arena", "only the arena's zones", "flag"),
            Argument("--plot", "over time: slab, kernel, executor and workers each", "flag"),
        ),
        example="%memory --plot",
    ),
    Magic(
        "arena",
        "A map of the arena: what lies where, and what is free.",
        arena,
        (
            Argument("zone", "only this zone", "?", choices=("text", "rodata", "data", "unwind")),
            Argument("part", "only this of the zone's parts, extent by extent", "?", int),
        ),
        example="%arena text 3",
    ),
    Magic(
        "gc",
        "Free cells whose definitions were replaced and that nothing uses; give empty pages back.",
        gc,
        (
            Argument("-n --dry-run", "only tell what would be freed", "flag"),
            Argument("--undo", "forget what could be undone, free what was kept for it", "flag"),
        ),
        example="%gc --dry-run",
    ),
    Magic(
        "context",
        "Choose the LLVM context that cells are compiled in; without a word, what each cell cost.",
        context,
        (Argument("policy", "whose context it is", "?", choices=tuple(_CONTEXTS)),),
        example="%context shared",
    ),
)
