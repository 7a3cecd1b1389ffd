"""Docstrings of functions and classes begin with a noun or a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jitkernel

PACKAGE = Path(jitkernel.__file__).parent

# Rooms of the package; "" is the files that are in none.
ROOMS = (
    "", "arena", "compiler", "elf", "executor", "grading", "ipython", "ir", "kernel", "languages",
    "linker", "portable", "session", "transform", "values", "views",
)  # fmt: skip

QUESTION = re.compile(r"(What|Whether|Who|Whose|Which|Where|How|When|Why)\b")


def documented(room: str) -> Iterator[tuple[str, str]]:
    """Functions and classes of a room, as `file:line name`, and their docstrings."""
    folder = PACKAGE / room
    for file in sorted(folder.rglob("*.py") if room else folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                place = f"{file.relative_to(PACKAGE)}:{node.lineno} {node.name}"
                yield place, ast.get_docstring(node) or ""


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    """`True if ...`, `The names ...`, `Write ...`: not `Whether`, `What` or `How`."""
    for room in ROOMS:
        found = dict(documented(room))
        assert any(found.values()), f"there is nothing in {room!r}"
        assert [place for place, text in found.items() if QUESTION.match(text)] == []


FILE = re.compile(r"(?<![\w/.])(?:[a-z_]+/)+[a-z_]+\.(?:py|ll|s)\b")


def test_files_that_texts_name_are_there() -> None:
    """`(arena/writes.py)`: seen from the package, the root, the file's own folder or a room's."""
    gone = []
    for file in sorted(PACKAGE.rglob("*.py")):
        near = (PACKAGE, PACKAGE.parent, file.parent, *PACKAGE.iterdir())
        named = FILE.findall(file.read_text())
        gone += [
            (str(file), name) for name in named if not any((at / name).exists() for at in near)
        ]
    assert gone == []
