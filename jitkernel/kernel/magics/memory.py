"""Magics about memory: the account, the arena, what stays in it, giving back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel import views
from jitkernel.errors import UsageError
from jitkernel.kernel.magics.parsing import CELLS, targets
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.kernel.settings import parse_size
from jitkernel.wording import counted, size_text

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_CONTEXTS = {
    "throwaway": "each cell is compiled in an LLVM context of its own, which goes with its IR",
    "shared": "all cells are compiled in one LLVM context, which only grows",
    "kept": "each cell keeps the LLVM context it was compiled in until it is evicted",
}


@magic(
    "memory",
    Argument("--arena", "only the arena's zones", "flag"),
    Argument("--plot", "over time: slab, kernel, executor and workers each", "flag"),
    example="%memory --plot",
)
def memory(context: Frontend, arguments: Any) -> None:
    """The whole account as one sum: the slab, every process, files; and how it came to that."""
    context.display(
        views.memory(context.session, arena_only=arguments.arena, over_time=arguments.plot)
    )


@magic(
    "arena",
    Argument("zone", "only this zone", "?", choices=("text", "rodata", "data", "unwind")),
    Argument("part", "only this of the zone's parts, extent by extent", "?", int),
    example="%arena text 3",
)
def arena(context: Frontend, arguments: Any) -> None:
    """A map of the arena: what lies where, and what is free."""
    context.display(views.arena(context.session, zone=arguments.zone, part=arguments.part))


@magic(
    "gc",
    Argument("-n --dry-run", "only tell what would be freed", "flag"),
    Argument("--undo", "forget what could be undone, free what was kept for it", "flag"),
    example="%gc --dry-run",
)
def gc(context: Frontend, arguments: Any) -> None:
    """Free cells whose definitions were replaced and that nothing uses; give empty pages back."""
    from jitkernel.views.tables import garbage as view

    found = context.session.gc(dry_run=arguments.dry_run, undo=arguments.undo)
    context.display(view(context.session, found))


@magic(
    "context",
    Argument("policy", "whose context it is", "?", choices=tuple(_CONTEXTS)),
    example="%context shared",
)
def llvm_context(context: Frontend, arguments: Any) -> None:
    """Choose the LLVM context that cells are compiled in; without a word, what each cell cost."""
    from jitkernel.views.memory import contexts as view

    policy = arguments.policy
    if policy is not None:
        context.configure("Session.context", policy)
        context.session.contexts()  # from here on the cost is counted
        context.print(f"from the next cell on: {_CONTEXTS[policy]}")
    else:
        context.display(view(context.session))


@magic(
    "budget",
    Argument("size", "bytes (64M), or none; without it, how things stand", "?", completes="size"),
    example="%budget 64M",
)
def budget(context: Frontend, arguments: Any) -> None:
    """Bound the code in memory: what was used least recently leaves until it is called."""
    from jitkernel.views.memory import threads

    if arguments.size is None:
        context.display(views.residency(context.session))
        return
    try:
        size = 0 if arguments.size in ("none", "off") else parse_size(arguments.size)
    except ValueError as error:
        raise UsageError(f"%budget: {error}") from None
    context.configure("Session.budget", size)
    code = context.session.inspect.residency.code
    words = f"at most {size_text(size)}" if size else "no limit"
    context.print(f"code in memory between runs: {words}; now {size_text(code)}")
    if size and code > size:
        why = threads(context.session)
        context.print(
            why or "what is beyond it leaves when this cell is done; %budget names what has to stay"
        )


@magic("keep", CELLS, Argument("--off", "no longer", "flag"), example="%keep sq")
def keep(context: Frontend, arguments: Any) -> None:
    """Keep the code of cells in memory whatever the budget; without a target, which are kept."""
    from jitkernel.session.program.cell import cells_words

    if not arguments.target:
        kept = [c.number for c in context.session.cells if c.kept]
        words = cells_words(kept) if kept else "no cell"
        context.print(f"{words} kept in memory whatever the budget")
        return
    cells = context.session.keep(*targets(arguments.target), on=not arguments.off)
    how = "may leave memory again" if arguments.off else "stays in memory"
    context.print(f"the code of {cells_words([c.number for c in cells])} {how}")


@magic("hibernate", CELLS, example="%hibernate sq")
def hibernate(context: Frontend, arguments: Any) -> None:
    """Take the code of cells out of memory until somebody calls it."""
    from jitkernel.session.program.cell import cells_words

    if not arguments.target:
        raise UsageError("%hibernate needs a cell or a name: %hibernate 3, %hibernate sq")
    before = context.session.inspect.residency.code
    cells = context.session.hibernate(*targets(arguments.target))
    freed = before - context.session.inspect.residency.code
    which = cells_words([c.number for c in cells])
    size = counted(freed, "byte") if freed > 0 else "its stubs are as large: nothing was gained"
    context.print(f"the code of {which} left memory ({size}); a call brings it back")
