"""Magics for lessons: `%predict` and `%answer`; about exercises `%check` for students, `%%exercise`
for authors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jitkernel.ir.names import written
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.views.view import View, table

if TYPE_CHECKING:
    from jitkernel.grading import Report
    from jitkernel.kernel.frontend import Frontend

_PASSED = "✓"
_GREEN_TICK = f'<b style="color:#ffffff;background:#00664b">&nbsp;{_PASSED}&nbsp;</b>'

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
        context.display(_listed(arguments.folder))
        return
    report = grading.check(
        context.session, arguments.exercise, arguments.function or "", arguments.folder
    )
    context.display(report_view(report))


def report_view(report: Report) -> View:
    """A check that was passed: a row for each thing that was asked."""
    rows = [(f"{report.inputs} inputs", "each as the reference has it")]
    rows += list(zip(report.exercise.rules, report.found, strict=True))
    title = f"{_PASSED} {report.exercise.name}: {written(report.function)} passed"
    shown = table(title, ("asked", "found"), rows)
    return View(shown.text, shown.html.replace(_PASSED, _GREEN_TICK, 1))


def _listed(folder: str) -> View:
    from jitkernel import grading

    found = [grading.Exercise.read(path) for path in grading.exercises(folder).values()]
    rows = [(e.name, f"{written(e.function)}: {e.type}", e.task, "; ".join(e.rules)) for e in found]
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
    Argument("value", "a number, words, or an expression: @f(3)", "*"),
    example="%answer faster @ratio()",
)
def answer(context: Frontend, arguments: Any) -> None:
    """Compare what has come out with what `%predict` has noted."""
    from jitkernel.grading.predictions import answer

    text = " ".join(arguments.value)
    found = context.session.value(text).python if text.startswith("@") else text
    context.print(answer(arguments.name, found))
