"""The exercises as a course of nbgrader: the shape that it asks for, and, where it is installed,
its own work on them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitkernel.kernel.client import kernel_for, outputs_text, run_cells
from tests.kernel.answers import answers, maker, parts
from tests.kernel.conftest import ROOT

maker()  # its folder is on the path
from tools import make_nbgrader  # noqa: E402
from tools.make_syllabus import POINTS  # noqa: E402

ANSWERS = ROOT / "tools" / "course" / "answers"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
LESSONS = {lesson.stem: lesson for lesson in maker().lessons() if lesson.exercises}
#: One of each kind of notebook.
KINDS = list({x.kernel: stem for stem, x in LESSONS.items() if len(x.exercises) > 1}.values())


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nbgrader")
    assert make_nbgrader.make(folder) == list(LESSONS)
    return folder


def cells_of(course: Path, stem: str, place: str = "source") -> list[dict[str, Any]]:
    return json.loads((course / place / stem / f"{stem}.ipynb").read_text())["cells"]


def told(cell: dict[str, Any]) -> dict[str, Any]:
    return cell["metadata"].get("nbgrader", {})


@pytest.mark.parametrize("stem", LESSONS)
def test_an_assignment_has_the_shape_that_nbgrader_asks_for(course: Path, stem: str) -> None:
    """nbgraderformat/v3.json, and what its validators add: names are unique, points with grades."""
    cells = cells_of(course, stem)
    marked = [cell for cell in cells if told(cell)]
    names = [told(cell)["grade_id"] for cell in marked]
    assert len(names) == len(set(names)) and all(re.fullmatch(r"[\w-]+", name) for name in names)
    for cell in marked:
        assert told(cell)["schema_version"] == 3 and told(cell)["task"] is False
        assert ("points" in told(cell)) == told(cell)["grade"]
        assert told(cell)["locked"] != told(cell)["solution"]
        assert cell["source"].count(BEGIN) == cell["source"].count(END) <= told(cell)["solution"]
    graded = [cell for cell in marked if told(cell)["grade"]]
    magic = LESSONS[stem].magic
    assert [cell["source"] for cell in graded] == [
        f"{magic}check {n}" for n in LESSONS[stem].exercises
    ]
    assert all(told(cell)["points"] == POINTS for cell in graded)
    for name in LESSONS[stem].exercises:
        assert names.index(f"check-{name}") == names.index(name) + 1
        assert (course / "source" / stem / "exercises" / f"{name}.json").is_file()
    for picture in re.findall(r"\(pictures/(\w+\.svg)\)", json.dumps(cells)):
        assert (course / "source" / stem / "pictures" / picture).is_file()
    assert all("nbgrader" in cell["metadata"] for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("stem", LESSONS)
def test_the_solution_is_whole_and_nothing_of_it_is_outside_its_marks(
    course: Path, stem: str
) -> None:
    solutions = {p.name: p.body for p in LESSONS[stem].parts if p.kind == "solution"}
    drafts = {p.name: p.body for p in LESSONS[stem].parts if p.kind == "stub"}
    for cell in cells_of(course, stem):
        name, lines = told(cell).get("grade_id", ""), cell["source"].split("\n")
        if name not in solutions:
            continue
        marks = [i for i, line in enumerate(lines) if BEGIN in line or END in line]
        assert "\n".join(x for i, x in enumerate(lines) if i not in marks) == solutions[name]
        begin, end = marks or (-1, len(lines))  # all of the cell, where there are none
        assert end - begin > 1  # what students get is no solution
        assert set(lines[:begin] if marks else []) <= set(drafts[name].split("\n"))
        assert set(lines[end + 1 :]) <= set(drafts[name].split("\n"))


def test_each_language_has_something_in_place_of_a_solution(course: Path) -> None:
    config = (course / "nbgrader_config.py").read_text()
    for lesson in LESSONS.values():
        language = maker().METADATA[lesson.kernel]["kernelspec"]["language"]
        assert f'"{language}": "' in config


@pytest.mark.slow
@pytest.mark.parametrize("stem", LESSONS)
def test_the_teachers_version_passes(course: Path, stem: str) -> None:
    """With its marks, which are comments of the cells' languages."""
    folder = course / "source" / stem
    book = json.loads((folder / f"{stem}.ipynb").read_text())
    with kernel_for(book, folder) as client:
        for ran in run_cells(client, book):
            assert not ran.failed, (ran.cell["source"], outputs_text(ran.outputs))


def submit(course: Path, student: str, stem: str, cells: dict[str, str]) -> None:
    """What a student hands in: what was given out, with other text in some cells."""
    released, submitted = course / "release" / stem, course / "submitted" / student / stem
    shutil.copytree(released, submitted)
    path = submitted / f"{stem}.ipynb"
    book = json.loads(path.read_text())
    for cell in book["cells"]:
        cell["source"] = cells.get(told(cell).get("grade_id"), cell["source"])
    path.write_text(json.dumps(book))


@pytest.mark.parametrize(
    "stem",
    [pytest.param(s, marks=pytest.mark.slow if s in KINDS else pytest.mark.soak) for s in LESSONS],
)
def test_nbgrader_itself_makes_and_grades_an_assignment(course: Path, stem: str) -> None:
    """A teacher's way, with what four students hand in: all right, the first exercise alone right,
    all wrong, and as it was given out."""
    pytest.importorskip("nbgrader")
    import nbformat
    from nbgrader.api import Gradebook

    def nbgrader(*words: str, folder: Path = course) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # alembic
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    nbgrader("generate_assignment", stem)
    released = course / "release" / stem / f"{stem}.ipynb"
    nbformat.validate(nbformat.read(released, 4))
    text = released.read_text()
    assert BEGIN not in text and text.count("YOUR CODE HERE") == len(LESSONS[stem].exercises)

    right = {p.name: p.body for p in LESSONS[stem].parts if p.kind == "solution"}
    known = answers(ANSWERS / f"{stem}.md", parts(LESSONS[stem])[1])
    wrong = {each.exercise: each.cell for each in known if not each.right}
    first = next(iter(right))
    submit(course, "ada", stem, right)
    submit(course, "bea", stem, {**wrong, first: right[first]})
    submit(course, "cid", stem, wrong)
    submit(course, "dan", stem, {})
    for student, failing in ("ada", 0), ("dan", len(right)):
        folder = course / "submitted" / student / stem
        said = nbgrader("validate", f"{stem}.ipynb", folder=folder)
        assert (f"FAILED ON {failing} CELL" if failing else "Success!") in said
    nbgrader("autograde", stem)
    nbgrader("generate_feedback", stem)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert {
            s.student.id: (s.score, s.max_score) for s in book.assignment_submissions(stem)
        } == {
            student: (POINTS * count, POINTS * len(right))
            for student, count in {"ada": len(right), "bea": 1, "cid": 0, "dan": 0}.items()
        }
        grades = book.find_submission_notebook(stem, stem, "bea").grades
        assert {grade.name: grade.score for grade in grades} == {
            f"check-{name}": POINTS * (name == first) for name in right
        }
    for student in "ada", "bea", "cid", "dan":
        page = (course / "feedback" / student / stem / f"{stem}.html").read_text()
        assert page.count("CheckFailed") == {"ada": 0, "bea": len(right) - 1}.get(
            student, len(right)
        )
