"""Functions that count their calls, and tell when there have been enough.

The counter is a call in front of the function's own code; LLVM's passes make it a part of that, and
of whoever has the body.  Start from `count_calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import ref

from jitkernel.errors import UsageError
from jitkernel.ir.model import Module, call
from jitkernel.ir.names import quote_name
from jitkernel.record import record
from jitkernel.session.program.relinking import give_own_values, own_values
from jitkernel.session.settings import same_options

if TYPE_CHECKING:
    from jitkernel.session.handles import FunctionHandle
    from jitkernel.session.session import Session

_COUNT = """
@{calls} = global i64 0
define internal void @{count}() {{
  %before = atomicrmw add ptr @{calls}, i64 1 monotonic
  %enough = icmp eq i64 %before, {last}
  br i1 %enough, label %tell, label %end
tell:
  call void @{hot}()
  br label %end
end:
  ret void
}}
"""


def counting(text: str, function: str, most: int, hot: str) -> str:
    """A module in which a function counts its calls in `@f.calls`, and calls `@f.hot`, which the
    text `hot` defines, in the one that has the number `most`."""
    module = Module(text)
    found = module.functions[function]
    names = {part: quote_name(f"{function}.{part}") for part in ("calls", "count", "hot")}
    counter = module.global_value(names["count"])
    call(counter, "void").insert_before(found.entry.first_non_phi)
    return f"{module}{_COUNT.format(last=most - 1, **names)}{hot}\n"


@record
class _Hot:
    """The Python function that a counter calls when it is full; the same for the same request.
    The session has it, and not the other way round: one that nobody else has ends."""

    session: ref[Session]
    name: str
    most: int
    translate: Callable[[FunctionHandle], str | None]

    def __call__(self) -> None:
        if (session := self.session()) is not None:
            session.later(self.again, session)

    def again(self, session: Session) -> None:
        """Define the function again, unless somebody has, meanwhile."""
        core, name = session._core, self.name
        if core.program.owner(name) != core.program.owner(f"{name}.calls"):
            return
        text = self.translate(session[name])
        if text is not None:
            session.run(text)
            called = core.program.called(name)
            core.engine.notices.append(
                f"{called} was called {self.most:,} times, and is defined again"
            )


def count_calls(
    session: Session, name: str, most: int, translate: Callable[[FunctionHandle], str | None]
) -> None:
    """Have a function count its calls: see `Session.on_hot`."""
    core = session._core
    cell, _ = session.inspect.cell_of(name)
    request = session.inspect.request(cell.number)
    if name not in Module(request.source).functions:
        called = core.program.called(name)
        raise UsageError(f"{called} is no function with code of its own: nothing can count calls")
    hot = _Hot(ref(session), name, most, translate)
    source, _ = core.python_functions.add(f"{name}.hot", hot, "void ()")
    # Calls stay calls, so that loops come to the next definition.
    options = replace(same_options(request.options), inline="off")
    compiled = session.compile(counting(request.source, name, most, source), options)
    own = own_values(core.program, cell)
    if (placed := session.place(compiled).cell) is not None:
        give_own_values(core.program, placed, own)
