"""Views of the compiler's work while the program stands: they mark where it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from jitkernel import Session, views
from jitkernel.session.debugging.records import Breakpoint, Event, Motion

pytestmark = pytest.mark.process

IR = """\
define i32 @sum(i32 %n) {
entry:
  %none = icmp sle i32 %n, 0
  br i1 %none, label %out, label %loop
loop:
  %i = phi i32 [ 1, %entry ], [ %j, %next ]
  %s = phi i32 [ 0, %entry ], [ %u, %next ]
  %odd = trunc i32 %i to i1
  br i1 %odd, label %add, label %next
add:
  %t = add i32 %s, %i
  br label %next
next:
  %u = phi i32 [ %s, %loop ], [ %t, %add ]
  %j = add i32 %i, 1
  %more = icmp sle i32 %j, %n
  br i1 %more, label %loop, label %out
out:
  %r = phi i32 [ 0, %entry ], [ %u, %next ]
  ret i32 %r
}"""
C = """\
int twice(int n) {
  return n + n;
}
int walk(int n) {
  int sum = 0;
  while (n > 0) {
    if (n % 2)
      sum += twice(n);
    n--;
  }
  return sum;
}
"""


@pytest.fixture
def s() -> Iterator[Session]:
    with Session() as s:
        yield s


def _at_stops(s: Session, look: Callable[[], object], motion: Motion = "next") -> list:
    """What `look` gives at each stop."""
    found = []

    def hear(event: Event) -> None:
        if event.kind == "stopped":
            found.append(look())
            s.debugger.go(motion)

    s.debugger.start()
    s.debugger.listener = hear
    return found


def _marked(text: str, mark: str = "=>") -> list[str]:
    return [line.removeprefix(mark).strip() for line in text.split("\n") if line.startswith(mark)]


def _block(text: str, line: int) -> str:
    """The label of the block that a line of IR is in."""
    labels = [found[1] for t in text.split("\n")[:line] if (found := re.match(r"(\w+):", t))]
    return labels[-1]


def test_each_line_of_ir_is_in_the_block_that_is_marked(s: Session) -> None:
    s.run(IR)

    def look() -> tuple[int, list[str], list[str]]:
        flow = _marked(str(views.cfg(s, "sum")))
        machine = re.findall(r"^=> .*(?:\n {8}.*)*", str(views.mir(s, "sum", "final")), re.M)
        return s.debugger.frames()[0].line, flow, machine

    stops = _at_stops(s, look)
    s.debugger.add(Breakpoint(function="@sum"))
    assert s.run("@sum(3)").text == "i32 4"
    stops = [stop for stop in stops if stop[1]]
    assert len(stops) > 20 and {line for line, _, _ in stops} >= {4, 8, 11, 15, 16, 20}
    for line, flow, machine in stops:
        # In the table and above the instructions.
        assert [row.split()[0].rstrip(":") for row in flow] == [f"%{_block(IR, line)}"] * 2
        (row,) = machine
        assert re.search(r"cell\.ll:(\d+)$", row, re.M)[1] == str(line), (line, row)


def test_blocks_of_c_that_share_a_line_are_told_apart(s: Session) -> None:
    pytest.importorskip("ziglang")
    s.run("int f(int n) {\n  int s = 0;\n  for (int i = 0; i < n; i++)\n    s += i;\n  return s;\n}",
          language="c")  # fmt: skip

    def look() -> tuple[int, str]:
        frame = s.debugger.frames()[0]
        flow = _marked(str(views.cfg(s, "f"))) if frame.name == "f" else [""]
        return frame.line, flow[-1]

    stops = _at_stops(s, look)
    s.debugger.add(Breakpoint(function="f"))
    assert s.run("f(2)", language="c").text == "(int) 1"
    assert stops[:6] == [
        (2, "%entry:"), (3, "%entry:"), (4, "%for.body:"), (3, "%for.inc:"), (4, "%for.body:"),
        (3, "%for.inc:"),
    ]  # fmt: skip


def test_the_frame_that_is_looked_at_is_marked(s: Session) -> None:
    pytest.importorskip("ziglang")
    s.run(C, language="c")
    s.run("int ask(int n) {\n  return walk(n) + 1;\n}", language="c")

    def look() -> list[list[str]]:
        found = []
        for frame, name in enumerate(("twice", "walk", "ask")):
            s.debugger.chosen = frame
            shown = [
                str(view) for view in (
                    views.cfg(s, name), views.mir(s, name, "final"), views.asm(s, name),
                )
            ]  # fmt: skip
            assert all(len(_marked(text, "->")) == 0 for text in shown), shown
            found.append([_marked(text)[-1] for text in shown])
            other = str(views.asm(s, "ask" if frame < 2 else "walk"))
            assert len(_marked(other, "->")) == 1 and not _marked(other)
            frames = str(views.stack(s)).split("\n\n")[0]
            assert _marked(frames)[0].startswith(f"#{frame} "), frames
        return found

    stops = _at_stops(s, look, "continue")
    s.debugger.add(Breakpoint(function="twice"))
    assert s.run("ask(1)", language="c").text == "(int) 3"
    ((inner, middle, outer),) = stops
    assert inner[0] == "%entry:" and "MOV32rm" in inner[1] and " mov " in inner[2]
    assert middle[0] == "%if.then:" and "ADD32" in middle[1] and " add " in middle[2]
    # Not compiled to be debugged: as the passes left it.
    assert outer[0].startswith("%") and outer[1] and re.search(r"inc|add|lea", outer[2])


def test_code_is_shown_without_breakpoints(s: Session) -> None:
    pytest.importorskip("ziglang")
    s.run(C, language="c")
    s.debugger.start()
    shown = []

    def hear(event: Event) -> None:
        if event.kind == "stopped":
            shown.append(re.sub(r"^(=>|->|  ) ", "", str(views.asm(s, "walk")), flags=re.M))
            if len(shown) == 1:
                for line in range(5, 12):
                    s.debugger.add(Breakpoint(C, line))
            s.debugger.go()

    s.debugger.listener = hear
    s.debugger.add(Breakpoint(function="walk"))
    s.run("walk(2)", language="c")
    assert len(shown) > 5 and len(set(shown)) == 1 and "int3" not in shown[0]
    assert not _marked(str(views.cfg(s, "walk"))) and not _marked(str(views.mir(s, "walk")))
