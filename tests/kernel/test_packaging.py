"""The wheel: `pip install` alone makes the kernel visible, and it holds all that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.kernel.conftest import ROOT
from tests.processes import python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.parametrize(
    ("folder", "language"), [("jitkernel", "llvm"), ("jitkernel-kaleidoscope", "kaleidoscope")]
)
def test_the_kernelspecs_are_shared_data(
    wheel: zipfile.ZipFile, folder: str, language: str
) -> None:
    names = [n for n in wheel.namelist() if f"/share/jupyter/kernels/{folder}/" in n]
    assert {Path(n).name for n in names} == {
        "kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg",
    }  # fmt: skip
    (spec,) = [n for n in names if n.endswith("kernel.json")]
    content = json.loads(wheel.read(spec))
    assert content["argv"][:4] == ["python", "-P", "-m", "jitkernel.kernel"]
    assert content["language"] == language


def test_the_editor_extension_is_shared_data(wheel: zipfile.ZipFile) -> None:
    names = [n for n in wheel.namelist() if "/share/jupyter/labextensions/jitkernel/" in n]
    assert {Path(n).name for n in names} == {"package.json", "remoteEntry.js"}


def test_nothing_that_a_command_left_is_tracked() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split("\0")
    above = {n for n in tracked if n and "/" not in n and (ROOT / n).exists()}
    known = "CHANGELOG.md CONTRIBUTING.md Dockerfile HOW_IT_WORKS.md LICENSE Makefile README.md"
    assert {n for n in above if not n.startswith(".")} <= {*known.split(), "pyproject.toml"}


def test_every_source_file_is_in_it(wheel: zipfile.ZipFile) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "jitkernel"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    missing = {n for n in tracked if (ROOT / n).exists()} - set(wheel.namelist())
    assert not missing


def test_the_tour_is_in_it(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """An installed package runs it as a source tree does, and names nothing that is not there."""
    wheel.extractall(tmp_path, [n for n in wheel.namelist() if n.startswith("jitkernel/")])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jitkernel", "tour"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 unexpected" in done.stdout
    assert "make lab" not in done.stdout and "HOW_IT_WORKS.md" not in done.stdout


def test_the_command_and_the_lexer_are_declared(wheel: zipfile.ZipFile) -> None:
    (entry,) = [n for n in wheel.namelist() if n.endswith("entry_points.txt")]
    text = wheel.read(entry).decode()
    assert "jitkernel = jitkernel.__main__:main" in text
    lexers = text.partition("[pygments.lexers]\n")[2].partition("\n\n")[0].split("\n")
    assert {line.partition(" = jitkernel.languages.lexer:")[0] for line in lexers if line} == {
        "jitkernel", "jitkernel-c", "jitkernel-kaleidoscope", "kaleidoscope",
    }  # fmt: skip


def test_importing_the_kernel_process_loads_no_llvm() -> None:
    code = (
        "import sys, jitkernel.kernel.app, jitkernel.kernel.completion\n"
        "import jitkernel.session, jitkernel.views\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'llvmlite']"
    )
    python(code, cwd=ROOT)
