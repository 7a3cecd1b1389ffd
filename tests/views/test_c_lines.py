"""Views of C cells: lines of the cell, and the names that its author gave."""

from __future__ import annotations

import re

import pytest

from jitkernel import Session
from jitkernel.errors import Fault
from jitkernel.session import CellOptions
from jitkernel.views.asm import asm, decode
from jitkernel.views.compare import compare
from jitkernel.views.foreign import foreign
from jitkernel.views.ir import ir
from jitkernel.views.tables import cells, symbols

pytest.importorskip("ziglang")

SUM = """static inline int add(int a, int b) { return a + b; }
int sum(int n) {
    int r = 0;
    for (int i = 0; i < n; i++)
        r = add(r, i);
    return r;
}
_Thread_local int mine = 5;
int next(void) { return ++mine; }"""


@pytest.fixture
def session():
    with Session(cpu="x86-64-v2") as made:
        made.run(SUM, "c")
        yield made


def numbered(text: str) -> set[int]:
    """The lines of the cell that stand at instructions."""
    return {int(n) for n in re.findall(r"^ *(\d+) .*\b(?:mov|ret|add|call|jl?e?)\b", text, re.M)}


def test_machine_code_has_lines_of_the_cell(session: Session) -> None:
    text = asm(session, "sum").text
    assert numbered(text) and numbered(text) <= {3, 4, 5, 6}
    assert "4      for (int i = 0; i < n; i++)" in text


def test_levels_side_by_side_have_them_too(session: Session) -> None:
    text = compare(session, "sum", levels=[0, 2]).text
    found = numbered(text.partition("Side by side")[2].partition("Lines of")[0])
    assert found and found <= {2, 3, 4, 5, 6}
    assert "4      for (int i = 0; i < n; i++)" in text
    assert "call add" in text
    assert "inline" not in text.partition("Lines of")[0]


def test_other_machines_have_them_too(session: Session) -> None:
    text = foreign(session, "sum", "aarch64").text
    assert "4      for (int i = 0; i < n; i++)" in text
    assert "Lines of cell 1" in text


def test_the_ir_says_where_it_comes_from(session: Session) -> None:
    assert "; line 5" in ir(session, "sum").text


def test_a_threads_variable_has_its_own_name(session: Session) -> None:
    for text in (symbols(session).text, cells(session).text, asm(session, "next").text):
        assert "mine" in text and "emutls_v" not in text


def test_a_failed_check_is_one_instruction() -> None:
    code = bytes.fromhex("67 0f b9 40 14 c3 67 0f b9 00 c3")
    assert [(len(i.code), i.mnemonic) for i in decode(code, 4096)] == [
        (5, "ud1"), (1, "ret"), (4, "ud1"), (1, "ret"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("int get(int *p) {\n  int one = 1;\n  return *p + one;\n}\nget(0)", "line 3: return *p + one;"),
        ("#include <assert.h>\nint n = 3;\nassert(n == 4);", "line 3: assert(n == 4);"),
        ("#include <assert.h>\nvoid f(int n) {\n  assert(n == 4);\n}\nf(3);", "line 3: assert(n == 4);"),
        ("int z;\n7 / z", "line 2: 7 / z"),
        ("#include <stdlib.h>\nint z;\n  abort();", "line 3: abort();"),
    ],
)  # fmt: skip
def test_faults_name_the_line_of_c(session: Session, source: str, told: str) -> None:
    with pytest.raises(Fault) as caught:
        session.run(source, "c")
    assert told in str(caught.value) and "free text" not in str(caught.value)
    assert "__jk" not in str(caught.value)


def test_what_was_undefined_is_told_at_its_line(session: Session) -> None:
    with pytest.raises(Fault, match="undefined behaviour: an addition") as caught:
        session.run(
            "int f(int a) {\n  a += 1;\n  return a;\n}\nf(2147483647)", "c",
            options=CellOptions(sanitize=True),
        )  # fmt: skip
    assert "line 2: a += 1;" in str(caught.value)
