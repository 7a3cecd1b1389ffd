"""Makes slides of the lessons: each one HTML file that a browser opens without a network.

nbconvert makes them from the notebooks, whose cells say where a slide begins (`make_course.py`),
with reveal.js as the package sphinx-revealjs brings it.  Start from `deck`; `python
tools/make_slides.py FOLDER [--run] [LESSON...]` writes the folder, `--run` with what the cells show
when they are run now.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import SlidesExporter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jitkernel.kernel.client import kernel_for, run_cells  # noqa: E402
from tools.make_course import COURSE, Lesson, lessons  # noqa: E402

_LINK = re.compile(r"\[([^\]]*)\]\(([\w/]+)\.ipynb\)")


def reveal() -> dict[str, str]:
    """The files of reveal.js, by the names that the template calls them."""
    found = find_spec("sphinx_revealjs")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("reveal.js is missing: pip install sphinx-revealjs")
    dist = Path(found.submodule_search_locations[0]) / "_static" / "revealjs" / "dist"
    return {
        name: (dist / name.replace("_", ".")).read_text(encoding="utf-8")
        for name in ("reveal_css", "reveal_js")
    }


def _linked(link: re.Match[str]) -> str:
    """A link to another notebook as one to its slides, its words alone where it has none."""
    return f"[{link[1]}]({link[2]}.html)" if link[2] in {x.stem for x in lessons()} else link[1]


def deck(lesson: Lesson, run: bool = False) -> str:
    """A lesson's slides."""
    book: Any = nbformat.read(COURSE / f"{lesson.stem}.ipynb", as_version=4)
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(_linked, cell.source)
    if run:
        with kernel_for(book, COURSE) as client:
            for ran in run_cells(client, book):
                ran.cell["outputs"] = [nbformat.from_dict(each) for each in ran.outputs]
    exporter = SlidesExporter(
        template_name="slides",
        extra_template_basedirs=[str(ROOT / "tools")],
        embed_images=True,
    )
    place = {"title": lesson.title, "name": lesson.stem, "path": str(COURSE)}
    html, _ = exporter.from_notebook_node(book, {"metadata": place, **reveal()})
    return str(html)


def main() -> None:
    parser = argparse.ArgumentParser(description="Slides of the lessons, an HTML file each.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("lessons", nargs="*", help="their names; all, where none is given")
    parser.add_argument("--run", action="store_true", help="with what the cells show now")
    asked = parser.parse_intermixed_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for lesson in lessons():
        if not asked.lessons or lesson.stem in asked.lessons:
            path = asked.folder / f"{lesson.stem}.html"
            path.write_text(deck(lesson, asked.run), encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
