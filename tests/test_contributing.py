"""The recipes of CONTRIBUTING.md, each followed to the letter in a copy of the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Recipes\n")[2].partition("\n## What a change")[0]
_, *_parts = re.split(r"^### (A \w+)\n", SECTION, flags=re.M)
RECIPES = dict(zip(_parts[::2], _parts[1::2], strict=True))
#: What to do: where, and what stands there; or commands.
STEP = re.compile(
    r"(?:In `(?P<file>[^`]+)`, below `(?P<below>[^`]+)`:|In the same file, below `(?P<again>[^`]+)`:"
    r"|A new file `(?P<new>[^`]+)`:)?\s*^(?P<fence>`{3,})(?P<kind>\w+)\n(?P<text>.*?)^(?P=fence)$",
    re.M | re.S,
)
NEEDED = ("jitkernel", "benchmarks", "tests", "tools", "notebooks", "kernelspec", "pyproject.toml")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def insert(file: Path, below: str, text: str) -> None:
    """Put lines below the one line that begins with `below`."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    (at,) = [i for i, line in enumerate(lines) if line.lstrip().startswith(below)]
    lines.insert(at + 1, text)
    file.write_text("".join(lines), encoding="utf-8")


def run(folder: Path, command: str) -> str:
    """What a command prints, both streams; it must succeed."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    variables |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
    variables |= {"JUPYTER_DATA_DIR": str(folder), "JUPYTER_CONFIG_DIR": str(folder)}
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def follow(recipe: str, folder: Path) -> str:
    """Do all that a recipe says; what its commands print."""
    file, printed, edited = folder, "", set()
    for step in STEP.finditer(RECIPES[recipe]):
        if step["kind"] == "sh":
            assert file != folder, "something was changed before"
            printed += run(folder, step["text"])
        elif step["new"]:
            file = folder / step["new"]
            assert not file.exists()
            file.write_text(step["text"], encoding="utf-8")
        else:
            file = folder / step["file"] if step["file"] else file
            insert(file, step["below"] or step["again"], step["text"])
        edited.add(str(file.relative_to(folder)))
    ours = " ".join(sorted(name for name in edited if name.endswith(".py")))
    for check in ("check", "format --check"):
        run(folder, f".venv/bin/python -m ruff {check} {ours}" if ours else "true")
    return printed


def test_a_relocation(copy: Path) -> None:
    if shutil.which("as") is None or shutil.which("ld") is None:
        pytest.skip("GNU as and ld, the oracle, are not installed (apt: binutils)")
    assert re.search(r"\b5 passed", follow("A relocation", copy))


def test_a_magic(copy: Path) -> None:
    printed = follow("A magic", copy)
    assert "hello, you\n" in printed
    assert int(re.findall(r"(\d+) passed", printed)[-1]) >= 3 and "failed" not in printed


def test_a_language(copy: Path) -> None:
    assert "i64 42" in follow("A language", copy)
    told = run(copy, "echo forty > it.answer; .venv/bin/jitkernel run it.answer || true")
    assert "a cell of this language is a whole number" in told


@pytest.mark.slow
def test_a_view(copy: Path) -> None:
    assert re.search(r"\b2 passed", follow("A view", copy))
    program = "from jitkernel import *\nwith Session() as s:\n"
    program += r"    s.run('define i32 @f(i32 %x) {\n  ret i32 %x\n}'); print(views.largest(s))"
    shown = run(copy, f".venv/bin/python -c {shlex.quote(program)}")
    assert "Largest functions" in shown and "@f" in shown


def test_a_setting(copy: Path) -> None:
    printed = follow("A setting", copy)
    assert "JITKernel.greeting = 'ahoy'" in printed and "failed" not in printed


def test_a_benchmark(copy: Path) -> None:
    assert re.search(r"define again and undo +[\d,.]+ us", follow("A benchmark", copy))


@pytest.mark.slow
def test_a_lesson(copy: Path) -> None:
    printed = follow("A lesson", copy)
    assert "half: @half passed" in printed
    course = copy / "notebooks/course"
    assert "Halves" in (course / "README.md").read_text()
    assert "Halves" in (course / "map.svg").read_text()
    assert (course / "e_halves.ipynb").exists() and (course / "exercises/half.json").exists()


def test_there_is_a_test_for_each_recipe() -> None:
    tested = {name.removeprefix("test_").replace("_", " ") for name in globals()}
    assert len(RECIPES) == 7
    assert {recipe.lower() for recipe in RECIPES} <= tested
    for recipe, text in RECIPES.items():
        *edits, last = STEP.finditer(text)
        assert last["kind"] == "sh" and text.rstrip().endswith(last[0].strip()), recipe
        assert all(e["file"] or e["again"] or e["new"] for e in edits), recipe


def test_a_commit_is_checked_as_make_lint_does() -> None:
    """The file is understood, and its commands are those of `make lint`."""
    config = str(ROOT / ".pre-commit-config.yaml")
    command = [sys.executable, "-m", "pre_commit", "validate-config", config]
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)
    entries = re.findall(r"entry: (.*)", Path(config).read_text(encoding="utf-8"))
    hooks = [
        e.replace(".venv/bin/python", "$(PY)")
        .replace(".venv", "$(VENV)")
        .replace(" --force-exclude", "")
        for e in entries
    ]
    lint = (
        (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    )
    made = [line.removesuffix(" .") for line in re.findall(r"tools/step '[^']*' (.*)", lint)]
    assert hooks and set(hooks) <= set(made)
