"""The course: every lesson from top to bottom, every solution, and the notebooks as their source
makes them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from jitkernel.grading import Exercise
from jitkernel.kernel.client import (
    code_cells,
    kernel_for,
    outputs_text,
    read_notebook,
    run_cell,
)
from jitkernel.kernel.magics import MAGICS
from tests.kernel.answers import maker
from tests.kernel.claims import broken, numbers, unfounded, unused
from tests.kernel.conftest import ROOT
from tests.seeds import sampled

COURSE = ROOT / "notebooks" / "course"
LESSONS = sorted(p.name for p in COURSE.glob("*.ipynb") if p.name != "index.ipynb")
LESSON_OF = {f"{lesson.stem}.ipynb": lesson for lesson in maker().lessons()}
SOLUTIONS = sorted(p.name for p in (COURSE / "solutions").glob("*.ipynb"))


def run(path: Path, client: Any) -> list[tuple[dict[str, Any], dict[str, Any], list[str]]]:
    """Each code cell of a notebook with its reply and what it showed.  The client has an input box,
    as JupyterLab has, and nobody who answers: all cells, run at once, have to come to the end."""
    found = []
    asked: list[str] = []

    def nobody(question: str) -> str:
        asked.append(question)
        return "q"

    for cell in code_cells(read_notebook(path)):
        reply, outputs = run_cell(
            client, cell["source"], cell_id=cell["id"], timeout=100, ask=nobody
        )
        assert not asked, f"it waits for a reader: {cell['source']}"
        found.append((cell, reply, outputs_text(outputs)))
    return found


def in_python(path: Path) -> bool:
    """True if it is a Python notebook."""
    return bool(read_notebook(path)["metadata"]["kernelspec"]["name"] == "python3")


class Kernels:
    """Kernels in a copy of the course: IPython's, and ours, each for one lesson after the other."""

    def __init__(self, course: Path):
        self.course = course
        self._running: dict[tuple[str, str], tuple[Any, contextlib.ExitStack]] = {}

    def of(self, lesson: Any, folder: str = ".") -> Any:
        """A client of the one for this lesson's language in this folder, whose session is empty."""
        if (key := (lesson.kernel, folder)) not in self._running:
            stack, book = contextlib.ExitStack(), {"metadata": maker().METADATA[lesson.kernel]}
            self._running[key] = stack.enter_context(kernel_for(book, self.course / folder)), stack
        client, _ = self._running[key]
        run_cell(client, f"{lesson.magic}reset")
        return client

    def end(self) -> None:
        """The next lesson has a kernel that no other has used."""
        while self._running:
            self._running.popitem()[1][1].close()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    running = Kernels(Path(shutil.copytree(COURSE, tmp_path_factory.mktemp("course") / "course")))
    yield running
    running.end()


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_runs_and_fails_only_where_it_means_to(
    kernels: Kernels, tmp_path: Path, name: str
) -> None:
    """What does not hold in a kernel that other lessons have used must hold in one of its own."""
    try:
        wrong = run_lesson(kernels.of(LESSON_OF[name]), kernels.course / name)
    except Exception as error:
        wrong = [f"in a kernel that was used: {error}"]
    if not wrong:
        return
    kernels.end()
    for number in range(3):
        course = Path(shutil.copytree(COURSE, tmp_path / f"course {number}"))
        with kernel_for(read_notebook(course / name), course) as client:
            wrong = run_lesson(client, course / name)
        # What measurements are compared for is true of one of some tries: see `busy.within`.
        if not all(line.startswith("where ") for line in wrong):
            break
        if not wrong:
            return
    assert not wrong


def run_lesson(client: Any, path: Path) -> list[str]:
    """Run a lesson, in a copy: it may write into its folder.  Gives the claims that do not hold."""
    cells = run(path, client)
    for cell, reply, shown in cells:
        tags = cell["metadata"].get("tags", [])
        expected = "error" if "raises-exception" in tags else "ok"
        assert reply["status"] == expected, (cell["source"], shown)
        if "check" in tags:  # the stub is not the solution
            assert reply["ename"] == "CheckFailed", shown
        for text in shown:
            assert "fault of jitkernel" not in text
    return wrong_claims(LESSON_OF[path.name], iter("\n".join(shown) for _, _, shown in cells))


def wrong_claims(lesson: Any, outputs: Iterator[str]) -> list[str]:
    """What the text says first and the cells do not show."""
    cells = {"code": 1, "stub": 2}  # of a part: a stub's check is one
    shown = ["\n".join(islice(outputs, cells.get(part.kind, 0))) for part in lesson.parts]
    latest, known = "", dict[str, float]()
    for part, output in zip(lesson.parts, shown, strict=True):
        if part.kind in cells:
            latest = output
        elif part.kind == "shows":
            if wrong := broken(part.body, latest, known):
                print(latest)
                return wrong
    return []


@pytest.mark.parametrize("name", LESSONS)
def test_every_number_of_a_text_is_shown_or_given(name: str) -> None:
    parts = LESSON_OF[name].parts
    assert not unfounded(parts) and not unused(parts)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Six bytes, and four machine instructions.", "6 byte, 4 instruction"),
        ("It is `-56` of 4,096; `%x6` and 0x40 are code.", "-56, 4096"),
        ("Two: `lea` and `ret`. Ten million calls took 0.3 ns.", "0.3 ns, 10000000 call, 2"),
        ("## 2. A title\n\n3. A step, and\n40 lines, see lesson 7 and -O2", "40 line"),
        ("a hundred uses; two of them; one line", ""),
    ],
)
def test_numbers_of_a_text(text: str, found: str) -> None:
    assert ", ".join(" ".join(number).strip() for number in numbers(text)) == found


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ("code: ret 6 | text: Six bytes.", "6 byte"),  # in code by chance
        ("code: ret 1000 | text: A call for 1,000 times.", ""),  # the question's
        ("code: ret | shows: , 6 bytes | text: Six bytes.", ""),
        ("code: ret | shows: , 6 bytes | text: ## Next | text: Six bytes.", "6 byte"),
        ("text: Six bytes. | given: 6: of a word", "6 byte"),  # of what?
        ("text: Six bytes, of 6. | given: 6, 6 bytes: of a word", ""),
        ("text: At most 6 bytes. | exercise: ; must: at most 6 bytes", ""),
    ],
)
def test_a_number_needs_what_vouches_for_it(parts: str, wrong: str) -> None:
    made = [maker().Part(*part.strip().split(": ", 1)) for part in parts.split(" | ")]
    assert [text.partition(" in: ")[0].strip() for text in unfounded(made)] == [wrong][
        : bool(wrong)
    ]


@pytest.mark.parametrize("name", sampled(SOLUTIONS, 3))  # other answers than these: test_answers.py
def test_solutions_pass_their_checks(kernels: Kernels, name: str) -> None:
    checks = 0
    solver = kernels.of(LESSON_OF[name], "solutions")
    for cell, reply, shown in run(kernels.course / "solutions" / name, solver):
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
        if path.parent.name == "exercises":
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
        assert (
            LESSON_OF[name].takes in first
            and "You will be able to" in first
            and "Before it" in first
        )
        text = "\n".join(c["source"] for c in book["cells"])
        for link in re.findall(r"\]\(([\w./]+\.ipynb)\)", text):
            assert (COURSE / link).is_file(), f"{name}: {link}"
    index = (COURSE / "README.md").read_text()
    assert all(name in index for name in LESSONS)
    svg = (COURSE / "map.svg").read_text()
    assert "<script" not in svg and "foreignObject" not in svg
    places = re.findall(r'<rect x="(\d+)" y="(\d+)"', svg)
    assert len(set(places)) == len(places) == len(LESSONS)


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


def test_slides_begin_where_a_reader_takes_breath() -> None:
    """At headings to the right, at other texts below; code stands with the text above it."""
    for name in LESSONS:
        cells = json.loads((COURSE / name).read_text())["cells"]
        kinds = [cell["metadata"]["slideshow"]["slide_type"] for cell in cells]
        assert kinds[0] == "slide" and kinds.count("slide") > 1, name
        for cell, kind in zip(cells, kinds, strict=True):
            assert (kind in ("-", "fragment")) == (
                cell["cell_type"] == "code" or cell["source"].startswith("**Rules**")
            ), (name, cell["source"])
            headings = re.findall(
                r"^##+ ", re.sub(r"```.*?```", "", cell["source"], flags=re.S), re.M
            )
            assert len(headings) <= 1 or cell["cell_type"] == "code", (name, cell["source"])


def test_a_deck_fetches_nothing() -> None:
    pytest.importorskip("sphinx_revealjs")
    from tools.make_slides import deck

    html = deck(LESSON_OF["12_patching.ipynb"])
    assert "Reveal.initialize" in html and html.count("<section") > 10
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=.(?!data:)[^>]*>", html)
    assert "@import" not in html and ".ipynb" not in html


def test_a_folded_cell_is_told_of_above_and_opens_by_a_click() -> None:
    """In a notebook and on slides.  Its output has nothing that a text calls for."""
    from tools.make_slides import deck

    folded = 0
    for lesson in maker().lessons():
        cells = json.loads((COURSE / f"{lesson.stem}.ipynb").read_text())["cells"]
        hidden = [cell["metadata"].get("jupyter") == {"source_hidden": True} for cell in cells]
        parts = [part for part in lesson.parts if "folded" in part.words]
        assert [c["source"] for c, h in zip(cells, hidden, strict=True) if h] == [
            part.body for part in parts
        ]
        for at, part in enumerate(lesson.parts):
            if part in parts:
                above = lesson.parts[at - 1]
                assert at and (above.kind == "text" or above in parts), part.body
                assert lesson.parts[at + 1].kind != "shows", part.body
        text = "\n".join(part.body for part in lesson.parts if part.kind == "text")
        assert ("**folded**" in text) == bool(parts), lesson.stem
        folded += len(parts)
    assert folded > 20
    pytest.importorskip("sphinx_revealjs")
    lesson = LESSON_OF["13_deopt.ipynb"]
    count = sum("folded" in part.words for part in lesson.parts)
    assert deck(lesson).count("<details>") == count > 0


def test_code_in_a_text_ends_in_the_paragraph_in_which_it_begins() -> None:
    """A line that begins with `+ ` or `- ` is an item of a list, even in the middle of code."""
    for lesson in maker().lessons():
        text = "\n\n".join(part.body for part in lesson.parts if part.kind in ("text", "why"))
        text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        for block in re.split(r"\n\s*\n|^(?=\s*(?:[-+*]|\d+\.) )", text, flags=re.M):
            assert block.count("`") % 2 == 0, (lesson.stem, block)


def test_a_semester_has_every_lesson_once_behind_what_it_needs() -> None:
    from tools.make_syllabus import POINTS, WEEKS, exam, reading, syllabus, weeks

    course = maker().lessons()
    plan = weeks(course)
    assert (
        all(plan) and len(plan) + sum(int(x.head["weeks"]) for x in course if x.is_project) == WEEKS
    )
    order = [lesson for week in plan for lesson in week]
    assert sorted(x.stem for x in order) == sorted(x.stem for x in course if not x.is_project)
    for at, lesson in enumerate(order):
        assert set(lesson.needs) <= {before.number for before in order[:at]}
    page = syllabus(course)
    for lesson in course:
        assert f"({lesson.stem}.ipynb)" in page and all(name in page for name in lesson.exercises)
    told = [int(points) for points in re.findall(r": (\d+) points", page)]
    assert sum(told) == POINTS * sum(len(x.exercises) for x in order)
    assert (
        sum(bool(reading(lesson)) for lesson in course) >= len(course) - 1
    )  # but how to write exercises
    questions = exam(course)
    asked = re.findall(r"^\*\*(\d+)\.\*\* .+\n\n> .{20,}", questions, re.M)
    assert asked == [str(n + 1) for n in range(len(asked))] and len(asked) > 25


def test_a_lesson_that_is_not_there_leaves_no_gap_in_the_semester() -> None:
    from tools.make_syllabus import exam, syllabus

    course = maker().lessons()
    last = [
        x for x in course if x.number.isdigit() and not any(x.number in y.needs for y in course)
    ][-1]
    fewer = [lesson for lesson in course if lesson is not last]
    assert last.title not in syllabus(fewer) and f"({last.head['short']})" not in exam(fewer)


def test_each_lesson_has_a_place_of_its_own_on_the_map_below_what_it_needs() -> None:
    course = maker().lessons()
    found = maker().places(course)
    assert len(set(found.values())) == len(found) == len(course)
    for lesson in course:
        assert all(found[need][1] < found[lesson.number][1] for need in lesson.needs)
    svg = (COURSE / "map.svg").read_text()
    boxes = re.findall(r'<rect x="(\d+)" y="(\d+)" width="220"', svg)
    assert len(set(boxes)) == len(course)
