"""What nobody defines yet: stubs that raise, later definitions, names that libraries have too."""

from __future__ import annotations

import pytest
from programs import SQ, caller, constant

from jitkernel.errors import CompileError, TypeMismatch, UndefinedSymbol
from jitkernel.session import CellOptions

EVEN = """declare i1 @odd(i32)
define i1 @even(i32 %n) {
  %z = icmp eq i32 %n, 0
  br i1 %z, label %yes, label %more
more:
  %m = sub i32 %n, 1
  %r = call i1 @odd(i32 %m)
  ret i1 %r
yes:
  ret i1 true
}"""


def test_a_declared_function_that_nobody_defines_raises_when_it_is_called(s):
    number = s.run(EVEN).cell.number
    assert s.call("even", 0) is True, "what does not reach it works"
    with pytest.raises(UndefinedSymbol) as caught:
        s.call("even", 3)
    error = caught.value
    assert error.symbol == "odd"
    assert "@odd" in str(error) and "nobody defines" in str(error)
    assert "@even" in error.where and f"cell {number}" in error.where
    assert "line 7: %r = call i1 @odd(i32 %m)" in str(error)


def test_a_pointer_to_an_undefined_function(s):
    s.run(
        "declare i32 @later()\n@p = global ptr @later\ndefine i32 @go() {\n  %f = load ptr, ptr @p\n  %q = call i32 %f()\n  %r = add i32 %q, 0\n  store volatile i32 %r, ptr @n\n  ret i32 %r\n}\n@n = global i32 0"
    )
    with pytest.raises(UndefinedSymbol) as caught:
        s.call("go")
    assert caught.value.symbol == "later" and "@go" in caught.value.where
    s.run(constant("later", 5))
    assert s.call("go") == 5


def test_a_tail_call_of_an_undefined_function(s):
    s.run(
        "declare i32 @later()\ndefine i32 @go() {\n  %r = tail call i32 @later()\n  ret i32 %r\n}"
    )
    with pytest.raises(UndefinedSymbol, match="@later"):
        s.call("go")
    s.run(constant("later", 5))
    assert s.call("go") == 5


def test_a_weak_undefined_variable_is_null(s):
    r = s.run(
        "@maybe = extern_weak global i32\ndefine i1 @has() {\n  %c = icmp ne ptr @maybe, null\n  ret i1 %c\n}\n@has()"
    )
    assert r.value is False


def test_what_is_not_declared_is_a_compile_error_with_a_hint(s):
    s.run(SQ)
    with pytest.raises(CompileError) as caught:
        s.run("define i32 @f() {\n  %r = call i32 @sqq(i32 1)\n  ret i32 %r\n}")
    assert "line 2, column 17" in str(caught.value) and "@sq" in str(caught.value)


# -- the session's own names that libc has too -----------------------------------------------------

POW = "define double @pow(double %x, double %y) {\n  ret double 42.0\n}"
STRLEN = "define i64 @strlen(ptr %s) {\n  ret i64 77\n}"
FABS = "define double @fabs(double %x) {\n  ret double 5.0\n}"


def test_a_library_name_defined_here_is_not_folded_as_the_librarys(s):
    r = s.run(
        POW + "\n" + STRLEN + "\n" + FABS + "\n"
        '@t = constant [4 x i8] c"abc\\00"\n'
        "define double @a() {\n  %r = call double @pow(double 2.0, double 3.0)\n  ret double %r\n}\n"
        "define i64 @b() {\n  %r = call i64 @strlen(ptr @t)\n  ret i64 %r\n}\n"
        "define double @c() {\n  %r = call double @fabs(double -1.0)\n  ret double %r\n}"
    )
    assert r.cell is not None
    assert (s.call("a"), s.call("b"), s.call("c")) == (42.0, 77, 5.0)
    assert s.call("pow", 2.0, 3.0) == 42.0


def test_a_cell_that_uses_it_later_calls_the_sessions(s):
    s.run(POW + "\n" + STRLEN)
    s.run(
        "define double @a() {\n  %r = call double @pow(double 2.0, double 3.0)\n  ret double %r\n}"
    )
    s.run(
        'declare i64 @strlen(ptr)\n@t = private constant [4 x i8] c"abc\\00"\n'
        "define i64 @b() {\n  %r = call i64 @strlen(ptr @t)\n  ret i64 %r\n}"
    )
    assert (s.call("a"), s.call("b")) == (42.0, 77)


USERS = (
    'declare i64 @strlen(ptr)\n@t = private constant [4 x i8] c"abc\\00"\n'
    "@n = global i32 0\n@hidden = internal global i32 0\n"
    "define i64 @b() {\n  %o = load i32, ptr @hidden\n  %p = add i32 %o, 1\n  store i32 %p, ptr @hidden\n"
    "  store i32 %p, ptr @n\n  %r = call i64 @strlen(ptr @t)\n  ret i64 %r\n}"
)


def test_cells_that_used_the_librarys_are_compiled_again(s):
    number = s.run(USERS).cell.number
    s.run("define i64 @c() {\n  %r = call i64 @b()\n  ret i64 %r\n}")
    assert s.call("b") == 3, "folded: the object does not mention strlen"
    address = s.symbols["n"].address
    r = s.run(STRLEN)
    assert any(
        "@strlen" in n and f"cell {number}" in n and "compiled again" in n for n in r.notes
    ), r.notes
    assert s.call("b") == s.call("c") == 77
    assert s["n"].value == 3 and s.symbols["n"].address == address, "its variables are as they were"
    s.check()
    s.undo()
    s.check()
    assert s.call("b") == s.call("c") == 3
    assert s.call("strlen", "four") == 4


def test_a_library_name_of_another_type_than_its_users_think_is_refused(s):
    number = s.run(USERS).cell.number
    with pytest.raises(TypeMismatch, match=f"cell {number} uses"):
        s.run("define i32 @strlen(ptr %s) {\n  ret i32 77\n}")
    assert s.call("b") == 3


def test_the_second_definition_says_nothing_about_the_library(s):
    s.run(USERS)
    s.run(STRLEN)
    r = s.run(STRLEN.replace("77", "78"))
    assert not any("compiled again" in n for n in r.notes)
    assert s.call("b") == 78


def test_a_library_function_comes_back_when_the_definition_goes(s):
    s.run(STRLEN)
    s.run(
        'declare i64 @strlen(ptr)\n@t = constant [4 x i8] c"abc\\00"\ndefine i64 @b() {\n  %r = call i64 @strlen(ptr @t)\n  ret i64 %r\n}'
    )
    assert s.call("b") == 77
    s.evict("strlen", force=True)
    assert s.call("b") == 3


def test_a_closed_cell_still_honours_its_own_definitions(s):
    s.run(
        POW
        + "\n"
        + "define double @a() {\n  %r = call double @pow(double 2.0, double 3.0)\n  ret double %r\n}",
        options=CellOptions(closed=True),
    )
    assert s.call("a") == 42.0


def test_exit_and_abort_defined_by_a_cell_are_its_own(s):
    s.run("@n = global i32 0\ndefine void @exit(i32 %x) {\n  store i32 %x, ptr @n\n  ret void\n}")
    s.run(
        caller("go", "one").replace(
            "%a = call i32 @one()", "call void @exit(i32 9)\n  %a = add i32 0, 1"
        )
    )
    assert s.call("go") == 1 and s["n"].value == 9
