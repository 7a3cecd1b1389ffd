"""What LLVM did to a module, pass by pass.  Start from `PassTrace`.

Runs in the kernel process; `pass_tracing` is the other side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitkernel.compiler.passes import name_of


class Step(NamedTuple):
    """One pass that changed something.

    `name` is the pass as pipelines and LLVM's options name it (`sroa`, `x86-isel`), `title` as its
    log does.  `unit` is what it ran on: `sum`, `loop %body in function sum`, `[module]`.  `machine`
    tells machine IR from IR; `text` is what the pass left, of the whole module or of its unit.
    `verified` is None where that was not tried; `nanoseconds` -1 where they could not be measured.
    """

    name: str
    title: str
    unit: str
    machine: bool
    text: str
    verified: bool | None
    nanoseconds: int


class PassTrace(NamedTuple):
    """One compile, watched.

    `before` and `after` are the whole module, before the first pass and after the last; `object` is
    what became of it.  `ran` counts the passes over IR that ran, with `spent` nanoseconds, -1
    where that could not be measured.
    `whole` says whether the text of an IR step is the module's (else the unit's alone).
    """

    steps: tuple[Step, ...]
    before: str
    after: str
    object: bytes
    ran: int
    spent: int
    whole: bool

    @property
    def ir(self) -> tuple[Step, ...]:
        """The steps over IR."""
        return tuple(step for step in self.steps if not step.machine)

    @property
    def machine(self) -> tuple[Step, ...]:
        """The steps of code generation."""
        return tuple(step for step in self.steps if step.machine)

    @staticmethod
    def of(answer: dict[str, Any], log: bytes) -> PassTrace:
        """From what the worker sends."""
        steps = []
        for title, unit, start, stop, verified, nanoseconds in answer["steps"]:
            if title:
                text = log[start:stop].decode("utf-8", "replace")
                machine = start >= answer["border"]
                name = _machine_name(title) if machine else name_of(title)
                steps.append(Step(name, title, unit, machine, text, verified, nanoseconds))
        before, after = answer["texts"]
        return PassTrace(
            tuple(steps), before, after, bytes.fromhex(answer["object"]), answer["ran"],
            answer["spent"], answer["whole"],
        )  # fmt: skip


def _machine_name(title: str) -> str:
    """`x86-isel` of `X86 DAG->DAG Instruction Selection (x86-isel)`; a few passes have no name."""
    words, _, name = title.rpartition(" (")
    return name.rstrip(")") or words
