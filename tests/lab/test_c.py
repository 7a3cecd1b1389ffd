"""Cells of C in JupyterLab: their colours, and TAB behind a dot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.conftest import Lab
from tests.lab.test_highlighting import words

pytest.importorskip("ziglang")
pytestmark = pytest.mark.slow

CELLS = [
    "%opt -O1\n#include <stdio.h>\nstruct pt { int across; double up; } p; /* struct\n int */\n"
    'int f(void) { return puts("return"); } // int',
    "%%llvm\ndefine void @g() {\n  ret void\n}",
    "",
]


@pytest.fixture(scope="module")
def page(lab: Lab) -> Any:
    page = lab.notebook("jitkernel-c", CELLS)
    page.wait_for_function("()=>document.querySelectorAll('.jp-CodeCell .cm-line span').length>10")
    yield page
    page.close()


def test_colours(page: Any) -> None:
    c, ir = words(page, 0), words(page, 1)
    keyword = ir["define"]
    assert c["struct"] == c["return"] == c["#include"] == keyword
    assert c["%opt -O1"] == ir["%%llvm"]
    assert c["int"] == c["double"] == ir["void"]
    assert c["/* struct"] == c["int */"] == c["// int"] != keyword
    assert c['"return"'] == c["<stdio.h>"] not in (keyword, c["int"])


def test_tab_behind_a_dot(page: Any) -> None:
    page.locator(".jp-CodeCell .cm-content").nth(0).click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(
        "()=>/\\[\\d+\\]/.test(document.querySelector('.jp-CodeCell .jp-InputPrompt').textContent)"
    )
    page.locator(".jp-CodeCell .cm-content").nth(2).click()
    page.keyboard.type("p.")
    page.keyboard.press("Tab")
    page.wait_for_selector(".jp-Completer-item")
    offered = page.evaluate(
        "()=>[...document.querySelectorAll('.jp-Completer-item .jp-Completer-match')]"
        ".map(e=>e.textContent)"
    )
    assert offered[:2] == ["across", "up"]
