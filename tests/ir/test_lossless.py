"""A text is its entities, and blanks and comments between them; a body its labels and instructions.

The corpus: the notebooks' own cells, what clang makes of C and C++, and all as LLVM prints it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from llvmlite import binding

from jitkernel.errors import CompileError
from jitkernel.ir.instructions import Instruction, blocks
from jitkernel.ir.keywords import OPCODES
from jitkernel.ir.module import entities
from jitkernel.ir.text import without_comments
from jitkernel.languages.llvm.assemble import assemble
from jitkernel.languages.llvm.plan import parse_cell
from tests.ir.test_module import NAMES, module_of

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("notebooks/**/*.ipynb"))
C = """
#include <stdarg.h>
typedef struct point { int x, y; struct point *next; } point;
static const char *words[] = { "one", "t\\"w}o", "; three" };
_Thread_local int mine = 3;
extern int theirs;
int table[300] = { 1, 2 };
__attribute__((constructor)) static void begin(void) { theirs = 1; }
int sum(int count, ...) {
    va_list list; va_start(list, count);
    int all = 0;
    for (int i = 0; i < count; i++) all += va_arg(list, int);
    va_end(list);
    switch (all) { case 1: return 5; case 70000: return 8; case -3: goto out; default: break; }
    __asm__("nop # } {" ::: "memory");
out:
    return all + words[all & 1][0];
}
point *turn(point p, double by) { static point kept; kept = p; kept.x *= by; return &kept; }
"""
CPP = """
struct Base { virtual ~Base(); virtual int f() = 0; };
Base::~Base() {}
int may(int);
int g(int n) { try { return may(n); } catch (int &e) { return e; } catch (...) { return -1; } }
"""


def check(text: str) -> None:
    """No code of a module is outside its entities, none of a body outside its instructions."""
    found = [*entities(text)]
    done, pieces = 0, []
    for entity, after in zip(found, [*found[1:], None], strict=True):
        end = min(entity.end, len(text) if after is None else after.start)
        between = text[done : entity.start]
        assert not without_comments(between).strip(), between
        pieces += [between, text[entity.start : end]]
        done = end
        if entity.kind == "define":
            body(text, *entity.body())
    assert not without_comments(text[done:]).strip()
    assert "".join([*pieces, text[done:]]) == text


def body(text: str, begin: int, end: int) -> None:
    done = begin + 1
    for block in blocks(text, begin + 1, end - 1):
        if block.label:
            assert not without_comments(text[done : block.start]).strip()
            done = block.start + len(block.label) + 1
        for start, stop in block.instructions:
            assert not without_comments(text[done:start]).strip()
            read = Instruction.read(text[start:stop])
            assert read.opcode in OPCODES or text.startswith(("#dbg_", "uselistorder"), start)
            done = stop
    assert not without_comments(text[done : end - 1]).strip()


def printed(text: str) -> str:
    return str(binding.parse_assembly(text, binding.create_context()))


@given(NAMES)
@settings(max_examples=50, derandomize=True)
def test_any_names(names: list[str]) -> None:
    text = module_of(names)
    check(text)
    check(printed(text))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_of_notebooks(path: Path) -> None:
    for cell in json.loads(path.read_text())["cells"]:
        try:
            plan = parse_cell("".join(cell["source"]))
        except CompileError:
            continue
        if cell["cell_type"] != "code" or not plan.entities:
            continue
        text = assemble(plan, part="entities").source
        check(text)
        try:
            check(printed(text))
        except RuntimeError:  # it needs other cells
            continue


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(("name", "source"), [("a.c", C), ("a.cpp", CPP)])
def test_what_clang_makes(name: str, source: str, level: str, tmp_path: Path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("there is no clang")
    (tmp_path / name).write_text(source)
    command = ["clang", level, "-g", "-S", "-emit-llvm", "-o", "-", name]
    text = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    check(text)
    check(printed(text))
