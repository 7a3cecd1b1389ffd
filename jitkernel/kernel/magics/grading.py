"""Magics for lessons: `%predict`, `%answer` and `%progress`; about exercises `%check` for students,
`%%exercise` for authors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.regex import regex
from jitkernel.views.view import View, table

if TYPE_CHECKING:
    from jitkernel.grading import Report
    from jitkernel.grading.progress import Lesson, Passed
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session import Session

_PASSED = "✓"
_CALL = regex(r"(?P<at>@)|(?P<name>[\w.$]+)\(.*\)$")
_GREEN_TICK = f'<b style="color:#ffffff;background:#00664b">&nbsp;{_PASSED}&nbsp;</b>'

_NO_COURSE = "jitkernel's is in its sources: notebooks/course"

_FOLDER = Argument("--folder", "where the exercises are", default="", completes="file")


@magic(
    "check",
    Argument("exercise", "the exercise's name", "?", completes="exercise"),
    Argument("function", "another function than it names", "?", completes="function"),
    _FOLDER,
    example="%check clz",
)
def check(context: Frontend, arguments: Any) -> None:
    """Grade a function: hidden inputs, then rules. Without a name, the exercises at hand."""
    from jitkernel import grading

    if arguments.exercise is None:
        context.display(_listed(context.session, arguments.folder))
        return
    report = grading.check(
        context.session, arguments.exercise, arguments.function or "", arguments.folder
    )
    context.display(report_view(report))
    if note := grading.progress.passed(report.exercise.name):
        context.print(note)


def report_view(report: Report) -> View:
    """A check that was passed: a row for each thing that was asked."""
    rows = [(f"{report.inputs} inputs", "each as the reference has it")]
    rows += list(zip(report.exercise.rules, report.found, strict=True))
    title = f"{_PASSED} {report.exercise.name}: {report.called} passed"
    shown = table(title, ("asked", "found"), rows)
    return View(shown.text, shown.html.replace(_PASSED, _GREEN_TICK, 1))


def _listed(session: Session, folder: str) -> View:
    from jitkernel import grading
    from jitkernel.grading.check import prototype

    found = [grading.Exercise.read(path) for path in grading.exercises(folder).values()]
    rows = [
        (e.name, prototype(session, e.function, e.signature), e.task, "; ".join(e.rules))
        for e in found
    ]
    note = "" if rows else "There is no folder `exercises` with any, here or one folder up."
    return table("Exercises", ("name", "function", "task", "rules"), rows, note)


@magic("exercise", Argument("exercise", "its name"), _FOLDER, form="cell", example="%%exercise clz")
def exercise(context: Frontend, arguments: Any) -> None:
    """Make an exercise of the cell: `; task: ...`, `; try:`, `; must:`, then the reference."""
    from jitkernel import grading

    made = grading.make_exercise(context.session, arguments.exercise, arguments.body)
    path = made.write(Path(arguments.folder or "exercises"))
    context.print(f"{path}: the reference is {len(made.reference)} bytes of bitcode")


@magic(
    "predict",
    Argument("name", "what is predicted"),
    Argument("guess", "a number or words, in place of ____", "*"),
    example="%predict faster 10",
)
def predict(context: Frontend, arguments: Any) -> None:
    """Note what you expect; `%answer` of the same name compares it with what comes out."""
    from jitkernel.grading.predictions import predict

    context.print(predict(arguments.name, " ".join(arguments.guess)))


@magic(
    "answer",
    Argument("name", "what was predicted"),
    Argument("value", "a number, words, or a call: @f(3), f(3)", "*"),
    example="%answer faster @ratio()",
)
def answer(context: Frontend, arguments: Any) -> None:
    """Compare what has come out with what `%predict` has noted."""
    from jitkernel.grading.predictions import answer

    text = " ".join(arguments.value)
    call = _CALL.match(text)
    if call and (call["at"] or call["name"] in context.session.symbols):
        context.print(answer(arguments.name, context.session.value(f"@{text.lstrip('@')}").python))
    else:
        context.print(answer(arguments.name, text))


@magic(
    "progress",
    Argument("--reset", "forget what was passed: all, or this lesson's", "?", value="LESSON"),
    example="%progress",
)
def progress(context: Frontend, arguments: Any) -> None:
    """Show what you have passed of the course in this folder, and what comes next."""
    from jitkernel.grading import progress

    if arguments.reset is not None:
        progress.reset(arguments.reset)
        context.print(f"forgotten: {arguments.reset or 'all lessons'}")
        return
    course = progress.lessons()
    if not course:
        there = progress.elsewhere()
        where = f"there is one in {there}: %cd {there}" if there else _NO_COURSE
        raise UsageError(f"there is no course in this folder (no {progress.COURSE}); {where}")
    known, said = progress.noted()
    if said:
        context.print(said)
    off = "" if progress.enabled() else f"Nothing more is noted: {progress.SWITCH} is off."
    context.display(progress_view(course, known, off))


def progress_view(course: Sequence[Lesson], known: Passed, note: str = "") -> View:
    """A row for each lesson, and the first one that is not done though all that it needs is."""
    rows, done, following = [], set[str](), None
    for lesson in course:
        found = known.get(lesson.stem, {})
        left = [name for name in lesson.exercises if name not in found]
        if not left:
            done.add(lesson.stem)
        elif following is None and done.issuperset(lesson.needs):
            following = f"Next: {lesson.title} ({lesson.stem}): {', '.join(left)}"
        rows.append(
            (
                _PASSED if lesson.exercises and not left else "",
                lesson.title,
                _share(lesson.exercises, found),
                _share(lesson.predictions, found),
                max(found.values(), default=""),
            )
        )
    columns = ("done", "lesson", "exercises", "predictions", "last passed")
    note = f"{following or 'All exercises are passed.'}\n{note}".rstrip()
    return table("Progress", columns, rows, note)


def _share(asked: Sequence[str], found: Mapping[str, str]) -> str:
    return f"{sum(name in found for name in asked)} of {len(asked)}" if asked else ""
