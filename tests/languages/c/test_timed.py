"""Any expression or statements of C are timed in a native loop, and nothing of them stays."""

from __future__ import annotations

import pytest

pytest.importorskip("ziglang")

from jitkernel import Session
from jitkernel.errors import CompileError, Fault, Interrupted, UsageError
from jitkernel.session.run.results import Collector
from tests.seeds import sampled

CELL = """#include <stdio.h>
int a[4] = {1, 2, 3, 4}, calls, seen;
int sq(int n) { calls++; return n * n; }
int sum(int *p, int n) { int t = 0; for (int i = 0; i < n; i++) t += p[i]; return t; }
double half(double x) { return x / 2; }
struct pt { int x; double y; } p = {1, 2.5};
#define cube(n) (seen = (n) * (n) * (n))"""


@pytest.fixture
def c(s: Session) -> Session:
    s.run(CELL, "c")
    return s


def timed(s: Session, source: str, number: int = 5, **more) -> list[float]:
    return s.time(source, number, 3, language="c", **more)


def text(s: Session, source: str) -> str:
    return s.run(source, "c").text


@pytest.mark.parametrize(
    "source",
    sampled([
        "sum(a, 4)", "sq(7) + 1", "for (int i = 0; i < 10; i++) sq(i);", "sq(2); sq(3);",
        "sq(2); sq(3)", "sq('a')", "a", "*a", "p", '"text"', "sum((int[]){1, 2}, 2)", "cube(2)",
        "{ int t = 0; for (int i = 0; i < 3; i++) t += i; seen = t; }", "half(3)", "(void)sq(1)",
        "static_cast: if (sq(1)) goto static_cast_end;\nstatic_cast_end: ;", "&p", "sq",
    ], 2),
)  # fmt: skip
def test_what_is_timed(c: Session, source: str) -> None:
    found = timed(c, source)
    assert len(found) == 3 and all(one > 0 for one in found)


def test_it_runs_as_often_as_was_asked(c: Session) -> None:
    for source, calls in (("sq(7)", 15), ("sq(7) + 1", 15), ("sq(1); sq(2)", 30)):
        c.run("calls = 0;", "c")
        timed(c, source)
        assert text(c, "calls") == f"(int) {calls}"


def test_a_call_with_constants_is_not_compiled(c: Session) -> None:
    timed(c, "sq(7)")
    with Session(clang="/usr/bin/false") as other:  # no compiler of C answers there
        other.run("define i32 @sq(i32 %x) {\n  ret i32 %x\n}")
        assert timed(other, "sq(7);")
        with pytest.raises(UsageError, match="does not answer as a clang"):
            timed(other, "sq(7) + 1")


def test_a_macro_is_not_taken_for_a_function(c: Session) -> None:
    c.run("#define sq(n) (seen = (n))", "c")
    timed(c, "sq(31)")
    assert text(c, "seen") == "(int) 31" and text(c, "calls") == "(int) 0"


def test_c_converts_what_a_call_line_does_not(c: Session) -> None:
    c.run("void take(unsigned char x) { seen = x; }", "c")
    timed(c, "take(258)")
    assert text(c, "seen") == "(int) 2"


def state(s: Session) -> tuple[object, ...]:
    used = {name: zone["used"] for name, zone in s.memory()["zones"].items()}
    return (
        s.number, [cell.number for cell in s.cells], list(s.inspect.history._done), list(s.inspect.history._undone), list(s.results),
        dict(s.inspect.state.notes), sorted(s.symbols), used,
    )  # fmt: skip


@pytest.mark.parametrize(
    "source", ["sum(a, 4)", '"a text"', 'for (int i = 0; i < 3; i++) puts("x");', "p; sq(1); p"]
)
def test_nothing_of_it_stays(c: Session, source: str) -> None:
    text(c, "sq(4) + 1")
    timed(c, source)  # what measures stays, as for calls
    before = state(c)
    timed(c, source)
    assert state(c) == before
    assert text(c, "sq(4) + 1") == "(int) 17"


@pytest.mark.parametrize(
    "source",
    [
        "int x = 4;", "int f(void) { return 1; }", "#define F 3\nF", "struct q { int x; }; 3",
        "typedef int number;", "enum { ONE } e; e", "#include <math.h>\n1",
    ],
)  # fmt: skip
def test_what_declares_something_is_refused(c: Session, source: str) -> None:
    before = state(c)
    with pytest.raises(UsageError, match="declares nothing") as told:
        timed(c, source)
    assert "\n" not in str(told.value) and state(c) == before


def test_what_is_wrong_is_told_in_the_language_s_words(c: Session) -> None:
    before = state(c)
    for source, words in (
        ("nobody(3)", "line 1, column 1: call to undeclared function 'nobody'"),
        ("\nsq(7", "line 2, column 3: unterminated"),
        ("sq(1, 2)", "too many arguments"),
    ):
        with pytest.raises(CompileError, match=words):
            timed(c, source)
    with pytest.raises(UsageError, match="no magics"):
        timed(c, "%opt -O0\nsq(4) + 1")
    assert state(c) == before


@pytest.mark.process
@pytest.mark.parametrize("source", ["\n*(int *)0", "\nseen = 1; sq(1);\n*(int *)0"])
def test_a_fault_is_told_at_its_line(c: Session, source: str) -> None:
    with pytest.raises(Fault, match=rf"line {source.count(chr(10)) + 1}"):
        timed(c, source)
    assert not c.inspect.program.running
    assert timed(c, "sum(a, 4)")


def test_output_is_the_sink_s(c: Session) -> None:
    sink = Collector()
    timed(c, 'if (1) puts("x");', 2, sink=sink)
    assert sink.out == b"x\n" * 6 and not sink.err


def test_warnings_are_told(c: Session) -> None:
    notes: list[str] = []

    class Listening(Collector):
        def note(self, text: str) -> None:
            notes.append(text)

    timed(c, "7;", sink=Listening())
    assert len(notes) == 1 and "expression result unused" in notes[0]


@pytest.mark.process
def test_it_can_be_interrupted(c: Session) -> None:
    class Impatient(Collector):
        def output(self, name: str, data: bytes) -> None:
            c.interrupt()

    before = state(c)
    with pytest.raises(Interrupted):
        timed(c, 'for (;;) { puts("x"); fflush(stdout); }', sink=Impatient())
    assert state(c)[:-2] == before[:-2]
    assert timed(c, "sum(a, 4)")
