"""The arena's map: its sums, its picture, few cells and many."""

from __future__ import annotations

import re

import pytest
from stripped import pictures

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.report.memory import Occupant
from jitkernel.views import arena
from jitkernel.views.arena import FILLS, PARTS, letter, level, parts
from jitkernel.views.svg import PAPER

SQ = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"


def number(text: str) -> int:
    return int(text.replace(",", ""))


def row(text: str, name: str) -> list[int]:
    (line,) = re.findall(rf"^{re.escape(name)} +([\d, ]+)$", text, re.M)
    return [number(word) for word in line.split()]


def stripped(html: str) -> str:
    """What is left where styling, classes, identities and inline SVG are dropped."""
    html = re.sub(r'\s(?:style|class|id)="[^"]*"', "", html)
    return re.sub(r"<svg.*?</svg>", "", html, flags=re.S)


def words(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", stripped(html))


def few(s: Session) -> None:
    s.run(SQ)
    s.run("@g = global i64 5\ndefine i64 @h() {\n  %v = load i64, ptr @g\n  ret i64 %v\n}")
    s.run("@old = global [3 x i64] zeroinitializer")
    s.run("define i32 @tmp() {\n  ret i32 1\n}")
    s.run("define i32 @last() {\n  ret i32 1\n}")
    s.evict("old")
    s.evict("tmp")


def many(s: Session) -> None:
    s.run_many(
        [f"@v{i} = global i32 {i}\ndefine i32 @f{i}() {{\n  ret i32 {i}\n}}" for i in range(150)]
    )
    for i in range(0, 150, 3):
        s.evict(f"f{i}", force=True)


@pytest.mark.parametrize("fill", [lambda s: None, few, many], ids=["empty", "few", "many"])
def test_every_column_adds_up_to_the_byte(s, fill):
    fill(s)
    text = arena(s).text
    before = text[: text.index("= up to high water")].splitlines()[2:]
    sizes = [[number(w) for w in re.split(r"  +", line)[-5:]] for line in before]
    sums = [sum(column) for column in zip(*sizes, strict=True)]
    high = row(text, "= up to high water")
    assert sums == high
    assert high[-1] == sum(high[:-1])
    never, capacity = row(text, "never used"), row(text, "= capacity")
    assert [h + n for h, n in zip(high, never, strict=True)] == capacity


def test_few_extents_are_listed_each_with_its_cell(s):
    few(s)
    text = arena(s).text
    first = s.cells[0].number
    assert re.search(rf"^0x[0-9a-f]+ +\d+ +\d+ +live +{first} +@sq$", text, re.M)
    assert re.search(r"^0x[0-9a-f]+ +24 +8 +undo$", text, re.M)
    assert re.search(r"^0x[0-9a-f]+ +16 +free$", text, re.M)


def test_many_extents_are_counted_in_parts(s):
    many(s)
    view = arena(s)
    assert "%arena text lists the parts" in view.text
    assert len(view.text.splitlines()) < 60
    listed = arena(s, "text").text
    assert len(re.findall(r"^ *\d+  0x", listed, re.M)) <= PARTS
    assert "%arena text NUMBER lists" in listed
    free = sum(
        number(m) for m in re.findall(r"^ *\d+  0x\w+ .*? +(\d+) +\d+  +\d+ to", listed, re.M)
    )
    assert free == row(listed, "free, poisoned")[0]


def test_a_part_is_listed_extent_by_extent(s):
    many(s)
    parts = re.findall(r"^ *(\d+)  (0x\w+)", arena(s, "text").text, re.M)
    seen = []
    for number, _ in parts:
        view = arena(s, "text", int(number))
        rows = re.findall(r"^(0x\w+) ", view.text, re.M)
        assert f"text, part {number} of {len(parts)}: " in view.text and rows
        assert "<img " in view.html and "<table>" in view.html
        seen += rows
    zone = s.inspect.engine.arena.zones["text"].list
    below = [
        start for start, _ in zone.holes() if start < s.inspect.engine.arena.zones["text"].high
    ]
    assert {int(a, 16) for a in seen} == {*zone.live, *below}
    with pytest.raises(UsageError, match=f"no part 99: it has {len(parts)}"):
        arena(s, "text", 99)
    with pytest.raises(UsageError, match="of which zone"):
        arena(s, part=1)


@pytest.mark.parametrize("fill", [lambda s: None, few, many], ids=["empty", "few", "many"])
def test_it_holds_without_styling(s, fill):
    fill(s)
    view = arena(s)
    assert all(len(line) <= 100 for line in view.text.splitlines())
    (image,) = re.findall(r"<img [^>]*>", view.html)
    (alt,) = re.findall(r'alt="([^"]*)"', image)
    shown = words(view.html)
    for found in re.findall(r"\d[\d,]*(?= bytes)", alt):
        assert found in shown
    for figure in re.findall(r"(?<![\w.])\d[\d,]*(?![\w.])", view.text.partition("\n\n")[0]):
        assert figure in shown
    svg = pictures(image)[0][0]
    assert "script" not in svg and "foreignObject" not in svg and f'fill="{PAPER}"' in svg
    xs = [float(x) for x in re.findall(r' x="([\d.]+)"', svg)]
    assert max(xs) <= 740


def test_parts_add_up_and_holes_are_seen():
    occupants = [
        Occupant("text", 0x1000, 64, 10, "live", 1, ""),
        Occupant("text", 0x1040, 96, 0, "free", 0, ""),
        Occupant("text", 0x10A0, 16, 0, "entry", 0, "entry of @f"),
    ]
    found = parts(occupants, 16)
    assert [p.size for p in found] == [16] * 11
    assert "".join(map(letter, found)) == "LLLL......E"
    assert "".join(map(level, found)) == "████      █"
    # 5,000 extents of 48 bytes, every fifth free: 240,000 bytes in 64 parts of 3,760.
    rows = [
        Occupant("text", i * 48, 48, 0, "free" if i % 5 == 0 else "live", i, "")
        for i in range(5000)
    ]
    found = parts(rows, 16)
    assert len(found) == 64 and {p.size for p in found[:-1]} == {3760}
    assert all(sum(p.states.values()) == p.size for p in found)
    assert sum(p.states["free"] for p in found) == 48_000
    assert set(map(letter, found)) == {"l"} and set(map(level, found)) == {"▇"}


def test_an_unused_part_is_told_from_one_that_is_barely_used():
    (part,) = parts([Occupant("text", 0, 16, 0, "free", 0, "")], 16)
    assert level(part) == " " and letter(part) == "."


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_dark_text_can_be_read_on_every_fill(fill):
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    ratio = (luminance(fill.colour) + 0.05) / (luminance("#1a1a1a") + 0.05)
    assert ratio >= 4.5


def test_every_state_has_a_pattern_of_its_own():
    strokes = [fill.strokes for fill in FILLS.values()]
    assert len(set(strokes)) == len(strokes)
