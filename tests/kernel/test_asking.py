"""Magics that ask: %reset, and %restore of a file that would run code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from jitkernel.kernel.client import outputs_text
from tests.kernel.conftest import Kernel


def asked(kernel: Kernel, source: str, answer: str | None) -> tuple[dict, str]:
    """Run a cell that asks; None presses the stop button.  The reply and what was shown."""
    identity = kernel.client.execute(source, allow_stdin=True)
    request = kernel.client.get_stdin_msg(timeout=60)
    assert request["content"]["prompt"].endswith("(y/[n]) ")
    if answer is None:
        kernel.manager.interrupt_kernel()
    else:
        kernel.client.input(answer)
    reply = kernel.reply_to(identity)
    messages = kernel.iopub_of(identity)
    text = "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")
    return reply, request["content"]["prompt"] + text


@pytest.mark.parametrize("answer", ["n", "", "what", "\x04", None])
def test_reset_is_not_done_without_a_yes(kernel: Kernel, answer: str | None) -> None:
    kernel.ok("@kept = i32 5")
    reply, text = asked(kernel, "%reset", answer)
    assert "cannot be brought back" in text
    assert reply["status"] == ("error" if answer is None else "ok")
    assert ("Nothing was done." in text) == (answer is not None)
    assert kernel.result("@kept") == "i32 5"


@pytest.mark.parametrize("answer", ["y", "Y ", "yes"])
def test_reset_after_a_yes(kernel: Kernel, answer: str) -> None:
    kernel.ok("@gone = i32 5")
    reply, text = asked(kernel, "%reset", answer)
    assert reply["status"] == "ok" and "The session is empty" in text
    kernel.fails("@gone")


@pytest.mark.parametrize(("line", "stdin"), [("%reset -f", True), ("%reset", False)])
def test_reset_that_does_not_ask(kernel: Kernel, line: str, stdin: bool) -> None:
    kernel.ok("@gone = i32 5")
    identity = kernel.client.execute(line, allow_stdin=stdin)
    assert kernel.reply_to(identity)["status"] == "ok"
    kernel.iopub_of(identity)
    kernel.fails("@gone")
    identity = kernel.client.execute("%reset", allow_stdin=True)  # an empty session loses nothing
    assert kernel.reply_to(identity)["status"] == "ok"
    kernel.iopub_of(identity)


def test_restore_asks_before_it_loads_a_library(kernel: Kernel, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source, library, mark = tmp_path / "l.c", tmp_path / "l.so", tmp_path / "ran"
    file = tmp_path / "w.jks"
    source.write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void f(void)"
        f'{{ fclose(fopen("{mark}", "w")); }}\nint forty(void) {{ return 40; }}\n'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    kernel.ok("%reset -f")
    kernel.ok(f"%lib {library}")
    kernel.ok("define i32 @f() {\n  %r = call i32 @forty()\n  ret i32 %r\n}\ndeclare i32 @forty()")
    kernel.ok(f"%save {file}")

    def ran() -> bool:
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found

    assert ran()
    assert f"not loaded, since loading them runs their code: {library}" in kernel.ok(
        f"%restore {file}"
    )
    assert not ran()
    kernel.fails("@f()")
    reply, text = asked(kernel, f"%restore {file}", "n")
    assert reply["status"] == "ok" and "not loaded" in text and str(library) in text
    kernel.ok("@still = i32 1")
    reply, _ = asked(kernel, f"%restore {file}", None)
    assert reply["status"] == "error" and reply["ename"] == "Interrupted"
    assert kernel.result("@still") == "i32 1", "the session is the one before"
    assert not ran()
    reply, text = asked(kernel, f"%restore {file}", "y")
    assert reply["status"] == "ok" and "not loaded" not in text
    assert ran() and kernel.result("@f()") == "i32 40"
    kernel.ok(f"%restore --trust {file}")
    assert ran() and kernel.result("@f()") == "i32 40"
    reply, outputs = kernel.run("%config Session.trust")
    assert "False" in "\n".join(outputs_text(outputs))
