"""Cells of several languages in one notebook, and the kernel whose own language is another."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel.kernel.install import KERNELS, kernelspec_source
from tests.kernel.conftest import ROOT, Kernel

FIB = "def fib(x)\n  if x < 3 then 1 else fib(x-1)+fib(x-2)"
IR = "define double @half(double %x) {\n  %y = fmul double %x, 0.5\n  ret double %y\n}"


@pytest.fixture(scope="module")
def tile() -> Iterator[Kernel]:
    """The kernel as the second launcher tile starts it."""
    spec = json.loads((kernelspec_source("jitkernel-kaleidoscope") / "kernel.json").read_text())
    running = Kernel(*[a for a in spec["argv"] if a.startswith("--JITKernel")])
    yield running
    running.stop()


def ask(kernel: Kernel, kind: str, code: str, *arguments: int) -> dict:
    identity = getattr(kernel.client, kind)(code, *arguments)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    return reply


def info(kernel: Kernel) -> dict:
    identity = kernel.client.kernel_info()
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    return reply


# -- in a notebook of IR -----------------------------------------------------------------------


def test_cells_of_both_languages_are_one_program(kernel: Kernel) -> None:
    kernel.ok(IR)
    assert kernel.result("%%kaleidoscope\ndef quarter(x) half(half(x));\nquarter(10)") == "2.5"
    assert kernel.result("@quarter(2.0)") == "double 0.5"


def test_options_and_help_of_the_cell_magic(kernel: Kernel) -> None:
    kernel.ok("%%kaleidoscope -O0\n" + FIB)
    assert kernel.result("%%kaleidoscope\nfib(20)") == "6765.0"
    assert "-O" in kernel.page("%%kaleidoscope?")
    assert "has no option --fast" in kernel.fails("%%kaleidoscope --fast\n1")


def test_lines_are_those_of_the_cell(kernel: Kernel) -> None:
    text = kernel.fails("%%kaleidoscope\n\n1 +\n  nope(2)")
    assert "line 4, column 3: there is no function `nope`" in text
    assert "  nope(2)\n    ^" in text
    kernel.ok("%%kaleidoscope\nextern nowhere(x)\ndef f(x)\n  x +\n  nowhere(x)")
    assert "line 5: nowhere(x)" in kernel.fails("%%kaleidoscope\nf(1)")


def test_the_views_are_of_its_ir_and_code(kernel: Kernel) -> None:
    kernel.ok("%%kaleidoscope\ndef shown(x) x * x")
    assert "fmul double" in kernel.ok("%ir @shown")
    assert "mulsd" in kernel.ok("%asm @shown")


def test_timing_a_cell_of_another_language(kernel: Kernel) -> None:
    assert "1.0" in kernel.ok("%%time\n%%kaleidoscope\n1")


def test_completion_and_inspection_follow_the_first_line(kernel: Kernel) -> None:
    kernel.ok(
        IR
        + "\n"
        + IR.replace("@half", "@i")
        .replace("double", "i32")
        .replace("fmul", "mul")
        .replace("0.5", "2")
    )
    kernel.ok("%%kaleidoscope\ndef halves(x) half(x) * 2")
    matches = ask(kernel, "complete", "%%kaleidoscope\nhal")["matches"]
    assert {"half", "halves"} <= set(matches)
    assert not [m for m in matches if m.startswith("@")]
    assert "extern" in ask(kernel, "complete", "%%kaleidoscope\next")["matches"]
    assert "i" not in ask(kernel, "complete", "%%kaleidoscope\ni")["matches"]
    code = "%%kaleidoscope\nhalf(2)"
    assert "half" in ask(kernel, "inspect", code, len(code) - 5)["data"]["text/plain"]
    assert "half" in ask(kernel, "inspect", code, len(code) - 1)["data"]["text/plain"]
    code = "%%kaleidoscope\nfor i = 1, i < 2 in i"
    assert "a loop" in ask(kernel, "inspect", code, 16)["data"]["text/plain"]


def test_files_are_read_in_the_language_of_their_ending(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "program.ks"
    file.write_text(FIB + "\nfib(10)\n")
    assert "55.0" in kernel.ok(f"%run {file}")
    done = subprocess.run(
        [sys.executable, "-m", "jitkernel", "run", str(file)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "55.0\n")


def test_the_list_of_languages(kernel: Kernel) -> None:
    text = kernel.ok("%language")
    assert "kaleidoscope" in text and "every cell without %%" in text


def test_a_language_from_a_file(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "numbers_language.py"
    file.write_text(
        "from jitkernel.languages import Language, Once, plan\n"
        "def read(source, known):\n"
        "    ir = f'define i64 @main() {{\\n  ret i64 {int(source)}\\n}}'\n"
        "    return plan(source, once=[Once(ir, 'main', source.strip())])\n"
        "LANGUAGE = Language('numbers', read)\n"
    )
    assert "there is no magic %%numbers" in kernel.fails("%%numbers\n42")
    assert "%%numbers cells are read by" in kernel.ok(f"%language {file}")
    assert kernel.result("%%numbers\n42") == "i64 42"
    assert "numbers failed on this cell: ValueError: invalid literal" in kernel.fails(
        "%%numbers\nforty-two"
    )


# -- in a notebook of Kaleidoscope -------------------------------------------------------------


def test_every_cell_is_kaleidoscope_there(tile: Kernel) -> None:
    tile.ok(FIB)
    assert tile.result("fib(10)") == "55.0"
    assert "Kaleidoscope" not in tile.fails("1 +")
    assert tile.result("%%llvm\n@fib(4.0)") == "double 3.0"
    assert "fib" in tile.ok("%who")
    assert "5.0" in tile.ok("%time fib(5)")
    assert "a call" in tile.ok("%timeit -n 10 -r 2 fib(10)")


def test_what_editors_are_told(tile: Kernel, kernel: Kernel) -> None:
    told = info(tile)["language_info"]
    assert (told["name"], told["pygments_lexer"], told["codemirror_mode"], told["file_extension"]) == (
        "kaleidoscope", "jitkernel-kaleidoscope", "kaleidoscope", ".ks",
    )  # fmt: skip
    assert info(tile)["banner"].count("Kaleidoscope") == 1
    assert info(kernel)["language_info"]["name"] == "llvm"


def test_enter_in_a_console(tile: Kernel) -> None:
    assert ask(tile, "is_complete", "def f(x)")["status"] == "incomplete"
    assert ask(tile, "is_complete", "f(1)")["status"] == "complete"
    assert ask(tile, "is_complete", "f(1))")["status"] == "invalid"
    assert ask(tile, "is_complete", "%%llvm\n@f()")["status"] == "incomplete"


def test_a_magic_and_an_operator_are_told_apart(tile: Kernel) -> None:
    tile.ok("def unary!(x) if x then 0 else 1;\ndef binary% 40 (a b) a;")
    assert tile.result("!0") == "1.0"
    assert tile.result("7 % 2") == "7.0"
    assert "unary!" in ask(tile, "inspect", "2 + !0", 4)["data"]["text/plain"]


@pytest.mark.parametrize("name", KERNELS[1:])
def test_the_other_tiles_are_the_same_kernel(name: str) -> None:
    first, other = (
        json.loads((kernelspec_source(n) / "kernel.json").read_text()) for n in (KERNELS[0], name)
    )
    assert other["argv"] == [
        *first["argv"][:4], f"--JITKernel.default_language={other['language']}", *first["argv"][4:],
    ]  # fmt: skip
    assert {k: v for k, v in first.items() if k not in ("argv", "display_name", "language")} == {
        k: v for k, v in other.items() if k not in ("argv", "display_name", "language")
    }


def test_a_default_language_that_is_not_there() -> None:
    from traitlets import TraitError

    from jitkernel.kernel.settings import JITKernelSettings

    with pytest.raises(TraitError, match="did you mean kaleidoscope"):
        JITKernelSettings(default_language="kaleidoskop")


def test_the_notebook_that_adds_a_language() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jitkernel", "tour", "notebooks/write_your_own_language.ipynb"],
        cwd=ROOT, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "4 expected errors, 0 unexpected" in done.stdout


def test_pygments_knows_it() -> None:
    from pygments.token import Error, Keyword, Name

    from jitkernel.languages.lexer import KaleidoscopeLexer

    text = "%%time\n" + FIB + "\ndef binary| 5 (a b) a # or\n.5 + fib(2);\n"
    tokens = list(KaleidoscopeLexer().get_tokens(text))
    assert not [t for t in tokens if t[0] is Error]
    assert (Keyword.Declaration, "def") in tokens and (Name.Function, "fib") in tokens
    assert (Keyword.Declaration, "binary") in tokens


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("define i32 @f() {\n  ret i32 7\n}", [("Keyword", "define"), ("Keyword", "ret")]),
        ("%%llvm -O3\n@f(7)", [("Comment.Preproc", "%%llvm -O3\n"), ("Name.Variable.Global", "@f")]),
        ("%%kaleidoscope\ndef g(x) x;", [("Keyword.Declaration", "def"), ("Name.Function", "g")]),
        ("%%time\n%%kaleidoscope\ndef g(x) x;", [("Keyword.Declaration", "def")]),
        ("%%python\nimport os", [("Keyword.Namespace", "import")]),
        ("%%pass p\nimport os", [("Keyword.Namespace", "import")]),
        ("%%c\nint f(void);", [("Keyword.Type", "int")]),
        ("%%c --sanitize\n%opt -O0\nint n = 7 % 4;\nn % 3\n%asm f\nf??", [
            ("Comment.Preproc", "%%c --sanitize\n"), ("Comment.Preproc", "%opt -O0"),
            ("Operator", "%"), ("Comment.Preproc", "%asm f"), ("Comment.Preproc", "f??"),
        ]),
        ("%%writefile a.py\nimport os", [("Keyword.Namespace", "import")]),
        ("%%writefile a.ll\nret void", [("Keyword", "ret")]),
        ("%%nobody-knows\nret void", [("Text", "ret void\n")]),
        ("%cells\n!ls -l\n%x = add i32 1, 2", [("Comment.Preproc", "%cells"), ("Keyword", "add"),
                                                ("Comment.Preproc", "!ls -l")]),
        ("?sq\nsq?", [("Comment.Preproc", "?sq"), ("Comment.Preproc", "sq?")]),
    ],
)  # fmt: skip
def test_colours_follow_the_first_line(cell: str, expected: list[tuple[str, str]]) -> None:
    from pygments.token import Error

    from jitkernel.languages.lexer import CellLexer

    tokens = list(CellLexer(stripall=True).get_tokens(cell))
    assert "".join(part for _, part in tokens).rstrip() == cell.rstrip()
    assert not [part for token, part in tokens if token is Error]
    found = [(str(token).removeprefix("Token."), part) for token, part in tokens]
    assert not [one for one in expected if one not in found], found


def test_no_cell_of_any_notebook_has_a_word_without_a_colour() -> None:
    from pygments.token import Error

    from jitkernel.languages.lexer import CellLexer

    folder = Path(__file__).parents[2] / "notebooks"
    books = [json.loads(path.read_text()) for path in folder.rglob("*.ipynb")]
    books = [book for book in books if book["metadata"]["kernelspec"]["name"] != "python3"]
    cells = [c for book in books for c in book["cells"] if c["cell_type"] == "code"]
    assert len(cells) > 200
    lexer = CellLexer(stripall=True)
    wrong = {p for c in cells for t, p in lexer.get_tokens("".join(c["source"])) if t is Error}
    assert wrong <= {"§"}  # which the lesson on words shows to be none
    assert {book["metadata"]["language_info"]["pygments_lexer"] for book in books} <= {
        "jitkernel", "jitkernel-c",
    }  # fmt: skip


def test_an_exported_notebook_has_the_colours_of_each_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As nbconvert finds the lexers of an installed package: by name, among all plugins."""
    nbformat = pytest.importorskip("nbformat")
    exporters = pytest.importorskip("nbconvert.exporters")
    import pygments.lexers

    from jitkernel.languages.lexer import CellLexer, KaleidoscopeCellLexer

    both = [CellLexer, KaleidoscopeCellLexer]
    names = pygments.lexers.get_lexer_by_name.__globals__
    monkeypatch.setitem(names, "find_plugin_lexers", lambda: iter(both))
    cell = nbformat.v4.new_code_cell
    for lexer, cells in (
        ("jitkernel", ["define void @f() {\n  ret void\n}", "%%kaleidoscope\ndef g(x) x;"]),
        ("jitkernel-kaleidoscope", ["%%llvm\ndefine void @f() {\n  ret void\n}", "def g(x) x;"]),
    ):
        book = nbformat.v4.new_notebook(
            cells=[cell(text) for text in cells],
            metadata={"language_info": {"name": "x", "pygments_lexer": lexer}},
        )
        html, _ = exporters.HTMLExporter().from_notebook_node(book)
        assert re.search(r'<span class="k">define</span>', html), lexer
        assert re.search(r'<span class="kd">def</span>', html), lexer
