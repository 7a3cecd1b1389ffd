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
    "%asm @f --target riscv64",
    "%%pass p\ndef f(text):\n    return text",
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
    assert words(page, 9).get("target") != keyword  # an option of a magic
    assert words(page, 10)["return"] == keyword


def test_the_colours_follow_what_is_typed(page: Any) -> None:
    page.locator(".jp-CodeCell .cm-content").nth(7).click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("%%kaleidoscope\n")
    page.wait_for_function(
        "colour=>[...document.querySelectorAll('.jp-CodeCell')[7].querySelectorAll('.cm-line span')]"
        ".some(e=>e.textContent==='def' && getComputedStyle(e).color===colour)",
        arg=colours(page)["keyword"],
    )


@pytest.mark.slow
def test_cells_of_these_languages_in_a_notebook_of_python(lab: Lab) -> None:
    """As they are in notebooks of their own; the others are Python's, and each follows its line."""
    cells = [
        "%%c\nint f(int x) { return x; } // no def",
        "def f(x):\n    return x",
        "%%llvm\ndefine void @f() {\n  ret void\n}",
        "%%time\nimport this",
    ]
    page = lab.notebook("python3", cells)
    language = "n=>document.querySelectorAll('.jp-CodeCell .cm-content')[n].dataset.language"
    is_language = f"([n, name])=>({language})(n)===name"
    for cell, name in enumerate(("jitkernel-c", "python", "llvm", "python")):
        page.wait_for_function(is_language, arg=[cell, name])
    c, ir = words(page, 0), words(page, 2)
    assert c["return"] == ir["define"] == words(page, 1)["return"] and "// no def" in c
    page.locator(".jp-CodeCell .cm-content").nth(1).click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("%%c\n")
    page.wait_for_function(is_language, arg=[1, "jitkernel-c"])
    page.keyboard.press("Control+Home")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Delete")
    page.wait_for_function(is_language, arg=[1, "python"])
    page.close()


# JupyterLab's own colours of numbers and comments are a little fainter than 4.5.
FAINT = """()=>{
  const rgb = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const luminance = c => { const [r, g, b] = rgb(c).map(v =>
    v <= 10.31475 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  return [...document.querySelectorAll('.jp-CodeCell .cm-editor')].flatMap(editor => {
    const behind = luminance(getComputedStyle(editor.closest('.jp-InputArea-editor'))
      .backgroundColor);
    return [...editor.querySelectorAll('.cm-line span')]
      .filter(e => getComputedStyle(e).fontStyle !== 'italic')
      .map(e => { const [low, high] = [behind, luminance(getComputedStyle(e).color)]
        .sort((a, b) => a - b); return [e.textContent, (high + 0.05) / (low + 0.05)] })
      .filter(([, contrast]) => contrast < 4.2) })
}"""


@pytest.mark.slow
def test_colours_can_be_read_in_both_themes(lab: Lab) -> None:
    page = lab.notebook(
        "jitkernel",
        [
            '%asm @f\nentry:\n!0 = !{i1 true, ptr null}\n@f("text") #0\ndefine double @g(i32 %x)',
            "%%kaleidoscope\ndef fib(x)\n  if x < y then z else fib(x-1)",
            "%%python\n@cached\ndef f(x):\n    return None + 'text'",
        ],
    )
    page.wait_for_function("()=>document.querySelectorAll('.jp-CodeCell .cm-line span').length>20")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate(
            "theme=>window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
        )
        page.wait_for_function("theme=>document.body.dataset.jpThemeName===theme", arg=theme)
        page.wait_for_timeout(500)
        assert page.evaluate(FAINT) == []
    page.close()


@pytest.mark.slow
def test_lines_of_output_wrap_between_words(lab: Lab) -> None:
    """On a narrow screen an error is wider than its place: no word of it is on two lines."""
    page = lab.notebook("jitkernel", ["%passes @nothing --only some thing that is not there " * 3])
    page.set_viewport_size({"width": 700, "height": 900})
    page.evaluate("()=>{window.jupyterapp.commands.execute('notebook:run-all-cells')}")
    page.wait_for_selector(".jp-OutputArea-output pre", timeout=60_000)
    broken = page.evaluate(
        """()=>[...document.querySelectorAll('.jp-OutputArea-output pre')].flatMap(pre => {
          const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT), found = [];
          let lines = new Set();
          while (walker.nextNode()) for (const m of walker.currentNode.data.matchAll(/[\\w%@.]+/g)) {
            const range = document.createRange();
            range.setStart(walker.currentNode, m.index);
            range.setEnd(walker.currentNode, m.index + m[0].length);
            const tops = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
            tops.forEach(top => lines.add(top));
            if (tops.size > 1) found.push(m[0]);
          }
          return lines.size > 1 ? found : ['nothing was wrapped'];
        })"""
    )
    assert broken == []
    page.close()


@pytest.mark.slow
def test_a_notebook_of_the_second_tile(lab: Lab) -> None:
    page = lab.notebook("jitkernel-kaleidoscope", ["def f(x) x", "%%llvm\ndefine void @g()"])
    page.wait_for_function("()=>document.querySelectorAll('.jp-CodeCell .cm-line span').length>3")
    assert words(page, 0)["def"] == words(page, 1)["define"]
    page.close()


@pytest.mark.slow
def test_the_launcher_has_a_tile_for_each_language(lab: Lab) -> None:
    page = lab.page("/lab?reset")
    page.wait_for_selector(".jp-LauncherCard", timeout=60_000)
    tiles = page.locator(".jp-Launcher-section >> nth=0 >> .jp-LauncherCard").all_inner_texts()
    assert {"LLVM IR (jitkernel)", "Kaleidoscope (jitkernel)"} <= {t.strip() for t in tiles}
    page.close()
