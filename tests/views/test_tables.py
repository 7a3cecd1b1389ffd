"""`%cells`, `%symbols` and `%context`: what long sessions show of themselves."""

from __future__ import annotations

import re

import pytest

from jitkernel import Session
from jitkernel.views import tables, view
from jitkernel.views.memory import contexts

MANY = 1500


def test_many_symbols_do_not_flood_the_notebook() -> None:
    with Session() as s:
        s.run("\n".join(f"@g{i} = global i32 {i}" for i in range(MANY)))
        symbols, cells = tables.symbols(s), tables.cells(s)
    lines = symbols.text.splitlines()
    assert len(lines) == 2 + tables.ROWS + 1
    assert lines[-1] == f"1,500 symbols; the first {tables.ROWS} are listed"
    assert symbols.html.count("<tr>") == 1 + tables.ROWS
    assert "@g19 and 1,480 more" in cells.html and "@g20 " not in cells.html
    assert cells.text.splitlines()[-1] == "1 cell"


def test_a_heading_without_words_is_none() -> None:
    """WCAG 1.3.1, axe's `empty-table-header`: a screen reader tells a heading with each cell."""
    rows = [("", 1), ("b", "")]
    assert "></th>" not in (html := view.table("Of what", ("", "#bytes"), rows).html)
    assert html.count('scope="col"') == html.count('scope="row"') == 1


def test_many_cells_are_counted() -> None:
    with Session() as s:
        s.run_many([f"@g{i} = global i8 0" for i in range(tables.ROWS + 10)])
        lines = tables.cells(s).text.splitlines()
    assert len(lines) == 2 + tables.ROWS + 1
    assert lines[2].split()[0] == "11"
    assert lines[-1] == f"{tables.ROWS + 10} cells; the last {tables.ROWS} are listed"


def test_a_cell_of_c_that_has_only_types_and_macros_is_named_by_them() -> None:
    pytest.importorskip("ziglang")
    with Session(capacity=64 << 20) as s:
        s.run("typedef long L; struct p { int x; };\n#define N 4\nenum { A };", "c")
        assert re.search(r"^ *1 +live +L p N A", tables.cells(s).text, re.MULTILINE)


def test_contexts_in_words() -> None:
    with Session(context="shared") as s:
        s.run("define i32 @f() {\n  ret i32 1\n}")
        text = contexts(s).text
    assert "cells use shared contexts; 1 LLVM context kept in the compiler" in text
