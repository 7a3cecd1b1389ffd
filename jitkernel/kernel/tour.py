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
from typing import TextIO

from jitkernel.kernel.client import (
    Ran,
    code_cells,
    kernel_for,
    outputs_text,
    read_notebook,
    run_cells,
)
from jitkernel.wording import counted

MASKED = "Times and addresses differ each time: `?` and `0x…` stand for them here."


def advice() -> str:
    """Advice on what to try next, by the command as it can be typed here."""
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
    expected = unexpected = 0
    with kernel_for(notebook, path.parent, "--deterministic") as client:
        print(f"{time.monotonic() - start:8.1f} s  kernel started\n", file=out)
        print(MASKED + "\n", file=out, flush=True)
        for ran in run_cells(client, notebook):
            print(_shown(ran, paint), file=out)
            complaint = "" if update else _complaint(ran)
            if ran.failed and ran.meant and not complaint:
                expected += 1
            if complaint:
                unexpected += 1
                print(paint("31", complaint), file=out)
            print(file=out, flush=True)
            ran.cell["outputs"], ran.cell["execution_count"] = ran.outputs, ran.number
    if update:
        text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")
    seconds = time.monotonic() - start
    summary = (
        f"{counted(len(code_cells(notebook)), 'cell')}, {counted(expected, 'expected error')},"
        f" {unexpected} unexpected, {seconds:.1f} s"
    )
    print(paint("1", summary), file=out)
    if not unexpected:
        print(advice(), file=out)
    return 1 if unexpected else 0


def _shown(ran: Ran, paint: Callable[[str, str], str]) -> str:
    head = f"In [{ran.number}]: "
    pad = " " * len(head)
    lines = [paint("34", head) + ran.cell["source"].rstrip().replace("\n", "\n" + pad)]
    for text in outputs_text(ran.outputs):
        kind, _, body = text.partition(": ")
        if kind == "error" and ran.meant:
            lines.append(paint("33", "expected error"))
        label = f"Out[{ran.number}]: " if kind == "Out" else ""
        lines.append(paint("31", label) + body.rstrip().replace("\n", "\n" + " " * len(label)))
    return "\n".join(lines)


def _complaint(ran: Ran) -> str:
    """A complaint where a cell is not as it should be; empty where all is well."""
    if ran.failed and not ran.meant:
        return "UNEXPECTED: this cell should not fail"
    if ran.meant and not ran.failed:
        return "UNEXPECTED: this cell should fail, and did not"
    stored, came = outputs_text(ran.cell.get("outputs", [])), outputs_text(ran.outputs)
    if "numbers-vary" in ran.cell["metadata"].get("tags", ()):
        stored, came = [_any_number(t) for t in stored], [_any_number(t) for t in came]
    if stored == came:
        return ""
    diff = difflib.unified_diff(
        "\n".join(stored).splitlines(), "\n".join(came).splitlines(), "stored", "now", lineterm=""
    )
    return "UNEXPECTED: other output than stored in the notebook\n" + "\n".join(diff)


def _any_number(text: str) -> str:
    return re.sub(r"[ \t]*\b\d[\d.,]*\b", " N", text)
