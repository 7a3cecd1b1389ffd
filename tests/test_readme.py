"""The transcript in README.md is what the kernel says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jitkernel.kernel.client import outputs_text, run_cell, running_kernel

pytest.importorskip("ziglang")

ROOT = Path(__file__).parents[1]
_CELL = re.compile(r"^\[\d+\]: (.*(?:\n     .*)*)((?:\n   → .*)+)", re.MULTILINE)


def test_its_cells_show_what_it_says(tmp_path: Path) -> None:
    cells = _CELL.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(cells) == 6
    with running_kernel(tmp_path) as client:
        for source, shown in cells:
            text = re.sub(r"^     ", "", source, flags=re.MULTILINE)
            _, outputs = run_cell(client, text, timeout=60)
            lines = "\n".join(outputs_text(outputs)).splitlines()
            found = [re.sub(r"^\w+: (?=\S)", "", line, count=1) for line in lines] + lines
            for wanted in re.findall(r"→ (.*)", shown):
                assert any(line.startswith(wanted) for line in found), (wanted, found)
