"""The README's cells show what it says that they show."""

from __future__ import annotations

import re
from pathlib import Path

from jitkernel.kernel.client import outputs_text
from jitkernel.kernel.displays import plain
from tests.kernel.conftest import Kernel

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_TIMES = re.compile(r", compiled (?:earlier )?in .*")


def cells() -> list[tuple[str, list[str]]]:
    """Each cell's source, and the lines that it shows."""
    (block,) = re.findall(r"^```\n(\[1\]: .*?)^```$", README, re.M | re.S)
    found = []
    for part in re.split(r"^\[\d+\]: ", block, flags=re.M)[1:]:
        lines = [line.removeprefix("     ") for line in part.rstrip("\n").split("\n")]
        shown = [line[5:] for line in lines if line.startswith("   → ")]
        found.append(("\n".join(line for line in lines if not line.startswith("   → ")), shown))
    return found


def test_every_cell_shows_what_the_readme_says(kernel: Kernel) -> None:
    assert len(cells()) == 6
    for source, wanted in cells():
        reply, outputs = kernel.run(source)
        told = plain("\n".join(outputs_text(outputs)))
        if reply["status"] == "error":
            told += f"{reply['ename']}: {reply['evalue']}"
        shown = _TIMES.sub("", told)
        for line in wanted:
            assert line in shown, (source, shown)
        assert wanted
