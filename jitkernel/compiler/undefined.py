"""Undefined behaviour that the optimiser made nothing of, said.  Worker only.  Start from `notes`.

LLVM takes it that what is undefined never happens, and says no word: `sdiv i32 %x, 0` becomes
`ret i32 poison`, and the caller gets what is in the register.  Two looks find it.  `undefined` of
`ir.constants` reads the cell's own text for what is undefined whenever it runs.  `vanished` asks of
the optimised module which functions are only a `ret poison` or an `unreachable` now: a few calls
each, since every compile pays for them.  For such a function, and only then, a child compiles once
more and logs its passes: the first that left nothing is named, and what it met tells why.
Source: llvm.org/docs/LangRef.html, "Poison Values" and "Undefined Values".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice

from jitkernel.compiler import binding
from jitkernel.compiler.binding import lib
from jitkernel.compiler.forks import content, in_child
from jitkernel.compiler.pass_log import BEGIN, START, read_log
from jitkernel.compiler.passes import name_of
from jitkernel.errors import Diagnostic
from jitkernel.ir.constants import divisions, undefined
from jitkernel.ir.module import functions
from jitkernel.ir.text import has_word

Again = Callable[[Callable[[str, int], None]], object]

_POISON = 25
_KINDS = {14: "undef", _POISON: "poison"}  # llvmlite's ValueKind
_MOST = 4096  # instructions of an entry block that are walked
_FEW = 4  # functions whose passes are logged
_STDERR = 2


def vanished(module: int) -> dict[str, str]:
    """The functions of an optimised module that are one block with nothing to give: each with
    `undef` or `poison` where it returns that, "" where its end cannot be reached."""
    found: dict[str, str] = {}
    for function in binding.functions(module):
        if not lib.IsDeclaration(function):
            how = _end_of(function)
            if how is not None:
                found[binding.name_of(function)] = how
    return found


def _end_of(function: int) -> str | None:
    before = last = 0
    for instruction in islice(binding.instructions(next(binding.blocks(function))), _MOST):
        before, last = last, instruction
    end = binding.opcode(last)
    if end == "unreachable":  # a call before it may be one that does not return
        return "" if not before or binding.opcode(before) != "call" else None
    if end != "ret":
        return None
    operand = next(binding.operands(last), 0)
    return _KINDS.get(lib.GetValueKind(operand)) if operand else None


def notes(source: str, module: int, level: str, again: Again) -> Iterator[tuple[int, Diagnostic]]:
    """Notes on a module, each with its offset in the text.  `again` compiles it once more;
    `level` is how the optimiser was asked for (`-O2`)."""
    findings = undefined(source)
    # Without passes nothing vanishes but by what is always inlined.
    empty = {} if level == "-O0" and "alwaysinline" not in source else vanished(module)
    if not findings:
        yield from _divided_by_zero(source, module)
    if not findings and not empty:
        return
    told: set[str] = set()
    log: list[tuple[str, str]] | None = None
    for head in functions(source, "define"):
        name = head.name
        if name not in empty or len(told) >= _FEW:
            continue
        own = next((f for f in findings if f.function == name), None)
        if own is None and has_word(source[slice(*head.body())], "undef", "poison", "unreachable"):
            continue  # the author wrote it
        told.add(name)
        log = _log(again) if log is None else log
        pass_, why = _who(name, log)
        if not why and "mustprogress" in source:
            why = "a loop that never ends and does nothing is undefined (mustprogress)"
        why = own.what if own else why or "what it does is undefined"
        who = f"{pass_} ({level})" if pass_ else level
        gives = (
            f"@{head.spelled} returns {empty[name]}"
            if empty[name]
            else f"@{head.spelled} is left without a return"
        )
        at = own.at if own else head.start
        yield at, Diagnostic(f"{gives}: {why}, and {who} removed the rest", severity="warning")
    for finding in findings:
        if finding.function not in told:
            what = f"{finding.what}: LLVM takes it that this never runs"
            yield finding.at, Diagnostic(what, severity="warning")


def _divided_by_zero(source: str, module: int) -> Iterator[tuple[int, Diagnostic]]:
    """Notes on divisions whose divisor may have become 0 in a function that was inlined: something
    is poison that a function is given or that is stored, and nothing else in the text makes it."""
    places = list(islice(divisions(source), _FEW)) if "div " in source or "rem " in source else ()
    if places and _has_poison(module):
        what = "division by zero is undefined: LLVM takes it that this never runs"
        words = what if len(places) == 1 else f"perhaps {what}"
        yield from ((at, Diagnostic(words, severity="warning")) for at in places)


def _has_poison(module: int) -> bool:
    """True if a call or a store of a module is given poison."""
    return any(
        lib.GetValueKind(operand) == _POISON
        for function in binding.functions(module) if not lib.IsDeclaration(function)
        for block in binding.blocks(function)
        for instruction in islice(binding.instructions(block), _MOST)
        if binding.opcode(instruction) in ("call", "store")
        for operand in binding.operands(instruction)
    )  # fmt: skip


def _who(name: str, log: list[tuple[str, str]]) -> tuple[str, str]:
    """The first pass that left nothing of a function, and what it met there."""
    from jitkernel.ir.instructions import Instruction, blocks  # seldom needed

    before = ""
    for title, text in log:
        found = next((f for f in functions(text, "define") if f.name == name), None)
        if found is None:
            continue
        body = found.text.partition("\n")[2]
        begin, end = found.body()
        (first, *others) = blocks(text, begin + 1, end - 1)
        last = Instruction.read(text[slice(*first.instructions[-1])])
        nothing = last.opcode == "ret" and last.text.endswith((" undef", " poison"))
        if not others and (nothing or last.opcode == "unreachable"):
            return (name_of(title) if title else ""), _met(before or body)
        before = body
    return "", ""


def _met(body: str) -> str:
    """Find what is undefined in a function's body, as LLVM printed it before the pass."""
    if found := undefined(body):
        return found[0].what
    if "alloca" in body and "load" in body:
        return "it reads memory that nothing was stored into"
    if has_word(body, "nsw", "nuw", "exact", "inbounds"):
        return "what nsw, nuw, exact or inbounds rules out happens in it"
    return ""


def _log(again: Again) -> list[tuple[str, str]]:
    """The text before the first pass, and title and text of each one that changed something, from a
    child that logs them."""

    def work() -> bytes:
        log = os.memfd_create("jitkernel-log")
        os.dup2(log, _STDERR)
        binding.set_option("-print-changed=quiet")

        def watch(stage: str, module: int) -> None:
            if stage == "optimise":
                os.write(log, f"{BEGIN}{binding.print_module(module)}".encode())

        again(watch)
        return content(log)

    entries = read_log(in_child(work) or b"")
    return [("" if e.title == START else e.title, e.text) for e in entries]
