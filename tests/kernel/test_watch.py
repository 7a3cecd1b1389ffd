"""`%watch` in a notebook: one display a cell, updated in place."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from tests.kernel.conftest import Kernel

LOOP = """
@n = global i64 0
declare i32 @usleep(i32)
define void @loop(i64 %steps, i1 %crash) {
entry:
  br label %again
again:
  %i = phi i64 [ 1, %entry ], [ %j, %again ]
  store volatile i64 %i, ptr @n
  %u = call i32 @usleep(i32 100000)
  %j = add i64 %i, 1
  %more = icmp sle i64 %j, %steps
  br i1 %more, label %again, label %done
done:
  br i1 %crash, label %bad, label %good
bad:
  store volatile i64 0, ptr null
  br label %good
good:
  ret void
}
"""

#: Steps of 0.1 s: the first are enough where whoever looks has a processor then.
SLOWER = (14, 56, 224)


def shown(kernel: Kernel, source: str, cell: str = "a1") -> tuple[list[dict], list[str]]:
    """The displays of a cell, and the types of all its messages; `cell` is its notebook id."""
    message = kernel.client.session.msg(
        "execute_request", {"code": source, "silent": False}, metadata={"cellId": cell}
    )
    kernel.client.shell_channel.send(message)
    messages = kernel.iopub_of(identity := message["header"]["msg_id"])
    kernel.reply_to(identity)
    kinds = [m["msg_type"] for m in messages]
    found = [m["content"] for m in messages if m["msg_type"].endswith("display_data")]
    return found, kinds


def value(content: dict) -> int:
    return int(re.findall(r"^@n +i64 (\d+)", content["data"]["text/plain"], re.M)[0])


def test_the_display_is_updated_in_place(kernel: Kernel) -> None:
    kernel.ok(LOOP)
    assert "@n" in kernel.ok("%watch @n")
    for steps in SLOWER:
        found, kinds = shown(kernel, f"@loop({steps}, false)")
        if "update_display_data" in kinds:
            break
    assert len({c["transient"]["display_id"] for c in found}) == 1
    assert kinds.count("display_data") == 1 and kinds.count("update_display_data") >= 1
    values = [value(c) for c in found]
    assert values == sorted(values) and values[-1] == steps
    assert "into the run" in found[0]["data"]["text/plain"]
    assert "into the run" not in found[-1]["data"]["text/plain"]
    # Not more than twice a second: steps of 0.1 s, each a change that was seen.
    texts = "".join(c["data"]["text/plain"] for c in found)
    times = [float(t) for t in re.findall(r"([\d.]+) s into", texts)]
    assert all(b - a >= 0.45 for a, b in pairwise(times))

    found, kinds = shown(kernel, "@loop(1, true)")
    assert value(found[-1]) == 1 and kinds.index("error") > kinds.index("display_data")

    assert "nothing is watched any more" in kernel.ok("%watch --stop @n")
    assert shown(kernel, "@loop(1, false)")[0] == []


def test_a_watch_in_the_same_cell_has_one_display(kernel: Kernel) -> None:
    kernel.ok(LOOP)
    found, kinds = shown(kernel, "%watch @n\n@loop(2, false)")
    assert kinds.count("display_data") == 1 and value(found[-1]) == 2
    # A client that runs a notebook stores what was shown last.
    _, (output,) = kernel.run("%watch @n\n@loop(1, false)")
    assert value(output) == 1
    kernel.ok("%watch --stop")


def test_a_client_that_prints_what_it_gets_is_given_the_end_alone(kernel: Kernel) -> None:
    """A console names no notebook cell and knows no updates: one display, before the error."""
    kernel.ok(LOOP)
    kernel.ok("%watch @n")
    for source, last in (("@loop(12, false)", 12), ("@loop(3, true)", 3)):
        found, kinds = shown(kernel, source, "")
        assert len(found) == 1 and value(found[0]) == last
        assert "into the run" not in found[0]["data"]["text/plain"]
        assert "update_display_data" not in kinds
        assert "error" not in kinds[: kinds.index("display_data")]
    kernel.ok("%watch --stop")


def on_a_terminal(
    *command: str, cwd: Path, typed: str = "", until: bytes = b"", width: int = 100
) -> str:
    """What a command writes to a terminal of its own; `typed` once it has written `until`."""
    import fcntl
    import pty
    import struct
    import termios

    size = struct.pack("HHHH", 40, width, 0, 0)
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)  # before anybody asks
        os.chdir(cwd)
        # With the environment as Python has it: readline adds its idea of the width behind it,
        # and who runs the tests may have theirs.
        environment = {n: v for n, v in os.environ.items() if n not in ("COLUMNS", "LINES")}
        os.execve(sys.executable, [sys.executable, *command], environment)
    told, waiting = b"", [line.encode() for line in typed.splitlines(keepends=True)]
    seen = 0
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                part = os.read(terminal, 1 << 16)
            except OSError:  # all who had it open are gone
                break
            told += part
        if waiting and told.find(until, seen) >= 0:
            seen = len(told)
            os.write(terminal, waiting.pop(0))
    os.close(terminal)
    os.waitpid(pid, 0)
    return told.decode("utf-8", "replace").replace("\r\n", "\n")


def screen(text: str) -> list[str]:
    """The lines that stand on the terminal at the end: up and clear are all that is used."""
    lines = [""]
    for piece in re.split(r"(\x1b\[\d*[A-Za-z]|\n)", text):
        if piece == "\n":
            lines.append("")
        elif move := re.fullmatch(r"\x1b\[(\d+)F", piece):
            del lines[len(lines) - 1 - int(move[1]) :]
            lines.append("")
        elif not piece.startswith("\x1b"):
            lines[-1] += piece
    return lines


def test_jitkernel_run_writes_over_itself_on_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "watched.ll"
    for steps in SLOWER:
        file.write_text(LOOP + f'%watch @n\n@puts("before")\n@loop({steps}, false)\n')
        told = on_a_terminal("-m", "jitkernel", "run", str(file), cwd=tmp_path)
        if told.count("into the run") >= 2:
            break
    assert told.count("into the run") >= 2, "it is shown while it runs"
    final = screen(told)
    assert sum("into the run" in line for line in final) == 0, "and then written over"
    assert [int(n) for n in re.findall(r"^@n +i64 (\d+)", "\n".join(final), re.M)] == [0, steps]
    assert "before" in final, "what the program prints is never written over"
    # Into a file: the first look and the last, nothing in between.
    done = subprocess.run(
        [sys.executable, "-m", "jitkernel", "run", str(file)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "\x1b" not in done.stdout and "into the run" not in done.stdout
    assert re.findall(r"^@n +i64 (\d+)", done.stdout, re.M) == ["0", str(steps)]


def test_jitkernel_run_on_a_narrow_terminal(tmp_path: Path) -> None:
    """Lines that would be folded are cut: else the next look would not cover the last."""
    file = tmp_path / "watched.ll"
    file.write_text(LOOP + "%watch @n\n@loop(14, false)\n")
    told = on_a_terminal("-m", "jitkernel", "run", str(file), cwd=tmp_path, width=30)
    assert not [line for line in screen(told) if len(line) > 30]
    assert not any("into the run" in line for line in screen(told))


def test_the_console_shows_the_end(tmp_path: Path) -> None:
    (tmp_path / "loop.ll").write_text(LOOP)
    told = on_a_terminal(
        "-m", "jupyter_console", "--kernel=jitkernel", "--simple-prompt", cwd=tmp_path,
        typed="%run loop.ll\n%watch @n\n@loop(9, false)\nexit\n", until=b"]: ",
    )  # fmt: skip
    assert re.findall(r"^@n +i64 (\d+)", told, re.M) == ["0", "9"], told
    assert "into the run" not in told


def test_what_is_refused(kernel: Kernel) -> None:
    kernel.ok(LOOP)
    assert "@loop is a function" in kernel.fails("%watch @loop")
    assert "at least 0.5" in kernel.fails("%watch @n --every 0.1")
    assert "not watched" in kernel.fails("%watch --stop @n")
    assert "Nothing is watched" in kernel.ok("%watch")
    assert "volatile" in kernel.page("%watch?")
