"""The documentation: it builds without a warning, and has every magic, setting and public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest

from jitkernel.kernel import settings
from jitkernel.kernel.magics import MAGICS
from tests.seeds import few

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGES = re.findall(
    r"^\.\. interface:: (\S+)", "".join(p.read_text() for p in DOCS.rglob("*.rst")), re.M
)


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` runs, into folders of the test's own."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(DOCS)]
    return subprocess.run(
        [*command, "-d", str(target / "trees"), str(source), str(target)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(target.parent)},  # for Sphinx's report of an error
        timeout=170,
    )


def test_it_builds_and_has_everything(tmp_path: Path) -> None:
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {
        str(path.relative_to(tmp_path).with_suffix("")): unescape(
            re.sub(r"<[^>]+>", "", path.read_text())
        )
        for path in tmp_path.rglob("*.html")
    }
    for magic in MAGICS:
        head = "%%" if magic.form == "cell" else "%"
        assert f"{head}{magic.name}" in pages["magics"]
        assert " ".join(magic.help.split()[:4]).replace("`", "") in pages["magics"]
        for argument in magic.arguments:
            assert " ".join(argument.help.split()[:3]).replace("`", "") in pages["magics"]
    for section in (settings.Arena, settings.Compiler, settings.Executor, settings.Session):
        for name, trait in section.class_own_traits(config=True).items():
            assert f"{section.__name__}.{name}" in pages["settings"]
            assert trait.help.split(".")[0].split("`")[0] in pages["settings"]
    interface = "".join(text for name, text in pages.items() if name.startswith("api/"))
    assert len(PACKAGES) > 5
    for package in PACKAGES:
        for name in import_module(package).__all__:
            if not name.startswith("_"):
                assert re.search(rf"\b{re.escape(package)}\.\s*{name}\b", interface), name
    assert "keystroke to value" in pages["how_it_works"] and "Reading IR" in pages["course"]
    for number in range(10):
        (lesson,) = (ROOT / "notebooks/course").glob(f"{number:02}_*.ipynb")
        assert (tmp_path / "course" / lesson.name).exists()
        assert f'href="course/{lesson.name}"' in (tmp_path / "course.html").read_text()


@pytest.mark.parametrize(
    ("name", "text", "complaints"),
    few([
        ("index.md", "# T\n\n[a page](nowhere.md) [a place](#noplace)", ["'nowhere.md'", "'noplace'"]),
        (
            "index.rst", "T\n=\n\n`Session.no_such_thing` :doc:`nowhere`",
            ["Session.no_such_thing", "nowhere"],
        ),
        ("index.rst", "T\n=\n\n.. interface:: jitkernel.no_such_package", ["no_such_package"]),
    ], 2),
)  # fmt: skip
def test_a_broken_link_fails(tmp_path: Path, name: str, text: str, complaints: list[str]) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_text(text + "\n")
    done = build(tmp_path / "source", tmp_path / "built")
    assert done.returncode != 0
    for complaint in complaints:
        assert complaint in done.stderr


def test_names_that_are_documented_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    page = "T\n=\n\n`Session.undo` and `anything else`\n\n.. interface:: jitkernel.session\n"
    (tmp_path / "source/index.rst").write_text(page)
    done = build(tmp_path / "source", tmp_path / "built")
    assert done.returncode == 0, done.stderr
    assert 'href="#jitkernel.session.Session.undo"' in (tmp_path / "built/index.html").read_text()


def test_every_page_of_the_project_is_in_it() -> None:
    included = "".join(path.read_text() for path in DOCS.glob("*.md"))
    for page in ROOT.glob("*.md"):
        assert f"../{page.name}\n" in included, page.name
