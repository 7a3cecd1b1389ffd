"""A notebook with a cell for every display that there is, and those that go wrong.

`CELLS` in order: a name, and the source.  Each starts from what the ones above it left.
"""

from __future__ import annotations

__all__ = ["CELLS", "FAILS"]

#: The cells whose last output is an error, as they are meant to.
FAILS = {
    "fault", "fault stack", "fault division", "fault jump", "undefined", "limit", "leave",
    "compile error", "compile error hint", "link error", "type mismatch", "wrong word",
    "wrong form", "check fails", "kaleidoscope error", "kaleidoscope fault", "opt unknown",
    "pass refused", "evict refused", "wrong pass", "no such cell", "missing library",
}  # fmt: skip

_SUM = """\
define i32 @sum(ptr %a, i32 %n) {
entry:
  %none = icmp sle i32 %n, 0
  br i1 %none, label %done, label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %s = phi i32 [ 0, %entry ], [ %t, %loop ]
  %p = getelementptr i32, ptr %a, i32 %i
  %v = load i32, ptr %p
  %q = call i32 @sq(i32 %v)
  %t = add i32 %s, %q
  %j = add i32 %i, 1
  %end = icmp eq i32 %j, %n
  br i1 %end, label %done, label %loop
done:
  %r = phi i32 [ 0, %entry ], [ %t, %loop ]
  ret i32 %r
}
@sum([3 x i32] [i32 1, i32 2, i32 3], 3)
@sum([2 x i32] [i32 -1, i32 2], 2)"""

_SQ = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@sq(7)"

# Names as C++ has them, and a function with many ways through it.
_LONG = "_ZNSt6vectorISt4pairINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEiESaIS7_EE9push_backERKS7_"
_WAYS = "\n".join(
    [
        f"@{_LONG} = global [100 x i64] zeroinitializer",
        "declare i32 @never_defined(i32)",
        "define i32 @ways(i32 %x) {",
        "entry:",
        "  switch i32 %x, label %other [",
        *(f"    i32 {7 * k}, label %case{k}" for k in range(12)),
        "  ]",
        *(
            f"case{k}:\n  %v{k} = call i32 @sq(i32 {k})\n  %w{k} = xor i32 %v{k}, {1000 + k}\n"
            f"  br label %{'out' if k % 3 else 'other'}"
            for k in range(12)
        ),
        "other:",
        f"  %g = load i64, ptr getelementptr (i8, ptr @{_LONG}, i64 16)",
        "  %h = trunc i64 %g to i32",
        "  %m = call i32 @never_defined(i32 %h)",
        "  br label %out",
        "out:",
        "  %y = phi i32 [ %m, %other ], "
        + ", ".join(f"[ %w{k}, %case{k} ]" for k in range(12) if k % 3),
        "  ret i32 %y",
        "}",
        "@ways(14)",
    ]
)

_MANY = "\n".join(
    f"define i64 @step_{k:02}(i64 %x) {{\n"
    + (f"  %y = call i64 @step_{k // 2:02}(i64 %x)\n" if k else "  %y = add i64 %x, 1\n")
    + f"  %z = mul i64 %y, {3 + 2 * k}\n  ret i64 %z\n}}"
    for k in range(30)
)

_PRESSURE = "\n".join(
    [
        "define i64 @crowd(ptr %p) {",
        *(
            f"  %p{k} = getelementptr i64, ptr %p, i64 {k}\n  %a{k} = load volatile i64, ptr %p{k}"
            for k in range(22)
        ),
        "  %s0 = add i64 0, %a0",
        *(f"  %s{k} = add i64 %s{k - 1}, %a{k}" for k in range(1, 22)),
        "  %m0 = add i64 %s21, %a0",
        *(f"  %m{k} = mul i64 %m{k - 1}, %a{k}" for k in range(1, 22)),
        "  ret i64 %m21",
        "}",
    ]
)

_CLZ = """\
%%exercise clz --folder exercises
; task: how many zero bits stand above the highest one bit? 32 for 0
; try: 0; 1; -1; 65536
; must: no alloca; at most 6 instructions
; hint: what does your loop do with 0?
define i32 @clz(i32 %x) {
  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)
  ret i32 %r
}
declare i32 @llvm.ctlz.i32(i32, i1)"""

_PASS = """\
%%pass to-shift --on @eightfold --time "@eightfold(3)"
def to_shift(text: str):
    return text.replace("mul i32 %x, 8", "shl i32 %x, 3")"""

CELLS: dict[str, str] = {
    "hello": '@puts("hello")\n@printf("%d and %s, \\C3\\A4\\C3\\B6\\C3\\BC\\0A", 42, "text")',
    "square": _SQ,
    "sum": _SUM,
    "values": (
        "%pt = type { i32, i32, double }\n"
        "@origin = global %pt { i32 1, i32 -2, double 0.1 }\n"
        "@table = global [200 x i32] zeroinitializer\n"
        '@words = constant [6 x i8] c"hello\\00"\n'
        "@origin\n@table\n@words\n"
        "%v = fdiv <4 x float> <float 1.0, float 2.0, float 3.0, float 4.0>, splat (float 3.0)"
    ),
    "explain": "%explain @sum",
    "ir": "%ir @sum",
    "ir raw": "%ir @sum --raw",
    "ir opt": "%ir @sum --opt",
    "ir diff": "%ir @sum --diff",
    "asm": "%asm @sum",
    "asm att": "%asm @sum --att",
    "asm riscv64": "%asm @sum --target riscv64",
    "ways": _WAYS.replace("@ways(14)", "@ways(7)"),
    "asm long names": "%asm @ways",
    "cfg": "%cfg @sum",
    "cfg raw": "%cfg @sum --raw",
    "cfg told": (
        '%cfg @sum --dominators --live --loops --counts "@sum([3 x i32] [i32 1, i32 2, i32 3], 3)"'
    ),
    "cfg wide": "%cfg @ways --raw",
    "cfg of one block": "%cfg @sq",
    "many": _MANY,
    "callgraph": "%callgraph @sum",
    "callgraph of many": "%callgraph",
    "passes": "%passes @sum",
    "passes loop": "%passes @sum --loop",
    "remarks": "%remarks @sum",
    "passes only": "%passes @sum --only instcombine",
    "passes stop": "%passes @sum --stop-after 3",
    "mir": "%mir @sum",
    "mir spills": _PRESSURE + "\n%mir @crowd --regalloc",
    "mir live": "%mir @sum --live",
    "object": "%object @sum",
    "object long names": "%object @ways",
    "timeline": "%timeline @sum",
    "compare": "%compare @sum -O0 -O2",
    "compare timed": "%compare @sq -O0 -O2 --time 7",
    "compare machines": "%compare @sum --target aarch64 --target riscv64",
    "opt": "%opt",
    "opt unknown": '%opt "instcombin"',
    "pass": "%%llvm --passes dce\ndefine i32 @eightfold(i32 %x) {\n  %y = mul i32 %x, 8\n  ret i32 %y\n}",
    "pass in python": _PASS,
    "pass refused": _PASS.replace('"shl', '"%z = shl'),
    "deps": "%deps",
    "deps of one": "%deps @sq",
    "arena": "%arena",
    "arena zone": "%arena text",
    "arena part": "%arena text 1",
    "memory": "%memory",
    "memory arena": "%memory --arena",
    "memory plot": "%memory --plot",
    "watch": (
        "@counter = global i64 0\n%watch @counter\n"
        "define void @count(i64 %n) {\nentry:\n  br label %l\nl:\n"
        "  %i = load volatile i64, ptr @counter\n  %j = add i64 %i, 1\n"
        "  store volatile i64 %j, ptr @counter\n  %e = icmp slt i64 %j, %n\n"
        "  br i1 %e, label %l, label %d\nd:\n  ret void\n}\n@count(500000000)"
    ),
    "watched": "%watch",
    "stop watching": "%watch --stop",
    "cells": "%cells",
    "symbols": "%symbols",
    "who": "%who",
    "time": "%time @sum([3 x i32] [i32 1, i32 2, i32 3], 3)",
    "timeit": "%timeit -n 1000 -r 3 @sq(7)",
    "budget": "%budget 1M\n%budget",
    "keep": "%keep @sq\n%keep",
    "hibernate": "%hibernate @sum\n%cells",
    "no budget": "%budget none",
    "context": "%context",
    "fault": ("define i32 @get(ptr %p) {\n  %v = load i32, ptr %p\n  ret i32 %v\n}\n@get(null)"),
    "stack": "%stack",
    "fault stack": (
        "define i32 @deep(i32 %n) noinline {\n  %a = alloca [100 x i64]\n"
        "  store volatile i64 7, ptr %a\n  %m = add i32 %n, 1\n"
        "  %r = call i32 @deep(i32 %m)\n  %v = load volatile i64, ptr %a\n"
        "  %w = trunc i64 %v to i32\n  %s = add i32 %r, %w\n  ret i32 %s\n}\n@deep(0)"
    ),
    "stack of many frames": "%stack",
    "fault division": (
        "define i32 @ratio(i32 %a, i32 %b) {\n  %r = sdiv i32 %a, %b\n  ret i32 %r\n}\n@ratio(1, 0)"
    ),
    "fault jump": (
        "define i32 @jump(i64 %x) {\n  %p = inttoptr i64 %x to ptr\n  %r = call i32 %p()\n"
        "  ret i32 %r\n}\n@jump(4660)"
    ),
    "undefined": "@ways(0)",
    "limit": (
        "%config Executor.cell_timeout=0.3\nstart:\n  br label %spin\nspin:\n  br label %spin"
    ),
    "leave": "%config Executor.cell_timeout=0\n@exit(3)",
    "compile error": "define i32 @bad(i32 %x) {\n  %y = add i32 %x, %undefined\n  ret i32 %y\n}",
    "compile error hint": "define float @bad() {\n  ret float 0.1\n}",
    "link error": "@n = external global i64\ndefine i64 @bad() {\n  %v = load i64, ptr @n\n  ret i64 %v\n}",
    "type mismatch": "define i64 @sq(i64 %x) {\n  ret i64 %x\n}",
    "wrong word": "%explian @sum",
    "wrong form": "sq(7)",
    "wrong pass": "%passes @sum --only nothing",
    "no such cell": "%asm 999",
    "missing library": "%lib libnothing.so",
    "exercise": _CLZ,
    "check fails": (
        "define i32 @clz(i32 %x) {\n  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)\n"
        "  %z = icmp eq i32 %x, 0\n  %s = select i1 %z, i32 31, i32 %r\n  ret i32 %s\n}\n"
        "declare i32 @llvm.ctlz.i32(i32, i1)\n%check clz --folder exercises"
    ),
    "check passes": (
        "define i32 @clz(i32 %x) {\n  %r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)\n"
        "  ret i32 %r\n}\ndeclare i32 @llvm.ctlz.i32(i32, i1)\n%check clz --folder exercises"
    ),
    "exercises": "%check --folder exercises",
    "kaleidoscope": (
        "%%kaleidoscope\ndef fib(x) if x < 3 then 1 else fib(x-1)+fib(x-2)\nfib(10)\nfib(20)"
    ),
    "kaleidoscope error": "%%kaleidoscope\ndef wrong(x)\n  if x < 3 then 1 els 2",
    "kaleidoscope fault": "%%kaleidoscope\nextern nowhere(x)\nnowhere(1)",
    "redefined": _SQ.replace("  ret i32 %r", "  %s = mul i32 %r, %x\n  ret i32 %s").replace(
        "%r\n}", "%s\n}"
    ),
    "undo list": "%undo --list",
    "undo": "%undo",
    "evict refused": "%evict @sq",
    "gc": "%gc --dry-run",
    "save": "%save work.jks",
    "env": "%env LANG=C\n%env LANG",
    "settings": "%config",
    "setting": "%config Compiler.opt_level",
    "help": "%help",
    "help of one": "%help explain",
    "inspect": "@sq?",
    "plot": "%plot @table",
    "table": "%table @table --count 5",
    "layout": "%layout %pt",
    "plot image": (
        "%%c\nfloat im[40][60];\nfor (int i = 0; i < 40; i++) for (int j = 0; j < 60; j++)"
        " im[i][j] = (i - 20) * (j - 30);\n%plot im"
    ),
    "draw": (
        "%%c\nstruct node { int v; struct node *left, *right; } leaf = {1}, *tree =\n"
        "  &(struct node){2, &leaf, (struct node *)16};\n%draw tree"
    ),
    "languages": "%language",
    "history": "%history -n 3",
}
