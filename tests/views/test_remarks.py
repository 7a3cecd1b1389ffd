"""Remarks stand at the lines that they speak of, in cells of every language, each said once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from stripped import assert_complete

from jitkernel import Session
from jitkernel.compiler.pass_dumps import CODE, PASSES, Dumps
from jitkernel.compiler.remarks import DONE, NOT_DONE, SAID, Remark, Remarks, inlined
from jitkernel.errors import UsageError
from jitkernel.views import remarks
from jitkernel.views.remarks import remarks_of

LENT = """int lent(int x) {
  int r = 0;
  for (int i = 0; i < x; i++) r += i * x ^ r;
  return r;
}"""
C = """static int sq(int x) { return x * x; }
int g;
long dot(const int *a, const int *b, int n) {
  long t = 0;
  for (int i = 0; i < n; i++)
    t += (long)a[i] * b[i];
  return t + sq(n) + lent(n) + g;
}
int find(const char *s, char c) {
  for (int i = 0; s[i]; i++)
    if (s[i] == c) return i;
  if (g) goto cleanup;
  return -1;
cleanup:
  return -2;
}"""
IR = """define i32 @z(i32 %x) {
  %r = call i32 @lent(i32 %x)
  ret i32 %r
}"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        s.run(LENT, "c")  # 1
        s.run(C, "c")  # 2
        s.run(IR)  # 3
        s.run("def fib(x) if x < 3 then 1 else fib(x-1)+fib(x-2)\ndef tw(y) fib(y)*fib(y)",
              "kaleidoscope")  # 4  # fmt: skip
        yield s


def test_what_is_of_no_line_has_no_columns_for_it(session: Session) -> None:
    html = remarks(session, "dot").html
    heads = [re.findall(r"<th scope=\"col\"[^>]*>(\w+)", part) for part in html.split("<table>")]
    assert ["line", "code", "remarks"] in heads and ["remarks"] in heads


def test_each_line_has_its_own(session: Session) -> None:
    found = remarks_of(session, "dot")
    said = {(s.cell, s.line, s.remark.name, s.remark.tells) for s in found}
    assert (2, 5, "loop-vectorize", DONE) in said
    assert (2, 7, "inline", DONE) in said
    assert (1, 3, "loop-vectorize", NOT_DONE) in said, "the line is one of another cell's"
    texts = [s.text for s in found if s.remark.name == "inline"]
    assert [t.partition(":")[0] for t in texts] == ["sq inlined into dot", "lent inlined into dot"]
    assert len({(s.remark, s.cell, s.line) for s in found}) == len(found)
    view = remarks(session, "dot")
    assert re.search(
        r"^5    for \(int i = 0.*\n +done, loop-vectorize: vectorized", view.text, re.M
    )
    assert "Lines of lent, cell 1, as part of dot" in view.text
    assert view.html.count("<code ") == len(re.findall(r"^\d+  ", view.text, re.M))
    assert_complete(view)


def test_cells_of_other_languages(session: Session) -> None:
    view = remarks(session, "z")
    assert re.search(r"^2    %r = call i32 @lent.*\n +done, inline: lent inlined into @z: cost",
                     view.text, re.M)  # fmt: skip
    fib = remarks(session, 4)
    assert re.search(r"^1  def fib.*\n +not done, inline: ", fib.text, re.M)
    assert re.search(r"^2  def tw.*\n +not done, inline: ", fib.text, re.M)
    assert "loop not vectorized: " in remarks(session, "find").text
    assert re.search(r"^1[01]  .*\n +not done, loop-vec", remarks(session, "find").text, re.M)


def test_the_noisy_ones_are_counted(session: Session) -> None:
    s = session
    loads = "".join(f"  q[{k}] = *p; k();\n" for k in range(9))
    s.run(f"void k(void);\nvoid many(int *p, int *q) {{\n  for (int i = 0; i < 99; i++) {{\n{loads}"
          "  }\n}", "c")  # fmt: skip
    folded, whole = remarks(s, "many"), remarks(s, "many", everything=True)
    told = re.search(
        r"Folded: (\d+) remarks on single loads and copies \((.*)\); --all", folded.text
    )
    assert told is not None and int(told[1]) >= 9 and "licm" in told[2]
    assert "failed to" not in folded.text and "failed to" in whole.text
    assert len(folded.html) < len(whole.html)
    assert_complete(folded)


def test_all_of_many_lines_can_be_seen(s: Session) -> None:
    calls = "".join(f"  s += one({n});\n" for n in range(200))
    s.run(f"static int one(int x) {{ return x; }}\nint many(int s) {{\n{calls}  return s;\n}}", "c")
    part, every = (remarks(s, "many", everything).text for everything in (False, True))
    said = re.search(r"^(\d+) more lines from line 15\d on; --all shows them$", part, re.M)
    assert said and "more line" not in every
    assert every.count("inlined into") == part.count("inlined into") + int(said[1]) >= 200


def test_nothing_said_and_nothing_there(session: Session) -> None:
    session.run("define void @quiet() {\n  ret void\n}")
    assert "of @quiet" in remarks(session, "quiet").text
    with pytest.raises(UsageError, match="nothing of the session is called @nothing"):
        remarks(session, "nothing")


def test_a_log(tmp_path: Path) -> None:
    (tmp_path / PASSES).write_bytes(
        b" Running pass 1 InlinerPass on (f, g)\n"
        b"remark: cell.ll:4:0: 'sq' inlined into 'g' with (cost=-30, threshold=337) at callsite"
        b" g:1:0;\n"
        b" Running pass 2 LoopVectorizePass on loop %a in function f\n"
        b"remark: cell.ll:7:0: loop not vectorized: why\nremark: cell.ll:7:0: loop not vectorized:"
        b" why\n"
        b" Running pass 3 GVNPass on f\nremark: <unknown>:0:0: load of type i32 eliminated\n"
        b"remark: <unknown>:0:0: \nBasicBlock: x\n"
        b"remark: cell.ll:9:0: loop not vectorized: unsafe.\nBackward loop carried data dependence."
        b" Memory location is the same as accessed at cell.ll:7:0\nend\n"
    )
    (tmp_path / CODE).write_bytes(
        b"remark: cell.ll:2:0: 3 spills 1.0e+00 total spills cost generated in loop\n"
    )
    vectors = Remark("loop-vectorize", "f", 7, "loop not vectorized: why", 2)
    seen = Remarks.of(Dumps(str(tmp_path)))
    assert seen is not None and seen.stopped == "code generation"
    found = seen.found
    assert [(r.name, r.function, r.line, r.times) for r in found] == [
        ("inline", "g", 4, 1), (vectors.name, "f", 7, 2), ("gvn", "f", 0, 1),
        ("gvn", "f", 9, 1), ("register allocation", "", 2, 1),
    ]  # fmt: skip
    assert [r.tells for r in found] == [DONE, NOT_DONE, DONE, NOT_DONE, SAID]
    assert found[3].text.endswith(
        "unsafe. Backward loop carried data dependence. Memory location is the same as accessed at "
        "cell.ll:7:0"
    )
    assert found[1] == vectors
    assert inlined(found) == [("sq", "g", True, "(cost=-30, threshold=337)")]


def test_a_remark_goes_on_and_speaks_of_the_cells_lines(s: Session) -> None:
    """LLVM writes why two accesses are in each other's way on a line of its own; and of what was
    moved it says "moving"."""
    s.run(
        "void dist(int *a, int *b, int n) {\n  for (int i = 1; i < n; i++)\n"
        "    a[i] = a[i - 1]\n      + b[i];\n}\n"
        "void add(int *p, const int *restrict q, int n) {\n  for (int i = 0; i < n; i++) *p += q[i];\n}",
        "c",
    )
    said = next(r for r in remarks_of(s, "dist") if "Backward loop" in r.text)
    assert re.search(r"the same as accessed at line [34]$", said.text), said.text
    moved = [r.remark.tells for r in remarks_of(s, "add") if "Moving accesses" in r.text]
    assert moved and set(moved) == {DONE}
