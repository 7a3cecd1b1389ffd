"""Expressions: what they are worth, and what is said where they are wrong."""

import time

import pytest

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.expressions import parse_expression
from jitkernel.ir.types import parse_type
from jitkernel.languages.llvm.assignment import assign
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.languages.llvm.plan import AssignAction, parse_cell


def run(text, host, expected=None):
    """The value of an expression, as text, and the calls that were made."""
    host.log.clear()
    type = None if expected is None else parse_type(expected)
    value = evaluate(parse_expression(text), type, host, text)
    return value.text(), host.log


@pytest.mark.parametrize(
    ("text", "value", "calls"),
    [
        ("@sq(7)", "i32 49", ["sq(i32 7)"]),
        ("@sq(i32 7)", "i32 49", ["sq(i32 7)"]),
        ("i32 @sq(7)", "i32 49", ["sq(i32 7)"]),
        ("@sq(@sq(2))", "i32 16", ["sq(i32 2)", "sq(i32 4)"]),
        ("@two(@sq(2), @sq(3))", "i32 13", ["sq(i32 2)", "sq(i32 3)", "two(i32 4, i32 9)"]),
        ("@sq(load @g)", "i32 1764", ["sq(i32 42)"]),
        ("@apply(@sq, 3)", "i32 3", ["apply(ptr 0x500000, i32 3)"]),
        ("@take(%pt { i32 1, i32 2 })", "i32 3", ["take(%pt { i32 1, i32 2 })"]),
        ("@take({ 1, 2 })", "i32 3", ["take(%pt { i32 1, i32 2 })"]),
        ("@take(load @p)", "i32 3", ["take(%pt { i32 1, i32 2 })"]),
        ("@vec(<1, 2, 3, 4>)", "i32 10", ["vec(<4 x i32> <i32 1, i32 2, i32 3, i32 4>)"]),
        ("@vec(<4 x i32> zeroinitializer)", "i32 0", None),
        ("@none()", "", ["none()"]),
        ('@"a b"()', "i32 5", ["a b()"]),
        ("@sq(\n  ; why\n  7 ; seven\n)", "i32 49", ["sq(i32 7)"]),
        ("@sq(0x10)", "i32 256", ["sq(i32 16)"]),
        ("@sq(-0x10)", "i32 256", ["sq(i32 -16)"]),
        ("@sq(0b101)", "i32 25", ["sq(i32 5)"]),
        ("@sq(1_000)", "i32 1000000", ["sq(i32 1000)"]),
        ("@sq(u0x10)", "i32 256", ["sq(i32 16)"]),
        ("@sq(s0xFFFFFFFF)", "i32 1", ["sq(i32 -1)"]),
        ("@sq(+5)", "i32 25", ["sq(i32 5)"]),
        ("@wide(0xFFFFFFFFFFFFFFFF)", "i64 -1", ["wide(i64 -1)"]),
        ("@flag(true)", "i1 true", ["flag(i1 true)"]),
        ("@flag(0)", "i1 false", ["flag(i1 false)"]),
        ("@half_it(3)", "double 0.0", ["half_it(double 3.0)"]),
        ("@half_it(-1.5e3)", "double 0.0", ["half_it(double -1500.0)"]),
        (
            "@half_it(0x7FF0000000000000)",
            "double 0.0",
            ["half_it(double 0x7FF0000000000000 (inf))"],
        ),
        ("@half_it(load @d)", "double 0.0", ["half_it(double 0.0)"]),
        ("@half_it(0b11)", "double 0.0", ["half_it(double 3.0)"]),
        ('@text("hello")', "i64 6", None),
        ('@text(c"hello")', "i64 5", None),
        ('@text(c"a\\00\\22")', "i64 3", None),
        ('@text("a\\n\\t\\\\")', "i64 5", None),
        ("@text(ptr null)", None, None),
        ("@text([i32 1, i32 2])", "i64 8", None),
        ("@text({ i8 1, i64 2 })", "i64 16", None),
        ("@text(<{ i8 1, i64 2 }>)", "i64 9", None),
        ("@text([2 x i16] [1, 2])", "i64 4", None),
        ("@text(%pt { 1, 2 })", "i64 8", None),
        ("@text(%pt zeroinitializer)", "i64 8", None),
        ('@text([3 x i8] "ab")', "i64 3", None),
        ("@text(ptr [i8 1])", "i64 1", None),
        ("@text({ @sq(3), double 0.5 })", "i64 16", None),
    ],
)
def test_calls(text, value, calls, host):
    if value is None:
        with pytest.raises((CompileError, KeyError)):
            run(text, host)
        return
    found, log = run(text, host)
    assert found == value
    if calls is not None:
        assert log == calls


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ("1", "i32 1"),
        ("-2147483648", "i32 -2147483648"),
        ("2147483648", "i64 2147483648"),
        ("-9223372036854775808", "i64 -9223372036854775808"),
        ("i64 1", "i64 1"),
        ("0.5", "double 0.5"),
        ("float 0.5", "double 0.5"),
        ("half 0.5", "double 0.5"),
        ("i8 -1", "i32 -1"),
        ("i16 7", "i32 7"),
        ("true", "i32 1"),
        ("@narrow()", "i32 -1"),
        ("@sq(3)", "i32 9"),
        ("load @g", "i32 42"),
        ("null", "ptr null"),
        ("x86_fp80 1.5", "x86_fp80 1.5"),
    ],
)
def test_variadic_arguments(arguments, passed, host):
    log = run(f'@printf("%d\\n", {arguments})', host)[1]
    assert log[-1].endswith(f", {passed})")


def test_variadic_strings_are_pointers(host):
    run('@printf("%s", "x", @g)', host)
    assert [d for d in host.memory.values() if d in (b"%s\0", b"x\0")] == [b"%s\0", b"x\0"]


def test_results(host):
    host.results = {None: host.value("i32", b"\5\0\0\0"), 3: host.value("%pt", bytes(8))}
    assert run("@sq(_)", host)[0] == "i32 25"
    assert run("@take(_3)", host)[0] == "i32 0"
    assert run("_", host)[0] == "i32 5"
    assert run("i32 _", host)[0] == "i32 5"


def test_addresses(host):
    address = host.variables["g"][1]
    assert run("@g", host)[0] == f"ptr 0x{address:x}"
    assert run("@g+4", host)[0] == f"ptr 0x{address + 4:x}"
    assert run("ptr @g - 0x2", host)[0] == f"ptr 0x{address - 2:x}"
    assert run("ptr 0x7f0000001000 (heap)", host)[0] == "ptr 0x7f0000001000"
    assert run("ptr 0x10 (stack of a finished call)", host)[0] == "ptr 0x10"


# What is typed, where its complaint points to, its words, its hint.
ERRORS = [
    (
        "@sq(@g)",
        5,
        "@g is an address (ptr), but i32 is expected: parameter 1 of @sq is i32",
        "for its value write `load @g`",
    ),
    (
        "@sq(@two)",
        5,
        "@two is an address (ptr), but i32 is expected: parameter 1 of @sq is i32",
        "to call it: @two(...)",
    ),
    ("@sq()", 1, "@sq takes 1 argument, and 0 are given", "its type is i32 (i32)"),
    ("@two(1)", 1, "@two takes 2 arguments, and 1 is given", "its type is i32 (i32, i32)"),
    (
        "@printf()",
        1,
        "@printf takes at least 1 argument, and 0 are given",
        "its type is i32 (ptr, ...)",
    ),
    ("@sq(i64 7)", 5, "i64 is written where i32 is expected: parameter 1 of @sq is i32", ""),
    ("@two(1, 1.5)", 9, "1.5 is a fraction, but i32 is an integer: parameter 2 of @two is i32", ""),
    ("@sq(4294967296)", 5, "4294967296 does not fit i32", "i32 holds -2147483648 to 4294967295"),
    ("@sq(-2147483649)", 5, "-2147483649 does not fit i32", "i32 holds -2147483648 to 4294967295"),
    ("@flag(2)", 7, "2 does not fit i1", "i1 holds -1 to 1"),
    ("@sq(true)", 5, "true is an i1, but i32 is expected: parameter 1 of @sq is i32", "write 1"),
    ("@sq(null)", 5, "null is a ptr, but i32 is expected: parameter 1 of @sq is i32", ""),
    ('@sq("a")', 5, "a string is given where i32 is expected: parameter 1 of @sq is i32", ""),
    ("@text(7)", 7, "7 is a number, but ptr is expected: parameter 1 of @text is ptr", ""),
    ("@half_it(1e400)", 10, "1e400 is beyond the largest double", ""),
    (
        "@half_it(true)",
        10,
        "true is an i1, but double is expected: parameter 1 of @half_it is double",
        "",
    ),
    ("@sqr(7)", 1, "@sqr is not known", "did you mean @sq?"),
    ("@sq(@zzz())", 5, "@zzz is not known", ""),
    ("@sq(load @gg)", 5, "@gg is not known", "did you mean @g?"),
    ("@sq(load @sq)", 5, "@sq is a function", "to call it: @sq(...)"),
    ("@g(1)", 1, "@g is a variable (i32), not a function", "`@g` alone shows it"),
    ("@sq(load @d)", 5, "@d is double, but i32 is expected: parameter 1 of @sq is i32", ""),
    (
        "@sq(@none())",
        5,
        "@none(...) returns nothing, but i32 is expected: parameter 1 of @sq is i32",
        "",
    ),
    (
        "@sq(@half_it(1))",
        5,
        "@half_it(...) is double, but i32 is expected: parameter 1 of @sq is i32",
        "",
    ),
    ("@sq(_)", 5, "_ has no value: no cell has given one yet", ""),
    ("@sq(_9)", 5, "_9 has no value: cell 9 gave none, or it is no longer kept", ""),
    ("@take({ 1 })", 7, "%pt has 2 elements, and 1 is given: parameter 1 of @take is %pt", ""),
    (
        "@take({ 1, 2.5 })",
        12,
        "2.5 is a fraction, but i32 is an integer: element 1 of %pt is i32",
        "",
    ),
    (
        "@take([1, 2])",
        7,
        "an array is given where %pt is expected: parameter 1 of @take is %pt",
        "",
    ),
    (
        "@take(%list { 1, 2 })",
        7,
        "%list is written where %pt is expected: parameter 1 of @take is %pt",
        "",
    ),
    ("@text([1, 2])", 8, "this element needs a type", "for example `i32 1`"),
    ("@text([i32 1, i64 2])", 15, "i64 among elements of type i32", ""),
    ("@text([])", 7, "an empty list needs a type in front of it", ""),
    ("@text({ @none() })", 9, "the call returns nothing, so there is no element", ""),
    ('@printf("x", @none())', 14, "the call returns nothing to pass on", ""),
    ('@printf("x", zeroinitializer)', 14, "zeroinitializer needs a type in front of it", ""),
    (
        '@printf("x", 9223372036854775808999)',
        14,
        "9223372036854775808999 does not fit i64",
        "write its type in front of it",
    ),
    ('@printf("x", label 5)', 14, "5 is a number, but label is expected", ""),
    (
        '[5 x i8] c"hello\\00"',
        1,
        "the string is 6 bytes, but [5 x i8] is expected",
        "write [6 x i8]",
    ),
    (
        '[5 x i8] "hello"',
        1,
        "the string is 6 bytes, with its NUL, but [5 x i8] is expected",
        "write [6 x i8]",
    ),
    ("<{ i8 }> { i8 1 }", 1, "{} is written where <{ i8 }> is expected", ""),
    ("i32 0x" + "f" * 9, 1, "0xfffffffff does not fit i32", "i32 holds -2147483648 to 4294967295"),
    (
        "@sq(" + "1" * 5000 + ")",
        5,
        "a number of 5000 decimal digits is too long; write it in hex",
        "",
    ),
]


@pytest.mark.parametrize(("text", "column", "words", "hint"), ERRORS)
def test_wrong_types(text, column, words, hint, host):
    with pytest.raises(CompileError) as caught:
        run(text, host)
    found = caught.value.diagnostics[0]
    assert found.message.partition(", at column")[0] == words
    assert found.hint == hint
    if len(text) < 400:
        assert (found.line, found.column, found.source) == (1, column, text)


SYNTAX = [
    ("@sq(7", 6, "expected ',' or ')'", ""),
    ("@sq(7 8)", 7, "'8)' follows the expression", ""),
    ("@sq(7) 8", 8, "'8' follows the expression", ""),
    ("@sq(,)", 5, "expected a value", ""),
    ("@sq(i32)", 8, "expected a value behind the type i32", ""),
    ("@sq(int)", 5, "'int' is no value", ""),
    ("@sq(ture)", 5, "'ture' is no value", "did you mean `true`?"),
    ("@sq(nulll)", 5, "'nulll' is no value", "did you mean `null`?"),
    ("@sq(foo)", 5, "'foo' is no value", "did you mean `@foo`?"),
    ("@sq(foo(1))", 5, "'foo' is no value", "did you mean `@foo(`?"),
    ("@sq(undef)", 5, "undef is no value to call with", "zeroinitializer gives zeros"),
    (
        "@sq(add i32 1, 2)",
        5,
        "an instruction (add) is no expression",
        "an instruction's result has a name of its own: `%x = ...`",
    ),
    (
        "call i32 @sq(i32 7)",
        1,
        "an instruction (call) is no expression",
        "a call is written without `call`: @f(...)",
    ),
    (
        "@sq(%x)",
        5,
        "%x has no value here: it ended with the instructions",
        "the last instruction's value is `_` in the next cell, and `@name = _` keeps it",
    ),
    ("@sq(load g)", 10, "expected a global behind `load`", "write `load @name`"),
    (
        '@text("a\\q")',
        7,
        "'\\q' is no escape",
        'write two hex digits (\\0A), or \\n \\t \\r \\0 \\" \\\\',
    ),
    (
        '@text("a" "b")',
        11,
        "'\"b\")' follows the expression",
        'a quote inside a string is written \\" or \\22',
    ),
    ("@sq(1.2.3)", 5, "'1.2.3' is no value", ""),
    ("@sq(0x)", 5, "'0x' is no value", ""),
    ("@sq($)", 5, "'$' is no value", ""),
    ("@ (1)", 1, "expected a name behind '@'", 'or quoted: @"any text"'),
    ("i33z 5", 1, "'i33z' is no value", ""),
    ("[4 x foo] [1]", 2, None, None),
    ("(" * 5, 1, "'(((((' is no value", ""),
    ("{" * 100 + "}" * 100, 61, "an expression nested too deeply", ""),
]


@pytest.mark.parametrize(("text", "column", "words", "hint"), SYNTAX)
def test_wrong_syntax(text, column, words, hint):
    with pytest.raises(CompileError) as caught:
        parse_expression(text)
    found = caught.value.diagnostics[0]
    if words is not None:
        assert (found.message, found.column) == (words, column)
        assert hint in found.hint


def test_places_in_a_cell(host):
    cell = "; one\n\n@two(\n  1,\n  1.5)\n"
    plan = parse_cell(cell)
    with pytest.raises(CompileError) as caught:
        evaluate(plan.actions[0].expr, None, host, plan.source)
    found = caught.value.diagnostics[0]
    assert (found.line, found.column, found.source) == (5, 3, "  1.5)")


def test_earlier_arguments_have_run(host):
    with pytest.raises(CompileError):
        run("@two(@sq(2), @sq(0.5))", host)
    assert host.log == ["sq(i32 2)"]


# --- assignment ---


def assigned(text, host):
    plan = parse_cell(text)
    action = plan.actions[0]
    assert isinstance(action, AssignAction)
    return assign(action.name, action.expr, host, plan.source)


@pytest.mark.parametrize(
    ("text", "value", "defines"),
    [
        ("@g = 5", "i32 5", False),
        ("@g = i32 5", "i32 5", False),
        ("@g = @sq(3)", "i32 9", False),
        ("@g = load @g", "i32 42", False),
        ("@p = { 3, 4 }", "%pt { i32 3, i32 4 }", False),
        ('@s = "world"', '[6 x i8] c"world\\00"', False),
        ('@s = c"world!"', '[6 x i8] c"world!"', False),
        ("@d = 1", "double 1.0", False),
        ("@s = zeroinitializer", '[6 x i8] c"\\00\\00\\00\\00\\00\\00"', False),
        ("@n = i64 5", "i64 5", True),
        ("@r = @sq(7)", "i32 49", True),
        ("@q = %pt { 1, 2 }", "%pt { i32 1, i32 2 }", True),
        ('@t = c"ab"', '[2 x i8] c"ab"', True),
        ('@t = [3 x i8] "ab"', '[3 x i8] c"ab\\00"', True),
        ("@c = load @g", "i32 42", True),
        ("@b = i1 true", "i1 true", True),
        ('@"a c" = i8 1', "i8 1", True),
    ],
)
def test_assignment(text, value, defines, host):
    found = assigned(text, host)
    assert found.value.text() == value
    assert (found.address is None) is defines
    if not defines:
        assert found.address == host.variables[found.name][1]
    assert found.align == host.layout(found.value.type).align


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("@k = 5", "@k is a constant and cannot be set", ""),
        ("@sq = i32 5", "@sq is a function and cannot be set", "define it again to replace it"),
        ("@g = i64 5", "i64 is written where i32 is expected: @g is i32", ""),
        ("@g = 0.5", "0.5 is a fraction, but i32 is an integer: @g is i32", ""),
        ("@n = 5", "@n is not known yet, so its value needs a type", "for example `@n = i64 5`"),
        (
            "@n = 0.5",
            "@n is not known yet, so its value needs a type",
            "for example `@n = double 0.5`",
        ),
        (
            "@n = true",
            "@n is not known yet, so its value needs a type",
            "for example `@n = i1 true`",
        ),
        (
            "@n = null",
            "@n is not known yet, so its value needs a type",
            "for example `@n = ptr null`",
        ),
        (
            "@n = {1, 2}",
            "@n is not known yet, so its value needs a type",
            "for example `@n = i64 0`",
        ),
        ('@n = "ab"', "@n is not known yet, so its value needs a type", "`[3 x i8]"),
        ("@n = @none()", "the call returns nothing, so @n would have no value", ""),
    ],
)
def test_wrong_assignment(text, words, hint, host):
    with pytest.raises(CompileError) as caught:
        assigned(text, host)
    assert caught.value.diagnostics[0].message == words
    assert hint in caught.value.diagnostics[0].hint


def test_long_lists_are_read_in_linear_time(host):
    text = "@text([" + ", ".join(f"i32 {i}" for i in range(30_000)) + "])"
    begin = time.process_time()
    assert run(text, host)[0] == "i64 120000"
    assert time.process_time() - begin < 3


@pytest.mark.parametrize(
    ("hint", "first", "last"),
    [
        ("did you mean @sq?", "line 1, column 1: no @sqq; did you mean @sq?", "  ^"),
        ("did you mean @sq? Or not.", "line 1, column 1: no @sqq; did you mean @sq?", "hint: Or not."),
        ("did you mean `a?b`?", "line 1, column 1: no @sqq; did you mean `a?b`?", "  ^"),
        ("declare it", "line 1, column 1: no @sqq", "hint: declare it"),
        ("", "line 1, column 1: no @sqq", "  ^"),
    ],
)  # fmt: skip
def test_a_near_name_stands_in_the_first_line(hint: str, first: str, last: str) -> None:
    lines = Diagnostic("no @sqq", 1, 1, "@sqq(7)", hint).render().split("\n")
    assert (lines[0], lines[1], lines[-1]) == (first, "  @sqq(7)", last)
