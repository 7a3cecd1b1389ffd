"""Code that counts on a thread-local variable's place in a program: what it leaves in registers,
flags and memory is what the same object leaves in a program that GNU ld has linked."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel import Session
from tests.seeds import seeds

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import assemble, needs

pytestmark = needs("gcc", "as")

GPR = "rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15".split()
_NARROW = {
    "l": "eax ebx ecx edx esi edi ebp r8d r9d r10d r11d r12d r13d r14d r15d".split(),
    "w": "ax bx cx dx si di bp r8w r9w r10w r11w r12w r13w r14w r15w".split(),
    "b": "al bl cl dl sil dil bpl r8b r9b r10b r11b r12b r13b r14b r15b".split(),
    "q": GPR,
}
_SIZE = 512  # bytes of the variable


def _operand(pick: random.Random, segment: str = "%fs:") -> tuple[list[str], str]:
    """Instructions that set up registers, and an operand that lies in the variable."""
    before, inside, at = [], "", pick.randrange(0, 64)
    base, index = pick.sample(GPR, 2)
    form = pick.randrange(4)
    if form & 1:
        before.append(f"mov ${pick.randrange(64)}, %{base}")
    if form & 2:
        before.append(f"mov ${pick.randrange(16)}, %{index}")
        inside = f"({f'%{base}' if form & 1 else ''},%{index},{pick.choice((1, 2, 4, 8))})"
    elif form:
        inside = f"(%{base})"
    return before, f"{segment}x@tpoff+{at}{inside}"


def _case(pick: random.Random) -> list[str]:
    """An instruction, with what it needs before it and behind it."""
    before, operand = _operand(pick)
    size = pick.choice("bwlq")
    reg = "%" + pick.choice(_NARROW[size])
    wide, xmm, ymm = "%" + pick.choice(GPR), f"%xmm{pick.randrange(16)}", pick.randrange(16)
    match pick.randrange(12):
        case 0 | 1:
            name = pick.choice("mov add sub and or xor adc sbb cmp test xchg".split())
            pair = (reg, operand) if name in ("test", "xchg") or pick.random() < 0.5 else (
                operand, reg)  # fmt: skip
            return [*before, f"{name}{size} {pair[0]}, {pair[1]}"]
        case 2:
            name = pick.choice("mov add sub and or xor adc sbb cmp test".split())
            return [*before, f"{name}{size} ${pick.randrange(100)}, {operand}"]
        case 3:
            name = pick.choice("inc dec neg not".split())
            return [*before, f"{name}{size} {operand}"]
        case 4:
            return [*before, f"{pick.choice(('movzbl', 'movsbl'))} {operand}, "
                             f"%{pick.choice(_NARROW['l'])}"]  # fmt: skip
        case 5:
            high = "%" + pick.choice(("ah", "bh", "ch", "dh"))
            narrow, operand = _operand(random.Random(pick.random()))
            if any("%r1" in line or "%r8" in line or "%r9" in line for line in narrow):
                return [f"movb %fs:x@tpoff+7, {high}"]
            return [*narrow, f"movb {high}, {operand}"]
        case 6:
            name = pick.choice("movdqu movups paddd addsd cvtsi2sdl movq".split())
            if name == "paddd":
                return [*before, f"movdqu {operand}, {xmm}"]
            return [*before, f"{name} {operand}, {xmm}"]
        case 7:
            return [*before, f"vpaddd {operand}, %ymm{pick.randrange(16)}, %ymm{ymm}"]
        case 8:
            return [*before, pick.choice((f"lock addl $3, {operand}", f"lock cmpxchgb %cl, "
                    f"{operand}", f"sete {operand}", f"imulq {operand}, {wide}",
                    f"shll $3, {operand}", f"roll %cl, {operand}", f"bsfq {operand}, {wide}",
                    f"cmovneq {operand}, {wide}", f"imulq $100000, {operand}, {wide}",
                    f"mulb {operand}", f"btsl $5, {operand}", f"movnti %ecx, {operand}"))]  # fmt: skip
        case 9:  # the address, by `lea`
            base, other = pick.sample(GPR, 2)
            before, operand = [f"mov %fs:0, %{base}"], f"x@tpoff+{pick.randrange(64)}(%{base}"
            if pick.random() < 0.5:
                before.append(f"mov ${pick.randrange(16)}, %{other}")
                operand += f",%{other},{pick.choice((1, 2, 4, 8))}"
            return [*before, f"lea {operand}), {wide}", f"movzbl ({wide}), %eax",
                    f"xor %{base}, %{base}", f"xor {wide}, {wide}"]  # fmt: skip
        case 10:  # by `add`, and the distance by `mov`
            base, other = pick.sample(GPR, 2)
            add = [f"mov %fs:0, %{base}", f"add $x@tpoff+{pick.randrange(64)}, %{base}"]
            far = [f"movabs $x@tpoff, %{base}", f"add %fs:0, %{base}"]
            near = [f"mov $x@tpoff, %{base}", f"add %fs:0, %{base}"]
            return [*pick.choice((add, far, near)), f"movq 5(%{base}), %{other}",
                    f"xor %{base}, %{base}"]  # fmt: skip
        case _:  # initial exec, and the other way round
            base, other = pick.sample(GPR, 2)
            move = [f"mov x@gottpoff(%rip), %{base}", f"movl %fs:9(%{base}), %edx",
                    f"xor %{base}, %{base}"]  # fmt: skip
            add = [f"mov %fs:0, %{base}", f"add x@gottpoff(%rip), %{base}",
                   f"incq 17(%{base})", f"xor %{base}, %{base}"]  # fmt: skip
            return pick.choice((move, add))


def _source(cases: list[list[str]]) -> str:
    """A function for each case: it sets all registers, and leaves all in `out`."""
    data = random.Random(1)
    lines = [".section .tdata,\"awT\",@progbits", ".globl x", ".type x, @object", ".balign 64",
             f".size x, {_SIZE}", "x:"]  # fmt: skip
    lines += [f".byte {data.randrange(256)}" for _ in range(_SIZE)]
    lines += [
        ".data",
        ".balign 32",
        "given:",
        *(f".quad {data.randrange(1 << 62)}" for _ in range(80)),
    ]
    lines += [".globl out", ".type out, @object", ".size out, 768", "out:", ".zero 768",
              ".globl cases", ".type cases, @object", f".size cases, {8 * len(cases)}", "cases:"]  # fmt: skip
    lines += [f".quad case{i}" for i in range(len(cases))]
    lines.append(".text")
    saved = ("rbx", "rbp", "r12", "r13", "r14", "r15")
    for number, case in enumerate(cases):
        lines += [f".type case{number}, @function", f"case{number}:"]
        lines += [f"push %{r}" for r in saved]
        lines += [f"vmovdqu given+{32 * i}(%rip), %ymm{i}" for i in range(16)]
        lines += ["pushq $0x8d5", "popfq"]
        lines += [f"mov given+{8 * i}(%rip), %{r}" for i, r in enumerate(GPR)]
        lines += ["movq $0x1234567, -8(%rsp)", "movq $0x7654321, -128(%rsp)"]
        lines += case
        lines += [f"mov %{r}, out+{8 * i}(%rip)" for i, r in enumerate(GPR)]
        lines += ["mov -8(%rsp), %rax", "mov %rax, out+128(%rip)"]
        lines += ["mov -128(%rsp), %rax", "mov %rax, out+136(%rip)"]
        lines += ["pushfq", "popq out+120(%rip)"]
        lines += [f"vmovdqu %ymm{i}, out+{160 + 32 * i}(%rip)" for i in range(16)]
        lines += ["vzeroupper", *(f"pop %{r}" for r in reversed(saved)), "ret"]
    return "\n".join(lines) + "\n"


_PROGRAM = """
#include <stdio.h>
extern void (*cases[])(void); extern unsigned char out[768]; extern __thread unsigned char x[%d];
int main(void) {
  for (int i = 0; i < %d; i++) {
    cases[i]();
    for (int k = 0; k < 768; k++) printf("%%02x", out[k]);
    for (int k = 0; k < sizeof x; k++) printf("%%02x", x[k]);
    printf("\\n");
  }
}
"""


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_registers_flags_and_memory(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    cases = [_case(pick) for _ in range(150)]
    data = assemble(_source(cases))
    (tmp_path / "x.o").write_bytes(data)
    (tmp_path / "main.c").write_text(_PROGRAM % (_SIZE, len(cases)))
    program = [str(tmp_path / name) for name in ("main.c", "x.o")]
    subprocess.run(["gcc", "-no-pie", *program, "-o", str(tmp_path / "native")], check=True)
    expected = subprocess.run([tmp_path / "native"], capture_output=True, text=True, check=True)
    with Session() as s:
        s.link(str(tmp_path / "x.o"))
        s.run(f"@x = external thread_local global [{_SIZE} x i8]\n@out = external global [768 x i8]\n"
              f"@cases = external global [{len(cases)} x ptr]\n"
              "define ptr @get() {\n  %p = call ptr @llvm.threadlocal.address.p0(ptr @x)\n"
              "  ret ptr %p\n}\n"
              "define void @go(i64 %i) {\n  %c = getelementptr ptr, ptr @cases, i64 %i\n"
              "  %f = load ptr, ptr %c\n  call void %f()\n  ret void\n}")  # fmt: skip
        for number, (case, line) in enumerate(zip(cases, expected.stdout.split(), strict=True)):
            s.call("go", number)
            found = bytes(v & 255 for v in (*s["out"].value, *s["x"].value))
            assert found.hex() == line, case
        s.check()
