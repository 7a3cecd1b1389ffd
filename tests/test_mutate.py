"""The mutation pass: which faults it makes, and what it says of them, on a tree of three lines."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.mutants import mutants

ROOT = Path(__file__).resolve().parents[1]


def after(source: str) -> set[str]:
    """What is made of a function's body."""
    head = "def f(x, y):\n    "
    whole = (head + source).encode()
    made = [one.apply(whole).decode() for one in mutants(whole)]
    for text in made:
        ast.parse(text)
    return {text.removeprefix(head) for text in made}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("return x < y", {"return (x <= y)", "return (x >= y)"}),
        ("return x == y", {"return (x != y)"}),
        ("return x is not y", {"return (x is y)"}),
        ("return x in y", {"return (x not in y)"}),
        ("return x and y", {"return (x or y)"}),
        ("return not x", {"return (x)"}),
        ("return x + y", {"return (x - y)"}),
        ("return x & -y", {"return (x | -y)", "return x & (y)"}),
        ("return max(x, y)", {"return (min)(x, y)"}),
        ("return x[7]", {"return x[(8)]"}),
        ("return True", {"return (False)"}),
        ("if x: y()", {"if (not (x)): y()", "if x: pass"}),
        ("x.a = y", {"pass"}),
        ("x += y", {"pass"}),
        ("raise x", {"pass"}),
        ("while y: break", {"while (not (y)): break", "while y: pass"}),
    ],
)
def test_the_faults_of_a_statement(source, faults):
    assert after(source) == faults


@pytest.mark.parametrize(
    "source",
    [
        '"""1 + 1"""',
        "return f'{x + 1} and {not y}'",
        "return x + 'and'",
        "raise ValueError(1 + 1 < 3) from None",
        "z: tuple[int, 1 + 1]",
        "x = y",
    ],
)
def test_what_is_left_alone(source):
    assert after(source) <= {"pass"}


def test_bytes_before_a_fault_may_be_more_than_letters():
    source = "x = 'é→'; y = x < 2\n".encode()
    assert {one.apply(source).decode().strip() for one in mutants(source)} == {
        f"x = 'é→'; y = {fault}" for fault in ("(x <= 2)", "(x >= 2)", "x < (3)")
    }


def test_a_mutant_is_known_again_where_its_line_has_moved():
    source = b"def f(x):\n    return x < 1 or x < 1\n"
    keys = [one.key for one in mutants(source)]
    assert len(set(keys)) == len(keys) > 4
    assert [one.key for one in mutants(b"\n\n" + source)] == keys


MODULE = """\
def larger(x, y):
    return x > y

def count(n):
    while n > 0:
        n -= 1
    return n

def told(x):
    print(x)
"""

TESTS = """\
import os, subprocess, sys
from jitkernel.toy.toy import count, larger, told

def test_larger():
    assert larger(2, 1) and not larger(1, 1)

def test_count():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    open(os.environ["TMPDIR"] + "/left", "w").close()
    assert count(3) == 0

def test_told():
    told(3)

def test_that_fails():
    assert not larger(2, 1)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for file, text in {
        "jitkernel/__init__.py": "",
        "jitkernel/toy/__init__.py": "",
        "jitkernel/toy/toy.py": MODULE,
        "tests/toy/test_toy.py": TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


def start(tree: Path, tmp_path: Path, *options: object) -> subprocess.Popen[str]:
    """A pass over the toy, whose temporary folders are in `tmp`."""
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "tools.mutate", "toy", "--root", tree, "--sample", 0]
    command += ["--tests", "tests/toy", "--report", tmp_path / "report", *options]
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    return subprocess.Popen(
        list(map(str, command)),
        env=variables | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )


def left(tmp_path: Path) -> list[Path]:
    """Files and processes of a pass that are still there."""
    scratch = tmp_path / "tmp"
    processes = [p for p in Path("/proc").glob("[0-9]*/environ") if str(scratch) in read(p)]
    return [*scratch.iterdir(), *processes]


def read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.slow
def test_a_pass(tree, tmp_path):
    """What is noticed, what hangs, what is not noticed; the tree is as before, and nothing is left."""
    with start(tree, tmp_path, "--grace", 15) as process:
        printed, _ = process.communicate(timeout=170)
    assert process.returncode == 0, printed
    results = {one["key"]: one["result"] for one in json.loads((tmp_path / "report").read_text())}
    assert results == {
        "larger: x > y -> x >= y #0": "killed",
        "larger: x > y -> x <= y #0": "killed",
        "count: n > 0 -> n >= 0 #0": "killed",
        "count: n > 0 -> n <= 0 #0": "killed",
        "count: 0 -> 1 #0": "killed",
        "count: n -= 1 -> pass #0": "timed out",
        "count: 1 -> 2 #0": "killed",
        "told: print(x) -> pass #0": "survived",
    }
    assert "3 tests know these packages; 1 did not pass" in printed
    row = printed.splitlines()[-1].split()
    assert row == ["toy", "8", "6", "1", "1", "88", "%"]
    assert (tree / "jitkernel/toy/toy.py").read_text() == MODULE
    assert left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pass_that_is_ended(tree, tmp_path, number):
    """While a mutant hangs."""
    with start(tree, tmp_path, "--grace", 600) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "n > 0 -> n <= 0" in line:  # the one before the one that hangs
                break
        while not list((tmp_path / "tmp").glob("*/run/left")):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert left(tmp_path) == []
