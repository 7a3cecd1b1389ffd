"""Libraries by name: `-lNAME`, as a linker finds them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel import Session, errors
from jitkernel.linker.libraries import find_library, folders

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import compile_c, needs, tool


@pytest.fixture
def tree(tmp_path):
    def make(*files: str) -> list[str]:
        for file in files:
            path = tmp_path / file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"\x7fELF")
        return [str(tmp_path / f) for f in ("one", "two")]

    return make


@pytest.mark.parametrize(
    "files, name, wanted",
    [
        (["one/libx.so", "one/libx.a"], "-lx", "one/libx.so"),
        (["one/libx.a", "two/libx.so"], "-lx", "one/libx.a"),  # the folders' order comes first
        (["two/libx.so.9", "two/libx.so.10.1", "one/libx.so.2"], "-lx", "two/libx.so.10.1"),
        (["two/libx.so.9", "two/libx.a"], "-lx", "two/libx.a"),
        (["one/libx.so", "two/x.o"], "-l:x.o", "two/x.o"),
    ],
)
def test_which_file_it_is(tree, tmp_path, files, name, wanted):
    assert find_library(name, tree(*files)) == [str(tmp_path / wanted)]


def test_a_linkers_script_names_others(tree, tmp_path):
    where = tree("one/libx.so.1", "two/libx_nonshared.a", "two/liby.so")
    script = f"/* GNU ld script */ OUTPUT_FORMAT(elf64-x86-64)\nGROUP ( {tmp_path}/one/libx.so.1"
    script += f" {tmp_path}/two/libx_nonshared.a AS_NEEDED ( -ly /lib64/ld-linux-x86-64.so.2 ) )"
    (tmp_path / "two/libx.so").write_text(script)
    assert find_library("-lx", where[1:]) == [
        str(tmp_path / "one/libx.so.1"), str(tmp_path / "two/liby.so"),
    ]  # fmt: skip
    (tmp_path / "two/libempty.so").write_text("nothing")
    with pytest.raises(errors.UsageError, match="neither a library nor a linker's script"):
        find_library("-lempty", where)


def test_what_is_nowhere_is_told_with_the_folders(tree):
    with pytest.raises(
        errors.UsageError, match=r"no folder has libnone\.so or libnone\.a; .*one, "
    ):
        find_library("-lnone", tree())


def test_folders_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("LIBRARY_PATH", f"{tmp_path}/a::{tmp_path}/b")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/c")
    assert folders()[:3] == [f"{tmp_path}/{n}" for n in "abc"]


@needs("gcc", "ar")
def test_an_archive_is_linked_where_there_is_no_other(monkeypatch, tmp_path):
    (tmp_path / "a.o").write_bytes(compile_c("int only_here(void) { return 8; }"))
    tool("ar", "rcs", str(tmp_path / "libonly.a"), str(tmp_path / "a.o"))
    monkeypatch.setenv("LIBRARY_PATH", str(tmp_path))
    with Session() as s:
        s.run(
            "declare i32 @only_here()\ndefine i32 @f() {\n %r = call i32 @only_here()\n ret i32 %r\n}"
        )
        assert s.load("-lonly") == ["only_here"]
        assert s.run("@f()").value == 8
        s.undo()
        with pytest.raises(errors.UndefinedSymbol):
            s.run("@f()")
        s.check()
