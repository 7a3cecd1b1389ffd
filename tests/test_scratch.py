"""The folder of a run: its own while it goes on, and removed by the next where it was killed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.processes import python
from tests.scratch import scratch

KILLED = """
import os, signal, sys
from tests.scratch import scratch
path, held = scratch(sys.argv[1])
open(path + "/left", "w").close()
print(path, flush=True)
"""


def test_what_a_killed_run_left_is_removed_and_what_others_hold_is_not(tmp_path: Path) -> None:
    ours, held = scratch(str(tmp_path))
    left = python(f"{KILLED}os._exit(0)", str(tmp_path)).strip()
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, (ours, left)))
    other, more = scratch(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, (ours, other)))
    os.close(held)
    os.close(more)
