"""Views and faults of IR that `clang -g` wrote: lines of the cell, those of the C file beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import Fault
from jitkernel.session.settings import CellOptions
from jitkernel.views import asm, compare, explain, passes, stack

WALK = (Path(__file__).parent.parent / "data" / "walk_g_O0.ll").read_text()
LOAD = "%6 = load i32, ptr %5, align 8 ; walk.c:19"  # in @first, line 58 of the module


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        s.run(WALK, options=CellOptions(ignore_optnone=True))
        yield s


def number(text: str) -> int:
    return 1 + next(i for i, t in enumerate(WALK.split("\n")) if text in t)


def test_a_fault(session: Session) -> None:
    line = number("%6 = load i32, ptr %5")
    with pytest.raises(Fault) as caught:
        session.run("@first(null)")
    assert f"\nat @first+4, cell 1, line {line}: {LOAD}\n" in str(caught.value)
    rows = [row.split() for row in stack(session).text.splitlines() if row.startswith("#0 ")]
    assert rows[0][4:9] == [str(line), "%6", "=", "load", "i32,"]


@pytest.mark.parametrize("view", [asm, explain, lambda s, t: compare(s, t, levels=(0, 2))])
def test_lines_of_the_cell(session: Session, view) -> None:
    text = view(session, "first").text
    lines = text.partition("Lines of cell 1\n")[2].split("\n")
    line = number("%6 = load i32, ptr %5")
    assert any(row.split() == [str(line), *LOAD.split()] for row in lines)
    assert not any(row.lstrip("0123456789 ").startswith("!") for row in lines if row[:1].isdigit())


def test_passes_do_not_show_numbers_of_metadata(session: Session) -> None:
    text = passes(session, "total").text
    assert "inline" in text and "!dbg" not in text and "#dbg_" not in text
    whole = passes(session, "total", everything=True).text
    assert "!dbg" in whole or "#dbg_" in whole
