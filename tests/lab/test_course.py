"""The tour and the course in JupyterLab: run by its own menu, looked at in two widths."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import IDLE, NUMBERED, ROOT, Lab

NOTEBOOKS = ROOT / "notebooks"
LESSONS = sorted(f"course/{path.name}" for path in (NOTEBOOKS / "course").glob("*.ipynb"))
# Lessons take a minute or two.
NAMES = ["tour.ipynb", *(pytest.param(n, marks=pytest.mark.slow) for n in LESSONS)]
# Outputs and texts that are wider than the place they are shown in, without scrolling of their own.
CLIPPED = (
    "()=>[...document.querySelectorAll('.jp-RenderedHTMLCommon, .jp-RenderedText')]"
    ".filter(e=>e.scrollWidth>e.clientWidth+2 && "
    "![...e.querySelectorAll('*'), e, e.parentElement]"
    ".some(c=>/auto|scroll/.test(getComputedStyle(c).overflowX)))"
    ".map(e=>e.innerText.slice(0, 80))"
)
PICTURES = (
    "()=>[...document.querySelectorAll('.jp-Notebook img')]"
    ".map(e=>[e.naturalWidth>0, e.alt.split(' ').length>4])"
)
FAILED = (
    "()=>[...document.querySelectorAll('.jp-CodeCell')].map((c,i)=>[i, "
    "[...c.querySelectorAll('.jp-OutputArea-output')].some(o=>"
    "o.dataset.mimeType==='application/vnd.jupyter.stderr' && "
    "o.querySelector('pre')?.textContent.match(/^([A-Z]\\w+: |-{20})/))])"
)


@pytest.fixture(scope="module")
def folder(lab: Lab) -> Path:
    for name in ("course", "tour.ipynb", "arena.svg"):
        source, target = NOTEBOOKS / name, lab.folder / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    return lab.folder


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_nothing_is_clipped(lab: Lab, folder: Path, name: str) -> None:
    cells = json.loads((folder / name).read_text())["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    page = lab.page(f"/lab/tree/{name}?reset")
    try:
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
        if code:
            page.wait_for_function(IDLE, timeout=60_000)
            page.evaluate("()=>{window.jupyterapp.commands.execute('notebook:run-all-cells')}")
            folded = sum("jupyter" in c["metadata"] for c in code)  # these show no number
            page.wait_for_function(NUMBERED, arg=len(code) - folded, timeout=100_000)
            page.wait_for_function(IDLE, timeout=60_000)
        for width in (1280, 800):
            page.set_viewport_size({"width": width, "height": 1000})
            page.wait_for_timeout(300)
            assert page.evaluate(CLIPPED) == [], width
        # Those in texts are fetched from the server, which may take its time.
        page.wait_for_function(f"()=>({PICTURES})().every(([loaded])=>loaded)", timeout=60_000)
        assert all(told for _, told in page.evaluate(PICTURES))
        _fails_where_it_means_to(page, code)
    finally:
        if code:
            page.evaluate("()=>window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        page.close()


def _fails_where_it_means_to(page: Any, code: list[dict[str, Any]]) -> None:
    meant = [i for i, c in enumerate(code) if "raises-exception" in c["metadata"].get("tags", ())]
    assert [i for i, failed in page.evaluate(FAILED) if failed] == meant
