"""What a session's start waits for: the compiler's process first, then the imports."""

from __future__ import annotations

from tests.processes import python

FIRST = """
import sys
from jitkernel import Session
with Session(capacity=64 << 20) as s:
    s.run("define i32 @sq(i32 %x) {\\n  %r = mul i32 %x, %x\\n  ret i32 %r\\n}\\n@sq(7)")
print(*sys.modules)
"""


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
    own = {name for name in told if name.startswith("jitkernel.")}
    assert len(own) < 25, own
    heavy = {"ctypes", "json", "socket", "signal", "sqlite3", "threading", "jitkernel.settings"}
    assert not heavy.intersection(told)


def test_what_a_first_value_does_not_take_is_not_imported_for_it() -> None:
    """Each module takes a fifth of a millisecond; `dataclasses` brings `inspect`, `hashlib` loads
    OpenSSL, `sqlite3` brings `datetime`."""
    told = set(python(FIRST).split())
    own = {name.removeprefix("jitkernel.") for name in told if name.startswith("jitkernel.")}
    assert "session.run.runner" in own and len(own) < 160
    late = {
        "children", "languages.llvm.hints", "languages.llvm.miswritten", "publishing",
        "session.report.faults", "session.report.places", "session.saved.file",
        "session.saved.keeping", "session.saved.rows", "views",
    }  # fmt: skip
    assert not late & own
    assert not {"dataclasses", "datetime", "hashlib", "inspect", "socket", "sqlite3"} & told


def test_what_is_imported_is_not_gone_through_for_garbage() -> None:
    """Neither when it is imported nor in the first run: there is more of it than of all else."""
    told = python(
        """
import gc
most = []
gc.callbacks.append(
    lambda phase, told: phase == "start" and most.append(len(gc.get_objects(told["generation"])))
)
"""
        + FIRST.replace("print(*sys.modules)", "print(max(most, default=0), len(gc.get_objects()))")
    ).split()
    most, every = map(int, told)
    assert most * 4 < every


def test_the_worker_does_without_llvmlites_classes() -> None:
    told = python("import sys, jitkernel.compiler.worker\nprint(*sys.modules)").split()
    assert "jitkernel.compiler.pipeline" in told and "llvmlite" in told
    assert "llvmlite.binding" not in told
