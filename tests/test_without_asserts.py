"""Everything works where Python leaves `assert` statements out, and warns of nothing of ours."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "jitkernel").rglob("*.py"))

#: A bit of everything that the library does; each line prints what it should.
SMOKE = r"""
from jitkernel import Session
from jitkernel.errors import JitError
with Session(capacity=64 << 20, spare=False) as s:
    print(s.run("%x = add i32 40, 2").value)
    s.run("@n = global i32 3\ndefine i32 @f(i32 %a) {\n %n = load i32, ptr @n\n"
          " %r = mul i32 %a, %n\n ret i32 %r\n}")
    print(s.call("f", 4), s["f"](5), s["n"].value)
    s.run("@n = 5\n@f(2)")
    print(s["n"].value, *s.undo(), s["n"].value, *s.redo())
    s.run("@words = global ptr null\n@words = \"kept\"")
    print(len(s.time("@f(2)", 10, 2)), s.hibernate("f")[0].number, s.call("f", 1))
    try:
        s.run("%p = load volatile i32, ptr null")
    except JitError as error:
        print(type(error).__name__)
    print(s.evict("f", force=True)[0].number, "f" in s, *s.undo(), s.call("f", 1))
    s.gc()
    s.check()
    s.save(PATH)
with Session.restore(PATH, capacity=64 << 20, spare=False) as s:
    print(s.call("f", 2))
"""
SAYS = """42
12 15 3
5 undone: cell 3: @n = 5 3 redone: cell 3: @n = 5; definitions and globals are as after it, its code was not run again
2 2 5
Fault
2 False undone: evict f 5
10
"""


def run(*options: str, code: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code.replace("PATH", repr(str(tmp_path / "s.jks")))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        timeout=120,
    )


def test_nothing_is_left_to_assert() -> None:
    found = []
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if re.search(r"\bassert\b", text):
            nodes = ast.walk(ast.parse(text))
            found += [f"{path}:{n.lineno}" for n in nodes if isinstance(n, ast.Assert)]
    assert MODULES and not found, f"assert statements: {found}"


@pytest.mark.parametrize("level", ["1", "2"])
def test_the_library_works_without_asserts(level: str, tmp_path: Path) -> None:
    """Children too: the variable is theirs as well."""
    done = run(code=SMOKE, tmp_path=tmp_path, PYTHONOPTIMIZE=level)
    assert done.returncode == 0, done.stderr
    assert done.stdout == SAYS


def test_the_tour_works_without_asserts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jitkernel", "tour"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTHONOPTIMIZE": "1"}
        | {name: str(tmp_path) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")},
        timeout=170,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert " 0 unexpected" in done.stdout


def test_a_strict_python_has_nothing_to_say(tmp_path: Path) -> None:
    """-bb: comparing bytes with text is an error; -X dev: what was not closed is told."""
    done = run("-bb", "-X", "dev", code=SMOKE, tmp_path=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", SAYS)


LEFT = """
import gc, os, sys
from jitkernel import Session
s = Session()
s.run("define i32 @two() {\\n  ret i32 2\\n}")
if (child := os.fork()) == 0:
    del s
    gc.collect()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
dir(s)  # after this Python finds it among what goes when it ends
print(s["two"]())
"""


def test_sessions_that_nobody_closes_go_quietly(tmp_path: Path) -> None:
    """In a process that ends, and in a fork, for which they are the parent's."""
    done = run("-X", "dev", code=LEFT, tmp_path=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "2\n")


#: Some of each room; the tour is for the kernel.
FILES = """
session/test_redefine.py languages/test_plan.py linker/test_redefinition.py
executor/test_exits.py views/test_explain.py
"""


@pytest.mark.slow
def test_a_part_of_the_tests_runs() -> None:
    """pytest makes statements of its own of the tests' asserts, so they still fail without; what
    is not closed fails a test, as warnings of ours do."""
    strict = ["-bb", "-X", "dev", "-W", "error::ResourceWarning"]
    env = {"PYTHONOPTIMIZE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    chosen = ["-m", "not slow", "-k", "not many_callers", *(f"tests/{n}" for n in FILES.split())]
    done = subprocess.run(
        [sys.executable, *strict, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        + chosen,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | env,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout and "failed" not in done.stdout
