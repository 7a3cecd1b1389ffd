"""Every view of the package, asked from Python for what is not there: one clear line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from jitkernel import Session, views
from jitkernel.errors import CompileError, JitError, UsageError

#: The views that take a cell or a name, and how they are asked.
ASKED = [
    name
    for name in views.__all__
    if name != "View"
    and {"target", "what"} & set(inspect.signature(getattr(views, name)).parameters)
]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as s:
        s.run("define i32 @live(i32 %x) {\n  ret i32 %x\n}")  # 1
        s.run("define void @gone() {\n  ret void\n}")  # 2
        s.evict(2)
        with pytest.raises(CompileError):
            s.run("define i32 @failed() {\n  ret i32 %nothing\n}")  # 3
        s.run("@live(1)")  # 4
        s.run("")  # 5
        yield s


def test_there_are_views_that_are_asked_for_something() -> None:
    assert {"asm", "ir", "cfg", "callgraph", "passes", "explain", "mir", "object"} <= set(ASKED)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    "target", [99, 0, -1, 2, 3, 4, 5, "nowhere", "@gone", "failed", "", "@", '@"']
)
def test_it_answers_with_one_line(session: Session, name: str, target: int | str) -> None:
    options = {"levels": [0, 2]} if name == "compare" else {}
    with pytest.raises(UsageError) as caught:
        getattr(views, name)(session, target, **options)
    text = str(caught.value)
    assert text and "\n" not in text and len(text) < 200


#: Of data, which somebody has to name.
DATA = ("draw", "layout", "plot", "rows")


@pytest.mark.parametrize("name", [n for n in views.__all__ if n != "View"])
def test_a_session_without_cells(s: Session, name: str) -> None:
    try:
        shown = getattr(views, name)(s, *["nothing"][: name in DATA])
    except JitError as error:
        assert isinstance(error, UsageError) and "\n" not in str(error)
    else:
        assert shown.text and shown.html


@pytest.mark.parametrize("name", ASKED)
def test_what_is_on_disk_is_shown(session: Session, name: str) -> None:
    for target in ("live", 1):
        session.hibernate(1)
        if name == "compare":
            if target == "live":
                assert views.compare(session, target, levels=[0, 2]).text
            continue
        shown = getattr(views, name)(session, target)
        assert "@live" in shown.text or "cell 1" in shown.text
