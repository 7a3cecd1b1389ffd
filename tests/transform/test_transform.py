"""Passes in Python: the form they get, the process they run in, what they do to code that lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, Fault, Interrupted, UsageError
from jitkernel.kernel.verdicts import analysis_view, effect_view
from jitkernel.transform import Module, analyse, apply_pass, transform
from tests.processes import gone

SOURCE = """@n = global i32 5
define i32 @f(i32 %x) {
  %a = mul i32 %x, 8
  %l = load i32, ptr @n
  %c = add i32 %a, %l
  store i32 %c, ptr @n
  ret i32 %c
}"""
SHIFT = """
def shift(module):
    "A multiplication by eight is a shift by three."
    for function in module.functions.values():
        for i in function.instructions:
            if i.opcode == "mul" and i.operands[1] == const(i.type, 8):
                print("shifted", i)
                new = binary("shl", i.operands[0], const(i.type, 3), i.name).insert_before(i)
                i.replace_with(new)
"""


@pytest.fixture
def s(shared: Session) -> Iterator[Session]:
    shared.reset()
    shared.run(SOURCE)
    shared.run("define i32 @user(i32 %x) {\n  %y = call i32 @f(i32 %x)\n  ret i32 %y\n}")
    yield shared
    shared.check()


# -- the form

ODD = """target triple = "x86_64-pc-linux-gnu"
%pt = type { i32, i32 }
@s = constant [4 x i8] c"{};\\00"
define {i32, i32} @"odd name"(ptr byval(%pt) %p) #0 { ; a brace
  %a = call i32 asm "nop # }", "=r"()
  switch i32 %a, label %"b c" [
    i32 1, label %"b c"
    i32 2, label %d
  ]
"b c":                 ; preds = %0
  br label %d
d:
  ; nothing but a comment
  ret {i32, i32} { i32 1, i32 2 }
}
define void @one() { ret void }
attributes #0 = { nounwind }
"""


def test_a_module_in_a_form_that_can_be_changed() -> None:
    module = Module(ODD)
    assert list(module.functions) == ["odd name", "one"]
    odd, one = module.functions.values()
    assert odd.head == 'define {i32, i32} @"odd name"(ptr byval(%pt) %p) #0'
    assert [block.name for block in odd.blocks] == ["0", "b c", "d"]
    assert [len(block.instructions) for block in odd.blocks] == [2, 1, 1]
    assert odd.instructions[1].opcode == "switch" and "label %d" in str(odd.instructions[1])
    assert [str(i) for i in one.instructions] == ["ret void"]


def test_its_text_means_the_same(s: Session) -> None:
    text = str(Module(ODD))
    assert str(Module(text)) == text
    assert s.compile(text).object == s.compile(ODD).object


# -- the process


def test_a_pass_gets_the_module_or_its_text() -> None:
    made = transform("def run(text):\n  return text.replace('8', '16')", "any", SOURCE)
    assert made.before == SOURCE and made.after == SOURCE.replace("8", "16")
    typed = transform("def any(m: str):\n  print(type(m).__name__)\n  return m", "any", SOURCE)
    assert typed.output == "str\n" and typed.after == SOURCE
    form = transform(SHIFT, "shift", SOURCE)
    assert "shl i32 %x, 3" in form.after and "mul i32 %x, 8" in form.before
    assert form.output == "shifted %a = mul i32 %x, 8\n"
    assert form.nanoseconds > 0


def test_a_pass_may_use_llvmlite() -> None:
    code = (
        "import llvmlite.binding as llvm\n"
        "def names(text):\n  module = llvm.parse_assembly(text)\n"
        "  print([f.name for f in module.functions])\n  return str(module)"
    )
    assert transform(code, "names", SOURCE).output == "['f']\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def run(m):\n  return m.x", "AttributeError: .*'x'\n  line 2, in run: return m.x"),
        ("def run(m)\n  pass", "SyntaxError"),
        ("x = 1", "which function is the pass. Call it no_op"),
        ("def a(m): pass\ndef b(m): pass", r"there are \['a', 'b'\]"),
        ("def run(): pass", "run.. takes no module: give it one parameter"),
        ("import os\ndef run(m):\n  os.abort()", "ended .SIGABRT."),
        ("import sys\ndef run(m):\n  sys.exit(3)", "SystemExit: 3"),
        ("def run(m):\n  return [0] * (1 << 33)", "MemoryError"),
        ("def run(m):\n  return run(m)", "RecursionError"),
    ],
)
def test_a_pass_that_fails_is_told_with_its_own_lines(code: str, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        transform(code, "no-op", SOURCE)


def test_a_pass_that_does_not_end_is_stopped() -> None:
    code = "import os\ndef run(m):\n  print(os.getpid(), flush=True)\n  while True: pass"
    with pytest.raises(CompileError, match=r"took longer than 0\.3 s and was stopped"):
        transform(code, "slow", SOURCE, timeout=0.3)


def test_what_a_pass_starts_ends_with_it() -> None:
    code = (
        "import subprocess\ndef run(m):\n"
        "  child = subprocess.Popen(['sleep', '1000'])\n  print(child.pid)"
    )
    pid = int(transform(code, "starts", SOURCE).output)
    assert gone(pid)


def test_a_pass_can_be_interrupted(s: Session) -> None:
    begun = threading.Event()

    def stop() -> None:
        begun.wait()
        while not s.inspect.engine.running:
            time.sleep(0.01)
        s.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    apply_pass(s, SHIFT, "shift", "f")  # what it inspects first is remembered from now on
    begun.set()
    with pytest.raises(Interrupted):
        apply_pass(s, "def run(m):\n  while True: pass", "slow", "f", timeout=60)
    thread.join()
    assert s.call("f", 1) == 13


@pytest.mark.parametrize("head", ["each(function)", "each(f: Function)", "each(f: 'Function')"])
def test_a_pass_of_functions_gets_each(head: str) -> None:
    two = SOURCE + "\ndefine void @g() {\n  ret void\n}\n"
    name = head[5:].partition(":")[0].rstrip(")")
    assert transform(f"def {head}:\n  print({name}.name)", "each", two).output == "f\ng\n"


def test_a_pass_may_start_from_an_example() -> None:
    code = (
        "from jitkernel.transform.examples.strength import strength\n"
        "from jitkernel.transform.examples.dce import dce\n"
        "def both(function):\n  strength(function)\n  dce(function)"
    )
    assert "shl i32 %x, 3" in transform(code, "both", SOURCE).after


def test_what_the_model_refuses_is_told_with_the_passs_line() -> None:
    code = "def run(function):\n  function.instructions[0].erase()"
    with pytest.raises(CompileError) as found:
        transform(code, "bad", SOURCE)
    assert "ValueError: %a is still used by: %c = add i32 %a, %l\n  line 2, in run" in str(
        found.value
    )


# -- analyses


def test_an_analysis_gives_text_and_rows(s: Session) -> None:
    code = (
        "def uses(function):\n  yield f'of @{function.name}'\n  print('seen')\n"
        "  for i in function.instructions:\n"
        "    yield {'value': i, 'uses': len(i.uses), 'operands': i.operands}"
    )
    found = analyse(s, code, "uses", "f")
    assert found.found.text == "of @f" and found.found.output == "seen\n"
    assert found.found.rows[:2] == [
        {"value": "%a", "uses": 1, "operands": "%x 8"},
        {"value": "%l", "uses": 1, "operands": "@n"},
    ]
    view = analysis_view(found)
    assert "of @f" in view.text and "value" in view.text and "seen" in view.text
    assert len(s.cells) == 2 and s.call("f", 1) == 13
    after = analyse(s, "def run(text):\n  return text", "run", "f", last=True)
    assert "shl i32 %x, 3" in after.found.text and after.last
    wrecks = (
        "def run(function):\n  function.blocks[0].terminator.erase()\n  return [{'a': 1}, {'b': 2}]"
    )
    assert analysis_view(analyse(s, wrecks, "run", "f")).text.split("\n")[-3].split() == ["a", "b"]
    assert "It gave nothing" in analysis_view(analyse(s, "def run(m): pass", "run", "f")).text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def run(m):\n  while True: pass", "the analysis run took longer than 0.3 s"),
        ("def run(m):\n  while True: yield 'x'", "the analysis run took longer than 0.3 s"),
        ("def run(m):\n  yield 1 / 0", "ZeroDivisionError: .*\n  line 2, in run: yield 1 / 0"),
        ("def a(m): pass\ndef b(m): pass", "which function is the analysis"),
    ],
)
def test_an_analysis_that_fails(s: Session, code: str, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        analyse(s, code, "run", "f", timeout=0.3 if "while" in code else 60)
    assert s.call("f", 1) == 13


# -- the effect


def test_the_effect_on_live_code(s: Session) -> None:
    effect = apply_pass(s, SHIFT, "shift", "f", call="@user(1)")
    assert effect.complaint == "" and effect.kept == 0 and not effect.last
    figures = {(f.what, f.unit): (f.before, f.after) for f in effect.figures}
    assert figures["IR, as the pass sees it", "instructions"] == (5, 5)
    assert figures["value of @user(1)", ""] == ("i32 13", "i32 13")
    assert all(ns > 0 for ns in figures["time of @user(1)", "ns"])
    assert len(s.cells) == 2 and s.cells[0].number == effect.cell
    view = effect_view(effect)
    assert "-   %a = mul i32 %x, 8" in view.text and "+   %a.0 = shl i32 %x, 3" in view.text
    assert "Verdict: verified" in view.text and "shifted %a" in view.text
    assert "   1  shift" in view.text


def test_a_pass_that_changes_what_code_means_is_found_out(s: Session) -> None:
    code = "def wrong(text):\n  return text.replace('mul i32 %x, 8', 'mul i32 %x, 9')"
    effect = apply_pass(s, code, "wrong", "f", call="@user(1)")
    (value,) = [f for f in effect.figures if f.what.startswith("value")]
    assert (value.before, value.after) == ("i32 13", "i32 14")


def test_new_code_can_stay(s: Session) -> None:
    code = "def wrong(text):\n  return text.replace('%x, 8', '%x, 100')"
    effect = apply_pass(s, code, "wrong", "f", keep=True)
    assert effect.kept == s.cells[-1].number
    assert s.call("user", 1) == 105
    assert "%undo brings the old back" in effect_view(effect).text
    s.undo()
    assert s.call("user", 1) == 13


def test_after_llvms_passes(s: Session) -> None:
    """Nothing is optimised again, and what was strong is strong."""
    code = (
        "def more(module):\n  f = module.functions['f']\n"
        "  parse('%dead = add i32 1, 2', f).insert_before(f.instructions[0])"
    )
    first = apply_pass(s, code, "more", "f")
    assert first.trace is not None and "%dead" not in first.trace.after["@f"]
    last = apply_pass(s, code, "more", "f", last=True, keep=True)
    assert last.trace is not None and "%dead" in last.trace.after["@f"]
    assert last.trace.steps == ()
    assert s.call("user", 1) == 13
    assert s.symbols["f"].cell == last.kept
    s.run(SOURCE)  # which it would not be, had it become weak
    assert s.symbols["f"].cell != last.kept


def test_a_module_that_llvm_refuses(s: Session) -> None:
    code = "def bad(text):\n  return text.replace('ret i32 %c', 'ret i64 %c')"
    effect = apply_pass(s, code, "bad", "f", call="@user(1)", keep=True)
    assert effect.complaint and effect.figures == () and effect.kept == 0
    assert "Verdict: LLVM refuses the module" in effect_view(effect).text
    assert s.call("user", 1) == 13


@pytest.mark.parametrize(
    ("code", "complaint", "statement"),
    [
        (
            "def early(function):\n  a, l, c, *_ = function.instructions\n  c.insert_before(a)",
            "Instruction does not dominate all uses",
            "line 3: c.insert_before(a)",
        ),
        (
            "def bad(function):\n  i = function.instructions[0]\n"
            "  new = parse('%n = add nsw i32 %x, undef_me', function)\n"
            "  i.replace_with(new.insert_before(i))",
            "expected",
            "",
        ),
        (
            "def store_to(function):\n  i = function.instructions[3]\n"
            "  i.set_operand(1, const('ptr', '@nobody'))",
            "use of undefined value '@nobody'",
            "line 3: i.set_operand(1, const('ptr', '@nobody'))",
        ),
    ],
)
def test_what_llvm_refuses_is_told_with_the_statement_that_wrote_it(
    s: Session, code: str, complaint: str, statement: str
) -> None:
    if not statement:
        with pytest.raises(CompileError, match="ModelError"):
            apply_pass(s, code, "bad", "f")
        return
    effect = apply_pass(s, code, "bad", "f", call="@user(1)", keep=True)
    assert complaint in effect.complaint and f"written by {statement}" in effect.complaint
    assert s.call("user", 1) == 13 and len(s.cells) == 2


def test_a_call_that_faults_leaves_the_old_code(s: Session) -> None:
    code = (
        "def crash(m):\n"
        "  f = m.functions['f']\n"
        "  parse('store volatile i32 1, ptr null', f).insert_before(f.instructions[0])"
    )
    with pytest.raises(Fault):
        apply_pass(s, code, "crash", "f", call="@user(1)")
    assert s.call("user", 1) == 13


def test_what_is_not_there(s: Session) -> None:
    with pytest.raises(UsageError, match="nothing of the session is called @g"):
        apply_pass(s, SHIFT, "shift", "g")
    with pytest.raises(UsageError, match="no cell 99 in memory: it never ran"):
        apply_pass(s, SHIFT, "shift", 99)
