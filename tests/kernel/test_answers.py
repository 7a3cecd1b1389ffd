"""Answers to every exercise of the course: wrong ones are refused for their reason, right ones in
other shapes pass, and so does no mutant of a solution that is another function."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import CheckFailed, CompileError
from jitkernel.grading import Exercise, check
from jitkernel.kernel.client import kernel_for, outputs_text, run_cell
from tests.kernel.answers import answers, maker, parts
from tests.kernel.conftest import ROOT
from tests.kernel.mutants import mutants

COURSE = ROOT / "notebooks" / "course"
ANSWERS = ROOT / "tools" / "course" / "answers"
LESSONS = {lesson.stem: lesson for lesson in maker().lessons() if lesson.exercises}
FEW = 24  # inputs beside the author's: those at boundaries, and some more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course's exercises, each also with few inputs, in `few`."""
    course = tmp_path_factory.mktemp("answers") / "course"
    shutil.copytree(COURSE, course)
    for path in (course / "exercises").glob("*.json"):
        replace(Exercise.read(path), samples=FEW).write(course / "few")
    return course


@pytest.fixture(scope="module")
def students(folder: Path) -> Iterator[Callable[[str], Any]]:
    """Kernels by the language of their notebooks: ours, and IPython's."""
    with contextlib.ExitStack() as kernels:

        @cache
        def student(kernel: str) -> Any:
            book = {"metadata": maker().METADATA[kernel]}
            client = kernels.enter_context(kernel_for(book, folder / "solutions"))
            if kernel == "python":
                ran(client, "%load_ext jitkernel")
            magic = "%jit " if kernel == "python" else "%"
            ran(client, f"{magic}config Executor.cell_timeout = 1")
            return client

        yield student


def ran(client: Any, source: str) -> str:
    """What a cell shows, which succeeds."""
    reply, outputs = run_cell(client, source, timeout=100)
    text = "\n".join(outputs_text(outputs))
    assert reply["status"] == "ok", (source, text)
    return text


def verdict(client: Any, call: str) -> str:
    """What `%check` refuses an answer with, "" where it passes, in one line."""
    reply, outputs = run_cell(client, call, timeout=100)
    return "" if reply["status"] == "ok" else " ".join("\n".join(outputs_text(outputs)).split())


def graded(students: Callable[[str], Any], stem: str, exercises: str) -> Counter[tuple[str, bool]]:
    """Grade a lesson's answers, the right ones by the exercises of a folder; how many of each.  With
    few inputs, the first of each kind to each exercise."""
    lesson = LESSONS[stem]
    client = students(lesson.kernel)
    setup, solutions = parts(lesson)
    ran(client, f"{lesson.magic}reset")
    for cell in setup:
        ran(client, cell)
    count: Counter[tuple[str, bool]] = Counter()
    for answer in answers(ANSWERS / f"{stem}.md", solutions):
        count[answer.exercise, answer.right] += 1
        if exercises == "few" and count[answer.exercise, answer.right] > 1:
            continue
        if answer.cell.startswith(("%%pass", "%%jit pass")):  # it changes what is there
            for cell in setup:
                ran(client, cell)
        ran(client, answer.cell)
        where = f" --folder ../{exercises}" if answer.right else ""
        said = verdict(client, f"{lesson.magic}check {answer.exercise}{where}")
        if answer.right:
            assert not said, answer
        else:
            assert answer.words and answer.words in said, (answer, said)
    return count


@pytest.mark.parametrize(
    "stem", [pytest.param(s, marks=[pytest.mark.slow] * (s == "capstone")) for s in LESSONS]
)
def test_wrong_answers_are_refused_for_their_reason_and_right_ones_pass(
    students: Callable[[str], Any], stem: str
) -> None:
    count = graded(students, stem, "few")
    for name in LESSONS[stem].exercises:
        assert count[name, False] >= 3 and count[name, True] >= 3, (name, count)


@pytest.mark.slow
@pytest.mark.parametrize("stem", LESSONS)
def test_right_answers_pass_with_all_inputs(students: Callable[[str], Any], stem: str) -> None:
    assert graded(students, stem, "exercises")


# The mutants that are the same function for every input that the exercise allows, or that differ
# from it in nothing that its author asks for.
SAME = {
    "max3": ["sgt -> sge"],
    "power": ["slt -> ult"],  # n is not negative, here and below
    "total": ["slt -> ult"],
    "gcd": ["urem -> srem"],
    "digits": ["udiv -> sdiv"],
    "average": ["lshr -> ashr"],  # of a sum of 33 bits in 64
    "apply": ["zext -> sext"],  # of 0, 1, 2
    "undo": ["%more = icmp ult i64 %i, %n: ult -> slt", "%rest = icmp ult i64 %at, %top: ult -> slt"],
    "pairs": ["lshr -> ashr"],
    "nth": ["zext -> sext"],  # of what is less than n
    "best_fit": ["sge -> uge", "slt -> ult", "2147483647 -> 2147483646"],
    "days": ["sgt -> ugt", "udiv -> sdiv"],
    "wakes": [
        "ult -> slt", "sgt -> ugt", "ult -> ule", "slt -> ult", "1 -> 2", "-1 -> 0", "-1 -> -2",
        "9999 -> 10000", "9999 -> 9998", "ptr %used: left out",
        # It looks at what lies in front of a variable of its own, which nobody guards.
        "%k = phi i32 [ 0, %miss ], [ %k1, %seen ]: 0 -> -1",
    ],
    "steps": ["lshr -> ashr"],
    "rest": ["slt -> sle", "slt -> ult"],
    "resume": ["uge -> sge", "slt -> sle", "slt -> ult"],
    "resolve": ["ult -> slt", "lshr -> ashr"],  # of the bits only the lowest is looked at
    "median": ["udiv -> sdiv"],
    "mean": ["sle -> ule", "slt -> ult"],
    "greatest": ["slt -> ult", "sgt -> sge"],
}  # fmt: skip
_SWAPPED = re.compile(r"icmp (eq|ne) .*: operands swapped")


@pytest.mark.slow
@pytest.mark.parametrize("stem", LESSONS)
def test_no_mutant_of_a_solution_passes(monkeypatch: pytest.MonkeyPatch, stem: str) -> None:
    """By its inputs alone, whatever its rules say, and however long all of them take."""
    monkeypatch.setattr(importlib.import_module("jitkernel.grading.check"), "ALL", 1000)
    lesson = LESSONS[stem]
    setup, solutions = parts(lesson)
    with Session(capacity=64 << 20, cell_timeout=0.5) as session:
        for cell in setup:
            if lesson.kernel == "llvm" and not cell.startswith("%"):
                session.run(cell)
        for name, solution in solutions.items():
            in_ir = lesson.kernel == "llvm" or solution.startswith("%%llvm")
            solution = solution.removeprefix("%%llvm\n")
            if not in_ir or solution.startswith("%%") or "define " not in solution:
                continue  # another language's, or passes
            exercise = replace(Exercise.read(COURSE / "exercises" / f"{name}.json"), rules=())
            session.run(solution)
            check(session, exercise)
            passed = []
            for mutant, words in mutants(solution):
                try:
                    session.run(mutant)
                    check(session, exercise)
                except (CompileError, CheckFailed):
                    continue
                if not _SWAPPED.search(words) and not any(
                    words.endswith(same) for same in SAME.get(name, ())
                ):
                    passed.append(words)
            assert not passed, name
            session.run(solution)


def test_every_exercise_has_answers_and_every_answer_an_exercise() -> None:
    stems = {path.stem for path in ANSWERS.glob("*.md")}
    assert stems == set(LESSONS)
    names = {path.stem for path in (COURSE / "exercises").glob("*.json")}
    assert names == {name for lesson in LESSONS.values() for name in lesson.exercises}
    for path in (COURSE / "exercises").glob("*.json"):
        assert json.loads(path.read_text())["name"] == path.stem
