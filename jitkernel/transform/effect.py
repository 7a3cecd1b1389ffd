"""What a pass does to code that is alive: its diff, LLVM's verdict, and figures before and after;
and what an analysis says of it.

Start from `apply_pass` and `analyse`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jitkernel.compiler.machine_ir import Stage
from jitkernel.compiler.pass_trace import PassTrace
from jitkernel.errors import CompileError
from jitkernel.ir.instructions import instructions
from jitkernel.ir.module import Entity, entities, functions
from jitkernel.ir.printed import counts_of
from jitkernel.ir.text import has_word, replaced
from jitkernel.session import Session
from jitkernel.session.operation import operation
from jitkernel.session.run.results import Collector
from jitkernel.session.settings import same_options
from jitkernel.transform.process import Analysed, Transformed, analysed, transform

_REPEAT = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure: `before` and `after` in `unit` ("instructions", "bytes", "ns" a call, "")."""

    what: str
    before: float | str
    after: float | str
    unit: str


@dataclass(frozen=True, slots=True)
class Effect:
    """One pass on one cell.

    `last` says that it ran after LLVM's passes, else before them.  `complaint` is what LLVM said of
    the module that the pass left, "" where it is well formed.  `trace` are LLVM's own passes after
    it.  `kept` is the number of the cell that has the new code, 0 where the old one is back.
    """

    name: str
    cell: int
    last: bool
    made: Transformed
    complaint: str
    figures: tuple[Figure, ...] = ()
    trace: PassTrace | None = None
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis of one cell, and what it gave; `last`: of the IR that LLVM's passes left."""

    name: str
    cell: int
    last: bool
    found: Analysed


def apply_pass(  # noqa: PLR0913  (public, options by their names)
    session: Session,
    code: str,
    name: str,
    target: int | str | None = None,
    *,
    last: bool = False,
    call: str = "",
    keep: bool = False,
    timeout: float = 10.0,
) -> Effect:
    """Run the Python pass in `code` over the module of a cell, before LLVM's passes or after.

    The result is verified, compiled and compared.  With a `call` (`@f(3)`) the new code takes the
    old one's place, the call's value and time are taken, and the old code and its globals come
    back, for the same call from the same start.  With `keep` the new code stays in the end.
    Raises CompileError where the pass fails, UsageError, and what the call raises.
    """
    cell, _ = session.inspect.cell_of(target)
    request = session.inspect.request(cell.number)
    old = session.inspect.printed(request)
    text = _strong(old, request.source) if last else request.source
    made = _transformed(session, code, name, text, timeout)
    options = same_options(request.options, "none" if last else "")
    try:
        compiled = session.compile(made.after, options)
    except CompileError as error:
        return Effect(name, cell.number, last, made, _complaint(error, made))
    new = session.inspect.traced(lambda of: of.passes(compiled.request))
    both = request, compiled.request
    stages = session.inspect.traced(lambda of: [of.machine(r).stages for r in both])
    machine = [_machine(found) for found in stages]
    data = session.inspect.object(cell.number)
    sizes = session.inspect.program.linker.sizes(data)
    figures = [
        Figure("IR, as the pass sees it", _count(made.before), _count(made.after), "instructions"),
        Figure("IR, as it is emitted", _count(old), _emitted(new), "instructions"),
        Figure("machine code", machine[0], machine[1], "instructions"),
        Figure("machine code", sizes["text"], compiled.sizes["text"], "bytes"),
        Figure("object", len(data), len(compiled.object), "bytes"),
    ]
    if call:
        session.place(compiled)
        try:
            after = _call(session, call)
        finally:
            session.undo()
        before = _call(session, call)
        figures.append(Figure(f"value of {call}", before[0], after[0], ""))
        figures.append(Figure(f"time of {call}", before[1], after[1], "ns"))
    kept = 0
    if keep and (stays := session.place(compiled).cell) is not None:
        kept = stays.number
    return Effect(name, cell.number, last, made, "", tuple(figures), new, kept)


def analyse(
    session: Session,
    code: str,
    name: str,
    target: int | str | None = None,
    *,
    last: bool = False,
    timeout: float = 10.0,
) -> Analysis:
    """Run the Python analysis in `code` over the module of a cell, as it was before LLVM's passes
    or is after them.  It gets a copy: nothing of the session changes.

    Raises CompileError where it fails, UsageError.
    """
    cell, _ = session.inspect.cell_of(target)
    request = session.inspect.request(cell.number)
    text = session.inspect.printed(request) if last else request.source
    return Analysis(name, cell.number, last, _analysed(session, code, name, text, timeout))


def _complaint(error: CompileError, made: Transformed) -> str:
    """The words of LLVM, each sentence with the statement of the pass that wrote what it names."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(made.after.split("\n"), 1):
        places.setdefault(line.strip(), []).append(number)
    told = []
    for each in error.diagnostics:
        named = [n for line in each.message.split("\n")[1:] for n in places.get(line.strip(), ())]
        found = (made.statements[n] for n in [each.line, *named] if n in made.statements)
        words = next(found, "")
        told.append(each.render() + (f"\nwritten by {words}" if words else ""))
    return "\n".join(told)


@operation()
def _analysed(session: Session, code: str, name: str, text: str, timeout: float) -> Analysed:
    return analysed(code, name, text, timeout, lambda: session.inspect.engine.stopping)


@operation()
def _transformed(session: Session, code: str, name: str, text: str, timeout: float) -> Transformed:
    return transform(code, name, text, timeout, lambda: session.inspect.engine.stopping)


def _strong(text: str, source: str) -> str:
    """A printed module with the linkages that its source has: a compile makes strong ones weak."""

    def weak(module: str) -> Iterator[Entity]:
        every = entities(module, "function", "value")
        return (e for e in every if e.linkage in ("weak", "weak_odr") or "protected" in e.words)

    meant = {found.name: found.words for found in weak(source)}
    edits = []
    for found in weak(text):
        words = found.words
        for word in ("weak_odr", "weak", "protected"):
            if not has_word(meant.get(found.name, ""), word):
                words = words.replace(f"{word} ", "")
        edits.append((found.words_at, found.words_at + len(found.words), words))
    return replaced(text, edits)


def _count(text: str) -> int:
    return sum(len(instructions(function)) for function in functions(text, "define"))


def _emitted(trace: PassTrace) -> int:
    return sum(counts_of(text).instructions for name, text in trace.after.items() if name)


def _machine(stages: dict[str, list[Stage]]) -> int:
    return sum(found[-1].instructions for found in stages.values())


def _call(session: Session, call: str) -> tuple[str, float]:
    """The value of a call line, and nanoseconds it takes, the best of several."""
    value = session.value(call, sink=Collector())
    text = "nothing" if value.is_void else value.text(session.describe)
    return text, min(session.time(call, repeat=_REPEAT))
