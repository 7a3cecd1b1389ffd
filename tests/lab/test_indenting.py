"""Enter in a cell of JupyterLab: where the next line begins, and what moves as it is typed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.conftest import Lab
from tests.seeds import sampled

pytestmark = pytest.mark.slow

# What is typed, and the cell that it makes.
TYPED = [
    (
        "define i32 @f(i32 %x) {\nentry:\nbr label %loop\nloop:\n%s = call i32 @g(\ni32 1)\nret i32 %s\n}\n@f(1)",
        "define i32 @f(i32 %x) {\nentry:\n  br label %loop\nloop:\n  %s = call i32 @g(\n    i32 1)\n"
        "  ret i32 %s\n}\n@f(1)",
    ),
    (
        "switch i32 %x, label %a [\ni32 1, label %b\n]\nret void",
        "switch i32 %x, label %a [\n  i32 1, label %b\n]\nret void",
    ),
    # No bracket: in a text, in a comment.
    (
        '@s = constant [2 x i8] c"{\\00" ; {\n@s',
        '@s = constant [2 x i8] c"{\\00" ; {\n@s',
    ),
    (
        "%%llvm -O0\ndefine void @h() {\nret void\n}",
        "%%llvm -O0\ndefine void @h() {\n  ret void\n}",
    ),
    (
        "%%kaleidoscope\ndef fib(x)\n  if x < 3 then\n1\n",
        "%%kaleidoscope\ndef fib(x)\n  if x < 3 then\n    1\n    ",
    ),
    (
        "%%c\nint f(int x) {\nif (x) {\ng(\n1);\n}\nreturn x; // {\n}\nf(1)",
        "%%c\nint f(int x) {\n    if (x) {\n        g(\n            1);\n    }\n    return x; // {\n}\nf(1)",
    ),
    (
        "%%python\ndef f(x):\nif x:\nreturn {}\n",
        "%%python\ndef f(x):\n    if x:\n        return {}\n        ",
    ),
]


@pytest.fixture(scope="module")
def page(lab: Lab) -> Any:
    page = lab.notebook("jitkernel", [""] * len(TYPED))
    page.wait_for_function("()=>document.querySelectorAll('.jp-CodeCell .cm-content').length>3")
    yield page
    page.close()


@pytest.mark.parametrize("number", sampled(range(len(TYPED)), 2))
def test_the_next_line_begins_where_it_belongs(page: Any, number: int) -> None:
    typed, made = TYPED[number]
    page.locator(".jp-CodeCell .cm-content").nth(number).click()
    page.keyboard.type(typed)
    lines = page.evaluate(
        "n=>[...document.querySelectorAll('.jp-CodeCell')[n].querySelectorAll('.cm-line')]"
        ".map(e=>e.textContent)",
        number,
    )
    assert "\n".join(lines) == made
