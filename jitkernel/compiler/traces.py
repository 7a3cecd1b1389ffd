"""What LLVM tells of its work on a module, which is compiled again for that.  Start from `Traces`.

Runs in the kernel process; what a worker does for it is in `pass_tracing`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from jitkernel.compiler.line_table import LINE, beside, extent, located
from jitkernel.compiler.machine_ir import MachineTrace
from jitkernel.compiler.pass_dumps import Dumps
from jitkernel.compiler.pass_log import PassRun
from jitkernel.compiler.pass_trace import LoopTrace, PassTrace, place
from jitkernel.compiler.records import Compiled, Request
from jitkernel.compiler.remarks import Remark, Remarks, inlined
from jitkernel.errors import Interrupted
from jitkernel.files import scratch_folder

Trace: TypeAlias = PassTrace | LoopTrace | MachineTrace | Remarks | tuple[PassRun, ...]
_Trace = TypeVar("_Trace", bound=Trace)


class Traces:
    """Passes, code generation and remarks.

    `tick` is told twice a second how far it is.  The latest answer to each question is kept, for a
    view is often followed by another one of the same cell.  Raises what a compile raises; where
    that is an interruption, `partial` is what was seen until then.

    `answer` is a worker's to a question, `compile` what becomes of a request; one thread at a time
    asks, by the `lock`.
    """

    def __init__(
        self,
        answer: Callable[..., object],
        compile: Callable[[Request], Compiled],
        lock: AbstractContextManager[object],
    ):
        self._answer, self._compile, self._lock = answer, compile, lock
        self._traced: dict[str, tuple[tuple[Any, ...], Any]] = {}
        #: the last of them as far as it came, where it was interrupted
        self.partial: Trace | None = None

    def inlining(self, request: Request) -> list[tuple[str, str, bool, str]]:
        """Calls as LLVM's inliner saw them: callee, caller, whether it was inlined, why."""
        return inlined(self.remarks(request))

    def remarks(
        self, request: Request, tick: Callable[[str], None] | None = None
    ) -> tuple[Remark, ...]:
        """The remarks of LLVM's passes on a module, each once, in order.  Their lines are those of
        `line_table.located`."""
        asked = located(request) or request
        return self._watched("remarks", "the remarks", Remarks.of, tick, (asked,), asked).found

    def passes(
        self, request: Request, only: str = "", tick: Callable[[str], None] | None = None
    ) -> PassTrace:
        """A trace of what each pass does to the module, or to the one function `only`."""
        asked = request, only
        seen = self._traced.get("machine")  # it has counted the passes
        known = seen[1].runs if seen is not None and seen[0] == asked and seen[1].same >= 0 else ()

        def words(dumps: Dumps) -> str:
            return place(dumps) or "counting the passes"

        def read(dumps: Dumps) -> PassTrace | None:
            return PassTrace.of(dumps, only)

        return self._watched("trace", words, read, tick, asked, *asked, known)

    def pass_runs(
        self, request: Request, tick: Callable[[str], None] | None = None
    ) -> tuple[PassRun, ...]:
        """The passes that run over a module, with their times, and nothing of what they do."""

        def read(dumps: Dumps) -> tuple[PassRun, ...] | None:
            return tuple(dumps.runs()) or None

        return (
            self._watched("counted", "counting the passes", read, tick, (request,), request) or ()
        )

    def loop(
        self, request: Request, only: str, header: str, tick: Callable[[str], None] | None = None
    ) -> LoopTrace:
        """A trace of what each pass over one loop of the function `only` does to it; a label of
        its header says which."""
        asked = request, only, header
        return self._watched("loop_trace", "the loop", LoopTrace.of, tick, asked, *asked)

    def machine(
        self,
        request: Request,
        only: str = "",
        tick: Callable[[str], None] | None = None,
        code: bytes = b"",
        counted: bool = False,
    ) -> MachineTrace:
        """The machine IR of each function, or of the one function `only`, and what else is known of
        such a compile.

        `code` is the object that the request has become, where that is at hand: then it is said
        whether this is the same code.  Of `only` nothing else gets code, where that makes none that
        is different.  `counted`: the passes are counted, for a `trace`.
        """
        text = None if request.options.debug else located(request)
        start, size = extent(code, only)

        def ask(asked: Request, alone: str) -> MachineTrace:
            def read(dumps: Dumps) -> MachineTrace | None:
                return MachineTrace.of(dumps, only, asked is not request, code)

            given = asked, alone, start % LINE, counted
            return self._watched("machine", "code generation", read, tick, (request, only), *given)

        made = ask(text or request, only if size or not code else "")
        if size and made.same < 0 and text is not None:
            # What stands before it in a file has a part in how its loops are padded.
            same, lines = beside(code, self._compile(text).object, only)
            made = made._replace(same=same, lines=lines)
            self._traced["machine"] = (request, only), made
        for alone in (only, ""):  # locations have a part in its code, or what was left out
            if code and made.same < 0:
                del self._traced["machine"]
                made = ask(request, alone)
        return made

    def _watched(
        self,
        function: str,
        words: str | Callable[[Dumps], str],
        read: Callable[[Dumps], _Trace | None],
        tick: Callable[[str], None] | None,
        asked: tuple[Any, ...],
        *given: Any,
    ) -> _Trace:
        """The trace that a worker makes of what it is given, in a folder of which `read` makes a
        record, or that was made last, where the same was asked for."""
        with self._lock:
            known = self._traced.get(function)
            self.partial = None
            if known is None or known[0] != asked:
                with scratch_folder() as folder:
                    dumps = Dumps(folder)
                    told = _telling(tick, lambda: words if isinstance(words, str) else words(dumps))
                    try:
                        self._answer(f"pass_tracing:{function}", *given, folder, tick=told)
                    except Interrupted:
                        self.partial = read(dumps)
                        raise
                    made: Any = read(dumps)  # all of it is there
                known = self._traced[function] = asked, made
        found: _Trace = known[1]
        return found


def _telling(
    tick: Callable[[str], None] | None, words: Callable[[], str]
) -> Callable[[], None] | None:
    """A function that tells somebody these words, if there is anybody."""
    return None if tick is None else lambda: tick(words())
