"""The history file: tail, range, search, its bound, and what happens where it cannot be written."""

from pathlib import Path

import pytest

from jitkernel.kernel.history import History


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.sqlite"


def filled(path: Path | None, *sources: str, length: int = 1000) -> History:
    history = History(path, length)
    for line, source in enumerate(sources, 1):
        history.store(line, source, f"out {line}")
    return history


def test_tail_spans_sessions_oldest_first(path: Path) -> None:
    filled(path, "a", "b").close()
    history = filled(path, "c")
    assert history.tail(2) == [(1, 2, "b"), (2, 1, "c")]
    assert history.tail(1, output=True) == [(2, 1, ("c", "out 1"))]
    assert history.tail(0) == []


def test_range_counts_sessions_from_this_one(path: Path) -> None:
    filled(path, "a", "b", "c").close()
    history = filled(path, "d")
    assert history.range() == [(2, 1, "d")]
    assert history.range(-1, 2) == [(1, 2, "b"), (1, 3, "c")]
    assert history.range(1, 1, 2) == [(1, 1, "a")]


def test_search_is_a_glob(path: Path) -> None:
    history = filled(path, "@sq(1)", "@cube(1)", "@sq(1)", "@sq(2)")
    assert [e[2] for e in history.search("@sq*")] == ["@sq(1)", "@sq(1)", "@sq(2)"]
    assert [e[2] for e in history.search("@sq*", unique=True)] == ["@sq(1)", "@sq(2)"]
    assert [e[1] for e in history.search("@sq*", unique=True)] == [3, 4]  # the latest of equals
    assert [e[2] for e in history.search("@sq*", 2)] == ["@sq(1)", "@sq(2)"]
    assert history.search("nothing*") == []


def test_the_file_is_bounded(path: Path) -> None:
    filled(path, *map(str, range(250)), length=100).close()
    assert len(History(path, 100).tail(10_000)) == 100


def test_length_zero_keeps_nothing(path: Path) -> None:
    history = filled(path, "a", length=0)
    assert history.tail(10) == []


def test_a_damaged_file_does_not_stop_the_kernel(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 100)
    assert filled(path, "a").tail(5) == [(1, 1, "a")]


def test_without_a_file_it_lives_in_memory() -> None:
    assert filled(None, "a").tail(5) == [(1, 1, "a")]


def test_text_of_any_kind_comes_back(path: Path) -> None:
    source = '; ünïcode 𝄞\n@"a b" = global i8 0\n'
    assert filled(path, source).tail(1)[0][2] == source
