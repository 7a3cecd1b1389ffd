"""What the pages for readers name is there: files, names in them, commands, magics, settings."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.__main__ import parser
from jitkernel.kernel import settings
from jitkernel.kernel.magics import MAGICS

ROOT = Path(__file__).parent.parent
PAGES = (
    *("HOW_IT_WORKS.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("docs/installing.md", "docs/ir.md", "docs/c.md", "docs/python.md", "docs/debugger.md"),
)
TEXT = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
#: What the recipes of CONTRIBUTING.md add.
NEW = {*re.findall(r"A new file `([^`]+)`", TEXT["CONTRIBUTING.md"]), "hello"}
#: The words behind `jitkernel`.
COMMANDS = re.findall(r"^    (\w+)  ", parser().format_help(), re.M)
PATH = re.compile(r"`([\w./]+/[\w.]*|[\w/]+/[\w.]+)`")
NAMED = re.compile(r"`([\w/]+\.py)`, `([\w.]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
START = re.compile(r"[Ss]tart(?:s)? from\s+((?:`[\w.]+`(?:,\s+|\s+and\s+|;)?)+)")


def _there(path: str) -> bool:
    return any((folder / path).exists() for folder in (ROOT, ROOT / "jitkernel", ROOT / "docs"))


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
    prose = re.sub(r"^```.*?^```$", "", TEXT[page], flags=re.M | re.S)  # `s["f"](3)` is no link
    paths = set(PATH.findall(TEXT[page])) | set(LINK.findall(prose))
    assert paths or page.startswith("docs/"), "the pattern still finds them"
    assert {path for path in paths - NEW if not _there(path)} == set()


@pytest.mark.parametrize("page", ["HOW_IT_WORKS.md"])
def test_every_name_is_in_its_file(page: str) -> None:
    named = NAMED.findall(TEXT[page])
    assert len(named) > 8
    wrong = [(f, name) for f, name in named if name not in _names(ROOT / "jitkernel" / f)]
    assert wrong == []


def test_the_questions_are_few_and_all_state_has_an_owner() -> None:
    """Forty questions at most: names answer the others."""
    text = TEXT["HOW_IT_WORKS.md"]
    _, state, rest = text.partition("| state | owner | who may write it |\n")
    assert len([row for row in state and rest.partition("\n\n")[0].splitlines()[1:] if row]) > 8
    rows = text.partition("| question | file |\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert 20 < len(rows) <= 40
    assert all(row.startswith("| ") and "?" in row for row in rows)


def test_the_words_of_the_glossary_are_those_of_the_code() -> None:
    """At most 40 lines; each word is in some module."""
    rows = TEXT["HOW_IT_WORKS.md"].partition("\n## Glossary\n")[2].strip().splitlines()
    words = [w for row in rows[2:] for w in row.split(" | ")[0].strip("| ").split(", ")]
    assert 30 < len(words) and len(rows) <= 40 and len(words) == len(set(words))
    modules = [path.read_text() for path in (ROOT / "jitkernel").rglob("*.py")]
    for word in words:
        spelled = re.compile(rf"\b{word.replace(' ', r'[ _]')}", re.IGNORECASE)
        assert any(map(spelled.search, modules)), word


def _code(page: str) -> list[str]:
    """All that is set as code, in lines and in blocks."""
    text = TEXT[page]
    blocks = re.findall(r"^```\w*\n(.*?)^```$|^((?: {4}\S.*\n)+)", text, re.M | re.S)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return [*(b for pair in blocks for b in pair if b), *re.findall(r"`([^`\n]+)`", prose)]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_there(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)", makefile, re.M)
    assert phony is not None
    made = {*phony[1].split(), *(f".venv/{t}" for t in re.findall(r"\$\(VENV\)/(\.\w+)", makefile))}
    for code in _code(page):
        for target in re.findall(r"^\s*make ([\w./-]+)", code, re.M):
            assert target in made, code
        for command in re.findall(r"(?:^|bin/)jitkernel (\w+)", code, re.M):
            assert command in COMMANDS, code


@pytest.mark.parametrize("page", PAGES)
def test_every_magic_and_setting_is_there(page: str) -> None:
    """A magic with the options that are told of it."""
    for code in _code(page):
        for marks, name, rest in re.findall(r"^(%%?)([A-Za-z]\w*)(?![\w ]*=)(.*)", code, re.M):
            if name == "jit":  # in a Python notebook: every magic
                name, rest = (rest.split() or ["help"])[0], ""
            if name in NEW or name == "load_ext" or name.startswith("@"):
                continue
            magic = MAGICS.find(name, "cell" if marks == "%%" else "line")
            flags = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", rest))
            assert flags <= set(magic.options) | {f"-{n}" for n in "O0123"}, code
        for section, trait in re.findall(r"--([A-Z]\w+)\.(\w+)", code):
            owner = getattr(settings, section, settings.JITKernelSettings)
            assert trait in owner.class_trait_names(config=True), code


def test_every_name_of_the_library_is_there() -> None:
    """In the pieces of Python."""
    page = TEXT["docs/python.md"]
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S))
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = import_module(str(node.module))
            assert all(hasattr(module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = {"s": Session, "views": views}.get(node.value.id)
            assert owner is None or hasattr(owner, node.attr), node.attr
    assert "s.run_many" in program and "views.asm" in program


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
