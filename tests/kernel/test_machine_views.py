"""Magics that show machine code and control flow, through a kernel."""

from __future__ import annotations

import re

from tests.kernel.conftest import Kernel

SQ = "define i32 @sq(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}"
USES = "define i32 @twice(i32 %x) {\n  %a = call i32 @sq(i32 %x)\n  %b = add i32 %a, %a\n  ret i32 %b\n}"


def test_asm_in_both_syntaxes_and_for_other_machines(kernel: Kernel) -> None:
    kernel.ok(SQ)
    assert re.search(r"^1 +\+0 +89 f8 +mov +eax, edi$", kernel.ok("%asm --intel @sq"), re.M)
    assert re.search(r"movl +%edi, %eax", kernel.ok("%asm @sq --att"))
    assert "  mul     w0, w0, w0" in kernel.ok("%asm @sq --target aarch64")
    assert "mulw" in kernel.ok("%asm --target riscv64 --cpu sifive-u74 -O0 @sq")
    assert "+0 " not in kernel.ok(f"%%asm --target aarch64 -O1\n{SQ}".replace("@sq", "@unseen"))
    assert "unseen" not in kernel.ok("%symbols")
    assert "go with --target" in kernel.fails("%asm -O0 @sq")
    assert "no such machine" in kernel.fails("%asm --target pdp11 @sq")


def test_object(kernel: Kernel) -> None:
    kernel.ok("%opt --inline=off")
    kernel.ok(SQ)
    kernel.ok(USES)
    text = kernel.ok("%object @twice")
    assert re.search(r"^ *\+0x\w+ +PLT32 +@sq-0x4 +direct +-?0x\w+ +0x\w+ +@sq$", text, re.M)
    assert "did you mean @sq?" in kernel.fails("%object @sqq")


def test_cfg_and_callgraph(kernel: Kernel) -> None:
    kernel.ok(SQ)
    kernel.ok(USES)
    assert "1 block, 0 edges" in kernel.ok("%cfg @sq")
    assert "as written" in kernel.ok("%cfg --raw @twice")
    assert "as compiled at -O0" in kernel.ok("%cfg -O0 @twice")
    assert "@twice" in kernel.ok("%callgraph @sq") and "@sq" in kernel.ok("%callgraph")
    assert "nothing of the session is called @nobody" in kernel.fails("%cfg @nobody")


def test_cfg_tells_of_blocks(kernel: Kernel) -> None:
    """The function is the one that is called; code that is more than a call names it."""
    kernel.ok(SQ)
    kernel.ok("%%c\nint up(int n) { int t = 0; while (n > 0) t += n--; return t; }")
    text = " ".join(kernel.ok('%cfg --counts "up(4)" -O0 --live --loops --dominators').split())
    for words in ("Counts of up during up(4)", "called it 1 time", "Loops in up", "live out"):
        assert words in text
    assert "called it 3 times" in " ".join(
        kernel.ok('%cfg --counts="for (int i = 0; i < 3; i++) up(i);"').split()
    )
    assert "Counts of @sq during @sq(3)" in kernel.ok("%cfg --counts @sq(3)")
    assert "use of undeclared identifier 'nowhere'" in kernel.fails("%cfg up --counts nowhere+1")
    assert "--counts needs a value" in kernel.fails("%cfg up --counts")


def test_stack_after_a_crash(kernel: Kernel) -> None:
    kernel.fails(
        "define i64 @crash(ptr %p) uwtable {\n  %v = load volatile i64, ptr %p\n  ret i64 %v\n}\n@crash(null)"
    )
    assert "--after takes seconds" in kernel.fails("%stack --after 0")
    text = kernel.ok("%stack")
    assert re.search(r"^#0 +@crash, cell \d+ +2 +%v = load volatile i64, ptr %p", text, re.M)
    assert "return address: what calls cells" in text


def test_compare(kernel: Kernel) -> None:
    kernel.ok(SQ)
    kernel.ok(USES)
    text = kernel.ok("%compare @twice -O0 -O2 --time 3")
    assert text.startswith("display: @twice at -O0 | @twice at -O2")
    assert re.search(r"^time of a call, best +[\d.]+ ns +[\d.]+ ns", text, re.M)
    assert "@sq on riscv64" in kernel.ok("%compare @sq --target aarch64 --target riscv64")
    assert "@sq, cell" in kernel.ok("%compare @sq @twice")
    assert "compare what?" in kernel.fails("%compare @sq")
