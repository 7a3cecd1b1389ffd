"""C23: `Compiler.clang_flags=-std=gnu23`, and what is said of its words without that."""

from __future__ import annotations

import pytest

pytest.importorskip("ziglang")

from jitkernel import Session
from jitkernel.errors import CompileError

FLAGS = "-std=gnu23"


@pytest.fixture(scope="module")
def newer():
    with Session(clang_flags=FLAGS, capacity=64 << 20) as session:
        yield session


@pytest.fixture
def s(newer):
    newer.reset()
    yield newer
    newer.check()


def text(s, cell):
    return s.run(cell, "c").text


def test_constants_are_constants_in_later_cells(s):
    assert text(s, "constexpr int n = 7; n + 1") == "(int) 8"
    assert text(s, "int table[n]; sizeof table / sizeof *table") == "(unsigned long) 7"
    assert text(s, "int f(int x) { switch (x) { case n: return 1; } return 0; } f(7)") == "(int) 1"
    assert text(s, "constexpr double pi = 3.125, two = 2; pi * two") == "(double) 6.25"
    assert text(s, "two") == "(double) 2.0"
    assert text(s, "constexpr auto third = 0.25f; third") == "(float) 0.25"
    assert text(s, "third * 2") == "(float) 0.5"
    assert text(s, "static constexpr int t[] = {1, 2, 3}; t[1]") == "(int) 2"
    assert text(s, "t[2]") == "(int) 3"
    assert text(s, "*&n") == "(int) 7"


def test_constants_with_types_of_their_own(s):
    s.run("constexpr struct point { int x, y; } home = {1, 2};", "c")
    assert text(s, "struct point p = home; p.y") == "(int) 2"
    s.run("constexpr struct { int a; } one = {3};", "c")
    assert text(s, "one.a") == "(int) 3"


def test_what_uses_a_constant_follows_it(s):
    s.run("constexpr int n = 7;", "c")
    s.run("int f(void) { return sizeof(char[n]); }", "c")
    s.run("constexpr int n = 9;", "c")
    assert text(s, "f()") == "(int) 9"
    s.undo()
    assert text(s, "f()") == "(int) 7"


def test_a_constant_is_saved(s, tmp_path):
    s.run("constexpr int n = 7;", "c")
    s.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks", clang_flags=FLAGS) as again:
        assert text(again, "n") == "(int) 7"


def test_a_constant_that_is_none_is_refused(s):
    s.run("int f(void) { return 1; }", "c")
    with pytest.raises(CompileError, match="column 19: constexpr variable 'n' must be"):
        s.run("constexpr int n = f();", "c")


def test_null(s):
    assert text(s, "nullptr") == "(nullptr_t) nullptr"
    assert text(s, "int *p = nullptr; p") == "(int *) NULL"


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("bool b;", "#include <stdbool.h>"),
        ("int x = true;", "#include <stdbool.h>"),
        ("thread_local int t;", "#include <threads.h>"),
        ("static_assert(1);", "#include <assert.h>"),
        ("alignas(8) int x;", "#include <stdalign.h>"),
        ("int x = alignof(int);", "#include <stdalign.h>"),
        ("constexpr int n = 3;", "-std=gnu23"),
        ("void *p = nullptr;", "-std=gnu23"),
        ("typeof_unqual(int) x;", "-std=gnu23"),
    ],
)
def test_words_of_a_newer_c_are_known(shared, cell, hint):
    shared.reset()
    with pytest.raises(CompileError, match=hint):
        shared.run(cell, "c")


def test_a_hint_stands_once(shared):
    shared.reset()
    with pytest.raises(CompileError) as raised:
        shared.run("bool a;\nbool b;\nint c = true;", "c")
    assert str(raised.value).count("unknown type name") == 2
    assert str(raised.value).count("#include <stdbool.h>") == 1


def test_no_such_hint_where_the_header_is_there(shared):
    shared.reset()
    shared.run("#include <assert.h>\n#include <stdbool.h>", "c")
    with pytest.raises(CompileError) as raised:
        shared.run("static_assert(sizeof(int) == 8);", "c")
    assert "hint" not in str(raised.value)
    with pytest.raises(CompileError) as raised:
        shared.run("bool b = unknown;", "c")
    assert "hint" not in str(raised.value)
