"""The cells that are measured, as LLVM IR text.  Start from `tiny`."""

from __future__ import annotations

__all__ = ["caller", "fresh_types", "large", "shader", "sixty_lines", "tiny"]


def tiny(name: str, k: int = 0) -> str:
    """One function of three instructions, the same code for every name but for its constants."""
    return f"define i32 @{name}(i32 %x) {{\n  %y = mul i32 %x, %x\n  %z = add i32 %y, {k}\n  ret i32 %z\n}}\n"


def caller(name: str, callee: str) -> str:
    """A function that calls one of another cell."""
    return (
        f"declare i32 @{callee}(i32)\n"
        f"define i32 @{name}(i32 %x) {{\n  %y = call i32 @{callee}(i32 %x)\n  %z = add i32 %y, 1\n"
        "  ret i32 %z\n}\n"
    )


def fresh_types(name: str, k: int = 0) -> str:
    """A function over a struct type that no other cell names."""
    return (
        f"%t.{name} = type {{ i32, i64, [{k % 7 + 1} x i16] }}\n"
        f"define i64 @{name}(ptr %p) {{\n  %q = getelementptr %t.{name}, ptr %p, i32 0, i32 1\n"
        "  %v = load i64, ptr %q\n  ret i64 %v\n}\n"
    )


def sixty_lines(name: str, k: int = 0) -> str:
    """About 60 lines: a loop over an array with branches in it, so that the optimiser works."""
    lines = [
        f"define i64 @{name}(ptr %a, i64 %n) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %i1, %next ]",
        "  %s = phi i64 [ 0, %entry ], [ %s1, %next ]",
        "  %p = getelementptr i64, ptr %a, i64 %i",
        "  %v0 = load i64, ptr %p",
    ]
    at = 0
    for at in range(1, 15):
        before = f"%v{at - 1}"
        lines.append(f"  %m{at} = mul i64 {before}, {2 * at + 3 + k}")
        lines.append(f"  %x{at} = xor i64 %m{at}, %i")
        lines.append(f"  %v{at} = add i64 %x{at}, {at * 7}")
    lines += [
        f"  %odd = and i64 %v{at}, 1",
        "  %c = icmp eq i64 %odd, 0",
        "  br i1 %c, label %even, label %other",
        "even:",
        f"  %e = lshr i64 %v{at}, 1",
        "  br label %next",
        "other:",
        f"  %o = mul i64 %v{at}, 3",
        "  br label %next",
        "next:",
        "  %w = phi i64 [ %e, %even ], [ %o, %other ]",
        "  %s1 = add i64 %s, %w",
        "  %i1 = add i64 %i, 1",
        "  %d = icmp ult i64 %i1, %n",
        "  br i1 %d, label %loop, label %done",
        "done:",
        "  ret i64 %s1",
        "}",
    ]
    return "\n".join(lines) + "\n"


def shader(name: str, k: int = 0, operations: int = 2_000) -> str:
    """A program that becomes about 10 KB of code: one function without branches.

    What llvmpipe makes of a fragment shader looks like this: loads of inputs, some thousand
    operations on floats, stores of outputs.  Volatile, so that no pass takes any of it away.
    """
    lines = [f"define void @{name}(ptr %in, ptr %out) {{"]
    inputs = 16
    for i in range(inputs):
        lines.append(f"  %i{i} = getelementptr float, ptr %in, i64 {i}")
        lines.append(f"  %r{i} = load volatile float, ptr %i{i}")
    for n in range(inputs, operations):
        operation = ("fmul", "fadd", "fsub", "fdiv")[(n + k) % 4]
        lines.append(f"  %r{n} = {operation} float %r{n - 1}, %r{n - 9 - n % 7}")
        if n % 8 == 0:
            lines.append(f"  %o{n} = getelementptr float, ptr %out, i64 {n}")
            lines.append(f"  store volatile float %r{n}, ptr %o{n}")
    return "\n".join([*lines, "  ret void", "}"]) + "\n"


def large(functions: int, name: str = "big") -> str:
    """One module of many functions of about 60 lines."""
    return "".join(sixty_lines(f"{name}{i}", i) for i in range(functions))
