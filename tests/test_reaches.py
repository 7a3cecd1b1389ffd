"""What is above the session looks at it through `Session.inspect`, not into its parts."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ABOVE = ("languages", "views", "transform", "grading", "kernel")
#: Parts of a session, which are its own affair.
PARTS = frozenset(
    "arena cleanups core engine executor hidden history linker observers places"
    " program remains residency results store".split()
)
SESSIONS = frozenset(("session", "_session", "s", "free"))
#: Benchmarks of one part alone: of the linker, of the mirror of pages, of the inspecting process.
ALONE = {f"benchmarks/rows/{name}.py" for name in ("linking", "data", "explain", "placing")}


def _reaches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and part, for each `session.part` and `whoever.session.part`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PARTS:
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if name in SESSIONS:
                yield node.lineno, node.attr


@pytest.mark.parametrize("folder", [*(f"jitkernel/{room}" for room in ABOVE), "benchmarks"])
def test_nobody_reaches_into_a_session(folder: str) -> None:
    found = [
        f"{name}:{line}: {part}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, part in _reaches(ast.parse(path.read_text(encoding="utf-8")))
        if (name := str(path.relative_to(ROOT))) not in ALONE
    ]
    assert not found, "use Session.inspect, or give Session a method: " + ", ".join(found)


def test_reaches_are_found() -> None:
    tree = ast.parse(
        "a = session.arena\nb = frontend.session.program.state.types\nc = session.cells"
    )
    assert sorted(_reaches(tree)) == [(1, "arena"), (2, "program")]
