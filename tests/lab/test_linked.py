"""Linked panes and pictures of control flow in JupyterLab: what a reader sees, hovers, searches,
zooms and moves, trusted and not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from tests.lab.conftest import Lab
from tests.lab.pages import THEMES, WIDTHS, Pages, change, keep, shown_pages, unreadable

pytestmark = pytest.mark.slow

_CODE = """%%c
static int half(int x) {
  return x / 2;
}
int search(const int *p, int n, int key) {
  int low = 0, high = n;
  while (low < high) {
    int mid = low + half(high - low);
    if (p[mid] == key)
      return mid;
    if (p[mid] < key)
      low = mid + 1;
    else
      high = mid;
  }
  for (int i = 0; i < n; i++)
    if (p[i] == -key)
      return -i;
  return -1;
}"""
_WIDE = (
    """%%c
int many(volatile int *p) {
  switch (*p) {
"""
    + "".join(
        f"  case {k}: p[{k}] = p[{k + 1}] * {k + 3} + p[2]; return {k * k};\n" for k in range(14)
    )
    + """  }
  return 0;
}"""
)
CELLS = [
    _CODE, _WIDE, "%explain search", "%asm search --source", "%compare search -O0 -O2",
    "%cfg search", "%cfg many -O 0", "%callgraph 1",
    '%cfg search --dominators --live --loops --counts "search((int[]){1, 3, 5, 7}, 4, 5)"',
]  # fmt: skip


@pytest.fixture(scope="module")
def shown(lab: Lab) -> Iterator[Pages]:
    with shown_pages(lab, CELLS) as shown:
        yield shown


@pytest.fixture(params=["trusted", "untrusted"])
def page(request: pytest.FixtureRequest, shown: Pages) -> Any:
    return shown.pages[request.param]


def test_no_cell_failed_and_nothing_was_complained_of(shown: Pages) -> None:
    assert shown.failed == shown.errors == []


COPY = """(pane, from) => {
  const range = document.createRange(), held = new DataTransfer(), chosen = getSelection();
  range.selectNodeContents(pane);
  if (from) {
    const walk = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
    while (!walk.nextNode().data.includes(from));
    range.setStart(walk.currentNode, walk.currentNode.data.indexOf(from));
  }
  chosen.removeAllRanges();
  chosen.addRange(range);
  pane.dispatchEvent(new ClipboardEvent('copy', {clipboardData: held, bubbles: true}));
  chosen.removeAllRanges();
  return held.getData('text/plain');
}"""


def test_what_is_copied_is_code_without_the_numbers_before_it(shown: Pages) -> None:
    cell = shown.pages["trusted"].locator(".jp-CodeCell").nth(CELLS.index("%asm search --source"))
    source, assembly = (pane.evaluate(COPY) for pane in cell.locator(".jkp pre").all())
    assert _CODE.split("\n", 4)[4] in source
    lines = assembly.splitlines()
    assert any(line.startswith("L") for line in lines) and " ret" in lines
    assert not any(line[:1].isdigit() or "\t" in line or "│" in line for line in lines)
    cell = shown.pages["trusted"].locator(".jp-CodeCell").nth(CELLS.index("%explain search"))
    _, columns = cell.locator(".jkp pre").all()
    lines = columns.evaluate(COPY).splitlines()
    assert " ret" in lines and any(line.startswith(" %") for line in lines)
    assert not any(re.match(r" *[a-z]*[-\d]+ |.*│", line) for line in lines)
    assert columns.evaluate(COPY, "ret").startswith("ret")


BEHIND_TABS = """panes => panes.map(pane => {
  const found = new Set(), walk = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); )
    for (const tab of node.data.matchAll(/\\t(?=[^\\n])/g)) {
      const range = document.createRange();
      range.setStart(node, tab.index + 1);
      range.setEnd(node, tab.index + 2);
      found.add(Math.round(range.getBoundingClientRect().left));
    }
  return [...found];
})"""


@pytest.mark.parametrize("theme", THEMES)
def test_an_exported_page_has_its_columns_in_line(shown: Pages, lab: Lab, theme: str) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    notebook = nbformat.reads(json.dumps(shown.content), 4)
    text, _ = nbconvert.HTMLExporter(theme=theme).from_notebook_node(notebook)
    with lab.browser.new_page() as page:
        page.set_content(text)
        lefts = page.locator(".jkp code[style*='white-space:pre;']").evaluate_all(BEHIND_TABS)
    assert lefts and all(len(each) == 1 for each in lefts if each)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_all_can_be_read(page: Any, theme: str, width: int, request: pytest.FixtureRequest) -> None:
    change(page, theme, width)
    keep(page, request.node.callspec.id, range(2, len(CELLS)))
    assert page.evaluate("()=>looking.folded()") == []
    assert unreadable(page) == []
    assert page.evaluate("()=>looking.pictures()") == []


def test_the_mouse_marks_partners_where_a_style_is_trusted(shown: Pages) -> None:
    page = shown.pages["trusted"]
    run = page.locator(".jp-CodeCell").nth(2).locator("pre [class^=k]").first
    run.scroll_into_view_if_needed()
    key = run.get_attribute("class")
    run.hover()
    marked = page.evaluate(
        "()=>[...document.querySelectorAll('.jkp [class^=k]')]"
        ".filter(e=>getComputedStyle(e).outlineStyle==='solid').map(e=>e.className)"
    )
    assert len(marked) >= 2 and set(marked) == {key}


def test_without_trust_the_colours_stay(shown: Pages) -> None:
    """Each run has the colour that it has where it is trusted."""
    script = ("()=>[...document.querySelectorAll('.jkp pre [style]')]"
              ".map(e=>getComputedStyle(e).backgroundColor+getComputedStyle(e).color)")  # fmt: skip
    trusted, untrusted = (shown.pages[name].evaluate(script) for name in ("trusted", "untrusted"))
    assert len(trusted) > 100 and trusted == untrusted


@pytest.mark.parametrize("way", ["keys", "wheel"])
def test_panes_and_pictures_scroll(shown: Pages, way: str) -> None:
    """By keys where it is trusted: in another's notebook JupyterLab has the arrows for itself."""
    page = shown.pages["trusted" if way == "keys" else "untrusted"]
    for number in (2, 6):
        boxes = page.locator(".jp-CodeCell").nth(number).locator("[style*='overflow']").all()
        wide = "e=>e.scrollHeight>e.clientHeight+40||e.scrollWidth>e.clientWidth+40"
        box = next(b for b in boxes if b.evaluate(wide))
        box.scroll_into_view_if_needed()
        box.evaluate("e=>{e.scrollLeft=0;e.scrollTop=0}")
        if way == "keys":
            box.focus()
            for key in ("ArrowRight", "ArrowDown") * 3:
                page.keyboard.press(key)
        else:
            box.hover()
            page.mouse.wheel(120, 120)
        page.wait_for_timeout(400)
        assert sum(box.evaluate("e=>[e.scrollLeft,e.scrollTop]")) > 0


def test_a_picture_is_searched_zoomed_and_moved(shown: Pages) -> None:
    page = shown.pages["trusted"]
    output = page.locator(".jp-CodeCell").nth(6).locator(".jp-OutputArea-output")
    frame = output.locator("div[style*='overflow']").first
    frame.scroll_into_view_if_needed()
    svg = frame.locator("svg")
    assert output.locator("img").count() == 0, "the picture is there once"
    width = svg.evaluate("e=>e.getBoundingClientRect().width")
    field = output.locator("input[type=search]")
    field.fill("case 9:")
    assert "1 of" in output.locator("input + span").inner_text()
    assert frame.evaluate(
        "e=>{const t=[...e.querySelectorAll('text')].find(t=>t.style.fill);"
        "const a=t.getBoundingClientRect(),b=e.getBoundingClientRect();"
        "return a.left>=b.left&&a.right<=b.right+a.width&&a.top>=b.top&&a.bottom<=b.bottom}"
    )
    output.locator("button", has_text="−").click()
    assert svg.evaluate("e=>e.getBoundingClientRect().width") == pytest.approx(
        width / 1.4, rel=0.01
    )
    output.locator("button", has_text="all").click()
    box = frame.evaluate("e=>[e.clientWidth,e.clientHeight]")
    size = svg.evaluate("e=>{const b=e.getBoundingClientRect();return [b.width,b.height]}")
    assert size[0] <= box[0] + 1 and size[1] <= box[1] + 1
    output.locator("button", has_text="1:1").click()
    frame.evaluate("e=>{e.scrollLeft=200}")
    at = frame.bounding_box()
    page.mouse.move(at["x"] + 300, at["y"] + 100)
    page.mouse.down()
    page.mouse.move(at["x"] + 220, at["y"] + 100, steps=4)
    page.mouse.up()
    assert frame.evaluate("e=>e.scrollLeft") == pytest.approx(280, abs=2)
    svg.locator("[data-k]").first.focus()
    faint = "()=>[...document.querySelectorAll('svg [data-e]')].some(e=>e.style.opacity==='0.15')"
    assert page.evaluate(faint)


def test_the_keyboard_comes_to_all_of_a_picture(shown: Pages) -> None:
    """From the search to the sizes, the picture itself and its boxes; Enter presses a button."""
    page = shown.pages["trusted"]
    output = page.locator(".jp-CodeCell").nth(6).locator(".jp-OutputArea-output")
    svg = output.locator("svg").first
    output.locator("input[type=search]").first.focus()
    met = []
    for _ in range(6):
        page.keyboard.press("Tab")
        here = "()=>{const e=document.activeElement;return e.textContent.length<4?e.textContent:e.tagName}"
        met.append(page.evaluate(here))
        if met[-1] == "+":
            before = svg.bounding_box()["width"]
            page.keyboard.press("Enter")
            assert svg.bounding_box()["width"] == pytest.approx(1.4 * before, rel=0.01)
    assert met == ["−", "+", "1:1", "all", "DIV", "g"]


def test_no_words_are_cut_in_a_picture(shown: Pages) -> None:
    """By the browser's own measures: each line ends within its box."""
    found = shown.pages["trusted"].evaluate(
        "()=>[...document.querySelectorAll('svg [data-k]')].flatMap(g=>{"
        "const r=g.querySelector('rect').getBoundingClientRect();"
        "return [...g.querySelectorAll('text')].map(t=>[t.textContent,"
        "r.right-t.getBoundingClientRect().right])})"
    )
    assert len(found) > 60 and min(room for _, room in found) >= 0
    assert any("getelementptr inbounds" in text for text, _ in found)
    assert not any("…" in text for text, _ in found)
