"""No circle of imports anywhere, and none that goes up the floors."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.import_graph import Import, circles, read

ROOT = Path(__file__).resolve().parents[1]


def _floors() -> list[str]:
    """The floors that `make lint` holds, from the top: rooms with ` : ` or ` | ` between."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, *_ = settings["tool"]["importlinter"]["contracts"]
    assert contract["containers"] == ["jitkernel"]
    return contract["layers"]


@pytest.fixture(scope="module")
def graph() -> dict[str, list[Import]]:
    return read()


def test_no_circle_when_modules_are_imported(graph: dict[str, list[Import]]) -> None:
    assert circles(graph, "import") == []


def test_no_circle_when_functions_import_too(graph: dict[str, list[Import]]) -> None:
    assert circles(graph, "import", "call") == []


def test_circles_of_types_stay_in_one_room(graph: dict[str, list[Import]]) -> None:
    for circle in circles(graph, "import", "call", "typing"):
        assert len({_room(name) for name in circle}) == 1, circle


def test_no_import_goes_up(graph: dict[str, list[Import]]) -> None:
    """Not for types either; rooms of one floor use each other only where a colon says so."""
    rooms = [re.split(r" [:|] ", floor) for floor in _floors()]
    height = {room: -number for number, beside in enumerate(rooms) for room in beside}
    free = {room for floor in _floors() if ":" in floor for room in re.split(r" : ", floor)}
    wrong = [
        f"{name}:{line} imports {target}"
        for name, found in graph.items()
        for target, _, line in found
        if (a := _room(name)) in height
        and (b := _room(target)) in height
        and a != b
        and (height[b] > height[a] or (height[a] == height[b] and a not in free))
    ]
    assert wrong == []


def test_every_room_has_a_floor(graph: dict[str, list[Import]]) -> None:
    rooms = {_room(name) for name in graph if name.count(".") > 1}
    assert rooms == {room for floor in _floors() for room in re.split(r" [:|] ", floor)}


def _room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def test_circles_are_found(tmp_path: Path) -> None:
    """Of three modules: one circle at import, a larger one when a function is called, and what is
    for types alone."""
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from . import b\n")
    (package / "b.py").write_text("if True:\n    import p.a\ndef f():\n    from p.c import g\n")
    (package / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import x\n"
        "else:\n    import p.d\ndef g(): import p.b\n"
    )
    (package / "d.py").write_text("")
    graph = read(tmp_path, "p")
    assert circles(graph, "import") == [["p.a", "p.b"]]
    assert circles(graph, "import", "call") == [["p.a", "p.b", "p.c"]]
    assert [i for i in graph["p.c"] if i.when == "typing"] == [Import("p.a", "typing", 3)]
    assert Import("p.d", "import", 5) in graph["p.c"]
