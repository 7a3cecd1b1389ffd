"""What a view has no room for is counted, and the command is named that shows it: whatever is shown,
no form of it is larger than a display has room for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from jitkernel import Session, views
from jitkernel.ir.printed import matching
from jitkernel.kernel.magics import MAGICS
from jitkernel.kernel.magics.parsing import parse, room
from jitkernel.views.lines import Line
from jitkernel.views.panes import fitting
from jitkernel.views.room import LARGEST, Room
from jitkernel.views.sides import Piece, sides
from jitkernel.views.view import View, join, listing, paragraph, table


def test_lines_are_taken_while_there_is_room() -> None:
    four = ["ab", "cd", "ef", "gh"]  # three bytes each, with the ends of lines
    assert Room("%ir f --all", size=12).lines(four) == four
    shown = Room("%ir f --all", size=11)
    assert shown.lines(four) == ["ab", "cd", "ef", "… 1 more line; %ir f --all shows all"]
    assert shown.full and shown.lines(["x"]) == ["… 1 more line; %ir f --all shows all"]
    assert Room(lines=1).lines(four) == ["ab", "… 3 more lines"]
    assert Room("", True, size=1, lines=1).within(1).lines(four) == four
    assert Room(size=10).lines(["<<<", "x"]) == ["… 2 more lines"]  # each of them is `&lt;`
    assert Room(size=8).lines(["é" * 3, "x"]) == ["é" * 3, "… 1 more line"]


NAME = "n" * 4_000
PARTS = [Piece(f"@{NAME}{n}", [NAME], [f"{NAME} {n}"], []) for n in range(90)]
LONG = [f"%{n} = {NAME}" for n in range(200)]
MANY: dict[str, Callable[[], View]] = {
    "listing": lambda: listing("t", "\n".join(LONG)),
    "one line": lambda: listing("t", NAME * 200),
    "markup": lambda: listing("t", "<\n" * 100_000),
    "table": lambda: table("t", ["name", "#n"], [(NAME, n) for n in range(150)]),
    "difference": lambda: sides(
        [Piece("", LONG, LONG[::-1], matching(LONG[:9], LONG[:9]))], Room()
    ),
    "parts": lambda: sides(PARTS, Room()),
    "titles": lambda: join([listing(NAME, "x") for _ in range(150)]),
    "tables": lambda: join([table(NAME, ["name"], [(NAME,)] * 9) for _ in range(30)]),
    "sentences": lambda: join([paragraph(f"{n} {NAME}") for n in range(150)]),
}


@pytest.mark.parametrize("what", MANY)
def test_no_display_is_larger_than_that(what: str) -> None:
    view = MANY[what]()
    assert max(len(view.html.encode()), len(view.text.encode())) <= LARGEST
    assert " more " in view.text and " more " in view.html


def test_runs_of_panes_take_room() -> None:
    cells = [[Line("x") for _ in range(9)]] * 9
    assert sum(map(len, fitting(cells, Room(size=2 * 20)))) == 20
    assert fitting(cells, Room()) == cells


SHOWN: dict[str, Callable[[Session, Room], View]] = {
    "%ir f": lambda s, room: views.ir(s, "f", room=room),
    "%ir f --raw": lambda s, room: views.ir(s, "f", "raw", room),
    "%asm f": lambda s, room: views.asm(s, "f", room=room),
    "%asm f --source": lambda s, room: views.linked(s, "f", ir=False, room=room),
    "%mir f": lambda s, room: views.mir(s, "f", room=room),
    "%mir f --final": lambda s, room: views.mir(s, "f", "final", room=room),
    "%compare f -O0 -O1": lambda s, room: views.compare(s, "f", levels=[0, 1], room=room),
    "%object f": lambda s, room: views.object(s, "f", room.endless),
}


@pytest.fixture(scope="module")
def large() -> Iterator[Session]:
    count, name, g = 1_000, "a" * 150, "g" * 250
    body = "".join(
        f"  %{name}{n + 1} = mul i32 %{name}{n}, %{name}{n}\n  call void @{g}(i32 %{name}{n})\n"
        for n in range(count)
    )
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(f"define void @{g}(i32 %x) noinline optnone {{\n  ret void\n}}")
        s.run(f"define i32 @f(i32 %{name}0) {{\n{body}  ret i32 %{name}{count}\n}}")
        yield s


@pytest.mark.parametrize("typed", SHOWN)
def test_the_command_that_is_named_shows_all(large: Session, typed: str) -> None:
    name, _, line = typed[1:].partition(" ")
    magic = MAGICS.find(name, "line")
    part, every = (
        SHOWN[typed](large, room(parse(magic, given))) for given in (line, f"{line} --all")
    )
    assert len(part.html) <= LARGEST < len(every.html)
    said = r"(…|a loop.) [\d,]+ more lines( are not shown)?[;:] %.* shows all\b|--all lists all"
    assert re.search(said, " ".join(part.text.split()))
    assert not re.search(r"[\d,]+ more|--all", every.text + every.html)


def test_a_line_that_is_cut_names_the_command_too() -> None:
    (line,) = Room("%ir f --all").lines(["x" * 20_005])
    assert line.endswith("x… 5 more letters; %ir f --all shows all")


def test_of_many_functions_those_left_out_are_counted() -> None:
    body = "  int y = x * {0};\n  return y / 3 + x;\n"
    every = [f"int f{n}(int x) {{\n{body.format(n)}}}\n" for n in range(200)]
    with Session(capacity=64 << 20, spare=False) as s:
        s.run("".join(every), "c")
        for stage in ("", "final"):
            text = views.mir(s, 1, stage, room=Room("%mir 1 --all")).text
            said = re.search(r"^… (\d+) more functions; %mir 1 --all shows all$", text, re.M)
            assert said and int(said[1]) + text.count("Machine IR of ") == len(every)
            assert "Left out: " in text
