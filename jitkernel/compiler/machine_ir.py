"""A function's machine IR at the stages that matter, and its spills.  Start from `MachineTrace`.

The text is LLVM's (docs/MIRLangRef).  Spill slots are the stack objects that register allocation
made: those that it has and instruction selection had not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jitkernel.compiler.line_table import beside
from jitkernel.compiler.pass_dumps import CODE, Dumps
from jitkernel.compiler.pass_log import PassRun
from jitkernel.compiler.records import LineTable
from jitkernel.ir.names import written
from jitkernel.regex import regex

LEFT_OUT = "Left out: the implicit operands $rsp and $ssp, and $eflags where it is dead."

#: What each stage is called; the keys are the options of %mir.
STAGES = {
    "isel": "after instruction selection",
    "regalloc": "after register allocation",
    "final": "final",
}

_SELECTION = "finalize-isel"
_ALLOCATION = ("greedy", "regallocfast", "regallocbasic", "virtregrewriter")
_LAST = "x86-asm-printer"
_HEAD = regex(
    rb"(?m)^# \*\*\* IR Dump (?P<when>Before|After) .*?\((?P<pass>[-\w]+)\) \*\*\*:\n"
    rb"(?P<text># Machine code for function (?P<function>(?s:.*?)): ?[A-Z, a-z]*\n)"
)
_INDEX = regex(r"(?m)^(?:\d+B)?\t")  # the numbers that live ranges are told in
_OBJECT = regex(r"^  fi#(-?\d+): (?:size=(\d+))?", re.M)
_STORE = regex(r"\(store [^)]*?\(?[^)]*\)? ?into %stack\.(\d+)")
_LOAD = regex(r"\(load [^)]*?\(?[^)]*\)? ?from %stack\.(\d+)")
# What every call says of registers and the stack: forty registers, and operands that never differ.
_MASK = regex(r"<regmask [^>]*>")
_NO_POINTS = regex(r"^save/restore points:\nsave points are empty\nrestore .* empty\n", re.M)
_ALWAYS = regex(r", implicit(?:-def)?(?: dead| killed)? \$(?:[re]?sp|ssp)\b")
_UNUSED = regex(r", implicit-def dead \$eflags\b")
_VIRTUAL = regex(r"(?<![\w.])%(\d+)\b")
# Facts of blocks, and in front of them stack objects, constants and tables of jumps.
_NOT_INSTRUCTIONS = ("successors:", "liveins:", ";", "callSites:", "fi#", "cp#", "%jump-table.")
#: The line that a block begins with: its number, and the label of LLVM's block, if it is of one.
BLOCK = regex(r"bb\.(\d+)(?:\.(\"[^\"]*\"|[^\s:(]+))?")
_LOCATED = regex(r"(?m),? debug-location !\d+|; cell\.ll:\d+[^\n]*$")
_SOURCE = regex(r"; \S[^;]*?:(\d+)(?:\s*@\[.*\])?\Z")
# What is no instruction of the machine's: llvm/include/llvm/Support/TargetOpcodes.def.
_META = regex(
    r"(?:[\w$%, ]+ = )?(?:frame-setup |frame-destroy )*"
    r"(?:CFI_INSTRUCTION|DBG_\w+|IMPLICIT_DEF|KILL|EH_LABEL|GC_LABEL|ANNOTATION_LABEL"
    r"|LIFETIME_\w+|PSEUDO_PROBE|MEMBARRIER|FAKE_USE)\b"
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One function's machine IR at one stage.

    `marks` has a word for each line: `spill`, `reload` or "".  `slots` are bytes by spill slot,
    `frame` the bytes of all stack objects.
    """

    name: str
    step: str
    lines: tuple[str, ...]
    marks: tuple[str, ...]
    slots: dict[int, int]
    instructions: int
    virtual: int
    frame: int

    @property
    def spills(self) -> int:
        """Stores into spill slots."""
        return sum("spill" in mark for mark in self.marks)

    @property
    def reloads(self) -> int:
        """Loads from spill slots, also as operands of other instructions."""
        return sum("reload" in mark for mark in self.marks)


class MachineTrace(NamedTuple):
    """One compile, watched: the stages of each function that reached code generation, and what it
    was made of and became.

    `before` and `after` are the module before its first pass and after its last; of a trace of one
    function `before` has that one alone.  `runs` are the passes, with their times.  `same` are the
    bytes of code, of the one function or of all, where that is what was compiled before, -1 where
    it is not or was not asked for; `lines` their lines (see `CompilerPool.lines`).
    `allocation` is the text of each function as register allocation finds it and as it leaves it.
    `stopped` says where it was, in a trace that was interrupted, as far as it came.
    """

    stages: dict[str, list[Stage]]
    before: str
    after: str
    runs: tuple[PassRun, ...]
    same: int
    lines: LineTable
    allocation: dict[str, tuple[str, str]]
    stopped: str = ""

    @staticmethod
    def of(dumps: Dumps, only: str, is_located: bool, code: bytes) -> MachineTrace | None:
        """From what the worker left, of the one function `only`, or of all; None where that is too
        little.  `is_located`: instructions have locations, which are not shown.  `code` is the
        object that was compiled before."""
        found: dict[str, list[_Look]] = {}
        made, log = dumps.get("object"), dumps.logged(CODE)
        heads = list(_HEAD.finditer(log))
        for index, head in enumerate(heads):
            stop = heads[index + 1].start() if index + 1 < len(heads) else len(log)
            name = head["function"].decode("utf-8", "surrogateescape")
            if only in ("", name):
                text = log[head.start("text") : stop]
                look = _Look(head["when"] == b"Before", head["pass"].decode(), text, is_located)
                found.setdefault(name, []).append(look)
        if made is None and not found:
            return None
        stopped = "" if made is not None else f"code generation of {written([*found][-1])}"
        stages = {name: _stages(looks) for name, looks in found.items()}
        again = bytes.fromhex(made or "")
        same, lines = beside(code, again, only)
        return MachineTrace(
            stages, dumps.get("first"), dumps.get("last"), tuple(dumps.runs()), same, lines,
            {name: _around_allocation(looks) for name, looks in found.items()}, stopped,
        )  # fmt: skip


class _Look(NamedTuple):
    """A function's machine IR `before` or after a pass."""

    before: bool
    name: str
    printed: bytes
    is_located: bool

    @property
    def text(self) -> str:
        """The text, less the numbers that live ranges are told in."""
        text = _INDEX.sub("", self.printed.decode("utf-8", "surrogateescape"))
        return _LOCATED.sub("", text) if self.is_located else text


def _stages(looks: Sequence[_Look]) -> list[Stage]:
    """The stages of one function, from what was printed of it, in order."""
    chosen = {
        "isel": [k for k in looks if k.name == _SELECTION],
        "regalloc": [k for k in looks if k.name in _ALLOCATION and not k.before],
        "final": [k for k in looks if k.name == _LAST],
    }
    first = next((k.text for k in looks if k.before and k.name in _ALLOCATION), "")
    own = set(_objects(first))
    return [
        _stage(name, found[-1], None if name == "isel" or not first else own)
        for name, found in chosen.items()
        if found
    ]


def _around_allocation(looks: Sequence[_Look]) -> tuple[str, str]:
    """The text of a function before the last pass that allocates registers, and after all."""
    found = [k for k in looks if k.name in _ALLOCATION]
    before = [k.text for k in found if k.before]
    after = [k.text for k in found if not k.before]
    return before[-1] if before else "", after[-1] if after else ""


def emitted(stage: Stage) -> list[int]:
    """The numbers of the lines that are an instruction of the machine's each, in order."""
    return [
        number for number, line in enumerate(stage.lines)
        if is_instruction(line) and not _META.match(line.lstrip())
    ]  # fmt: skip


def blocks_of(stage: Stage) -> list[str]:
    """The label of LLVM's block that each line is in; "" where none is told."""
    found, label = [], ""
    for line in stage.lines:
        if (match := BLOCK.match(line)) is not None:
            label = (match[2] or "").strip('"')
        found.append(label)
    return found


def line_of(line: str) -> int:
    """The line of its source that a line of machine IR says it comes from; 0 for none."""
    found = _SOURCE.search(line)
    return int(found[1]) if found is not None else 0


def plain(text: str) -> str:
    """Machine IR without what it says at every instruction: see `LEFT_OUT`."""
    return _UNUSED.sub("", _ALWAYS.sub("", _MASK.sub("<regmask>", text)))


def is_instruction(line: str) -> bool:
    """True of a line that is an instruction."""
    return line.startswith("  ") and not line.lstrip().startswith(_NOT_INSTRUCTIONS)


def _objects(text: str) -> dict[int, int]:
    """Bytes by stack object of this function's own; those the caller made have negative numbers."""
    found = {int(number): int(size or 0) for number, size in _OBJECT.findall(text)}
    return {number: size for number, size in found.items() if number >= 0}


def _stage(name: str, step: _Look, own: set[int] | None) -> Stage:
    printed = step.text
    objects = _objects(printed)
    slots = {n: s for n, s in objects.items() if n not in own} if own is not None else {}
    text = plain(_NO_POINTS.sub("", printed.strip("\n")))
    lines = [line.rstrip() for line in text.splitlines()]
    marks = []
    instructions = 0
    for line in lines:
        words = []
        if is_instruction(line):
            instructions += not _META.match(line.lstrip())  # those have no bytes
            if slots:
                words += ["spill" for n in _STORE.findall(line) if int(n) in slots][:1]
                words += ["reload" for n in _LOAD.findall(line) if int(n) in slots][:1]
        marks.append(" ".join(words))
    virtual = len(set(_VIRTUAL.findall(printed)))
    return Stage(
        name, step.name, tuple(lines), tuple(marks), slots, instructions, virtual,
        sum(objects.values()),
    )  # fmt: skip
