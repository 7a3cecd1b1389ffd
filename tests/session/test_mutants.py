"""Valid cells with random damage: an error or a result, never a session that is dead."""

from __future__ import annotations

import random
import re

import pytest
from programs import SQ, caller

from jitkernel import Session
from jitkernel.errors import JitError

VALID = [
    SQ + "\n@sq(7)",
    "@g = global [4 x i32] [i32 1, i32 2, i32 3, i32 4]\n%p = getelementptr [4 x i32], ptr @g, i64 0, i64 2\n%v = load i32, ptr %p",
    'declare i32 @printf(ptr, ...)\n@f = constant [7 x i8] c"%d %d\\0A\\00"\ndefine i32 @show(i32 %a, i32 %b) {\n  %r = call i32 (ptr, ...) @printf(ptr @f, i32 %a, i32 %b)\n  ret i32 %r\n}\n@show(1, 2)',
    "define double @poly(double %x) {\n  %a = fmul double %x, %x\n  %b = fadd double %a, 1.5\n  %c = fdiv double %b, %x\n  ret double %c\n}\n@poly(2.5)",
    "define i64 @sum(ptr %p, i64 %n) {\nentry:\n  br label %loop\nloop:\n  %i = phi i64 [ 0, %entry ], [ %j, %loop ]\n  %s = phi i64 [ 0, %entry ], [ %t, %loop ]\n  %q = getelementptr i32, ptr %p, i64 %i\n  %v = load i32, ptr %q\n  %w = sext i32 %v to i64\n  %t = add i64 %s, %w\n  %j = add i64 %i, 1\n  %m = icmp ult i64 %j, %n\n  br i1 %m, label %loop, label %done\ndone:\n  ret i64 %t\n}\n@data = global [3 x i32] [i32 10, i32 20, i32 30]\n@sum(@data, 3)",
    "%pt = type { i32, double, [2 x i8] }\n@pts = global [2 x %pt] zeroinitializer\ndefine void @set(ptr %p, i32 %x) {\n  %q = getelementptr %pt, ptr %p, i64 1, i32 0\n  store i32 %x, ptr %q\n  ret void\n}\n@set(@pts, 9)\n@pts",
    "define <4 x float> @v(<4 x float> %a) {\n  %b = shufflevector <4 x float> %a, <4 x float> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>\n  %c = fadd <4 x float> %a, %b\n  ret <4 x float> %c\n}\n@v(<4 x float> <float 1.0, float 2.0, float 3.0, float 4.0>)",
    "define i32 @pick(i32 %x) {\n  switch i32 %x, label %d [ i32 0, label %a i32 1, label %b i32 2, label %c ]\na:\n  ret i32 10\nb:\n  ret i32 20\nc:\n  ret i32 30\nd:\n  ret i32 -1\n}\n@pick(1)",
    "@table = constant [2 x ptr] [ptr @one, ptr @two]\ndefine i32 @one() {\n  ret i32 1\n}\ndefine i32 @two() {\n  ret i32 2\n}\ndefine i32 @through(i64 %i) {\n  %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i\n  %f = load ptr, ptr %p\n  %r = call i32 %f()\n  ret i32 %r\n}\n@through(1)",
    "define i128 @wide(i128 %a, i128 %b) {\n  %c = mul i128 %a, %b\n  %d = lshr i128 %c, 3\n  ret i128 %d\n}\n@wide(123456789012345678901234567890, 987654321)",
    "define i32 @strings() {\n  %n = call i64 @strlen(ptr @text)\n  %t = trunc i64 %n to i32\n  ret i32 %t\n}\n@text = private constant [6 x i8] c\"hello\\00\"\n@strings()",
    "$group = comdat any\ndefine linkonce_odr i32 @group() comdat {\n  ret i32 4\n}\ndefine i32 @user() {\n  %r = call i32 @group()\n  ret i32 %r\n}\n@user()",
    "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @init, ptr null }]\n@made = global i32 0\ndefine void @init() {\n  store i32 5, ptr @made\n  ret void\n}\n@made",
    "define i32 @asm(i32 %x) {\n  %r = call i32 asm \"leal 1($1), $0\", \"=r,r\"(i32 %x)\n  ret i32 %r\n}\n@asm(4)",
    "@alias = alias i32, ptr @base\n@base = global i32 6\n@alias",
    "define i32 @inv() personality ptr @__gxx_personality_v0 {\n  %r = invoke i32 @ok() to label %a unwind label %b\na:\n  ret i32 %r\nb:\n  %l = landingpad { ptr, i32 } cleanup\n  ret i32 -1\n}\ndeclare i32 @__gxx_personality_v0(...)\ndefine i32 @ok() {\n  ret i32 8\n}\n@inv()",
    "define fastcc i8 @small(i8 signext %x) nounwind {\n  %r = add nsw i8 %x, 1, !range.x !0\n  ret i8 %r\n}\n!0 = !{i8 0, i8 10}\n@small(3)",
    "@n = i64 5\n@n\n@n = 6\n@strlen(\"a string\")",
    caller("late", "later") + "\ndeclare i32 @later()\n@late()",
    "%a = alloca i32\nstore i32 4, ptr %a\n%b = load i32, ptr %a\n%c = add i32 %b, 38",
]  # fmt: skip

TOKENS = re.findall(r"[%@!#$]?[\w.]+|\S", " ".join(VALID)) + [
    "i1", "i7", "i999", "i8388607", "ptr", "void", "label", "metadata", "x86_fp80", "fp128", "half",
    "undef", "poison", "null", "zeroinitializer", "thread_local", "ifunc", "external", "weak",
    "internal", "private", "musttail", "unreachable", "-1", "0", "4294967296", "9" * 30, "0x10", "{", "}",
    "<", ">", "[", "]", "(", ")", "...", "c\"\\00\"", "blockaddress", "indirectbr", "va_arg", "gc \"x\"",
    "addrspace(1)", "align 3", "align 4096", "section \"odd\"", "comdat", "byval(i32)", "sret(i32)",
    "inalloca(i32)", "dso_local", "atomicrmw", "cmpxchg", "fence", "resume", "catchpad", "\0", "é", "\"",
]  # fmt: skip


def mutant(rng: random.Random) -> str:
    """A valid cell after one to four of: a token lost, doubled, exchanged, replaced; likewise lines."""
    source = rng.choice(VALID)
    for _ in range(rng.randint(1, 4)):
        parts = re.findall(r"[%@!#$]?[\w.]+|\s+|\S", source) or [" "]
        lines = source.split("\n")
        at, line = rng.randrange(len(parts)), rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                del parts[at]
            case 1:
                parts.insert(at, parts[at])
            case 2:
                parts[at] = rng.choice(TOKENS)
            case 3:
                parts.insert(at, " " + rng.choice(TOKENS) + " ")
            case 4:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 5:
                del lines[line]
                parts = ["\n".join(lines)]
            case 6:
                lines.insert(rng.randrange(len(lines) + 1), lines[line])
                parts = ["\n".join(lines)]
            case 7:
                cut = rng.randrange(len(source) + 1)
                parts = [source[:cut], chr(rng.randrange(32, 127)), source[cut:]]
        source = "".join(parts)
    return source


def live(s: Session, number: int) -> None:
    assert s.run(f"define i32 @alive() {{\n  ret i32 {number}\n}}\n@alive()").value == number


def damage(count: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    seen: dict[str, int] = {}
    settings = {"capacity": 256 << 20, "cell_timeout": 0.3, "timeout": 3.0, "interrupt_grace": 0.3}
    with Session(**settings) as s:
        for number in range(count):
            source = mutant(rng)
            try:
                s.run(source, cell_id=rng.choice([None, "a", "b"]))
                kind = "a result"
            except JitError as error:
                assert str(error).strip(), source
                kind = type(error).__name__
            except BaseException as error:
                raise AssertionError(f"{type(error).__name__}: {error}\n{source}") from error
            seen[kind] = seen.get(kind, 0) + 1
            try:
                live(s, number)
                if number % 10 == 0:
                    s.check()
                if number % 50 == 49:
                    s.undo(rng.randint(1, 10))
                    s.check()
                if number % 100 == 99:
                    s.reset()
            except BaseException as error:
                raise AssertionError(
                    f"{type(error).__name__}: {error}\nafter:\n{source}"
                ) from error
    return seen


def test_damaged_cells():
    seen = damage(150, 1)
    assert seen["a result"] > 5 and seen["CompileError"] > 50


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_damaged_cells(seed):
    damage(500, seed)
