"""Cells of other languages than IR in one program with IR cells.

The tutorial's programs (https://llvm.org/docs/tutorial, "My First Language Frontend") give what the
tutorial prints for them.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jitkernel import Session
from jitkernel.errors import (
    CompileError,
    Fault,
    TypeMismatch,
    UndefinedSymbol,
    UsageError,
)
from jitkernel.languages import Language, Once, add, find, names, plan, registry

TWICE = "define double @twice(double %x) {\n  %y = fadd double %x, %x\n  ret double %y\n}"
FIB = "def fib(x)\n  if x < 3 then\n    1\n  else\n    fib(x-1)+fib(x-2)"
SEQUENCE = "def binary : 1 (x y) y;"


def k(s: Session, source: str, **more):
    return s.run(textwrap.dedent(source).strip("\n"), "kaleidoscope", **more)


# -- the tutorial's programs -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("4+5;", 9.0),  # chapters 2 to 4
        ("def testfunc(x y) x + y*2; testfunc(4, 10);", 24.0),
        ("def foo(x) x + 1; foo(2);", 3.0),
        ("extern sin(x); extern cos(x); sin(1.0);", 0.8414709848078965),
        ("extern sin(x); extern cos(x); def foo(x) sin(x)*sin(x) + cos(x)*cos(x); foo(4.0);", 1.0),
        ("extern foo(); extern bar(); def baz(x) if x then foo() else bar();", None),  # chapter 5
        (FIB + "\nfib(40)", 102334155.0),
    ],
)
def test_small_programs(s: Session, source: str, value: float | None) -> None:
    assert k(s, source).value == value


@pytest.mark.process
def test_a_line_of_stars(s: Session) -> None:
    """Chapter 5: the condition is that of the variable before its step, so 100 times for 100."""
    k(s, """
        extern putchard(char);
        def printstar(n)
          for i = 1, i < n, 1.0 in
            putchard(42);
    """)  # fmt: skip
    result = k(s, "printstar(100)")
    assert (result.stdout, result.text) == ("*" * 100, "0.0")
    assert k(s, "printstar(0)").stdout == "*"  # the body runs at least once


@pytest.mark.process
def test_an_operator_for_sequences(s: Session) -> None:
    """Chapter 6."""
    k(s, "extern printd(x); def binary : 1 (x y) 0;  # ignores its operands")
    result = k(s, "printd(123) : printd(456) : printd(789);")
    assert (result.stdout, result.value) == ("123.000000\n456.000000\n789.000000\n", 0.0)


OPERATORS = """
def unary!(v) if v then 0 else 1;
def unary-(v) 0-v;
def binary> 10 (a b) b < a;
def binary| 5 (a b) if a then 1 else if b then 1 else 0;
def binary& 6 (a b) if !a then 0 else !!b;
def binary : 1 (a b) b;
def binary ~ 9 (a b) !(a < b | a > b);
"""
MANDELBROT = """
extern putchard(char);
def printdensity(d)
  if d > 8 then putchard(32)
  else if d > 4 then putchard(46)
  else if d > 2 then putchard(43)
  else putchard(42);
def converger(real imag iters creal cimag)
  if iters > 255 | (real*real + imag*imag > 4) then iters
  else converger(real*real - imag*imag + creal, 2*real*imag + cimag, iters+1, creal, cimag);
def converge(real imag) converger(0, 0, 0, real, imag);
def plot(xmin xmax xstep   ymin ymax ystep)
  for y = ymin, y < ymax, ystep in (
    (for x = xmin, x < xmax, xstep in printdensity(converge(x,y)))
    : putchard(10));
def mandel(realstart imagstart realmag imagmag)
  plot(realstart, realstart+realmag*78, realmag, imagstart, imagstart+imagmag*40, imagmag);
"""


@pytest.mark.process
def test_densities(s: Session) -> None:
    k(s, OPERATORS)
    k(s, MANDELBROT)
    calls = " : ".join(f"printdensity({d})" for d in (1, 2, 3, 4, 5, 9))
    assert k(s, calls + " : putchard(10)").stdout == "**++. \n"


def test_the_operators(s: Session) -> None:
    k(s, OPERATORS)
    values = {
        "!0": 1,
        "!!7": 1,
        "-3": -3,
        "2 > 1": 1,
        "0 | 2": 1,
        "1 & 0": 0,
        "2 ~ 2": 1,
        "1 ~ 2": 0,
    }
    assert {e: k(s, e).value for e in values} == values


@pytest.mark.process
def test_mandelbrot(s: Session) -> None:
    """The picture that chapter 6 shows, by the digest of its lines without blanks at their ends.

    It was made with orbits that begin at 0; those of the program printed there begin one later."""
    k(s, OPERATORS)
    k(s, MANDELBROT)
    picture = k(s, "mandel(-2.3, -1.3, 0.05, 0.07);").stdout
    lines = [line.rstrip() for line in picture.splitlines()]
    assert [len(line) for line in lines] == [79] * 41
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == (
        "15cfd9c52721dfca420db78854991b4982fd7a1e27b74e0912a8929188b1ab59"
    )


def test_variables_that_change(s: Session) -> None:
    """Chapter 7: the iterative Fibonacci numbers."""
    k(s, SEQUENCE + """
        def fibi(x)
          var a = 1, b = 1, c in
          (for i = 3, i < x in
             c = a + b :
             a = b :
             b = c) :
          b;
    """)  # fmt: skip
    k(s, FIB)
    assert k(s, "fibi(10)").value == k(s, "fib(10)").value == 55


# -- one program -------------------------------------------------------------------------------


def test_ir_and_kaleidoscope_call_each_other(s: Session) -> None:
    s.run(TWICE)
    assert k(s, "def four(x) twice(twice(x))\nfour(10)").value == 40
    assert s.run("@four(1.0)").text == "double 4.0"
    assert s["four"](2) == 8


def test_operators_follow_redefinition_and_undo(s: Session) -> None:
    k(s, "def binary| 30 (a b) a - b")
    assert k(s, "1 + 2 | 3").value == 0  # 1 + 2 - 3, either way
    assert k(s, "2 * 3 | 1").value == 5
    k(s, "def binary| 90 (a b) a - b")
    assert k(s, "2 * 3 | 1").value == 4
    s.undo()
    assert k(s, "2 * 3 | 1").value == 5
    s.evict("binary|")
    with pytest.raises(CompileError, match="nobody defines the binary operator"):
        k(s, "2 * 3 | 1")


@pytest.mark.process
def test_a_fault_names_the_line_of_the_cells_own_source(s: Session) -> None:
    k(s, "extern nowhere(x)")
    k(s, "def f(x)\n  x +\n\n  nowhere(x)\n")
    with pytest.raises(UndefinedSymbol, match=r"line 4: nowhere\(x\)"):
        k(s, "1\nf(1)")
    k(s, "def down(x)\n  1 +\n  down(x + 1)")
    with pytest.raises(Fault, match=r"down.*line 3: down\(x \+ 1\)"):
        k(s, "down(1)")


def test_what_a_change_is_refused_for_is_said_as_each_language_has_it(s: Session) -> None:
    k(s, "def two(a b) a + b")
    k(s, "def four(a) two(two(a, a), a)")
    with pytest.raises(
        TypeMismatch, match=r"\Atwo\(a b\) would become two\(a\), but cell \d+ uses it"
    ):
        k(s, "def two(a) a")
    s.run("int one(void) { return 1; }", "c")
    s.run("define i32 @user() {\n  %r = call i32 @one()\n  ret i32 %r\n}")
    with pytest.raises(
        TypeMismatch, match=r"\Aint one\(void\) would become double one\(void\), but"
    ):
        s.run("double one(void) { return 1; }", "c")


def test_status_and_faults_name_functions_as_they_are_written(s: Session) -> None:
    said = k(s, "def binary| 5 (a b) a + b\ndef f(x) x | x").notes
    assert ": binary| 5 (a b), 5 bytes; f(x), " in said[0] and "@" not in said[0]
    assert k(s, "def f(x) x").notes[1].startswith("f moved from cell ")
    k(s, "extern nowhere(x)")
    with pytest.raises(UndefinedSymbol, match=r"\Acall of nowhere, which nobody defines"):
        k(s, "nowhere(1)")
    assert repr(s["f"]) == "<f(x)>"


def test_a_cell_of_definitions_that_nobody_else_sees_says_so(s: Session) -> None:
    made = s.run("define internal i32 @own() {\n  ret i32 3\n}\n@p = private global i32 1")
    (said,) = made.notes
    assert said.endswith(": @own, @p, private to it: other cells do not see internal definitions")
    called = s.run("define internal i32 @own() {\n  ret i32 3\n}\n%x = call i32 @own()")
    assert called.value == 3 and called.notes == []


def test_lines_beside_instructions_are_those_of_the_source(s: Session) -> None:
    from jitkernel import views

    k(s, "# three\n\ndef f(x)\n  x +\n  1")
    text = views.asm(s, "f").text
    assert "\n4   +0 " in text and text.endswith("\n4    x +")
    k(s, "def g(x)\n  x")
    assert views.asm(s, "g").text.endswith("\n1  def g(x)")


# -- languages of others -----------------------------------------------------------------------


def answers(source, known):
    """A language whose cells are whole numbers."""
    known.output("stdout", b"read " + source.encode() + b"\n")
    text = f"define i32 @main() {{\n  ret i32 {int(source)}\n}}"
    return plan(source, once=[Once(text, "main", source)])


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))


def test_name_and_reader_make_a_language(s: Session, forget: None) -> None:
    add(Language("answers", answers))
    s.run("define i32 @main() {\n  ret i32 1\n}")
    result = s.run("42", "answers")
    assert (result.value, result.text, result.stdout) == (42, "i32 42", "read 42\n")
    assert s.run("@main()").value == 1  # what runs once is not the session's


def test_what_runs_once_may_define_nothing_else(s: Session, forget: None) -> None:
    text = "define i32 @main() {\n  ret i32 1\n}\ndefine i32 @f() {\n  ret i32 1\n}"
    add(Language("two", lambda source, known: plan(source, once=[Once(text, "main", "")])))
    with pytest.raises(CompileError, match="the function @main alone; make @f internal"):
        s.run("", "two")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("@main = global i32 1", r"what runs once is no function"),
        ("define i32 @main(i32 %x) { ret i32 %x }", r"no arguments, and this is i32 \(i32\)"),
    ],
)
def test_what_runs_once_is_a_function_without_arguments(
    s: Session, forget: None, module: str, said: str
) -> None:
    add(Language("odd", lambda source, known: plan(source, once=[Once(module, "main", source)])))
    with pytest.raises(CompileError, match=said):
        s.run("go", "odd")


def test_an_installed_package_adds_one(
    s: Session, forget: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answers_language.py").write_text(
        "from jitkernel.languages import Language, Once, plan\n"
        "def read(source, known):\n"
        "    ir = 'define i32 @main() {\\n  ret i32 7\\n}'\n"
        "    return plan(source, once=[Once(ir, 'main', source)])\n"
        "LANGUAGE = Language('seven', read)\n"
    )
    info = tmp_path / "answers_language-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: answers-language\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nseven = answers_language:LANGUAGE\nbroken = answers_language:NOTHING\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"seven", "broken", "llvm", "kaleidoscope"} <= set(names())
    assert s.run("what?", "seven").value == 7
    with pytest.raises(UsageError, match=r"the language broken .answers_language:NOTHING. cannot"):
        s.run("", "broken")


def test_a_file_adds_one(s: Session, forget: None, tmp_path: Path) -> None:
    file = tmp_path / "eight.py"
    file.write_text(
        "from jitkernel.languages import Language\nLANGUAGE = Language('eight', None)\n"
    )
    assert registry.load_file(str(file)).name == "eight"
    assert find("eight").read is None
    file.write_text("1/0\n")
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        registry.load_file(str(file))
    with pytest.raises(UsageError, match="there is no Python file"):
        registry.load_file(os.fspath(tmp_path / "nine.py"))


# -- against Python ----------------------------------------------------------------------------


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Chains of numbers, parentheses and operators that Python reads alike (one `<` at most)."""
    parts = [str(draw(st.integers(0, 9)))]
    for _ in range(draw(st.integers(0, 6))):
        operand = str(draw(st.integers(0, 9)))
        if draw(st.booleans()):
            inner = draw(st.sampled_from("+-*<")), draw(st.integers(0, 9))
            operand = f"({operand} {inner[0]} {inner[1]})"
        parts += [draw(st.sampled_from("+-*")), operand]
    if draw(st.booleans()) and len(parts) > 1:
        parts[2 * draw(st.integers(0, len(parts) // 2 - 1)) + 1] = "<"
    return " ".join(parts)


@given(st.lists(expressions(), min_size=1, max_size=8))
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_values_are_pythons(shared: Session, sources: list[str]) -> None:
    """All values of a cell: a function for each expression, and one call of each."""
    shared.reset()
    cell = "".join(f"def f{i}(x) {source};\n" for i, source in enumerate(sources))
    k(shared, cell)
    for i, source in enumerate(sources):
        assert shared[f"f{i}"](0.0) == float(eval(source)), source
        assert k(shared, source).value == float(eval(source)), source
