"""The input of children, also where nobody looks at them for a while."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest

from jitkernel.children import give
from jitkernel.languages.c import clang

COUNT = "import sys, time; time.sleep(0.3); print(len(sys.stdin.buffer.read()))"


@pytest.mark.parametrize("size", [0, 1, 1000, 65536, 65537, 5_000_000])
def test_all_of_it_is_given_whenever_somebody_looks(size):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", COUNT], stdin=pipe, stdout=pipe) as child:
        give(child, b"x" * size)
        out = b""
        while not out:
            with suppress(subprocess.TimeoutExpired):
                out, _ = child.communicate(timeout=0.01)
    assert int(out) == size


@pytest.mark.parametrize("size", [10, 5_000_000])
def test_a_child_that_reads_nothing(size):
    with subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE) as child:
        child.wait()
        give(child, b"x" * size)
        assert child.communicate(timeout=60) == (None, None)


def test_a_compiler_is_given_its_text_however_late_it_reads():
    status, out, _ = clang._child([sys.executable, "-c", COUNT], "x" * 300_000, 30.0)
    assert (status, int(out)) == (0, 300_000)
