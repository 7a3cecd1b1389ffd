"""Interrupts: by signal and by message, in every kind of work, and while nothing runs."""

from __future__ import annotations

import time

import pytest

from tests.busy import strain, within
from tests.kernel.conftest import Kernel

SPIN = "spin_start:\n  br label %spin\nspin:\n  br label %spin"
# A function that LLVM needs long for.
SLOW_COMPILE = (
    "define void @slow() {\n"
    + "".join(
        f"  %a{i} = load volatile i64, ptr null\n  %b{i} = mul i64 %a{i}, %a{max(i - 1, 0)}\n"
        f"  %c{i} = xor i64 %b{i}, %b{max(i - 2, 0)}\n"
        for i in range(40_000)
    )
    + "  ret void\n}"
)

WORK = {
    "endless loop": SPIN,
    "endless output": (
        "start:\n  br label %again\nagain:\n  %n = call i32 @puts(ptr @text)\n  br label %again"
    ),
    "sleep in libc": "@sleep(1000)",
    "shell command": "!sleep 1000",
    "a shell command that ignores SIGINT": "!trap '' INT; sleep 1000",
    "compile": SLOW_COMPILE,
    "blocked read": "@getchar()",
    "timing loop": "%timeit @sleep(1)",
    "timing loop of other code": "%timeit --language kaleidoscope for i = 1, 1 in i",
    "a language that reads on and on": "%%endless\non and on",
}
ENDLESS = """
from jitkernel.languages import Language, plan
def read(source, known):
    while "on" in source:
        pass
    return plan(source)
LANGUAGE = Language("endless", read)
"""


def by_signal(kernel: Kernel) -> None:
    kernel.manager.interrupt_kernel()


def by_message(kernel: Kernel) -> None:
    message = kernel.client.session.msg("interrupt_request", {})
    kernel.client.control_channel.send(message)
    reply = kernel.client.get_control_msg(timeout=60)
    assert reply["msg_type"] == "interrupt_reply" and reply["content"]["status"] == "ok"


@pytest.fixture(scope="module", autouse=True)
def text(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("languages") / "endless_language.py"
    file.write_text(ENDLESS)
    kernel.ok(f"%language {file}")
    kernel.ok('@text = global [7 x i8] c"output\\00"\n@kept = global i64 5')


@pytest.mark.parametrize("how", [by_signal, by_message], ids=["signal", "message"])
@pytest.mark.parametrize("work", WORK, ids=lambda w: w.replace(" ", "-"))
def test_interrupt(kernel: Kernel, work: str, how) -> None:
    stdin = work == "blocked read"

    def taken() -> float:
        identity = kernel.start(WORK[work], allow_stdin=stdin)
        if stdin:
            kernel.client.get_stdin_msg(timeout=60)
        else:
            kernel.begun(identity)
            time.sleep(0.4)
        start = time.monotonic()
        how(kernel)
        reply = kernel.reply_to(identity)
        end = time.monotonic()
        kernel.iopub_of(identity)
        assert reply["status"] == "error"
        assert reply["ename"] == "Interrupted"
        assert kernel.result("@kept") == "i64 5"
        return end - start

    within(taken, 3 * strain())  # not after the grace period, and the next one


def test_an_interrupt_while_idle_is_harmless(kernel: Kernel) -> None:
    for how in (by_signal, by_message, by_signal):
        how(kernel)
        time.sleep(0.2 * strain())  # nobody answers a signal; one that is late is for the cell
        assert kernel.result("@kept") == "i64 5"


def test_an_interrupt_before_the_work_began_counts(kernel: Kernel) -> None:
    """Interrupts at many moments after a cell was sent; it always ends, the kernel always lives."""
    for pause in (0.0, 0.001, 0.003, 0.01, 0.03):
        identity = kernel.start(SPIN)
        time.sleep(pause)
        for _ in range(40):
            by_signal(kernel)
            time.sleep(0.05)
            try:
                reply = kernel.reply_to(identity, timeout=0.2)
                break
            except Exception:
                continue
        else:
            pytest.fail("the loop was never interrupted")
        assert reply["ename"] == "Interrupted"
        kernel.iopub_of(identity)
        assert kernel.result("@kept") == "i64 5"


def test_cell_timeout(kernel: Kernel) -> None:
    kernel.ok("%config Executor.cell_timeout=0.3")
    try:

        def taken() -> float:
            start = time.monotonic()
            assert "cell_timeout" in kernel.fails(SPIN)
            return time.monotonic() - start

        within(taken, 3 * strain())
    finally:
        kernel.ok("%config Executor.cell_timeout=0")


#: The interrupt ends what they wait for, and they then end by themselves.
TAILS = {
    "a void function's last call": "@nap()\n@after = i32 1",
    "the last statement": "@after = i32 0\n@nap()",
    "a constructor": "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
    "[{ i32, ptr, ptr } { i32 1, ptr @nap, ptr null }]\n@after = i32 1",
    "a cell's own magic": "%time @nap()\n@after = i32 1",
}


@pytest.mark.parametrize("work", TAILS, ids=lambda w: w.replace(" ", "-"))
def test_an_interrupt_that_meets_a_tail_call_ends_the_cell(kernel: Kernel, work: str) -> None:
    kernel.ok("define void @nap() {\n  %r = tail call i32 @sleep(i32 1000)\n  ret void\n}")
    kernel.ok("@after = i32 0")
    first = kernel.start(TAILS[work])
    second = kernel.start("@kept = i32 9")
    kernel.begun(first)
    kernel.reached()
    time.sleep(0.5)
    by_signal(kernel)
    assert kernel.reply_to(first)["ename"] == "Interrupted"
    assert kernel.reply_to(second)["status"] == "aborted"
    kernel.iopub_of(second)
    assert kernel.result("@after") == "i32 0" and kernel.result("@kept") == "i64 5"


def test_cells_queued_behind_an_interrupted_one_are_aborted(kernel: Kernel) -> None:
    first = kernel.start(SPIN)
    second = kernel.start("@kept")
    kernel.begun(first)
    kernel.reached()
    time.sleep(0.3)
    by_signal(kernel)
    assert kernel.reply_to(first)["ename"] == "Interrupted"
    assert kernel.reply_to(second)["status"] == "aborted"
    kernel.iopub_of(second)
