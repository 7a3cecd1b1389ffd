"""`python -m benchmarks [--quick|--full] [--only NAME] [--json FILE] [--list]`.

Each row runs in a process of its own, so that none sees another's memory, and a rival that ends
its process ends only its row.  Start from `main`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Figure, Row, Scale, scales
from benchmarks.processes import fixed_addresses, kernel_environment
from benchmarks.table import as_json, heading, line, verdict

__all__ = ["main"]

_MARK = "figure "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rows and print them; 0, or 1 where a row could not be measured.  A missed bar is no error."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="jitkernel and its rivals"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, under two minutes")
    size.add_argument("--full", action="store_true", help="the longest runs too: 40,000 cycles")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="rows that begin so"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--scale", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    from benchmarks.rows import ROWS

    if chosen.list:
        print("\n".join(f"{row.name:<14} {row.title}" for row in ROWS))
        return 0
    name = chosen.scale or ("quick" if chosen.quick else "full" if chosen.full else "normal")
    scale = scales()[name]
    if chosen.row:
        return _child(next(r for r in ROWS if r.name == chosen.row), scale)
    rows = [r for r in ROWS if not chosen.only or any(r.name.startswith(o) for o in chosen.only)]
    if not rows:
        print(f"no row is called {chosen.only}; --list names them", file=sys.stderr)
        return 2
    return _table(rows, name, chosen.json)


def _child(row: Row, scale: Scale) -> int:
    """Measure one row here; figures go to standard output as they come."""
    for figure in row.run(scale):
        print(_MARK + json.dumps(figure.row()), flush=True)
    return 0


def _table(rows: Sequence[Row], scale: str, path: str | None) -> int:
    began = time.monotonic()
    facts = _facts(scale)
    print(" · ".join(str(v) for v in facts.values()), flush=True)
    found: dict[str, list[Figure]] = {}
    failed: list[str] = []
    for row in rows:
        print(heading(row.title), flush=True)
        found[row.name] = []
        problem = _measure(row, scale, found[row.name])
        if problem:
            failed.append(f"{row.name}: {problem}")
            print(f"not measured: {problem}", flush=True)
    print(verdict([f for figures in found.values() for f in figures], failed))
    print(f"{time.monotonic() - began:.0f} s")
    if path:
        Path(path).write_text(as_json(found, facts), encoding="utf-8")
    return 1 if failed else 0


def _measure(row: Row, scale: str, into: list[Figure]) -> str:
    """Run a row in a process of its own and print its figures; what went wrong, if anything."""
    root = Path(__file__).resolve().parent.parent
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "benchmarks", "--row", row.name, "--scale", scale]
    extra = kernel_environment() if row.as_kernel else {}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root,
        env={**os.environ, "PYTHONPATH": path, **extra}, stdin=subprocess.DEVNULL,
        preexec_fn=fixed_addresses if row.as_kernel else None,
    )  # fmt: skip
    timer = _Timer(process, row.timeout)
    assert process.stdout is not None and process.stderr is not None
    with process:
        for text in process.stdout:
            if text.startswith(_MARK):
                fields = json.loads(text[len(_MARK) :])
                fields.pop("met")
                into.append(Figure(**fields))
                print(line(into[-1]), flush=True)
        words = process.stderr.read().strip().splitlines()
    timer.cancel()
    if process.returncode == 0:
        return ""
    if timer.over:
        return f"took longer than {row.timeout:.0f} s"
    return f"ended with {process.returncode}: {words[-1] if words else ''}"


class _Timer:
    """Ends a process that takes too long."""

    def __init__(self, process: subprocess.Popen[str], seconds: float):
        import threading

        self.over = False
        self._process = process
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.over = True
        self._process.kill()

    def cancel(self) -> None:
        """It ended by itself."""
        self._timer.cancel()


def _facts(scale: str) -> dict[str, Any]:
    """What the figures were taken on."""
    import llvmlite

    processor = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for text in lines:
            if text.startswith("model name"):
                processor = text.partition(":")[2].strip()
                break
    return {
        "scale": f"{scale} run",
        "processor": processor,
        "processors": f"{len(os.sched_getaffinity(0))} processors",
        "system": f"Linux {platform.release()}",
        "python": f"Python {platform.python_version()}",
        "llvmlite": f"llvmlite {llvmlite.__version__}",
    }


if __name__ == "__main__":
    sys.exit(main())
