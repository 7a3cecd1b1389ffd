"""Every byte of the arena has one occupant, whatever the session has been through."""

from __future__ import annotations

from jitkernel.session.report.memory import STATES, occupancy

SQ = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"
USES = (
    "@table = global [2 x ptr] [ptr @sq, ptr @puts]\ndeclare i32 @puts(ptr)\n"
    '@text = constant [4 x i8] c"abc\\00"\n'
    "define i32 @use(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n  %p = call i32 @puts(ptr @text)\n"
    "  ret i32 %r\n}"
)


def prove(s) -> dict[str, list]:
    """The books of arena and occupants agree to the byte."""
    found = occupancy(s.inspect.engine, s.inspect.program)
    for zone, usage in s.inspect.engine.arena.usage().items():
        rows = found[zone]
        at = s.inspect.engine.arena.zones[zone].start
        for row in rows:
            assert row.start == at and row.size > 0 and row.state in STATES
            at = row.stop
        assert at == s.inspect.engine.arena.zones[zone].high
        held = [r for r in rows if r.state != "free"]
        assert sum(r.size - r.padding for r in held) == usage["used"]
        assert sum(r.padding for r in held) == usage["padding"]
        assert len(held) == usage["extents"]
    return found


def states(s, zone: str) -> dict[str, int]:
    """How many extents there are of each state; holes are from tests before."""
    found: dict[str, int] = {}
    for row in prove(s)[zone]:
        if row.state != "free":
            found[row.state] = found.get(row.state, 0) + 1
    return found


def test_an_empty_session(s):
    found = prove(s)
    assert [row.name for row in found["unwind"]][:1] == ["records that cells share"]


def test_cells_entries_and_slots_have_their_names(s):
    first = s.run(SQ).cell.number
    second = s.run(USES).cell.number
    rows = [row for zone in prove(s).values() for row in zone]
    assert {r.cell for r in rows if r.state == "live"} == {first, second}
    names = {r.name for r in rows if r.state == "entry"}
    assert {"entry of @sq", "entry of @puts", "GOT slot of @puts"} <= names


def test_data_of_an_evicted_cell_is_kept_for_undo(s):
    s.run("@g = global [100 x i64] zeroinitializer")
    assert states(s, "data") == {"live": 1}
    s.evict("g")
    assert states(s, "data") == {"undo": 1}
    s.undo()
    assert states(s, "data") == {"live": 1}


def test_a_hibernated_cell_leaves_its_data_and_stubs(s):
    s.run("@g = global i64 7\n" + SQ)
    (before,) = [r for r in prove(s)["text"] if r.state == "live"]
    s.hibernate("sq")
    assert states(s, "data") == {"hibernated": 1}
    (stub,) = [r for r in prove(s)["text"] if r.state == "hibernated"]
    assert (stub.cell, stub.size) == (before.cell, 16)
    assert s.call("sq", 3) == 9
    assert states(s, "data") == {"live": 1} and "hibernated" not in states(s, "text")


def test_calls_leave_thunks_and_strings(s):
    s.run(SQ + "\n@sq(3)")
    assert states(s, "text")["thunk"] >= 1
    s.run('@puts("a string that the cell owns")')
    (owner,) = [r for r in prove(s)["data"] if r.state == "live"]
    assert owner.cell == s.number and owner.name


def test_a_cell_without_definitions_of_its_own_is_superseded(s):
    s.run(SQ + "\n@keep = global i32 1", cell_id="a")
    s.run("define i32 @user() {\n  %v = load i32, ptr @keep\n  ret i32 %v\n}")
    s.run(SQ.replace("mul", "add"))
    prove(s)
