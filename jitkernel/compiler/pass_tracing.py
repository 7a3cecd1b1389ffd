"""LLVM watched at work on a module.  Worker only.  Start from `trace`.

LLVM can log what each pass does, but its options are the whole process's and stay, and it writes to
standard error.  So every request forks twice: in one child LLVM logs each change, in the other (at
the same time, undisturbed by so much printing) when each pass began.  Both compile through
`pipeline`, as the worker that made the cell did; options never reach the process that forks.

Times come from the system: the child's standard error is a socket that stamps what is written.

Whether what a pass left is well formed is judged from the log.  Of a small module it has all of it,
which LLVM's verifier is shown again.  Of a large one it has only the functions that a
pass ran on, for printing everything after each step would take minutes.  Those are verified one by
one, among the types and variables that they name: `verified_alone`.  What they name besides is
declared from its use, and metadata that stands elsewhere is left out; LLVM does both itself when it
is told that IR may be incomplete.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import LLVMError, lib
from jitkernel.compiler.forks import Fork, content
from jitkernel.compiler.pass_log import (
    PassRun,
    codegen_times,
    pass_times,
    read_log,
    with_times,
)
from jitkernel.compiler.records import Request
from jitkernel.errors import CompileError
from jitkernel.ir.debug_info import without_metadata
from jitkernel.ir.module import entities
from jitkernel.ir.names import mentions

_STDERR = 2
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in Python's socket module
# With more functions than this the whole module is not printed after each pass over one of them.
_FEW = 12

Compile = Callable[[Callable[[str, int], None]], bytes]


def trace(request: Request) -> tuple[dict[str, Any], bytes]:
    """The answer to one request: the passes that changed something, and the text that they are
    slices of.  Raises CompileError."""
    pipeline.machine(request.options)  # an error is the request's, and the children inherit it

    def compile_(watch: Callable[[str, int], None]) -> bytes:
        return pipeline.compile_module(request, watch)[0]

    log = os.memfd_create("jitkernel-log")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        changes = Fork(lambda: _changes(compile_, log), log)
        timing = Fork(lambda: _times(compile_), theirs.fileno())
        theirs.close()
        parts = _stamped(ours)
        found, spent = changes.result(), timing.result()
        text = content(log)
        if found is None:
            words = text[-2000:].decode("utf-8", "replace").strip().rpartition("***\n")[2]
            raise CompileError(f"LLVM ended while its passes were watched: {words}")
        answer = json.loads(found)
        if "error" in answer:
            raise CompileError(answer["error"])
        runs = [PassRun(*row) for row in answer.pop("runs")]
        if spent is not None:
            generated = codegen_times(spent.decode("utf-8", "surrogateescape"))
            runs = [*with_times(runs, pass_times(parts), generated, answer["border"])]
        ran = [run for run in runs if run.title and run.start < answer["border"]]
        measured = [run.nanoseconds for run in ran if run.nanoseconds >= 0]
        answer["ran"], answer["spent"] = len(ran), sum(measured) if measured else -1
        answer["steps"] = [run for run in runs if run.start < run.stop]
        return answer, text
    finally:
        ours.close()
        os.close(log)


# -- the child that logs changes


def _changes(compile_: Compile, log: int) -> bytes:
    """The passes' work on a module, in JSON; LLVM writes to the file `log`."""
    binding.set_option("-print-changed")
    texts: list[str] = []
    border = 0
    whole = True

    def watch(stage: str, module: int) -> None:
        nonlocal border, whole
        texts.append(binding.print_module(module))
        if stage == "emit":
            border = os.lseek(log, 0, os.SEEK_END)
            return
        whole = sum(not lib.IsDeclaration(f) for f in binding.functions(module)) <= _FEW
        binding.set_option("-print-module-scope" if whole else "-print-loop-func-scope")

    answer: dict[str, Any]
    try:
        code = compile_(watch)
    except CompileError as error:
        answer = {"error": str(error)}
    else:
        logged = content(log)
        changes = read_log(logged)
        verdicts = _verdicts(logged, [c for c in changes if c.start < border], whole, texts[0])
        runs = [c._replace(verified=verdicts.get(c.start)) for c in changes]
        answer = {
            "runs": runs, "border": border, "texts": texts, "object": code.hex(), "whole": whole,
        }  # fmt: skip
    return json.dumps(answer).encode()


def _verdicts(
    log: bytes, changes: list[PassRun], whole: bool, before: str
) -> dict[int, bool | None]:
    """Verdicts on what each pass left, by where the log has it; None where it could not be told.
    Whole modules first: they are read more strictly."""
    changed = [c for c in changes if c.start < c.stop]
    found: dict[int, bool | None] = {
        c.start: _verdict(log[c.start : c.stop]) is True
        for c in changed
        if whole or c.unit == "[module]"
    }
    around = surroundings(before)
    for c in changed:
        if c.start not in found:
            found[c.start] = verified_alone(log[c.start : c.stop], around)
    return found


class Surroundings(NamedTuple):
    """The surroundings that a function of a module may rely on: lines that always go with it
    (types, comdats, the target), and the lines of variables by name."""

    always: str
    variables: dict[str, str]


def surroundings(module: str) -> Surroundings:
    """The surroundings that the printed text of a whole module gives."""
    always: list[str] = []
    variables: dict[str, str] = {}
    for found in entities(module, "type", "comdat", "target", "value"):
        if found.kind not in ("global", "constant"):  # an alias would need its aliasee
            always += [found.text] if found.kind in ("type", "comdat", "target") else []
        elif found.spelled.isdigit():
            always.append(found.text)
        else:
            variables[found.spelled] = found.text
    return Surroundings("\n".join(always), variables)


def verified_alone(text: bytes, around: Surroundings) -> bool | None:
    """True if functions that LLVM printed without their module are well formed; None where
    LLVM cannot read them alone.

    From the first call on, this process reads incomplete modules as if they were whole.
    """
    binding.set_option("-allow-incomplete-ir")
    body = without_metadata(text.decode("utf-8", "surrogateescape"))
    # The log has a line of its own above a loop's function.
    body = "\n".join(line for line in body.split("\n") if not line.startswith(" (loop: "))
    lines = [around.variables[name] for name in mentions(body, "@") & around.variables.keys()]
    whole = "\n".join([around.always, *lines, body])
    return _verdict(whole.encode("utf-8", "surrogateescape"))


def _verdict(text: bytes) -> bool | None:
    """True, False where the verifier refuses, None where the parser does."""
    try:
        with binding.parsed(text.replace(b"\0", b"")) as module:
            binding.verify(module)
    except LLVMError as error:
        return None if error.stage == "parse" else False
    return True


# -- the child that logs times


def _times(compile_: Compile) -> bytes:
    """LLVM's log of code generation; the one of the passes before goes to standard error."""
    binding.set_option("-print-pass-numbers", "-debug-pass=Executions")
    spent = os.memfd_create("jitkernel-times")

    def watch(stage: str, module: int) -> None:
        if stage == "emit":
            os.write(_STDERR, b"end\n")
            os.dup2(spent, _STDERR)

    compile_(watch)
    return content(spent)


def _stamped(sock: socket.socket) -> list[tuple[int, bytes]]:
    """Everything that is written to the other end, with its time in nanoseconds."""
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
        if stamp:
            seconds, nanoseconds = struct.unpack("@qq", stamp)
            parts.append((seconds * 10**9 + nanoseconds, data))
