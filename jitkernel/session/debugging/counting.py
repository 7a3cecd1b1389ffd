"""How often a call takes each edge of functions.  Start from `count`.

Their cell is compiled another time, with counters, and its ordinary code leads there while the call
runs, as it does to code that is debugged: see `forms`.  So whoever calls them is counted, and
nothing of the session changes but what the call does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.counted import WORD, counted, edges_of
from jitkernel.ir.model.module import function_of
from jitkernel.ir.module import functions
from jitkernel.session.debugging.forms import Forms, Remade
from jitkernel.session.run.calls import Caller, Scratch

if TYPE_CHECKING:
    from jitkernel.compiler.records import Request
    from jitkernel.session.core import Core
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.run.results import Sink


def count(
    core: Core, cell: Cell, request: Request, names: Sequence[str], code: tuple[str, str],
    sink: Sink | None = None,
) -> dict[str, bytes]:  # fmt: skip
    """Run code once, a text and its language, and count.  `request` has the cell's module whose
    blocks are meant, which is not optimised again.  By name, a word for each of `edges_of`.

    Raises UsageError where the cell cannot lead elsewhere, and what the code raises.
    """
    core.engine.check_idle()
    debugger = core.__dict__.get("debugger")
    if debugger is not None and debugger.on and debugger.breakpoints:
        raise UsageError("what is counted runs to its end: remove the breakpoints first (%breaks)")
    text = request.source
    made = {f.name: function_of(f) for f in functions(text, "define") if f.name in names}
    sizes = {name: WORD * len(edges_of(function)) for name, function in made.items()}
    with Scratch(core, "counting", sink) as scratch:
        start = at = scratch.allocate(bytes(sum(sizes.values())), WORD)
        for name, size in sizes.items():
            text, at = counted(text, name, at), at + size
        options = request.options._replace(passes="none", closed=False, inline=False)
        remade = Remade(request._replace(source=text, options=options, bodies=()), request.source)
        forms, before = Forms(core, lambda _: remade), core.places.debugged
        core.cleanups.append(forms.close)
        try:
            if reasons := forms.want((), alone=(cell.number,)):
                raise UsageError(f"cannot be counted: {reasons.popitem()[1]}")
            forms.install(core.engine.executor.taken)
            left_out = forms.left_out.get(cell.number, {})
            if why := next((why for name, why in left_out.items() if name in sizes), ""):
                raise UsageError(f"cannot be counted: {why}")
            Caller(core, sink).time(*code, 1, 1)
        finally:
            core.cleanups.done(forms.close)
            core.places.debugged = before
        found = {}
        for name, size in sizes.items():
            found[name] = core.engine.read(start, size)
            start += size
    return found
