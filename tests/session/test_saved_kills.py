"""A process of the session is killed at any moment: what was saved is there up to the last cell."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session

PROGRAM = Path(__file__).with_name("kills.py")
ROOT = str(Path(__file__).resolve().parents[2])
VICTIMS = ("kernel", "executor", "worker")


def _run_and_kill(path: Path, seed: int, victim: int, delay: float) -> list[dict[str, Any]]:
    """What a session said until it ended, a process of it being killed `delay` seconds on."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(path), str(seed)],
        stdout=subprocess.PIPE, bufsize=0, start_new_session=True, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    try:
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.kill(first["pids"][victim], signal.SIGKILL)
        if victim:  # the session finds out by itself, and is ended a little later
            time.sleep(0.05)
            process.kill()
        output, _ = process.communicate(timeout=60)
    finally:
        for pid in first["pids"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return [json.loads(line) for line in output.splitlines() if line.endswith(b"}")]


def _check(path: Path, said: list[dict[str, Any]]) -> None:
    """The file has what held after the last cell that finished, or after the one then running."""
    states: list[dict[str, Any]] = [{"functions": {}, "globals": {}}]
    begun: dict[str, Any] = states[0]
    for message in said:
        if "begins" in message:
            begun = message["begins"]
        elif "done" in message:
            states = [begun]
        if message is said[-1] and "done" not in message:
            states.append(begun)  # saved, and killed before it could say so
    with Session.restore(str(path), spare=False) as s:
        s.check()
        names = {n for n, y in s.symbols.items() if y.defined}
        found = {
            "functions": {n: s.call(n) for n in sorted(names) if n.startswith("f")},
            "globals": {n: s[n].value for n in sorted(names) if n.startswith("g")},
        }
        assert found in [{k: dict(sorted(v.items())) for k, v in t.items()} for t in states]
        for name in names:
            if name.startswith("c"):
                assert isinstance(s.call(name), int)
        done = [m["done"] for m in said if "done" in m]
        assert s.number >= (done[-1] if done else 1)


def _rounds(count: int, seed: int, path: Path) -> None:
    chance = random.Random(seed)
    for round in range(count):
        victim = round % len(VICTIMS)
        file = path / f"{round}.jks"
        said = _run_and_kill(file, round, victim, chance.random() * 0.4)
        try:
            _check(file, said)
        except BaseException:
            print(f"round {round}: the {VICTIMS[victim]} was killed")
            raise
        for left in path.glob(f"{round}.jks*"):
            left.unlink()


def test_killed_at_a_random_moment(tmp_path: Path) -> None:
    _rounds(6, 7, tmp_path)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_200_times(tmp_path: Path) -> None:
    _rounds(200, 20, tmp_path)
