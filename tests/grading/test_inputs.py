"""The inputs of a check: which are chosen, where they lie in memory, and global variables."""

from __future__ import annotations

import pytest

from jitkernel import Session, grading
from jitkernel.errors import CheckFailed
from jitkernel.grading.inputs import chosen, kinds_of, smaller
from jitkernel.ir.types import function_type
from tests.grading.test_check import failure

LENGTH = """; inputs: i32[] -9..9, length
define i32 @f(ptr %a, i32 %n) {
  ret i32 0
}"""


@pytest.mark.parametrize(
    ("inputs", "type", "there"),
    [
        ("any", "i1 (i8)", [(-128,), (-127,), (-1,), (0,), (1,), (126,), (127,)]),
        ("5..7, 0..1", "i1 (i64, i64)", [(5, 0), (5, 1), (6, 0), (7, 1)]),
        ("text", "void (ptr)", [("",), ("a",), ("z",), ("`",), ("{",), ("@",), ("[",), ("é",)]),
        ("1..1000", "double (double)", [(1.0,), (1000.0,)]),
        ("i8[]", "void (ptr)", [([],), ([-128],), ([127] * 32,)]),
        ("sorted i8[] 1..3, length, 0..2", "void (ptr, i64, i8)", [([], 0), ([3] * 32, 2)]),
        ("{i8 1..2, i32}", "void (ptr)", [((1, 0),), ((2, 1),)]),
    ],
)
def test_boundaries_come_first(inputs: str, type: str, there: list[tuple[object, ...]]) -> None:
    kinds = kinds_of(inputs, function_type(type))
    found = list(chosen(kinds, 200, 1))
    assert len(found) == 200 and found == list(chosen(kinds, 200, 1))
    assert all(values in found[:100] for values in there)
    bounded = [kind for kind in kinds if kind.name in ("int", "float")]
    assert bounded == [] or all(bounded[-1].has(values[-1]) for values in found)


def test_simpler_inputs_are_within_bounds() -> None:
    (kind,) = kinds = kinds_of("1..1000", function_type("double (double)"))
    assert all(kind.has(value) for (value,) in smaller(kinds, (17.5,)))


def test_simpler_sorted_structs_are_sorted_also_where_they_come_from_a_file() -> None:
    kinds = kinds_of("sorted {i32 0..9, i32}[], length", function_type("i32 (ptr, i64)"))
    for element in (tuple, list):  # drawn ones, and those of JSON
        values = [element((2, 5)), element((7, 1))]
        found = [value for (value,) in smaller(kinds, (values,))]
        assert [element((1, 5)), element((7, 1))] in found and values[:1] in found
        assert all(value == sorted(value) for value in found)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("%v = load volatile i32, ptr %a", "@f([], 0): read behind the end of []"),
        ("%v = load i32, ptr %a", "@f([], 0): read behind the end of [] (without passes)"),
        (
            "%p = getelementptr i32, ptr %a, i32 -1\n  %v = load volatile i32, ptr %p",
            "@f([], 0): read in front of []",
        ),
        ("store i32 0, ptr %a", "@f([], 0): wrote behind the end of []"),
        (
            "%p = getelementptr i8, ptr %a, i32 -1\n  store i8 0, ptr %p",
            "@f([], 0): wrote in front of []",
        ),
    ],
)
def test_memory_ends_where_the_value_ends(s: Session, body: str, words: str) -> None:
    exercise = grading.make_exercise(s, "f", LENGTH)
    source = f"define i32 @f(ptr %a, i32 %n) {{\n  {body}\n  ret i32 0\n}}"
    assert failure(s, exercise, source)[0] == words


def test_memory_is_there_again_in_a_new_process(s: Session) -> None:
    exercise = grading.make_exercise(s, "f", LENGTH)
    for _ in range(2):
        s.run(LENGTH)
        assert grading.check(s, exercise).inputs == 200
        ends = "define i32 @f(ptr %a, i32 %n) {\n  call i32 @raise(i32 9)\n  ret i32 0\n}"
        assert "ended" in failure(s, exercise, f"{ends}\ndeclare i32 @raise(i32)")[0]


def test_a_variable_that_is_zero_by_chance(s: Session) -> None:
    exercise = grading.make_exercise(s, "f", LENGTH)
    source = "define i32 @f(ptr %a, i32 %n) {\n  %p = alloca i32\n  %v = load i32, ptr %p\n"
    first = failure(s, exercise, f"{source}  %r = mul i32 %v, 4\n  ret i32 %r\n}}")[0]
    assert first.startswith("@f([], 0): expected 0, got")


COUNT = """@calls = global i32 0
@step = constant i32 3
define i32 @count() {
  %n = load i32, ptr @calls
  %n1 = add i32 %n, 3
  store i32 %n1, ptr @calls
  ret i32 %n1
}"""
RIGHT = """define i32 @count() {
  %n = load i32, ptr @calls
  %s = load i32, ptr @step
  %n1 = add i32 %n, %s
  store i32 %n1, ptr @calls
  ret i32 %n1
}"""


def test_variables_of_the_reference(s: Session) -> None:
    """A `global` is reset and compared, a `constant` is an input and comes back."""
    exercise = grading.make_exercise(s, "count", COUNT)
    with pytest.raises(CheckFailed, match=r"@calls is not defined, but .*@calls: global i32"):
        s.run("define i32 @count() {\n  ret i32 0\n}")
        grading.check(s, exercise)
    s.run("@calls = global i32 70\n@step = global i32 1")
    s.run(RIGHT)
    assert grading.check(s, exercise).inputs == 200
    assert (s.run("@calls").value, s.run("@step").value) == (600, 1)
    lines = failure(s, exercise, RIGHT.replace("  %s = load i32, ptr @step", "  %s = add i32 1, 0"))
    assert lines[:2] == [
        "@count(): expected 3, got 1",
        "before the call: @calls = i32 0, @step = i32 3",
    ]
    lines = failure(s, exercise, RIGHT.replace("  store i32 %n1, ptr @calls\n", ""))
    assert lines[0] == "@count(): expected to leave @calls = i32 3, left i32 0"
    s.run("@once = global i1 false")
    late = RIGHT.replace("%n1, ptr @calls", "%n2, ptr @calls").replace(
        "  store", "  %t = icmp eq i32 %n, 9\n  %n2 = select i1 %t, i32 0, i32 %n1\n  store"
    )
    lines = failure(s, exercise, late)  # it takes four calls
    assert lines[0] == "@count(): expected to leave @calls = i32 12, left i32 0"
    assert lines[1].startswith("before the call: @calls = i32 9")
    assert s.run("@step").value == 1


def test_a_variable_of_another_type_is_refused(s: Session) -> None:
    exercise = grading.make_exercise(s, "count", COUNT)
    s.run("@calls = global i64 0\n@step = global i32 1")
    s.run("define i32 @count() {\n  ret i32 0\n}")
    with pytest.raises(CheckFailed, match="@calls is global i64, but the exercise asks for"):
        grading.check(s, exercise)
