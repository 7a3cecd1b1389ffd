"""A kernel process keeps nothing of cells, outputs, faults and magics that are over.

It counts its own objects and the bytes of its heap when it gets a signal: see `live`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec

sys.path.insert(0, str(Path(__file__).parents[1]))

from live import HEAP
from live import __file__ as LIVE

from jitkernel.kernel.client import kernel_manager
from jitkernel.kernel.magics import MAGICS
from tests.kernel.conftest import Kernel

BOUNDED = {
    "jitkernel.session.report.memory.Sample", "jitkernel.procfs.Mapped",
    "weakref.ReferenceType", "builtins.range",  # of texts of cells that have no names
    "builtin_function_or_method _destroy of ReferenceType",  # of those in caches of abc
}  # fmt: skip
BASE = """define i32 @sq(i32 %x) {
  %r = mul i32 %x, %x
  ret i32 %r
}
@counter = global i32 0"""
#: These end the process's session, wait, or are long.
LEFT_OUT = {"restore", "check", "exercises", "config"}


class Counted(Kernel):
    """A kernel that tells what it holds."""

    def __init__(self, folder: Path):
        self.file = folder / "live.json"
        manager = kernel_manager("counted", [])
        manager._kernel_spec = KernelSpec(
            argv=[sys.executable, "-P", LIVE, "kernel", "-f", "{connection_file}"],
            display_name="counted",
        )
        env = os.environ | HEAP | {"JITKERNEL_TEST_LIVE": str(self.file)}
        self.begin(manager, cwd=str(folder), env=env)

    def look(self) -> dict[str, Any]:
        self.run("%gc --undo")
        self.file.unlink(missing_ok=True)
        time.sleep(0.7)  # what is put off until nothing runs
        os.kill(self.pid, signal.SIGUSR1)
        while not self.file.exists():
            time.sleep(0.02)
        return json.loads(self.file.read_text())


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    kernel = Counted(tmp_path)
    yield kernel
    kernel.stop()


def cells(i: int) -> list[str]:
    return [
        f"@sq({i})", f'@puts("text {i}")', f"@counter = {i}", "@counter", "%v = load volatile i32, ptr null",
        f"%x = ad i32 {i}", f"define i32 @h() {{\n  ret i32 {i}\n}}", f"%y = add i32 {i}, 1", "@sq?", "!true",
        "%nosuch", f"@nobody{i % 7}()",
    ]  # fmt: skip


def grown(counted: Counted, rounds: int, do: Any) -> tuple[dict[str, int], float]:
    before = counted.look()
    for i in range(rounds):
        do(i)
    after = counted.look()
    kinds = {
        k: n - before["types"].get(k, 0)
        for k, n in after["types"].items()
        if k not in BOUNDED and n - before["types"].get(k, 0) > 0.7 * rounds
    }
    return kinds, (after["bytes"] - before["bytes"]) / rounds


def test_cells_of_every_kind_leave_no_object(counted):
    counted.run(BASE)

    def do(i: int) -> None:
        for source in cells(i):
            counted.run(source)

    for i in range(25):
        do(i)
    kinds, _ = grown(counted, 20, do)
    assert kinds == {}


@pytest.mark.slow
def test_magics_leave_no_object(counted):
    counted.run(BASE)
    lines = [
        m.example or f"%{m.name}"
        for m in MAGICS
        if m.name not in LEFT_OUT and m.form != "cell" and not m.alone
    ]

    def do(i: int) -> None:
        counted.run(BASE)
        for line in [*lines, "%break --delete all"]:
            counted.run(line)

    for i in range(8):
        do(i)
    kinds, _ = grown(counted, 12, do)
    assert kinds == {}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_twenty_thousand_cells(counted, capsys):
    counted.run(BASE)

    def do(i: int) -> None:
        every = [*cells(i), f"@nobody{i}(3)", f"%t = type {{ [{i % 9} x i8] }}", "%asm sq"]
        counted.run(every[i % len(every)])

    for i in range(5000):
        do(i)
    kinds, each = grown(counted, 20_000, do)
    with capsys.disabled():
        print(f"\nkernel: {each:.1f} bytes a cell over 20,000 cells")
    assert each <= 16 and kinds == {}
