"""`Session.inspect`: what views may look at, and that looking changes nothing."""

from __future__ import annotations

import inspect
from operator import attrgetter

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.inspect import Inspect
from jitkernel.session.report.memory import occupancy

SQUARE = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n@n = global i32 5"
PUBLIC = [name for name in vars(Inspect) if not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_all_of_it_is_documented_and_typed(name: str) -> None:
    member = vars(Inspect)[name]
    function = member.fget if isinstance(member, property) else member
    assert inspect.getdoc(function)
    assert "return" in inspect.unwrap(function).__annotations__
    assert not isinstance(member, property) or member.fset is None


def test_cells_by_number_and_name(s: Session) -> None:
    s.run(SQUARE)
    look, number = s.inspect, s.cells[-1].number
    for target in (None, number):
        cell, names = look.cell_of(target)
        assert cell.number == number and sorted(names) == ["n", "sq"]
    assert look.cell_of("@sq")[1] == look.cell_of("sq")[1] == ["sq"]
    with pytest.raises(UsageError, match="did you mean @sq"):
        look.cell_of("sqq")
    with pytest.raises(UsageError, match="never ran"):
        look.cell_of(number + 7)
    s.run("declare i32 @later()\ndeclare i32 @getpid()\ndefine i32 @use() {\n"
          "  %a = call i32 @later()\n  %b = call i32 @getpid()\n  ret i32 %b\n}")  # fmt: skip
    with pytest.raises(UsageError, match="no cell defines @later: it is only declared"):
        look.cell_of("later")
    with pytest.raises(UsageError, match="no cell defines @getpid: a library has it"):
        look.cell_of("@getpid")
    s.evict("sq", force=True)
    with pytest.raises(UsageError, match=f"no cell defines @sq: cell {number}.* was evicted"):
        look.cell_of("sq")


def test_code_and_where_it_is(s: Session) -> None:
    s.run(SQUARE)
    look, symbol = s.inspect, s.symbols["sq"]
    made = look.link_map(symbol.cell)
    assert made is not None and any(m.name == "sq" for m in made.symbols)
    assert symbol.address in look.engine.arena and "@sq" in look.name_of(symbol.address)
    assert len(look.engine.arena.read(symbol.address, symbol.size)) == symbol.size
    assert look.engine.arena.zones["text"].list.used >= symbol.size
    assert any(o.cell == symbol.cell for o in occupancy(look.engine, look.program)["text"])
    assert look.program.linker.sizes(look.object(symbol.cell))["text"] >= symbol.size


def test_looking_changes_nothing(s: Session) -> None:
    s.run(SQUARE)
    before = s.memory()["zones"]
    look, number = s.inspect, s.cells[-1].number
    assert look.traced(lambda of: of.passes(look.request(number))).ran
    assert "@sq" in look.engine.pool.printed(look.request(number), optimised=False)
    assert "@sq" in look.engine.pool.printed(look.request(number))
    assert occupancy(look.engine, look.program) and look.places.lines.of_cell(number)
    assert s.memory()["zones"] == before
    assert look.history.steps()[0].cell == number
    assert s.call("sq", 7) == 49


def test_what_is_no_part_of_it_is_not_passed_on(s: Session) -> None:
    with pytest.raises(AttributeError, match=r"Session\.inspect has no attribute 'lock'"):
        attrgetter("lock")(s.inspect)
