"""A cell defines what earlier ones took from a library; what is remembered of names, and how long."""

from __future__ import annotations

import pytest
from programs import constant

from jitkernel import Session
from jitkernel.languages.llvm.plan import Plan, parse_cell
from jitkernel.session.program.names import HiddenNames

#: LLVM knows the length of this text, and removes what another length would need.
KNOWN = """
@text = private constant [6 x i8] c"hello\\00"
@hidden = internal global i32 3
@state = global i32 1
declare i64 @strlen(ptr)
define i32 @n() {
  %l = call i64 @strlen(ptr @text)
  %c = icmp eq i64 %l, 5
  br i1 %c, label %known, label %other
known:
  ret i32 5
other:
  %h = load i32, ptr @hidden
  %i = add i32 %h, 1
  store i32 %i, ptr @hidden
  %s = load i32, ptr @state
  %r = add i32 %h, %s
  ret i32 %r
}"""
OWN = "define i64 @strlen(ptr %p) {\n  ret i64 42\n}"


def leave_and_return(s: Session, times: int) -> None:
    for _ in range(times):
        s.evict("n", force=True)
        s.undo()


@pytest.mark.parametrize("times", [0, 1, 2])
def test_the_users_of_a_library_s_function_are_compiled_again(s: Session, times: int) -> None:
    """Also where they have been away; their variables keep what they hold, at the same place."""
    number = s.run(KNOWN).cell.number
    s.run("@state = 7")
    address = s["state"].address
    leave_and_return(s, times)
    assert s.call("n") == 5
    told = [n for n in s.run(OWN).notes if "compiled again" in n]
    assert told == [
        f"@strlen is the session's own now; cell {number} used the library's and was compiled again"
    ]
    assert (s["state"].value, s["state"].address) == (7, address)
    assert [s.call("n"), s.call("n")] == [3 + 7, 4 + 7]
    s.check()


def test_who_is_gone_is_not_compiled_again(s: Session) -> None:
    s.run(KNOWN)
    s.evict("n", force=True)
    assert not any("compiled again" in n for n in s.run(OWN).notes)


def plan(*names: str) -> Plan:
    block = "\n".join(f"%{name} = add i32 1, 2" for name in names)
    return parse_cell("\n".join([*(f"@.{name} = private constant i8 0" for name in names), block]))


def test_the_latest_thousand_hidden_names_are_remembered() -> None:
    names = HiddenNames()
    for number in range(1, 13):
        names.add(plan(*(f"v{number}_{k}" for k in range(100))), number)
    for table, head in ((names.locals, ""), (names.private, ".")):
        assert len(table) == 1000
        assert set(table.values()) == set(range(3, 13)), "those of the first two cells went"
        assert table[f"{head}v12_99"] == 12


@pytest.mark.parametrize(
    ("count", "shown"), [(4, "@f0, @f1, @f2, @f3"), (5, "@f0, @f1, @f2 and 2 more")]
)
def test_four_that_move_are_named_and_three_of_more(s: Session, count: int, shown: str) -> None:
    module = "\n".join(constant(f"f{k}", k) for k in range(count))
    s.run(module, cell_id="a")
    notes = s.run(module, cell_id="a").notes
    assert any(n.endswith(f"{count} functions replaced: {shown}") for n in notes), notes


def test_functions_and_variables_that_move_are_symbols(s: Session) -> None:
    module = constant("f", 1) + "\n@g = global i32 1\n@h = global i32 2"
    s.run(module, cell_id="a")
    notes = s.run(module, cell_id="a").notes
    assert any("3 symbols replaced: " in n for n in notes), notes


def test_the_source_of_a_cell_stays_for_as_long_as_it_may_come_back(s: Session) -> None:
    """A cell of types alone that is there again; definitions for twenty steps, and not longer."""
    types = s.run("%pt = type { i32 }").cell.number
    s.evict(types)
    s.undo()
    assert types in [c.number for c in s.cells] and s.inspect.store.get(types) is not None
    cells = [s.run(constant("f", n)).cell.number for n in range(22)]
    assert [n for n in cells if s.inspect.store.get(n) is not None] == cells[1:]
