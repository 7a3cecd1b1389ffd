"""Thread-local variables and ifuncs of exported functions."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

import pytest

from jitkernel import Session, errors

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import compile_c, needs

NEXT = """define i32 @next() {
  %v = load i32, ptr @tl
  %w = add i32 %v, 1
  store i32 %w, ptr @tl
  ret i32 %w
}"""


def _counts(path: Path) -> list[int]:
    """What `next` says in this thread twice, in another, and here again."""
    library = ctypes.CDLL(str(path))
    found = [library.next(), library.next()]
    thread = threading.Thread(target=lambda: found.append(library.next()))
    thread.start()
    thread.join()
    return [*found, library.next()]


@pytest.mark.parametrize("words", ["", "(localexec)"])
def test_every_thread_has_its_own(s: Session, tmp_path: Path, words: str) -> None:
    s.run("@tl = thread_local global i32 7")
    s.run(NEXT)
    s.run(f"@tl = thread_local{words} global i32 40")
    s.export(["next"], tmp_path / "libnext.so")
    assert _counts(tmp_path / "libnext.so") == [41, 42, 41, 43]
    s.export(["next"], tmp_path / "next.ll")
    assert "@tl = internal thread_local" in (tmp_path / "next.ll").read_text()
    with pytest.raises(errors.UsageError, match="@tl cannot leave: it is thread-local"):
        s.export(["tl"], tmp_path / "tl.o")


@needs("gcc")
def test_with_an_object_of_another_compiler(s: Session, tmp_path: Path) -> None:
    text = "extern __thread int tl; int next(void) { return ++tl; }"
    s.run("@tl = thread_local global i32 40")
    for flags in ("-fPIC", "-O2"):
        (tmp_path / "n.o").write_bytes(compile_c(text, flags))
        s.link(str(tmp_path / "n.o"))
        s.run("declare i32 @next()\n@next()")
        s.export(["next"], tmp_path / f"lib{flags}.so")
        assert _counts(tmp_path / f"lib{flags}.so") == [41, 42, 41, 43]


def test_ifuncs(s: Session, tmp_path: Path) -> None:
    s.run("define internal i32 @seven() {\n  ret i32 7\n}\ndefine internal ptr @r() {\n"
          "  ret ptr @seven\n}\n@f = ifunc i32 (), ptr @r\n"
          "define i32 @get() {\n  %v = call i32 @f()\n  ret i32 %v\n}")  # fmt: skip
    s.export(["get"], tmp_path / "libget.so")
    assert ctypes.CDLL(str(tmp_path / "libget.so")).get() == 7
