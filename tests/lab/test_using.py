"""JupyterLab as it is used: TAB, shift-TAB, the stop button, a restart, everything run twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.conftest import IDLE, Lab

CELLS = [
    "define i32 @sum_sq(i32 %a, i32 %b) {\n  %p = mul i32 %a, %a\n  %q = mul i32 %b, %b\n"
    "  %s = add i32 %p, %q\n  ret i32 %s\n}\n@sum_sq(2, 3)",
    "@counter = global i64 40\ndefine i64 @up() {\n  %n = load i64, ptr @counter\n"
    "  %m = add i64 %n, 1\n  store i64 %m, ptr @counter\n  ret i64 %m\n}\n@up()",
    "",
    "start:\n  br label %spin\nspin:\n  br label %spin",
]
SCRATCH, LOOP = 2, 3
pytestmark = pytest.mark.slow

RUNNING = IDLE.replace("'idle'", "'busy'")


class User:
    """One notebook and what is done to it."""

    def __init__(self, page: Any):
        self.page = page

    def cell(self, number: int) -> Any:
        return self.page.locator(".jp-CodeCell").nth(number)

    def types(self, text: str) -> None:
        """Into the scratch cell, in place of what is there."""
        self.page.keyboard.press("Escape")
        self.cell(SCRATCH).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.type(text)

    def starts(self, number: int) -> None:
        self.page.keyboard.press("Escape")
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def runs(self, number: int) -> list[str]:
        """Run a cell; what is under it afterwards."""
        self.starts(number)
        self.page.wait_for_timeout(300)
        self.page.wait_for_function(IDLE, timeout=60_000)
        self.page.wait_for_timeout(200)
        return self.shown(number)

    def shown(self, number: int) -> list[str]:
        return self.cell(number).locator(".jp-OutputArea-output").all_inner_texts()

    def commands(self, name: str) -> None:
        self.page.evaluate("name=>{window.jupyterapp.commands.execute(name)}", name)

    def restarts(self) -> None:
        self.commands("kernelmenu:restart")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.wait_for_timeout(1000)
        self.page.wait_for_function(IDLE, timeout=60_000)

    def leaves(self) -> None:
        self.page.evaluate("()=>window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.close()


@pytest.fixture(scope="module")
def user(lab: Lab) -> Iterator[User]:
    """A notebook whose kernel saves after each cell, its first two cells run."""
    settings = lab.folder.parent / "config" / "jitkernel_config.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"Session": {"autosave": True}}))
    user = User(lab.notebook("jitkernel", CELLS))
    user.runs(0)
    user.runs(1)
    yield user
    user.leaves()
    settings.unlink()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("@sum", "@sum_sq"),
        ("%expl", "%explain"),
        ("%asm @sum_sq --sy", "--syntax"),
        ("%config Executor.cell", "Executor.cell_timeout"),
        ("  %x = getel", "getelementptr"),
    ],
)
def test_tab(user: User, typed: str, offered: str) -> None:
    user.types(typed)
    user.page.keyboard.press("Tab")
    # The only one there is goes in by itself, if it is the only one.
    user.page.wait_for_function(
        "([cell, word])=>document.querySelectorAll('.jp-CodeCell')[cell]"
        ".querySelector('.cm-content').innerText.includes(word) || "
        "[...document.querySelectorAll('.jp-Completer-item')].some(e=>e.innerText.includes(word))",
        arg=[SCRATCH, offered],
        timeout=60_000,
    )


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("@sum_sq", "function i32 (i32, i32)"),
        ("@counter", "i64 41"),
        ("%explain", "usage: %explain"),
        ("getelementptr", "the address of a part"),
    ],
)
def test_shift_tab(user: User, typed: str, told: str) -> None:
    user.types(typed)
    user.page.keyboard.press("Escape")
    user.cell(SCRATCH).locator(".cm-content").click()
    user.page.keyboard.press("End")
    user.page.keyboard.press("Shift+Tab")
    user.page.wait_for_selector(".jp-Tooltip", timeout=60_000)
    assert told in user.page.locator(".jp-Tooltip").inner_text()


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("sum_sq(2, 3)", "did you mean `@sum_sq(2, 3)`?"),
        ("%explian @up", "did you mean %explain?"),
        ('print("hi")', 'did you mean `@puts("hi")`?'),
        ("help", "%help"),
        ("@sum_sq(1)", "takes 2 arguments, and 1 is given"),
    ],
)
def test_what_is_typed_wrong_is_told(user: User, typed: str, hint: str) -> None:
    user.types(typed)
    (shown,) = user.runs(SCRATCH)
    assert hint in " ".join(shown.split())  # the sentence may be folded


def test_the_stop_button(user: User) -> None:
    user.starts(LOOP)
    user.page.wait_for_function(RUNNING, timeout=60_000)
    user.page.wait_for_timeout(500)
    user.page.locator("[data-command='notebook:interrupt-kernel']").first.click()
    user.page.wait_for_function(IDLE, timeout=60_000)
    user.page.wait_for_timeout(300)
    assert "Interrupted" in "".join(user.shown(LOOP))
    user.types("@up()")
    assert user.runs(SCRATCH) == ["i64 42"]


def test_after_a_restart_the_last_session_is_offered(user: User) -> None:
    user.restarts()
    user.types('@puts("here")')
    assert any("%restore --last" in text for text in user.runs(SCRATCH))
    user.types("%restore --last")
    user.runs(SCRATCH)
    user.types("@up()")
    assert user.runs(SCRATCH)[-1] == "i64 43"


def test_all_run_twice(user: User) -> None:
    user.types("@up()")
    user.cell(LOOP).locator(".cm-content").click()
    user.page.keyboard.press("Control+a")
    user.page.keyboard.type("@counter")
    for _ in range(2):
        user.commands("notebook:run-all-cells")
        user.page.wait_for_timeout(2000)
        user.page.wait_for_function(IDLE, timeout=60_000)
        assert [user.shown(i)[-1] for i in range(4)] == ["i32 13", "i64 41", "i64 42", "i64 42"]
    assert any("replaced" in text for text in user.shown(0))
