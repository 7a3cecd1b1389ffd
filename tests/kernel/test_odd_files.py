"""Files that a cell names and that would never end: refused, and the kernel goes on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel

LINES = [
    "%run {}", "%link {}", "%lib {}", "%load {}", "%language {}", "%save {}", "%restore {}",
    "%restore --rebuild {}", "%history -f {}", "%cd {}", "%%writefile {}\nwords",
    "%%writefile -a {}\nwords",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "socket", "zero", "stdin"])
def test_what_would_never_end_is_refused(kernel: Kernel, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"{kind}.so.py"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.symlink_to(f"/dev/{kind}")
    path.with_name("cell.ll").symlink_to(path)
    before = os.lstat(path)
    kernel.ok("@g = i32 5")
    for line in LINES:
        named = path.with_name("cell.ll") if line.startswith("%run") else path  # not for its ending
        words = kernel.fails(line.format(named))
        assert words.startswith("UsageError: "), (line, words)
    assert os.lstat(path).st_ino == before.st_ino
    assert kernel.result("@g") == "i32 5"


def test_a_library_that_does_not_end_is_interrupted(kernel: Kernel, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source, path = tmp_path / "endless.c", tmp_path / "endless.so"
    source.write_text(
        "#include <unistd.h>\n"
        '__attribute__((constructor)) static void f(void) { write(1, "in", 2); for (;;); }\n'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    kernel.ok("@h = i32 6")
    identity = kernel.start(f"%lib {path}")
    kernel.wait_output(identity, "in")
    kernel.manager.interrupt_kernel()
    reply = kernel.reply_to(identity)
    assert reply["status"] == "error" and reply["ename"] == "Interrupted"
    kernel.iopub_of(identity)
    assert kernel.result("@h") == "i32 6"
