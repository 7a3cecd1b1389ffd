"""Analyses as people write them: with mistakes, with results of all kinds, in cells of each
language."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, Interrupted
from jitkernel.kernel.verdicts import analysis_view
from jitkernel.transform import analyse
from tests.busy import soon

ONE = "define i32 @f(i32 %x) {\n  %a = mul i32 %x, 8\n  ret i32 %a\n}\n"
TWO = ONE + "define i32 @g(i32 %x) {\n  ret i32 %x\n}\n"


def shown(s: Session, code: str, **how: object) -> str:
    """What is shown below the line that says what ran."""
    view = analysis_view(analyse(s, code, "run", **how))  # type: ignore[arg-type]
    assert view.html
    return view.text.partition("\n\n")[2]


GIVES = {
    "return len(function.blocks)": "@f: 1\n@g: 1",
    "return 0": "@f: 0\n@g: 0",
    "return len(function.blocks) > 3": "@f: False\n@g: False",
    "return function.instructions[-1]": "@f: ret i32 %a\n@g: ret i32 %x",
    "return function.name": "f\ng",
    "return function.instructions": "%a = mul i32 %x, 8\nret i32 %a\nret i32 %x",
    "return (str(i.opcode) for i in function.instructions)": "mul\nret\nret",
    "return b'ab'": "@f: b'ab'\n@g: b'ab'",
    "return {'uses': function.args[0].users}": "function  uses\nf         %a\ng         ret i32 %x",
    "yield {'n': 1}\n  yield 'words'": "function  n\nf         1\ng         1\n\nwords\nwords",
    "yield {'a': 1}\n  yield {'b': None}": "function  a  b\nf         1\nf\ng         1\ng",
    "pass": "It gave nothing: an analysis returns or yields text, or rows.",
    "return []": "It gave nothing: an analysis returns or yields text, or rows.",
    "print('seen', function.name)": "It printed:\nseen f\nseen g",
    "import sys\n  sys.stdout.close()\n  return 'x'": "x\nx",
}


@pytest.mark.parametrize("body", GIVES)
def test_what_it_gives(s: Session, body: str) -> None:
    s.run(TWO)
    found = shown(s, f"def run(function):\n  {body}")
    assert "\n".join(line.rstrip() for line in found.split("\n")) == GIVES[body]


FAILS = {
    "def run(function):\n  return function.blcoks": "no attribute 'blcoks'\n  line 2, in run: return",
    "def run(function):\n  yield lenght(3)": "name 'lenght' is not defined\n  line 2, in run: yield",
    "def run(function)\n  pass": "SyntaxError: expected ':'",
    "def run(function):\nreturn 1": "IndentationError: expected an indented block",
    "import nosuch\ndef run(m): pass": "No module named 'nosuch'\n  line 1, in <module>: import",
    "def run(function, more): return 1": "missing 1 required positional argument: 'more'",
    "class run:\n  def __init__(self, m): pass": "which function is the analysis",
    "async def run(m): return 1": "run() is async: an analysis is a plain function",
    "def run(m): return input()": "EOFError",
    "def run(m):\n  yield 'some'\n  raise ValueError('no loops')": "ValueError: no loops\n  line 3",
    "import sys\ndef run(m): sys.exit(2)": "SystemExit: 2",
    "import os\ndef run(m): os._exit(0)": "the process of the analysis run ended (exit status 0)",
    "class A:\n  def __str__(self): raise ValueError('boom')\ndef run(m): return A()": "boom\n  line 2",
    "def run(function):\n  function.instructions[0].erase()": "%a is still used by: ret i32 %a",
}


@pytest.mark.parametrize("code", FAILS)
def test_what_is_wrong_is_told_with_its_line(s: Session, code: str) -> None:
    s.run(ONE)
    with pytest.raises(CompileError) as found:
        analyse(s, code, "run")
    assert FAILS[code] in str(found.value)
    assert "jitkernel/" not in str(found.value), "none of our own lines"
    assert s.call("f", 2) == 16


def test_calls_of_a_recursion_are_told_by_the_first_and_last(s: Session) -> None:
    s.run(ONE)
    with pytest.raises(CompileError, match=r"RecursionError(.|\n)* more calls\n") as found:
        analyse(s, "def run(m): return run(m)", "run")
    assert str(found.value).count("\n") < 15


def test_what_shows_itself_is_shown(s: Session) -> None:
    s.run(ONE)
    code = (
        "class Page:\n  def _repr_html_(self): return '<b>bold</b>'\n"
        "class Drawn:\n  def _repr_svg_(self): return '<svg/>'\n"
        "class Figure:\n  def savefig(self, file, **how): file.write(b'PNG')\n"
        "def run(module):\n  yield Page()\n  yield Drawn()\n  yield Figure()\n  yield 'text'"
    )
    view = analysis_view(analyse(s, code, "run"))
    assert "<b>bold</b>" in view.html
    assert '<img src="data:image/svg+xml;base64,PHN2Zy8+">' in view.html
    assert '<img src="data:image/png;base64,UE5H">' in view.html
    assert "\n\ntext\n\n" in view.text and view.text.endswith("shown as HTML)")
    alone = code.replace(
        "yield Page()\n  yield Drawn()\n  yield Figure()\n  yield 'text'", "return Page()"
    )
    assert "<b>bold</b>" in analysis_view(analyse(s, alone, "run")).html


def test_a_figure_and_a_table_of_others(s: Session) -> None:
    pytest.importorskip("matplotlib")
    s.run(ONE)
    code = (
        "import matplotlib.pyplot as plt\n"
        "def run(module):\n  figure, axes = plt.subplots()\n  axes.plot([1, 2])\n  return figure"
    )
    made = analyse(s, code, "run", timeout=60)  # a large library
    assert '<img src="data:image/png;base64,iVBOR' in analysis_view(made).html


def test_it_edits_a_copy(s: Session) -> None:
    s.run(ONE)
    code = (
        "def run(function):\n  i = function.instructions[0]\n  i.replace_with(function.args[0])\n"
        "  return str(function.instructions[0])"
    )
    assert shown(s, code) == "ret i32 %x"
    assert shown(s, code) == "ret i32 %x"  # it begins anew
    assert s.call("f", 2) == 16 and len(s.cells) == 1
    assert shown(s, "def run(function): return len(function.instructions)") == "2"


C = "static int twice(int x) { return x + x; }\nint f(int x) { return twice(x) + 1; }"
KALEIDOSCOPE = "def f(x) x*x+1"


@pytest.mark.parametrize(
    ("source", "language", "name"),
    [(ONE, "llvm", "f"), (C, "c", "f"), (KALEIDOSCOPE, "kaleidoscope", "f")],
)
def test_in_cells_of_each_language(s: Session, source: str, language: str, name: str) -> None:
    s.run(source, language)
    code = "def run(function):\n  yield {'returns': function.instructions[-1].opcode}"
    symbol = next(n for n in s.symbols if n.split(".")[-1] == name and s.symbols[n].cell)
    for last in (False, True):
        rows = analyse(s, code, "run", symbol, last=last).found.rows
        assert {row["returns"] for row in rows} == {"ret"}


def test_one_that_loops_is_interrupted(s: Session, tmp_path: Path) -> None:
    s.run(ONE)
    begun = tmp_path / "begun"
    code = f"def run(m):\n  open({str(begun)!r}, 'w').close()\n  while True: print('x')"
    with (
        soon(lambda: begun.exists() and s.interrupt() is None),
        pytest.raises(Interrupted, match="interrupted in the analysis run"),
    ):
        analyse(s, code, "run", timeout=60)
    assert s.call("f", 2) == 16
