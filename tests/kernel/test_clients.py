"""Clients that nobody wrote for this kernel run it unmodified; the command line; the tour."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitkernel.kernel.tour import advice
from tests.kernel.conftest import ROOT, alive, children, gone_within
from tests.seeds import few

SQ = "define i32 @sq(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}"


def notebook(path: Path, *sources: str, kernel: str = "jitkernel", **metadata: Any) -> Path:
    """A file with cells, of which the first has this metadata."""
    cells = [
        {
            "cell_type": "code", "id": f"cell-{number}", "source": source,
            "metadata": {} if number else metadata, "outputs": [], "execution_count": None,
        }
        for number, source in enumerate(sources)
    ]  # fmt: skip
    spec = {"name": kernel, "display_name": "x", "language": "llvm"}
    book = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book))
    return path


def run(*command: str, cwd: Path, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        **{"stdin": subprocess.DEVNULL, "timeout": 100, **options},
    )


def outputs(path: Path) -> str:
    cells = json.loads(path.read_text())["cells"]
    return json.dumps([c.get("outputs") for c in cells])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    folder = tmp_path / "some folder"
    folder.mkdir()
    return notebook(folder / "book.ipynb", SQ, "@sq(7)", '@puts("printed")')


@pytest.mark.slow
def test_jupyter_execute(book: Path) -> None:
    done = run("jupyter", "execute", "--inplace", book.name, cwd=book.parent)
    assert done.returncode == 0, done.stderr
    assert "i32 49" in outputs(book) and "printed" in outputs(book)


PARAMETERS = """\
@n = global i16 1
@made = i64 1
@x = double 0.5
@name = ptr "nobody"  ; whom to greet
@go = i1 false
@list = [2 x i32] [i32 1, i32 2]
@p = ptr @n"""
BIG = "%v = load double, ptr @x\n%c = fcmp ogt double %v, 1.0e300"


@pytest.mark.parametrize(
    ("kernel", "cells", "parameters", "shown"),
    few(
        [
            (
                "jitkernel",
                [PARAMETERS, BIG, "@n\n@made\n@puts(load @name)\n@go\n@list\n@p"],
                "n: -300\nmade: 7\nx: .inf\nname: 'ü\\\\\"'\ngo: true\nlist: [3, 4]\np: null\n",
                [
                    "i16 -300",
                    "i64 7",
                    '["i1 true"]',
                    'ü\\\\"',
                    "@go = i1 true",
                    "[i32 3, i32 4]",
                    "ptr null",
                ],
            ),
            (
                "jitkernel-kaleidoscope",
                ["def n() 1\ndef x() 2", "n()\nx()"],
                "n: -3\nx: 1.0e-7\n",
                ["-3.0", "1e-07"],
            ),
        ],
        1,
    ),
)
def test_parameters_of_papermill(
    tmp_path: Path, kernel: str, cells: list[str], parameters: str, shown: list[str]
) -> None:
    path = notebook(tmp_path / "book.ipynb", *cells, kernel=kernel, tags=["parameters"])
    given = tmp_path / "given.yaml"
    given.write_text(parameters)
    done = run(
        "papermill", path.name, "out.ipynb", "--no-progress-bar", "-f", given.name, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    text = outputs(tmp_path / "out.ipynb").encode().decode("unicode_escape")
    for words in shown:
        assert words in text, text


def test_papermill_describes_parameters(tmp_path: Path) -> None:
    path = notebook(tmp_path / "book.ipynb", PARAMETERS, tags=["parameters"])
    done = run("papermill", "--help-notebook", path.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "n: i16 (default 1)" in words
    assert 'name: ptr (default "nobody") whom to greet' in words
    assert "list: [2 x i32] (default [i32 1, i32 2])" in words


@pytest.mark.slow
def test_papermill_runs_what_fails_as_it_is_meant_to(tmp_path: Path) -> None:
    course = ROOT / "notebooks" / "course"
    shutil.copy(course / "01_bytes.ipynb", tmp_path)
    shutil.copytree(course / "exercises", tmp_path / "exercises")
    done = run("papermill", "01_bytes.ipynb", "out.ipynb", "--no-progress-bar", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "expected error" in outputs(tmp_path / "out.ipynb")


@pytest.mark.slow
def test_papermill_fails_where_nobody_meant_it(tmp_path: Path) -> None:
    path = notebook(tmp_path / "book.ipynb", "@no_such_function()", "@abs(-2)")
    done = run("papermill", path.name, "out.ipynb", "--no-progress-bar", cwd=tmp_path)
    assert done.returncode != 0
    assert "no_such_function" in done.stderr and "i32 2" not in outputs(tmp_path / "out.ipynb")


WAITS = """\
declare i32 @access(ptr, i32)
declare i32 @usleep(i32)
declare i32 @fflush(ptr)
@path = constant [3 x i8] c"go\\00"
define void @wait() {
entry:
  br label %again
again:
  %slept = call i32 @usleep(i32 1000)
  %missing = call i32 @access(ptr @path, i32 0)
  %c = icmp ne i32 %missing, 0
  br i1 %c, label %again, label %end
end:
  ret void
}
@puts("it waits")
@fflush(ptr null)
@wait()"""


def test_what_a_cell_prints_is_seen_while_it_runs(tmp_path: Path) -> None:
    path = notebook(tmp_path / "book.ipynb", WAITS, "@abs(-2)")
    command = [sys.executable, "-m", "jitkernel", "run", path.name]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "it waits\n"
        (tmp_path / "go").touch()
        rest = client.stdout.read()
    assert rest.endswith("i32 2\n") and "\nit waits" not in rest
    assert client.returncode == 0


def test_jupyter_run(tmp_path: Path) -> None:
    source = tmp_path / "program.ll"
    source.write_text(SQ + '\n@puts("from a file")\n@sq(7)\n')
    done = run("jupyter", "run", "--kernel=jitkernel", str(source), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "from a file" in done.stdout


def test_jupyter_console(tmp_path: Path) -> None:
    done = run(
        "jupyter_console",
        "--kernel=jitkernel",
        "--simple-prompt",
        cwd=tmp_path,
        stdin=None,
        input='@puts("in a console")\n%x = add i32 40, 2\nexit\n',
    )
    assert "in a console" in done.stdout, done.stdout + done.stderr
    assert "i32 42" in done.stdout


def test_our_console_takes_its_options_and_starts_without_a_warning(tmp_path: Path) -> None:
    done = run(
        "jitkernel", "console", "--simple-prompt",
        cwd=tmp_path, stdin=None, input='@puts("in a console")\nexit\n',
    )  # fmt: skip
    assert "in a console" in done.stdout, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert run("jitkernel", "doctor", "--no-such-option", cwd=tmp_path).returncode == 2


def test_our_console_with_another_kernel(tmp_path: Path) -> None:
    done = run(
        "jitkernel", "console", "--simple-prompt", "--kernel=jitkernel-kaleidoscope",
        cwd=tmp_path, stdin=None, input="20 + 1\nexit\n",
    )  # fmt: skip
    assert "21.0" in done.stdout, done.stdout + done.stderr


# -- our own command line --------------------------------------------------------------------


def test_run_a_file(tmp_path: Path) -> None:
    (tmp_path / "program.ll").write_text(SQ + '\n!echo shell\n@puts("hello")\n@sq(7)\n')
    done = run("jitkernel", "run", "program.ll", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "shell"
    assert done.stdout.splitlines()[-1] == "i32 49"


def test_run_reads_stdin(tmp_path: Path) -> None:
    (tmp_path / "program.ll").write_text("@getchar()")
    done = run("jitkernel", "run", "program.ll", cwd=tmp_path, stdin=None, input="A\n")
    assert done.stdout.strip() == "i32 65", done.stderr


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("%x = add 1, 2", 1, "program.ll, line 1, column 10"),
        ("@exit(3)", 3, ""),
        ("@abort()", 1, "abort"),
    ],
)
def test_run_reports_failures(tmp_path: Path, source: str, status: int, words: str) -> None:
    (tmp_path / "program.ll").write_text(source)
    done = run("jitkernel", "run", "program.ll", cwd=tmp_path)
    assert done.returncode == status
    assert words in done.stderr


def test_run_without_a_file_asks_for_that_alone(tmp_path: Path) -> None:
    done = run("jitkernel", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("required: FILE")


def test_run_a_notebook(book: Path) -> None:
    done = run("jitkernel", "run", str(book), cwd=book.parent)
    assert done.returncode == 0, done.stderr
    assert "i32 49" in done.stdout
    assert run("jitkernel", "run", "nothing.ll", cwd=book.parent).returncode == 1


def test_version_and_help(tmp_path: Path) -> None:
    assert run("jitkernel", "--version", cwd=tmp_path).stdout.startswith("jitkernel 0.")
    text = run("jitkernel", "--help", cwd=tmp_path).stdout
    for command in ("install", "run", "console", "doctor", "tour"):
        assert command in text


def test_doctor(tmp_path: Path) -> None:
    done = run("jitkernel", "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    for words in (
        "Linux",
        "memory files",
        "low addresses",
        "llvmlite",
        "a cell runs",
        "Jupyter sees",
    ):
        assert words in done.stdout
    assert "missing" not in done.stdout
    # No remedy names a package of this name elsewhere.
    assert "pip install 'jitkernel" not in done.stdout


def test_install_with_a_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "pre fix"
    done = run("jitkernel", "install", "--prefix", str(prefix), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = prefix / "share/jupyter/kernels/jitkernel"
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["argv"][0] == sys.executable
    assert (prefix / "share/jupyter/labextensions/jitkernel/static/remoteEntry.js").is_file()
    other = prefix / "share/jupyter/kernels/jitkernel-kaleidoscope"
    assert json.loads((other / "kernel.json").read_text())["language"] == "kaleidoscope"
    assert {"logo-32x32.png", "logo-64x64.png", "logo-svg.svg"} <= {
        p.name for p in folder.iterdir()
    }


def test_elsewhere_it_says_where_it_runs(tmp_path: Path) -> None:
    code = (
        "import platform, sys\n"
        "sys.platform = 'darwin'; platform.system = lambda: 'Darwin'\n"
        "platform.machine = lambda: 'arm64'\n"
        "from jitkernel.__main__ import main\n"
        "sys.exit(main(['{}']))"
    )
    code_of_import = code.replace(
        "from jitkernel.__main__ import main", "import jitkernel"
    ).replace("sys.exit(main(['{}']))", "from jitkernel import Session")
    done = subprocess.run(
        [sys.executable, "-c", code_of_import], capture_output=True, text=True, timeout=60
    )
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: jitkernel runs on Linux")
    for command in ("doctor", "tour"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(command)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "Linux x86-64" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


# -- the tour --------------------------------------------------------------------------------


def test_the_tour() -> None:
    before = children(os.getpid())
    done = run("jitkernel", "tour", cwd=ROOT, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout
    last = [line for line in done.stdout.splitlines() if "unexpected" in line][-1]
    assert last.startswith("12 cells, 3 expected errors, 0 unexpected, ")
    assert "\x1b" not in done.stdout
    assert done.stdout.count("expected error\n") == 3
    assert "Try next" in done.stdout
    assert not alive(children(os.getpid()) - before)


@pytest.mark.parametrize(
    ("name", "cells", "needs"), [("c", "18 cells, 4", ()), ("python", "35 cells, 3", ("numpy",))]
)
def test_the_tours_of_other_languages(name: str, cells: str, needs: tuple[str, ...]) -> None:
    for package in ("ziglang", *needs):
        pytest.importorskip(package)
    before = children(os.getpid())
    done = run("jitkernel", "tour", f"notebooks/{name}.ipynb", cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert f"{cells} expected errors, 0 unexpected, " in done.stdout
    assert not alive(children(os.getpid()) - before)


@pytest.mark.slow  # four workers are started twice; tests/portable has what it shows
def test_the_tour_on_dask(tmp_path: Path) -> None:
    """No process is left, whoever's child it is by now: one worker of the notebook is killed; and
    no file but the locks of Dask's own folder."""
    pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'jitkernel[dask]'"
    )
    done = run(
        "jitkernel", "tour", "notebooks/dask.ipynb", cwd=ROOT, timeout=170,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "15 cells, 1 expected error, 0 unexpected, " in done.stdout
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(p.suffix == ".lock" and p.parent.name == "dask-scratch-space" for p in left), left
    assert not gone_within(having(f"TMPDIR={tmp_path}"), 60)


def having(variable: str) -> set[int]:
    """The processes that have a variable of the environment."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
    return found


def test_a_notebook_is_run_in_its_own_language(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    content = json.loads((ROOT / "notebooks" / "c.ipynb").read_text())
    sources = ["#include <stdio.h>", 'int n;\nscanf("%d", &n);\nn + 1']
    content["cells"] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": s, "outputs": []}
        for i, s in enumerate(sources)
    ]
    content["cells"][1]["metadata"]["jitkernel"] = {"input": ["41"]}
    file = tmp_path / "input.ipynb"
    file.write_text(json.dumps(content))
    done = run("jitkernel", "run", str(file), cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "(int) 42")


def test_a_fault_of_a_file_is_told_by_its_name(tmp_path: Path) -> None:
    source = tmp_path / "a file.ll"
    source.write_text("define i32 @main() {\n  %v = load volatile i32, ptr null\n  ret i32 %v\n}\n")
    done = run("jitkernel", "run", source.name, cwd=tmp_path)
    assert done.returncode == 1 and "cell" not in done.stderr
    assert "at @main, a file.ll, line 2: %v = load volatile i32, ptr null\n" in done.stderr


def test_what_the_tour_advises_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a folder/bin/python")
    assert "'/a folder/bin/jitkernel' console" in advice()


def test_the_tour_notices_a_difference(tmp_path: Path) -> None:
    changed = tmp_path / "tour.ipynb"
    content = json.loads((ROOT / "notebooks" / "tour.ipynb").read_text())
    content["cells"] = [c for c in content["cells"] if c["cell_type"] == "code"][:2]
    content["cells"][1]["source"] = SQ + "\n@sq(8)"
    changed.write_text(json.dumps(content))
    done = run("jitkernel", "tour", str(changed), cwd=tmp_path)
    assert done.returncode == 1
    assert "2 cells, 0 expected errors, 1 unexpected" in done.stdout
    assert "+Out: i32 64" in done.stdout


@pytest.mark.parametrize(
    ("command", "name", "text", "words"),
    [
        ("tour", "a.ipynb", b"root:x:0:0", "it is not a notebook"),
        ("tour", "b.ipynb", b"[]", "it is not a notebook of format 4"),
        ("tour", "c.ipynb", b'{"nbformat": 4}', "it is not a notebook of format 4"),
        ("run", "d.ipynb", b"\x7fELF\xd0", "it is not a notebook"),
        ("run", "e.ll", b"\x7fELF\xd0", "it is no text"),
    ],
)
def test_files_that_are_something_else(
    tmp_path: Path, command: str, name: str, text: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    done = run("jitkernel", command, str(path), cwd=tmp_path)
    told = (done.stdout + done.stderr).strip()
    assert done.returncode == 1 and told.endswith(f"{path}: {words}") and "\n" not in told


def test_the_notebook_runs_in_any_client(tmp_path: Path) -> None:
    """The endless loop of the tour ends by itself, and the failing cells are tagged."""
    done = run(
        "nbconvert", "--to", "notebook", "--execute", "--output-dir", str(tmp_path),
        str(ROOT / "notebooks" / "tour.ipynb"), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
