"""The table of watched globals."""

from __future__ import annotations

import re

from jitkernel.views import watch
from jitkernel.views.tables import watched_view

CELLS = [
    """
@g = global i64 7
@table = global [200 x i32] zeroinitializer
@ptr = global ptr @g
@"odd name" = global double 0.5
@yes = global i1 true
"""
]


def test_nothing_is_watched(session):
    assert watch(session).text.startswith("Nothing is watched")


def test_the_table(session):
    session.watch("g", "table", "ptr", '@"odd name"'.strip('@"'), "yes")
    view = watch(session)
    assert re.search(r"^@g +i64 7 +7 +7 +▁$", view.text, re.M)
    assert re.search(r"^@table +\[200 x i32\] zeroinitializer +0 +0 +▁{24}$", view.text, re.M)
    assert re.search(r"^@ptr +ptr @g$", view.text, re.M)
    assert re.search(r'^@"odd name" +double 0.5 +0.5 +0.5', view.text, re.M)
    assert re.search(r"^@yes +i1 true +1 +1", view.text, re.M)
    assert all(len(line) <= 100 for line in view.text.splitlines())
    assert "zeroinitializer" in view.html and ">Watched</caption>" in view.html
    session.unwatch()


def test_a_run_is_told(session):
    (row,) = session.watch("g")
    from dataclasses import replace

    view = watched_view(session, [replace(row, seconds=1.5)])
    assert view.text.startswith("Watched, 1.5 s into the run")
    session.unwatch()
