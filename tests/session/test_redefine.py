"""Running a cell again: who follows, what is said, what is refused, what stays where it is."""

from __future__ import annotations

import pytest
from programs import CUBE, SQ, caller, constant

from jitkernel.errors import TypeMismatch
from jitkernel.session import CellOptions

RETYPE = CellOptions(retype=True)
KEEP = CellOptions(keep_data=True)


def notes(result):
    """The status lines, without the one that every cell has."""
    return [n for n in result.notes if " compiled in " not in n]


# -- functions -----------------------------------------------------------------------------------


def test_a_cell_run_again_replaces_what_it_defined(s):
    first = s.run(SQ, cell_id="a").cell.number
    s.run(
        "define i32 @two(i32 %x) {\n  %a = call i32 @sq(i32 %x)\n  %b = call i32 @sq(i32 %a)\n  ret i32 %b\n}"
    )
    s.run("define i32 @one(i32 %x) {\n  %a = call i32 @sq(i32 %x)\n  ret i32 %a\n}")
    s.run(
        "define i32 @again(i32 %x) {\n  %a = call i32 @sq(i32 %x)\n  %b = call i32 @sq(i32 %a)\n  ret i32 %b\n}"
    )
    r = s.run(CUBE, cell_id="a")
    assert notes(r) == ["@sq replaced; 3 callers (inlined) now use it"]
    assert (s.call("two", 2), s.call("one", 2), s.call("again", 2)) == (512, 8, 512)
    assert first not in [c.number for c in s.cells]


def test_many_that_move_are_told_in_one_line(s):
    """A module that is pasted again, of 12 functions with two users outside."""
    module = "\n".join(f"define i32 @m{k}() {{\n  ret i32 {k}\n}}" for k in range(12))
    first = s.run(module, cell_id="a").cell.number
    s.run(caller("use", "m1"))
    s.run(
        "define i32 @both() {\n  %a = call i32 @m1()\n  %b = call i32 @m2()\n  ret i32 %b\n}",
    )
    r = s.run(module, cell_id="b")
    assert notes(r) == [
        f"12 functions moved from cell {first} to cell {r.cell.number}: @m0, @m1, @m2 and 9 more; "
        "2 callers (inlined) now use them"
    ]
    r = s.run("\n".join(f"@g{k} = global i32 {k}" for k in range(3)), cell_id="c")
    r = s.run("\n".join(f"@g{k} = global i32 {k}" for k in range(3)), cell_id="c")
    assert notes(r) == ["3 symbols replaced: @g0, @g1, @g2"]


def test_a_cell_that_no_longer_defines_a_function_others_use(s):
    first = s.run(constant("f", 1) + "\n" + SQ, cell_id="a").cell.number
    five = s.run(caller("five", "f", 10)).cell.number
    eight = s.run(caller("eight", "f", 20)).cell.number
    r = s.run(SQ, cell_id="a")
    assert notes(r) == [
        "@sq replaced",
        f"cell {r.cell.number} no longer defines @f; cells {five}, {eight} still call the old one. "
        "%evict @f --cascade removes them.",
    ]
    assert (s.call("five"), s.call("eight"), s.call("f")) == (11, 21, 1)
    assert first in [c.number for c in s.cells]
    gone = s.evict("f", cascade=True)
    assert {c.number for c in gone} == {first, five, eight}
    assert s.call("sq", 3) == 9


def test_undo_gives_the_notebook_cell_its_old_number_back(s):
    first = s.run(constant("f", 1) + "\n" + constant("g", 1), cell_id="a").cell.number
    s.run(caller("use", "f"))
    s.run(constant("g", 2), cell_id="a")
    assert (s.call("f"), s.call("g"), s.call("use")) == (1, 2, 1)
    s.undo()
    assert (s.call("f"), s.call("g")) == (1, 1)
    assert s.inspect.program.state.ids["a"] == first
    r = s.run(constant("f", 3) + "\n" + constant("g", 3), cell_id="a")
    assert notes(r) == ["@f replaced; 1 caller (inlined) now uses it", "@g replaced"]
    assert first not in [c.number for c in s.cells]


# -- pointers to functions -----------------------------------------------------------------------


def test_pointers_to_a_library_function_are_equal_in_all_cells(s):
    s.run("declare i32 @abs(i32)\ndefine ptr @p() {\n  ret ptr @abs\n}")
    s.run(
        "declare i32 @abs(i32)\n@q = global ptr @abs\ndefine i1 @same(ptr %x) {\n  %c = icmp eq ptr %x, @abs\n  ret i1 %c\n}"
    )
    p = s.call("p")
    assert p == s["q"].value and s.call("same", p) is True


# -- signatures ----------------------------------------------------------------------------------

CHANGES = [
    ("another result", "i64 (i32)", "define i64 @sq(i32 %x) {\n  ret i64 1\n}"),
    ("another parameter", "i32 (i64)", "define i32 @sq(i64 %x) {\n  ret i32 1\n}"),
    ("one more", "i32 (i32, i32)", "define i32 @sq(i32 %x, i32 %y) {\n  ret i32 1\n}"),
    ("variadic", "i32 (i32, ...)", "define i32 @sq(i32 %x, ...) {\n  ret i32 1\n}"),
    ("convention", "fastcc i32 (i32)", "define fastcc i32 @sq(i32 %x) {\n  ret i32 1\n}"),
    ("an attribute", "i32 (i32) [|0:inreg]", "define i32 @sq(i32 inreg %x) {\n  ret i32 1\n}"),
    ("a variable now", "i32", "@sq = global i32 5"),
]


@pytest.mark.parametrize(("what", "type_", "source"), CHANGES, ids=[c[0] for c in CHANGES])
def test_a_changed_signature_is_refused_naming_the_callers(s, what, type_, source):
    s.run(SQ)
    a = s.run("define i32 @u(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  ret i32 %r\n}").cell.number
    b = s.run("define i32 @v(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  ret i32 %r\n}").cell.number
    with pytest.raises(TypeMismatch) as caught:
        s.run(source)
    message = str(caught.value)
    assert "@sq is i32 (i32) and would become" in message
    assert f"cells {a}, {b} use it as it is" in message
    assert "--retype" in message and "%evict @sq --cascade" in message
    assert "Nothing was changed" in message
    assert s.call("u", 3) == s.call("v", 3) == 9
    s.evict("u", "v")
    s.run(source)
    assert s.symbols["sq"].type == type_
    s.undo()
    assert s.symbols["sq"].type == "i32 (i32)" and s.call("sq", 3) == 9


def test_a_caller_that_declares_another_type_is_refused(s):
    s.run(SQ)
    with pytest.raises(
        TypeMismatch,
        match=r"@sq is declared here as i64 \(i64\), but cell \d+ defines it as i32 \(i32\)",
    ):
        s.run(
            "declare i64 @sq(i64)\ndefine i64 @u(i64 %x) {\n  %r = call i64 @sq(i64 %x)\n  ret i64 %r\n}"
        )
    assert "u" not in s


def test_a_call_with_another_type_than_declared_is_refused(s):
    s.run(SQ)
    with pytest.raises(TypeMismatch, match="would read its arguments wrongly"):
        s.run(
            "declare i32 @sq(i32)\ndefine i32 @u() {\n  %r = call i32 (i64) @sq(i64 1)\n  ret i32 %r\n}"
        )


def test_equal_structures_under_two_names_agree(s):
    s.run(
        "%a = type { i32, i32 }\ndefine i32 @f(%a %x) {\n  %r = extractvalue %a %x, 0\n  ret i32 %r\n}"
    )
    s.run(
        "%b = type { i32, i32 }\ndeclare i32 @f(%b)\ndefine i32 @g() {\n  %r = call i32 @f(%b { i32 4, i32 5 })\n  ret i32 %r\n}\n@g()"
    )
    assert s.call("g") == 4


# -- variables -----------------------------------------------------------------------------------


def test_keep_data_keeps_the_value(s):
    s.run("@g = global i32 1\n@h = global i32 10", cell_id="a")
    s.run("@g = 5")
    s.run("@g = global i32 2\n@h = global i32 20\n@new = global i32 30", cell_id="a", options=KEEP)
    assert (s["g"].value, s["h"].value, s["new"].value) == (5, 10, 30)


def test_a_variable_between_two_others_that_nobody_refers_to(s):
    """It has no symbol and no use, and holds an address all the same."""
    source = """
@a = global i32 {}
@.between = private global ptr @puts
@b = global i32 {}
@llvm.compiler.used = appending global [1 x ptr] [ptr @.between]
declare i32 @puts(ptr)
"""
    s.run(source.format(1, 2), cell_id="a")
    where = s.symbols["a"].address, s.symbols["b"].address
    runtime = s.inspect.engine.arena.regions[0]
    assert runtime.name == "runtime.text"
    code = slice(
        runtime.start - s.inspect.engine.arena.base, runtime.stop - s.inspect.engine.arena.base
    )
    before = bytes(s.inspect.engine.arena.view[code])
    s.run(source.format(3, 4), cell_id="a")
    assert bytes(s.inspect.engine.arena.view[code]) == before, "nothing but variables was written"
    assert (s.symbols["a"].address, s.symbols["b"].address) == where
    assert (s["a"].value, s["b"].value) == (3, 4)
    s.check()


def test_a_constant_redefined_is_seen_by_its_users(s):
    s.run("@k = constant i32 1")
    s.run("define i32 @get() {\n  %v = load i32, ptr @k\n  ret i32 %v\n}")
    s.run("@k = constant i32 2")
    assert s.call("get") == 2, "LLVM must not have folded it into its users"
    s.undo()
    assert s.call("get") == 1


def test_a_larger_alignment_that_users_assumed_holds(s):
    s.run("@v = global <8 x i32> zeroinitializer, align 32")
    s.run(
        "define i32 @first() {\n  %v = load <8 x i32>, ptr @v, align 32\n  %r = extractelement <8 x i32> %v, i32 0\n  ret i32 %r\n}"
    )
    s.run("@v = global <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8>, align 4")
    assert s.symbols["v"].address % 32 == 0 and s.call("first") == 1


def test_a_variable_moves_where_it_must_be_aligned_better(s):
    s.run('@pad = global i8 1\n@v = global [4 x i8] c"abcd", align 1')
    s.run(
        "define i8 @last() {\n  %p = getelementptr i8, ptr @v, i64 3\n  %v = load i8, ptr %p\n"
        "  ret i8 %v\n}\n@p = global ptr @v"
    )
    assert s.symbols["v"].address % 64 != 0
    s.run('@v = global [4 x i8] c"efgh", align 64')
    assert s.symbols["v"].address % 64 == 0
    assert (s.call("last"), s["p"].value) == (ord("h"), s.symbols["v"].address)
    s.undo()
    assert (s.call("last"), s["p"].value) == (ord("d"), s.symbols["v"].address)
    s.check()


def test_a_changed_named_type_names_the_cells_built_with_the_old_one(s):
    s.run("%pt = type { i32, i32 }\n@origin = global %pt zeroinitializer")
    user = s.cells[0].number
    r = s.run("%pt = type { i32, i32, i32 }\n@far = global %pt zeroinitializer")
    assert (
        f"%pt was {{ i32, i32 }} and is {{ i32, i32, i32 }} now; cell {user} was built with the old one"
        in notes(r)
    )
    assert s["far"].value == (0, 0, 0)


def test_inside_a_closed_cell_the_status_line_says_who_does_not_follow(s):
    s.run(constant("f", 1) + "\n" + caller("use", "f", 10), options=CellOptions(closed=True))
    r = s.run(constant("f", 2))
    text = "\n".join(notes(r))
    assert "closed" in text and "may" in text
    assert s.call("f") == 2


T32 = "define i32 @t() {\n  ret i32 5\n}"
T64 = "define i64 @t() {\n  ret i64 -6\n}"


def _calls_t(name: str, type: str) -> str:
    return f"declare {type} @t()\ndefine {type} @{name}() {{\n  %r = call {type} @t()\n  ret {type} %r\n}}"


def test_an_earlier_version_that_stays_still_counts(s):
    s.run(_calls_t("f", "i32"), cell_id="x")
    s.run("declare i32 @f()\ndefine i32 @h() {\n  %r = call i32 @f()\n  ret i32 %r\n}")
    with pytest.raises(
        TypeMismatch, match=r"declared here as i64 \(\), but cells \d+, \d+ use it as i32"
    ):
        s.run(_calls_t("g", "i64"), cell_id="x")


def test_the_rest_of_the_cell_that_defined_a_name_uses_it_too(s):
    s.run(T32 + "\ndefine i32 @u() {\n  %r = call i32 @t()\n  ret i32 %r\n}")
    with pytest.raises(TypeMismatch, match=r"cell \d+ uses it as it is"):
        s.run(T64)
    s.run(T64, options=RETYPE)
    with pytest.raises(TypeMismatch, match=r"run cell \d+ again"):
        s.call("u")


def test_a_weak_name_is_null_again_when_its_definition_goes(s):
    s.run(
        "declare extern_weak i32 @f()\n@v = extern_weak global i32\n@p = global ptr @f\n"
        "define i1 @has_f() {\n  %c = icmp ne ptr @f, null\n  ret i1 %c\n}\n"
        "define i1 @has_v() {\n  %c = icmp ne ptr @v, null\n  ret i1 %c\n}"
    )

    def there():
        s.check()
        return s.call("has_f"), s.call("has_v"), bool(s["p"].value)

    assert there() == (False, False, False)
    s.run("@v = global i32 3")
    assert there() == (False, True, False)
    s.undo()
    assert there() == (False, False, False)
    s.run("define i32 @f() {\n  ret i32 1\n}")
    for back, forth in ((s.undo, s.redo), (lambda: s.evict("f", force=True), s.undo)):
        assert there() == (True, False, True)
        back()
        assert there() == (False, False, False)
        forth()
    assert there() == (True, False, True)
    s.run("define i32 @strong() {\n  %r = call i32 @f()\n  ret i32 %r\n}")
    s.evict("f", force=True)
    assert there() == (True, False, True)  # a stub that raises
    s.evict("strong")
    assert there() == (False, False, False)
