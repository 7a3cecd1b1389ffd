"""Makes a semester of the lessons: which come in which week, what is handed in and read, and an
exam.  Start from `syllabus` and `exam`; `make_course.py` writes both.

The texts around stand in `tools/course/semester`.  In `exam.md` there the questions to lesson N are
below `## N`, each an item of a list with its answer on the lines below; those to a lesson that is
not there are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SEMESTER = Path(__file__).resolve().parent / "course" / "semester"
WEEKS = 14
POINTS = 5  # of an exercise
_SOURCES = re.compile(r"^\*\*(?:Sources|Who does it)\.\*\*|^## Sources", re.M)
_QUESTION = re.compile(r"^\* (.*)\n((?:  .*\n?)+)", re.M)


def in_order(course: list[Any]) -> list[Any]:
    """The lessons so that each comes behind what it needs, options as soon as they can be taken."""
    rank = ["option", "lesson", "project"]
    left = sorted(course, key=lambda lesson: rank.index(lesson.kind))
    found: list[Any] = []
    while left:
        known = {lesson.number for lesson in found}
        lesson = next(each for each in left if known.issuperset(each.needs))
        found.append(lesson)
        left.remove(lesson)
    return found


def weeks(course: list[Any]) -> list[list[Any]]:
    """The lessons of each week before the project's, as even in minutes as their order lets them
    be."""
    project = next((lesson for lesson in course if lesson.is_project), None)
    count = WEEKS - int(project.head["weeks"] if project else 0)
    lessons = [lesson for lesson in in_order(course) if not lesson.is_project]
    total, before = sum(int(lesson.head["minutes"]) for lesson in lessons), 0
    found: list[list[Any]] = [[] for _ in range(count)]
    for lesson in lessons:
        minutes = int(lesson.head["minutes"])
        found[count * (2 * before + minutes) // (2 * total)].append(lesson)
        before += minutes
    return found


def reading(lesson: Any) -> str:
    """What its head says, else where it has its sources itself; "" where it has none."""
    if "reads" in lesson.head:
        return str(lesson.head["reads"])
    if any(_SOURCES.search(part.body) for part in lesson.parts if part.kind == "text"):
        return f"what [{lesson.title}]({lesson.stem}.ipynb) names at its end"
    return ""


def syllabus(course: list[Any]) -> str:
    """The page for students."""
    plan = weeks(course)
    project = next((lesson for lesson in course if lesson.is_project), None)
    rows = ["| week | lessons, minutes | hand in | to read |", "|---|---|---|---|"]
    for number, lessons in enumerate(plan, 1):
        links = "<br>".join(f"[{x.title}]({x.stem}.ipynb), {x.minutes}" for x in lessons)
        tasks = [name for lesson in lessons for name in lesson.exercises]
        due = f"{', '.join(tasks)}: {POINTS * len(tasks)} points" if tasks else "nothing"
        read = "<br>".join(filter(None, map(reading, lessons)))
        rows.append(f"| {number} | {links} | {due} | {read} |")
    if project:
        stages = list(project.exercises)
        last = WEEKS - len(plan)
        for week in range(last):
            mine = stages[week * len(stages) // last : (week + 1) * len(stages) // last]
            link = f"[{project.title}]({project.stem}.ipynb)"
            read = project.head["reads"] if not week else ""
            rows.append(f"| {len(plan) + week + 1} | {link} | {', '.join(mine)} | {read} |")
    lessons = [lesson for week in plan for lesson in week]
    minutes = sum(int(lesson.head["minutes"]) for lesson in lessons)
    count = sum(len(lesson.exercises) for lesson in lessons)
    first = lessons[0]
    short = ", ".join(x.head["short"] for x in course if x.number.isdigit() and int(x.number) < 10)
    text = (SEMESTER / "syllabus.md").read_text(encoding="utf-8")
    return text.format(
        hours=round(minutes / 60),
        weeks=WEEKS,
        lessons=len(lessons),
        first=len(plan),
        last=WEEKS - len(plan),
        table="\n".join(rows),
        points=POINTS,
        all_points=POINTS * count,
        needs=f"The first lesson, [{first.title}]({first.stem}.ipynb), needs nothing.",
        short=short,
    )


def exam(course: list[Any]) -> str:
    """The page for teachers: questions with their answers, in the syllabus's order."""
    text = (SEMESTER / "exam.md").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    parts = [
        "# Questions of an exam, with answers",
        "For teachers. Two or three of each lesson that was taught make half an hour.",
    ]
    number = 0
    for lesson in in_order(course):
        for question, answer in _QUESTION.findall(asked.get(lesson.number, "")):
            number += 1
            words = " ".join(answer.split())
            parts.append(f"**{number}.** ({lesson.head['short']}) {question}\n\n> {words}")
    return "\n\n".join(parts) + "\n"
