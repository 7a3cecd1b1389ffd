"""`%passes` in JupyterLab: the slider, its keys, and what is left of it without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.conftest import Lab
from tests.lab.pages import THEMES, WIDTHS, Pages, change, keep, shown_pages, unreadable
from tests.lab.test_linked import _CODE

pytestmark = pytest.mark.slow

CELLS = [_CODE, "%passes search", "%passes search --loop", "%remarks search"]
#: The steps in the second cell: of each its title, whether it can be seen, whether it is open.
STEPS = """()=>[...document.querySelectorAll('.jp-CodeCell')[1].querySelectorAll('details')].map(e=>
[e.querySelector('summary').textContent, e.getClientRects().length > 0, e.open])"""


@pytest.fixture(scope="module")
def shown(lab: Lab) -> Iterator[Pages]:
    with shown_pages(lab, CELLS) as shown:
        yield shown


def steps(page: Any) -> list[tuple[str, bool, bool]]:
    found: list[tuple[str, bool, bool]] = page.evaluate(STEPS)
    return found


@pytest.fixture(params=["trusted", "untrusted"])
def page(request: pytest.FixtureRequest, shown: Pages) -> Any:
    return shown.pages[request.param]


def test_no_cell_failed_and_nothing_was_complained_of(shown: Pages) -> None:
    assert shown.failed == shown.errors == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_all_can_be_read(page: Any, theme: str, width: int, request: pytest.FixtureRequest) -> None:
    change(page, theme, width)
    keep(page, request.node.callspec.id, range(1, len(CELLS)))
    assert unreadable(page) == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_slider_and_its_keys_show_one_step_at_a_time(
    shown: Pages, theme: str, width: int
) -> None:
    page = shown.pages["trusted"]
    change(page, theme, width)
    cell = page.locator(".jp-CodeCell").nth(1)
    slider = cell.locator("input[type=range]").first
    page.bring_to_front()
    slider.scroll_into_view_if_needed()
    slider.focus()
    page.keyboard.press("Home")
    every = [title for title, _, _ in steps(page)]
    assert len(every) > 5
    for place, key in [(1, "ArrowRight"), (2, "ArrowRight"), (1, "ArrowLeft"), (-1, "End")]:
        page.keyboard.press(key)
        place = place % len(every)
        assert [(t, o) for t, seen, o in steps(page) if seen] == [(every[place], True)]
        said = cell.locator(".jp-OutputArea span[aria-live]").first.text_content()
        assert said == f"step {place + 1} of {len(every)}"
    active = "()=>document.activeElement.type"
    assert page.evaluate(active) == "range", "the notebook's own shortcuts have not taken the keys"
    cell.get_by_text("show all").first.click()
    assert all(seen for _, seen, _ in steps(page))
    cell.get_by_text("one at a time").first.click()
    assert sum(seen for _, seen, _ in steps(page)) == 1
    assert shown.errors == []


def test_without_scripts_nothing_is_lost(shown: Pages) -> None:
    """Each step is there, folded to its title, and opens."""
    trusted, untrusted = (steps(shown.pages[name]) for name in ("trusted", "untrusted"))
    page = shown.pages["untrusted"]
    assert [t for t, _, _ in untrusted] == [t for t, _, _ in trusted]
    assert all(seen for _, seen, _ in untrusted) and untrusted[0][2]
    assert page.locator(".jp-CodeCell input[type=range]").count() == 0
    texts = """()=>[...document.querySelectorAll('.jp-CodeCell')[1].querySelectorAll('details')]
        .map(e=>e.textContent)"""
    assert page.evaluate(texts) == shown.pages["trusted"].evaluate(texts)
    second = page.locator(".jp-CodeCell").nth(1).locator("details").nth(1)
    second.locator("summary").click()
    assert steps(page)[1][2] and second.locator("pre").first.is_visible()
