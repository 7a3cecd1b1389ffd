"""The panel from source to machine code, and the timeline: complete, bounded, and in agreement with
the views that it is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from stripped import assert_complete, words

from benchmarks.rows.explain import function
from jitkernel import Session
from jitkernel.errors import CompileError
from jitkernel.views import asm, explain, timeline
from jitkernel.views import object as object_view

CELL = """@count = global i64 0
declare i64 @random()
define i64 @next(ptr %p) {
  %a = alloca i64
  store i64 1, ptr %a
  %r = call i64 @random()
  %o = load i64, ptr %a
  %s = add i64 %r, %o
  store i64 %s, ptr @count
  ret i64 %s
}
@next(null)"""
HEADS = (
    "Source, IR and machine code", "IR as it was given to the compiler", "What each pass changed", "Machine IR",
    "Assembly", "Object and what the linker made of it", "Place in the arena",
    "Symbols and their users", "Timeline",
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        s.run(CELL)  # 1
        s.run("define i64 @user() {\n  %x = call i64 @next(ptr null)\n  ret i64 %x\n}")  # 2
        s.run("@table = constant [2 x i64] [i64 1, i64 2]")  # 3
        s.run("@next(null)")  # 4
        with pytest.raises(CompileError):
            s.run("define void @bad() {\n  ret i32 1\n}")  # 5
        s.run("define void @gone() {\n  ret void\n}")  # 6
        s.evict(6)
        yield s


@pytest.mark.parametrize("target", [1, "next", 2, None])
def test_every_part_is_there(session: Session, target: int | str | None) -> None:
    view = explain(session, target)
    heads = re.findall(r"^== (.+) ==$", view.text, re.M)
    assert tuple(heads) == HEADS
    assert all(f"<summary>{head}</summary>" in view.html for head in HEADS)
    assert "This is what was compiled" in view.text
    assert_complete(view)


def test_it_agrees_with_the_single_views(session: Session) -> None:
    text = explain(session, "next").text
    assert asm(session, "next").text in text
    assert object_view(session, 1).text in text
    code = session.symbols["next"]
    assert f"machine code                     {code.size}  bytes"[:12] in text
    assert f"{code.address:#x}" in text
    assert "- " + "  %a = alloca i64, align 8" in text
    assert re.search(r"^@next +i64 \(ptr\) .* cell 2 inlined$", text, re.M)
    assert "@random" in text and "far stub" in text


def test_a_cell_without_functions(session: Session) -> None:
    """What a part cannot show is said in its place."""
    view = explain(session, 3)
    assert "no function reached code generation" in view.text
    assert "cell 3 has no machine code" in view.text
    assert "Relocations" not in view.text and "@table" in view.text
    assert_complete(view)


def test_a_hundred_lines_are_small_enough(s: Session) -> None:
    s.run(function(100))
    view = explain(s, "f")
    assert len(view.html) < 400_000
    assert_complete(view)


def test_thousands_of_lines_are_cut_and_say_so() -> None:
    told: list[str] = []
    with Session(capacity=64 << 20) as s:
        s.run(function(3000))
        view = explain(s, "f", progress=told.append)
        assert len(view.html) < 400_000
        assert "%asm @f shows this: it would make what is shown here too long." in view.text
        assert re.search(r"\d+ more lines are not shown: %ir --opt and %asm", view.text)
        assert_complete(view)
    assert told[0] == "compiling it again, watched"
    assert [t for t in dict.fromkeys(told) if not t.startswith(told[0])] == [
        head.lower() for head in HEADS
    ]


# -- timeline


def seconds(duration: str) -> float:
    number, unit = duration.split()
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


def test_the_timeline_adds_up(session: Session) -> None:
    view = timeline(session, 1)
    duration = r"([\d.]+ [num]?s)"
    rows = re.findall(rf"^(\w+) +{duration} +{duration}  \w", view.text, re.M)
    assert [name for name, _, _ in rows] == [
        "read", "parse", "verify", "optimise", "emit", "link", "run",
    ]  # fmt: skip
    end = 0.0
    for _, begin, takes in rows:
        assert seconds(begin) == pytest.approx(end, rel=0.02)  # three digits of each
        end = seconds(begin) + seconds(takes)
    total = re.search(rf"^total +{duration}", view.text, re.M)
    assert total is not None and seconds(total[1]) == pytest.approx(end, rel=0.02)
    cell = session.cells[0]
    assert seconds(total[1]) == pytest.approx((sum(cell.times) + cell.ran) / 1e9, rel=0.01)
    assert cell.ran > 0
    assert_complete(view)


def test_the_timeline_says_what_did_not_happen(session: Session) -> None:
    assert "It has no statements: nothing ran." in timeline(session, 2).text
    assert "<img" not in timeline(session, 2, picture=False).html
    assert "0 ns" in words(timeline(session, 2).html)
