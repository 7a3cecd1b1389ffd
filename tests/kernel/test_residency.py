"""%budget, %keep and %hibernate through a real kernel."""

from __future__ import annotations

import queue
import re
import time
from contextlib import suppress

import pytest

from tests.kernel.conftest import Kernel

SQ = "define i32 @sq(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}"
TWICE = "define i32 @twice(i32 %x) {\n  %y = call i32 @sq(i32 %x)\n  ret i32 %y\n}"


@pytest.fixture(autouse=True)
def fresh(kernel: Kernel) -> None:
    kernel.ok("%budget none")
    kernel.ok("%reset")


def test_hibernate_shows_and_comes_back(kernel: Kernel) -> None:
    kernel.ok("%opt --inline=off")
    kernel.ok(SQ)
    kernel.ok(TWICE)
    assert re.search(r"the code of cell \d+ left memory", kernel.ok("%hibernate @sq"))
    assert re.search(r"hibernated +@sq", kernel.ok("%cells"))
    assert "hibernated cells" in kernel.ok("%budget")
    assert "i32 49" in kernel.ok("@twice(7)")
    assert "hibernated" not in kernel.ok("%cells")
    kernel.ok("%hibernate sq")
    assert "imul" in kernel.ok("%asm @sq")


def test_budget_and_keep(kernel: Kernel) -> None:
    kernel.ok(SQ)
    kernel.ok(TWICE)
    assert "stays in memory" in kernel.ok("%keep @sq")
    text = kernel.ok("%budget 16")
    assert "at most 16" in text
    assert "%keep holds it" in kernel.ok("%budget")
    assert "%keep holds it" in kernel.fails("%hibernate @sq")
    assert "may leave memory again" in kernel.ok("%keep @sq --off")
    assert "i32 9" in kernel.ok("@twice(3)")
    assert re.search(r"Session\.budget +16 ", kernel.ok("%config Session.budget"))
    assert "no limit" in kernel.ok("%budget none")


@pytest.mark.parametrize("line", ["%budget many", "%budget -5", "%keep 99", "%hibernate"])
def test_wrong_words(kernel: Kernel, line: str) -> None:
    kernel.fails(line)


def test_a_thread_gets_its_code_while_no_cell_runs(kernel: Kernel) -> None:
    kernel.ok("%opt --inline=off")
    kernel.ok(SQ)
    kernel.ok(
        '@done = constant [7 x i8] c"got %d\\00"\n@newline = constant [1 x i8] zeroinitializer\n'
        "@go = global i32 0\ndefine ptr @body(ptr %p) {\n  br label %rest\nrest:\n"
        "  %z = call i32 @usleep(i32 1000)\n  %g = load volatile i32, ptr @go\n"
        "  %on = icmp eq i32 %g, 0\n  br i1 %on, label %rest, label %work\nwork:\n"
        "  %v = call i32 @sq(i32 9)\n  %l = call i32 (ptr, ...) @printf(ptr @done, i32 %v)\n"
        "  %n = call i32 @puts(ptr @newline)\n  %f = call i32 @fflush(ptr null)\n  ret ptr null\n}\n"
        "@thread = global i64 0\ndeclare i32 @usleep(i32)\ndeclare i32 @fflush(ptr)\n"
        "declare i32 @pthread_create(ptr, ptr, ptr, ptr)"
    )
    kernel.ok("%hibernate @sq")
    kernel.ok("@pthread_create(@thread, null, @body, null)")
    assert "no code leaves memory" in kernel.ok("%budget")
    text = kernel.ok("@go = i32 1")
    end = time.monotonic() + 60
    while "got 81" not in text and time.monotonic() < end:
        with suppress(queue.Empty):
            message = kernel.client.get_iopub_msg(timeout=0.5)
            text += message["content"].get("text", "")
    assert "got 81" in text
    assert re.search(r"live +@sq", kernel.ok("%cells"))
