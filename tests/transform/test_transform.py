"""Passes in Python: the form they get, the process they run in, what they do to code that lives."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, Fault, Interrupted, UsageError
from jitkernel.kernel.verdicts import effect_view
from jitkernel.transform import Module, apply_pass, transform

SOURCE = """@n = global i32 5
define i32 @f(i32 %x) {
  %a = mul i32 %x, 8
  %l = load i32, ptr @n
  %c = add i32 %a, %l
  store i32 %c, ptr @n
  ret i32 %c
}"""
SHIFT = """
import re

def shift(module):
    "A multiplication by eight is a shift by three."
    for function in module.functions.values():
        for block in function.blocks:
            for i, line in enumerate(block.instructions):
                if found := re.match(r"(%\\S+) = mul i32 (%\\S+), 8$", line):
                    block.instructions[i] = f"{found[1]} = shl i32 {found[2]}, 3"
                    print("shifted", line)
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
    assert [block.label for block in odd.blocks] == ["", '"b c"', "d"]
    assert [len(block.instructions) for block in odd.blocks] == [2, 1, 1]
    assert odd.blocks[0].instructions[1].startswith("switch") and "label %d" in odd.instructions[1]
    assert one.instructions == ["ret void"]


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
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break  # ended; nobody has asked how
        time.sleep(0.01)
    else:
        assert not os.path.exists(f"/proc/{pid}")


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
    assert "-   %a = mul i32 %x, 8" in view.text and "+   %a = shl i32 %x, 3" in view.text
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
        "  f.blocks[0].instructions.insert(0, '%dead = add i32 1, 2')"
    )
    first = apply_pass(s, code, "more", "f")
    assert first.trace is not None and "%dead" not in first.trace.after
    last = apply_pass(s, code, "more", "f", last=True, keep=True)
    assert last.trace is not None and "%dead" in last.trace.after
    assert last.trace.ir == ()
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


def test_a_call_that_faults_leaves_the_old_code(s: Session) -> None:
    code = (
        "def crash(m):\n"
        "  m.functions['f'].blocks[0].instructions.insert(0, 'store volatile i32 1, ptr null')"
    )
    with pytest.raises(Fault):
        apply_pass(s, code, "crash", "f", call="@user(1)")
    assert s.call("user", 1) == 13


def test_what_is_not_there(s: Session) -> None:
    with pytest.raises(UsageError, match="nothing of the session is called @g"):
        apply_pass(s, SHIFT, "shift", "g")
    with pytest.raises(UsageError, match="no cell 99 in memory: it never ran"):
        apply_pass(s, SHIFT, "shift", 99)
