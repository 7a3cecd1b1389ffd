"""Live ranges beside machine instructions: words, picture, sizes, and the allocator of one's choice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from stripped import assert_complete, pictures

from jitkernel import Session
from jitkernel.errors import CompileError, UsageError
from jitkernel.session import CellOptions
from jitkernel.views import live_ranges
from jitkernel.views.live_ranges import live_ranges_of
from jitkernel.views.watched import watched

CELLS = [
    """define i64 @few(i64 %a, i64 %b) {
  %x = add i64 %a, %b
  %y = mul i64 %x, %a
  %z = sub i64 %y, %b
  ret i64 %z
}""",
    """declare double @far(double)
declare i64 @near(i64)
define double @crowd(ptr %p, i64 %n) {
  %a = load volatile i64, ptr %p
  %b = load volatile i64, ptr %p
  %c = load volatile i64, ptr %p
  %d = load volatile i64, ptr %p
  %e = load volatile i64, ptr %p
  %f = load volatile i64, ptr %p
  %g = load volatile i64, ptr %p
  %x = load volatile double, ptr %p
  %r = call i64 @near(i64 %n)
  %1 = add i64 %r, %a
  %2 = mul i64 %1, %b
  %3 = add i64 %2, %c
  %4 = mul i64 %3, %d
  %5 = add i64 %4, %e
  %6 = mul i64 %5, %f
  %7 = add i64 %6, %g
  %8 = sitofp i64 %7 to double
  %9 = fadd double %8, %x
  ret double %9
}""",
    "define void @nothing() {\n  ret void\n}",
]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        for cell in CELLS:
            s.run(cell)
        yield s


def test_ranges_stand_beside_their_instructions(session: Session) -> None:
    view = live_ranges(session, "few")
    text = view.text
    assert_complete(view)
    assert all(len(line) <= 100 for line in text.splitlines())
    # The last of five is written where two others are read for the last time.
    assert re.search(r"^general +\d+ +3 +\d+ +15 +6$", text, re.M), text
    assert re.search(r"^0 +1  ╷  +%\d+:gr64\w* = COPY \$rsi$", text, re.M), text
    assert re.search(r"^ *\d+ +\d+  .*╵.*RET|\$rax = COPY", text, re.M), text
    rows = re.findall(r"^%\d+ +gr64\w* +(\d+) +(\d+) +\d+ +\d+ +\d+ .*\b(r\w+)$", text, re.M)
    assert rows and all(int(first) < int(last) for first, last, _ in rows)
    drawn = pictures(view.html)[0][0]
    assert drawn.count("stroke-dasharray") == 0
    assert len(re.findall(r"<text [^>]*>[^<]*COPY", drawn)) == text.count("COPY")  # to be searched
    assert (
        f"Live ranges of @few, cell 1, before registers are allocated: {len(rows)} v" in view.html
    )


@pytest.mark.parametrize("name", ["few", "crowd"])
def test_no_name_is_on_the_bar_above_it(session: Session, name: str) -> None:
    ((drawn, _),) = pictures(live_ranges(session, name).html)
    names = re.findall(r'<tspan x="(\d+)" y="(\d+)">', drawn)
    bars = re.findall(r"M(\d+) (\d+)V(\d+)", drawn)
    assert len(names) > 2 and len(bars) >= len(names)
    for x, y in names:
        for at, top, bottom in bars:
            assert at != x or int(bottom) <= int(y) - 9 or int(top) > int(y), (x, y)


def test_what_lives_across_a_call_is_on_the_stack(session: Session) -> None:
    """Seven values do, of which six have a register that survives it, and of doubles none has."""
    view = live_ranges(session, "crowd")
    assert re.search(r"^general +\d+ +9 +\d+ +7 +\d+ +15 +6$", view.text, re.M), view.text
    assert re.search(r"^vector +\d+ +\d +\d+ +1 +\d+ +(?:16|32) +0$", view.text, re.M), view.text
    stacked = re.findall(r"^%\d+ .* 1 +.*stack.*$", view.text, re.M)
    assert len(stacked) == 2, view.text
    assert 'stroke-dasharray="3 3"' in pictures(view.html)[0][0]
    stage = next(s for s in watched(session, "crowd").machine["crowd"] if s.name == "regalloc")
    assert stage.spills == 2


def test_a_function_without_virtual_registers(session: Session) -> None:
    assert "@nothing has no virtual registers" in live_ranges(session, 3).text


def test_a_large_function_is_shown_around_its_widest_place() -> None:
    lines = [f"  %v{k} = load volatile i64, ptr @g" for k in range(250)]
    sums = [
        f"  %s{k} = {('mul', 'xor')[k % 2]} i64 %{f's{k - 1}' if k else 'c'}, %v{k}"
        for k in range(250)
    ]
    head = ["@g = global i64 0", "declare i64 @near(i64)", "define i64 @big() {", *lines]
    ir = "\n".join([*head, "  %c = call i64 @near(i64 1)", *sums, "  ret i64 %s249", "}"])
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(ir)
        view = live_ranges(s, "big")
        assert len(view.html.encode()) < 120_000
        assert_complete(view, cut=True)
        shown = re.search(
            r"Instructions (\d+) to (\d+) of (\d+) are shown, with \d+ of 25\d",
            " ".join(view.text.split()),
        )
        assert shown is not None
        first, last, count = map(int, shown.groups())
        at = int(re.findall(r"^general +\d+ +25\d +(\d+)", view.text, re.M)[0])
        assert first <= at <= last < count
        assert re.search(r"^ *0 ", live_ranges(s, "big", around=0).text, re.M)
        with pytest.raises(UsageError, match=r"has no instruction 9999: .* 0 to \d+"):
            live_ranges(s, "big", around=9999)


def counts(s: Session, name: str) -> tuple[int, int]:
    """Spills and reloads of a function."""
    stage = next(x for x in watched(s, name).machine[name] if x.name == "regalloc")
    return stage.spills, stage.reloads


LOOP = """define i64 @held(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %t = phi i64 [ 1, %entry ], [ %t2, %loop ]
  %t1 = mul i64 %t, %n
  %t2 = xor i64 %t1, %i
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %n
  br i1 %more, label %loop, label %out
out:
  ret i64 %t2
}"""


def test_a_cell_has_the_allocator_that_it_asks_for(s: Session) -> None:
    """`fast` keeps nothing in a register from block to block; the cells before and behind have
    theirs, in the same worker, at each level."""
    found = []
    for regalloc, level in (
        ("", 2),
        ("fast", 2),
        ("greedy", 2),
        ("", 2),
        ("", 0),
        ("greedy", 0),
        ("", 0),
    ):
        s.run(LOOP, options=CellOptions(regalloc=regalloc, opt_level=level, fresh=True))
        assert s.call("held", 5) == 3041
        assert s.cells[-1].options == ", ".join(filter(None, (f"-O{level}", regalloc)))
        found.append(sum(counts(s, "held")) > 0)
        assert "This is what was compiled" in watched(s, "held").note
    assert found == [False, True, False, False, True, False, True]
    with pytest.raises(CompileError, match="there is no register allocator 'best'"):
        s.run(LOOP, options=CellOptions(regalloc="best"))


def test_homes_are_known_of_both_allocators(s: Session) -> None:
    for regalloc in ("greedy", "fast"):
        s.run(LOOP, options=CellOptions(regalloc=regalloc))
        found = live_ranges_of(s, "held")["held"]
        assert all(r.homes for r in found.ranges)
        assert any("stack" in r.homes for r in found.ranges) == (regalloc == "fast")
