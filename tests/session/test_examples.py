"""The examples of the docstrings do what they say.

In them `s` is a session, empty before each docstring, and files go to a folder of their own.
"""

from __future__ import annotations

import builtins
import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.portable import arrival
from jitkernel.session import FunctionHandle, VariableHandle

#: What has an example of its own, whatever else has one.
SHOWN = {
    *(Session, Session.run, Session.call, Session.array, Session.share, Session.export_python),
    *(Session.export, Session.portable, Session.undo, Session.__getitem__),
    *(FunctionHandle, FunctionHandle.arrays, VariableHandle, VariableHandle.array),
}


def documented() -> Iterator[tuple[str, object]]:
    """Classes and what is in them, by name."""
    for of in (Session, FunctionHandle, VariableHandle):
        yield of.__qualname__, of
        for name, member in inspect.getmembers_static(of):
            if name.startswith("_") and name != "__getitem__":
                continue
            yield f"{of.__qualname__}.{name}", member


EXAMPLES = {name: it for name, it in documented() if ">>>" in (inspect.getdoc(it) or "")}


def test_what_is_used_most_has_an_example() -> None:
    assert SHOWN <= set(EXAMPLES.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_what_it_says(
    s: Session, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "_", None, raising=False)  # doctest leaves the last value there
    s.chdir(tmp_path)
    text = inspect.getdoc(EXAMPLES[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {"s": s, "Session": Session}, name, "", 0)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    try:
        result = doctest.DocTestRunner(optionflags=flags).run(example, out=said.append)
    finally:
        s.chdir("/")
        arrival._close()
    assert result.attempted and not result.failed, "".join(said)


@pytest.mark.parametrize(
    ("page", "pieces"), [("python", (0, 1)), ("python", (1, 3)), ("inline", (0, 1))]
)
def test_the_pieces_of_a_page_run(
    page: str, pieces: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that need no cluster; one that begins within a block goes on where the one before it
    ended."""
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("ziglang")
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / f"docs/{page}.md").read_text()
    found = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    given: dict[str, Any] = {"Session": Session, "numpy": numpy, "array": numpy.ones(2)}
    given["sources"] = ["@a = global i32 1", "@b = global i32 2"]
    exec("".join(found[slice(*pieces)]), given)
