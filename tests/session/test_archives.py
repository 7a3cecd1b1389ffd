"""Archives: members come when they are needed, and go with the run that needed them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel import Session, errors

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import assemble, compile_c, needs, tool

pytestmark = [pytest.mark.process, needs("gcc", "ar")]

_MEMBERS = {
    "top.o": "int mid(int); int top(int x) { return mid(x) + 1; }",
    "mid.o": "extern int base; static int calls; int mid(int x) { calls++; return base * x; }"
    " int calls_of_mid(void) { return calls; }",
    "base.o": "int base = 10;",
    "alone.o": "int alone(void) { return 4; }",
    "hook.o": "int hook(int); extern int limit; int hooked(int x) { return hook(x) + limit; }",
    "made.o": "int made; __attribute__((constructor)) static void make(void) { made += 7; }"
    " __attribute__((destructor)) static void end(void) { extern int puts(const char *);"
    " puts(\"ended\"); } int get_made(void) { return made; }",
    "weak.o": "__attribute__((weak)) int absent(void); int asks(void) { return absent ? 1 : 0; }",
    "absent.o": "int absent(void) { return 1; }",
}  # fmt: skip
_DECLARE = "declare i32 @{}({})"


def _make(folder: Path, members=_MEMBERS, name="libparts.a", flags="rcs") -> str:
    for member, source in members.items():
        (folder / member).write_bytes(compile_c(source, "-O1"))
    tool("ar", flags, str(folder / name), *(str(folder / m) for m in members))
    return str(folder / name)


@pytest.fixture
def archive(tmp_path):
    return _make(tmp_path)


def _names(s: Session) -> set[str]:
    return {n for cell in s.cells for n in cell.names}


def test_nothing_is_linked_before_it_is_used(s, archive):
    r = s.link(archive)
    assert r.cell is None and s.cells == []
    assert r.notes == [
        "libparts.a: 8 members, none linked yet; others are when a cell uses what they define"
    ]
    s.run("declare i32 @top(i32)")
    assert _names(s) == set()
    r = s.run("@top(4)")
    assert r.value == 41
    assert _names(s) == {"top", "mid", "calls_of_mid", "base"}
    assert "linked on demand: libparts.a (top.o, mid.o, base.o)" in r.notes[0]


def test_what_cells_lack_already_is_linked_at_once(s, archive):
    s.run("declare i32 @top(i32)\ndefine i32 @f() {\n %r = call i32 @top(i32 2)\n ret i32 %r\n}")
    r = s.link(archive)
    assert r.cell is not None and set(r.cell.names) == {"top", "mid", "calls_of_mid", "base"}
    assert "3 linked: 3 functions, 1 variable" in r.notes[-1]
    s.undo()
    assert _names(s) == {"f"}
    s.redo()
    assert s.run("@f()").value == 21
    s.undo(2)  # the run too: it has counted in a static variable
    with pytest.raises(errors.UndefinedSymbol):
        s.run("@f()")


def test_one_undo_takes_back_the_cell_and_what_it_needed(s, archive):
    s.link(archive)
    s.run(
        "declare i32 @top(i32)\ndefine i32 @f() {\n %r = call i32 @top(i32 2)\n ret i32 %r\n}\n@f()"
    )
    assert _names(s) == {"f", "top", "mid", "calls_of_mid", "base"}
    s.undo()
    assert _names(s) == set()
    s.check()
    s.redo()
    assert s.run("@f()").value == 21
    s.undo(3)  # the run, the cell, the archive itself
    s.run("declare i32 @top(i32)")
    with pytest.raises(errors.UndefinedSymbol):
        s.run("@top(1)")
    s.check()


def test_statics_stay_when_other_members_come(s, archive):
    s.link(archive)
    s.run("declare i32 @mid(i32)\ndeclare i32 @calls_of_mid()\ndeclare i32 @top(i32)")
    s.run("@mid(1)")
    s.run("@top(1)")
    assert s.run("@calls_of_mid()").value == 2
    assert [sorted(c.names) for c in s.cells if c.names] == [
        ["base", "calls_of_mid", "mid"],
        ["top"],
    ]


def test_a_call_line_without_a_cell(s, archive):
    s.link(archive)
    s.run("declare i32 @alone()")
    assert s.call("alone") == 4
    assert _names(s) == {"alone"}
    assert "libparts.a (alone.o)" in s.undo()[0]
    assert _names(s) == set()
    assert s.call("alone") == 4


def test_members_that_call_back(s, archive):
    """What a member needs of the cell that needs it, a function and a variable."""
    s.link(archive)
    r = s.run("""@limit = global i32 100
declare i32 @hooked(i32)
define i32 @hook(i32 %x) {
  %r = mul i32 %x, 3
  ret i32 %r
}
define i32 @go(i32 %x) {
  %r = call i32 @hooked(i32 %x)
  ret i32 %r
}
@go(5)""")
    assert r.value == 115
    s.run("define i32 @hook(i32 %x) {\n ret i32 1\n}")
    assert s.run("@go(5)").value == 101


def test_a_definition_of_the_sessions_own_comes_first(s, archive):
    s.link(archive)
    s.run("@base = global i32 3")
    s.run("declare i32 @top(i32)")
    assert s.run("@top(2)").value == 7
    assert sorted(n for c in s.cells for n in c.names) == ["base", "calls_of_mid", "mid", "top"]


def test_a_weak_reference_takes_nothing(s, archive):
    s.link(archive)
    s.run("declare i32 @asks()\ndeclare i32 @absent()")
    assert s.run("@asks()").value == 0
    assert "absent" not in _names(s)
    assert s.run("@absent()").value == 1


def test_constructors_run_once_and_destructors_when_it_goes(s, archive):
    s.link(archive)
    s.run("declare i32 @get_made()")
    assert s.run("@get_made()").value == 7
    assert s.run("@get_made()").value == 7
    cell = next(c for c in s.cells if "made" in c.names)
    gone = s.evict(cell.number)
    assert [c.number for c in gone] == [cell.number]


def test_eviction_asks_for_those_who_use_it(s, archive):
    s.link(archive)
    s.run("declare i32 @top(i32)\ndefine i32 @f() {\n %r = call i32 @top(i32 2)\n ret i32 %r\n}")
    number = next(c.number for c in s.cells if "top" in c.names)
    with pytest.raises(errors.EvictError, match="top"):
        s.evict(number)
    s.evict(number, force=True)
    with pytest.raises(errors.UndefinedSymbol):
        s.run("@f()")
    s.run("define i32 @g() {\n %r = call i32 @top(i32 3)\n ret i32 %r\n}")
    assert s.run("@g()").value == 31  # a cell that uses it again brings it back
    assert s.run("@f()").value == 21


def test_all_members(s, archive):
    with pytest.raises(errors.LinkError, match="reads @limit, which nobody defines"):
        s.link(archive, whole=True)
    s.run("@limit = global i32 9")
    r = s.link(archive, whole=True)
    assert r.cell is not None
    assert {"top", "alone", "absent", "hooked"} <= set(r.cell.names)
    assert len(s.cells) == 2
    s.undo()
    assert _names(s) == {"limit"}


def test_two_archives_that_need_each_other(s, tmp_path):
    one = _make(tmp_path, {"a.o": "int b(int); int a(int x) { return x ? b(x - 1) : 7; }"}, "one.a")
    two = _make(tmp_path, {"b.o": "int a(int); int b(int x) { return a(x) * 2; }"}, "two.a")
    s.link(one)
    s.link(two)
    s.run("declare i32 @a(i32)")
    assert s.run("@a(3)").value == 56


def test_archives_whose_variables_need_each_other_are_linked_in_any_order(s, tmp_path):
    """Cells use both already, so that neither can be linked without the other."""
    one = {"a.o": "extern int y; int x = 3; int a(void) { return y; }"}
    two = {"b.o": "extern int x; int y = 4; int b(void) { return x; }"}
    made = [_make(tmp_path, one, "one.a"), _make(tmp_path, two, "two.a")]
    data = _make(tmp_path, {"c.o": "int only = 5;"}, "data.a")
    made.append(_make(tmp_path, {"d.o": "extern int only; int d(void) { return only; }"}, "d.a"))
    s.run(
        "declare i32 @a()\ndeclare i32 @b()\ndeclare i32 @d()\ndefine i32 @f() {\n"
        "  %a = call i32 @a()\n  %b = call i32 @b()\n  %d = call i32 @d()\n"
        "  %t = mul i32 %a, 10\n  %r = add i32 %t, %b\n  %q = mul i32 %r, %d\n  ret i32 %q\n}"
    )
    for order in ([*made, data], [data, *reversed(made)], [made[2], made[1], data, made[0]]):
        notes = [note for path in order for note in s.link(path).notes]
        assert any("members that read @" in note for note in notes)
        assert s.run("@f()").value == 43 * 5
        s.check()
        s.undo(4)
        assert _names(s) == {"f"}
    s.link(made[0])
    with pytest.raises(errors.UndefinedSymbol, match="@a"):
        s.run("@f()")
    s.undo()
    with pytest.raises(errors.LinkError, match="@x, which nobody defines"):
        s.link(made[1], whole=True)


def test_thin_archives_and_those_without_an_index(s, tmp_path):
    thin = _make(tmp_path, name="thin.a", flags="rcsT")
    s.link(thin)
    s.run("declare i32 @top(i32)")
    assert s.run("@top(1)").value == 11
    (tmp_path / "alone.o").unlink()
    s.run("declare i32 @alone()")
    with pytest.raises(errors.JitError, match=r"alone\.o"):
        s.run("@alone()")
    assert s.run("@top(1)").value == 11


def test_an_archive_that_has_changed_is_told(s, tmp_path, archive):
    s.link(archive)
    Path(archive).unlink()
    _make(tmp_path, {"alone.o": "int alone(void) { return 5; }"})
    s.run("declare i32 @alone()")
    with pytest.raises(errors.LinkError, match="has changed since it was linked; %link"):
        s.run("@alone()")
    s.link(archive)
    assert s.run("@alone()").value == 5


def test_a_member_that_cannot_be_linked_changes_nothing(s, tmp_path):
    members = {"bad.o": "int bad(void) { extern int nowhere; return nowhere; }", "ok.o": "int ok;"}
    s.link(_make(tmp_path, members))
    s.run("declare i32 @bad()")
    for _ in range(2):
        with pytest.raises(errors.LinkError, match="nowhere"):
            s.run("define i32 @f() {\n %r = call i32 @bad()\n ret i32 %r\n}")
        assert s.cells == [] or _names(s) == set()
        s.check()


def test_two_members_that_define_the_same(s, tmp_path):
    members = {
        "a.o": "int twice = 2; int a(void) { return 1; }",
        "b.o": "int twice = 1; int c(void) { return 2; }",
        "d.o": "int a(void); int c(void); int d(void) { return a() + c(); }",
    }
    s.link(_make(tmp_path, members, "x.a"))
    s.run("declare i32 @d()")
    with pytest.raises(
        errors.LinkError, match=r"@twice is defined in x.a\(a.o\) and in x.a\(b.o\)"
    ):
        s.run("@d()")


def test_a_common_symbol_takes_its_value_from_the_archive(s, tmp_path):
    """A tentative definition is no reason to take a member, unless that gives it a value."""
    for name, source in {
        "a.o": ".globl a\na: mov shared(%rip), %eax\nret\n.comm shared,4,4",
        "b.o": ".globl shared\n.data\nshared: .long 5",
        "c.o": ".globl c\nc: ret\n.comm shared,64,32",
    }.items():
        (tmp_path / name).write_bytes(assemble(source))
    tool("ar", "rcs", str(tmp_path / "x.a"), *(str(tmp_path / f"{n}.o") for n in "acb"))
    s.link(str(tmp_path / "x.a"))
    s.run("declare i32 @a()")
    # ar's index names c.o first for `shared`: that is common there, and not taken
    assert s.run("@a()").value == 0
    assert "c" not in _names(s)


def test_symbols_hidden_from_other_programs(s, tmp_path):
    """Members of one archive are one program: what is hidden in one, another one uses, later too."""
    hidden = '__attribute__((visibility("hidden")))'
    s.link(_make(tmp_path, {
        "a.o": f"{hidden} int inner(void); int a(void) {{ return inner(); }}",
        "b.o": f"{hidden} int inner(void) {{ return 6; }}",
        "c.o": f"{hidden} int inner(void); int c(void) {{ return inner() + 1; }}",
    }))  # fmt: skip
    s.run("declare i32 @a()\ndeclare i32 @c()")
    assert s.run("@a()").value == 6
    assert s.run("@c()").value == 7


@needs("g++")
def test_inline_functions_of_several_members(s, tmp_path):
    """COMDAT groups: one of each stays, with its unwind records and its exceptions."""
    head = """
    struct error { int n; };
    inline int &count() { static int n = 0; return ++n; }
    template <class T> T twice(T x) { if (x < 0) throw error{x}; return x * 2 + count(); }
    """
    for name, body in {
        "a": 'extern "C" int b(int); extern "C" int a(int x) { try { return twice(x) + b(x); }'
        " catch (error &e) { return 1000 + e.n; } }",
        "b": 'extern "C" int b(int x) { return twice(x + 1); }',
    }.items():
        subprocess.run(
            ["g++", "-O0", "-c", "-x", "c++", "-", "-o", f"{tmp_path}/{name}.o"],
            input=(head + body).encode(), check=True,
        )  # fmt: skip
    tool("ar", "rcs", str(tmp_path / "x.a"), f"{tmp_path}/a.o", f"{tmp_path}/b.o")
    s.load("libstdc++.so.6")
    s.link(str(tmp_path / "x.a"))
    s.run("declare i32 @a(i32)")
    assert s.run("@a(1)").value == 2 + 1 + 4 + 2
    assert s.run("@a(-5)").value == 995


def test_saved_and_restored(tmp_path, archive):
    path = str(tmp_path / "a.jks")
    with Session() as s:
        s.link(archive)
        s.run("declare i32 @top(i32)\n@top(1)")
        s.save(path)
    with Session.restore(path) as s:
        assert s.run("@top(2)").value == 21
        assert s.run("declare i32 @alone()\n@alone()").value == 4  # taken only now
        s.check()
    Path(archive).unlink()
    with Session.restore(path) as s:
        assert s.restored is not None and f"nothing more from {archive}" in str(s.restored)
        assert s.run("@top(2)").value == 21
        s.check()


def test_a_c_cell_declares_a_variable_of_an_archive(s, archive):
    """`extern int x;` gives x storage only where nobody has it: here the archive does."""
    pytest.importorskip("ziglang")
    s.link(archive)
    s.run("extern int base; int twice(void) { return 2 * base; }", language="c")
    assert s.call("twice") == 20
    assert s.run("base", language="c").value == 10


def test_a_thread_local_variable_is_taken_by_its_name(s, tmp_path):
    members = {
        "own.o": "__thread int own = 42; int *where(void) { return &own; }",
        "user.o": "extern __thread int own; int use(void) { return own + 1; }",
    }
    s.link(_make(tmp_path, members))
    s.run(
        "@own = external thread_local global i32\n"
        "declare ptr @llvm.threadlocal.address.p0(ptr)\n"
        "define i32 @get() {\n  %p = call ptr @llvm.threadlocal.address.p0(ptr @own)\n"
        "  %v = load i32, ptr %p\n  ret i32 %v\n}"
    )
    assert s.call("get") == 42
    assert s.run("declare i32 @use()\n@use()").value == 43
    s.undo()
    s.undo()
    assert s.cells == []


def test_a_members_thread_local_is_the_cells_own(s, tmp_path):
    """What the session defines is not taken from the archive as well."""
    members = {
        "own.o": "__thread int own = 42;",
        "user.o": "extern __thread int own; int use(void) { return own + 1; }",
    }
    s.run("@own = thread_local global i32 7")
    s.link(_make(tmp_path, members))
    assert s.run("declare i32 @use()\n@use()").value == 8


def test_a_function_without_a_type_says_so(s, tmp_path):
    """Objects say no types: a name of theirs is known, and cannot be called before a declaration."""
    (tmp_path / "x.o").write_bytes(compile_c("int other(int x) { return x + 1; } int v = 3;"))
    s.link(str(tmp_path / "x.o"))
    words = "an object has it, and objects say no types: declare @{} in a cell"
    with pytest.raises(errors.UsageError, match=words.format("other")):
        s.call("other", 1)
    with pytest.raises(errors.CompileError, match=words.format("other")):
        s.run("@other(1)")
    with pytest.raises(errors.CompileError, match=words.format("v")):
        s.run("@v")
    assert s.run("declare i32 @other(i32)\n@other(1)").value == 2


def test_notebook_cells_keep_their_numbers_and_data(s, archive):
    """A cell that takes members owns the strings of its call lines all the same."""
    s.link(archive)
    s.run("declare i32 @top(i32)\ndeclare i32 @puts(ptr)")
    r = s.run('@puts("one")\n@top(1)\n@puts("two")')
    assert r.stdout == "one\ntwo\n"
    assert r.cell is not None and r.cell.strings
    s.undo()
    s.check()


@pytest.mark.parametrize("flags", ["-g -gz", "-g -gz=none", "-g3 -gz -fPIC"])
def test_an_object_whose_debug_information_is_compressed(s, tmp_path, flags):
    source = "_Thread_local int mine = 4; int next(int x) { mine += x; return mine; }"
    (tmp_path / "next.o").write_bytes(compile_c(source, "-O1", *flags.split()))
    s.link(str(tmp_path / "next.o"))
    s.run("declare i32 @next(i32)")
    assert s.call("next", 3) == 7
    assert s.call("next", 3) == 10
    s.undo(2)
    assert s.cells == []
    s.check()


def test_what_has_no_machine_code_is_refused(s, tmp_path):
    (tmp_path / "gcc.o").write_bytes(compile_c("int f(void) { return 1; }", "-flto"))
    (tmp_path / "clang.o").write_bytes(b"BC\xc0\xde" + bytes(60))
    tool("ar", "rcs", str(tmp_path / "libgcc.a"), str(tmp_path / "gcc.o"))
    for name, words in (
        ("gcc.o", "gcc.o has no machine code.*-ffat-lto-objects"),
        ("clang.o", "clang.o is LLVM bitcode: build it without -flto"),
    ):
        with pytest.raises(errors.LinkError, match=words):
            s.link(str(tmp_path / name))
    s.link(_make(tmp_path, {"g.o": "int f(void); int g(void) { return f(); }"}, "libg.a"))
    assert s.cells == []
