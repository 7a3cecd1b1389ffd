"""Colours of cells in JupyterLab: what the prebuilt extension says of each word, as it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.conftest import Lab

CELLS = [
    'define i32 @f(i32 %x) {\n  ret i32 %x ; def "no"\n}',
    "%%kaleidoscope\ndef fib(x) # define\n  if x < 3 then 1.5 else fib(x-1)",
    "%%python\ndef f(x):\n    '''define\n    ret'''\n    return None # if",
    "%%llvm -O0\ndefine void @g() {\n  ret void\n}",
    "%%time\n%%kaleidoscope\nextern sin(x)",
    "\n%%kaleidoscope\nvar a in a",
    "%%writefile lang.py\nimport re",
    "def f(x) x",
    "%%unknown\ndefine void @h()",
]


def words(page: Any, cell: int) -> dict[str, str]:
    """Each highlighted piece of a cell and its colour; the plain ones under their whole text."""
    found = page.evaluate(
        "n=>[...document.querySelectorAll('.jp-CodeCell')[n].querySelectorAll('.cm-line span')]"
        ".map(e=>[e.textContent.trim(), getComputedStyle(e).color])",
        cell,
    )
    return dict(found)


@pytest.fixture(scope="module")
def page(lab: Lab) -> Any:
    page = lab.notebook("jitkernel", CELLS)
    page.wait_for_function("()=>document.querySelectorAll('.jp-CodeCell .cm-line span').length>20")
    yield page
    page.close()


def colours(page: Any) -> dict[str, str]:
    """The colours of kinds, as the cell of IR shows them."""
    ir = words(page, 0)
    return {"keyword": ir["define"], "comment": ir['; def "no"']}


def test_ir(page: Any) -> None:
    ir = words(page, 0)
    assert len({ir["define"], ir["@f"], ir['; def "no"']}) == 3
    assert ir["ret"] == ir["define"]


def test_a_kaleidoscope_cell_in_a_notebook_of_ir(page: Any) -> None:
    kind, found = colours(page), words(page, 1)
    assert {found[w] for w in ("def", "if", "then", "else")} == {kind["keyword"]}
    assert found["# define"] == kind["comment"]
    assert found["1.5"] not in (kind["keyword"], kind["comment"])
    assert "%%kaleidoscope" in found


def test_python(page: Any) -> None:
    kind, found = colours(page), words(page, 2)
    assert found["def"] == found["return"] == kind["keyword"]
    assert found["# if"] == kind["comment"]
    assert found["ret'''"] == found["'''define"] != kind["keyword"]


def test_first_lines(page: Any) -> None:
    keyword = colours(page)["keyword"]
    assert words(page, 3)["define"] == keyword
    assert words(page, 4)["extern"] == keyword  # below two magics
    assert words(page, 5)["var"] == keyword  # below a blank line
    assert words(page, 6)["import"] == keyword  # a file, by its ending
    assert words(page, 7).get("def") != keyword  # no word of IR
    assert words(page, 8)["define"] == keyword  # the notebook's own language


def test_the_colours_follow_what_is_typed(page: Any) -> None:
    page.locator(".jp-CodeCell .cm-content").nth(7).click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("%%kaleidoscope\n")
    page.wait_for_function(
        "colour=>[...document.querySelectorAll('.jp-CodeCell')[7].querySelectorAll('.cm-line span')]"
        ".some(e=>e.textContent==='def' && getComputedStyle(e).color===colour)",
        arg=colours(page)["keyword"],
    )


def test_a_notebook_of_the_second_tile(lab: Lab) -> None:
    page = lab.notebook("jitkernel-kaleidoscope", ["def f(x) x", "%%llvm\ndefine void @g()"])
    page.wait_for_function("()=>document.querySelectorAll('.jp-CodeCell .cm-line span').length>3")
    assert words(page, 0)["def"] == words(page, 1)["define"]
    page.close()


def test_the_launcher_has_a_tile_for_each_language(lab: Lab) -> None:
    page = lab.page("/lab?reset")
    page.wait_for_selector(".jp-LauncherCard", timeout=60_000)
    tiles = page.locator(".jp-Launcher-section >> nth=0 >> .jp-LauncherCard").all_inner_texts()
    assert {"LLVM IR (jitkernel)", "Kaleidoscope (jitkernel)"} <= {t.strip() for t in tiles}
    page.close()
