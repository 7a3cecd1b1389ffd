"""Every display in JupyterLab as a reader may meet it: run here or come from elsewhere, in a light
or a dark theme, on a wide or a narrow screen.  What must hold of each is in `looking.js`.

With LAB_PICTURES=FOLDER in the environment, each cell's output is also written there as a picture.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Lab
from tests.lab.every_view import CELLS, FAILS
from tests.lab.pages import THEMES, WIDTHS, Pages, change
from tests.seeds import few

NAMES = list(CELLS)
# Few enough for every run of the tests.
FEW = ["square", "sum", "explain", "cfg", "arena", "fault", "compile error"]
TALLEST = 15_900  # pixels that Chromium can take a picture of
NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-f]+|\d+(?:\.\d+)?)(?![\w.…])")


class Shown(Pages):
    """The pages of some displays."""

    def __init__(self, lab: Lab, names: list[str]):
        self.names = names
        failing = [i for i, name in enumerate(names) if name in FAILS]
        super().__init__(lab, [CELLS[name] for name in names], failing)

    def named(self, complaints: list[tuple[int, str]]) -> list[str]:
        return [f"{self.names[i]}: {what}" for i, what in complaints]


@pytest.fixture(
    scope="module",
    params=["few", pytest.param("all", marks=pytest.mark.slow)],
)
def shown(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Shown]:
    shown = Shown(lab, FEW if request.param == "few" else NAMES)
    yield shown
    shown.close()


@pytest.fixture(scope="module", params=THEMES)
def theme(request: pytest.FixtureRequest, shown: Shown) -> str:
    for page in shown.pages.values():
        change(page, request.param)
    return str(request.param)


@pytest.fixture(scope="module", params=["trusted", "untrusted"])
def trust(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=few(WIDTHS, 1))
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def page(shown: Shown, theme: str, trust: str, width: int) -> Any:
    page = shown.pages[trust]
    page.set_viewport_size({"width": width, "height": 1000})
    page.wait_for_timeout(200)
    return page


def test_each_cell_ended_as_it_was_meant_to(shown: Shown) -> None:
    assert {shown.names[number] for number in shown.failed} == FAILS.intersection(shown.names)
    assert all(cell["outputs"] for cell in shown.content["cells"])


def test_nothing_is_clipped(shown: Shown, page: Any) -> None:
    assert shown.named(page.evaluate("()=>looking.folded()")) == []
    assert shown.named(page.evaluate("()=>looking.clipped()")) == []
    assert shown.named(page.evaluate("()=>looking.broken()")) == []


def test_it_can_be_read(shown: Shown, page: Any) -> None:
    assert shown.named(page.evaluate("()=>looking.folded()")) == []
    assert shown.named(page.evaluate("()=>looking.faint(4.5)")) == []


@pytest.fixture
def kept(shown: Shown, page: Any, theme: str, trust: str, width: int) -> None:
    """Pictures of all outputs, where they are asked for."""
    if "LAB_PICTURES" not in os.environ:
        return
    folder = Path(os.environ["LAB_PICTURES"]) / f"{trust}-{theme}-{width}"
    folder.mkdir(parents=True, exist_ok=True)
    page.evaluate("()=>looking.folded()")
    for i, name in enumerate(shown.names):
        output = page.locator(".jp-CodeCell").nth(i).locator(".jp-Cell-outputWrapper")
        tall = min(TALLEST, int(output.bounding_box()["height"]) + 300)
        page.set_viewport_size({"width": width, "height": max(1000, tall)})
        output.scroll_into_view_if_needed()
        output.screenshot(path=folder / f"{i:03} {name}.png")


@pytest.mark.usefixtures("kept")
def test_pictures(shown: Shown, page: Any) -> None:
    assert shown.named(page.evaluate("()=>looking.pictures()")) == []


def test_no_number_is_lost(shown: Shown, page: Any) -> None:
    """What is shown, in whatever form, says all that the plain text says."""
    assert shown.named(page.evaluate("()=>looking.folded()")) == []
    lost = []
    every = page.evaluate("()=>looking.shown()")
    for name, cell, texts in zip(shown.names, shown.content["cells"], every, strict=True):
        on_screen = "\n".join(texts)
        for output in cell["outputs"]:
            plain = output.get("data", {}).get("text/plain") or output.get("text", "")
            # The map in letters is a picture on the screen.
            plain = re.sub(r"a letter is [\d,]+ bytes", "", "".join(plain))
            lost += [f"{name}: {n}" for n in NUMBER.findall(plain) if n not in on_screen]
    assert lost == []
