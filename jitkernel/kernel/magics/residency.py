"""Magics about which cells' code is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.program import targets
from jitkernel.kernel.magics.table import Argument, Magic
from jitkernel.kernel.magics.targets import CELLS
from jitkernel.kernel.settings import parse_size
from jitkernel.views.view import size_text

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS"]


def budget(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.views.residency import residency as view
    from jitkernel.views.residency import threads

    if arguments.size is None:
        frontend.display(view(frontend.session))
        return
    try:
        size = 0 if arguments.size in ("none", "off") else parse_size(arguments.size)
    except ValueError as error:
        raise UsageError(f"%budget: {error}") from None
    frontend.configure("Session.budget", size)
    code = frontend.session.residency.code
    words = f"at most {size_text(size)}" if size else "no limit"
    frontend.print(f"code in memory between runs: {words}; now {size_text(code)}")
    if size and code > size:
        why = threads(frontend.session)
        frontend.print(
            why or "what is beyond it leaves when this cell is done; %budget names what has to stay"
        )


def keep(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.session.cell import cells_words

    if not arguments.target:
        kept = [c.number for c in frontend.session.cells if c.kept]
        words = cells_words(kept) if kept else "no cell"
        frontend.print(f"{words} kept in memory whatever the budget")
        return
    cells = frontend.session.keep(*targets(arguments.target), on=not arguments.off)
    how = "may leave memory again" if arguments.off else "stays in memory"
    frontend.print(f"the code of {cells_words([c.number for c in cells])} {how}")


def hibernate(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.session.cell import cells_words

    if not arguments.target:
        raise UsageError("%hibernate needs a cell or a name: %hibernate 3, %hibernate @sq")
    before = frontend.session.residency.code
    cells = frontend.session.hibernate(*targets(arguments.target))
    freed = before - frontend.session.residency.code
    which = cells_words([c.number for c in cells])
    size = f"{freed} bytes" if freed > 0 else "its stubs are as large: nothing was gained"
    frontend.print(f"the code of {which} left memory ({size}); a call brings it back")


MAGICS = (
    Magic(
        "budget",
        "Bound the code in memory: what was used least recently leaves until it is called.",
        budget,
        (
            Argument(
                "size", "bytes (64M), or none; without it, how things stand", "?", completes="size"
            ),
        ),
        example="%budget 64M",
    ),
    Magic(
        "keep",
        "Keep the code of cells in memory whatever the budget; without a target, which are kept.",
        keep,
        (CELLS, Argument("--off", "no longer", "flag")),
        example="%keep @sq",
    ),
    Magic(
        "hibernate",
        "Take the code of cells out of memory until somebody calls it.",
        hibernate,
        (CELLS,),
        example="%hibernate @sq",
    ),
)
