"""What LLVM's inliner says of each call: what became part of what, and why, or why not.  Worker
only.  Start from `inlining`."""

from __future__ import annotations

import os
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.forks import content, in_child
from jitkernel.compiler.records import Request
from jitkernel.regex import regex

_STDERR = 2
_REMARK = regex(
    r"remark: .*?'(?P<callee>.*)' (?:(?P<yes>inlined)|not inlined|will not be inlined) into "
    r"'(?P<caller>.*?)'(?: because| with)? ?(?P<why>.*?)(?: at callsite .*)?$"
)


def inlining(request: Request) -> tuple[dict[str, Any], bytes]:
    """Rows of callee, caller, whether it was inlined, and LLVM's reason; each once, in its order.
    LLVM's options are for ever, so a child compiles."""

    def work() -> bytes:
        log = os.memfd_create("jitkernel-remarks")
        os.dup2(log, _STDERR)
        binding.set_option("-pass-remarks-missed=inline")
        pipeline.compile_module(request, _look)
        return content(log)

    text = (in_child(work) or b"").decode("utf-8", "replace")
    rows: dict[tuple[str, str, bool, str], None] = {}
    for line in text.splitlines():
        if found := _REMARK.match(line):
            why = found["why"].strip().rstrip(";.")
            rows[found["callee"], found["caller"], bool(found["yes"]), why] = None
    return {"rows": [list(row) for row in rows]}, b""


def _look(stage: str, module: int) -> None:
    """At nothing: what is watched is compiled for its own sake."""
