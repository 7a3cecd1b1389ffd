"""A notebook in JupyterLab as its reader sees it, and as one who has it from a stranger does, in a
light or a dark theme, on a wide or a narrow screen.  Start from `Pages`.

What must hold of each is in `looking.js`.  With LAB_PICTURES=FOLDER in the environment, what is
looked at is also written there as pictures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab.conftest import IDLE, NUMBERED, Lab

LOOKING = (Path(__file__).parent / "looking.js").read_text()
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDTHS = (1280, 800)


class Pages:
    """A notebook that was run, and two pages of it: `trusted` and `untrusted`; the errors that the
    first has told its console."""

    def __init__(self, lab: Lab, cells: list[str], failing: Collection[int] = ()):
        own = lab.notebook("jitkernel", cells, failing)
        self.errors: list[str] = []
        path = lab.folder / f"test{lab.made}.ipynb"
        own.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        own.on("pageerror", lambda e: self.errors.append(str(e)))
        run(own, "notebook:run-all-cells")
        own.wait_for_function(NUMBERED, arg=len(cells), timeout=150_000)
        own.wait_for_function(IDLE, timeout=60_000)
        own.wait_for_timeout(500)
        run(own, "docmanager:save")
        own.wait_for_function(
            "()=>window.jupyterapp.shell.currentWidget.context.model.dirty===false"
        )
        self.content = json.loads(path.read_text())
        # Another notebook than the one that this server signed: nobody here has run it.
        foreign = {**self.content, "metadata": {**self.content["metadata"], "author": "another"}}
        self.pages = {"trusted": own, "untrusted": lab.open(foreign)}
        for page in self.pages.values():
            page.evaluate("()=>window.jupyterapp.commands.execute('application:toggle-left-area')")
            page.evaluate(LOOKING)

    @property
    def failed(self) -> list[int]:
        """The cells that show an error."""
        kinds = [{o["output_type"] for o in cell["outputs"]} for cell in self.content["cells"]]
        return [number for number, found in enumerate(kinds) if "error" in found]

    def close(self) -> None:
        self.pages["trusted"].evaluate(
            "()=>window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"
        )
        for page in self.pages.values():
            page.close()


@contextmanager
def shown_pages(lab: Lab, cells: list[str]) -> Iterator[Pages]:
    """The pages of some cells, none of which may fail."""
    shown = Pages(lab, cells)
    yield shown
    shown.close()


def run(page: Any, command: str) -> None:
    """Begin a command of JupyterLab's."""
    page.evaluate("name=>{window.jupyterapp.commands.execute(name)}", command)


def change(page: Any, theme: str, width: int = 0) -> None:
    """The page in this theme, and so wide."""
    name = THEMES[theme]
    page.evaluate(
        "theme=>window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name
    )
    page.wait_for_function("theme=>document.body.dataset.jpThemeName===theme", arg=name)
    if width:
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_timeout(300)


def keep(page: Any, name: str, numbers: range) -> None:
    """Pictures of the outputs of cells, where they are asked for."""
    for number in numbers if (folder := os.environ.get("LAB_PICTURES")) else ():
        cell = page.locator(".jp-CodeCell").nth(number).locator(".jp-Cell-outputWrapper")
        cell.evaluate("e=>e.scrollIntoView({block:'start'})")
        page.wait_for_timeout(150)
        page.screenshot(path=Path(folder or "") / f"{name}-{number}.png")


def unreadable(page: Any) -> list[Any]:
    """What is too pale, cut off or broken."""
    asked = "faint(4.5)", "clipped()", "broken()"
    return [found for what in asked for found in page.evaluate(f"()=>looking.{what}")]
