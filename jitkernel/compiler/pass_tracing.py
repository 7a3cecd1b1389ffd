"""LLVM watched at work on a module.  Worker only.  Start from `trace`.

LLVM can log what each pass does, but its options are the whole process's and stay, and it writes to
standard error.  So children are forked: options never reach the process that forks.  All of them
compile through `pipeline`, as the worker that made the cell did.

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

import json
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import LLVMError
from jitkernel.compiler.forks import Fork, content
from jitkernel.compiler.naming import name_values
from jitkernel.compiler.pass_dumps import HERE, Dumps
from jitkernel.compiler.pass_log import END, looks, loop_of, loop_runs, pass_runs
from jitkernel.compiler.pipeline import Seen, watched
from jitkernel.compiler.records import Request
from jitkernel.errors import CompileError
from jitkernel.ir.module import functions

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


def ends(request: Request) -> Answer:
    """The text of a module before its first pass and after its last, with named values.  Raises
    CompileError."""
    found: dict[str, Any] = {}
    _between_ends(request, found.__setitem__)
    return found, b""


def trace(request: Request, only: str, folder: str) -> Answer:
    """Leave in a folder (see `pass_dumps`) the passes that run, the module before and after them,
    and what of it they change: of all functions, or of the one that is called `only`.  Raises
    CompileError.

    Where that is a small part of its module, the module is never printed.
    """
    dumps = Dumps(folder)
    runs = pass_runs(_counted(request))
    sizes = {f.name: f.end - f.start for f in functions(request.source, "define")}
    small = only in sizes and sizes[only] * _SMALL < sum(sizes.values())
    before, after = looks(runs, only, not small)
    dumps.put("runs", runs)
    lists = {"before": before, "after": after}
    options = [
        f"-print-{when}-pass-number={','.join(map(str, numbers))}"
        for when, numbers in lists.items() if numbers
    ]  # fmt: skip

    def work() -> bytes:
        binding.set_option(_NO_REMARKS, HERE, *options)
        binding.before_passes = dumps.enter
        _between_ends(request, dumps.put)
        return b"{}"

    _watched(work)
    return {}, b""


def loop_trace(request: Request, only: str, header: str) -> Answer:
    """The same for the passes over one loop, by a label that its header has at some time; `loops`
    are all loops of the function, each with the labels that its header had and its number of
    passes.  The log is empty where there is no such loop."""
    runs = pass_runs(_counted(request))
    found = loop_runs(runs, only)
    loops = [[*dict.fromkeys(loop_of(run.unit)[0] for run in own)] for own in found]
    chosen = next((own for own, labels in zip(found, loops, strict=True) if header in labels), [])
    answer: dict[str, Any] = {
        "loops": [[labels, len(own)] for labels, own in zip(loops, found, strict=True)],
        "runs": chosen,
    }
    if not chosen:
        return answer, b""
    numbers = ",".join(str(run.number) for run in chosen)
    options = [f"-print-before-pass-number={numbers}", f"-print-after-pass-number={numbers}"]
    told, log = _logged(request, options)
    return {**told, **answer}, log


def machine(request: Request) -> Answer:
    """The log of code generation at the stages that are shown, and the object."""

    def work() -> bytes:
        def watch(stage: str, module: int) -> None:
            if stage == "emit":
                binding.set_option(*_MACHINE)

        return json.dumps({"object": watched(request, watch).hex()}).encode()

    return _watched(work)


def remarks(request: Request) -> Answer:
    """The remarks of passes on a module, in the log of those that ran; of code generation those of
    register allocation.  Raises CompileError."""
    return {}, b"".join(data for _, data in _counted(request, _REMARKS, _REMARKS_ON_CODE))


# -- the child that counts


def _counted(
    request: Request, options: Sequence[str] = (_NO_REMARKS,), then: Sequence[str] = ()
) -> list[tuple[int, bytes]]:
    """The log that LLVM writes when it counts the passes over a module, with the system's times;
    `options` make it write more.  The module is emitted only where there are options for that."""
    pipeline.machine(request.options)  # an error is the request's, and the children inherit it
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:

        def work() -> bytes:
            binding.set_option("-print-pass-numbers", *options)

            def watch(stage: str, module: int) -> None:
                if stage == "optimised":
                    os.write(_STDERR, END)
                    if not then:
                        raise Seen
                    binding.set_option(*then)

            watched(request, watch)
            return b"{}"

        child = Fork(lambda: _refusals(work), theirs.fileno())
        theirs.close()
        parts = _stamped(ours)
        found = child.result()
        if found is None:
            raise CompileError(_ended(b"".join(data for _, data in parts)))
        _refuse(json.loads(found))
        return parts
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


def _logged(request: Request, options: list[str]) -> Answer:
    """The answer with what `_between_ends` tells, and the log that some options make LLVM write."""

    def work() -> bytes:
        binding.set_option("-print-pass-numbers", _NO_REMARKS, *options)
        answer: dict[str, Any] = {}
        _between_ends(request, answer.__setitem__)
        return json.dumps(answer).encode()

    return _watched(work)


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


def _watched(work: Callable[[], bytes]) -> Answer:
    """The answer of some work in a child, which is JSON, and what LLVM wrote meanwhile."""
    log = os.memfd_create("jitkernel-log")
    try:
        found = Fork(lambda: _refusals(work), log).result()
        text = content(log)
    finally:
        os.close(log)
    if found is None:
        raise CompileError(_ended(text))
    answer = json.loads(found)
    _refuse(answer)
    return answer, text


def _refusals(work: Callable[[], bytes]) -> bytes:
    try:
        return work()
    except CompileError as error:
        return json.dumps({"refused": str(error)}).encode()


def _refuse(answer: dict[str, Any]) -> None:
    if "refused" in answer:
        raise CompileError(answer["refused"])


def _ended(log: bytes) -> str:
    words = log[-2000:].decode("utf-8", "replace").strip().rpartition("***\n")[2]
    return f"LLVM ended while its passes were watched: {words}"
