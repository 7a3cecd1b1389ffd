"""Cells of C through a real kernel: the tile, `%%c` in a notebook of IR, editing, programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel.kernel.client import outputs_text
from jitkernel.kernel.install import kernelspec_source
from tests.kernel.conftest import ROOT, Kernel
from tests.kernel.test_languages import ask, info

pytest.importorskip("ziglang")

POINT = """#include <stdio.h>
// A point.
struct pt { int x; double y; };
struct pt p = {1, 2.5};
int sq(int n) { return n * n; }"""

PROGRAM = r"""#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        printf("%d: %s\n", i, argv[i]);
    if (argc > 2)
        exit(argc);
    return 300;
}
"""


def launched(*more: str) -> Kernel:
    spec = json.loads((kernelspec_source("jitkernel-c") / "kernel.json").read_text())
    return Kernel(*[a for a in spec["argv"] if a.startswith("--JITKernel")], *more)


@pytest.fixture(scope="module")
def tile() -> Iterator[Kernel]:
    """The kernel as its launcher tile starts it."""
    running = launched()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def fresh(tile: Kernel) -> None:
    tile.ok("%reset -f")
    tile.ok(POINT)


def matches(kernel: Kernel, code: str, position: int | None = None) -> list[str]:
    reply = ask(kernel, "complete", code, len(code) if position is None else position)
    return reply["matches"]


def test_what_it_tells_of_itself(tile: Kernel) -> None:
    told = info(tile)
    language = told["language_info"]
    assert (language["name"], language["file_extension"], language["mimetype"]) == (
        "c", ".c", "text/x-csrc",
    )  # fmt: skip
    assert language["codemirror_mode"] == language["pygments_lexer"] == "jitkernel-c"
    assert "C cells" in told["banner"]


def test_cells(tile: Kernel) -> None:
    assert tile.result("sq(7)") == "(int) 49"
    assert tile.result("p") == "(struct pt) {.x = 1, .y = 2.5}"
    assert "hello" in tile.ok('puts("hello");')
    assert tile.result("%%llvm\n@sq(i32 5)") == "i32 25"
    assert "line 2, column 1: use of undeclared identifier 'q'" in tile.fails("int r;\nq;")


def test_in_a_notebook_of_ir(kernel: Kernel) -> None:
    kernel.ok("%%c\n" + POINT)
    assert kernel.result("%%c\nsq(7)") == "(int) 49"
    assert kernel.result("@sq(8)") == "i32 64"
    assert matches(kernel, "%%c\np.") == ["x", "y"]
    assert "--sanitize" in kernel.page("%%c?")
    assert "line 3, column 9" in kernel.fails("%%c\n\nint z = nobody;")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("p.", ["x", "y"]),
        ("%opt -O0\np.", ["x", "y"]),
        ("int f(struct pt *here) {\n  return here->", ["x", "y"]),
        ("int f(int alpha) {\n  al", ["alpha"]),
        ("s", None),
        ("%asm s", ["sq"]),
        ("#include <stdi", ["stdint.h", "stdio.h", "stdio_ext.h"]),
    ],
)
def test_tab(tile: Kernel, code: str, expected: list[str] | None) -> None:
    found = matches(tile, code)
    if expected is None:
        assert {"sq", "struct", "sizeof", "stdin"} <= set(found)
    else:
        assert found == expected


def test_shift_tab(tile: Kernel) -> None:
    def told(code: str, position: int, level: int = 0) -> str:
        return ask(tile, "inspect", code, position, level)["data"]["text/plain"]

    assert told("struct pt a;", 8).startswith("// A point.\nstruct pt {")
    text = told("sq(7)", 1)
    assert text.startswith("int sq(int n);") and "6 bytes" in text and "define" not in text
    assert "define i32 @sq" in told("sq(7)", 1, 1)
    assert told("sq(", 3) == "the call around it: int sq(»int n«)"
    assert not ask(tile, "inspect", "nobody", 3)["found"]
    assert tile.page("pt?").startswith("// A point.\nstruct pt {")
    assert "int printf(const char *restrict format, ...)" in tile.page("?printf")


def test_enter_in_a_console(tile: Kernel) -> None:
    reply = ask(tile, "is_complete", "int f(int x) {\n    if (x) {")
    assert (reply["status"], reply["indent"]) == ("incomplete", " " * 8)
    assert ask(tile, "is_complete", "int f(int x)")["status"] == "incomplete"
    assert ask(tile, "is_complete", "sq(1)")["status"] == "complete"
    assert ask(tile, "is_complete", "int f(int x) { return x; }")["status"] == "complete"
    assert ask(tile, "is_complete", "f(1))")["status"] == "invalid"


def test_magics_take_names_without_a_mark(tile: Kernel) -> None:
    assert "imul" in tile.ok("%asm sq")
    assert re.search(r"(?m)^sq +function", tile.ok("%symbols sq"))
    assert "a call (median" in tile.ok("%timeit -n 100 sq(7)")
    assert "(int) 9" in tile.ok("%time sq(3)")
    tile.ok("int sq(int n) { return n; }")
    assert tile.result("sq(3)") == "(int) 3"
    tile.ok("%undo sq")
    assert tile.result("sq(3)") == "(int) 9"
    assert "evicted" in tile.ok("%evict sq --cascade")


def test_timeit_of_c_in_a_notebook_of_ir(kernel: Kernel) -> None:
    kernel.ok("%%c\n" + POINT)
    assert "a call (median" in kernel.ok("%timeit -n 9 --language c p.x + sq(2)")
    assert "a call (median" in kernel.ok("%%timeit -n 9 --language c\nif (sq(2)) p.x++;")
    assert "no language" in kernel.fails("%timeit --language d sq(2)")


@pytest.mark.parametrize("head", ["%%c --sanitize", "%opt --sanitize"])
def test_checks_of_undefined_behaviour(tile: Kernel, head: str) -> None:
    text = tile.fails(head + "\nint add(int a) {\n  return a + 2147483647;\n}\nadd(1);")
    assert "undefined behaviour: an addition of signed integers overflowed" in text
    assert "line 3: return a + 2147483647;" in text
    assert tile.result("int plain(int a) {\n  return a + 2147483647;\n}\nplain(1)")


def test_a_level_above_the_code(tile: Kernel) -> None:
    for level, spills in (("-O0", True), ("-O2", False)):
        tile.ok(f"%opt {level}\nint twice(int a) {{ int b = a; return b + b; }}")
        assert ("dword ptr [rsp" in tile.ok("%asm twice")) == spills


def test_warnings_and_flags(tile: Kernel) -> None:
    assert "warning" not in tile.ok("int f(int a) { int unused; return a; }")
    tile.ok("%config Compiler.clang_flags=-Wall")
    try:
        assert "unused variable 'unused'" in tile.ok("int g(int a) { int unused; return a; }")
        refused = tile.fails("%config Compiler.clang=/usr/bin/false")
        assert "does not answer as a clang does" in refused
        assert matches(tile, "sq") is not None
        refused = tile.fails('%config Compiler.clang_flags="')
        assert "Compiler.clang_flags: No closing quotation" in refused
        assert "%lib -lz" in tile.fails("%config Compiler.clang_flags=-O3 -lz")
        assert "unused variable 'unused'" in tile.ok("int g(int a) { int unused; return a; }")
    finally:
        tile.ok("%config Compiler.clang=")
        tile.ok("%config Compiler.clang_flags=")


def test_without_the_package() -> None:
    script = (
        "import sys; sys.modules['ziglang'] = None\n"
        "from jitkernel.kernel.doctor import check_clang\n"
        "print(check_clang())\n"
        "from jitkernel import Session\n"
        "with Session() as s:\n"
        "    print(s.run('define i32 @f() {\\n  ret i32 3\\n}\\n@f()').text)\n"
        "    try:\n"
        "        s.run('1 + 1', 'c')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)\n"
        "    print(s.run('@f()').text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100
    )
    assert not done.stderr
    doctor, first, refused, last = done.stdout.splitlines()
    assert "state='note'" in doctor and "pip install 'jitkernel[c]'" in doctor
    assert refused.startswith("UsageError C cells need clang: pip install 'jitkernel[c]'")
    assert first == last == "i32 3"


def test_what_is_missing_is_told_by_shift_tab_too() -> None:
    running = launched("--Compiler.clang=/usr/bin/false")
    try:
        found = ask(running, "inspect", "sq(", 3)
        assert "/usr/bin/false does not answer as a clang" in found["data"]["text/plain"]
        assert "Traceback" not in Kernel.logged()
    finally:
        running.stop()


def test_the_doctor_tries_it() -> None:
    from jitkernel.kernel.doctor import check_clang

    found = check_clang()
    assert found.state == "ok" and "ziglang" in found.what


def test_magics_know_the_names_of_c(tile: Kernel) -> None:
    tile.ok(
        '_Thread_local int counter = 3;\nint plain(int x) __asm__("its_symbol");\n'
        "int plain(int x) { return x * 3; }"
    )
    assert tile.result("plain(2) + counter") == "(int) 9"  # a later cell has the symbol, too
    for line in ("%asm plain", "%ir plain", "%explain plain", "%cfg plain", "%deps plain"):
        assert "plain" in tile.ok(line)
    assert "counter" in tile.ok("%watch counter")
    tile.ok("int plain(int x) { return x * 4; }")
    assert tile.result("plain(2)") == "(int) 8"
    assert "counter" in tile.ok("%evict counter --cascade")
    assert "use of undeclared identifier 'counter'" in tile.fails("counter")
    assert "@" not in tile.fails("abs(2)?"), "no form of IR's is proposed"
    assert "nothing of the session is called absent" in tile.fails("%asm absent")


def test_code_of_a_cell_that_is_not_run(tile: Kernel) -> None:
    tile.ok("struct apart { int x; };")
    shown = tile.ok(
        "%%asm --target aarch64 -O2\nint of_apart(struct apart a) {\n  return a.x * 2;\n}"
    )
    assert "of_apart" in shown and "lsl" in shown and "3    return a.x * 2;" in shown
    assert "%%llvm" not in tile.ok("%%asm\n%%llvm\ndefine i32 @of_ir() {\n  ret i32 3\n}")
    assert "line 2, column 29: use of undeclared identifier 'y'" in tile.fails(
        "%%asm\nint of_error(void) { return y; }"
    )
    assert "undeclared function 'of_apart'" in tile.fails("of_apart((struct apart){1})")


# -- programs --------------------------------------------------------------------------------------


def test_main_with_arguments(tile: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "program.c"
    file.write_text(PROGRAM)
    assert tile.ok(f"%run {file} a").endswith("1: a\nexit status 44\n")  # 300 & 255
    assert '1: x\n2: y z é"\nexit status 3\n' in tile.ok("%run main x 'y z é\"'")
    tile.ok("int main(void) { return 5; }")
    assert "exit status 5" in tile.ok("%run main")
    assert tile.result("main()") == "(int) 5"
    tile.ok("%undo main")
    assert tile.ok(f"%run {file} b").endswith("1: b\nexit status 44\n")  # main moved
    assert tile.ok(f"%run {file}").endswith("exit status 44\n")
    assert "1: x\nexit status 44" in tile.ok("%run main x")


def test_main_of_every_form_is_run_and_that_is_said(tile: Kernel) -> None:
    assert "run it: %run main\n" in tile.ok("int main(void) { return 3; }")
    assert tile.ok("%run main").endswith("exit status 3\n")
    said = tile.ok("#include <stdio.h>\nint main(int n, char **v) { puts(v[1]); return n; }")
    assert "run it: %run main, with arguments %run main a b\n" in said
    assert tile.ok("%run main it").endswith("it\nexit status 2\n")
    assert "hint: `%run main a b` calls it" in tile.fails("main()")
    assert "run it" not in tile.ok("int main(void) { return 6; }\n%run main")
    tile.ok("#include <stdlib.h>\nint main(int n, char **v, char **e) { return *e != NULL; }")
    assert tile.ok("%run main").endswith("exit status 1\n")
    tile.ok('void main(void) { puts("void"); }')
    assert tile.ok("%run main").endswith("void\nexit status 0\n")
    tile.ok("void main(void) { exit(7); }")
    assert tile.ok("%run main").endswith("exit status 7\n")
    tile.ok("double main(void) { return 1.5; }")
    assert "int argc, char **argv" in tile.fails("%run main")
    tile.ok("int main = 5;")
    assert "no cell defines a function main" in tile.fails("%run main")


def test_a_notebook_of_c_is_told_of_c(tile: Kernel) -> None:
    assert "int sq(int x)" in tile.ok("%help") and "@sq" not in tile.ok("%help")
    assert "cells are C, not Python" in tile.fails("%pip install x")
    assert "did you mean Executor.kind?" in tile.fails("%config Session.executor")
    tile.ok("int told_of(void) { return 1; }")
    assert "told_of is a symbol: `told_of`" in tile.fails("%told_of")


def test_what_is_at_the_top_level_has_no_function_s_name(tile: Kernel) -> None:
    outputs = tile.run("#include <assert.h>\nassert(1 > 2);")[1]
    assert "top level: Assertion `1 > 2' failed" in "\n".join(outputs_text(outputs))
    cell = "#include <stdio.h>\nvoid inner(void) { puts(__func__); }\nputs(__func__);\ninner();"
    assert "top level\ninner\n" in tile.ok(cell)


def test_a_function_without_parameters_is_shown_as_it_is_declared(tile: Kernel) -> None:
    assert tile.result("void bare_one() {}\nbare_one") == "void bare_one()"
    assert tile.result("int (*bare_two)() = 0;\nbare_two") == "(int (*)()) NULL"


def test_a_file_without_main_takes_no_arguments(tile: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "part.c"
    file.write_text("int part(void) { return 6; }\n")
    assert "exit status" not in tile.ok(f"%run {file}")
    assert tile.result("part()") == "(int) 6"
    assert "defines no main" in tile.fails(f"%run {file} a")
    assert "No closing quotation" in tile.fails(f"%run {file} 'a")


def test_headers_of_a_file_lie_beside_it(tile: Kernel, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "beside.h").write_text(
        '#include "more/deeper.h"\ntypedef struct { int a; } beside;\n'
    )
    (tmp_path / "more" / "deeper.h").write_text("#define DEEPER 7\n")
    (tmp_path / "body.inc").write_text("return DEEPER + p.x;\n")
    file = tmp_path / "program.c"
    file.write_text(
        '#include <stdio.h>\n#include "beside.h"\nbeside b = {DEEPER};\n'
        "struct pt { int x; };\n"
        'int body(struct pt p) {\n#include "body.inc"\n}\n'
    )
    tile.ok(f"%run {file}")
    assert tile.result("body((struct pt){1}) + b.a") == "(int) 15"
    assert tile.result("(beside){3}.a") == "(int) 3"  # a later cell has the header, too
    tile.ok("struct pt { char c; int x; };")
    assert tile.result("body((struct pt){.x = 2})") == "(int) 9"  # compiled again, all beside it
    file.write_text('#include "beside.h"\nint wrong(void) {\n    return missing;\n}\n')
    assert f"{file}, line 3, column 12: use of undeclared identifier 'missing'" in tile.fails(
        f"%run {file}"
    )
    (tmp_path / "beside.h").write_text("int also = missing;\n")
    assert "beside.h, line 1: use of undeclared identifier 'missing'" in tile.fails(f"%run {file}")


def test_a_file_in_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "program.c"
    file.write_text(PROGRAM)

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "jitkernel", "run", str(file), *words],
            capture_output=True, text=True, timeout=100, cwd=ROOT,
        )  # fmt: skip
        assert not done.stderr
        return done.returncode, done.stdout

    assert run("a") == (44, "1: a\n")
    assert run("--", "-a", "b c") == (3, "1: -a\n2: b c\n")
    (tmp_path / "beside.h").write_text("enum { BESIDE = 9 };\n")
    file.write_text('#include "beside.h"\nint main(void) { return BESIDE; }\n')
    assert run() == (9, "")


@pytest.mark.parametrize(
    ("reads", "typed", "shown"),
    [
        ('int n;\nscanf("%d%*c", &n);\nn', ["42"], "(int) 42"),
        ("int c = getchar();\ngetchar();\nc", ["A"], "(int) 65"),
        ("char line[20];\nfgets(line, 20, stdin);\nline", ["to be"], '(char[20]) "to be\\n"'),
        ('int a, b;\nscanf("%d %d%*c", &a, &b);\na + b', ["1", "2"], "(int) 3"),
    ],
)
def test_input(tile: Kernel, reads: str, typed: list[str], shown: str) -> None:
    identity = tile.client.execute(reads, allow_stdin=True)
    for line in typed:
        tile.client.get_stdin_msg(timeout=60)
        tile.client.input(line)
    assert tile.reply_to(identity)["status"] == "ok"
    results = [m for m in tile.iopub_of(identity) if m["msg_type"] == "execute_result"]
    assert [m["content"]["data"]["text/plain"] for m in results] == [shown]


def test_output_comes_while_it_runs_and_the_stop_button_stops(tile: Kernel) -> None:
    identity = tile.start('#include <unistd.h>\nputs("begun");\nfor (;;) usleep(1000);')
    tile.wait_output(identity, "begun")
    tile.manager.interrupt_kernel()
    assert tile.reply_to(identity)["ename"] == "Interrupted"
    tile.iopub_of(identity)
    assert tile.result("sq(2)") == "(int) 4"


def test_a_command_of_the_shell_in_a_notebook_of_c(tile: Kernel) -> None:
    assert "for the shell, write %%llvm and !echo in the line below" in tile.fails("!echo")
    assert "hello" in tile.ok("%%llvm\n!echo hello")
