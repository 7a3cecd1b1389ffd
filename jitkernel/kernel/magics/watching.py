"""`%watch`: globals that are shown while cells run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.table import Argument, Magic
from jitkernel.views.names import bare

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS"]

_LEAST = 0.5  # seconds between two updates of a display


def watch(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.watch import watched_view

    session = frontend.session
    names = [bare(name) for name in arguments.name]
    if arguments.stop:
        session.unwatch(*names)
        left = len(session.watched())
        frontend.print(f"{left} still watched" if left else "nothing is watched any more")
        return
    if arguments.every is not None and not arguments.every >= _LEAST:
        raise UsageError(f"%watch: --every is at least {_LEAST} seconds")
    watched = session.watch(
        *names,
        call=lambda now: frontend.live(watched_view(session, now), now[0].seconds is None),
        every=arguments.every,
    )
    frontend.live(watched_view(session, watched))


MAGICS = (
    Magic(
        "watch",
        "Show globals as they change in memory while cells run, and after the run or a crash. "
        "The program is not slowed down and needs nothing for it; but LLVM may keep a "
        "global in a register while a loop runs: `store volatile` shows every step. Without "
        "names: what is watched now.",
        watch,
        (
            Argument("name", "globals, such as @g", "*", completes="global"),
            Argument("--every", "seconds between two updates, at least 0.5", "", float),
            Argument("--stop", "look at these no more; without names, at none", "flag"),
        ),
        example="%watch @g @table --every 1",
    ),
)
