"""Bodies and values of functions and constants that are in the code of others: who has them, and
that every change reaches them in the very next call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import EvictError, Fault, JitError, TypeMismatch, UndefinedSymbol
from jitkernel.linker.layout import ReadObject
from jitkernel.session import CellOptions, CellState

pytestmark = pytest.mark.process  # what is in whose code is the same with any
needs_clang = pytest.mark.skipif(
    not pytest.importorskip("importlib.util").find_spec("ziglang"), reason="no clang"
)

F = "define i32 @f(i32 %x) {{\n  %r = {} i32 %x, 3\n  ret i32 %r\n}}"
G = "define i32 @g(i32 %x) {\n  %r = call i32 @f(i32 %x)\n  %q = add i32 %r, 100\n  ret i32 %q\n}"
H = "define i32 @h(i32 %x) {\n  %r = call i32 @g(i32 %x)\n  ret i32 %r\n}"


@pytest.fixture
def s(either: Callable[..., Session]) -> Iterator[Session]:
    session = either(spare=False)
    yield session
    session.check()


def holders(s: Session, *names: str) -> set[int]:
    return s.inspect.program.holders(names)


def c(s: Session, *cells: str) -> None:
    for cell in cells:
        s.run(cell, "c")


# -- who has what ----------------------------------------------------------------------------------


def test_a_body_is_held_by_those_that_have_it_at_any_depth(s: Session) -> None:
    s.run(F.format("mul"))
    g, h = s.run(G).cell, s.run(H).cell
    assert g is not None and h is not None
    assert holders(s, "f") == {g.number, h.number} and holders(s, "g") == {h.number}
    assert s.call("h", 5) == 115
    assert ReadObject.of(s.inspect.object(h.number)).held() == {"f", "g"}


def test_in_one_cell(s: Session) -> None:
    number = s.run("\n".join((F.format("mul"), G))).cell.number
    assert holders(s, "f") == {number}
    s.run(F.format("add"))
    assert s.call("g", 5) == 108 and holders(s, "f") == {number}
    s.undo()
    assert s.call("g", 5) == 115


@pytest.mark.parametrize("why", ["noinline", "optnone noinline", "large", "level", "passes", "off"])
def test_what_is_not_inlined_is_called(s: Session, why: str) -> None:
    text, options = F.format("mul"), CellOptions()
    if why == "large":
        many = "".join(f"  %a{i} = call i32 @ext(i32 %x)\n" for i in range(300))
        text = f"declare i32 @ext(i32)\ndefine i32 @f(i32 %x) {{\n{many}  ret i32 %a299\n}}"
    elif why == "level":
        options = CellOptions(opt_level=0)
    elif why == "passes":
        options = CellOptions(passes="instcombine")
    elif why == "off":
        options = CellOptions(inline="off")
    else:
        text = text.replace(") {", f") {why} {{")
    s.run(text)
    s.run(G, options=options)
    assert holders(s, "f") == set()


def test_a_name_that_an_object_cannot_say_is_not_lent(s: Session) -> None:
    name = '"a\\22b"'
    s.run(F.format("mul").replace("@f", f"@{name}"))
    s.run(G.replace("@f", f"@{name}"))
    assert holders(s, 'a"b') == set() and s.call("g", 5) == 115
    s.run(F.format("add").replace("@f", f"@{name}"))
    assert s.call("g", 5) == 108


# -- changes reach all -----------------------------------------------------------------------------


def test_redefine_undo_redo(s: Session) -> None:
    for cell in (F.format("mul"), G, H):
        s.run(cell)
    r = s.run(F.format("add"))
    assert "2 callers (inlined) now use it" in "".join(r.notes)
    assert s.call("h", 5) == 108
    s.run(G.replace("100", "200"))
    assert s.call("h", 5) == 208
    s.undo(2)
    assert s.call("h", 5) == 115
    s.redo(2)
    assert s.call("h", 5) == 208
    s.check()


def test_undo_in_the_middle_reaches_those_that_were_away(s: Session) -> None:
    """What comes back, or stays, has bodies of what is there by then."""
    s.run(F.format("mul") + "\n" + G)  # 1
    s.run(F.format("add"))  # 2: the cell is made anew
    s.run(G.replace("100", "200"))  # 3: its @g is gone, and so is the cell
    s.run(F.format("sub"))  # 4
    s.undo(cell=3)
    assert (s.call("f", 5), s.call("g", 5)) == (2, 102)
    s.check()
    s.redo()
    assert (s.call("f", 5), s.call("g", 5)) == (2, 202)
    s.undo(2)
    assert (s.call("f", 5), s.call("g", 5)) == (8, 108)
    s.run(H)
    s.run("define i32 @two(i32 %x) {\n  %r = call i32 @f(i32 %x)\n  ret i32 %r\n}")
    s.run(F.format("xor"))
    s.run(H.replace("@h", "@other"))
    s.undo(cell=s.number - 1)
    assert [s.call(n, 5) for n in ("f", "g", "h", "two", "other")] == [8, 108, 108, 8, 108]


def test_another_type_is_refused_and_by_force_raises(s: Session) -> None:
    for cell in (F.format("mul"), G):
        s.run(cell)
    other = "define i64 @f(i64 %x) {\n  ret i64 %x\n}"
    with pytest.raises(TypeMismatch, match="cell 2 uses it"):
        s.run(other)
    assert s.call("g", 5) == 115
    s.run(other, options=CellOptions(retype=True))
    with pytest.raises(TypeMismatch):
        s.call("g", 5)
    s.undo()
    assert s.call("g", 5) == 115


def test_evict(s: Session) -> None:
    for cell in (F.format("mul"), G, H):
        s.run(cell)
    with pytest.raises(EvictError, match=r"cell 2 \(@g\) uses @f"):
        s.evict("f")
    s.evict("f", force=True)
    with pytest.raises(UndefinedSymbol, match="cell 1, which defined it, was evicted"):
        s.call("h", 5)
    s.run(F.format("add"))
    assert s.call("h", 5) == 108
    s.undo(2)
    assert s.call("h", 5) == 115
    assert len(s.evict("f", cascade=True)) == 3


@pytest.mark.process
def test_a_cell_that_fails_changes_nothing(s: Session) -> None:
    for cell in (F.format("mul"), G):
        s.run(cell)
    with pytest.raises(JitError):
        s.run(F.format("add") + "\n%x = load volatile i32, ptr null")
    assert s.call("g", 5) in (108, 115) and s.call("g", 5) == s.call("f", 5) + 100
    with pytest.raises(JitError):
        s.run(F.format("add") + "\ndefine i32 @bad() {\n  ret i64 1\n}")
    assert s.call("g", 5) == s.call("f", 5) + 100


def test_hibernated_holders_follow(s: Session) -> None:
    for cell in (F.format("mul"), G, H):
        s.run(cell)
    s.hibernate("g", "h")
    s.run(F.format("add"))
    assert s.call("h", 5) == 108
    s.hibernate("f")
    assert s.call("h", 5) == 108 and s.call("f", 5) == 8


def test_saved_and_restored(s: Session, tmp_path: Path) -> None:
    for cell in (F.format("mul"), G, H):
        s.run(cell)
    s.save(tmp_path / "s.jks")
    with Session.restore(tmp_path / "s.jks") as there:
        assert holders(there, "f") == {2, 3} and there.call("h", 5) == 115
        there.run(F.format("add"))
        assert there.call("h", 5) == 108
        there.check()


def test_python_takes_the_place_of_a_body(s: Session) -> None:
    for cell in (F.format("mul"), G):
        s.run(cell)
    s.export_python("f", lambda x: x + 70, "i32 (i32)")
    assert s.call("g", 5) == 175 and not holders(s, "f")


def test_a_library_s_name_that_becomes_the_session_s_own(s: Session) -> None:
    s.run(
        "declare i32 @abs(i32)\n"
        + F.format("mul").replace("mul i32 %x, 3", "call i32 @abs(i32 %x)")
    )
    s.run(G)
    assert s.call("g", -5) == 105
    s.run("define i32 @abs(i32 %x) {\n  ret i32 7\n}")
    assert s.call("g", -5) == 107
    s.undo()
    assert s.call("g", -5) == 105


def test_a_named_type_that_changes(s: Session) -> None:
    s.run("%p = type { i8, i32 }\n@zero = global %p zeroinitializer")
    s.run("define i64 @size() {\n  %e = getelementptr %p, ptr null, i32 1\n"
          "  %n = ptrtoint ptr %e to i64\n  ret i64 %n\n}")  # fmt: skip
    s.run("define i64 @twice() {\n  %n = call i64 @size()\n  %r = mul i64 %n, 2\n  ret i64 %r\n}")
    assert s.call("twice") == 16
    s.run("%p = type { i8, i64, i64 }\n@one = global %p zeroinitializer")
    assert s.call("size") == 24 and s.call("twice") == 48


def test_a_constant_and_its_address(s: Session) -> None:
    s.run("@k = constant i32 5")
    s.run(
        "define i32 @use() {\n  %v = load i32, ptr @k\n  ret i32 %v\n}\n"
        "define i1 @same(ptr %p) {\n  %r = icmp eq ptr %p, @k\n  ret i1 %r\n}\n@at = global ptr @k"
    )
    assert holders(s, "k") == {2} and s.call("use") == 5
    s.run("@k = constant i32 6")
    assert s.call("use") == 6 and s.call("same", s["at"].value) is True


# -- what a body brings ----------------------------------------------------------------------------


def test_variables_of_its_own_are_there_once(s: Session) -> None:
    s.run("@n = internal global i32 0\ndefine i32 @tick() {\n  %v = load i32, ptr @n\n"
          "  %w = add i32 %v, 1\n  store i32 %w, ptr @n\n  ret i32 %w\n}")  # fmt: skip
    s.run("define i32 @two() {\n  %a = call i32 @tick()\n  %b = call i32 @tick()\n  ret i32 %b\n}")
    assert holders(s, "tick") == {2}
    assert [s.call("two"), s.call("tick"), s.call("two")] == [2, 3, 5]


def test_strings_have_one_address(s: Session) -> None:
    s.run('@.s = private unnamed_addr constant [3 x i8] c"hi\\00"\n'
          "define ptr @name() {\n  ret ptr @.s\n}")  # fmt: skip
    s.run("define i1 @same(ptr %p) {\n  %q = call ptr @name()\n  %r = icmp eq ptr %p, %q\n"
          "  ret i1 %r\n}")  # fmt: skip
    assert holders(s, "name") == {2}
    assert s.call("same", s.call("name")) is True


def test_attributes_that_tell_are_held(s: Session) -> None:
    """A call may go where its value is not used: not after the function has become another one."""
    pure = "define i32 @f(i32 %x) memory(none) willreturn nounwind noinline {\n  ret i32 %x\n}"
    s.run(pure)
    s.run("@count = global i32 0\n" + G.replace("%q = add i32 %r, 100", "%q = add i32 7, 0"))
    assert s.call("g", 1) == 7
    s.run("define i32 @f(i32 %x) noinline {\n  %v = load i32, ptr @count\n  %w = add i32 %v, 1\n"
          "  store i32 %w, ptr @count\n  ret i32 %x\n}")  # fmt: skip
    assert s.call("g", 1) == 7 and s["count"].value == 1


def test_a_function_that_many_hold_is_called_by_the_next(s: Session) -> None:
    """Who defines it again waits for the compiles of those that hold it, and no longer."""
    s.run(F.format("mul"))
    for number in range(120):
        s.run(G.replace("@g", f"@g{number}"))
    few = holders(s, "f")
    assert 8 < len(few) < 120
    s.run(F.format("add"))
    assert [s.call(f"g{n}", 5) for n in (0, 60, 119)] == [108, 108, 108]
    assert holders(s, "f") == few


@needs_clang
def test_c(s: Session) -> None:
    c(s, "struct p { int x, y; };", "int sum(struct p *p) { return p->x + p->y; }",
      "struct p v = {1, 2};", "int g(void) { return sum(&v) * K(); }".replace(" * K()", ""))  # fmt: skip
    assert holders(s, "sum") and s.call("g") == 3
    c(s, "struct p { long pad; int x, y; };", "v.x = 5; v.y = 6;")
    assert s.call("g") == 11 and holders(s, "sum")
    s.undo(2)
    assert s.call("g") == 3


@needs_clang
@pytest.mark.parametrize("setting", [("opt_level", 0), ("inlining", False)])
def test_a_new_definition_that_is_not_lent_is_called(s: Session, setting: tuple[str, int]) -> None:
    """Its users are made anew before it is there, for what its declaration says is otherwise: not
    with the body of the one that goes."""
    s.run("int f(void) { return 5; }", "c", cell_id="f")
    user = s.run("int user(void) { return 1 + f(); }", "c").cell
    assert holders(s, "f") == {user.number}
    s.configure(*setting)
    s.run("__attribute__((noinline)) int f(void) { return 7; }", "c", cell_id="f")
    assert s.call("user") == 8 and not holders(s, "f")
    s.undo()
    assert s.call("user") == 6


@needs_clang
def test_c_macros_statics_and_strings(s: Session) -> None:
    c(s, "#define K 3", "static int f(int x) { static int n; return x * K + n++; }",
      'const char *name(void) { return "abc"; }', "int g(int x) { return f(x) + name()[1]; }")  # fmt: skip
    assert holders(s, "f") == holders(s, "name") == {4}
    assert [s.call("g", 1), s.call("g", 1)] == [3 + 98, 4 + 98]
    c(s, "#define K 10")
    assert s.call("g", 1) == 10 + 2 + 98, "the static variable is the same one"


@needs_clang
def test_c_in_ir(s: Session) -> None:
    c(s, "int f(int x) { return x * 3; }")
    s.run(G)
    assert holders(s, "f") == {2} and s.call("g", 5) == 115
    c(s, "int f(int x) { return x + 3; }")
    assert s.call("g", 5) == 108
    s.run(F.format("sub"))
    assert s.call("g", 5) == 102
    c(s, "int again(int x) { return f(x); }")
    assert s.call("again", 5) == 2


def test_views_know(s: Session) -> None:
    from jitkernel.views import callgraph, explain, inlining

    s.run(F.format("mul"))
    s.run(G)
    assert "@g (cell 2) calls @f (inlined)" in " ".join(callgraph(s).text.split())
    assert "@f (cell 1) is called by @g" in " ".join(callgraph(s, "f").text.split())
    assert "cell 2 inlined" in explain(s, "f").text
    text = " ".join(inlining(s, 2).text.split())
    assert "@f cell 1 @g inlined cost" in text
    assert "In its code are bodies and values of @f: who changes one has it made anew." in text
    assert inlining(s, 1).text == "Inlining, cell 1: it calls no function of a cell."
    assert s.inspect.request(2).bodies, "what a cell was made of is what its views compile"
    assert s.cells[1].state is CellState.LIVE


@pytest.mark.process
def test_a_fault_in_inlined_code_names_both_functions(s: Session) -> None:
    s.run("\ndefine i32 @f(ptr %p) {\n  %q = getelementptr i32, ptr %p, i32 1\n"
          "  %v = load i32, ptr %q\n  ret i32 %v\n}")  # fmt: skip
    s.run("define i32 @g(ptr %p) {\n  %x = add i32 1, 2\n  %r = call i32 @f(ptr %p)\n"
          "  %q = add i32 %r, %x\n  ret i32 %q\n}")  # fmt: skip
    with pytest.raises(Fault) as caught:
        s.run("@g(null)")
    assert "at @f (cell 1, line 4), inlined in @g, cell 2, line 3: %r = call" in str(caught.value)


@needs_clang
@pytest.mark.process
def test_a_fault_in_inlined_c(s: Session) -> None:
    c(s, "struct node { int v; struct node *next; };\nint get(struct node *n) {\n"
         "  return n->next->v;\n}\nint both(struct node *n) {\n  return get(n) + 1;\n}",
      "int more(struct node *n) {\n  int x = 3;\n  return both(n) + x;\n}")  # fmt: skip
    with pytest.raises(Fault, match=r"at get \(cell 1, line 3\), inlined in both, cell 1, line 6"):
        c(s, "both(0)")
    with pytest.raises(Fault, match=r"at get \(cell 1, line 3\), inlined in more, cell 2, line 3"):
        c(s, "more(0)")


@needs_clang
@pytest.mark.process
def test_a_fault_in_code_of_several_lines_that_is_inlined_twice(s: Session) -> None:
    """LLVM makes one load of two, which has no line: the call's in the function that has a frame."""
    c(s, "static inline int get(int *p, int i) {\n  if (i > 3)\n    return p[i] * 7;\n"
         "  return p[i] * 7;\n}\nstatic inline int sum(int *p, int i) {\n  int t = 0;\n"
         "  t += get(p, i);\n  return t + 1;\n}\nint both(int *p) {\n  return sum(p, 1) +\n"
         "         sum(p, 9);\n}")  # fmt: skip
    with pytest.raises(Fault, match=r"at both, cell 1, line 1[23]:"):
        c(s, "both(0)")


@needs_clang
@pytest.mark.process
def test_a_fault_in_c_that_is_inlined_in_a_static_function_or_calls(s: Session) -> None:
    """The line in the function that has a frame, not the other's."""
    from jitkernel.views import stack

    c(s, "static int get(const int *p) {\n  return *p;\n}\n"
         "__attribute__((noinline)) static int twice(const int *p) {\n  int x = 2;\n"
         "  return x * get(p);\n}\nint all(const int *p) { return twice(p) + 1; }")  # fmt: skip
    with pytest.raises(Fault, match=r"at get \(cell 1, line 2\), inlined in twice, cell 1, line 6"):
        c(s, "all(0)")
    c(s, "typedef int of(int);\nstatic int ask(of *f, int x) {\n  return f(x) + 1;\n}\n"
         "int asks(of *f) {\n  int x = 3;\n  return ask(f, x);\n}",
      "__attribute__((noinline)) int bad(int x) {\n  return *(volatile int *)0 + x;\n}")  # fmt: skip
    with pytest.raises(Fault):
        c(s, "asks(bad)")
    assert re.search(r"^#1 +asks\+\d+, cell \d +7  return ask", stack(s).text, re.M)


def test_retyped_done_again(s: Session) -> None:
    """A holder of what was retyped raises after undo and redo too, also when it is made anew, and
    is what it was when a run before that is taken back by itself."""
    s.run("define i64 @t() {\n  ret i64 5\n}")
    s.run("define i64 @g() {\n  ret i64 1\n}")
    s.run(
        "declare i64 @t()\ndeclare i64 @g()\ndefine i64 @f() {\n  %a = call i64 @t()\n"
        "  %b = call i64 @g()\n  %c = add i64 %a, %b\n  ret i64 %c\n}"
    )
    before = s.run("define i64 @g() {\n  ret i64 2\n}").cell
    assert before is not None
    retyped = CellOptions(retype=True)
    s.place(s.compile("define i32 @t() {\n  ret i32 7\n}", retyped))

    def check() -> None:
        with pytest.raises(TypeMismatch):
            s.call("f")

    check()
    s.undo()
    assert s.call("f") == 7
    s.redo()
    check()
    s.undo(cell=before.number)
    check()
    s.undo()
    assert s.call("f") == 6
    s.redo(2)
    check()
    s.check()


def test_own_data_stays(s: Session) -> None:
    """What a holder has for itself stays where it is when it is made anew: pointers lead there."""
    s.run("int step(int x) { return x + 1; }", "c")
    s.run(
        "static int table[4] = {1, 2, 3, 4}; int *kept;\n"
        "int *count(void) { static int n = 3; n = step(n); table[1] += n; return &n; }\n"
        "int *other(void) { static int n = 30; n = step(n); return &n; }",
        "c",
    )
    s.run("kept = count();", "c")
    places = s.call("count"), s.call("other")
    s.run("int step(int x) { return x + 10; }", "c")
    assert (s.call("count"), s.call("other")) == places
    assert s.run("*kept", "c").value == 15
    assert s.run("*count() + *kept", "c").value == 50
    s.undo(2)
    assert s.run("*kept + *other()", "c").value == 5 + 32
    assert (s.call("count"), s.call("other")) == places


def test_two_bodies_of_one_holder(s: Session) -> None:
    """A redefinition is taken back by itself though a later one made the same cell anew."""
    for name in "gh":
        s.run(f"int {name}(void) {{ return 1; }}", "c")
    s.run("int f(void) { return 10 * g() + h(); }", "c")
    first = s.run("int g(void) { return 2; }", "c").cell
    s.run("int h(void) { return 3; }", "c")
    assert first is not None and s.call("f") == 23
    s.undo(cell=first.number)
    assert s.call("f") == 13
    s.undo()
    assert s.call("f") == 11
    s.redo(2)
    assert s.call("f") == 23
    s.check()


def test_a_holder_knows_a_retyped_name_as_the_new_body_does(s):
    """A cell redefines a body and what that calls, with another type: the holder has never called
    it itself."""
    s.run("define i64 @t() {\n  ret i64 994\n}")
    s.run(
        "declare i64 @t()\ndefine i32 @f() {\n  %c = call i64 @t()\n  %k = trunc i64 %c to i32\n"
        "  %d = add i32 %k, 1\n  ret i32 %d\n}"
    )
    s.run("define i32 @g() {\n  %c = call i32 @f()\n  %d = add i32 %c, 1\n  ret i32 %d\n}")
    assert s.call("g") == 996
    s.run(
        "define i32 @t() {\n  ret i32 411\n}\n"
        "define i32 @f() {\n  %c = call i32 @t()\n  %d = add i32 %c, 1\n  ret i32 %d\n}",
        options=CellOptions(retype=True),
    )
    assert s.call("g") == 413
    s.undo()
    assert s.call("g") == 996
    s.redo()
    assert s.call("g") == 413


def test_a_holder_that_knows_a_name_of_another_type_still_does(s):
    """Whoever mentions a name that was retyped is to be run again, whatever he holds."""
    retype = CellOptions(retype=True)
    s.run("define i32 @t() {\n  ret i32 1\n}")
    s.run("define i32 @f() {\n  ret i32 10\n}")
    s.run(
        "declare i32 @t()\ndeclare i32 @f()\ndefine i32 @g() {\n  %a = call i32 @f()\n"
        "  %b = call i32 @t()\n  %c = add i32 %a, %b\n  ret i32 %c\n}"
    )
    assert s.call("g") == 11
    s.run("define i64 @t() {\n  ret i64 2\n}", options=retype)
    s.run("define i32 @t() {\n  ret i32 3\n}", options=retype)
    for body in ("ret i32 20", "%r = call i32 @t()\n  ret i32 %r"):
        s.run(f"declare i32 @t()\ndefine i32 @f() {{\n  {body}\n}}")
        with pytest.raises(TypeMismatch):
            s.call("g")
    assert s.call("f") == 3


def test_a_variable_stays_where_it_is_when_its_cell_is_made_anew_for_a_body_that_it_holds(s):
    """In one cell, which changes what the body is made of and defines the variable again."""
    s.run("struct s { char c[10]; };", "c")
    s.run("int size(void) { return sizeof(struct s); }", "c")
    s.run("int g = 5;\nint get(void) { return size(); }\nint *p = &g;", "c")
    at = s["g"].address
    s.run("struct s { char c[30]; };\nint g = 7;", "c")
    assert s["g"].address == at and s.call("get") == 30
    assert s.run("*p", "c").value == 7
    s.undo()
    assert s["g"].address == at and s["g"].value == 5 and s.call("get") == 10
    s.redo()
    assert s["g"].address == at and s["g"].value == 7 and s.call("get") == 30
    s.check()


LIBRARY = (
    "typedef {} t;\nstatic t f(t a) {{ return a * 3 + a; }}\nt g(t a, t b) {{ return f(a) - b; }}\n"
    "int v(int x) {{ t q = x; return g(q / 2, q); }}"
)


@needs_clang
def test_types_of_bodies_that_are_held_at_second_hand_may_change(s):
    """The cell says nothing of them itself: it is made anew with what it does call."""
    s.run(LIBRARY.format("int"), "c", cell_id="library")
    user = s.run("int h(void) { return v(3); }", "c").cell.number
    assert user in holders(s, "f") & holders(s, "g") and s.call("h") == 1
    s.run(LIBRARY.format("double"), "c", cell_id="library")
    assert s.call("h") == 3
    s.undo()
    assert s.call("h") == 1
    s.redo()
    assert s.call("h") == 3
    s.run("int direct(void) { return g(1, 2); }", "c")
    with pytest.raises(TypeMismatch, match="cells 3, 4 use it"):
        s.run("define i32 @g(i32 %a) {\n  ret i32 %a\n}")


LABELS = (
    "int f(int x) {{ static void *const t[] = {{ &&a, &&b }}; goto *t[x & 1];"
    " a: return {}; b: return 7; }}\n"
)
ALIAS = '{} int f(int x) {{ return x + {}; }}\nint a(int) __attribute__((alias("f")));\n'


@needs_clang
@pytest.mark.parametrize("text, new, old, now", [
    (LABELS, LABELS.format(90), 5 + 1, 90 + 2),
    (ALIAS.replace("{}", "static", 1), "static int f(int x) { return 80; }", 5 + 1, 80 + 2),
    (ALIAS.replace("{}", "", 1), "int f(int x) { return 80; }", 5 + 1, 80 + 2),
], ids=["labels", "alias of a static function", "alias"])  # fmt: skip
def test_what_only_a_definition_has_stays_with_it(s, text, new, old, now):
    """A cell that has lost a name is made anew: labels and aliases are of what it defined."""
    more = "int k(void) { return 1; }\nint g(void) { return f(0) + k(); }"
    s.run(text.format(5) + more, "c")
    s.run("int h(void) { return g(); }", "c")
    assert s.call("h") == old
    s.run(new, "c")
    s.run("int k(void) { return 2; }", "c")
    assert s.call("h") == now
    if "alias" in text:
        assert s.call("a", 1) == 6
    s.undo(2)
    assert s.call("h") == old


@needs_clang
def test_stored_pointers_follow_functions_that_leave_a_cell_with_their_table(s):
    """The cell is made anew without them before the other one defines them."""
    text = (
        "static int a(int x) {{ return x + {}; }}\nint b(int x) {{ return x + v(2); }}\n"
        "static struct {{ int (*f)(int); int k; }} tab[] = {{ {{ a, {} }}, {{ b, 2 }} }};\n"
        "int (*get(int i))(int) {{ return tab[i].f; }}\n"
    )
    rest = "static int w(int m) { return m; }\nint v(int m) { return w(m) + 3; }\n"
    s.run(rest + text.format(2, 2) + "const int more[] = {6, 7};", "c")
    s.run("int (*p)(int);", "c")
    s.run("p = get(0);", "c")
    s.run(text.format(5, 5), "c")
    s.run("int fill(int x) { return x * 100; } int (*q)(int) = fill;", "c")
    assert s.run("p(1)", "c").value == 6
    s.undo(2)
    assert s.run("p(1) + get(1)(1)", "c").value == 3 + 6
    s.check()


def test_an_undone_eviction_brings_back_pointers_to_what_nobody_defines(s):
    s.run("declare i32 @later(i32)\n@p = global ptr @later")
    code = "define i32 @fill(i32 %x) {\n  ret i32 0\n}\n@q = global ptr @fill"
    s.evict("p")
    s.run(code)
    s.undo(2)
    s.run(
        "define i32 @call(i32 %x) {\n  %f = load ptr, ptr @p\n  %r = call i32 %f(i32 %x)\n  ret i32 %r\n}"
    )
    with pytest.raises(UndefinedSymbol, match="later"):
        s.call("call", 3)
    s.run("define i32 @later(i32 %x) {\n  ret i32 7\n}")
    assert s.call("call", 3) == 7
