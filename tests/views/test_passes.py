"""Passes, machine IR, IR before and after: against each other and against the cell's own object."""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from stripped import assert_complete

from benchmarks.rows.explain import function
from jitkernel import Session
from jitkernel.compiler import answers
from jitkernel.compiler.pass_dumps import CODE, PASSES
from jitkernel.compiler.pass_trace import PassTrace
from jitkernel.errors import CompileError, Interrupted, UsageError
from jitkernel.ir.printed import REST, matching, parts, quiet
from jitkernel.kernel.verdicts import changed_parts
from jitkernel.session import CellOptions
from jitkernel.views import ir, loop, mir, passes, remarks
from jitkernel.views.room import Room
from jitkernel.views.sides import Piece, sides
from jitkernel.views.view import View
from jitkernel.views.watched import changed_steps, optnone, shown_unit
from tests.views.test_remarks import LENT, C

ALLOCA = """define i32 @sq(i32 %x) {
  %a = alloca i32
  store i32 %x, ptr %a
  %v = load i32, ptr %a
  %y = mul i32 %v, %v
  ret i32 %y
}"""
FROZEN = ALLOCA.replace("@sq(i32 %x)", "@slow(i32 %x) noinline optnone")
# Two values outlive seven calls, whose seven results live to the end: nine, and six registers
# survive a call.
SPILLS = (
    "define i64 @spills(ptr %p) {\n  %a = load i64, ptr %p\n"
    "  %q = getelementptr i64, ptr %p, i64 1\n  %b = load i64, ptr %q\n"
    + "".join(f"  %r{k} = call i64 @random()\n" for k in range(7))
    + "  %x0 = add i64 0, 1\n"
    + "".join(f"  %x{k + 1} = mul i64 %x{k}, %r{k}\n" for k in range(7))
    + "  %y = xor i64 %x7, %a\n  %z = mul i64 %y, %b\n  ret i64 %z\n}\ndeclare i64 @random()\n"
)
INLINED = """define internal i32 @inner(i32 %x) {
  %y = add i32 %x, 1
  ret i32 %y
}
define i32 @outer(i32 %x) {
  %y = call i32 @inner(i32 %x)
  ret i32 %y
}"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        for source in (ALLOCA, FROZEN, SPILLS, INLINED):  # cells 1, 2, 3, 4
            s.run(source)
        s.run("@sq(3)")  # 5
        with pytest.raises(CompileError):
            s.run("define i32 @bad() {\n  ret i32 %nothing\n}")  # 6
        s.run("define void @gone() {\n  ret void\n}")  # 7
        s.evict(7)
        yield s


# -- diffs


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\nc", "a\nb\nc", []),
        ("a\nb\nc", "a\nx\nc", ["@@ line 1", "  a", "- b", "+ x", "  c"]),
        ("a", "", ["@@ line 1", "- a"]),
        ("", "a", ["@@ line 1", "+ a"]),
        (
            "a\nb\nc\nd\ne\nf\ng",
            "a\nb\nc\nd\ne\nf\nh",
            ["@@ line 5", "  e", "  f", "- g", "+ h"],
        ),
    ],
)
def test_diff(old: str, new: str, expected: list[str]) -> None:
    assert sides(changed_parts(old, new), Room(lines=99)).text.splitlines() == expected


def test_a_diff_takes_one_text_to_the_other() -> None:
    """Whatever the texts: the new one with the old sides of its hunks is the old one."""
    dice = random.Random(7)
    for _ in range(300):
        old, new = ([dice.choice("abcdef") for _ in range(dice.randint(1, 15))] for _ in "on")
        piece = Piece("", old, new, matching(old, new))
        gone, came = piece.counts
        assert len(new) - len(old) == came - gone
        back, at = [], 0
        for begin, rows in piece.hunks():
            there = [row.new for row in rows if row.new is not None]
            assert there == new[begin - 1 :][: len(there)]
            back += [*new[at : begin - 1], *(row.old for row in rows if row.old is not None)]
            at = begin - 1 + len(there)
        assert [*back, *new[at:]] == old


def test_a_module_in_parts() -> None:
    found = parts(f"@g = global i32 1\n{ALLOCA}\n{INLINED}\n!0 = !{{}}\n")
    assert list(found) == ["@sq", "@inner", "@outer", REST]
    assert found["@sq"] == ALLOCA
    assert found[REST] == "@g = global i32 1\n!0 = !{}"
    assert optnone(FROZEN) == ["@slow"]
    units = {
        "f": "@f",
        "[module]": "module",
        "(f, g)": "@f, @g",
        "loop %b in function f": "loop %b of @f",
        "loop %<unnamed loop> in function f": "loop of @f",  # its block has only a number
        "loop %a b in function f g": 'loop %a b of @"f g"',
    }
    assert {unit: shown_unit(unit) for unit in units} == units


# -- passes


def test_passes_of_a_function(session: Session) -> None:
    view = passes(session, "sq")
    assert re.search(r"^@sq, cell 1: \d+ steps changed it, of \d+ passes; all passes", view.text)
    assert re.search(r"^ +\d+  \S+ +@sq +4 +1 +2 +1 +0 +[\d.]+ [um]s$", view.text, re.M)
    assert "-   %a = alloca i32, align 4" in view.text
    assert "What the last pass left is well formed." in view.text
    assert all(len(line) <= 100 for line in view.text.splitlines())
    assert_complete(view)


def test_a_diff_starts_from_what_the_step_before_left(session: Session) -> None:
    """The whole of what the steps add and take away leads from the first text to the last."""
    seen = session.inspect.engine.pool.traces.passes(session.inspect.request(1), "sq")
    lines = quiet(seen.before["@sq"]).split("\n")
    for step in changed_steps(seen):
        (piece,) = step.pieces
        assert piece.old == lines and step.after["@sq"] == piece.new
        gone, came = piece.counts
        assert len(piece.new) - len(piece.old) == came - gone
        lines = list(piece.new)
    assert "\n".join(lines) == quiet(seen.after["@sq"])


def test_of_many_functions_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table and the differences end somewhere, and say so."""
    monkeypatch.setattr(sys.modules["jitkernel.views.passes"], "_STEPS", 40)
    with Session(capacity=64 << 20) as s:
        s.run("\n".join(ALLOCA.replace("@sq", f"@sq{k}") for k in range(60)))
        view = passes(s, 1)
        words = " ".join(view.text.split())
        told = re.search(r"(\d+) steps, 41 to (\d+), are not listed", words)
        assert told is not None and int(told[1]) == int(told[2]) - 40
        assert "%passes NAME shows" in words
        assert len(re.findall(r"^ *\d+  \S+ +(?:@|module)", view.text, re.M)) == 40
        out = re.search(r"What (\d+) more steps changed, 41, .*? --step 41 shows the one", words)
        assert out is not None and int(out[1]) == int(told[1])
        assert_complete(view)
        assert "are not listed" not in passes(s, "sq7").text
        last = passes(s, 1, stop_after=told[2])
        assert f"{told[2]}  " in last.text


def test_where_there_is_little_room_the_small_steps_are_shown(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One large step does not take the place of all that follow."""
    s.run(LENT, "c")
    s.run(C, "c")
    sizes = {
        int(m[1]): int(m[2]) + int(m[3])
        for m in re.finditer(r"(?m)^ +(\d+)  .*?@\w+ +(\d+) +(\d+) ", passes(s, "dot").text)
    }
    monkeypatch.setattr(sys.modules["jitkernel.views.passes"], "_ROOM", 8000)
    words = passes(s, "dot").text
    shown = {int(n) for n in re.findall(r"(?m)^(\d+)\. .* on @", words)}
    left = sizes.keys() - shown
    assert shown and left and " shown: %passes" in " ".join(words.split())
    assert max(sizes[n] for n in shown) <= min(sizes[n] for n in left)


def test_internal_functions_of_a_cell(session: Session) -> None:
    """They are no symbols of the session, but have passes like others."""
    assert re.search(r"^ +\d+  inline +@outer ", passes(session, "outer").text, re.M)
    for view in (passes(session, "inner"), ir(session, "@inner", "diff")):
        assert "@inner, cell 4" in view.text
    with pytest.raises(UsageError, match="nothing of the session is called @iner"):
        passes(session, "iner")


def test_only_one_pass(session: Session) -> None:
    view = passes(session, "sq", only="sroa")
    steps = re.findall(r"^\d+\. (\S+) on", view.text, re.M)
    assert steps == ["sroa"]
    assert "sroa" in passes(session, "sq", only="sr*").text
    with pytest.raises(UsageError, match="no pass called sora changed anything; did you mean sroa"):
        passes(session, "sq", only="sora")


def test_stop_after(session: Session) -> None:
    by_name = passes(session, "sq", stop_after="sroa").text
    assert re.findall(r"^(\d+)\. ", by_name, re.M)[-1:] == re.findall(
        r"after step (\d+), sroa\n", by_name
    )
    after = by_name.rpartition("sroa\n")[2]
    assert "alloca" not in after and "%y = mul i32 %x, %x" in after
    assert "after step 1, " in passes(session, "sq", stop_after=1).text
    with pytest.raises(UsageError, match=r"there is no step 99: \d+ steps changed something"):
        passes(session, "sq", stop_after="99")
    with pytest.raises(UsageError, match=r"no step is called gvn; there are .*sroa"):
        passes(session, "sq", stop_after="gvn")


SQRT = """declare double @sqrt(double)
define double @root(double %x) {
  %y = call double @sqrt(double %x)
  ret double %y
}"""
LOOPS = """define i64 @two(ptr %p, i64 %n) {
entry:
  br label %a
a:
  %i = phi i64 [ 0, %entry ], [ %i1, %ab ]
  %s = phi i64 [ 0, %entry ], [ %s1, %ab ]
  %c = icmp slt i64 %i, %n
  br i1 %c, label %ab, label %b
ab:
  %g = getelementptr i64, ptr %p, i64 %i
  %v = load i64, ptr %g
  %k = mul i64 %n, %n
  %w = xor i64 %v, %k
  %s1 = add i64 %s, %w
  %i1 = add i64 %i, 1
  br label %a
b:
  %j = phi i64 [ 0, %a ], [ %j1, %b ]
  %t = phi i64 [ %s, %a ], [ %t1, %b ]
  %h = getelementptr i64, ptr %p, i64 %j
  %u = load i64, ptr %h
  %t1 = xor i64 %t, %u
  %j1 = add i64 %j, 1
  %d = icmp slt i64 %j1, %n
  br i1 %d, label %b, label %end
end:
  ret i64 %t1
}"""


def test_what_is_interrupted_shows_what_there_was(
    s: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Progress says how far it is; the view says where it was stopped, and nothing is kept."""
    monkeypatch.setattr(answers, "_TICK", 0.001)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told: list[str] = []

    def stop(what: str) -> None:
        told.append(what)
        if re.match(r"pass \d\d+ of ", what):
            s.interrupt()

    for lines in (600, 2_400, 9_600):  # a fast processor may be done before it is told
        s.run(function(lines))
        told.clear()
        with pytest.raises(Interrupted) as found:
            passes(s, "f", tick=stop)
        assert told[0] == "counting the passes"
        view = vars(found.value)["view"]
        if places := re.findall(r"Stopped at pass (\d+) of (\d+), ", " ".join(view.text.split())):
            break
    told_at = re.match(r"pass (\d+) of (\d+), ", told[-1])
    assert told_at and int(told_at[1]) <= int(places[0][0]) <= int(told_at[2]) == int(places[0][1])
    assert "well formed" not in view.text
    whole = passes(s, "f").text  # as if nothing had been
    rows = [re.findall(r"^ +(\d+  \S+ +@f [ \d]+)  ", t, re.M) for t in (view.text, whole)]
    assert 0 < len(rows[0]) <= len(rows[1])
    assert [r.split() for r in rows[0]] == [r.split() for r in rows[1][: len(rows[0])]]
    assert "Stopped" not in whole and s.inspect.engine.pool.traces.partial is None
    assert not [*tmp_path.iterdir()]


def rolled(lines: int) -> str:
    """The same as one block that is a loop."""
    body = "".join(
        f"  %g{k} = getelementptr i64, ptr %p, i64 {k % 64}\n  %w{k} = load volatile i64, ptr %g{k}\n"
        f"  %m{k} = mul i64 %w{k}, %i\n  store volatile i64 %m{k}, ptr %g{k}\n"
        for k in range(lines // 4)
    )  # fmt: skip
    return (
        "define i64 @f(ptr %p, i64 %n) {\nentry:\n  br label %a\na:\n"
        f"  %i = phi i64 [ 0, %entry ], [ %j, %a ]\n{body}  %j = add i64 %i, 1\n"
        "  %c = icmp ult i64 %j, %n\n  br i1 %c, label %a, label %end\nend:\n  ret i64 %i\n}"
    )


VIEWS: dict[str, tuple[str, Callable[..., View]]] = {
    "remarks": (
        r"Stopped at (?:pass \d+, \S+|code generation): this was",
        lambda s, tick: remarks(s, "f", tick=tick),
    ),
    "mir": (r"Stopped at code generation of @f", lambda s, tick: mir(s, "f", tick=tick)),
    "loop": (r"Stopped at pass \d+ of \d+ over this loop", lambda s, tick: loop(s, "f", "", tick)),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_what_else_is_interrupted_shows_what_there_was(
    s: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """Stopped as soon as LLVM has written something; the next time it is whole."""
    monkeypatch.setattr(answers, "_TICK", 0.001)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words, view = VIEWS[kind]

    def stop(what: str) -> None:
        logs = [p for name in (PASSES, CODE) for p in tmp_path.glob(f"*/{name}")]
        there = [p for p in logs if p.stat().st_size > 4_000 and (kind != "mir" or CODE in p.name)]
        if there and (kind != "loop" or [*tmp_path.glob("*/loops")]):
            s.interrupt()

    for lines in (300, 2_400, 9_600):  # a fast processor may be done before it is told
        s.run((rolled if kind == "loop" else function)(lines))
        with pytest.raises(Interrupted) as found:
            view(s, stop)
            raise Interrupted("it was too quick")
        if (shown := vars(found.value).get("view")) and "Stopped at" in shown.text:
            break
    assert re.search(words, " ".join(shown.text.split()))
    assert s.inspect.engine.pool.traces.partial is not None and not [*tmp_path.iterdir()]
    s.run(rolled(8))
    whole = view(s, None)
    assert "Stopped" not in whole.text and s.inspect.engine.pool.traces.partial is None


def test_passes_over_loops_are_one_step_and_a_loop_has_its_own(s: Session) -> None:
    s.run(LOOPS)
    text = passes(s, "two").text
    assert re.search(r"^\d+\. loop passes on @two.*: loop-instsimplify × 2, ", text, re.M)
    words = " ".join(text.split())
    assert "licm × 4" in words and "loop-rotate × 2" in words
    assert max(map(len, text.splitlines())) <= 100
    assert "--loop shows what each did to one loop" in " ".join(text.split())
    own = loop(s, "two", "%a")
    assert re.search(r"^ +1  %\S+", own.text, re.M) and "The loop %a of @two" in own.text
    assert re.search(r"^\d\. loop-rotate, ", own.text, re.M)
    assert re.search(r"^\d\. licm, .*\n(?:.*\n)*?-   %k = mul i64 %n, %n", own.text, re.M)
    assert_complete(own)
    assert "The loop %" in loop(s, s.symbols["two"].cell).text
    with pytest.raises(UsageError, match="@two has no loop whose header is %end at any time: %"):
        loop(s, "two", "end")
    with pytest.raises(UsageError, match="licm runs on each loop: %passes NAME --loop"):
        passes(s, "two", only="licm")


def test_one_step_and_words_within_lines(session: Session) -> None:
    view = passes(session, "sq", step="sroa")
    assert re.findall(r"^\d+\. (\S+) on", view.text, re.M) == ["sroa"]
    assert "<mark>%v</mark>" in view.html or "<mark>%x</mark>" in view.html
    number = re.search(r"^(\d+)\. sroa", view.text, re.M)
    assert number is not None
    assert passes(session, "sq", step=number[1]).text == view.text
    assert "<script>" in passes(session, "sq").html and "<details open>" in view.html


def test_metadata_and_attributes_are_folded(s: Session) -> None:
    s.run(SQRT)
    number = s.symbols["root"].cell
    folded, whole = passes(s, number), passes(s, number, everything=True)
    assert "inferattrs" not in re.findall(r"^\d+\. (\S+) on", folded.text, re.M)
    told = re.search(r"changed only metadata, attributes or\s+debug\s+records", folded.text)
    assert told and "inferattrs" in folded.text
    assert re.search(r"^\d+\. inferattrs on", whole.text, re.M)


def test_steps_have_other_numbers_where_all_are_told(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that shows the rest of a step names the same step."""
    s.run(f"{SQRT}\n{ALLOCA}")
    number, module = s.symbols["root"].cell, sys.modules["jitkernel.views.passes"]
    monkeypatch.setattr(module, "Room", partial(Room, size=300))
    monkeypatch.setattr(module, "_WHOLE", 0)
    monkeypatch.setattr(module, "_LINES", 1)
    part = passes(s, number, stop_after="sroa")
    head = re.search(r"^after step (\d+), sroa$", part.text, re.M)
    said = re.search(r"%passes \d+ --stop-after (\d+) --all shows all", " ".join(part.text.split()))
    assert head and said and int(said[1]) > int(head[1])
    whole = passes(s, number, stop_after=said[1], everything=True).text
    assert f"after step {said[1]}, sroa" in whole
    assert f"%passes {number} --all --step " in whole


def test_what_is_too_large_says_what_can_be_seen(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["jitkernel.views.watched"], "_MOST", 8)
    s.run(f"{ALLOCA}\n{ALLOCA.replace('@sq', '@other')}")
    number = s.symbols["sq"].cell
    seen = " ".join(passes(s, number).text.split())
    assert re.search(r"cell \d+ has 12 lines .*%passes NAME .*: @other, @sq", seen)
    with pytest.raises(UsageError, match=r"cell \d+ has 12 lines"):
        passes(s, number, step=1)
    assert "sroa" in passes(s, "other").text
    monkeypatch.setattr(sys.modules["jitkernel.views.watched"], "_MOST", 4)
    listed = passes(s, "sq").text
    rows = {name: int(times) for name, times in re.findall(r"^(\S+) +(\d+)  +\d", listed, re.M)}
    assert {"sroa", "instcombine", "simplifycfg"} <= set(rows) and rows["sroa"] > 1
    assert re.match(rf"@sq: {sum(rows.values())} runs of {len(rows)} passes, which took ", listed)
    assert "%remarks @sq is what LLVM says of it, %ir @sq --diff" in " ".join(listed.split())


def test_optnone_says_why_nothing_happens(session: Session) -> None:
    for view in (passes(session, 2), passes(session, "slow"), ir(session, 2, "diff")):
        assert "@slow is optnone: no pass touches such a function." in view.text
        assert "--ignore-optnone" in view.html
    assert "optnone" not in passes(session, "sq").text


def test_a_function_that_goes(session: Session) -> None:
    text = passes(session, 4).text
    assert re.search(r"^ +\d+  inline +@outer ", text, re.M)
    assert re.search(r"^ +\d+  pass manager +module ", text, re.M)
    assert "- define internal" in text


# -- IR before and after


def test_ir_before_and_after(session: Session) -> None:
    assert "alloca" in ir(session, "sq").text
    raw, opt = ir(session, "sq", "raw").text, ir(session, "sq", "opt").text
    assert "define weak_odr protected i32 @sq" in raw and "alloca" in raw
    assert "alloca" not in opt and "mul i32 %x, %x" in opt
    change = ir(session, "sq", "diff")
    assert "-   %a = alloca i32, align 4" in change.text
    assert "+   %y = mul i32 %x, %x" in change.text
    assert_complete(change)
    assert "target triple" in ir(session, 1, "raw").text
    with pytest.raises(UsageError, match="there are raw, opt, diff"):
        ir(session, 1, "later")


# -- machine IR


def test_spills_are_found(session: Session) -> None:
    view = mir(session, "spills")
    row = re.search(r"^regalloc +\S+ +\d+ +(\d+) +(\d+) +(\d+)$", view.text, re.M)
    assert row is not None
    assert int(row[1]) == int(row[2]) == 2
    assert row[3] == "16"  # two slots of eight bytes
    assert "2 spills (stores) and 2 reloads through 2 stack slots of 16 bytes" in view.text
    assert len(re.findall(r"^spill .*store \(s64\) into %stack", view.text, re.M)) >= 2
    assert len(re.findall(r"^reload ", view.text, re.M)) >= 2
    assert len(re.findall("<mark [^>]*>spill", view.html)) >= 2
    assert all(len(line) <= 100 for line in view.text.splitlines())
    assert_complete(view)


def test_an_alloca_is_no_spill(session: Session) -> None:
    text = mir(session, "slow").text
    assert "No spills" in text and not re.search("^(spill|reload)", text, re.M)


def test_one_stage(session: Session) -> None:
    text = mir(session, "sq", "isel").text
    assert "IMUL32rr" in text and "$noreg" not in text and "RET64" not in text
    assert "RET64" in mir(session, "sq", "final").text
    with pytest.raises(UsageError, match="there are isel, regalloc, final"):
        mir(session, "sq", "emit")


def test_a_function_without_machine_ir(session: Session) -> None:
    text = mir(session, 4).text
    assert "Machine IR of @outer" in text and "@inner" not in text


# -- what is not there


# -- pipelines


def traced(s: Session) -> PassTrace:
    """What each pass did to the last cell."""
    return s.inspect.engine.pool.traces.passes(s.inspect.request(s.cells[-1].number))


def test_a_pipeline_of_ones_own(s: Session) -> None:
    s.run(ALLOCA, options=CellOptions(passes="simplifycfg"))
    assert s.cells[0].options == "simplifycfg"
    assert "alloca" in ir(s, "sq", "opt").text
    assert s.call("sq", 7) == 49
    s.run(ALLOCA, options=CellOptions(passes="mem2reg,instcombine"))
    assert "alloca" not in ir(s, "sq", "opt").text
    assert {step.name for step in traced(s).steps} <= {"mem2reg", "instcombine"}
    assert "This is what was compiled" in mir(s, "sq").html
    s.settings.passes = "sroa"
    s.run(ALLOCA)
    assert [step.name for step in traced(s).steps] == ["sroa"]
    s.run(ALLOCA, options=CellOptions(opt_level=1))  # a level is its own pipeline
    assert len(traced(s).steps) > 1
    with pytest.raises(CompileError, match="did you mean sroa"):
        s.run(ALLOCA, options=CellOptions(passes="sora"))
    assert s.call("sq", 8) == 64
