"""Running cells and calling functions: what comes back, and what a handle is."""

from __future__ import annotations

import pytest
from programs import SQ, caller, constant

from jitkernel import Session
from jitkernel.errors import CompileError, JitError, TypeMismatch, UsageError
from tests.busy import soon


def test_a_cell_gives_its_last_value(s):
    r = s.run(SQ + "\n@sq(7)")
    assert (r.value, r.text, r.stdout, r.stderr) == (49, "i32 49", "", "")
    assert r.cell is s.cells[0] and r.cell.names == ["sq"]
    assert r.html == "", "what reads the same as text needs no second form"
    assert "0xFFFFFFFF" in s.run("@sq(1)\n%x = sub i32 0, 1").html.upper().replace("0XF", "0xF")


@pytest.mark.parametrize(
    ("type", "value", "new"),
    [
        ("i32", 41, -5),
        ("i128", 1 << 100, -(1 << 127)),
        ("double", 0.5, -1e300),
        ("{ i8, [2 x i16] }", (1, (2, 3)), (-1, (-2, 4))),
        ("<4 x float>", (1.0, 2.0, 3.0, 4.0), (0.5, 0.25, -1.0, 0.0)),
    ],
)
def test_a_variable_is_read_and_written_by_its_handle(s, type, value, new):
    s.run(f"@counter = global {type} zeroinitializer")
    g = s["counter"]
    for wanted in (value, new):
        g.value = wanted
        assert g.value == wanted
    s.run(f"define {type} @get() {{\n  %v = load {type}, ptr @counter\n  ret {type} %v\n}}")
    assert s.call("get") == new
    assert g.typed.python == new and g.address == s.symbols["counter"].address


def test_a_constant_is_not_written(s):
    s.run("@k = constant i32 9")
    assert s["k"].value == 9
    with pytest.raises(JitError, match="constant"):
        s["k"].value = 10
    with pytest.raises(CompileError, match="constant"):
        s.run("@k = 10")
    assert s["k"].value == 9


def test_a_variable_is_seen_while_the_cell_that_changes_it_runs(s):
    s.run(
        "@n = global i64 0\n@over = global i8 0\ndefine void @count() {\nentry:\n  br label %l\nl:\n"
        "  %v = load volatile i64, ptr @n\n  %w = add i64 %v, 1\n  store volatile i64 %w, ptr @n\n"
        "  %o = load volatile i8, ptr @over\n  %c = icmp eq i8 %o, 0\n"
        "  br i1 %c, label %l, label %d\nd:\n  ret void\n}"
    )
    seen, over = [], s["over"].address

    def watch() -> bool:
        while not seen or seen[-1] < 100:
            seen.append(s["n"].value)
        s.interrupt()
        s.inspect.engine.arena.write(over, b"\1")  # nobody can stop code in this process
        return True

    with soon(watch, 0.05), pytest.raises(JitError):
        s.call("count")
    assert seen[-1] >= 100


def test_calling_what_is_no_function(s):
    s.run("@g = global i32 1\n" + SQ)
    with pytest.raises(UsageError, match="g"):
        s.call("g")
    with pytest.raises(UsageError, match="did you mean @sq"):
        s.call("sqq", 1)


def test_a_name_that_nothing_comes_near_is_not_guessed(s: Session) -> None:
    with pytest.raises(CompileError) as caught:
        s.run("@nope()")  # not @fopen
    assert "did you mean" not in str(caught.value)


def test_arguments_of_text_are_released_after_the_call(s):
    s.call("strlen", "hello")
    used = s.memory()["zones"]["data"]["used"]
    for n in range(20):
        assert s.call("strlen", "x" * n) == n
    assert s.memory()["zones"]["data"]["used"] == used


def test_results_by_number(s):
    first = s.run(SQ + "\n@sq(7)").cell.number
    second = s.run("@sq(_)").cell.number
    assert s.run(f"@sq(_{first})").value == 49**2
    assert s.run(f"@sq(_{second})").value == 49**4 - (1 << 32) * ((49**4 + (1 << 31)) >> 32)
    with pytest.raises(CompileError, match=r"_999"):
        s.run("@sq(_999)")


def test_values_before_the_last_are_shown(s):
    shown = []

    class Sink:
        def output(self, name, data): ...
        def input(self, prompt): ...
        def note(self, text): ...
        def progress(self, text): ...
        def shown(self, label, text, html):
            shown.append((label, text))

    r = s.run(SQ + "\n@sq(2)\n@sq(3)\n@sq(4)", sink=Sink())
    assert shown == [("@sq(2)", "i32 4"), ("@sq(3)", "i32 9")]
    assert r.text == "i32 16"
    shown.clear()
    s.run("%a = add i32 1, 2\n%b = mul i32 %a, %a\n@sq(2)", sink=Sink())
    assert shown == [("%b", "i32 9")]  # of instructions the last one's name


def test_a_block_runs_once_and_leaves_no_code(s):
    s.run("@g = global i32 0")
    s.run("@h = global i32 0\n%v = load i32, ptr @h\nstore i32 %v, ptr @h")  # there is a thunk now
    before = s.memory()["zones"]["text"]["used"]
    for _ in range(5):
        s.run("%v = load i32, ptr @g\n%w = add i32 %v, 1\nstore i32 %w, ptr @g")
    assert s["g"].value == 5
    assert s.memory()["zones"]["text"]["used"] == before


def test_a_closed_session_says_so(either):
    session = either()
    session.run(SQ)
    session.close()
    session.close()
    with pytest.raises(JitError, match="closed"):
        session.run(SQ)
    with pytest.raises(JitError, match="closed"):
        session.call("sq", 1)
    session.interrupt()


def test_symbols_tell_what_is_known(s):
    number = s.run(SQ).cell.number
    user = s.run(caller("use", "one").replace("@one()", "@sq(i32 3)")).cell.number
    y = s.symbols["sq"]
    assert (y.name, y.kind, y.type, y.cell, y.users) == (
        "sq",
        "function",
        "i32 (i32)",
        number,
        (user,),
    )
    assert y.defined and y.state == "defined" and y.size > 0 and y.address in s.inspect.engine.arena
    s.run("@g = constant [3 x i8] zeroinitializer")
    g = s.symbols["@g"]
    assert (g.kind, g.type, g.constant, g.size) == ("variable", "[3 x i8]", True, 3)


def test_by_value_aggregates_are_limited_to_64_scalars(s):
    fits = "[64 x i8]"
    s.run(f"define i8 @f({fits} %a) {{\n  %r = extractvalue {fits} %a, 63\n  ret i8 %r\n}}")
    assert s.call("f", bytes(range(64))) == 63
    s.run("define i8 @h([65 x i8] %a) {\n  %r = extractvalue [65 x i8] %a, 64\n  ret i8 %r\n}")
    with pytest.raises(TypeMismatch, match=r"65 scalars.*[Pp]ointer"):
        s.call("h", bytes(65))


def test_many_signatures_reuse_their_thunks(s):
    s.run(SQ + "\n" + constant("one", 1))
    s.call("sq", 1)
    s.call("one")
    before = s.memory()["thunks"]
    for n in range(10):
        s.run(f"define i32 @f{n}(i32 %x) {{\n  ret i32 %x\n}}\n@f{n}({n})")
    assert s.memory()["thunks"] == before


def test_the_thunks_of_many_signatures_do_not_pile_up(s, monkeypatch):
    thunks = s.inspect.engine.thunks
    most = len(thunks._thunks) + 3
    monkeypatch.setattr("jitkernel.session.run.thunks._KEPT", most)
    for bits in range(9, 16):
        s.run(f"define i{bits} @w{bits}(i{bits} %x) {{\n  ret i{bits} %x\n}}")
        assert s.call(f"w{bits}", 3) == 3
    assert len(thunks._thunks) == most
    assert len(thunks.images) <= most
    s.check()
    assert s.call("w9", 2) == 2


def test_handles_are_pointers_for_calls_from_python(s):
    s.run("define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@n = global i32 6")
    s.run(
        "define i32 @apply(ptr %f, ptr %p) {\n  %v = load i32, ptr %p\n"
        "  %r = call i32 %f(i32 %v)\n  ret i32 %r\n}"
    )
    assert s.call("apply", s["sq"], s["n"]) == 36
    s.hibernate("sq")
    assert s.call("apply", s["sq"], s["n"]) == 36


def test_an_argument_of_what_is_timed_may_call_the_same_function(s):
    s.run("""
@seen = global i32 0
define i32 @f(i32 %x) {
  store i32 %x, ptr @seen
  %r = add i32 %x, 1
  ret i32 %r
}""")
    s.time("@f(@f(3))", number=2, repeat=1)
    assert s["seen"].value == 4


def test_errno_is_what_the_program_left(s):
    s.run(
        "declare ptr @__errno_location()\n"
        "define void @set(i32 %n) {\n"
        "  %p = call ptr @__errno_location()\n  store i32 %n, ptr %p\n  ret void\n}\n"
        "define i32 @get() {\n"
        "  %p = call ptr @__errno_location()\n  %n = load i32, ptr %p\n  ret i32 %n\n}"
    )
    s.call("set", 77)
    s.run(
        "declare i32 @getppid()\ndefine i32 @new() {\n  %n = call i32 @getppid()\n  ret i32 %n\n}"
    )
    with pytest.raises(JitError):
        s.load("/no/such/library.so")
    assert s.call("get") == 77


def test_another_programs_handles_are_refused(s):
    """Its addresses are of other things here."""
    s.run("define i32 @apply(ptr %f, i32 %x) {\n  %r = call i32 %f(i32 %x)\n  ret i32 %r\n}")
    with Session(executor="process") as other:
        other.run("define i32 @id(i32 %x) {\n  ret i32 %x\n}\n@n = global i32 1")
        for handle in (other["id"], other["n"]):
            with pytest.raises(UsageError, match=r"argument 1: .* is another session's"):
                s["apply"](handle, 4)
    s.run("define i32 @id(i32 %x) {\n  ret i32 %x\n}")
    assert s["apply"](s["id"], 4) == 4
