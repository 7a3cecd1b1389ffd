"""The exercises as a course of nbgrader: the shape that it asks for, and, where it is installed,
its own work on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitkernel.kernel.client import kernel_for, outputs_text, run_cells
from tests.kernel.answers import maker
from tests.kernel.conftest import ROOT

maker()  # its folder is on the path
from tools import make_nbgrader  # noqa: E402
from tools.make_syllabus import POINTS  # noqa: E402

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
        assert cell["source"].count(BEGIN) == cell["source"].count(END) == told(cell)["solution"]
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
        if told(cell).get("solution"):
            name = told(cell)["grade_id"]
            lines = cell["source"].split("\n")
            begin, end = (
                next(i for i, x in enumerate(lines) if mark in x) for mark in (BEGIN, END)
            )
            outside = lines[:begin] + lines[end + 1 :]
            assert (
                "\n".join(lines[:begin] + lines[begin + 1 : end] + lines[end + 1 :])
                == solutions[name]
            )
            assert set(outside) <= {*drafts[name].split("\n"), solutions[name].split("\n")[0]}
            assert all(
                line.startswith("%%") for line in set(outside) - set(drafts[name].split("\n"))
            )


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


@pytest.mark.slow
@pytest.mark.parametrize("stem", KINDS)
def test_nbgrader_itself_makes_and_grades_an_assignment(course: Path, stem: str) -> None:
    """A submission with the first answer right, the second wrong, and the rest as it was given out."""
    pytest.importorskip("nbgrader")

    def nbgrader(*words: str) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # alembic
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words],
            cwd=course,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr

    nbgrader("generate_assignment", stem, "--create", "--force")
    released = course / "release" / stem / f"{stem}.ipynb"
    text = released.read_text()
    assert BEGIN not in text and "YOUR CODE HERE" in text
    solutions = {
        told(c)["grade_id"]: c["source"] for c in cells_of(course, stem) if told(c).get("solution")
    }
    right, wrong = list(solutions)[:2]
    drafts = {p.name: p.body for p in LESSONS[stem].parts if p.kind == "stub"}
    book = json.loads(text)
    for cell in book["cells"]:
        name = told(cell).get("grade_id")
        if name == right:
            cell["source"] = solutions[right]
        elif name == wrong:
            cell["source"] = drafts[wrong]
    submitted = course / "submitted" / "ada" / stem
    submitted.mkdir(parents=True)
    for path in sorted((course / "release" / stem).rglob("*")):
        target = submitted / path.relative_to(course / "release" / stem)
        if path.is_dir():
            target.mkdir()
        else:
            target.write_bytes(path.read_bytes())
    (submitted / released.name).write_text(json.dumps(book))
    nbgrader("autograde", stem, "--create")
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        submission = book.find_submission(stem, "ada").notebooks[0]
        scores = {grade.name: grade.score for grade in submission.grades}
        assert submission.max_score == POINTS * len(solutions)
    assert scores[f"check-{right}"] == POINTS
    assert sum(scores.values()) == POINTS and scores[f"check-{wrong}"] == 0
