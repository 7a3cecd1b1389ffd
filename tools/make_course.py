"""Makes `notebooks/course` from `tools/course/*.md`: lessons, solutions, exercises, the map.

A lesson is Markdown with a head of `key: value` lines: `number` (one to be taken in turn, a letter
for an option, `project` for what ends a course), `title`, `short` and `column` (on the map),
`minutes`, `tried` (minutes that somebody has needed), `needs` (numbers), `aims`, and `reads` (for
the semester, `make_syllabus.py`).  Its fences say what becomes of them:

    llvm                a cell that runs
    llvm setup          the same, and the solutions' notebook needs it too
    llvm setup folded   as `setup`; it shows as a line that a reader may open, and need not
    llvm error          a cell that is meant to fail
    llvm vary           a cell whose output is different each time
    llvm stub NAME      where the student works; followed by its check, which fails until solved,
                        and after the rules that its exercise is held to
    llvm solution NAME  what takes the stub's place in the solutions' notebook
    exercise NAME       the exercise as its author writes it; goes into exercises/NAME.json
    why                 what the solutions' notebook says about the solution above
    shows               what the cell above shows, for the tests: a pattern a line, `!` in front of
                        one that it does not; `where` an expression of the patterns' named numbers
    given               numbers of the text that no cell shows, with where they are from, a line
                        each: `2003: the year of the paper`, `4 bytes: psABI 4.4.1`

`{picture NAME}` in a text is one of `course_pictures.py`.

Where the head says `kernel: python` it is a Python notebook, and `python` fences are what `llvm`
fences are elsewhere; `kernel: c` is the same with `c` fences.

Start from `make`.  `python tools/make_course.py` writes the folder.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this tree's, installed or not

from jitkernel.grading.progress import COURSE as COURSE_LIST  # noqa: E402
from jitkernel.views.svg import INK, PAPER, SHEET  # noqa: E402
from tools.course_pictures import PICTURES  # noqa: E402
from tools.make_syllabus import exam, in_order, syllabus  # noqa: E402

SOURCES = ROOT / "tools" / "course"
COURSE = ROOT / "notebooks" / "course"
METADATA = {
    "llvm": {
        "kernelspec": {
            "display_name": "LLVM IR (jitkernel)",
            "language": "llvm",
            "name": "jitkernel",
        },
        "language_info": {
            "codemirror_mode": "llvm",
            "file_extension": ".ll",
            "mimetype": "text/x-llvm",
            "name": "llvm",
            "pygments_lexer": "jitkernel",
        },
    },
    "c": {
        "kernelspec": {"display_name": "C (jitkernel)", "language": "c", "name": "jitkernel-c"},
        "language_info": {
            "codemirror_mode": "jitkernel-c",
            "file_extension": ".c",
            "mimetype": "text/x-csrc",
            "name": "c",
            "pygments_lexer": "jitkernel-c",
        },
    },
    "python": {
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        "language_info": {
            "file_extension": ".py",
            "mimetype": "text/x-python",
            "name": "python",
            "pygments_lexer": "ipython3",
        },
    },
}
_PICTURE = re.compile(r"\{picture (\w+)\}")
_FENCE = re.compile(r"^```(.*?)\n(.*?)^```$\n?", re.M | re.S)
_ANSWER = re.compile(r'^(?:%(?:jit )?answer (\S+)|.*\banswer\("([^"]+)")', re.M)
_TAGS = {"setup": [], "folded": [], "error": ["raises-exception"], "vary": ["numbers-vary"]}


@dataclass(frozen=True)
class Part:
    """A stretch of a lesson: `kind` is `text` or a fence's first words, `name` the exercise's."""

    kind: str
    body: str
    name: str = ""
    words: tuple[str, ...] = ()


@dataclass
class Lesson:
    """One source file.  `number` is what the map calls it: `0` to `9`, or a letter."""

    stem: str
    head: dict[str, str]
    parts: list[Part] = field(default_factory=list)

    @property
    def number(self) -> str:
        return self.head["number"]

    @property
    def kernel(self) -> str:
        """The language of its notebook."""
        return self.head.get("kernel", "llvm")

    @property
    def magic(self) -> str:
        """What a magic begins with there."""
        return "%jit " if self.kernel == "python" else "%"

    @property
    def kind(self) -> str:
        """`lesson`, `option`, or `project`: what takes weeks, and ends a course."""
        if self.is_project:
            return "project"
        return "lesson" if self.number.isdigit() else "option"

    @property
    def is_project(self) -> bool:
        return self.number == "project"

    @property
    def takes(self) -> str:
        """How long it takes."""
        return (
            f"{self.head['weeks']} weeks" if self.is_project else f"{self.head['minutes']} minutes"
        )

    @property
    def title(self) -> str:
        return self.head["title"]

    @property
    def minutes(self) -> str:
        """The minutes that its author expects, and those that somebody has needed: `40 (55)`."""
        tried = self.head.get("tried")
        return self.head["minutes"] + (f" ({tried})" if tried else "")

    @property
    def needs(self) -> list[str]:
        return [n.strip() for n in self.head.get("needs", "").split(",") if n.strip()]

    @property
    def exercises(self) -> dict[str, str]:
        return {p.name: p.body for p in self.parts if p.kind == "exercise"}

    @property
    def predictions(self) -> list[str]:
        """The names of what a reader predicts and a cell compares."""
        text = "\n".join(p.body for p in self.parts if p.kind == "code")
        return [plain or quoted for plain, quoted in _ANSWER.findall(text)]


def read(path: Path) -> Lesson:
    """A lesson from its source."""
    head_text, _, text = path.read_text(encoding="utf-8").partition("\n---\n")
    head = dict(line.split(": ", 1) for line in head_text.splitlines() if line)
    lesson = Lesson(path.stem, head)
    at = 0
    for match in _FENCE.finditer(text):
        _text(lesson, text[at : match.start()])
        words = match[1].split() or [""]
        kind, body = words[0], match[2].rstrip("\n")
        if kind == lesson.kernel:
            named = words[1:2] in (["stub"], ["solution"])
            kind = words[1] if named else "code"
            name = words[2] if named else ""
            lesson.parts.append(Part(kind, body, name, tuple(words[1:])))
        elif kind in ("exercise", "why", "shows", "given"):
            lesson.parts.append(Part(kind, body, words[1] if len(words) > 1 else ""))
        else:  # a fence to be read
            _text(lesson, match[0])
        at = match.end()
    _text(lesson, text[at:])
    return lesson


def _text(lesson: Lesson, text: str) -> None:
    text = text.strip("\n")
    if not text:
        return
    if lesson.parts and lesson.parts[-1].kind == "text":
        text = lesson.parts.pop().body + "\n\n" + text
    lesson.parts.append(Part("text", text))


def lessons() -> list[Lesson]:
    """All of them, in the map's order, the project last."""
    found = [read(p) for p in sorted(SOURCES.glob("*.md")) if p.stem != "index"]
    return sorted(found, key=lambda lesson: lesson.is_project)


# -- notebooks -----------------------------------------------------------------------------------


def notebook(cells: list[dict[str, Any]], kernel: str = "llvm") -> str:
    """A notebook without outputs: what it shows is to be predicted, then measured here."""
    for number, cell in enumerate(cells):
        cell["id"] = f"{cell['cell_type']}-{number}"
    book = {"cells": cells, "metadata": METADATA[kernel], "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def markdown(text: str) -> dict[str, Any]:
    text = _PICTURE.sub(lambda m: f"![{PICTURES[m[1]].alt}](pictures/{m[1]}.svg)", text)
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(source: str, *tags: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": list(tags)} if tags else {}
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def front(lesson: Lesson, known: dict[str, Lesson]) -> str:
    """A lesson's first cell: what it is for, what it needs, how long it takes."""
    label = f"Lesson {lesson.number}" if lesson.number.isdigit() else lesson.kind.capitalize()
    needs = [f"[{known[n].title}]({known[n].stem}.ipynb)" for n in lesson.needs]
    aims = "\n".join(f"* {aim.strip()}" for aim in lesson.head["aims"].split(";"))
    before = ", ".join(needs) or "to have written a small program in some language"
    return (
        f"# {label}: {lesson.title}\n\n**{lesson.takes}. Before it:** {before}. "
        f"[Map of the course](index.ipynb)\n\n**You will be able to**\n{aims}"
    )


def rules_text(lesson: Lesson, name: str) -> str:
    """What `%check` asks beside right answers, from the exercise itself: students know it first."""
    rules = [
        rule.strip()
        for words in re.findall(r"^; must: (.*)$", lesson.exercises[name], re.M)
        for rule in words.split(";")
    ]
    told = "".join(f"\n* {_rule_words(rule)}" for rule in rules)
    text = f"**Rules** that `%check` holds you to, beside right answers:{told}" if told else ""
    return text.replace("`%", f"`{lesson.magic}")


def exercise_text(part: Part) -> str:
    """Of a text what is about an exercise, "" where nothing is."""
    found = re.search(r"^### Exercise.*", part.body, re.M | re.S)
    return re.split(r"\n## ", found[0])[0] if found else ""


def _rule_words(rule: str) -> str:
    if match := re.fullmatch(r"(no|some) (\w+)( as written)?", rule):
        where = "in your text" if match[3] else "left when all passes have run"
        return f"{'no' if match[1] == 'no' else 'at least one'} `{match[2]}` {where}"
    if match := re.fullmatch(r"at most (\d+) (instructions|IR instructions|bytes)", rule):
        what = {
            "instructions": "machine instructions (`%asm` shows them)",
            "IR instructions": "instructions of IR when all passes have run (`%ir NAME --opt`)",
            "bytes": "bytes of machine code",
        }
        return f"at most {match[1]} {what[match[2]]}"
    return {
        "a tail call": "a tail call: one whose value is returned as it is, and that becomes a jump",
        "a tail call to itself": "a call to itself whose value is returned as it is, of which no "
        "`call` is left",
        "direct calls": "every call is direct: none through a pointer or an entry",
        "packed instructions in a loop": "in a loop, machine instructions that compute on several "
        "elements at once, of whatever width your processor has",
    }[rule]


def lesson_notebook(lesson: Lesson, known: dict[str, Lesson]) -> str:
    """What students get."""
    cells = [markdown(front(lesson, known))]
    for part in lesson.parts:
        match part.kind:
            case "text":
                cells += map(markdown, sections(part.body))
            case "code":
                cells.append(code(part.body, *(t for w in part.words for t in _TAGS[w])))
                if "folded" in part.words:
                    cells[-1]["metadata"]["jupyter"] = {"source_hidden": True}
            case "stub":
                if rules := rules_text(lesson, part.name):
                    cells.append(markdown(rules))
                cells.append(code(part.body, "exercise"))
                cells.append(code(f"{lesson.magic}check {part.name}", "check", "raises-exception"))
    return notebook(on_slides(cells), lesson.kernel)


def sections(text: str) -> list[str]:
    """A text, cut before each of its headings."""
    pieces = re.split(r"^(?=##+ )", text, flags=re.M)
    return [piece.strip("\n") for piece in pieces if piece.strip()]


def on_slides(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells with where a slide begins (nbconvert's `slide_type`): to the right at a heading,
    below at another text, with its code; code that answers a question comes at the next key."""
    before = ""
    for cell in cells:
        text = cell["source"]
        if cell["cell_type"] == "code":
            kind = "fragment" if "**Predict.**" in before else "-"
        elif text.startswith("**Rules**"):
            kind = "-"
        else:
            kind = "slide" if re.match("##? ", text) else "subslide"
        cell["metadata"]["slideshow"] = {"slide_type": kind}
        before = text
    return cells


def solutions_notebook(lesson: Lesson) -> str:
    """The solutions with the reasons, and what must have run before them."""
    stem = f"../{lesson.stem}.ipynb"
    cells = [markdown(f"# Solutions: {lesson.title}\n\nThe exercises are in [the lesson]({stem}).")]
    for part in lesson.parts:
        match part.kind:
            case "text":
                if text := exercise_text(part):
                    cells.append(markdown(text))
            case "code" if "setup" in part.words:
                cells.append(code(part.body))
            case "solution":
                cells.append(code(part.body, "solution"))
                cells.append(code(f"{lesson.magic}check {part.name}", "check"))
            case "why":
                cells.append(markdown(part.body))
    return notebook(cells, lesson.kernel)


# -- the map -------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP, _LANE = 220, 46, 34, 24


_COLUMNS = 3


def places(course: list[Lesson]) -> dict[str, tuple[int, int]]:
    """Column and row of each lesson: below what it needs, in the column that its head names, or
    beside or below that where another one has the place."""
    found: dict[str, tuple[int, int]] = {}
    for lesson in in_order(course):
        own = int(lesson.head["column"])
        row = max((found[need][1] + 1 for need in lesson.needs), default=0)
        columns = sorted(range(_COLUMNS), key=lambda column: abs(column - own))
        every = ((column, row + down) for down in range(len(course)) for column in columns)
        found[lesson.number] = next(place for place in every if place not in found.values())
    return found


def map_svg(course: list[Lesson]) -> str:
    """The lessons as boxes at their places."""
    taken = places(course)
    column = {number: place[0] for number, place in taken.items()}
    row = {number: place[1] for number, place in taken.items()}
    place = {
        n: (10 + _LANE + column[n] * (_WIDTH + _GAP), 10 + row[n] * (_HEIGHT + _GAP)) for n in row
    }
    width = 20 + _LANE + (max(column.values()) + 1) * (_WIDTH + _GAP)
    height = 20 + (max(row.values()) + 1) * (_HEIGHT + _GAP) - _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        '<defs><marker id="a" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>',
    ]
    for lesson in course:
        for need in lesson.needs:
            rows = range(row[need] + 1, row[lesson.number])
            aside = rows and column[need] != column[lesson.number]
            between = {(column[need], r) for r in rows} & set(taken.values())
            parts.append(_arrow(place[need], place[lesson.number], bool(aside or between)))
    for lesson in course:
        x, y = place[lesson.number]
        option = not lesson.number.isdigit()
        fill, dash = ("#f0dcb8", ' stroke-dasharray="6 3"') if option else (SHEET, "")
        label = escape(f"{'' if option else lesson.number + '. '}{lesson.head['short']}")
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{fill}" '
            f'stroke="{INK}"{dash}/>'
            f'<text x="{x + _WIDTH // 2}" y="{y + 20}" text-anchor="middle" '
            f'font-family="sans-serif" font-size="14" fill="{INK}">{label}</text>'
            f'<text x="{x + _WIDTH // 2}" y="{y + 38}" text-anchor="middle" '
            f'font-family="sans-serif" font-size="12" fill="{INK}">'
            f"{lesson.takes}</text>"
        )
    return "".join([*parts, "</svg>\n"])


def _arrow(start: tuple[int, int], stop: tuple[int, int], around: bool) -> str:
    """From the foot of a box to the head of another, `around` what stands between: in the lane
    left of the first column, right of the others."""
    x0, y0, x1, y1 = start[0] + _WIDTH // 2, start[1] + _HEIGHT, stop[0] + _WIDTH // 2, stop[1]
    if not around:
        path = f"M{x0},{y0} C{x0},{y0 + 24} {x1},{y1 - 24} {x1},{y1}"
    else:
        lane = start[0] - _LANE // 2 if start[0] == 10 + _LANE else start[0] + _WIDTH + _GAP // 2
        y2, y3 = y0 + _GAP, y1 - _GAP
        path = (
            f"M{x0},{y0} C{x0},{y0 + 24} {lane},{y2 - 24} {lane},{y2} V{y3} "
            f"C{lane},{y3 + 24} {x1},{y1 - 24} {x1},{y1}"
        )
    return f'<path d="{path}" fill="none" stroke="{INK}" marker-end="url(#a)"/>'


def index(course: list[Lesson]) -> str:
    """The index page, from `index.md`: `{map}` and `{table}` are filled in."""
    known = {lesson.number: lesson for lesson in course}
    total = sum(int(lesson.head["minutes"]) for lesson in course if not lesson.is_project)
    kinds = [lesson.kind for lesson in course]
    alt = (
        f"Map of the course: {kinds.count('lesson')} lessons and {kinds.count('option')} options, "
        f"{total} minutes; an arrow leads from what is needed first."
    )
    rows = ["| | lesson | minutes (tried) | exercises | after |", "|---|---|---|---|---|"]
    for lesson in course:
        after = ", ".join(known[n].head["short"] for n in lesson.needs) or "nothing"
        link = f"[{lesson.title}]({lesson.stem}.ipynb)"
        number = lesson.number if lesson.number.isdigit() else lesson.kind
        minutes = lesson.takes if lesson.is_project else lesson.minutes
        exercises = ", ".join(lesson.exercises) or "none"
        rows.append(f"| {number} | {link} | {minutes} | {exercises} | {after} |")
    text = (SOURCES / "index.md").read_text(encoding="utf-8")
    text = text.replace("{map}", f"![{alt}](map.svg)").replace("{table}", "\n".join(rows))
    return text.replace("{hours}", str(round(total / 60)))


def listed(course: list[Lesson], known: dict[str, Lesson]) -> str:
    """What `%progress` knows of the lessons."""
    rows = [
        {
            "stem": lesson.stem,
            "title": lesson.title,
            "needs": [known[n].stem for n in lesson.needs],
            "exercises": list(lesson.exercises),
            "predictions": lesson.predictions,
        }
        for lesson in course
    ]
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"


# -- everything ----------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """Write the whole course into `folder`; what is not of this course there stays."""
    from jitkernel import Session
    from jitkernel.grading import make_exercise

    course = lessons()
    known = {lesson.number: lesson for lesson in course}
    (folder / "solutions").mkdir(parents=True, exist_ok=True)
    for lesson in course:
        path = folder / f"{lesson.stem}.ipynb"
        path.write_text(lesson_notebook(lesson, known), encoding="utf-8")
        if lesson.exercises:
            path = folder / "solutions" / path.name
            path.write_text(solutions_notebook(lesson), encoding="utf-8")
    with Session(capacity=64 << 20) as session:
        for lesson in course:
            for name, source in lesson.exercises.items():
                make_exercise(session, name, source).write(folder / "exercises")
    (folder / "pictures").mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        (folder / "pictures" / f"{name}.svg").write_text(picture.svg(), encoding="utf-8")
    (folder / COURSE_LIST).write_text(listed(course, known), encoding="utf-8")
    (folder / "map.svg").write_text(map_svg(course), encoding="utf-8")
    text = index(course)
    (folder / "SYLLABUS.md").write_text(syllabus(course), encoding="utf-8")
    (folder / "solutions" / "EXAM.md").write_text(exam(course), encoding="utf-8")
    (folder / "README.md").write_text(text, encoding="utf-8")
    (folder / "index.ipynb").write_text(notebook([markdown(text)]), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else COURSE)
