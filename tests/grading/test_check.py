"""What a check says of solutions that are right, wrong, too long, too slow, or crash."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from jitkernel import Session, grading
from jitkernel.errors import CheckFailed, CompileError, Interrupted, UsageError
from jitkernel.grading.inputs import kinds_of, told
from jitkernel.grading.rules import read_rule
from jitkernel.kernel.magics.grading import report_view
from jitkernel.linker.disassembly import decode

CLZ = """; task: how many zero bits stand above the highest one bit?
; try: 0; 1; -1
; must: no alloca; at most 6 instructions
; hint: what about 0?
define i32 @clz(i32 %x) {
  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)
  ret i32 %r
}
declare i32 @llvm.ctlz.i32(i32, i1)
"""
REVERSE = """; inputs: i32[] 0..9, length
define void @reverse(ptr %a, i32 %n) {
entry:
  %few = icmp slt i32 %n, 2
  br i1 %few, label %out, label %go
go:
  %last = sub i32 %n, 1
  br label %loop
loop:
  %i = phi i32 [ 0, %go ], [ %i1, %loop ]
  %j = phi i32 [ %last, %go ], [ %j1, %loop ]
  %p = getelementptr i32, ptr %a, i32 %i
  %q = getelementptr i32, ptr %a, i32 %j
  %x = load i32, ptr %p
  %y = load i32, ptr %q
  store i32 %y, ptr %p
  store i32 %x, ptr %q
  %i1 = add i32 %i, 1
  %j1 = sub i32 %j, 1
  %more = icmp slt i32 %i1, %j1
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""

LAST = """define i32 @last(ptr %a, i32 %n) {
entry:
  %none = icmp eq i32 %n, 0
  br i1 %none, label %no, label %go
no:
  ret i32 0
go:
  %i = sub i32 %n, 1
  %p = getelementptr i32, ptr %a, i32 %i
  %v = load i32, ptr %p
  ret i32 %v
}"""


def failure(session: Session, exercise: grading.Exercise, source: str) -> list[str]:
    """The lines that a wrong solution is answered with."""
    session.run(source)
    with pytest.raises(CheckFailed) as caught:
        grading.check(session, exercise)
    return str(caught.value).split("\n")


def body(text: str) -> str:
    return f"define i32 @clz(i32 %x) {{\n{text}\n}}"


def test_a_right_solution_and_what_was_found(s: Session) -> None:
    exercise = grading.make_exercise(s, "clz", CLZ)
    s.run(CLZ)
    report = grading.check(s, exercise)
    assert report.inputs == 3 + 200
    assert report.found[0] == "no alloca as compiled"
    view = report_view(report)
    assert view.text.startswith("✓ clz: @clz passed\n")
    assert "203 inputs" in view.text and "<th scope" in view.html
    # Green is said by the tick, and colour never stands without its background.
    assert re.search(r'<caption[^>]*><b style="color:#\w+;background:#\w+">[^<]*✓', view.html)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("  ret i32 31", "@clz(0): expected 32, got 31"),
        ("  %r = load volatile i32, ptr null\n  ret i32 %r", "@clz(0): Fault: read of address 0"),
        ("  call void @exit(i32 3)\n  ret i32 1", "@clz(0): Exited: the cell called exit(3)"),
    ],
)
def test_the_first_counterexample(s: Session, text: str, first: str) -> None:
    lines = failure(s, grading.make_exercise(s, "clz", CLZ), body(text))
    assert lines[0].startswith(first)
    assert lines[-1] == "hint: what about 0?"


def test_a_loop_without_end_names_its_input(s: Session) -> None:
    exercise = grading.make_exercise(s, "clz", CLZ)
    before = s.inspect.engine.executor.settings
    s.inspect.engine.executor.settings = type(before)(cell_timeout=0.2)
    lines = failure(s, exercise, body("entry:\n  br label %l\nl:\n  br label %l"))
    assert lines[0] == "@clz(0): did not come back within 0.2 s; expected 32"
    assert s.inspect.engine.executor.settings.cell_timeout == 0.2
    s.inspect.engine.executor.settings = before


def test_a_counterexample_is_made_simpler(s: Session) -> None:
    exercise = grading.make_exercise(s, "clz", CLZ.replace("; try: 0; 1; -1\n", ""))
    wrong = body(
        "  %big = icmp sgt i32 %x, 1000\n"
        "  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)\n"
        "  %q = select i1 %big, i32 99, i32 %r\n  ret i32 %q"
    )
    lines = failure(s, exercise, wrong + "\ndeclare i32 @llvm.ctlz.i32(i32, i1)")
    # 1001 to 2047 have 22 or 21 leading zeros; halving and stepping down ends right above 1000.
    assert lines[0] == "@clz(1001): expected 22, got 99"


def test_all_calls_together_are_limited(s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("jitkernel.grading.check"), "ALL", 0.005)
    exercise = grading.make_exercise(s, "clz", CLZ)
    before = s.inspect.engine.executor.settings
    s.inspect.engine.executor.settings = type(before)(cell_timeout=60)
    text = (
        "  call i32 @usleep(i32 40000)\n  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)\n"
        "  ret i32 %r"
    )
    rest = "\ndeclare i32 @llvm.ctlz.i32(i32, i1)\ndeclare i32 @usleep(i32)"
    lines = failure(s, exercise, body(text) + rest)
    s.inspect.engine.executor.settings = before
    assert lines[0].startswith("@clz is too slow: ") and lines[0].endswith(" inputs took 0.3 s")


def test_truth_values_and_small_integers(s: Session) -> None:
    source = "define i8 @pick(i1 %c, i8 %a) {\n  %r = select i1 %c, i8 %a, i8 0\n  ret i8 %r\n}"
    exercise = grading.make_exercise(s, "pick", source)
    s.run(source.replace("i8 %a)", "i8 signext %a)").replace("define i8", "define signext i8"))
    assert grading.check(s, exercise).inputs == 200
    wrong = source.replace("i8 %a, i8 0", "i8 0, i8 0").replace("i8 %a)", "i8 signext %a)")
    lines = failure(s, exercise, wrong.replace("define i8", "define signext i8"))
    assert lines[0] == "@pick(true, 1): expected 1, got 0"


def test_c_may_call_a_number_unsigned_that_the_exercise_does_not(s: Session) -> None:
    source = "define i32 @less(i32 %a) {\n  %r = sub i32 %a, 5\n  ret i32 %r\n}"
    exercise = grading.make_exercise(s, "less", source)
    s.run("unsigned less(unsigned a) { return a - 5; }", "c")
    assert grading.check(s, exercise).inputs == 200
    s.run("unsigned less(unsigned a) { return a - 6; }", "c")
    with pytest.raises(CheckFailed, match=r"\(0\): expected -5, got -6"):
        grading.check(s, exercise)


def test_of_another_language_its_compiler_wrote_the_ir(s: Session) -> None:
    source = (
        "define i32 @most(i32 %a) {\n  %r = call i32 @llvm.smax.i32(i32 %a, i32 0)\n  ret i32 %r\n}"
    )
    rule = "; must: no phi as written\n"
    exercise = grading.make_exercise(
        s, "most", rule + source + "\ndeclare i32 @llvm.smax.i32(i32, i32)"
    )
    s.run("int most(int a) { return a > 0 ? a : 0; }", "c")
    with pytest.raises(
        CheckFailed, match=r"^most: 1 phi as its compiler wrote it, but the exercise"
    ):
        grading.check(s, exercise)


def test_what_is_read_in_front_is_told_and_not_what_it_gave(s: Session) -> None:
    source = "; inputs: i32[], length\n" + LAST
    exercise = grading.make_exercise(s, "last", source)
    lines = failure(s, exercise, LAST.replace("%i = sub i32 %n, 1", "%i = sub i32 %n, 2"))
    assert re.fullmatch(r"@last\(\[0\], 1\): read in front of \[0\]", lines[0])


def test_unsigned_numbers_are_told_as_such(s: Session) -> None:
    head = "; try: 1, -1; -56, 100\n; show: unsigned\n"
    source = "define i8 @mean(i8 %a, i8 %b) {\n  %r = udiv i8 %a, 2\n  ret i8 %r\n}"
    wrong = source.replace("udiv", "sdiv")
    exercise = grading.make_exercise(s, "mean", head + source)
    assert failure(s, exercise, wrong)[0] == "@mean(255, 0): expected 127, got 0"
    signed = grading.make_exercise(s, "mean", head.replace("; show: unsigned", "") + source)
    assert failure(s, signed, wrong)[0] == "@mean(-1, 0): expected 127, got 0"


def test_unsigned_numbers_in_memory_are_told_as_such(s: Session) -> None:
    head = "; inputs: {i8, i32}\n; show: unsigned\n"
    source = "define void @clear(ptr %a) {\n  ret void\n}"
    wrong = source.replace("  ret", "  store i8 -4, ptr %a\n  ret")
    exercise = grading.make_exercise(s, "clear", head + source)
    first = failure(s, exercise, wrong)[0]
    assert first == "@clear({0, 0}): expected to leave {0, 0}, left {252, 0}"
    (array,) = kinds_of("{i8, i64}[]", exercise.signature)
    assert told(array, [(-1, -2)]) == "[{-1, -2}]"
    assert told(array.as_unsigned(), [(-1, -2)]) == "[{255, 18446744073709551614}]"


def test_what_it_printed_is_told(s: Session) -> None:
    source = body("  call i32 @puts(ptr @m)\n  ret i32 31") + '\n@m = constant [3 x i8] c"hi\\00"'
    lines = failure(s, grading.make_exercise(s, "clz", CLZ), source)
    assert lines[1:3] == ["It printed:", "  hi"]


def test_arrays(s: Session) -> None:
    exercise = grading.make_exercise(s, "reverse", REVERSE)
    s.run(REVERSE)
    assert grading.check(s, exercise).inputs == 200
    lines = failure(s, exercise, "define void @reverse(ptr %a, i32 %n) {\n  ret void\n}")
    assert lines[0] == "@reverse([0, 1], 2): expected to leave [1, 0], left [0, 1]"
    beyond = "  %p = getelementptr i32, ptr %a, i32 %n\n  store i32 1, ptr %p\n  ret void"
    lines = failure(s, exercise, f"define void @reverse(ptr %a, i32 %n) {{\n{beyond}\n}}")
    assert lines[0] == "@reverse([], 0): wrote behind the end of []"


@pytest.mark.parametrize(
    ("rule", "source", "complaint"),
    [
        ("at most 1 instructions", "  %r = mul i32 %x, %x\n  ret i32 %r", "instructions"),
        ("at most 2 bytes", "  %r = mul i32 %x, %x\n  ret i32 %r", "bytes"),
        (
            "no alloca as written",
            "  %p = alloca i32\n  store i32 %x, ptr %p\n  %r = mul i32 %x, %x\n  ret i32 %r",
            "1 alloca as written",
        ),
        ("some phi", "  %r = mul i32 %x, %x\n  ret i32 %r", "no phi as compiled"),
        ("packed instructions", "  %r = mul i32 %x, %x\n  ret i32 %r", "no packed"),
        (
            "a tail call",
            "  %r = mul i32 %x, %x\n  ret i32 %r",
            "no call whose value is returned as it is",
        ),
        (
            "direct calls",
            "  %f = load volatile ptr, ptr @f\n  %r = call i32 %f(i32 %x)\n  %s = add i32 %r, 0\n"
            "  store volatile i32 0, ptr @g\n  ret i32 %s",
            "an indirect one: call",
        ),
    ],
)
def test_rules(s: Session, rule: str, source: str, complaint: str) -> None:
    reference = "define i32 @f2(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"
    head = f"; hint: what about 0?\n; must: {rule}\n"
    exercise = grading.make_exercise(s, "f2", head + reference)
    s.run("define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}")
    s.run("@g = global i32 0\n@f = global ptr @sq")
    lines = failure(s, exercise, f"define i32 @f2(i32 %x) {{\n{source}\n}}")
    assert complaint in lines[0] and lines[0].endswith(f"asks for: {read_rule(rule).demand}")
    assert lines[1:] == ["All 200 inputs gave the right answer.", "hint: what about 0?"]


def test_rules_that_hold(s: Session) -> None:
    rules = "a tail call; direct calls; no alloca; some call; at most 9 IR instructions"
    source = "define i32 @f2(i32 %x) {\n  %r = musttail call i32 @sq(i32 %x)\n  ret i32 %r\n}"
    sq = "define i32 @sq(i32 %x) noinline {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"
    exercise = grading.make_exercise(s, "f2", f"; must: {rules}\n; function: @f2\n{sq}\n{source}")
    s.run(sq)
    s.run(source)
    assert grading.check(s, exercise).found[0].startswith("a jump to @sq")


VECTORS = """\
; must: packed instructions
; inputs: i32[] 0..9, length
define void @inc(ptr %a, i64 %n) {
entry:
  %none = icmp eq i64 %n, 0
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %p = getelementptr i32, ptr %a, i64 %i
  %v = load i32, ptr %p
  %w = add i32 %v, 1
  store i32 %w, ptr %p
  %j = add nuw i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}"""


def test_packed_instructions(s: Session) -> None:
    """Of whatever width: a volatile access keeps the vectoriser from making any."""
    exercise = grading.make_exercise(s, "inc", VECTORS)
    s.run(VECTORS)
    assert re.fullmatch(r"\d+ packed instructions?", grading.check(s, exercise).found[0])
    assert failure(s, exercise, VECTORS.replace("= load", "= load volatile"))[0].startswith(
        "@inc: no packed"
    )


def test_packed_instructions_in_a_loop(s: Session) -> None:
    """One beside a loop that has none is not what was asked for."""
    exercise = grading.make_exercise(
        s, "inc", VECTORS.replace("instructions", "instructions in a loop")
    )
    s.run(VECTORS)
    assert grading.check(s, exercise).found[0].endswith(" in a loop")
    beside = VECTORS.replace("= load", "= load volatile").replace(
        "done:\n",
        "done:\n  %s = alloca <4 x i32>\n  %x = load volatile <4 x i32>, ptr %s\n"
        "  %y = add <4 x i32> %x, %x\n  store volatile <4 x i32> %y, ptr %s\n",
    )
    assert failure(s, exercise, beside)[0].startswith("@inc: no packed instructions in a loop")
    s.run("define void @below(ptr %a) noinline {\n  ret void\n}")
    behind = beside.replace("  ret void", "  tail call void @below(ptr %a)\n  ret void")
    behind = f"{behind}\ndeclare void @below(ptr)"
    assert failure(s, exercise, behind)[0].startswith("@inc: no packed instructions in a loop")


def test_a_jump_back_alone_makes_no_loop(s: Session) -> None:
    """What is seldom run stands behind a function's end, and jumps back."""
    rest = "".join(f"  store volatile i32 {n}, ptr %a\n" for n in range(20))
    s.run(
        "define void @f(ptr %a, i1 %c) {\n  br i1 %c, label %cold, label %rest, !prof !0\ncold:\n"
        "  %x = load volatile <4 x i32>, ptr %a\n  %y = add <4 x i32> %x, %x\n"
        f"  store volatile <4 x i32> %y, ptr %a\n  br label %rest\nrest:\n{rest}  ret void\n}}\n"
        '!0 = !{!"branch_weights", i32 1, i32 100000}'
    )
    symbol = s.symbols["f"]
    code = decode(s.inspect.engine.arena.read(symbol.address, symbol.size), symbol.address)
    assert code[-1].mnemonic == "jmp" and code[0].address < code[-1].target < code[-1].address
    assert read_rule("packed instructions").apply(s, "f").holds
    assert not read_rule("packed instructions in a loop").apply(s, "f").holds


def test_the_reference_meets_no_names_of_the_students(s: Session) -> None:
    helper = "define i32 @help(i32 %x) {\n  %r = mul i32 %x, 3\n  ret i32 %r\n}"
    main = "define i32 @triple(i32 %x) {\n  %r = call i32 @help(i32 %x)\n  ret i32 %r\n}"
    exercise = grading.make_exercise(s, "triple", f"; function: @triple\n{helper}\n{main}")
    s.run("define i32 @help(i32 %x) {\n  ret i32 -1\n}")
    s.run("define i32 @triple(i32 %x) {\n  %r = mul i32 %x, 3\n  ret i32 %r\n}")
    names, cells = set(s.symbols), [c.number for c in s.cells]
    grading.check(s, exercise)
    assert s.call("help", 1) == -1
    assert ([c.number for c in s.cells], set(s.symbols)) == (cells, names)


def test_missing_and_of_another_type(s: Session) -> None:
    exercise = grading.make_exercise(s, "clz", CLZ)
    with pytest.raises(CheckFailed, match=r"@clz is not defined; .* asks for @clz: i32 .i32."):
        grading.check(s, exercise)
    s.run("define i64 @clz(i64 %x) {\n  ret i64 %x\n}")
    with pytest.raises(CheckFailed, match=r"@clz is i64 .i64., but"):
        grading.check(s, exercise)
    s.run("define i32 @mine(i32 %x) {\n  ret i32 32\n}")
    with pytest.raises(CheckFailed, match=r"@mine.1.: expected 31, got 32"):
        grading.check(s, exercise, "@mine")


def test_on_disk(s: Session, tmp_path: Path) -> None:
    exercise = grading.make_exercise(s, "clz", CLZ)
    path = exercise.write(tmp_path / "exercises")
    assert grading.Exercise.read(path) == exercise
    assert "llvm.ctlz" not in path.read_text()
    assert list(grading.exercises(str(tmp_path / "exercises"))) == ["clz"]
    with pytest.raises(UsageError, match="did you mean clz"):
        grading.find_exercise("clx", str(tmp_path / "exercises"))
    path.write_text("{}")
    with pytest.raises(UsageError, match="is no exercise"):
        grading.Exercise.read(path)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("; musst: no alloca\n", "an exercise has no musst"),
        ("; must: no allocas at all\n", "is no rule"),
        ("; inputs: i32[]\n", "does not fit an argument"),
        ("; inputs: any, any\n", "2 are described"),
        ("; try: 1, 2\n", "2 values, 1 are needed"),
        ("; samples: many\n", "is no number"),
        ("; function: @other\n", "an exercise defines @other"),
    ],
)
def test_an_authors_mistakes(s: Session, head: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        grading.make_exercise(s, "f", head + "define i32 @f(i32 %x) {\n  ret i32 %x\n}")


def test_a_reference_with_an_error(s: Session) -> None:
    with pytest.raises(CompileError):
        grading.make_exercise(s, "f", "define i32 @f(i32 %x) {\n  ret i64 %x\n}")


PAIRS = {
    "a struct returned": (
        "; inputs: any, 1..9\n",
        "define { i32, i32 } @f(i32 %a, i32 %b) {\n  %q = sdiv i32 %a, %b\n  %r = srem i32 %a, %b\n"
        "  %s = insertvalue { i32, i32 } poison, i32 %q, 0\n"
        "  %t = insertvalue { i32, i32 } %s, i32 %r, 1\n  ret { i32, i32 } %t\n}",
        ("srem", "urem"),
        "@f(-1, 2): expected { i32 0, i32 -1 }, got { i32 0, i32 1 }",
    ),
    "an overflow bit": (
        "; try: 2147483647, 1\n",
        "define { i32, i1 } @f(i32 %a, i32 %b) {\n"
        "  %r = call { i32, i1 } @llvm.sadd.with.overflow.i32(i32 %a, i32 %b)\n  ret { i32, i1 } %r\n}",
        ("sadd", "uadd"),
        "got { i32 -2147483648, i1 false }",
    ),
    "a vector returned": (
        "",
        "define <2 x i32> @f(i32 %a, i32 %b) {\n  %v = insertelement <2 x i32> poison, i32 %a, i32 0\n"
        "  %w = insertelement <2 x i32> %v, i32 %b, i32 1\n  ret <2 x i32> %w\n}",
        ("i32 %a, i32 0\n", "i32 %b, i32 0\n"),
        "@f(0, 1): expected <i32 0, i32 1>, got <i32 1, i32 1>",
    ),
    "a struct in memory": (
        "; inputs: {i8 0..9, i64}\n; try: {1, 5}\n",
        "define void @f(ptr %s) {\n  %p = getelementptr { i8, i64 }, ptr %s, i32 0, i32 1\n"
        "  %v = load i64, ptr %p\n  %w = add i64 %v, 1\n  store i64 %w, ptr %p\n  ret void\n}",
        ("add i64 %v, 1", "add i64 %v, 2"),
        "@f({0, 0}): expected to leave {0, 1}, left {0, 2}",
    ),
    "structs in an array": (
        "; inputs: {i32 0..3, double}[], length\n",
        "define double @f(ptr %a, i64 %n) {\nentry:\n  %e = icmp eq i64 %n, 0\n"
        "  br i1 %e, label %no, label %yes\nno:\n  ret double 0.0\nyes:\n"
        "  %p = getelementptr { i32, double }, ptr %a, i64 0, i32 1\n  %v = load double, ptr %p\n"
        "  ret double %v\n}",
        ("ret double %v", "ret double 1.0"),
        "@f([{0, 0.0}], 1): expected 0.0, got 1.0",
    ),
    "a place returned": (
        '; inputs: text, 97..104\n; try: "abc", 98; "", 97\n',
        "define ptr @f(ptr %s, i8 %c) {\nentry:\n  br label %l\nl:\n  %i = phi i64 [ 0, %entry ], [ %j, %m ]\n"
        "  %p = getelementptr i8, ptr %s, i64 %i\n  %v = load i8, ptr %p\n  %is = icmp eq i8 %v, %c\n"
        "  br i1 %is, label %yes, label %m\nm:\n  %j = add i64 %i, 1\n  %end = icmp eq i8 %v, 0\n"
        "  br i1 %end, label %no, label %l\nyes:\n  ret ptr %p\nno:\n  ret ptr null\n}",
        ("ret ptr null", "ret ptr %p"),
        '@f("", 97): expected null, got argument #1 + 0 bytes',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_aggregates_and_memory(s: Session, name: str) -> None:
    head, source, (old, new), words = PAIRS[name]
    exercise = grading.make_exercise(s, "f", head + source)
    s.run(source)
    assert grading.check(s, exercise).inputs >= 200
    assert words in failure(s, exercise, source.replace(old, new))[0]


def test_an_exercise_about_structs_survives_its_file(s: Session, tmp_path: Path) -> None:
    head, source, (old, new), words = PAIRS["a struct in memory"]
    exercise = grading.make_exercise(s, "f", head + source)
    again = grading.Exercise.read(exercise.write(tmp_path))
    s.run(source)
    assert grading.check(s, again).inputs == 201
    assert words in failure(s, again, source.replace(old, new))[0]


def test_who_writes_behind_a_struct_is_told(s: Session) -> None:
    source = "define void @f(ptr %s) {\n  ret void\n}"
    exercise = grading.make_exercise(s, "f", "; inputs: {i32, i32}\n; try: {1, 2}\n" + source)
    wrong = source.replace("ret", "store [3 x i32] zeroinitializer, ptr %s\n  ret")
    assert failure(s, exercise, wrong)[0] == "@f({0, 0}): wrote behind the end of {0, 0}"


@pytest.mark.parametrize(
    ("head", "result", "words"),
    [
        ("; inputs: {i32, i7}\n", "void", "elements of 7 bits"),
        ("; inputs: {i32, ptr}\n", "void", "'ptr' is no field"),
        ("; inputs: {}\n", "void", "is no field"),
        ("; inputs: text\n", "{ i32, ptr }", "cannot be compared"),
        ("; inputs: {i32}\n; try: 1, 2\n", "void", "2 values, 1 are needed"),
    ],
)
def test_what_cannot_be_compared(s: Session, head: str, result: str, words: str) -> None:
    value = "void" if result == "void" else f"{result} zeroinitializer"
    with pytest.raises(UsageError, match=words):
        grading.make_exercise(s, "f", f"{head}define {result} @f(ptr %p) {{\n  ret {value}\n}}")


def test_a_reference_may_return_no_pointer_of_its_own(s: Session) -> None:
    source = "@own = global i32 1\ndefine ptr @f(ptr %p) {\n  ret ptr @own\n}"
    exercise = grading.make_exercise(s, "f", "; inputs: text\n" + source)
    s.run(source)
    with pytest.raises(UsageError, match="returned a pointer into no argument"):
        grading.check(s, exercise)


def test_what_a_python_function_raises_is_an_answer_with_its_input(s) -> None:
    """Also a result that is none of the type; and the session goes on."""
    exercise = grading.make_exercise(
        s, "inc", "; try: 5\ndefine i8 @inc(i8 %x) {\n  %r = add i8 %x, 1\n  ret i8 %r\n}"
    )

    def inc(x):
        return {5: 6}[x] if abs(x) < 100 else x + 1

    s.export_python("inc", inc, "i8 (i8)")
    with pytest.raises(
        CheckFailed, match=r"@inc\(0\): KeyError: 0 \(in inc, line \d+\); expected 1"
    ):
        grading.check(s, exercise)
    s.export_python("inc", lambda x: x + 1 if x < 127 else 1000, "i8 (i8)")
    with pytest.raises(
        CheckFailed,
        match=r"@inc\(127\): UsageError: what @inc returned: 1000 does not fit i8; expected -128",
    ):
        grading.check(s, exercise)  # no place: it is none of the user's lines
    s.export_python("inc", lambda x: (x + 129) % 256 - 128, "i8 (i8)")
    assert grading.check(s, exercise).inputs > 100


def test_a_python_function_without_end_names_its_input(s: Session) -> None:
    """And so does a cell's time limit end it: the loop is in the kernel process, not the cell's."""
    exercise = grading.make_exercise(s, "inc", "; try: 5\ndefine i8 @inc(i8 %x) {\n  ret i8 6\n}")

    def inc(x: int) -> int:
        while x != 6:
            pass
        return x

    s.export_python("inc", inc, "i8 (i8)")
    s.configure("cell_timeout", 0.2)
    with pytest.raises(CheckFailed, match=r"@inc\(5\): did not come back within 0.2 s; expected 6"):
        grading.check(s, exercise)
    with pytest.raises(Interrupted, match=r"longer than Executor.cell_timeout allows"):
        s.value("@inc(5)")
    assert s.value("@inc(6)").python == 6
    s.configure("cell_timeout", 0.0)
