"""What a user of C is shown has C's names and types: `sq`, `int`, and not `@sq`, `i32`, `ptr`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel

pytest.importorskip("ziglang")

PROGRAM = r"""#include <stdlib.h>
#include <string.h>
struct pt { int x; double y; };
struct pt p = {1, 2.5};
int counter = 5, four[4] = {1, 2, 3, 4};
const int limit = 9;
_Thread_local int each = 3;
char text[8] = "abc";
static int hidden(int *a) { return *a; }
int sq(int n) { return n * n; }
int labelled(void) __asm__("its_symbol");
int labelled(void) { return *(volatile int *)0; }"""

USES = r"""int next(int n) { return sq(n) + counter + ++each; }
int get(int *q) { return *q; }
int through(int *q) { return get(q) + 1; }
__attribute__((noinline)) static int alone(int *q) { return *q; }
int inner(int *q) { return alone(q) + alone(q + 1); }
void ends(void) { abort(); }
int later(int);
int calls(int n) { return later(n) + 1; }
int (*pointer)(int) = sq;"""

EDGE = 'char edge[8];\nvoid over(void) { strcpy(edge, "1234567890123456789012345"); }'

#: Cells, and what each shows beside no word of IR.
CELLS = {
    "through(0)": r"at get, cell \d+, line 2.*called from through\+\d+",
    "labelled()": "at labelled, cell",
    "inner(0)": r"at alone, cell \d+, line 4",
    "ends()": r"at ends\+\d+, cell",
    "*(int *)&sq = 3;": r"\(the entry of sq, which is code",
    "*(int *)&limit = 3;": r"\(limit, which is constant\)",
    "over()": r"past the end of edge \(cell",
    "calls(1)": r"call of later, which nobody defines",
    "int reads(void) { extern int nowhere; return nowhere; }": (
        r"cell \d+ reads nowhere, which nobody defines"
    ),
    "%stack": "",
    "%cells": "sq labelled|labelled",
    "%symbols": r"int next\(int n\)",
    "%who": r"\bsq\b",
    "%memory": "",
    "%arena": r"entry of sq",
    "%budget": "",
    "%asm next": r"; sq\n.*; counter",
    "%asm labelled": "int labelled",
    "%asm --target aarch64 next": "next on aarch64",
    "%callgraph": r"through \(cell \d+\) calls get",
    "%deps": r"next.* counter \(cell",
    "%object next": r"\bnext +global|\bnext +weak",
    "%compare sq next": r"sq, cell \d+ \| next, cell",
    "%compare next --target aarch64": "next on aarch64",
    "%watch counter four p text each": (
        r"counter +5 .*four +\{1, 2, 3, 4\}.*p +\{\.x = 1, \.y = 2\.5\}.*text +\"\w+\""
    ),
    "%watch absent": "no cell defines absent",
    "%undo --list": "labelled",
    "%undo four --list": "",
    "%evict sq": r"sq shares cell \d+ with the variables p, counter",
    "%evict sq p counter four text each": r"\(next, get, through, alone and \d+ more\) uses sq",
    "%evict absent": "no cell defines absent",
    "%asm absent": "nothing of the session is called absent",
    "%cfg counter": "counter has no body",
    "%asm counter": "counter has no machine code",
    "%keep sq": "",
    "%hibernate next": "",
    "%gc": "",
    "sq?": r"int sq\(int n\)",
    "counter?": "value +5",
    "int same = *(int *)0; same": r"\A(?!.*did not).*a null pointer",  # all in its line
    "void empty(void) {}": r"void empty\(void\), 1 byte,",
    "%timeit": r"needs a call: %timeit sq\(7\)",
    "%time": r"%time sq\(7\)",
    "%timeit?": r"example: .* sq\(7\)",
}
WORDS_OF_IR = re.compile(r'@"?[A-Za-z_.]|\bi(?:1|8|16|32|64)\b|\[\d+ x |%struct|(?<!word )\bptr\b')


@pytest.fixture(scope="module")
def tile(c_kernel: Kernel) -> Kernel:
    """A kernel of C with the program."""
    c_kernel.ok("%opt --inline=off")  # calls, and who makes them, are what is shown
    c_kernel.ok(PROGRAM)
    c_kernel.ok(USES)
    c_kernel.ok(EDGE)
    return c_kernel


def told(kernel: Kernel, source: str) -> str:
    """All that a cell shows, its error among that."""
    from jitkernel.kernel.client import outputs_text

    reply, outputs = kernel.run(source)
    pages = [payload["data"]["text/plain"] for payload in reply.get("payload", ())]
    return "\n".join([*outputs_text(outputs), *pages])


@pytest.mark.parametrize("source", CELLS)
def test_what_is_shown_has_words_of_c(tile: Kernel, source: str) -> None:
    text = told(tile, source)
    assert re.search(CELLS[source], text, re.DOTALL), text
    assert not WORDS_OF_IR.search(text), text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("%timeit s", "sq"),
        ("%timeit -n 5 sq(cou", "counter"),
        ("%time p.", "x"),
        ("%draw p.", "y"),
        ("%layout struct ", "pt"),
        ("%plot fo", "four"),
    ],
)
def test_what_a_magic_takes_as_c_is_completed_as_c(tile: Kernel, typed: str, offered: str) -> None:
    identity = tile.client.complete(typed, len(typed))
    reply = tile.reply_to(identity)
    tile.iopub_of(identity)
    assert offered in reply["matches"]
    assert not WORDS_OF_IR.search(" ".join(reply["matches"]))


@pytest.mark.parametrize("typed", ["%asm sq", "%timeit sq", "%timeit"])
def test_what_is_told_of_the_arguments_of_a_magic_is_c(tile: Kernel, typed: str) -> None:
    identity = tile.client.inspect(typed, len(typed))
    text = tile.reply_to(identity)["data"]["text/plain"]
    tile.iopub_of(identity)
    assert "sq(" in text and not WORDS_OF_IR.search(text)


def test_ir_keeps_its_own_words(tile: Kernel) -> None:
    tile.ok("%%llvm\ndefine i32 @of_ir(ptr %p) {\n  %x = load i32, ptr %p\n  ret i32 %x\n}")
    assert "at @of_ir, cell" in tile.fails("%%llvm\n@of_ir(null)")
    assert "at @of_ir, cell" in tile.fails("of_ir(0)")  # as the cell writes it that defines it
    assert "@of_ir: i32 (ptr)" in tile.ok("%asm of_ir")
    tile.ok("int uses_ir(int *q) { return of_ir(q) + of_ir(q + 1); }")
    fault = tile.fails("uses_ir(0)")
    assert re.search(r"@of_ir.*\n.*called from uses_ir\+\d+", fault), fault
    assert tile.result("%%llvm\n%a = getelementptr i32, ptr @four, i64 1") == "ptr @four+4"
    assert "@of_ir" in tile.ok("%evict of_ir --cascade")


def test_an_object_has_the_words_of_who_links_it(tile: Kernel, tmp_path: Path) -> None:
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler")
    (tmp_path / "o.c").write_text("int from_object(int n) { return 7 / n; }\nint its_own = 3;\n")
    subprocess.run([cc, "-c", "-O1", "o.c"], cwd=tmp_path, check=True)
    assert "it defines from_object, its_own" in tile.ok(f"%link {tmp_path / 'o.o'}")
    tile.ok("extern int from_object(int);")
    assert "at from_object" in tile.fails("from_object(0)")
    assert not re.search(r"@(from_object|its_own)", told(tile, "%symbols"))


def test_a_check_has_words_of_c(tile: Kernel, tmp_path: Path) -> None:
    folder = f"--folder {tmp_path}"
    tile.ok(
        f"%%exercise twice {folder}\n; task: double it\n; must: at most 9 instructions\n"
        "@used = global i32 0\ndefine i32 @twice(i32 %x) {\n  store i32 1, ptr @used\n"
        "  %r = shl i32 %x, 1\n  ret i32 %r\n}"
    )
    check = f"%check twice {folder}"
    cells = {
        f"%check {folder}": r"twice +int twice\(int\) +double it",
        check: r"twice is not defined; the exercise twice asks for int twice\(int\)",
        "long twice(long x) { return 2 * x; }": "",
        check + " ": r"twice is long twice\(long\), but .* asks for int twice\(int\)",
        "int twice(int x) { return 2 * x; }": "",
        check + "  ": "used is not defined, but the exercise asks for int used, as",
        "int used; int twice(int x) { used = 1; return x; }": "",
        check + "   ": r"twice\(1\): expected 2, got 1\n.*used = 0",
        "int used; int twice(int x) { return 2 * x; }": "",
        check + "    ": "expected to leave used = 1, left 0",
        "int used; int twice(int x) { used = 1; return 2 * x; }": "",
        check + "     ": "✓ twice: twice passed",
    }
    for cell, wanted in cells.items():
        shown = told(tile, cell)
        assert re.search(wanted, shown), (cell, shown)
        assert not WORDS_OF_IR.search(shown), (cell, shown)
