"""How the time of a cell of C grows with what it declares, or names.  Start from `growth`.

Time is that of the processors in all of the session's processes and in clang's; see `growth.py`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Figure, Scale
from benchmarks.rows.growth import Steps, measured
from jitkernel import Session

__all__ = ["KINDS", "Kind", "growth", "steps_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """n declarations of a kind: `define` gives the text of a cell of n, `use` that of one that
    needs a few of them (`{last}` is the number of the last), `change` the first line in another
    form."""

    define: Callable[[int], str]
    use: str
    change: str = ""


def _lines(line: str) -> Callable[[int], str]:
    """A text of n lines, of the line for each number; `{p}` is the one before, `{n}` their count."""

    def text(n: int) -> str:
        return "".join(line.format(i=i, p=max(i - 1, 0), n=n, j=(i * 7 + 1) % n) for i in range(n))

    return text


def _inside(head: str, line: str, tail: str) -> Callable[[int], str]:
    lines = _lines(line)
    return lambda n: head + lines(n) + tail


KINDS: Mapping[str, Kind] = {
    "macros": Kind(_lines("#define M{i} {i}\n"), "M3 + M17", "#define M0 5"),
    "macros of the one before": Kind(
        lambda n: "#define M0 1\n" + "".join(f"#define M{i} M{i - 1}\n" for i in range(1, n)),
        "M{last}", "#define M0 5",
    ),
    "macros with parameters": Kind(
        _lines("#define M{i}(x) ((x) + {i})\n"), "M3(4)", "#define M0(x) 5"
    ),
    "macros that are taken back": Kind(_lines("#define M{i} {i}\n#undef M{i}\n"), "1"),
    "calls of macros that declare": Kind(
        lambda n: "#define V(x) int x;\n" + _lines("V(v{i})\n")(n), "v3 + v17",
    ),
    "conditions": Kind(
        _lines("#if {i} % 2\nint v{i};\n#endif\n"), "v3 + v17",
    ),
    "packing": Kind(
        _lines("#pragma pack(push, 1)\nstruct S{i} {{ char a; int b; }};\n#pragma pack(pop)\n"),
        "sizeof(struct S3)", "struct S0 { int a; };",
    ),
    "enums": Kind(_lines("enum E{i} {{ A{i}, B{i} = {i} }};\n"), "B3", "enum E0 { A0 = 7, B0 };"),
    "constants of one enum": Kind(_inside("enum E {\n", "A{i} = {i},\n", "};"), "A3"),
    "types": Kind(_lines("typedef int T{i};\n"), "(T3)7", "typedef long T0;"),
    "types of the one before": Kind(
        lambda n: "typedef int T0;\n" + "".join(f"typedef T{i - 1} T{i};\n" for i in range(1, n)),
        "(T{last})7", "typedef long T0;",
    ),
    "structs": Kind(
        _lines("struct S{i} {{ int a; double b[3]; }};\n"), "struct S3 g; g.a = 7;",
        "struct S0 { int b; };",
    ),
    "structs with the one before": Kind(
        lambda n: "struct S0 { int a; };\n" + "".join(
            f"struct S{i} {{ int a; struct S{i - 1} *b; }};\n" for i in range(1, n)
        ),
        "struct S{last} g; g.a = 7;", "struct S0 { int b; };",
    ),
    "structs that point at each other": Kind(
        _lines("struct S{i} {{ struct S{j} *a; struct S{p} *b; int v; }};\n"),
        "struct S{last} g; g.v = 7; g.a == g.b", "struct S0 { int v; struct S1 *b; };",
    ),
    "typedefs that point at the one before": Kind(
        lambda n: "typedef struct S0 { int v; } S0;\n" + "".join(
            f"typedef struct S{i} {{ int v; S{i - 1} *b; }} S{i};\n" for i in range(1, n)
        ),
        "S{last} g; g.v = 7;", "typedef struct S0 { long v; } S0;",
    ),
    "types that point at each other": Kind(
        lambda n: _lines("typedef struct S{i} S{i};\n")(n)
        + _lines("struct S{i} {{ S{j} *a; S{p} *b; int v; }};\n")(n),
        "S{last} g; g.v = 7;", "struct S0 { int v; S1 *b; };",
    ),
    "members of one struct": Kind(
        _inside("struct S {\n", "int a{i}; char b{i}[4];\n", "};"), "struct S g; g.a3 = 7;",
        "struct S { int a3; };",
    ),
    "variables": Kind(_lines("int v{i} = {i};\n"), "v3 + v17", "long v0;"),
    "variables of one declaration": Kind(
        _inside("int ", "v{i} = {i},\n", "last;"), "v3 + v17",
    ),
    "variables of a type": Kind(
        lambda n: "typedef int T;\n" + _lines("T v{i};\n")(n), "v3 + v17", "typedef long T;"
    ),
    "arrays sized by a macro": Kind(
        lambda n: "#define N 4\n" + _lines("int v{i}[N];\n")(n), "v3[1]", "#define N 5"
    ),
    "computed variables": Kind(
        lambda n: "int f(void) { return 1; }\n" + _lines("int v{i} = f();\n")(n), "v3"
    ),
    "constant variables": Kind(_lines("const int v{i} = {i};\n"), "v3", "const int v0 = 7;"),
    "elements": Kind(_inside("int t[] = {\n", "{i},\n", "};"), "t[3]"),
    "strings": Kind(_inside("const char *t[] = {\n", '"number {i}",\n', "};"), "t[3]"),
    "prototypes": Kind(_lines("int f{i}(int x);\n"), "sizeof(f3)"),
    "functions": Kind(
        _lines("int f{i}(int x) {{ return x + {i}; }}\n"), "f3(4)", "int f0(int x) { return 7; }"
    ),
    "functions that call the one before": Kind(
        lambda n: "int f0(int x) { return x; }\n" + "".join(
            f"int f{i}(int x) {{ return f{i - 1}(x) + 1; }}\n" for i in range(1, n)
        ),
        "f{last}(4)", "int f0(int x) { return 7; }",
    ),
    "static functions": Kind(
        _lines("static int f{i}(int x) {{ return x + {i}; }}\n"), "f3(4)",
        "static int f0(int x) { return 7; }",
    ),
    "static functions that call the one before": Kind(
        lambda n: "static int f0(int x) { return x; }\n" + "".join(
            f"static int f{i}(int x) {{ return f{i - 1}(x) + 1; }}\n" for i in range(1, n)
        ),
        "f{last}(4)", "static int f{last}(int x) { return 7; }",
    ),
    "functions of a type": Kind(
        lambda n: "typedef struct { int x; } T;\n" + _lines("int f{i}(T *t) {{ return t->x; }}\n")(n),
        "sizeof(f3)", "typedef struct { int y, x; } T;",
    ),
    "functions of a macro": Kind(
        lambda n: "#define M 3\n" + _lines("int f{i}(void) {{ return M; }}\n")(n),
        "f3()", "#define M 4",
    ),
    "statements": Kind(lambda n: "int v;\n" + _lines("v += {i};\n")(n), "v"),
    "statements of a function": Kind(
        _inside("int f(int x) {\n", "x += {i} * x;\n", "return x; }"), "f(3)"
    ),
    "cases": Kind(
        _inside("int f(int x) { switch (x) {\n", "case {i}: return {i} * 7;\n", "} return 0; }"),
        "f(3)",
    ),
    "labels": Kind(
        _inside("int f(int x) {\n", "l{i}: if (x == {i}) goto l{j};\n", "return x; }"), "1"
    ),
    "brackets": Kind(
        lambda n: "int v = " + "(" * (n // 32) + "1" + ")" * (n // 32) + ";", "v"
    ),
    "else-ifs": Kind(
        lambda n: "int v = 3;\nif (v == -1) v = 0;\n" + _lines("else if (v == {i}) v = {j};\n")(n // 8),
        "v",
    ),
    "all on one line": Kind(_inside("", "int v{i}; v{i} = {i}; ", ""), "v3"),
    "calls on one line": Kind(
        lambda n: "#define V(x) int x;\n" + _lines("V(v{i}) ")(n), "v3 + v17"
    ),
    "warnings": Kind(_lines("char c{i} = {i} + 1000;\n"), "c3"),
    "comments": Kind(_lines("// what {i} is\nint v{i}; /* that */\n"), "v3"),
    "empty lines": Kind(lambda n: "int v;\n" + "\n" * n + "int w;\n", "v"),
}  # fmt: skip


def growth(scale: Scale) -> Iterator[Figure]:
    """For each kind of declaration: a cell of n, one that uses a few, the first in another form,
    all again, and undo."""
    if not importlib.util.find_spec("ziglang"):
        yield Figure("C cells", None, "1", note="not installed: pip install 'jitkernel[c]'")
        return
    cases = scale.pick(1_000, 2_000)
    steps = {name: steps_of(kind) for name, kind in KINDS.items()}
    if scale.name == "tiny":  # a few are enough to see that it runs
        steps = {name: steps[name] for name in list(steps)[::20]}
        cases = 40
    yield _switch(cases)
    yield from measured(steps, scale.pick(250, 500, 1_000), scale)


def _switch(n: int) -> Figure:
    """A function of generated code, all of it a switch, beside `zig cc -O2 -g`, in turn."""
    cases = "".join(f"case {i}: return {i * 7};" for i in range(n))
    source = f"int f(int x) {{ switch (x) {{ {cases} }} return 0; }}"
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder, Session() as s:
        file = Path(folder, "switch.c")
        file.write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-g", "-fno-sanitize=all", "-c"]
        s.run("1 + 1", "c")
        for _ in range(3):
            start = time.perf_counter()
            s.run(source, "c", cell_id="a")
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            subprocess.run([*command, file, "-o", file.with_suffix(".o")], check=True)
            theirs.append(time.perf_counter() - start)
    note = f"{min(ours):.2f} s, {min(theirs):.2f} s"
    what = f"a switch of {n:,} cases: C cell / zig cc -O2 -g"
    return Figure(what, min(ours) / min(theirs), "x", 1.5, note=note)


def steps_of(kind: Kind) -> Callable[[Session, int], Steps]:
    def steps(s: Session, n: int) -> Steps:
        text = kind.define(n)
        s.run("1 + 1", "c")
        yield "define", lambda: s.run(text, "c", cell_id="a")
        yield "use", lambda: s.run(kind.use.replace("{last}", str(n - 1)), "c")
        if kind.change:
            yield "change one", lambda: s.run(kind.change.replace("{last}", str(n - 1)), "c")
            yield "undo", s.undo
        yield "define again", lambda: s.run(text, "c", cell_id="a")

    return steps
