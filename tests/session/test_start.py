"""What a session's start waits for: the compiler's process first, then the imports."""

from __future__ import annotations

from tests.processes import python


def test_the_worker_is_started_before_the_session_is_imported() -> None:
    told = python(
        """
import sys
from jitkernel import Session
from jitkernel.compiler import worker_process

start = worker_process.Zygote._start
before = []
def started(*arguments):
    before.append(set(sys.modules))
    return start(*arguments)
worker_process.Zygote._start = started
with Session(capacity=64 << 20) as s:
    s.run("@sq = global i32 1")
    print(*before[0])
"""
    ).split()
    assert "jitkernel.session.session" in told
    heavy = ("jitkernel.session.engine", "jitkernel.linker", "jitkernel.languages", "sqlite3")
    assert not [name for name in heavy if name in told]


def test_what_only_errors_take_is_not_imported_for_a_value() -> None:
    told = python(
        """
import sys
from jitkernel import Session
with Session(capacity=64 << 20) as s:
    s.run("define i32 @sq(i32 %x) {\\n  %r = mul i32 %x, %x\\n  ret i32 %r\\n}\\n@sq(7)")
print(*sys.modules)
"""
    ).split()
    assert "jitkernel.session.run.runner" in told
    late = ("languages.llvm.hints", "languages.llvm.miswritten", "session.report.faults", "views")
    assert not [name for name in late if f"jitkernel.{name}" in told]


def test_the_worker_does_without_llvmlites_classes() -> None:
    told = python("import sys, jitkernel.compiler.worker\nprint(*sys.modules)").split()
    assert "jitkernel.compiler.pipeline" in told and "llvmlite" in told
    assert "llvmlite.binding" not in told
