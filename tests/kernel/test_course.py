"""The course: every lesson from top to bottom, every solution, and the notebooks as their source
makes them."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitkernel.grading import Exercise
from jitkernel.kernel.client import (
    code_cells,
    outputs_text,
    read_notebook,
    run_cell,
    running_kernel,
)
from tests.kernel.conftest import ROOT

COURSE = ROOT / "notebooks" / "course"
LESSONS = sorted(p.name for p in COURSE.glob("*.ipynb") if p.name != "index.ipynb")
SOLUTIONS = sorted(p.name for p in (COURSE / "solutions").glob("*.ipynb"))


#: What the text around a cell says of its output: a piece of the cell, a pattern in what it shows;
#: one that begins with `!` is not in it.
CLAIMS = {
    "01_bytes": [("%arena", r"text +rodata +unwind +data")],
    "02_calls": [("%stack", r"256 frames, innermost first")],
    "03_passes": [
        ("%passes @f", r"1\. sroa.*- +%a = alloca.*2\. early-cse.*- +%v1 = add i32 %x, 0"),
        ("%passes @f", r"4\. instcombine.*- +%v3 = mul i32 %x, 8.*\+ +%v6 = shl i32 %x, 4"),
        ("%passes @absolute", r"sroa.*globalopt.*simplifycfg.*instcombine.*tailcallelim"),
        ("%passes @absolute", r"3\. simplifycfg.*\+ +%r\.0 = select.*4\. .*\+.*llvm\.abs"),
        ("%ir @only_instcombine", r"!alloca"),
        ("%ir @sum_instcombine", r"%s = alloca"),
        ("%ir @polynomial --opt", r"after the last pass.*%kk = mul i64 %k, %k(?!.*phi)"),
        ("@bigger(2147483647)", r"i1 true.*i1 false"),
        ("%check average", r"@average\(1, 4294967295\): expected 2147483648, got 0"),
    ],
    "04_selection": [("%mir @crowd", r"4 spills \(stores\) and 4 reloads")],
    "05_linking": [("%object @next_sq", r"weak.*@calls-0x4 +direct.*@sq-0x4 +direct")],
    "06_redefinition": [("%bytes = load", r'c"\\E9')],
    "07_crashes": [
        ("@ratio(1, 0)", r"integer division by zero"),
        ("%restore lesson.jks", r"1 word in globals"),
    ],
    "e_stepping": [
        ("%break 1:8", r"i = 1, sum = 0, more = 1, next = <not yet>.*i = 4, sum = 6, more = 10"),
        ("%break 1:5", r"at the head: <not yet>, <not yet>\nbehind the phis: 2, 1"),
        ("= {%a} + {%b}", r"fib\(2\) = 1 \+ 0.*fib\(5\) = 3 \+ 2"),
        ("@through(null)", r"%q = ptr 0x4.*%v = <not yet>.*read of address 0x4"),
    ],
    "09_language": [
        ("%passes @poly", r"2\. early-cse.*\+ +%\.6 = fadd double 3\.0+e\+00, %x"),
        ("1 > 2 | 3", r"Out: 1\.0"),
    ],
}


def _maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_course", ROOT / "tools" / "make_course.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_course"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy: lessons may write into their folder."""
    return Path(shutil.copytree(COURSE, tmp_path / "course"))


def run(path: Path, client: Any) -> list[tuple[dict[str, Any], dict[str, Any], list[str]]]:
    """Each code cell of a notebook with its reply and what it showed."""
    found = []
    for cell in code_cells(read_notebook(path)):
        reply, outputs = run_cell(client, cell["source"], cell_id=cell["id"], timeout=100)
        found.append((cell, reply, outputs_text(outputs)))
    return found


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A kernel in a copy of the folder of solutions."""
    copy = shutil.copytree(COURSE, tmp_path_factory.mktemp("solved") / "course")
    with running_kernel(Path(copy) / "solutions") as client:
        yield client


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_runs_and_fails_only_where_it_means_to(course: Path, name: str) -> None:
    claims = CLAIMS.get(name.removesuffix(".ipynb"), [])
    with running_kernel(course) as client:
        cells = run(course / name, client)
    for cell, reply, shown in cells:
        for piece, pattern in claims:
            if piece in cell["source"]:
                found = re.search(pattern.removeprefix("!"), "\n".join(shown), re.S)
                assert bool(found) != pattern.startswith("!"), (pattern, shown)
        tags = cell["metadata"].get("tags", [])
        expected = "error" if "raises-exception" in tags else "ok"
        assert reply["status"] == expected, (cell["source"], shown)
        if "check" in tags:  # the stub is not the solution
            assert reply["ename"] == "CheckFailed", shown
        for text in shown:
            assert "fault of jitkernel" not in text


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_pass_their_checks(solver: Any, name: str) -> None:
    checks = 0
    run_cell(solver, "%reset")
    for cell, reply, shown in run(COURSE / "solutions" / name, solver):
        assert reply["status"] == "ok", (cell["source"], shown)
        checks += "check" in cell["metadata"].get("tags", [])
    assert checks


def test_the_notebooks_are_what_their_source_makes(tmp_path: Path) -> None:
    _maker().make(tmp_path)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    kept = sorted(p.relative_to(COURSE) for p in COURSE.rglob("*") if p.is_file())
    theirs_alone = {
        ".ipynb_checkpoints",
        "my_exercises",
        "lesson.jks",
    }  # of whoever has worked there
    assert made == [p for p in kept if not theirs_alone & set(p.parts)]
    for path in made:
        if path.suffix == ".json":
            ours, theirs = Exercise.read(tmp_path / path), Exercise.read(COURSE / path)
            assert (ours.task, ours.tries, ours.rules) == (theirs.task, theirs.tries, theirs.rules)
        else:
            assert (tmp_path / path).read_text() == (COURSE / path).read_text(), (
                f"{path}: run python tools/make_course.py"
            )


def test_every_lesson_has_its_parts() -> None:
    for name in LESSONS:
        book = json.loads((COURSE / name).read_text())
        sources = [c["source"] for c in book["cells"] if c["cell_type"] == "code"]
        for piece, _ in CLAIMS.get(name.removesuffix(".ipynb"), []):
            assert any(piece in source for source in sources), (name, piece)
        first = book["cells"][0]["source"]
        assert "minutes" in first and "You will be able to" in first and "Before it" in first
        text = "\n".join(c["source"] for c in book["cells"])
        for link in re.findall(r"\]\(([\w./]+\.ipynb)\)", text):
            assert (COURSE / link).is_file(), f"{name}: {link}"
    index = (COURSE / "README.md").read_text()
    assert all(name in index for name in LESSONS)
    svg = (COURSE / "map.svg").read_text()
    assert "<script" not in svg and "foreignObject" not in svg


def test_the_rules_of_an_exercise_stand_above_its_stub() -> None:
    """All of them, and before one can break them."""
    maker = _maker()
    ruled = 0
    for lesson in maker.lessons():
        cells = json.loads((COURSE / f"{lesson.stem}.ipynb").read_text())["cells"]
        for part in lesson.parts:
            if part.kind != "stub":
                continue
            exercise = Exercise.read(COURSE / "exercises" / f"{part.name}.json")
            at = next(i for i, cell in enumerate(cells) if cell["source"] == part.body)
            above = cells[at - 1]["source"]
            assert above.startswith("**Rules**") == bool(exercise.rules), part.name
            assert not exercise.rules or above.count("\n* ") == len(exercise.rules)
            ruled += bool(exercise.rules)
    assert ruled > 10
