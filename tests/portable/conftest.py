"""Programs of several processes, each run as a file: processes that are spawned import it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def environment(folder: Path) -> dict[str, str]:
    """Variables of a program whose files stay in a folder."""
    home = str(folder)
    return {"PYTHONPATH": str(ROOT), "PATH": os.defpath, "HOME": home, "TMPDIR": home}


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Runs a program; what it prints."""

    def run(text: str) -> str:
        (tmp_path / "program.py").write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True,
            timeout=170, check=False, env=environment(tmp_path),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
