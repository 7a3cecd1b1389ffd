"""What the two pages for readers say of files is so: every path and every name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("HOW_IT_WORKS.md", "README.md")
PATH = re.compile(r"`([\w./]+/[\w.]*|[\w/]+/[\w.]+)`")
NAMED = re.compile(r"`([\w/]+\.py)`, `([\w.]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
START = re.compile(r"[Ss]tart(?:s)? from\s+((?:`[\w.]+`(?:,\s+|\s+and\s+|;)?)+)")


def _there(path: str) -> bool:
    return (ROOT / path).exists() or (ROOT / "jitkernel" / path).exists()


def _names(file: Path) -> set[str]:
    """What a module defines or imports: `f`, `C`, `C.m`, and attributes as `m`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{m.name}" for m in node.body if hasattr(m, "name")}
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


@pytest.mark.parametrize("page", PAGES)
def test_every_path_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    paths = set(PATH.findall(text)) | set(LINK.findall(text))
    assert len(paths) > 8, "the pattern still finds them"
    assert {path for path in paths if not _there(path)} == set()


def test_every_name_is_in_its_file() -> None:
    named = NAMED.findall((ROOT / "HOW_IT_WORKS.md").read_text())
    assert len(named) > 8
    wrong = [(f, name) for f, name in named if name not in _names(ROOT / "jitkernel" / f)]
    assert wrong == []


def test_every_module_says_where_to_start() -> None:
    """`Start from ...` in a module's docstring names something that the module or its package has;
    a dotted name, its class."""
    wrong = []
    for file in (ROOT / "jitkernel").rglob("*.py"):
        doc = ast.get_docstring(ast.parse(file.read_text()), clean=False) or ""
        for match in START.finditer(doc):
            for name in re.findall(r"`([\w.]+)`", match[1]):
                base = name.partition(".")[0]
                beside = {p.stem for p in file.parent.iterdir()}
                if name not in _names(file) and base not in _names(file) | beside:
                    wrong.append((str(file.relative_to(ROOT)), name))
    assert wrong == []
