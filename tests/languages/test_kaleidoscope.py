"""Kaleidoscope without a session: what a cell becomes, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from jitkernel.errors import CompileError
from jitkernel.ir.types import parse_type
from jitkernel.languages import find
from jitkernel.languages.llvm.assemble import assemble
from jitkernel.languages.llvm.plan import RunAction

LANGUAGE = find("kaleidoscope")


class Program:
    """A session that knows these functions, and the operator `|` with the precedence 5."""

    types = {
        "sin": "double (double)", "twice": "double (double)", "pow": "double (double, double)",
        "puts": "i32 (ptr)", "printf": "i32 (ptr, ...)", "binary|": "double (double, double)",
    }  # fmt: skip
    notes: ClassVar = {"kaleidoscope:binary|": "binary| 5 (a b)"}

    def signature(self, name):
        return parse_type(self.types[name]) if name in self.types else None

    def nearest(self, name):
        return "twice" if name.startswith("twic") else "printf" if name == "print" else None

    def hint(self, name):
        return ""

    def output(self, name, data):
        raise AssertionError("nothing is printed while a cell is read")


def read(source):
    return LANGUAGE.read(source, Program())


def runs(source):
    """The modules that run once, as text."""
    return [assemble(a.module).source for a in read(source).actions if isinstance(a, RunAction)]


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("1 + 2 * 3 + 4", "(1 + (2 * 3)) + 4"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("1 < 2 + 3", "1 < (2 + 3)"),
        ("1 | 2 < 3", "1 | (2 < 3)"),
        ("1 + 2 | 3", "(1 + 2) | 3"),
        ("if 1 then 2 else 3 + 4", "if 1 then 2 else (3 + 4)"),
        ("var a, b in a = b = 3", "var a, b in (a = (b = 3))"),
        ("var a in a = 1 | 2", "var a in (a = (1 | 2))"),
        ("twice(1) * 2", "(twice(1)) * 2"),
        ("def binary / 50 (a b) a;\n1 / 2 * 3", "def binary / 50 (a b) a;\n(1 / 2) * 3"),
        ("def binary ? (a b) a;\n1 ? 2 * 3", "def binary ? (a b) a;\n1 ? (2 * 3)"),
        ("def unary!(a) a;\n!1 + 2", "def unary!(a) a;\n(!1) + 2"),
        ("def unary!(a) a;\n!!1", "def unary!(a) a;\n!(!1)"),
        (".5 + 1. # a comment", ".5 + 1."),
    ],
)
def test_what_binds_to_what(source: str, same: str) -> None:
    assert runs(source) == runs(same)


def test_expressions_run_once_and_definitions_stay() -> None:
    plan = read("def f(x) x\nf(1)\n2;\ndef g(x)\n  f(x)\ng(\n3)")
    assert plan.defines == {"f", "g"}
    assert [(a.text, a.line, a.last_line) for a in plan.actions] == [
        ("f(1)", 2, 2), ("2", 3, 3), ("g( 3)", 6, 7),
    ]  # fmt: skip


def test_a_binary_operator_leaves_its_precedence() -> None:
    plan = read("def binary> 10 (a b) b < a\ndef unary-(a) 0 - a")
    assert plan.defines == {"binary>", "unary-"}
    assert plan.spelled == {"binary>": "binary> 10 (a b)", "unary-": "unary-(a)"}
    assert {key: note.kept for key, note in plan.notes.items()} == {
        f"kaleidoscope:{name}": text for name, text in plan.spelled.items()
    }


@pytest.mark.parametrize(("head", "count"), [("f()", 0), ("f(x)", 1), ("binary| 5 (a b)", 2)])
def test_a_head_has_a_type_for_each_parameter(head: str, count: int) -> None:
    class Known(Program):
        notes: ClassVar = {"kaleidoscope:f": head}

    assert len(LANGUAGE.spelled("f", Known()).types) == count


def test_the_module_says_its_lines() -> None:
    module = assemble(read("def f(x)\n  twice(\n    x) +\n  1")).source
    assert module.index("; line 2") < module.index("call double @twice")
    assert module.index("; line 3") < module.index("fadd")


def test_functions_of_a_cell_see_each_other() -> None:
    plan = read(
        "def even(n) if n < 1 then 1 else odd(n-1)\ndef odd(n) if n < 1 then 0 else even(n-1)"
    )
    assert plan.defines == {"even", "odd"}


def test_magics_stand_around_the_code() -> None:
    plan = read("%who\n\n1 +\n2\n%memory\nsin?")
    assert [m.name for m in plan.magics] == ["who"]
    assert [a.line for a in plan.actions] == [3, 5, 6]


def test_the_supplied_functions_are_in_the_module_that_uses_them() -> None:
    assert not read("extern putchard(c)\nextern printd(x)").entities
    (module,) = runs("extern printd(x)\nprintd(1)")
    assert "define internal double @printd(" in module
    assert "@putchard" not in module


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(x, y) x", "line 1, column 8: `)` or a name is expected, not `,`\n  def f(x, y) x\n         ^\nhint: parameters are separated by blanks"),
        ("1 +", "line 1, column 4: the cell ends where an expression is expected\n  1 +\n     ^"),
        ("twice(1", "line 1, column 8: the cell ends where `)` or `,`"),
        ("if 1 then 2", "line 1, column 12: the cell ends where `else`"),
        ("for i = 1 in 2", "line 1, column 11: `,` is expected, not `in`"),
        ("var in 3", "line 1, column 5: a name is expected, not `in`"),
        ("1\n 2 ยง 3", "line 2, column 4: 'ย' is no part of the language\n   2 ยง 3\n     ^"),
        ("twice(\u22123)", "'\u2212' is no part of the language\n  twice(\u22123)\n        ^\nhint: write - instead of \u2212"),
        ("def f(x) return x", "column 10: there is no variable `return`\n  def f(x) return x\n           ^\nhint: a function's body is one expression"),
        ("def f(x) = x", "there is no operator `=`\n  def f(x) = x\n           ^\nhint: `<` is the one comparison"),
        ("def f(x): x", "hint: a function's body is one expression: `def f(x) x + 1`"),
        ("int x = 3", "there is no variable `int`\n  int x = 3\n  ^\nhint: a variable: `var x = 1 in x + 1`"),
        ("1 == 2", "only a variable can be assigned to\n  1 == 2\n    ^\nhint: `<` is the one comparison"),
        ('"hello"', "hint: there are numbers only, and no text"),
        ("// a comment", "hint: a comment begins with #"),
        ("@twice(1)", "hint: names are written without @"),
        ("1e5", "hint: numbers are digits with a point"),
        ("0x1F", "hint: numbers are digits with a point"),
        ("printd 3", "hint: it is a function: `printd(...)` calls it"),
        ("def def(x) x", "line 1, column 5: `binary` or `unary` or a name is expected, not `def`"),
        ("twic(1)", "there is no function `twic`; did you mean `twice`?\n  twic(1)\n  ^"),
        ("print(1)", "there is no function `print`\n  print(1)\n  ^"),
        ("twice 3", "hint: it is a function: `twice(...)` calls it"),
        ("def g() 4\ng", "line 2, column 1: there is no variable `g`\n  g\n  ^\nhint: it is a function: `g(...)`"),
        ("\n\n  foo(1)", "line 3, column 3: there is no function `foo`"),
        ("%who\nfoo(1)", "line 2, column 1: there is no function `foo`"),
        ("a", "line 1, column 1: there is no variable `a`\n  a\n  ^\nhint: `var a = ... in ...` makes one"),
        ("def f(x) { x }", "'{' is no part of the language\n  def f(x) { x }\n           ^\nhint: a function's body is one"),
        ("(var a in a) + a", "line 1, column 16: there is no variable `a`"),
        ("1 ? 2", "nobody defines the binary operator `?`\n  1 ? 2\n    ^\nhint: def binary? 30 (x y) ..."),
        ("twice(1)\n!2", "line 2, column 1: nobody defines the binary operator `!`\n  !2\n  ^\nhint: `;` ends what stands above"),
        ("1 + !2", "there is no operator `!`\n  1 + !2\n      ^\nhint: def unary!(x) ..."),
        ("1 = 2", "only a variable can be assigned to"),
        ("pow(1)", "`pow` takes 2 arguments, and 1 is given"),
        ("twice(1, 2)", "`twice` takes 1 argument, and 2 are given"),
        ("puts(1)", "`puts` is i32 (ptr), and Kaleidoscope has doubles only"),
        ("printf(1)", "Kaleidoscope has doubles only"),
        ("extern puts(x)", "Kaleidoscope has doubles only"),
        ("extern pow(x)", "`pow` has 2 parameters, not 1"),
        ("def f(x) x\ndef f(y) y", "line 2, column 5: `f` is defined in line 1 of this cell too"),
        ("def f(x x) x", "two parameters called `x`"),
        ("def binary< 10 (a b) a", "`<` is built in: take another sign"),
        ("def binary| 101 (a b) a", "a precedence is a number from 1 to 100"),
    ],
)  # fmt: skip
def test_mistakes_are_shown_where_they_are(source: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        read(source)
    assert message in str(caught.value)


def test_too_deep_is_an_error_of_the_usual_kind() -> None:
    with pytest.raises(CompileError, match="too deeply nested"):
        read("(" * 20_000 + "1" + ")" * 20_000 + "+ 1")
    with pytest.raises(CompileError, match="too deeply nested"):
        read("twice(" * 20_000 + "1" + ")" * 20_000)


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("", "complete"), ("1", "complete"), ("1 +", "incomplete"), ("def f(x)", "incomplete"),
        ("def f(x) x", "complete"), ("twice(", "incomplete"), ("if 1 then 2", "incomplete"),
        ("1 )", "invalid"), ("# only a comment", "complete"), ("%who", "complete"),
        ("1 ? 2", "complete"),
    ],
)  # fmt: skip
def test_whether_enter_runs_it(source: str, status: str) -> None:
    assert LANGUAGE.is_complete(source).status == status


@pytest.mark.parametrize(
    ("source", "position", "name"),
    [
        ("twice(1)", 2, "twice"), ("1 | 2", 2, "binary|"), ("1 + !2", 4, "unary!"),
        ("!2", 0, "unary!"), ("f(1)|2", 4, "binary|"), ("1 + 2", 2, ""), ("def f(x)", 1, "def"),
        ("", 0, ""),
    ],
)  # fmt: skip
def test_what_stands_at_a_position(source: str, position: int, name: str) -> None:
    assert LANGUAGE.symbol_at(source, position) == name


def test_it_is_short_enough_to_read() -> None:
    folder = Path(__file__).parents[2] / "jitkernel" / "languages" / "kaleidoscope"
    lines = sum(len(p.read_text().splitlines()) for p in folder.iterdir() if p.is_file())
    assert lines < 600


@pytest.mark.parametrize("source", ["-" * 5_000 + "1", "1+" * 10_000, "(" * 20_000])
def test_what_is_deep_or_long_is_left_to_running_it(source: str) -> None:
    assert LANGUAGE.is_complete(source).status == "complete"
