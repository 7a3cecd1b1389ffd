"""A function's machine IR at the stages that matter, and its spills.  Start from `stages_of`.

The text is LLVM's (docs/MIRLangRef).  Spill slots are the stack objects that register allocation
made: those that it has and instruction selection had not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jitkernel.compiler.pass_trace import PassTrace, Step
from jitkernel.regex import regex

LEFT_OUT = "Left out: the implicit operands $rsp and $ssp, and $eflags where it is dead."

#: What each stage is called; the keys are the options of %mir.
STAGES = {
    "isel": "after instruction selection",
    "regalloc": "after register allocation",
    "final": "final",
}

_SELECTION = ("x86-isel", "finalize-isel")
_ALLOCATION = ("greedy", "regallocfast", "regallocbasic", "virtregrewriter")
_OBJECT = regex(r"^  fi#(-?\d+): (?:size=(\d+))?", re.M)
_STORE = regex(r"\(store [^)]*?\(?[^)]*\)? ?into %stack\.(\d+)")
_LOAD = regex(r"\(load [^)]*?\(?[^)]*\)? ?from %stack\.(\d+)")
# What every call says of registers and the stack: forty registers, and operands that never differ.
_MASK = regex(r"<regmask [^>]*>")
_NO_POINTS = regex(r"^save/restore points:\nsave points are empty\nrestore .* empty\n", re.M)
_ALWAYS = regex(r", implicit(?:-def)?(?: dead| killed)? \$(?:[re]?sp|ssp)\b")
_UNUSED = regex(r", implicit-def dead \$eflags\b")
_VIRTUAL = regex(r"(?<![\w.])%(\d+)\b")
_NOT_INSTRUCTIONS = ("successors:", "liveins:", ";", "callSites:")


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


def stages_of(trace: PassTrace) -> dict[str, list[Stage]]:
    """The stages of each function that reached code generation."""
    found: dict[str, list[Step]] = {}
    for step in trace.machine:
        found.setdefault(step.unit, []).append(step)
    return {name: stages(steps) for name, steps in found.items()}


def stages(steps: Sequence[Step]) -> list[Stage]:
    """The stages of one function, from its steps of code generation, in order."""
    selected = [i for i, s in enumerate(steps) if s.name in _SELECTION]
    allocated = [i for i, s in enumerate(steps) if s.name in _ALLOCATION]
    before = steps[allocated[0] - 1 if allocated and allocated[0] else 0].text if steps else ""
    own = set(_objects(before))
    chosen = {
        "isel": selected[-1] if selected else 0,
        "regalloc": allocated[-1] if allocated else None,
        "final": len(steps) - 1,
    }
    return [
        _stage(name, steps[at], own if allocated and at >= allocated[0] else None)
        for name, at in chosen.items()
        if at is not None and steps
    ]


def _objects(text: str) -> dict[int, int]:
    """Bytes by stack object of this function's own; those the caller made have negative numbers."""
    found = {int(number): int(size or 0) for number, size in _OBJECT.findall(text)}
    return {number: size for number, size in found.items() if number >= 0}


def _stage(name: str, step: Step, own: set[int] | None) -> Stage:
    objects = _objects(step.text)
    slots = {n: s for n, s in objects.items() if n not in own} if own is not None else {}
    text = _NO_POINTS.sub("", step.text.strip("\n"))
    text = _UNUSED.sub("", _ALWAYS.sub("", _MASK.sub("<regmask>", text)))
    lines = [line.rstrip() for line in text.splitlines()]
    marks = []
    instructions = 0
    for line in lines:
        words = []
        if line.startswith("  ") and not line.lstrip().startswith((*_NOT_INSTRUCTIONS, "fi#")):
            instructions += 1
            if slots:
                words += ["spill" for n in _STORE.findall(line) if int(n) in slots][:1]
                words += ["reload" for n in _LOAD.findall(line) if int(n) in slots][:1]
        marks.append(" ".join(words))
    virtual = len(set(_VIRTUAL.findall(step.text)))
    return Stage(
        name, step.name, tuple(lines), tuple(marks), slots, instructions, virtual,
        sum(objects.values()),
    )  # fmt: skip
