"""A Python notebook in JupyterLab with the extension: cells, calls, an error, TAB, the stop button."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.conftest import NUMBERED, Lab

pytestmark = pytest.mark.slow

CELLS = [
    "%load_ext jitkernel",
    "%%llvm\ndefine i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@sq(-7)",
    "sq(8)",
    "%%llvm\n%v = load volatile i64, ptr null",
    "sq('x')",
    "%jit cfg @sq",
    "%%llvm\ndefine void @spin() {\n  br label %l\nl:\n  br label %l\n}",
    "spin()",
    "",
]


@pytest.fixture(scope="module")
def page(lab: Lab) -> Any:
    page = lab.notebook("python3", CELLS, failing=(3, 4, 7))
    for cell in range(7):
        page.locator(".jp-CodeCell .cm-content").nth(cell).click()
        page.keyboard.press("Control+Enter")
        page.wait_for_function(NUMBERED, arg=cell + 1, timeout=60_000)
    yield page
    page.close()


def output(page: Any, cell: int) -> str:
    return str(page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea").inner_text())


def test_what_is_shown(page: Any) -> None:
    assert "%jit help" in output(page, 0)
    shown = output(page, 1)
    assert "in Python: sq(x: int) -> int" in shown and "i32 49" in shown
    assert "64" in output(page, 2)
    crash = output(page, 3)
    assert crash.lstrip().startswith("Fault: read of address 0") and "Kept:" in crash
    wrong = output(page, 4)
    assert "UsageError: argument 1" in wrong and "jitkernel/" not in wrong
    assert page.locator(".jp-CodeCell").nth(5).locator("img").count() == 1


def test_the_stop_button(page: Any) -> None:
    page.locator(".jp-CodeCell .cm-content").nth(7).click()
    page.keyboard.press("Control+Enter")
    busy = "()=>window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status==='busy'"
    page.wait_for_function(busy)
    page.wait_for_timeout(300)
    page.evaluate("()=>window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
    page.wait_for_function(NUMBERED, arg=8, timeout=60_000)
    stopped = output(page, 7)
    assert "KeyboardInterrupt" in stopped and "spin()" in stopped and "@spin" in stopped


def test_tab_behind_jit(page: Any) -> None:
    page.locator(".jp-CodeCell .cm-content").nth(8).click()
    page.keyboard.type("%jit compa")
    page.keyboard.press("Tab")
    page.wait_for_function(
        "()=>document.querySelectorAll('.jp-CodeCell .cm-content')[8].innerText.includes('compare')"
        " || document.querySelector('.jp-Completer-item')"
    )
