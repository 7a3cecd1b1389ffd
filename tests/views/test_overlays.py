"""What analyses tell of the blocks of a control flow graph: in boxes, in words, without colours."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from stripped import assert_complete

from jitkernel import Session, views
from jitkernel.errors import CompileError, Fault, UsageError
from jitkernel.views.cfg import Part, Told
from jitkernel.views.overlays import ANALYSES
from tests.views.test_cfg import arrows, interpreter, picture, titles

# Rounds of an outer loop, n, of an inner one: 0 + 1 + ... + (n - 1); %dead is in no way.
NEST = """define i32 @nest(i32 %n) {
entry:
  br label %outer
outer:
  %i = phi i32 [ 0, %entry ], [ %i2, %next ]
  %s = phi i32 [ 0, %entry ], [ %t, %next ]
  br label %inner
inner:
  %j = phi i32 [ 0, %outer ], [ %j2, %body ]
  %t = phi i32 [ %s, %outer ], [ %u, %body ]
  %c = icmp slt i32 %j, %i
  br i1 %c, label %body, label %next
body:
  %u = add i32 %t, %j
  %j2 = add i32 %j, 1
  br label %inner
next:
  %i2 = add i32 %i, 1
  %d = icmp slt i32 %i2, %n
  br i1 %d, label %outer, label %done
done:
  ret i32 %t
dead:
  br label %done
}"""


@pytest.fixture(scope="module")
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        s.run(NEST)
        yield s


def _told(s: Session, *analyses: str, code: str = "", part: Part | None = None) -> views.View:
    return views.cfg(s, "nest", raw=True, part=part, told=Told(analyses, code))


def _block(text: str, name: str) -> str:
    """A block of the listing with what is said of it."""
    return text.split(f"\n%{name}:\n")[1].split("\n%")[0]


def _row(text: str, title: str, name: str) -> list[str]:
    table = text.split(f"\n{title}\n")[1].split("\n\n")[0]
    line = re.search(rf"^(?:· )*%{name} .*$", table, re.M)
    assert line is not None
    return re.split(r" {2,}", line[0].strip())


def test_dominators_and_frontiers(s: Session) -> None:
    view = _told(s, "dominators")
    assert _row(view.text, "Dominators in @nest", "inner") == [
        "%inner",
        "%outer",
        "4",
        "%outer, %inner",
    ]
    assert _row(view.text, "Dominators in @nest", "next") == ["%next", "%inner", "2", "%outer"]
    assert _row(view.text, "Dominators in @nest", "dead")[1] == "no way leads here"
    tree = view.text.split("below it\n")[1].split("\n\n")[0]
    assert [re.match(r"( *)%(\w+)", line).groups() for line in tree.split("\n")] == [  # type: ignore[union-attr]
        ("", "entry"), ("  ", "outer"), ("    ", "inner"), ("      ", "body"), ("      ", "next"),
        ("        ", "done"),
    ]  # fmt: skip
    assert "; immediate dominator: %outer\n  ; frontier: %outer, %inner\n" in _block(
        view.text, "inner"
    )
    flow, dominance = re.findall(r'alt="([^"]+)"', view.html)
    assert dominance == "The tree of dominators of @nest: 6 blocks." and "7 blocks" in flow
    assert_complete(view)


def test_values_that_live(s: Session) -> None:
    view = _told(s, "live")
    assert _row(view.text, "Live values in @nest", "inner")[1:] == [
        "2", "%n, %i", "4", "%n, %i, %j, %t"
    ]  # fmt: skip
    body = _block(view.text, "body")
    assert body.startswith("  ; live in: %n, %i, %j, %t\n")
    assert body.rstrip().endswith("; live out: %n, %i, %u, %j2")
    svg, _ = picture(view.html)
    assert ">live in: %n, %i, %j, %t<" in svg and ">live out: %n, %i, %u, %j2<" in svg
    assert _row(view.text, "Live values in @nest", "done")[1:] == ["1", "%t", "0", "-"]
    assert_complete(view)


def test_loops_are_frames_and_words(s: Session) -> None:
    view = _told(s, "loops")
    inner = _row(view.text, "Loops in @nest", "inner")
    assert inner == ["· %inner", "2", "2", "%body", "%next", "%outer"]
    outer = _row(view.text, "Loops in @nest", "outer")
    assert outer == ["%outer", "1", "4", "%next", "%done", "%entry"]
    svg, _ = picture(view.html)
    boxes = dict(re.findall(r'<g data-k="\d+"[^>]*>(.*?)<text class="b">%(\w+)', svg))
    found = {name: shapes.count("<rect") - 1 for shapes, name in boxes.items()}
    assert found == {"entry": 0, "outer": 1, "inner": 2, "body": 2, "next": 1, "done": 0, "dead": 0}
    assert "; in loop: %outer, %inner\n" in _block(view.text, "body")
    assert_complete(view)


def test_how_often_a_call_comes_by(s: Session) -> None:
    """5 rounds around 0 + 1 + 2 + 3 + 4 = 10; the inner loop's condition is met 15 times."""
    cells, number = len(s.cells), s.number
    view = _told(s, code="@nest(5)")
    title = "Counts of @nest during @nest(5)"
    times = {
        name: _row(view.text, title, name)[1]
        for name in ("entry", "outer", "inner", "body", "dead")
    }
    assert times == {"entry": "1", "outer": "5", "inner": "15", "body": "10", "dead": "0"}
    # 1 + 5 * 3 + 15 * 4 + 10 * 3 + 5 * 3 + 1
    assert "called it 1 time: 122 instructions" in " ".join(view.text.split())
    assert _row(view.text, title, "inner")[2:] == ["60", "49.2 %", "%body 10, %next 5"]
    svg, _ = picture(view.html)
    assert arrows(svg) == 8 and sorted(re.findall(r">([TF]? ?[\d,]+×)<", svg)) == sorted(
        ["1×", "5×", "10×", "T 10×", "F 5×", "T 4×", "F 1×", "0×"]
    )
    assert ">executed 15 times<" in svg and ">never executed<" in svg and ">executed once<" in svg
    assert "; executed 10 times\n" in _block(view.text, "body")
    assert (len(s.cells), s.number) == (cells, number)
    assert_complete(view)


def test_all_of_them_around_a_block(s: Session) -> None:
    view = _told(s, *ANALYSES, code="@nest(3)", part=Part("body", 1))
    svg, _ = picture(view.html.split("<p>T and F")[0])
    assert {*titles(svg)} == {"%body", "%inner (loop)"}
    for word in ("live in: %n", "in loop: %outer, %inner", "frontier: %inner", "executed 3 times"):
        assert word in svg and word in view.text


def test_code_that_fails_is_told_as_it_would_be_in_a_cell(s: Session) -> None:
    s.run("define i32 @get(ptr %p) {\n  %v = load i32, ptr %p\n  ret i32 %v\n}")
    with pytest.raises(Fault, match="null"):
        views.cfg(s, "get", told=Told(code="@get(null)"))
    with pytest.raises(UsageError, match="@nowhere"):
        views.cfg(s, "get", told=Told(code="@nowhere(1)"))


def test_of_many_cases_those_are_counted_that_come() -> None:
    """In C, with code that is more than a call: it asks for the way out."""
    with Session(capacity=64 << 20, spare=False) as s:
        s.run("int data[8];\n" + interpreter(40, 3), "c")
        with pytest.raises(CompileError, match="undeclared function 'run_never'"):
            views.cfg(s, "run", level=0, told=Told(code="run_never()", language="c"))
        told = Told(code="data[0] = 900 + 99; run(data);", language="c")
        view = views.cfg(s, "run", level=0, told=told)
        svg, _ = picture(view.html)
        boxes = re.findall(r">(\w+ \w+)</text><text y=[^>]*>case (\d+)<", svg)
        assert {case for said, case in boxes if said == "never executed"} == set(
            map(str, range(40))
        )
        assert ">executed once<" in svg and " 1 time: " in " ".join(view.text.split())


def test_kaleidoscope_and_every_level() -> None:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run("def fib(x) if x < 3 then 1 else fib(x-1)+fib(x-2)", "kaleidoscope")
        for level in (0, 1, 2):
            told = Told([*ANALYSES], "fib(10)", "kaleidoscope")
            text = views.cfg(s, "fib", level=level, told=told).text
            # 2 * fib(10) - 1 = 109 calls, but where the second became a loop: fib(10) - 1 fewer.
            times = re.search(r"called it (\d+) times", " ".join(text.split()))
            assert times is not None and times[1] in ("109", "55"), level
