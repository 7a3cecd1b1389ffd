"""One module through LLVM: parse, verify, summarise, optimise, emit.  Worker only.

Start from `compile_module`.  What can wait until the answer is on its way (disposing the module,
building the next pass pipeline) is left to `tidy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

from jitkernel.compiler import binding, inlining, undefined
from jitkernel.compiler.binding import LLVMError, Machine, lib
from jitkernel.compiler.context_pool import ContextPool
from jitkernel.compiler.diagnose import parse_error, verify_error
from jitkernel.compiler.forks import in_child
from jitkernel.compiler.passes import PRINTED, STATEPOINTS, parse_passes
from jitkernel.compiler.prepare import PREFIX_LINES, Prepared, place, prepare
from jitkernel.compiler.records import FOLLOWED, HOMES, Options, Request
from jitkernel.compiler.summary import summarise
from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.module import has_switch
from jitkernel.ir.names import CONTROL
from jitkernel.ir.safepoints import guard_at, has_statepoints, with_leaf_assembly

_machines: dict[tuple[Any, ...], Machine] = {}
_ALLOCATORS = ("", "greedy", "fast")
_MODELS = {
    "reloc": ("default", "static", "pic", "dynamicnopic"),
    "code_model": ("default", "jitdefault", "small", "kernel", "medium", "large"),
}
# An innermost loop begins with a line of the cache where that takes at most 31 bytes; code that has
# one begins with a line too, so that it is as quick wherever it is placed.  Seen without: a
# convolution that took 1.2 to 1.5 times as long by its place.  Code does not grow by it: loops that
# would take more are not moved at all.
binding.set_option(
    "-x86-experimental-pref-innermost-loop-alignment=6", "-max-bytes-for-alignment=31"
)
# What `pass_tracing` shows.  LLVM reads this once, when it first generates code.
binding.set_option(f"-filter-passes={PRINTED}")
# Code that is of no line, as what LLVM made of two, is not of the line before it.
binding.set_option("-use-unknown-locations=Enable")
_MANY_CASES = 256  # of a `switch`: so many that LLVM's own order of passes is slow
_GUARD = (
    "LLVM has no code for @llvm.experimental.guard, which no pass here takes apart: write the test "
    "(`br i1 %c, label %go, label %out`), and behind `out:` return what a call of "
    "@llvm.experimental.deoptimize with the guard's bundle gives"
)
contexts = ContextPool()
_cleanups: list[Callable[[], object]] = []


#: Who is shown a module at a stage of its compile; see `compile_module`.
Watch = Callable[[str, int], "Sequence[bytes] | None"]


class Seen(Exception):
    """A watcher of a compile has seen what there was to see: nothing more is compiled."""


class _Apart(CompileError):
    """A module and the bodies that it was lent do not go together."""


def machine(options: Options) -> Machine:
    """The TargetMachine for these options; raises CompileError where LLVM has none."""
    if options.regalloc not in _ALLOCATORS:
        raise CompileError(f"there is no register allocator {options.regalloc!r}: greedy or fast")
    key = (options.opt_level, options.cpu, options.reloc, options.code_model)
    if key not in _machines:
        try:
            for what, known in _MODELS.items():  # LLVM takes any other word for "default"
                if (word := getattr(options, what)) not in known:
                    raise ValueError(f"there is no {what} {word!r}, but {', '.join(known)}")
            _machines[key] = Machine(*key)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise CompileError(f"these options name no machine: {key}: {error}") from None
    return _machines[key]


def compiled(request: Request) -> tuple[dict[str, Any], bytes]:
    """A module's object and summary.  Raises CompileError."""
    if request.context == "throwaway":
        request = request._replace(cell=0)
    contexts.begin(request.context, request.cell)
    try:
        code, rows, times, notes = compile_module(request)
    except inlining.Unknown:
        return {"lacks": True}, b""
    except _Apart:
        tidy()
        code, rows, times, notes = compile_module(request._replace(bodies=()))
    return {"summary": rows, "times": times, **({"notes": notes} if notes else {})}, code


def account() -> tuple[dict[str, Any], bytes]:
    """An account of this worker's contexts, which it keeps from now on."""
    return contexts.watch(), b""


def release(cells: list[int], shared: bool) -> tuple[dict[str, Any], bytes]:
    """Free the contexts of cells, and the one that is `shared`."""
    contexts.release(cells, shared)
    return {}, b""


def compile_module(
    request: Request, watch: Watch | None = None
) -> tuple[bytes, list[Any], list[int], list[Any]]:
    """Object, summary rows, times in nanoseconds, warnings; raises CompileError.

    `watch` is shown the module when it is to be optimised (`optimise`), when it is (`optimised`)
    and when it is to be emitted (`emit`), and may raise `Seen`, or then give assembly to stand in
    front; what is watched goes with its context, and gets no warnings of what is undefined.
    """
    source, options, policy, cell = request.source, request.options, request.context, request.cell
    if watch:
        policy, cell = "throwaway", 0
    if options.debug:  # nothing is looked into
        if options.debug == HOMES:
            options = options._replace(opt_level=0, passes="")
        request = request._replace(options=options, bodies=())
    target = machine(options)
    ready = prepare(request, target)
    if ready.pic:
        target = machine(options._replace(reloc="pic", code_model="small"))
    context = contexts.take(policy)
    _cleanups.append(lambda: contexts.give_back(policy, cell, context))
    try:
        start = perf_counter_ns()
        module = binding.parse(context, _debugged(ready, request) if options.debug else ready.text)
        _cleanups.append(lambda: lib.DisposeModule(module))
        parsed = perf_counter_ns()
        binding.verify(module)
        verified = perf_counter_ns()
        rows = _summary(module, request, ready, target)
        held = _lent(module, context, request, target) if request.bodies else []
        if ready.near:
            inlining.bring_near(module, ready.near)
        summarised = perf_counter_ns()
        if watch:
            watch("optimise", module)
        tells = options.inline and not options.internal and not options.debug
        told = inlining.Watch() if tells else None
        made = _optimise(target, module, options, source)
        if (guard := guard_at(source)) >= 0 and guard_at(binding.print_module(made)) >= 0:
            ready.refuse(guard, _GUARD)
        if watch:
            watch("optimised", made)
        if told is not None:
            held += inlining.names_held(request, rows[:2], told)
        if held:
            inlining.mark(made, context, target.prefix, inlining.numbered(request, held))
        optimised = perf_counter_ns()
        if watch and (asked := watch("emit", made)):
            inlining.assemble(made, context, target.prefix, asked)
        code = target.emit(made, regalloc=options.regalloc)
        if ready.loaded:
            from jitkernel.compiler.loaderless import without_loader  # few cells need it

            names = [row[0] for row in rows[1] if row[5]]
            code = without_loader(code, source, names)
        emitted = perf_counter_ns()
    except LLVMError as error:
        raise _refusal(error, request, ready.shifts) from None
    _cleanups.append(target.prepare)
    times = [
        parsed - start,
        verified - parsed,
        optimised - summarised,
        emitted - optimised,
        summarised - verified,
    ]
    if not (options.internal or options.debug or watch):
        ready.warnings += _undefined(request, made)
    return code, rows, times, ready.warnings


def _debugged(ready: Prepared, request: Request) -> bytes:
    """The text that is compiled for one that is to be debugged: itself, where LLVM refuses it, or
    where its lines cannot be told."""
    from jitkernel.compiler.debugged import debugged  # not needed unless somebody debugs

    text = ready.text.decode("utf-8", "surrogatepass")
    try:
        first = request.first_line + PREFIX_LINES
        followed = request.options.debug == FOLLOWED
        made = debugged(text, first, request.marked, followed)
    except LLVMError:
        return ready.text
    return made.encode("utf-8", "surrogatepass") or ready.text


def _summary(module: int, request: Request, ready: Prepared, target: Machine) -> list[Any]:
    """The rows of a module's summary; see `Summary.of`."""
    if request.options.internal:
        return [[], [], {}, []]
    rows = summarise(module, request, ready.aliases, target.features)
    if request.context == "shared":  # which has seen names before: it is told of the text alone
        with binding.parsed(ready.text) as alone:
            rows = summarise(alone, request, ready.aliases, target.features)
    for row in rows[1] if ready.pic else ():
        if row[5] and row[2] not in ("internal", "private"):
            row[0] = CONTROL + row[0]
    return rows


def _lent(module: int, context: int, request: Request, target: Machine) -> list[str]:
    """Let a module look into bodies, see `inlining.lend`.  Raises Unknown, _Apart."""
    try:
        return inlining.lend(module, context, request, target)
    except (LLVMError, CompileError):
        raise _Apart("it does not go with what it was lent") from None


def _undefined(request: Request, made: int) -> list[Diagnostic]:
    """Diagnostics of what is undefined in a module, and what the optimiser made of it."""
    options = request.options
    level = f"--passes {options.passes}" if options.passes else f"-O{options.opt_level}"

    def again(watch: Watch) -> None:
        compile_module(request, watch)

    return [
        place(request, offset, note.message, note.severity)
        for offset, note in undefined.notes(request.source, made, level, again)
    ]


def _optimise(target: Machine, module: int, options: Options, source: str) -> int:
    """Run the passes; the module that they leave, which may be another one."""
    if options.passes:
        _run_chosen(target, module, parse_passes(options.passes))
    else:
        if options.opt_level and has_switch(source, _MANY_CASES):
            module = _with_tables(target, module)
        used = target.optimise(module)
        _cleanups.append(lambda: target.dispose(used))
    return with_safepoints(target, module, source)


def with_safepoints(target: Machine, module: int, source: str) -> int:
    """The module of a text, after all other passes, with the statepoints that a strategy of garbage
    collection asks for; LLVM optimises little across those (Statepoints.html)."""
    if not has_statepoints(source):
        return module
    text = binding.print_module(module)
    marked = with_leaf_assembly(text)
    module = module if marked == text else _parsed(marked.encode())
    _run_chosen(target, module, (STATEPOINTS,))
    return module


def _run_chosen(target: Machine, module: int, names: tuple[str, ...]) -> None:
    """Run passes, in order."""
    used = target.run_passes(module, names)
    _cleanups.append(lambda: target.dispose(used))


def _with_tables(target: Machine, module: int) -> int:
    """Make tables of switches that only choose constants, before the passes that look at every
    pair of their cases: LLVM does it last, and 2,000 cases take it 2 s until then.

    SimplifyCFGOptions::ConvertSwitchToLookupTable, llvm/Transforms/Utils/SimplifyCFGOptions.h.
    """

    def work() -> bytes:
        binding.set_option("-switch-to-lookup=true")
        target.run_passes(module, ("sroa", "simplifycfg"))
        return binding.print_module(module).encode()

    text = in_child(work)
    return module if text is None else _parsed(text)


def _parsed(text: bytes) -> int:
    """The module that a child has printed, in a context of its own."""
    context = lib.ContextCreate()
    _cleanups.append(lambda: lib.ContextDispose(context))
    return binding.parse(context, text)


@contextmanager
def module_of(text: bytes, request: Request) -> Iterator[int]:
    """The verified module of a text that was made of a request's, for a while, in a context of its
    own.  Raises CompileError, also for what LLVM refuses meanwhile."""
    try:
        with binding.parsed(text) as module:
            binding.verify(module)
            yield module
    except LLVMError as error:
        raise _refusal(error, request, {}) from None


def _refusal(
    error: LLVMError, request: Request, shifts: dict[int, tuple[int, int]]
) -> CompileError:
    """An error of what LLVM refused, at its place in the cell."""
    source, first_line = request.source, request.first_line
    if error.stage == "parse":
        return CompileError([parse_error(error.message, source, first_line, shifts)])
    if error.stage == "verify":
        return CompileError(verify_error(error.message, source, first_line))
    return CompileError(error.message)


def watched(request: Request, watch: Watch) -> bytes:
    """The object of a module whose compile somebody watches, empty where that one has seen enough
    before there is one.  Raises CompileError."""
    try:
        return compile_module(request, watch)[0]
    except Seen:
        return b""


def tidy() -> None:
    """Dispose what the last compile left, latest first, and prepare for the next."""
    while _cleanups:
        _cleanups.pop()()
