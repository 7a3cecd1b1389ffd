"""A reader's progress: noted once, whole or not at all, in one private file."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel.errors import UsageError
from jitkernel.grading import answer, predict, progress

COURSE = [
    {
        "stem": "0_a",
        "title": "A",
        "needs": [],
        "exercises": ["one", "two"],
        "predictions": ["guess"],
    },
    {"stem": "1_b", "title": "B", "needs": ["0_a"], "exercises": ["three"], "predictions": []},
]


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's own data folder, and a course in the folder that one works in."""
    (tmp_path / progress.COURSE).write_text(json.dumps(COURSE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv(progress.SWITCH)
    return tmp_path / "data" / "jitkernel" / "progress.json"


def names() -> dict[str, set[str]]:
    return {stem: set(found) for stem, found in progress.noted()[0].items()}


def test_what_was_passed_is_noted_once_a_line_a_lesson(reader: Path) -> None:
    assert [progress.passed(name) for name in ("three", "one", "one", "unknown")] == [""] * 4
    assert names() == {"0_a": {"one"}, "1_b": {"three"}}
    text = reader.read_text()
    assert json.loads(text)["version"] == progress.VERSION
    assert [line.strip()[:5] for line in text.splitlines()[1:3]] == ['"0_a"', '"1_b"']
    assert stat.S_IMODE(reader.stat().st_mode) == 0o600
    assert stat.S_IMODE(reader.parent.stat().st_mode) == 0o700
    before = reader.stat().st_ino
    progress.passed("one")
    assert reader.stat().st_ino == before  # nothing new, nothing written
    assert os.listdir(reader.parent) == ["progress.json"]


def test_a_prediction_is_noted_where_it_is_right_or_close() -> None:
    answer("guess", 5)  # none was made
    for guess in (50, 5.2):
        assert not names()
        predict("guess", guess)
        assert "\n" not in answer("guess", 5)
    assert names() == {"0_a": {"guess"}}


def test_a_name_of_two_lessons_is_noted_for_the_notebook_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [{**lesson, "predictions": ["guess"]} for lesson in COURSE]
    (tmp_path / progress.COURSE).write_text(json.dumps(both))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert progress.passed("guess") == "" and names() == {}
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/course/1_b.ipynb")
    assert progress.passed("guess") == "" and names() == {"1_b": {"guess"}}


def test_nothing_is_noted_where_it_is_switched_off_or_there_is_no_course(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(progress.SWITCH, "off")
    assert progress.passed("one") == ""
    monkeypatch.delenv(progress.SWITCH)
    (tmp_path / progress.COURSE).unlink()
    assert progress.passed("one") == "" and progress.lessons() == []
    assert not reader.parent.exists()


def test_progress_is_forgotten_of_a_lesson_or_altogether() -> None:
    for name in ("one", "three"):
        progress.passed(name)
    progress.reset("0_a")
    assert names() == {"1_b": {"three"}}
    with pytest.raises(UsageError, match="nothing is noted of 0_a: there is 1_b"):
        progress.reset("0_a")
    progress.reset()
    assert names() == {}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 1}', '{"version": 1, "lessons": {"0_a": 3}}', "[" * 100_000, "\0"],
)
def test_a_broken_file_is_told_of_and_kept_aside(reader: Path, text: str) -> None:
    reader.parent.mkdir(parents=True)
    reader.write_text(text)
    said = progress.passed("one")
    assert "is no record of progress" in said and "a new one begins" in said
    aside = next(reader.parent.glob("progress.json.broken-*"))
    assert aside.read_text() == text and str(aside) in said
    assert names() == {"0_a": {"one"}}


def test_a_later_files_content_stays(reader: Path) -> None:
    reader.parent.mkdir(parents=True)
    reader.write_text(later := '{"version": 2, "passed": []}')
    assert "is a later jitkernel's (version 2)" in progress.passed("one")
    assert reader.read_text() == later


def test_what_cannot_be_written_fails_nobody_who_passed(reader: Path) -> None:
    reader.parent.parent.mkdir()
    reader.parent.write_text("a file in the folder's place")
    assert "one is not noted in your progress" in progress.passed("one")


def test_a_list_of_lessons_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / progress.COURSE).write_text('[{"stem": "0_a"}]')
    assert "course.json is no list of lessons" in progress.passed("one")


def test_kernels_beside_each_other_lose_nothing(tmp_path: Path) -> None:
    many = [{**COURSE[0], "exercises": [f"e{n}" for n in range(40)]}]
    (tmp_path / progress.COURSE).write_text(json.dumps(many))
    code = (
        "import sys; from jitkernel.grading.progress import passed\n"
        "for n in range(int(sys.argv[1]), 40, 2): print(passed(f'e{n}'), end='')"
    )
    root = str(Path(__file__).resolve().parents[2])
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, start],
            env={**os.environ, "PYTHONPATH": root},
            stdout=subprocess.PIPE,
        )
        for start in "01"
    ]
    assert [process.communicate(timeout=60)[0] for process in both] == [b"", b""]
    assert len(names()["0_a"]) == 40


def test_one_that_somebody_else_has_is_waited_for_and_then_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.05)
    with progress._locked():
        assert "another kernel has" in progress.passed("one")
    assert progress.passed("one") == ""
