"""Views of C cells: lines of the cell, and the names that its author gave."""

from __future__ import annotations

import re

import pytest

from jitkernel import Session
from jitkernel.compiler.line_table import extent, line_table
from jitkernel.errors import Fault
from jitkernel.languages.c.clang import find_clang
from jitkernel.linker.disassembly import decode
from jitkernel.session import CellOptions
from jitkernel.views.asm import asm
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


MERGED = """struct item { struct item *next; int type, size[4]; };
void drop(struct item *);
static inline void gone(struct item *item) {
    if (item == 0) return;
    drop(item->next);
}
int is(const struct item *item) {
    if (item == 0)
        return 0;
    return (item->type & 255) == 16 || (item->type & 255) == 20;
}
void all(struct item **items, int count) {
    if (!items) return;
    while (count--)
        gone(items[count]);
}"""


def test_lines_are_those_that_clang_tells() -> None:
    """Of what LLVM makes of several instructions of one line, of heads, of what is in front of a
    loop: clang's own debug information is the oracle."""
    with Session(spare=False) as s:
        s.run('struct item;\nvoid drop(struct item *i) { __asm__ volatile(""); }', "c")
        s.run(MERGED, "c")
        request = s.inspect.request(2)
        told = find_clang("").compile(MERGED).text
        asked = request._replace(source=told, first_line=1, bodies=())
        made = s.inspect.engine.pool.compile(asked).object
        own = s.inspect.places.lines.of_cell(2)
        for name in ("is", "all"):
            symbol = s.symbols[name]
            begins = symbol.address - extent(made, name)[0]
            rows = [(begins + at, lines[0]) for _, at, lines in line_table(made)]
            code = s.inspect.engine.arena.read(symbol.address, symbol.size)
            ours, oracle = (
                [(i.address - symbol.address, i.mnemonic, i.line)
                 for i in decode(code, symbol.address, lines=lines)]
                for lines in (own, rows)
            )  # fmt: skip
            assert len({line for *_, line in ours}) > 2
            for our_one, told_one in zip(ours, oracle, strict=True):
                assert our_one == told_one or told_one[2] == 0, name
            assert name != "all" or ("movsxd", 14) in [one[1:] for one in ours]
