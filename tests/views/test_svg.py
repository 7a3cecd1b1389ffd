"""Pictures and diffs on a white page and on a black one: nothing glares, all can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stripped import pictures

from jitkernel.ir.printed import matching
from jitkernel.session.report.memory import Sample
from jitkernel.views import diagram
from jitkernel.views.arena import FILLS
from jitkernel.views.diagram import Arrow, Node
from jitkernel.views.memory import plot
from jitkernel.views.mir import _MARK
from jitkernel.views.room import Room
from jitkernel.views.sides import Piece, sides
from jitkernel.views.svg import FAINT, INK, PAPER, SHEET, image, label

WHITE, BLACK = (255.0, 255.0, 255.0), (17.0, 17.0, 17.0)  # JupyterLab's two pages
RGB = tuple[float, float, float]


def rgb(colour: str) -> RGB:
    red, green, blue = (float(int(colour[k : k + 2], 16)) for k in (1, 3, 5))
    return red, green, blue


def luminance(colour: RGB) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [c / 255 for c in colour]
    r, g, b = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: RGB, b: RGB) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def over(tint: str, page: RGB) -> RGB:
    """The colour of a page under an `rgba(...)`."""
    *top, alpha = map(float, re.findall(r"[\d.]+", tint))
    red, green, blue = (alpha * t + (1 - alpha) * p for t, p in zip(top, page, strict=True))
    return red, green, blue


def drawn(html: str) -> str:
    return pictures(html)[0][0]


def test_a_card_is_between_white_and_black() -> None:
    assert contrast(rgb(PAPER), BLACK) < 13  # white has 19
    assert contrast(rgb(PAPER), WHITE) < 2
    assert contrast(rgb(INK), rgb(PAPER)) > 9


@pytest.mark.parametrize(
    "fill",
    [
        SHEET,
        *(f.colour for f in FILLS.values()),
        *diagram._FILLS.values(),
    ],
)
def test_dark_words_can_be_read_on_it(fill: str) -> None:
    assert contrast(rgb(INK), rgb(fill)) >= 4.5


@pytest.mark.parametrize("ground", [PAPER, SHEET])
@pytest.mark.parametrize("letter", diagram._COLOURS)
def test_the_letters_of_arrows_can_be_read(letter: str, ground: str) -> None:
    assert contrast(rgb(diagram._COLOURS[letter]), rgb(ground)) >= 4.5


def test_nothing_in_a_picture_is_white_or_nearly() -> None:
    nodes = [Node(k or "plain", "title", ["line"], k) for k in diagram._FILLS]
    arrows = [Arrow("plain", "entry", "T"), Arrow("entry", "loop", "F")]
    for svg in (
        drawn(diagram.figure_of(nodes, arrows, "5 boxes")),
        drawn(image([label(4, 9, "x")], 40, 20, "1 word")),
    ):
        colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))
        assert {PAPER, INK} <= colours
        assert all(contrast(rgb(c), BLACK) < 16 for c in colours), colours
    assert contrast(rgb(FAINT), rgb(PAPER)) < 3


PICTURES = ("frame", "patch", "stub", "live", "arena")


@pytest.mark.parametrize(
    "name", ["arena.svg", "course/map.svg", *(f"course/pictures/{n}.svg" for n in PICTURES)]
)
def test_the_pictures_of_the_pages_are_such_cards(name: str) -> None:
    svg = (Path(__file__).parents[2] / "notebooks" / name).read_text()
    first = re.search(r"<rect [^>]*>", svg)
    assert first is not None and f'fill="{PAPER}"' in first[0] and 'rx="8"' in first[0]
    colours = {c.lower() for c in re.findall(r"#[0-9A-Fa-f]{6}\b", svg)}
    assert all(contrast(rgb(c), BLACK) < 16 for c in colours), colours
    words = {
        c.lower() for text in re.findall(r"<text [^>]*>", svg) for c in re.findall("#\\w{6}", text)
    }
    assert INK in words and all(contrast(rgb(c), rgb(PAPER)) >= 4.5 for c in words), words


def test_what_is_drawn_has_an_edge_around_it() -> None:
    svg = drawn(image([], 100, 50, "0 things"))
    assert 'viewBox="-8 -8 116 66"' in svg and ' rx="8"' in svg


def test_the_slab_has_a_scale_of_its_own() -> None:
    """40 KiB beside 60 MiB of processes would be no line at all."""
    mib = 1 << 20
    samples = [Sample(n, n / 10, (n + 1) << 12, 20 * mib, 4 * mib, 40 * mib) for n in range(10)]
    svg = drawn(plot(samples).html)
    (slab,) = re.findall(r'points="([^"]+)" fill="url\(#slab\)"', svg)
    heights = [float(point.split(",")[1]) for point in slab.split()]
    assert max(heights) - min(heights) > 40


OLD, NEW = ["a_b", "c_d", "e_f", "i"], ["a_b", "g_h", "i"]
DIFF = sides([Piece("", OLD, NEW, matching(OLD, NEW))], Room(lines=9))


def test_a_diff_tints_the_page_and_leaves_its_ink() -> None:
    html = DIFF.html
    tints = re.findall(r"background:([^\"]+)", html)
    assert len(set(tints)) == 2 and html.count("color:inherit") == 2
    for tint in tints:
        assert contrast(over(tint, WHITE), (0, 0, 0)) >= 9
        assert contrast(over(tint, BLACK), WHITE) >= 9
    assert not re.search("color:#", html)


def test_a_diff_is_the_same_without_styles() -> None:
    assert DIFF.text.splitlines() == ["@@ line 1", "  a_b", "- c_d", "- e_f", "+ g_h", "  i"]
    left, right = (re.sub(r"<[^>]*>", "", one) for one in DIFF.html.split("</pre>")[:2])
    assert left.splitlines() == ["@@ line 1", "  a_b", "- c_d", "- e_f", "  i"]
    assert right.splitlines() == [" ", "  a_b", "+ g_h", " ", "  i"]
    # Blocks: inline, the background of a line hides the underscores of the line above it.
    assert DIFF.html.count("display:block") == 2


def test_marked_lines_can_be_read() -> None:
    ink, ground = re.findall(r"#[0-9a-f]{6}", _MARK)
    assert contrast(rgb(ink), rgb(ground)) >= 4.5
    assert contrast(rgb(ground), BLACK) < 13
