"""The object cache: the same cells in a session that never saw them and in one that did.

Start from `warm_and_cold`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import Figure, Scale, ratios
from benchmarks.programs import sixty_lines
from jitkernel import Session
from jitkernel.compiler.cache import ObjectCache, fingerprint
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Request
from jitkernel.compiler.worker_process import packages
from jitkernel.kernel.install import NAME, kernelspec_source
from jitkernel.settings import SessionSettings

__all__ = ["empty_cache", "look_up", "start", "through_jupyter", "warm_and_cold"]

_FIRST = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@sq(7)"


@contextmanager
def empty_cache() -> Iterator[str]:
    """An empty folder for caches of our own: the user's stays as it is."""
    saved = os.environ.get("XDG_CACHE_HOME")
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            yield folder
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if saved is not None:
                os.environ["XDG_CACHE_HOME"] = saved


def _run(count: int, cached: bool = True) -> float:
    """Seconds that `count` cells take in a new session that is ready."""
    with Session(object_cache=cached, spare=False) as s:
        assert s.run(_FIRST).value == 49
        start = time.perf_counter()
        for i in range(count):
            s.run(sixty_lines(f"f{i}", i))
        took = time.perf_counter() - start
        assert s.memory()["object_cache"] is not None or not cached
    return took


def warm_and_cold(scale: Scale) -> Iterator[Figure]:
    """200 cells of about 60 lines at -O2, through the library."""
    count = scale.pick(10 if scale.block < 10 else 40, 200)
    cold, warm, without = [], [], []
    for _ in range(scale.pick(1, 3)):
        with empty_cache() as folder:
            cold.append(_run(count))
            warm.append(_run(count))
            size = sum(p.stat().st_blocks * 512 for p in Path(folder).rglob("*") if p.is_file())
        without.append(_run(count, cached=False))
    yield Figure(f"{count} cells of 60 lines, cache cold", median(cold) * 1e3, "ms")
    yield Figure("the same without a cache", median(without) * 1e3, "ms")
    yield Figure("the same, cache warm", median(warm) * 1e3, "ms")
    yield Figure("warm / cold", median(ratios(warm, cold)), "x", 0.15)
    yield Figure("cold / without a cache", median(ratios(cold, without)), "x")
    yield Figure("on disk, per cell", size / count, "bytes")


def look_up(scale: Scale) -> Iterator[Figure]:
    """A hit, which needs no worker."""
    count = scale.pick(50, 500)
    requests = [Request(sixty_lines(f"f{i}", i)) for i in range(count)]
    with TemporaryDirectory() as folder:
        alone = SessionSettings(spare=False)
        cache = partial(ObjectCache, folder, 256 << 20, fingerprint(packages()[0]))
        with CompilerPool(alone, cache=cache()) as pool:
            pool.compile_many(requests)
        with CompilerPool(alone, cache=cache()) as pool:
            times = []
            for request in requests:
                start = time.perf_counter_ns()
                found = pool.compile(request)
                times.append(time.perf_counter_ns() - start)
                assert found.cached
    times.sort()
    yield Figure("a module that was compiled before", times[count // 2] / 1e3, "us", 150.0)
    yield Figure("  p99", times[count * 99 // 100] / 1e3, "us")


def start(scale: Scale) -> Iterator[Figure]:
    """From `Session()` to the first value: runtime, cell and thunk are found."""

    def first(cached: bool) -> float:
        begin = time.perf_counter()
        with Session(object_cache=cached, spare=False) as s:
            assert s.run(_FIRST).value == 49
            return time.perf_counter() - begin

    rounds = scale.pick(3, 15)
    with empty_cache():
        first(True)
        pairs = [(first(True), first(False)) for _ in range(rounds)]
    found, compiled = zip(*pairs, strict=True)
    yield Figure("session to first value, cache warm", median(found) * 1e3, "ms")
    yield Figure("the same without a cache", median(compiled) * 1e3, "ms")
    yield Figure("warm / without", median(ratios(found, compiled)), "x")


def through_jupyter(scale: Scale) -> Iterator[Figure]:
    """Warm cells in a notebook, beside ipykernel with cells that do nothing."""
    count = scale.pick(10 if scale.block < 10 else 40, 200)
    ours = [sixty_lines(f"f{i}", i) for i in range(count)]
    trivial = [f"x = {i}" for i in range(count)]
    with empty_cache():
        _cells(NAME, ours)
        rounds = [(_cells(NAME, ours), _cells("python3", trivial)) for _ in range(scale.pick(1, 3))]
        library = _run(count) / count
    cold = median(median(a) for a, _ in rounds)
    theirs = median(median(b) for _, b in rounds)
    yield Figure(f"Jupyter, {count} warm cells of 60 lines: each", cold * 1e6, "us")
    yield Figure("ipykernel, as many trivial cells: each", theirs * 1e6, "us")
    yield Figure("  the warm cell by the library", library * 1e6, "us")
    against = [(median(a) - library) / median(b) for a, b in rounds]
    yield Figure("our overhead per warm cell / ipykernel's", median(against), "x", 1.0)


def _cells(name: str, sources: list[str]) -> list[float]:
    """Seconds from each request to its reply and idle."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

    from jitkernel.kernel.client import run_cell

    options: dict[str, Any] = {}
    if name == NAME:
        folders = [str(kernelspec_source().parent)]
        options["kernel_spec_manager"] = KernelSpecManager(kernel_dirs=folders)
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    manager = KernelManager(kernel_name=name, **options)
    manager.start_kernel(env={**os.environ, "PYTHONPATH": path})
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        found = []
        for source in [sources[0], *sources]:
            begin = time.perf_counter()
            reply, _ = run_cell(client, source, timeout=60)
            found.append(time.perf_counter() - begin)
            assert reply["status"] == "ok", reply
        return found[1:]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
