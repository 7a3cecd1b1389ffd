"""Start to first result: the library, and the kernel against ipykernel.  Start from `library`."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from benchmarks.harness import Figure, Scale, ratios
from jitkernel.kernel.install import NAME, kernelspec_source

__all__ = ["kernel", "library", "started"]

_CELL = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@sq(7)"
_OURS = f"""
from jitkernel import Session
with Session() as s:
    assert s.run({_CELL!r}).value == 49
    import time; print(time.monotonic())
"""
_THEIRS = """
from benchmarks.rivals import LLJIT
from benchmarks.programs import tiny
assert LLJIT().define_and_call(tiny("sq"), "sq", 7) == 49
import time; print(time.monotonic())
"""


def _rounds(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Each side once per round, in turn first."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        run()  # files are in the page cache, modules are compiled
    for turn in range(rounds):
        names = list(sides)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(sides[name]())
    return found


def library(scale: Scale) -> Iterator[Figure]:
    """A Python program that makes a session and gets its first value."""

    def python(program: str) -> float:
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=_environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        return float(done.stdout) - start

    took = _rounds(
        {"ours": lambda: python(_OURS), "LLJIT": lambda: python(_THEIRS)}, scale.pick(3, 9)
    )
    yield Figure("program start to first value, library", median(took["ours"]) * 1e3, "ms")
    yield Figure("the same with LLJIT of llvmlite", median(took["LLJIT"]) * 1e3, "ms")
    against = ratios(took["ours"], took["LLJIT"])
    yield Figure(
        "start-up, jitkernel / LLJIT", median(against), "x", 1.5,
        note=f"{min(against):.2f} to {max(against):.2f}",
    )  # fmt: skip


def kernel(scale: Scale) -> Iterator[Figure]:
    """Both kernels started by jupyter_client, until the first result is published.

    The first cell is never one that the object cache knows.
    """
    numbers = itertools.count(1)
    with TemporaryDirectory() as used, TemporaryDirectory() as parent:

        def ours(cache: str) -> float:
            k = next(numbers)
            cell = f"define i32 @f(i32 %x) {{\n  %r = add i32 %x, {k}\n  ret i32 %r\n}}\n@f(7)"
            return _first_result(NAME, cell, f"i32 {k + 7}", cache)

        sides = {
            "ours": lambda: ours(used),
            "ever": lambda: ours(mkdtemp(dir=parent)),
            "ipykernel": lambda: _first_result("python3", "40 + 9", "49", used),
        }
        took = _rounds(sides, scale.pick(2, 9))
    yield Figure("kernel start to first result", median(took["ours"]) * 1e3, "ms")
    yield Figure("the same with ipykernel", median(took["ipykernel"]) * 1e3, "ms")
    against = ratios(took["ours"], took["ipykernel"])
    yield Figure(
        "kernel start, jitkernel / ipykernel", median(against), "x", 1.3,
        note=f"{min(against):.2f} to {max(against):.2f}",
    )  # fmt: skip
    yield Figure(
        "the first start ever (object cache empty) / ipykernel",
        median(ratios(took["ever"], took["ipykernel"])), "x",
    )  # fmt: skip


@contextmanager
def started(name: str, cache: str) -> Iterator[tuple[Any, Any]]:
    """A kernel and a client of it that is connected; the kernel ends with the block."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

    options: dict[str, Any] = {}
    if name == NAME:
        options["kernel_spec_manager"] = KernelSpecManager(
            kernel_dirs=[str(kernelspec_source().parent)]
        )
    manager = KernelManager(kernel_name=name, **options)
    manager.start_kernel(env={**_environment(), "XDG_CACHE_HOME": cache})
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _first_result(name: str, source: str, expected: str, cache: str) -> float:
    """Seconds from the start of a kernel to the text of its first result."""
    start = time.monotonic()
    with started(name, cache) as (_, client):
        sent = client.execute(source)
        while True:
            message = client.get_iopub_msg(timeout=60)
            mine = message["parent_header"].get("msg_id") == sent
            if mine and message["msg_type"] == "execute_result":
                took = time.monotonic() - start
                assert message["content"]["data"]["text/plain"] == expected
                return took
            assert not (mine and message["msg_type"] == "error"), message["content"]


def _environment() -> dict[str, str]:
    """Ours, with this source tree first on Python's path."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    found = {**os.environ, "PYTHONPATH": path}
    found.pop("PYTHONDONTWRITEBYTECODE", None)  # modules that were imported once are compiled
    return found
