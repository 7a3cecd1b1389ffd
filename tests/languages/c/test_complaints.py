"""What is said of a cell that clang, or the cutting of it, refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("ziglang")

from jitkernel import Session
from jitkernel.errors import CompileError


@pytest.fixture(scope="module")
def session():
    with Session(capacity=64 << 20) as session:
        yield session


@pytest.fixture
def s(session):
    session.reset()
    yield session
    session.check()


def run(s, cell):
    return s.run(cell, "c")


@pytest.mark.parametrize(
    ("cell", "place", "mark"),
    [
        ('int f(void) {\n  puts("hello);\n  return 0;\n}', "line 2, column 8", "'\"'"),
        ('int f(void) {\n  puts("{ hello);\n  return 0;\n}', "line 2, column 8", "'\"'"),
        ('int f(void) {\n  puts("(" hello");\n  return 0;\n}', "line 2, column 17", "'\"'"),
        ("char c = 'ab;", "line 1, column 10", "'"),
        ("char c = 'a(;\nint x = (3;", "line 1, column 10", "'"),
        ('puts("x);\nint k = nope;', "line 1, column 6", "'\"'"),
    ],
)
def test_a_quotation_mark_that_nothing_closes_is_told(s, cell, place, mark):
    run(s, "#include <stdio.h>")
    with pytest.raises(CompileError) as raised:
        run(s, cell)
    said = str(raised.value)
    assert said.startswith(f"{place}: missing terminating {mark} character")
    assert said.count("line ") == 1 and "expected" not in said and "more" not in said


def test_a_quotation_mark_that_is_no_code_is_not_told(s):
    with pytest.raises(CompileError, match=r"line 4, column 6: unterminated '\('"):
        run(s, "#if 0\nit isn't\n#endif\nint f( {")
    with pytest.raises(CompileError, match="line 2, column 9: use of undeclared identifier 'don'"):
        run(s, "#define Q don't\nint y = Q;")


def test_the_function_that_was_meant_is_told(s):
    run(s, "#include <stdio.h>")
    with pytest.raises(CompileError, match="undeclared function 'pritnf'") as raised:
        run(s, 'pritnf("x");')
    assert "; did you mean 'printf'?" in str(raised.value)


def test_a_header_that_is_gone_is_told_with_what_to_do(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.h").write_text("#define K 1\n")
    number = run(s, '#include "h.h"').cell.number
    (tmp_path / "h.h").unlink()
    with pytest.raises(CompileError, match=r"'h\.h' file not found") as raised:
        run(s, "1 + 1")
    assert f"\nhint: put the file there again, or %evict {number}" in str(raised.value)
    s.evict(number)
    assert run(s, "1 + 1").text == "(int) 2"


@pytest.mark.parametrize(
    "cell", ['\n#warning "x"', '\n#if 1\n#warning "x"\n#endif', "\n#warning x"]
)
def test_a_warning_that_is_all_of_a_cell_is_shown(s, cell):
    (note,) = s.run(cell, "c").notes
    line = cell[: cell.index("#warning")].count("\n") + 1
    assert note.startswith(f"warning: line {line}, column 2:") and not list(s.cells)


def test_a_command_of_the_shell_is_told_where_it_goes(s):
    for cell, hinted in (("\n!ls -l", True), ("!ls", True), ("1 + !ls", False), ("!(ls)", False)):
        with pytest.raises(CompileError, match="undeclared identifier 'ls'") as told:
            run(s, cell)
        hint = f"write %%llvm and {cell.strip()} in the line below"
        assert str(told.value).count(hint) == hinted
        assert str(told.value).count("for the shell") == hinted
    assert run(s, "int ls;\n").cell and run(s, "!ls").text == "(int) 1"
