"""Objects of code that was instrumented for a runtime of its own: what is said of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.linker.instrumented import remedy

SOURCE = "int f(int x) { int a[4] = {0}; a[x & 3] = x; return x > 2 ? x + a[0] : 1; }"


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--coverage", "with --coverage"), ("-fprofile-generate", "-fprofile-generate"),
        ("-fsanitize=address", "-fsanitize=address"), ("-fsanitize=thread", "-fsanitize=thread"),
    ],
)  # fmt: skip
def test_an_instrumented_object_is_refused_with_what_to_do(
    flag: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    command = ["gcc", flag, "-c", "f.c"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip(f"this gcc has no {flag}")
    with Session() as s:
        with pytest.raises(JitError, match=f"{words}.*compile it without"):
            s.link(tmp_path / "f.o")
        assert not s.cells
        subprocess.run(["gcc", "-c", "f.c"], cwd=tmp_path, check=True)
        s.link(tmp_path / "f.o")
        s.run("declare i32 @f(i32)")
        assert s["f"](3) == 3


def test_other_names_are_nothing_special() -> None:
    assert not remedy("gcov_dump") and not remedy("__assert_fail") and remedy("__asan_init")
