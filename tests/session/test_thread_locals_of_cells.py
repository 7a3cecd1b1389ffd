"""Thread-local variables and ifuncs of IR cells: a copy for each thread, a choice at the start."""

from __future__ import annotations

import pytest

from jitkernel import Session, errors, views
from jitkernel.session.settings import CellOptions

NEXT = """define i32 @next() {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @tl)
  %v = load i32, ptr %p
  %w = add i32 %v, 1
  store i32 %w, ptr %p
  ret i32 %w
}"""
# Two calls in a thread of its own: what the second says.
IN_THREAD = """#include <pthread.h>
int next(void);
static void *run(void *r) { next(); *(int *)r = next(); return 0; }
int in_thread(void) {
  pthread_t t;
  int r;
  pthread_create(&t, 0, run, &r);
  pthread_join(t, 0);
  return r;
}"""


def _fill(s: Session, words: str = "thread_local") -> None:
    for source in (f"@tl = {words} global i32 40", NEXT):
        s.run(source)
    s.run(IN_THREAD, "c")


def _of(s: Session, *calls: str) -> list[object]:
    return [s.run(f"@{name}()").value for name in calls]


@pytest.mark.parametrize(
    "words",
    [
        "thread_local", "thread_local(localdynamic)", "thread_local(initialexec)",
        "thread_local(localexec)", "dso_local thread_local(localexec)", "hidden thread_local",
        "protected thread_local(initialexec)", "weak thread_local", "weak_odr thread_local(localdynamic)",
    ],
)  # fmt: skip
def test_every_thread_has_its_own(s: Session, words: str) -> None:
    """Between cells, whatever model the text names."""
    _fill(s, words)
    assert _of(s, "next", "next", "in_thread", "in_thread", "next") == [41, 42, 42, 42, 43]
    assert s.run("@tl").value == 43


@pytest.mark.parametrize("words", ["internal", "private", "hidden", "weak_odr"])
@pytest.mark.parametrize("closed", [False, True])
def test_in_one_cell(s: Session, words: str, closed: bool) -> None:
    source = f"@tl = {words} thread_local(localexec) global i32 40, align 64\n{NEXT}"
    s.run(source, options=CellOptions(closed=closed))
    s.run(IN_THREAD, "c")
    assert _of(s, "next", "in_thread", "next") == [41, 42, 42]


def test_read_and_written_as_other_variables(s: Session) -> None:
    """The copy is that of the thread which runs cells, whether anybody has asked for it or not."""
    _fill(s)
    assert s.run("@tl").value == 40
    s.run("@tl = 50")
    assert _of(s, "next", "in_thread") == [51, 42]
    assert s["tl"].value == s.run("%v = load i32, ptr @tl").value == 51
    s["tl"].value = 60
    assert _of(s, "next") == [61]
    assert "tl" in s and "tl" in s.symbols and s.symbols["@tl"].type == "i32"
    s.run(
        "@many = thread_local global [300 x i16] zeroinitializer\n@c = thread_local constant i8 7"
    )
    s.run("%p = getelementptr i16, ptr @many, i64 299\nstore i16 5, ptr %p")
    assert s["many"].value[298:] == (0, 5)
    assert s["c"].value == 7
    with pytest.raises(errors.JitError, match="constant"):
        s.run("@c = 8")


def test_redefined_evicted_undone(s: Session) -> None:
    _fill(s)
    assert _of(s, "next") == [41]
    s.run("@tl = thread_local global i32 100")
    assert _of(s, "next", "in_thread", "next") == [101, 102, 102]
    while not any("thread_local" in line for line in s.undo()):
        pass
    s.check()
    assert _of(s, "next", "in_thread") == [42, 42]
    with pytest.raises(errors.EvictError, match=r"\(@next\) uses @tl\n"):
        s.evict("tl")
    s.evict("tl", cascade=True)
    assert "tl" not in s and "next" not in s
    s.check()
    s.undo()
    assert _of(s, "next", "in_thread") == [43, 42]
    s.run("@tl = thread_local global i32 7", options=CellOptions(keep_data=True))
    assert _of(s, "next", "in_thread") == [44, 9]


def test_of_another_type_or_not_thread_local(s: Session) -> None:
    _fill(s)
    for source, words in (
        ("@tl = thread_local global i64 1", "^@tl is global i32 and would become global i64"),
        ("@tl = global i32 1", r"^@tl is not thread-local in this cell, and cell \d+'s is;"),
        ("@tl = external global i32\n@p = global ptr @tl", "^@tl is not thread-local in this cell"),
    ):
        with pytest.raises(errors.TypeMismatch, match=words):
            s.run(source)
    s.run("@plain = global i32 1", cell_id="a")
    with pytest.raises(errors.TypeMismatch, match="@plain is thread-local in this cell"):
        s.run("@plain = thread_local global i32 1")
    s.run("@plain = thread_local global i32 5", cell_id="a")
    assert s["plain"].value == 5
    s.undo()
    assert s["plain"].value == 1


@pytest.mark.parametrize(
    "source, words",
    [
        ("@p = global ptr @tl", "@tl is thread-local: its address is no constant"),
        ("@q = thread_local global i32 0\n@p = global ptr @q", "its address is no constant"),
        ("@q = external thread_local global i32\ndefine ptr @f() {\n ret ptr @q\n}",
         "reads @q, which nobody defines; define it thread_local"),
        ("@q = thread_local global [2 x i32] zeroinitializer\n"
         "@p = thread_local alias i32, getelementptr (i8, ptr @q, i64 4)",
         "@p is thread-local and part of @q"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(s: Session, source: str, words: str) -> None:
    _fill(s)
    with pytest.raises(errors.JitError, match=words):
        s.run(source)
    assert _of(s, "next") == [41]


def test_two_names_of_one_variable(s: Session) -> None:
    s.run("""@one = thread_local global i32 9
@two = thread_local alias i32, ptr @one
define i32 @difference() {
  store i32 77, ptr @one
  %w = load i32, ptr @two
  %x = sub i32 %w, 9
  ret i32 %x
}""")
    assert _of(s, "difference") == [68]
    assert s["one"].value == s["two"].value == 77


@pytest.mark.process
def test_a_weak_one_that_nobody_defines(s: Session) -> None:
    s.run("@w = extern_weak thread_local global i32\ndefine i32 @get() {\n  %v = load i32, ptr @w\n"
          "  ret i32 %v\n}")  # fmt: skip
    with pytest.raises(errors.Fault, match="null"):
        s.run("@get()")
    s.run("@w = thread_local global i32 11")
    assert _of(s, "get") == [11]


def test_in_another_process_and_another_session(tmp_path) -> None:
    """They begin anew, those without a name for others too, and no two share a copy."""
    own = "\n".join(f"@v{i} = internal thread_local global i32 {i}" for i in range(3))
    get = "\n".join(
        f"define i32 @count{i}() {{\n  %v = load i32, ptr @v{i}\n  %w = add i32 %v, 10\n"
        f"  store i32 %w, ptr @v{i}\n  ret i32 %w\n}}"
        for i in range(3)
    )
    path = str(tmp_path / "a.jks")
    counts = ("count0", "count1", "count2")
    with Session() as s:
        _fill(s)
        s.run(own + "\n" + get)
        for _ in range(2):
            assert _of(s, "next", "in_thread", *counts) == [41, 42, 10, 11, 12]
            s.respawn()
        s.run("@late = thread_local global i32 3")
        assert s["late"].value == 3
        assert _of(s, "next", *counts) == [41, 10, 11, 12]
        s.save(path)
        s.check()
    with Session.restore(path) as s:
        assert [*_of(s, "next", "in_thread", *counts), s["late"].value] == [41, 42, 10, 11, 12, 3]
        s.run("@tl = thread_local global i32 70")
        assert _of(s, "next") == [71]
        s.check()


def test_a_thread_that_ends_frees_its_copies(s: Session) -> None:
    s.run(
        """#include <pthread.h>
_Thread_local char tl[1000000];
static void *touch(void *r) { tl[0] = 1; return 0; }
void threads(int n) { pthread_t t; while (n--) { pthread_create(&t, 0, touch, 0); pthread_join(t, 0); } }
""",
        "c",
    )
    s.run("@threads(10)")
    before = s.memory()["executor"]
    s.run("@threads(100)")
    assert s.memory()["executor"] < before + 20_000_000


def test_shared_with_c(s: Session) -> None:
    """A declaration is enough, in one language or the other."""
    pytest.importorskip("ziglang")
    s.run("_Thread_local int in_c = 5; int more(void) { return ++in_c; }", language="c")
    assert s.run("more()", language="c").value == 6
    assert s.run("%v = load i32, ptr @in_c").value == 6
    s.run("@tl = thread_local global i32 40")
    s.run("extern _Thread_local int tl; int plus(void) { return ++tl; }", language="c")
    assert s.run("plus()", language="c").value == s["tl"].value == 41
    notes = s.run("_Thread_local int in_c = 8;", language="c").notes
    assert "in_c moved from" in notes[1] and "emutls" not in "".join(notes)
    assert s.run("more()", language="c").value == 9
    s.run("_Thread_local int in_c;", language="c")
    assert s.run("in_c", language="c").value == 9


def test_a_variable_becomes_one_for_each_thread(s: Session) -> None:
    """Those that use it, in other cells, are compiled for that, and back."""
    pytest.importorskip("ziglang")
    s.run("int n = 4;", "c", cell_id="n")
    s.run("int get(void) { return n; }\nint *at(void) { return &n; }", "c", cell_id="get")
    s.run("_Thread_local int n = 5;", "c", cell_id="n")
    assert s.call("get") == 5 and s.run("*at()", "c").value == 5
    s.run("int n = 6;", "c", cell_id="n")
    assert s.call("get") == 6 and s.run("*at()", "c").value == 6
    s.undo()
    assert s.call("get") == 5
    s.check()


def test_views_name_them(s: Session) -> None:
    """The tables, the assembly and what is watched know the variable, not how it is found."""
    _fill(s)
    s.run("@own = internal thread_local global i32 1\ndefine ptr @get() {\n  ret ptr @own\n}")
    for view in (views.asm(s, "next"), views.symbols(s), views.cells(s)):
        assert "@tl" in view.text and "emutls_v" not in view.text
    assert "thread_local i32" in views.symbols(s).text
    status = s.run("@tl = thread_local global i32 40").notes
    assert status[0].startswith(f"cell {s.cells[-1].number}: @tl thread_local global i32, each")
    assert "@tl moved from" in status[1]
    (watched,) = s.watch("tl")
    assert watched.value == 40
    s.run("@next()")
    assert s.watch()[0].value == 41


CHOICE = """@pick = global i32 0
define internal i32 @twice(i32 %x) {
  %y = mul i32 %x, 2
  ret i32 %y
}
define internal i32 @thrice(i32 %x) {
  %y = mul i32 %x, 3
  ret i32 %y
}
define internal ptr @choose() {
  %v = load i32, ptr @pick
  %n = add i32 %v, 1
  store i32 %n, ptr @pick
  %c = icmp eq i32 %v, 0
  %f = select i1 %c, ptr @twice, ptr @thrice
  ret ptr %f
}
@f = ifunc i32 (i32), ptr @choose
@table = global ptr @f
define i32 @inside(i32 %x) {
  %y = call i32 @f(i32 %x)
  ret i32 %y
}"""
OUTSIDE = """define i32 @outside(i32 %x) {
  %p = load ptr, ptr @table
  %a = call i32 %p(i32 %x)
  %y = call i32 @f(i32 %a)
  ret i32 %y
}"""


@pytest.mark.process
def test_ifuncs(s: Session) -> None:
    s.run(CHOICE)
    s.run(OUTSIDE)
    assert s.run("@f(5)").value == s.call("f", 5) == s["f"](5) == 10
    assert (s.call("inside", 5), s.call("outside", 5), s["pick"].value) == (10, 20, 1)
    s.run("define i32 @f(i32 %x) {\n  ret i32 1\n}")
    assert (s.call("inside", 5), s.call("outside", 5)) == (1, 1)
    s.undo()
    assert (s.call("inside", 5), s.call("outside", 5), s["pick"].value) == (10, 20, 1)
    s.run("declare i32 @abs(i32)\ndefine internal ptr @libc() {\n  ret ptr @abs\n}\n"
          "@f = ifunc i32 (i32), ptr @libc")  # fmt: skip
    assert (s.call("inside", -5), s.call("outside", -5)) == (5, 5)
    s.respawn()
    assert (s.call("inside", -5), s.call("outside", -5)) == (5, 5)
    with pytest.raises(errors.EvictError, match="@outside"):
        s.evict("f")
    s.evict("f", cascade=True)
    s.check()
    s.undo()
    assert s.call("outside", -5) == 5


def test_ifuncs_are_restored(tmp_path) -> None:
    path = str(tmp_path / "a.jks")
    with Session() as s:
        s.run(CHOICE)
        s.run("@own = internal ifunc i32 (i32), ptr @r\ndefine internal ptr @r() {\n  ret ptr @abs\n"
              "}\ndeclare i32 @abs(i32)\ndefine i32 @distance(i32 %x) {\n"
              "  %y = call i32 @own(i32 %x)\n  ret i32 %y\n}")  # fmt: skip
        s.save(path)
    with Session.restore(path) as s:
        assert (s.call("inside", 5), s.call("distance", -4), s["pick"].value) == (10, 4, 1)
        s.check()
