"""`%memory`: one sum, exact; the same in HTML without styling; the plot's numbers in words."""

from __future__ import annotations

import re

import pytest
from stripped import pictures

from jitkernel.session.report.memory import Sample
from jitkernel.views import memory
from jitkernel.views.memory import FILLS, HEIGHT, WIDTH, plot
from jitkernel.views.svg import PAPER
from jitkernel.views.view import sparkline

CELLS = [
    "@g = global [5000 x i64] zeroinitializer\ndefine i32 @one() {\n  ret i32 1\n}",
    "@one()",
]


def rows(text: str) -> dict[str, int]:
    found = re.findall(r"^(.+?) {2,}(\d[\d,]*)(?:  .*)?$", text.partition("\n\n")[0], re.M)
    return {name: int(size.replace(",", "")) for name, size in found}


def words(html: str) -> str:
    html = re.sub(r"<svg.*?</svg>", "", html, flags=re.S)
    html = re.sub(r'\s(?:style|class|id)="[^"]*"', "", html)
    return re.sub(r"<[^>]+>", " ", html)


def test_the_rows_add_up_to_the_total_to_the_byte(session):
    found = rows(memory(session).text)
    total = found.pop("total")
    assert {"slab, data", "kernel process", "executor", "program and library files"} <= set(found)
    assert sum(found.values()) == total


def test_the_slab_is_counted_once(session):
    found = rows(memory(session).text)
    slab = sum(size for name, size in found.items() if name.startswith("slab"))
    assert slab == session.inspect.engine.arena.resident()
    before = found["kernel process"], found["executor"]
    # 8 MiB of zeros that the program writes over are pages of the slab, of no process.
    session.run("@big = global [8388608 x i8] zeroinitializer")
    session.run(
        "%p = call ptr @memset(ptr @big, i32 1, i64 8388608)\ndeclare ptr @memset(ptr, i32, i64)"
    )
    after = rows(memory(session).text)
    assert after["slab, data"] - found["slab, data"] >= 8 << 20
    assert after["executor"] - before[1] < 2 << 20


def test_it_holds_without_styling(session):
    view = memory(session, over_time=True)
    assert all(len(line) <= 100 for line in view.text.splitlines())
    shown = words(view.html)
    for number in re.findall(r"(?<![\w.])\d[\d,.]*(?! sample)(?=[\s;])", view.text):
        assert number in shown
    (image,) = re.findall(r"<img [^>]*>", view.html)
    (alt,) = re.findall(r'alt="([^"]+)"', image)
    assert re.search(r"\d MiB now, at most", alt)


def samples(count: int) -> list[Sample]:
    mib = 1 << 20
    return [Sample(i + 1, i / 10, i * mib, 20 * mib, 4 * mib, 40 * mib) for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 240])
def test_the_plot_stays_on_its_card(count):
    html = plot(samples(count)).html
    svg = pictures(html)[0][0]
    points = [p.split(",") for row in re.findall(r'points="([^"]+)"', svg) for p in row.split()]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)
    assert f'fill="{PAPER}"' in svg and "script" not in svg


def test_the_plot_in_words():
    text = plot(samples(9)).text
    # 8 MiB of slab at the end, and 64 MiB of processes all the time.
    assert re.search(r"^slab +▁\S+█ +0 B +0 B +8\.0 MiB +8,388,608$", text, re.M)
    assert re.search(r"^total +▁\S+█ +64\.0 MiB +64\.0 MiB +72\.0 MiB +75,497,472$", text, re.M)
    assert "9 samples, cell 1 to 9; most with cell 9" in text
    assert "slab" not in plot(samples(9), short=True).text
    assert plot([]).text


def test_every_area_has_a_pattern_of_its_own():
    assert len({fill.strokes for fill in FILLS.values()}) == len(FILLS)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([5], "▁"),
        ([5, 5, 5], "▁▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([-1.0, 1.0], "▁█"),
        ([0, float("nan"), 1], "▁ █"),
        ([float("inf"), 2], " ▁"),
        ([float("nan")], " "),
    ],
)
def test_sparklines(values, line):
    assert sparkline(values) == line


def test_a_sparkline_keeps_its_width_and_its_peaks():
    values = [0] * 1000
    values[777] = 1
    line = sparkline(values, 20)
    assert len(line) == 20 and line.count("█") == 1 and line[15] == "█"
