"""Dependencies: the table says all, the picture repeats it."""

from __future__ import annotations

import re

import pytest
from stripped import pictures

from jitkernel.errors import UsageError
from jitkernel.views import deps
from jitkernel.views.svg import PAPER


def function(name: str, *calls: str) -> str:
    lines = "".join(f"  %v{i} = call i32 @{c}()\n" for i, c in enumerate(calls))
    declares = "".join(f"declare i32 @{c}()\n" for c in calls)
    return f"{declares}define i32 @{name}() {{\n{lines}  ret i32 {len(calls)}\n}}"


CELLS = [function("a"), function("b", "a"), function("c", "b", "a"), function("d")]


def test_what_evicting_would_break(session):
    text = deps(session, "a").text
    assert "Evicting cell 1 would break cells 2, 3." in text
    assert re.search(r"^ +3 +@c +@a \(cell 1\), @b \(cell 2\)$", text, re.M)
    assert "@d" not in text
    assert "would break nothing" in deps(session, 4).text
    assert "@d" in deps(session).text


def test_the_picture_is_an_image_with_its_numbers_in_words(session):
    html = deps(session, "a").html
    ((svg, alt),) = pictures(html)
    assert "3 cells, 3 uses" in alt and "cells 2, 3" in alt
    assert svg.count(" data-e=") == 3 and PAPER in svg
    assert "cell 1 (here)" in svg and svg.count("would break") == 2
    assert "script" not in svg and "foreignObject" not in svg


def test_many_cells_are_told_in_words(s):
    s.run_many([function("f0")] + [function(f"f{i}", f"f{i - 1}") for i in range(1, 70)])
    view = deps(s)
    assert "60 can be drawn" in view.text and "<img" not in view.html
    assert "60 can be drawn" in deps(s, "f3").text and "<img" not in deps(s, "f3").html


def test_an_unknown_name_is_one_clear_line(session):
    with pytest.raises(UsageError, match="nothing of the session is called @q"):
        deps(session, "q")
