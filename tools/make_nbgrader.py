"""Makes the exercises into a course of nbgrader: an assignment for each lesson that has any.

In an assignment stand the texts of the exercises, the cells that they need, a cell for each answer
with the solution between `### BEGIN SOLUTION` and `### END SOLUTION` (or without these, where it is
all of the cell), and a `%check` that nbgrader grades: all of its points where it passes.  Start
from `make`; `python tools/make_nbgrader.py FOLDER` writes the folder, in which `nbgrader
generate_assignment NAME` is next.
"""

from __future__ import annotations

import re
import shutil
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import make_course  # noqa: E402
from tools.make_course import COURSE, Lesson, code, markdown  # noqa: E402
from tools.make_syllabus import POINTS  # noqa: E402

_COMMENTS = {"llvm": ";", "c": "//"}  # of a cell's language; `#` elsewhere
#: What nbgrader needs to know of a course: of each kernel's language what stands for a solution.
CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "see_inside_a_jit"
c.ClearSolutions.code_stub = {
    "llvm": "; YOUR CODE HERE",
    "c": "// YOUR CODE HERE",
    "python": "YOUR CODE HERE",  # in place of lines of whatever language the cell is in
}
c.Execute.timeout = 120  # seconds that a cell may take
"""


def graded(cell: dict[str, Any], name: str, **what: Any) -> dict[str, Any]:
    """The cell with what nbgrader asks to know of it: version 3 of its metadata."""
    known = {"grade": False, "locked": True, "solution": False, "task": False}
    cell["metadata"]["nbgrader"] = known | {"schema_version": 3, "grade_id": name} | what
    return cell


def answer(stub: str, solution: str, kernel: str) -> str:
    """A solution of whose lines those are marked that its draft has not, at both ends.  Where only
    lines of the draft are left, or the first one says how the cell is compiled, none is: students
    are to see nothing of it."""
    draft, lines = stub.split("\n"), solution.split("\n")
    head = _alike(draft, lines)
    tail = _alike(draft[head:][::-1], lines[head:][::-1])
    magic, end = re.match(r"%%(\w+)", solution), len(lines) - tail
    if head == end or (magic and not head):
        return solution
    mark = _COMMENTS.get(magic[1] if magic else kernel, "#")
    region = [f"{mark} ### BEGIN SOLUTION", *lines[head:end], f"{mark} ### END SOLUTION"]
    return "\n".join([*lines[:head], *region, *lines[end:]])


def _alike(one: list[str], other: list[str]) -> int:
    """How many lines are the same, from the first on."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def assignment(lesson: Lesson) -> str:
    """The source of a lesson's assignment."""
    cells = [markdown(f"# {lesson.title}\n\nThe exercises of the lesson *{lesson.title}*.")]
    drafts = {part.name: part.body for part in lesson.parts if part.kind == "stub"}
    number = 0
    for part in lesson.parts:
        match part.kind:
            case "text":
                if text := make_course.exercise_text(part):
                    cells.append(markdown(text))
            case "code" if "setup" in part.words:
                number += 1
                cells.append(graded(code(part.body), f"setup-{number}"))
            case "solution":
                draft = drafts[part.name]
                if rules := make_course.rules_text(lesson, part.name):
                    cells.append(markdown(rules))
                cells.append(markdown(f"The draft:\n\n```\n{draft}\n```"))
                source = answer(draft, part.body, lesson.kernel)
                cells.append(graded(code(source), part.name, solution=True, locked=False))
                check = code(f"{lesson.magic}check {part.name}")
                cells.append(graded(check, f"check-{part.name}", grade=True, points=POINTS))
    return make_course.notebook(cells, lesson.kernel)


def make(folder: Path) -> list[str]:
    """Write the folder of a course; the names of its assignments."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    made = [lesson for lesson in make_course.lessons() if lesson.exercises]
    for lesson in made:
        place = folder / "source" / lesson.stem
        shutil.rmtree(place, ignore_errors=True)
        (place / "exercises").mkdir(parents=True)
        book = assignment(lesson)
        (place / f"{lesson.stem}.ipynb").write_text(book, encoding="utf-8")
        for name in lesson.exercises:
            shutil.copy(COURSE / "exercises" / f"{name}.json", place / "exercises")
        for picture in re.findall(r"\(pictures/(\w+\.svg)\)", book):
            (place / "pictures").mkdir(exist_ok=True)
            shutil.copy(COURSE / "pictures" / picture, place / "pictures")
    return [lesson.stem for lesson in made]


if __name__ == "__main__":
    made = make(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: {len(made)} assignments; next, there: nbgrader generate_assignment NAME")
