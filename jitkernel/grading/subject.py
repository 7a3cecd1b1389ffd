"""The function that a check grades: as it was compiled, and as it was written, before any pass.

What a pass takes away (a load whose value nobody needs) is still in the second, and its variables
hold nothing useful at first.  Start from `Subject`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.ir.model import parse
from jitkernel.ir.model.module import Module
from jitkernel.session.program.signatures import Signature
from jitkernel.session.run.calls import Caller, Scratch
from jitkernel.values.value import TypedValue

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.run.results import Collector

_MEMSET, _FILL = "llvm.memset.p0.i64", -91  # 0xa5


class Subject:
    """A function of the session, and what is needed to call it during a check."""

    def __init__(
        self, session: Session, scratch: Scratch, name: str, signature: Signature, memory: bool
    ):
        self._scratch, self._name, self._signature = scratch, name, signature
        self._written = 0
        try:
            request = session.inspect.request(session.symbols[name].cell)
        except UsageError:
            return  # it is an object of another compiler
        if memory or "alloca" in request.source:
            options = request.options._replace(opt_level=0, passes="", inline=False)
            plain = request._replace(source=_plain(request.source, name), options=options)
            self._written = scratch.place_beside(scratch.engine.pool.compile(plain).object, name)

    @property
    def has_written(self) -> bool:
        """True if there is a second form to be called."""
        return self._written != 0

    def call(
        self, arguments: Sequence[Any], printed: Collector, as_written: bool = False
    ) -> TypedValue:
        """Call it with Python values.  Raises what stops it."""
        caller = Caller(self._scratch.core, printed)
        if not as_written:
            return caller.call_with(self._name, arguments)
        return caller.call_of(self._written, self._signature, arguments)


def _plain(source: str, name: str) -> str:
    """The module with the function's own variables filled where they begin to exist: what is read
    before it is written to is not zero by chance.  Its loads are `volatile`: none is left out."""
    module = Module(source)
    function = module.functions[name]
    found = [i for i in function.instructions if i.opcode == "alloca" and len(i.operands) < 2]
    for variable in found:
        size = f"ptrtoint (ptr getelementptr ({variable.allocated_type}, ptr null, i64 1) to i64)"
        fill = f"call void @{_MEMSET}(ptr {variable.ref}, i8 {_FILL}, i64 {size}, i1 false)"
        parse(fill, function).insert_after(variable)
    if found:
        module.declare(f"declare void @{_MEMSET}(ptr, i8, i64, i1)")
    for load in [i for i in function.instructions if i.opcode == "load" and not i.is_volatile]:
        name, _, rest = str(load).partition("load ")
        if not rest.startswith("atomic"):
            load.replace_with(parse(f"{name}load volatile {rest}", function).insert_before(load))
    return str(module)
