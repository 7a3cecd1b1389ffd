"""`Comparison`: what it finds between two sessions, and what is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from programs import EVERYTHING, run_cells

from jitkernel import Session
from jitkernel.session.report.differences import Comparison

pytestmark = pytest.mark.process


def differences(here: Session, there: Session) -> list[str]:
    """The differences, a line each."""
    return [str(found) for found in Comparison(here._core, there._core)]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Session, Session]]:
    """The same text, at other addresses and with other numbers of cells."""
    with Session(capacity=64 << 20) as here, Session(capacity=64 << 20) as there:
        there.run("int before[1000] = {1}; int first(void) { return before[0]; }", "c", "first")
        there.evict("first", cascade=True)
        for session in (here, there):
            run_cells(session, EVERYTHING)
        yield here, there


@pytest.fixture
def two(both: tuple[Session, Session]) -> Iterator[tuple[Session, Session]]:
    """The same, taken back after each test."""
    number = both[1].number
    yield both
    if both[1].number > number:
        both[1].undo(both[1].number - number)
    assert differences(*both) == []


def test_the_same_text_gives_the_same(two) -> None:
    assert differences(*two) == differences(*reversed(two)) == []


@pytest.mark.parametrize(
    ("language", "source", "kind", "name"),
    [
        ("c", "table[2].d = 1;", "value", "table[2].d"),
        ("c", "table[3].in[1].bits = 1;", "value", "table[3].in[1].bits"),
        ("c", "u = 1;", "value", "u"),
        ("c", "word[2] = 'o';", "value", "word"),
        ("c", "ld = 2;", "value", "ld"),
        ("c", "names[1] = names[0];", "value", "names[1]"),
        ("c", "names[1] = \"tow\";", "value", "names[1]"),
        ("c", "end = table;", "value", "end"),
        ("c", "fp = pick;", "value", "fp"),
        ("c", "fp = abs;", "value", "fp"),
        ("c", "out = stderr;", "value", "out"),
        ("c", "heap = 0;", "value", "heap"),
        ("c", "in = &table[1].c;", "value", "in"),
        ("c", "w = 5;", "value", "w"),
        ("c", "uu.i = 5;", "value", "uu"),
        ("c", "f(1)", "value", "f.calls"),
        ("c", "int f(int x) { static int calls = 2; return x; }", "code", "f"),
        ("c", "double g(double x) { return x * 1.5 + 2.5; }", "code", "g"),
        ("c", "int pick(int x) { switch (x) { case 1: return 55; case 2: puts(\"two\"); return 3;"
              " case 3: return 99; case 4: puts(\"vier\"); return 1; case 5: return 8; }"
              " return -1; }", "code", "pick"),
        ("c", "int u;", "type", "u"),
        ("c", "#define M 4L", "type", "M"),
        ("c", "enum colour { RED = 4, GREEN };", "type", "colour"),
        ("c", "union u2 { int i; };", "new", "u2"),
        ("c", "int more(void) { return 1; }", "new", "more"),
        ("llvm", "%pair = type { i32, i64 }", "type", "%pair"),
        ("llvm", "@n = i64 6", "value", "@n"),
        ("llvm", "define i24 @odd(i24 %x) {\n  %r = mul i24 %x, 5\n  ret i24 %r\n}", "code", "@odd"),
        ("kaleidoscope", "def twice(x) x * 3", "code", "twice"),
    ],
)  # fmt: skip
def test_what_differs_is_told(two, language, source, kind, name) -> None:
    here, there = two
    there.run(source, language)
    found = {(d.kind, d.name) for d in Comparison(here._core, there._core)}
    assert (kind, name) in found
    back = {(d.kind, d.name) for d in Comparison(there._core, here._core)}
    assert ({"new": "gone"}.get(kind, kind), name) in back


def test_thread_local_variables_are_compared(fresh) -> None:
    here, there = fresh(), fresh()
    for session in (here, there):
        session.run("_Thread_local int tl = 4; tl++;", "c")
    assert differences(here, there) == []
    there.run("tl = 9;", "c")
    assert differences(here, there) == ["tl is 5 here, and 9 in a fresh run"]


def test_code_is_the_same_wherever_its_tables_and_strings_lie(fresh) -> None:
    here, there = fresh(), fresh()
    source = EVERYTHING[3][1]
    other = (
        "int other(int x) { static int own; own = 4; puts(\"other\"); switch (x) { case 1: return 1;"
        " case 2: return 77; case 3: puts(\"o\"); break; case 4: return 8; case 5: return -8; }"
        " return 0; }\ndouble h(double x) { return x * 3.75; }\n"
    )  # fmt: skip
    here.run("#include <stdio.h>\n#define N 4\n" + source, "c")
    there.run("#include <stdio.h>\n#define N 4\n" + other + source, "c")
    assert {d.name for d in Comparison(here._core, there._core)} == {"other", "h"}


def test_nothing_of_either_changes(two) -> None:
    here, there = two

    def state(session: Session) -> object:
        zones = {
            n: (z.list.used, len(z.list.live)) for n, z in session._core.engine.arena.zones.items()
        }
        return zones, session.number, len(session.inspect.history.steps()), list(session.symbols)

    there.run("table[0].c = 5;", "c")
    before = state(here), state(there)
    assert differences(here, there)
    assert (state(here), state(there)) == before
    here.check()
    there.check()


def test_numbers_are_no_pointers(fresh) -> None:
    """A time, a count and an address of the heap are words of eight bytes alike."""
    here, there = fresh(), fresh()
    cell = "#include <stdlib.h>\nlong when = {}, many = {}, at, of; at = (long)malloc(9); of = (long)&at;"
    here.run(cell.format(1_700_000_000, 1 << 45), "c")
    there.run(cell.format(1_700_000_007, (1 << 45) + 8), "c")
    assert {d.name for d in Comparison(here._core, there._core)} == {"when", "many"}
    for session in (here, there):  # at places of both arenas where nothing is
        session.run("long inside;", "c")
        zone = session._core.engine.arena.zones["text"]
        session["inside"].value = (zone.start + zone.stop) // 2 + 7 * (session is here)
    assert {d.name for d in Comparison(here._core, there._core)} == {"when", "many", "inside"}
