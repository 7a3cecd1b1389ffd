"""LLVM watched at work on a module.  Worker only.  Start from `trace`.

LLVM can log what each pass does, but its options are the whole process's and stay, and it writes to
standard error.  So children are forked: options never reach the process that forks.  All of them
compile through `pipeline`, as the worker that made the cell did, and leave what they see in a
folder (`pass_dumps`) as they go on.

`trace` asks two, one after the other.  The first only has the passes counted: when each began, and
on what.  In the second LLVM prints what each pass finds where another one may have changed it, by
the numbers that the first child told (`pass_log.looks`).  Printing a loop costs as much as printing
its function, and each pass over loops runs on each loop: so those print nothing, and what they did
is seen by what the next pass finds.  Which functions to print LLVM cannot be told here: it reads
that option once in its life, and this process is forked from one that has compiled.  `loop_trace`
follows one loop, `machine` logs code generation.

Values that have only a number get names first (`naming`), which leaves the code as it is.

Times come from the system: the first child's standard error is a socket that stamps what is
written.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import LLVMError, lib
from jitkernel.compiler.forks import Fork, content
from jitkernel.compiler.naming import name_values, number_blocks
from jitkernel.compiler.pass_dumps import CODE, HERE, PASSES, Dumps
from jitkernel.compiler.pass_log import END, PassRun, looks, loop_of, loop_runs, pass_runs
from jitkernel.compiler.pipeline import Seen, watched
from jitkernel.compiler.records import Request
from jitkernel.errors import CompileError
from jitkernel.ir.module import functions
from jitkernel.ir.names import written

_STDERR = 2
_SMALL = 4  # so many times a function's size is a module of which it is a small part
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in Python's socket module
# What is shown of code generation: after selection, around register allocation, and in the end.
_MACHINE = (
    "-print-before=greedy,regallocfast,regallocbasic,x86-asm-printer",
    "-print-after=finalize-isel,regallocfast,virtregrewriter",
)

# A compile has those of the inliner told (`inlining.Watch`), and would take them out of the log.
_NO_REMARKS = "-pass-remarks=^$"
_REMARKS = (
    "-pass-remarks=.*",
    "-pass-remarks-missed=.*",
    # Not what others count: instructions before and after, sizes of frames.
    "-pass-remarks-analysis=^(loop-.*|slp-vectorizer|inline)$",
)
# Then nothing else says anything: who does needs no name in the log.
_REMARKS_ON_CODE = (
    "-pass-remarks=^$", "-pass-remarks-missed=^regalloc$", "-pass-remarks-analysis=^$"
)  # fmt: skip

Answer = tuple[dict[str, Any], bytes]
_NOTHING: Answer = ({}, b"")  # what there is to tell is in a folder


def ends(request: Request) -> Answer:
    """The text of a module before its first pass and after its last, with named values.  Raises
    CompileError."""
    found: dict[str, Any] = {}
    _between_ends(request, found.__setitem__)
    return found, b""


def trace(request: Request, only: str, known: list[list[Any]], folder: str) -> Answer:
    """Leave in a folder (see `pass_dumps`) the passes that run, the module before and after them,
    and what of it they change: of all functions, or of the one that is called `only`.  Raises
    CompileError.

    Where that is a small part of its module, the module is never printed.  `known` are the passes
    where somebody has counted them already; if it were others, they are counted anew.
    """
    dumps = Dumps(folder)
    runs = [PassRun(*row) for row in known] or _counted(request)
    sizes = {f.name: f.end - f.start for f in functions(request.source, "define")}
    small = only in sizes and sizes[only] * _SMALL < sum(sizes.values())
    before, after = looks(runs, only, not small)
    dumps.put("runs", runs)
    lists = {"before": before, "after": after}
    options = [
        f"-print-{when}-pass-number={','.join(map(str, numbers))}"
        for when, numbers in lists.items() if numbers
    ]  # fmt: skip

    def work() -> None:
        binding.set_option(_NO_REMARKS, HERE, *options)
        binding.before_passes = dumps.enter
        _between_ends(request, dumps.put)

    _logged(work, dumps.log(PASSES))
    if known and not dumps.fits():
        dumps.empty()
        return trace(request, only, [], folder)
    return _NOTHING


def counted(request: Request, folder: str) -> Answer:
    """Leave in a folder the passes that run, and nothing of what they do.  Raises CompileError."""
    Dumps(folder).put("runs", _counted(request))
    return _NOTHING


def loop_trace(request: Request, only: str, header: str, folder: str) -> Answer:
    """The same for the passes over one loop, by a label that its header has at some time; `loops`
    are all loops of the function, each with the labels that its header had and its number of
    passes.  There is no log where there is no such loop."""
    dumps = Dumps(folder)
    found = loop_runs(_counted(request), only)
    loops = [[*dict.fromkeys(loop_of(run.unit)[0] for run in own)] for own in found]
    chosen = next((own for own, labels in zip(found, loops, strict=True) if header in labels), [])
    dumps.put("runs", chosen)
    dumps.put("loops", [[labels, len(own)] for labels, own in zip(loops, found, strict=True)])
    if chosen:
        numbers = ",".join(str(run.number) for run in chosen)

        def work() -> None:
            where = (f"-print-{when}-pass-number={numbers}" for when in ("before", "after"))
            binding.set_option(_NO_REMARKS, *where)
            _between_ends(request, lambda name, value: None)

        _logged(work, dumps.log(PASSES))
    dumps.put("last", True)
    return _NOTHING


def machine(request: Request, only: str, at: int, counted: bool, folder: str) -> Answer:
    """Leave in a folder the log of code generation at the stages that are shown, the object, the
    module before its passes and after them, and the passes that ran, if they are to be `counted`:
    all of one compile.

    Where there is a function that is called `only`, it alone gets code, so many bytes behind a line
    of the cache (`at`): loops are aligned by it.  Blocks that have only a number are called by that
    in the log.
    """
    dumps = Dumps(folder)

    def watch(stage: str, module: int) -> Sequence[bytes] | None:
        one = _function(module, only)
        if stage == "optimise":
            text = binding.print_value(one) if one else binding.print_module(module)
            dumps.put("first", text)
        elif stage == "optimised":
            os.write(_STDERR, END)
            text = binding.print_module(module)
            dumps.put("last", text)
            number_blocks([one] if one else binding.functions(module))
            if one and " alias " not in text and " ifunc " not in text:
                _leave_out(module, one, text)
        else:
            os.dup2(dumps.log(CODE), _STDERR)
            binding.set_option(*_MACHINE)
            return (b".text", b".p2align 6", b".skip %d" % at) if at else None
        return None

    def work() -> None:
        dumps.put("object", watched(request, watch).hex())

    try:
        if counted:
            dumps.put("runs", _counted(request, work))
        else:
            _logged(work, dumps.log(PASSES))
    except CompileError:
        if not only:
            raise
        return machine(request, "", 0, counted, folder)  # something needs what was left out
    return _NOTHING


def _function(module: int, name: str) -> int:
    """The function of that name that the module defines; 0 for none."""
    defined = (f for f in binding.functions(module) if not lib.IsDeclaration(f))
    return next((f for f in defined if name and binding.name_of(f) == name), 0)


def _leave_out(module: int, kept: int, text: str) -> None:
    """Have no code generated of other functions than one, as if it were elsewhere; but of those
    whose blocks' addresses somebody takes: they are symbols in their code."""
    for function in binding.functions(module):
        if function != kept and not lib.IsDeclaration(function):
            if f"blockaddress({written(binding.name_of(function))}," not in text:
                lib.SetLinkage(function, binding.AVAILABLE)


def remarks(request: Request, folder: str) -> Answer:
    """Leave in a folder the remarks of passes on a module, in the log of those that ran; of code
    generation those of register allocation.  Raises CompileError."""
    dumps = Dumps(folder)

    def work() -> None:
        binding.set_option("-print-pass-numbers", *_REMARKS)

        def watch(stage: str, module: int) -> None:
            if stage == "optimised":  # not later: it would be taken out what was inlined
                os.dup2(dumps.log(CODE), _STDERR)
                binding.set_option(*_REMARKS_ON_CODE)

        watched(request, watch)

    _logged(work, dumps.log(PASSES))
    dumps.put("last", True)
    return _NOTHING


# -- the child that counts


def _counted(request: Request, work: Callable[[], object] | None = None) -> list[PassRun]:
    """The passes over a module, as LLVM counts them, with the system's times.

    That is done in some `work` of the caller's, if there is any, which writes END behind them, and
    what else it has to say to another standard error."""
    pipeline.machine(request.options)  # an error is the request's, and the children inherit it
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:

        def passes() -> None:
            def watch(stage: str, module: int) -> None:
                if stage == "optimised":
                    os.write(_STDERR, END)
                    raise Seen

            watched(request, watch)

        def count() -> None:
            binding.set_option("-print-pass-numbers", _NO_REMARKS)
            (work or passes)()

        child = Fork(lambda: _refusals(count), theirs.fileno())
        theirs.close()
        parts = _stamped(ours)
        _refuse(child, lambda: b"".join(data for _, data in parts))
        return pass_runs(parts)
    finally:
        ours.close()


def _stamped(sock: socket.socket) -> list[tuple[int, bytes]]:
    """All that is written to the other end, with its time in nanoseconds, 0 where unknown."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        pass  # no times then
    parts: list[tuple[int, bytes]] = []
    while True:
        data, extra, _, _ = sock.recvmsg(1 << 16, 128)
        if not data:
            return parts
        stamp = next((body for level, kind, body in extra if kind == _SO_TIMESTAMPNS), b"")
        seconds, nanoseconds = struct.unpack("@qq", stamp) if stamp else (0, 0)
        parts.append((seconds * 10**9 + nanoseconds, data))


# -- the children that print


def _between_ends(request: Request, tell: Callable[[str, Any], None]) -> None:
    """Run the passes over a module.  Told are its text `first`, with whether values were given
    names, and its text `last`, with whether it is well formed."""

    def watch(stage: str, module: int) -> None:
        if stage == "optimise":
            named = name_values(module)
            tell("first", (binding.print_module(module), named))
            return
        verified = True
        try:
            binding.verify(module)
        except LLVMError:
            verified = False
        tell("last", (binding.print_module(module), verified))
        raise Seen

    watched(request, watch)


def _logged(work: Callable[[], object], log: int) -> None:
    """Do some work in a child, and what LLVM says meanwhile goes to a file, which is closed."""
    try:
        child = Fork(lambda: _refusals(work), log)
        _refuse(child, lambda: content(log))
    finally:
        os.close(log)


def _refusals(work: Callable[[], object]) -> bytes:
    try:
        work()
    except CompileError as error:
        return str(error).encode("utf-8", "surrogateescape")
    return b""


def _refuse(child: Fork, log: Callable[[], bytes]) -> None:
    """Wait for a child.  Raises CompileError with what it refused, or how it ended, by its log."""
    found = child.result()
    if found is None:
        words = log()[-2000:].decode("utf-8", "replace").strip().rpartition("***\n")[2]
        raise CompileError(f"LLVM ended while its passes were watched: {words}")
    if found:
        raise CompileError(found.decode("utf-8", "surrogateescape"))
