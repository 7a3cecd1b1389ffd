"""`%reproduce`: a fresh run of a notebook's cells beside it, in kernels and in a Python notebook."""

from __future__ import annotations

import time

import pytest

from jitkernel.kernel.client import (
    answers_of,
    code_cells,
    language_of,
    outputs_text,
    read_notebook,
    run_cell,
)
from tests.busy import strain, within
from tests.kernel.conftest import ROOT, Kernel

INPUT = "cell 15  no error  a request for input that nobody answers"


@pytest.mark.parametrize("name", ["tour.ipynb", pytest.param("c.ipynb", marks=pytest.mark.slow)])
def test_a_notebook_from_top_to_bottom(name) -> None:
    notebook = read_notebook(ROOT / "notebooks" / name)
    own = Kernel("--deterministic", *language_of(notebook), cwd=str(ROOT / "notebooks"))
    try:
        for cell in code_cells(notebook):
            run_cell(own.client, cell["source"], cell_id=cell["id"], answers=answers_of(cell))
        text = own.ok("%reproduce", cell_id="last")
        if name == "tour.ipynb":
            assert "gives what is here" in text
        else:  # where a user has typed something, nobody does
            assert "2 differences" in text and INPUT in text and "age" in text
    finally:
        own.stop()


@pytest.fixture(scope="module")
def used(kernel: Kernel) -> Kernel:
    kernel.ok("%%c\n#include <stdio.h>\nint n = 1, used = 2;", cell_id="a")
    kernel.ok('%%c\nn++; printf("%d\\n", n);', cell_id="b")
    kernel.ok("%%c\nint user(void) { return used; }", cell_id="c")
    kernel.ok("@limit = global i32 10", cell_id="d")
    return kernel


def test_cells_that_ran_twice_and_cells_with_another_text(used) -> None:
    assert "A fresh run of 4 cells" in (text := used.ok("%reproduce", cell_id="look"))
    assert "gives what is here" in text
    used.ok('%%c\nn++; printf("%d\\n", n);', cell_id="b")
    used.ok("@bound = global i32 10", cell_id="d")
    before = used.ok("%symbols") + used.ok("%undo --list") + used.ok("%memory --arena")
    text = used.ok("%reproduce", cell_id="look")
    assert "2 differences" not in text
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["n"], text
    assert used.ok("%symbols") + used.ok("%undo --list") + used.ok("%memory --arena") == before
    used.ok("%%c\nint n = 1;", cell_id="a")
    text = used.ok("%reproduce", cell_id="look")
    assert "CompileError" in text and "(no cell defines it any more)" in text


def test_cells_that_were_deleted(kernel) -> None:
    kernel.ok("%reset -f", cell_id="reset")
    kernel.ok("@a = global i32 1", cell_id="one")
    kernel.client.session.metadata = {"cellId": "two", "deletedCells": ["one"]}
    kernel.client.execute_interactive("%reproduce", output_hook=lambda message: None)
    text = kernel.ok("%reproduce", cell_id="three")
    assert "@a" in text and "(no cell defines it any more)" in text


def test_magics_within_cells_are_done_again(kernel) -> None:
    kernel.ok("%reset -f", cell_id="magics reset")
    kernel.ok("%lib -lz\n%opt -O0\ndefine i32 @low(i32 %x) {\n  %r = add i32 %x, 1\n  ret i32 %r\n}",
              cell_id="magics one")  # fmt: skip
    kernel.ok("declare ptr @zlibVersion()\n@v = global ptr null\n%p = call ptr @zlibVersion()\n"
              "store ptr %p, ptr @v", cell_id="magics two")  # fmt: skip
    kernel.ok("@gone = global i32 1\n%evict @gone", cell_id="magics three")
    kernel.ok("%time @low(3)", cell_id="magics four")
    text = kernel.ok("%reproduce")  # what other tests left may differ
    assert not [name for name in ("@low", "@v", "@gone") if name in text], text


def test_it_stands_alone_and_takes_seconds(kernel) -> None:
    assert "stands alone" in kernel.fails("@x = global i32 1\n%reproduce")
    assert "more than 0" in kernel.fails("%reproduce --timeout 0")


def test_the_stop_button_and_the_timeout(kernel) -> None:
    kernel.ok("%reset -f", cell_id="stop reset")
    kernel.ok("%%c\n#include <unistd.h>\nvolatile int go = 1;", cell_id="stop one")
    kernel.ok("%%c\ngo = 0;", cell_id="stop two")
    kernel.ok("%%c\nwhile (go) usleep(1000);", cell_id="stop three")
    kernel.ok("%%c\n(void)go;", cell_id="stop two")
    said = [kernel.ok("%reproduce --timeout 2")]
    while "time was up with 1 cell to go" not in said[-1]:  # no time for those before it
        assert "time was up with" in said[-1] and len(said) < 6
        said.append(kernel.ok(f"%reproduce --timeout {2 ** (len(said) + 1)}"))

    def taken() -> float:
        kernel.client.session.metadata = {"cellId": "stop"}
        identity = kernel.start("%reproduce")
        told = ""
        while "a fresh run, " not in told:
            told = str(kernel.client.get_iopub_msg(timeout=60)["content"].get("data", ""))
        began = time.monotonic()
        kernel.manager.interrupt_kernel()
        reply = kernel.reply_to(identity)
        end = time.monotonic()
        assert reply["ename"] == "Interrupted"
        kernel.iopub_of(identity)
        return end - began

    within(taken, 3 * strain())
    assert "i32 0" in kernel.ok("@go")


def test_a_python_notebook(tmp_path) -> None:
    from jitkernel.kernel.client import running_kernel

    def ok(source: str, cell_id: str) -> str:
        reply, outputs = run_cell(client, source, cell_id=cell_id)
        text = "\n".join(outputs_text(outputs))
        assert reply["status"] == "ok", text
        return text

    with running_kernel(tmp_path, (), python=True) as client:
        ok("%load_ext jitkernel\nimport jitkernel", "load")
        ok("%%c\nint n = 1; int twice(int x) { return 2 * x; }", "a")
        ok("%%c\nn = twice(n);", "b")
        ok("jitkernel.session.export_python('note', print, 'void (i32)')\n%jit lib -lz", "c")
        ok("%%c\nvoid note(int); note(n);", "d")
        assert "gives what is here" in ok("%jit reproduce", "look")
        ok("%%c\nn = twice(n);", "b")
        ok("twice(4)", "e")
        text = ok("%jit reproduce --timeout 100", "look")
        assert "1 difference" in text and text.splitlines()[-1].split() == ["n", "4", "2", "2"]
        ok("print('another text')", "a")
        assert "(no cell defines it any more)" in ok("%jit reproduce", "look")
