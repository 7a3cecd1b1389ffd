"""The course: every lesson from top to bottom, every solution, and the notebooks as their source
makes them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
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
from jitkernel.kernel.magics import MAGICS
from tests.kernel.answers import maker
from tests.kernel.claims import broken, unfounded
from tests.kernel.conftest import ROOT

COURSE = ROOT / "notebooks" / "course"
LESSONS = sorted(p.name for p in COURSE.glob("*.ipynb") if p.name != "index.ipynb")
LESSON_OF = {f"{lesson.stem}.ipynb": lesson for lesson in maker().lessons()}
SOLUTIONS = sorted(p.name for p in (COURSE / "solutions").glob("*.ipynb"))


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


def in_python(path: Path) -> bool:
    """True if it is a Python notebook."""
    return bool(read_notebook(path)["metadata"]["kernelspec"]["name"] == "python3")


@pytest.fixture(scope="module")
def solvers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Any]]:
    """Kernels in a copy of the folder of solutions: IPython's, and ours."""
    copy = Path(shutil.copytree(COURSE, tmp_path_factory.mktemp("solved") / "course"))
    with contextlib.ExitStack() as kernels:

        @cache
        def solver(python: bool) -> Any:
            return kernels.enter_context(running_kernel(copy / "solutions", python=python))

        yield solver


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_runs_and_fails_only_where_it_means_to(course: Path, name: str) -> None:
    with running_kernel(course, python=in_python(course / name)) as client:
        cells = run(course / name, client)
    for cell, reply, shown in cells:
        tags = cell["metadata"].get("tags", [])
        expected = "error" if "raises-exception" in tags else "ok"
        assert reply["status"] == expected, (cell["source"], shown)
        if "check" in tags:  # the stub is not the solution
            assert reply["ename"] == "CheckFailed", shown
        for text in shown:
            assert "fault of jitkernel" not in text
    check_claims(LESSON_OF[name], iter("\n".join(shown) for _, _, shown in cells))


def check_claims(lesson: Any, outputs: Iterator[str]) -> None:
    """What the text says is what the cells show."""
    cells = {"code": 1, "stub": 2}  # of a part: a stub's check is one
    shown = ["\n".join(islice(outputs, cells.get(part.kind, 0))) for part in lesson.parts]
    latest, known = "", dict[str, float]()
    for part, output in zip(lesson.parts, shown, strict=True):
        if part.kind in cells:
            latest = output
        elif part.kind == "shows":
            assert not broken(part.body, latest, known), latest
    assert not unfounded(lesson.parts, shown)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_pass_their_checks(solvers: Callable[[bool], Any], name: str) -> None:
    checks = 0
    solver = solvers(in_python(COURSE / "solutions" / name))
    if not in_python(COURSE / "solutions" / name):
        run_cell(solver, "%reset")
    for cell, reply, shown in run(COURSE / "solutions" / name, solver):
        assert reply["status"] == "ok", (cell["source"], shown)
        checks += "check" in cell["metadata"].get("tags", [])
    assert checks


def test_the_notebooks_are_what_their_source_makes(tmp_path: Path) -> None:
    maker().make(tmp_path)
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
    ruled = 0
    for lesson in maker().lessons():
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


def test_a_python_notebook_calls_magics_by_jit() -> None:
    in_words = [(COURSE / name).read_text() for name in LESSONS if in_python(COURSE / name)]
    assert in_words
    for text in in_words:
        assert not [word for word in re.findall(r"`%(\w+)", text) if word in MAGICS]


TERMS = (
    "thunk", "extent", "canonical entry", "stub", "draft", "site", "relocation", "addend", "frame",
    "arena", "spill", "context", "budget", "guard", "breakpoint", "padding", "red zone",
    "basic block", "backtrace", "inline cache", "tail call", "callee-saved",
)  # fmt: skip
# Headings name what comes; code and links are not read as text.
_NO_TEXT = re.compile(r"`[^`]*`|\]\([^)]*\)|^#+ .*$|\{picture \w+\}", re.M)


def test_words_are_explained_before_they_are_used() -> None:
    """In bold, in the lesson or in one that it needs."""
    lessons = {lesson.number: lesson for lesson in maker().lessons()}

    def text(lesson: Any) -> str:
        before = (text(lessons[number]) for number in lesson.needs)
        own = "\n".join(part.body for part in lesson.parts if part.kind == "text")
        return "\n".join([*before, _NO_TEXT.sub(" ", own)])

    for lesson in lessons.values():
        read = text(lesson)
        for term in TERMS:
            used = re.search(rf"\b{term}s?\b", read, re.I)
            bold = re.search(rf"\*\*[^*\n]*\b{term}[^*\n]*\*\*", read, re.I)
            assert used is None or (bold and bold.start() <= used.start()), (lesson.stem, term)


def test_every_picture_is_readable_and_told() -> None:
    book = "".join(path.read_text() for path in COURSE.glob("*.ipynb"))
    pictures = sorted(path.stem for path in (COURSE / "pictures").glob("*.svg"))
    assert len(pictures) >= 5
    for name in pictures:
        assert re.search(rf"!\[[^\]]{{60,}}\]\(pictures/{name}\.svg\)", book), name


def test_the_language_of_lesson_9_is_as_short_as_it_says() -> None:
    files = (ROOT / "jitkernel" / "languages" / "kaleidoscope").glob("*.*")
    lines = sum(len(p.read_text().splitlines()) for p in files if p.suffix in (".py", ".lark"))
    assert lines < 600
