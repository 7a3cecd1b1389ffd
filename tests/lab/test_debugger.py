"""JupyterLab's debugger, in cells of C and of LLVM IR."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.busy import until
from tests.lab.conftest import IDLE, Lab

pytestmark = pytest.mark.slow

C = [
    "struct point { int x, y; double weight; };\n"
    "int twice(int n) {\n  int doubled = n + n;\n  return doubled;\n}",
    "struct point at = { 3, 4, 0.5 };\n"
    "int walk(struct point *p, int steps) {\n"
    "  int sum = 0;\n"
    "  for (int i = 0; i < steps; i++)\n"
    "    sum += twice(p->x) + i;\n"
    "  return sum;\n"
    "}\n"
    "walk(&at, 3)",
    "int peek(int *p) {\n  int before = 1;\n  return *p + before;\n}\npeek((int *)8)",
    "#include <stdlib.h>\nint less(const void *a, const void *b) {\n  int x = *(const int *)a;\n"
    "  return x - *(const int *)b;\n}\nint list[3] = { 3, 1, 2 };\n"
    "qsort(list, 3, sizeof *list, less);\nlist[0]",
]
IR = [
    "define i32 @sum(i32 %n) {\nentry:\n  br label %loop\nloop:\n"
    "  %i = phi i32 [ 1, %entry ], [ %j, %loop ]\n  %s = phi i32 [ 0, %entry ], [ %t, %loop ]\n"
    "  %t = add i32 %s, %i\n  %j = add i32 %i, 1\n  %c = icmp sle i32 %j, %n\n"
    "  br i1 %c, label %loop, label %out\nout:\n  ret i32 %t\n}\n@sum(3)",
]
SHOTS = os.environ.get("JITKERNEL_SHOTS", "")  # a folder for pictures of what is seen
#: A line of the cell's editor that is highlighted: its number, else 0.
STANDS = """i => {
  const lines = [...document.querySelectorAll('.jp-CodeCell')[i].querySelectorAll('.cm-line')];
  return lines.findIndex(l => l.classList.contains('jp-DebuggerEditor-highlight')) + 1;
}"""

#: How many breakpoints the kernel has been told of, and how many the notebook shows.
BREAKPOINTS = """async () => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const asked = kernel.requestDebug({type: 'request', seq: 0, command: 'debugInfo'});
  const told = (await asked.done).content.body.breakpoints.flatMap(b => b.breakpoints);
  const shown = document.querySelectorAll(
    '.cm-breakpoint-gutter .cm-gutterElement:not(:first-child) .cm-breakpoint-icon');
  return [told.length, shown.length];
}"""


class Panel:
    """A notebook with the debugger's panel at its side."""

    def __init__(self, page: Any):
        self.page = page
        self.errors: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def until(self, script: str, argument: Any = None) -> None:
        try:
            self.page.wait_for_function(script, arg=argument, timeout=60_000)
        except Exception as error:
            self.picture("waiting")
            raise AssertionError(f"{script} {argument}: {self.errors}") from error

    def turns_on(self) -> None:
        """A click on the icon; the first one is lost where the panel has not settled."""
        gutter = self.page.locator(".cm-breakpoint-gutter").first
        for _ in range(5):
            button = self.page.locator(".jp-DebuggerBugButton").first
            if button.get_attribute("aria-pressed") != "true":
                button.click()
            try:
                gutter.wait_for(timeout=5_000)
                break
            except Exception:
                continue
        gutter.wait_for(timeout=60_000)
        self.page.locator(".jp-DebuggerVariables").first.wait_for()

    def clicks(self, cell: int, line: int) -> None:
        """In the gutter at a line."""
        gutter = self.page.locator(".jp-CodeCell").nth(cell).locator(".cm-breakpoint-gutter")
        before = gutter.locator(".cm-breakpoint-icon").count()
        # the first element only makes room
        gutter.locator(".cm-gutterElement").nth(line).click()
        self.until(
            "([i,n])=>document.querySelectorAll('.jp-CodeCell')[i]"
            ".querySelectorAll('.cm-breakpoint-gutter .cm-breakpoint-icon').length!=n",
            [cell, before],
        )
        self.kernel_knows()

    def kernel_knows(self) -> None:
        """Wait until the kernel has the breakpoints that the notebook shows: a click shows one
        before the kernel is told, and what runs on meanwhile meets another program."""

        def told() -> bool:
            of_kernel, shown = self.page.evaluate(BREAKPOINTS)
            return bool(of_kernel == shown)

        assert until(told, 60, 0.1), self.page.evaluate(BREAKPOINTS)

    def runs(self, cell: int) -> None:
        self.page.keyboard.press("Escape")
        self.page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def stands(self, cell: int, *lines: int) -> int:
        """Wait until one of these lines of a cell is highlighted; which one."""
        script = f"([i,lines])=>lines.includes(({STANDS})(i))"
        self.until(script, [cell, list(lines)])
        return int(self.page.evaluate(STANDS, cell))

    def does(self, command: str) -> None:
        """A button of the call stack's tool bar, once it can be pressed."""
        self.page.locator(f'[data-command="debugger:{command}"]').first.click(timeout=60_000)

    def frames(self) -> list[str]:
        return list(self.page.locator(".jp-DebuggerCallstackFrame-name").all_inner_texts())

    def places(self) -> list[str]:
        """Where the frames are: `Cell [*]:5`."""
        found = self.page.locator(".jp-DebuggerCallstackFrame-location")
        return list(found.all_inner_texts())

    def variables(self) -> str:
        return str(self.page.locator(".jp-DebuggerVariables-body").first.inner_text())

    def shows(self, *texts: str) -> None:
        """Wait until the variables have all this."""
        self.until(
            "texts=>{const t=document.querySelector('.jp-DebuggerVariables-body')?.innerText"
            ".replace(/\\s+/g,' ');return t && texts.every(x=>t.includes(x))}",
            list(texts),
        )

    def opens(self, name: str) -> None:
        """A variable that has parts, as the keyboard does it."""
        shown = self.page.locator(".jp-DebuggerVariables-name").get_by_text(name, exact=True)
        shown.first.click()
        item = self.page.locator("jp-tree-item").filter(has=shown).first
        if item.get_attribute("aria-expanded") == "false":
            item.focus()
            self.page.keyboard.press("ArrowRight")

    def output(self, cell: int) -> str:
        found = self.page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output")
        return "\n".join(found.all_inner_texts())

    def is_over(self, cell: int, text: str) -> None:
        self.until(IDLE)
        self.until(
            "([i,t])=>document.querySelectorAll('.jp-CodeCell')[i].innerText.includes(t)",
            [cell, text],
        )

    def picture(self, name: str) -> None:
        if SHOTS:
            self.page.wait_for_timeout(500)
            self.page.screenshot(path=str(Path(SHOTS, name + ".png")))

    def closes(self) -> None:
        self.page.evaluate("()=>window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.close()


@pytest.fixture(params=["Light", "Dark"])
def theme(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    path = lab.folder.parent / "settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    path.write_text(json.dumps({"theme": f"JupyterLab {request.param}"}))
    yield request.param
    path.unlink()


def _panel(lab: Lab, kernel: str, cells: list[str], failing: tuple[int, ...] = ()) -> Panel:
    panel = Panel(lab.notebook(kernel, cells, failing))
    panel.page.evaluate("()=>window.jupyterapp.commands.execute('application:toggle-left-area')")
    panel.turns_on()
    return panel


def test_cells_of_c(lab: Lab, theme: str) -> None:
    pytest.importorskip("ziglang")
    panel = _panel(lab, "jitkernel-c", C, failing=(2,))
    page = panel.page
    panel.runs(0)
    panel.is_over(0, "twice")
    panel.clicks(1, 5)
    panel.runs(1)
    panel.stands(1, 5)
    panel.shows("sum", "int 0", "steps", "int 3")
    assert panel.frames()[0] == "walk" and len(panel.frames()) == 2
    assert panel.places() == ["Cell [*]:5", "Cell [*]:8"]
    panel.opens("p")
    panel.shows("weight")
    panel.picture(f"c_{theme.lower()}")
    panel.does("stepIn")
    panel.stands(0, 3)
    assert panel.frames()[:2] == ["twice", "walk"] and panel.places()[0] == "Cell [1]:3"
    panel.does("next")
    panel.stands(0, 4)
    panel.shows("doubled", "int 6")
    panel.does("stepOut")
    panel.stands(1, 5)
    panel.does("evaluate")
    box = page.locator(".jp-DebugConsole .jp-CodeConsole-promptCell .cm-content")
    box.click()
    page.keyboard.type("sum = 100")
    page.keyboard.press("Shift+Enter")
    panel.shows("int 100")
    box.click()
    page.keyboard.type("nobody + 1")
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-DebugConsole").get_by_text("nothing here is called nobody").wait_for()
    panel.shows("int 100")
    panel.picture(f"c_evaluated_{theme.lower()}")
    panel.does("evaluate")
    # a variable in full, as its button has it
    page.evaluate(
        "()=>{window.jupyterapp.commands.execute('debugger:render-mime-variable',{name:'p'})}"
    )
    page.locator(".jp-VariableRendererPanel table").get_by_text("weight").wait_for()
    panel.picture(f"c_in_full_{theme.lower()}")
    page.locator(".lm-TabBar-tab").filter(has_text="p - ").locator(
        ".lm-TabBar-tabCloseIcon"
    ).click()
    panel.clicks(1, 5)  # the dot goes
    panel.does("continue")
    panel.is_over(1, "(int) ")
    panel.until("()=>!document.querySelector('.jp-DebuggerEditor-highlight')")
    # a fault
    page.locator(".jp-PauseOnExceptions").first.click()
    page.locator(".lm-Menu-item").filter(has_text="Faults").first.click()
    panel.runs(2)
    panel.stands(2, 3)
    panel.picture(f"c_fault_{theme.lower()}")
    panel.does("continue")
    panel.is_over(2, "called from")
    # a library calls back: Lab's panel has a place for its frame, too
    panel.clicks(3, 4)
    panel.runs(3)
    panel.stands(3, 4)
    assert panel.frames()[0] == "less" and len(panel.frames()) == 3
    page.locator(".jp-DebuggerCallstackFrame").nth(1).click()
    page.locator(".lm-TabBar-tab").filter(has_text="code at 0x").wait_for()
    panel.picture(f"c_library_{theme.lower()}")
    page.locator(".lm-TabBar-tab").filter(has_text="test").first.click()
    panel.clicks(3, 4)
    panel.does("continue")
    panel.is_over(3, "(int) 1")
    # breakpoints outlive the kernel
    panel.clicks(1, 6)
    panel.runs(1)
    panel.stands(1, 6)
    page.evaluate("()=>{window.jupyterapp.commands.execute('kernelmenu:restart')}")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.wait_for_timeout(1000)
    panel.until(IDLE)
    panel.until("()=>!document.querySelector('.jp-DebuggerEditor-highlight')")
    panel.kernel_knows()
    panel.runs(0)
    panel.runs(1)
    panel.stands(1, 6)
    panel.does("continue")
    panel.is_over(1, "(int) 21")
    # Lab says so of what it asked the kernel that ended.
    assert [e for e in panel.errors if "Canceled future" not in e] == []
    panel.closes()


def test_a_cell_of_ir(lab: Lab, theme: str) -> None:
    panel = _panel(lab, "jitkernel", IR)
    panel.clicks(0, 7)
    panel.runs(0)
    panel.stands(0, 7)
    panel.shows("%i", "i32 1", "%n", "i32 3")
    panel.does("next")
    panel.stands(0, 8)
    panel.shows("%t", "i32 1")
    panel.picture(f"ir_{theme.lower()}")
    panel.does("continue")
    panel.stands(0, 7)
    panel.shows("i32 2")
    panel.clicks(0, 7)
    panel.does("continue")
    panel.is_over(0, "i32 6")
    assert panel.errors == []
    panel.closes()
