"""`jitkernel tour`: the tour notebook through the real kernel, shown and checked cell by cell.

A cell's outputs must be those stored in the notebook, and exactly the cells tagged
`raises-exception` must fail.  In cells tagged `numbers-vary` (bytes of the arena) any number will
do.  Start from `tour`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from jitkernel.kernel.client import (
    answers_of,
    code_cells,
    is_python,
    language_of,
    outputs_text,
    read_notebook,
    run_cell,
    running_kernel,
)
from jitkernel.wording import counted

__all__ = ["tour"]

MASKED = "Times and addresses differ each time: `?` and `0x…` stand for them here."


def advice() -> str:
    """What to try next, by the command as it can be typed here."""
    command = Path(sys.executable).with_name("jitkernel")
    found = shutil.which("jitkernel")
    near = os.path.relpath(command)
    name = str(command) if near.startswith("..") else near
    name = "jitkernel" if found and Path(found) == command else shlex.quote(name)
    rows = [
        (f"{name} console", "the kernel in this terminal"),
        (f"{name} doctor", "what this machine offers"),
    ]
    if notebook_path().parent.name == "notebooks":  # a source tree
        rows.insert(0, ("make lab", "the same notebook in JupyterLab"))
        rows.append(("HOW_IT_WORKS.md", "one cell, from keystroke to value"))
    width = max(len(what) for what, _ in rows)
    return "\n".join(["Try next:", *(f"  {what:<{width}}  {why}" for what, why in rows)])


def notebook_path() -> Path:
    """The tour, in the source tree; an installed package has a copy beside this module."""
    tree = Path(__file__).resolve().parents[2] / "notebooks" / "tour.ipynb"
    return tree if tree.is_file() else Path(__file__).with_name("tour.ipynb")


def tour(path: Path | None = None, update: bool = False, out: TextIO | None = None) -> int:
    """Run and check a notebook; 0 if all was as stored.  `update` stores what came instead."""
    out = out or sys.stdout
    path = path or notebook_path()
    coloured = out.isatty() and not os.environ.get("NO_COLOR")

    def paint(code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if coloured else text

    if not path.is_file():
        print(f"no such notebook: {path}", file=out)
        return 1
    start = time.monotonic()
    try:
        notebook = read_notebook(path)
    except (OSError, ValueError) as error:
        print(f"{path}: {getattr(error, 'strerror', None) or error}", file=out)
        return 1
    cells = code_cells(notebook)
    expected = unexpected = 0
    python = is_python(notebook)  # which sets `deterministic` in a cell of its own
    arguments = () if python else ("--deterministic", *language_of(notebook))
    with running_kernel(path.parent, arguments, python) as client:
        print(f"{time.monotonic() - start:8.1f} s  kernel started\n", file=out)
        print(MASKED + "\n", file=out, flush=True)
        for cell in cells:
            reply, outputs = run_cell(
                client, cell["source"], cell_id=cell.get("id", ""), answers=answers_of(cell)
            )
            count = reply.get("execution_count")
            failed = reply["status"] == "error"
            meant = "raises-exception" in cell["metadata"].get("tags", ())
            print(_shown(count, cell["source"], outputs, failed and meant, paint), file=out)
            complaint = "" if update else _complaint(cell, outputs, failed, meant)
            if failed and meant and not complaint:
                expected += 1
            if complaint:
                unexpected += 1
                print(paint("31", complaint), file=out)
            print(file=out, flush=True)
            cell["outputs"], cell["execution_count"] = outputs, count
    if update:
        _write(path, notebook)
    seconds = time.monotonic() - start
    summary = (
        f"{counted(len(cells), 'cell')}, {counted(expected, 'expected error')},"
        f" {unexpected} unexpected, {seconds:.1f} s"
    )
    print(paint("1", summary), file=out)
    if not unexpected:
        print(advice(), file=out)
    return 1 if unexpected else 0


def _shown(
    count: Any,
    source: str,
    outputs: list[dict[str, Any]],
    meant: bool,
    paint: Callable[[str, str], str],
) -> str:
    head = f"In [{count}]: "
    pad = " " * len(head)
    lines = [paint("34", head) + source.rstrip().replace("\n", "\n" + pad)]
    for text in outputs_text(outputs):
        kind, _, body = text.partition(": ")
        if kind == "error" and meant:
            lines.append(paint("33", "expected error"))
        label = f"Out[{count}]: " if kind == "Out" else ""
        lines.append(paint("31", label) + body.rstrip().replace("\n", "\n" + " " * len(label)))
    return "\n".join(lines)


def _complaint(
    cell: dict[str, Any], outputs: list[dict[str, Any]], failed: bool, meant: bool
) -> str:
    """What is not as it should be; empty where all is well."""
    if failed and not meant:
        return "UNEXPECTED: this cell should not fail"
    if meant and not failed:
        return "UNEXPECTED: this cell should fail, and did not"
    stored, came = outputs_text(cell.get("outputs", [])), outputs_text(outputs)
    if "numbers-vary" in cell["metadata"].get("tags", ()):
        stored, came = [_any_number(t) for t in stored], [_any_number(t) for t in came]
    if stored == came:
        return ""
    diff = difflib.unified_diff(
        "\n".join(stored).splitlines(), "\n".join(came).splitlines(), "stored", "now", lineterm=""
    )
    return "UNEXPECTED: other output than stored in the notebook\n" + "\n".join(diff)


def _any_number(text: str) -> str:
    return re.sub(r"[ \t]*\b\d[\d.,]*\b", " N", text)


def _write(path: Path, notebook: dict[str, Any]) -> None:
    path.write_text(
        json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
    )
