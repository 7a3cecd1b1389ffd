"""%save and %restore, the file of a session, and what a restarted kernel offers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel, gone_within

COUNT = """@n = global i32 0
define i32 @bump() {
  %a = load i32, ptr @n
  %b = add i32 %a, 1
  store i32 %b, ptr @n
  ret i32 %b
}"""
KEEP = "--Session.autosave=True"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Starts kernels in a folder of the test's own."""
    kernels: list[Kernel] = []

    def make(*arguments: str) -> Kernel:
        kernels.append(Kernel("--Arena.capacity=64M", *arguments, cwd=str(tmp_path)))
        return kernels[-1]

    yield make
    for kernel in kernels:
        kernel.stop()


def test_save_and_restore(start: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = start()
    kernel.ok(COUNT)
    assert kernel.result("@bump()") == "i32 1"
    assert "1 cell saved to work.jks, " in kernel.ok("%save work.jks")
    assert (tmp_path / "work.jks").exists()
    before = kernel.processes
    assert kernel.result("@bump()") == "i32 2"
    kernel.ok("define i32 @later() {\n  ret i32 4\n}")
    assert "restored 1 cell, saved" in kernel.ok("%restore work.jks")
    assert kernel.result("@bump()") == "i32 2"
    assert "not defined" in kernel.fails("@later")
    gone = before - kernel.processes
    assert gone and not gone_within(gone, 60), "the session before ends"
    assert "cell" in kernel.ok("%cells") and "@bump" in kernel.ok("%symbols")


def test_export(start: Callable[..., Kernel], tmp_path: Path) -> None:
    kernel = start()
    kernel.ok(COUNT)
    text = kernel.ok("%export @bump -o bump.o")
    assert "@bump written to bump.o, " in text and "with their present values: @n" in text
    assert (tmp_path / "bump.o").read_bytes()[:4] == b"\x7fELF"
    assert "with their first values: @n" in kernel.ok("%export bump --first -o bump.h")
    assert "%export needs names and a file" in kernel.fails("%export @bump")
    assert "the ending says what is written" in kernel.fails("%export @bump -o bump")


def test_restore_stands_alone(start: Callable[..., Kernel]) -> None:
    kernel = start()
    kernel.ok(COUNT)
    kernel.ok("%save w.jks")
    assert "%restore stands alone in its cell" in kernel.fails("%restore w.jks\n@bump()")
    assert "%restore stands alone in its cell" in kernel.fails("@bump()\n%restore w.jks")
    assert "No such file" in kernel.fails("%restore other.jks")
    assert "needs a FILE" in kernel.fails("%restore")
    assert "no session is kept" in kernel.fails("%restore --last")
    assert "not a session's file" in kernel.fails("!echo text > t.txt\n%save t.txt")
    assert "Go on with a session" in kernel.page("%restore?")
    assert kernel.result("@bump()") == "i32 2"


def test_a_restarted_kernel_offers_the_last_session(start: Callable[..., Kernel]) -> None:
    first = start(KEEP)
    assert "last session" not in first.ok(COUNT)
    assert first.result("@bump()") == "i32 1"
    first.stop()
    second = start(KEEP)
    shown = second.ok("@m = global i32 5")
    assert "the last session (1 cell, saved" in shown
    assert "is kept: %restore --last" in shown
    assert "last session" not in second.ok("@m")
    assert "restored 1 cell" in second.ok("%restore --last")
    assert second.result("@bump()") == "i32 2"
    os.kill(second.pid, signal.SIGKILL)
    third = start(KEEP)
    assert "the last session (1 cell" in third.ok("%cells")
    assert "restored 1 cell" in third.ok("%restore --last")
    assert third.result("@bump()") == "i32 3"


def test_two_kernels_of_one_folder_keep_apart(start: Callable[..., Kernel]) -> None:
    one, other = start(KEEP), start(KEEP)
    one.ok(COUNT)
    other.ok("@m = global i32 5")
    assert one.result("@bump()") == "i32 1"
    assert other.result("@m") == "i32 5"
    one.stop()
    other.stop()
    third = start(KEEP)
    assert "the last session (1 cell" in third.ok("%cells"), "the one that was written last"
    third.ok("%restore --last")
    assert third.result("@m") == "i32 5"


def test_a_kernel_goes_on_with_a_file(start: Callable[..., Kernel], tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    first = start(f"--session={path}")
    first.ok(COUNT)
    first.ok("@bump()")
    first.stop()
    second = start(f"--session={path}")
    assert "own.jks goes on: 1 cell, saved" in second.ok("%cells")
    assert second.result("@bump()") == "i32 2"
    assert "in use by another session" in start().fails(f"%restore {path}")


def test_files_run_with_a_session(tmp_path: Path) -> None:
    (tmp_path / "define.ll").write_text(COUNT)
    (tmp_path / "call.ll").write_text("@bump()")

    def run(name: str) -> str:
        command = [sys.executable, "-m", "jitkernel", "run", name, "--session", "w.jks"]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    assert [run("define.ll"), run("call.ll"), run("call.ll")] == ["", "i32 1\n", "i32 2\n"]
