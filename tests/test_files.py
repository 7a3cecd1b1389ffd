"""Paths that a user may name and that are no files: refused at once, in one line, left as they are.

Each case is (what the path is, a word of the refusal).  Nothing here may wait.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.compiler.cache_database import CacheDatabase
from jitkernel.errors import UsageError
from jitkernel.files import (
    create_private,
    private_folder,
    read_bytes,
    read_text,
    refuse_irregular,
    scratch_folder,
    write_text,
)
from jitkernel.grading import Exercise
from jitkernel.kernel.history import History
from jitkernel.languages import load_file
from jitkernel.session.saved.tables import connect

ODD = {
    "pipe": "a named pipe",
    "socket": "a socket",
    "folder": "a folder",
    "/dev/zero": "a device",
    "/dev/full": "a device",
    "to pipe": "a named pipe",
}
NO_PATHS = ["a\0b", "a\ud800b", "missing/folder/x", "x" * 300]


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """A path of some kind, and of some ending."""
    open_sockets: list[socket.socket] = []
    here = os.getcwd()

    def make(kind: str, ending: str = "") -> str:
        path = tmp_path / f"{kind}{ending}".replace("/", "-")
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            found = socket.socket(socket.AF_UNIX)
            os.chdir(tmp_path)  # its name has 107 bytes at most
            found.bind(path.name)
            open_sockets.append(found)
        elif kind == "folder":
            path.mkdir()
        elif kind == "to pipe":
            os.mkfifo(tmp_path / "far")
            path.symlink_to(tmp_path / "far")
        else:
            path.symlink_to(kind)
        return str(path)

    yield make
    os.chdir(here)
    for each in open_sockets:
        each.close()


def refusal(act: Callable[[str], object], path: str) -> str:
    """The one line that `act` is refused with."""
    before = os.stat(path).st_mode if os.path.exists(path) else 0
    with pytest.raises(UsageError) as caught:
        act(path)
    words = str(caught.value)
    assert "\n" not in words
    assert (os.stat(path).st_mode if os.path.exists(path) else 0) == before, "it is as it was"
    return words


ACTS: dict[str, tuple[Callable[[str], object], str]] = {
    "read_bytes": (read_bytes, ""),
    "read_text": (read_text, ".ll"),
    "write_text": (lambda path: write_text(path, "words"), ".txt"),
    "append": (lambda path: write_text(path, "words", append=True), ".txt"),
    "create_private": (create_private, ""),
    "a language": (load_file, ".py"),
    "an exercise": (lambda path: Exercise.read(Path(path)), ".json"),
    "a session's file": (connect, ".jks"),
    "a new session": (lambda path: Session(store_path=path).close(), ".jks"),
    "restore": (lambda path: Session.restore(path).close(), ".jks"),
    "rebuild": (lambda path: Session.restore(path, rebuild=True).close(), ".jks"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("act", ACTS)
def test_what_is_no_file_is_refused(odd: Callable[[str, str], str], act: str, kind: str) -> None:
    call, ending = ACTS[act]
    assert ODD[kind] in refusal(call, odd(kind, ending))


@pytest.mark.parametrize("path", NO_PATHS)
def test_what_is_no_path_is_refused(path: str) -> None:
    for call, _ in ACTS.values():
        with pytest.raises(
            (UsageError, FileNotFoundError) if call is create_private else UsageError
        ):
            call(path)


def test_a_session_refuses_what_is_no_file(odd: Callable[[str, str], str], tmp_path: Path) -> None:
    with Session(spare=False, capacity=16 << 20) as s:
        s.run("@g = global i32 7")
        for kind, words in ODD.items():
            path = odd(kind, ".so")
            for act in (s.link, s.load, s.save):
                assert words in refusal(act, path), act
            (tmp_path / "far").unlink(missing_ok=True)
        for path in NO_PATHS:
            for act in (s.link, s.save):
                with pytest.raises(UsageError):
                    act(path)
        assert s["g"].value == 7


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_nothing_odd_lies_beside_a_sessions_file(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / "s.jks")
    with Session(spare=False, capacity=16 << 20) as s:
        s.run("@g = global i32 7")
        s.save(path)
        os.mkfifo(path + suffix)
        for act in (s.save, connect, lambda p: Session(store_path=p).close()):
            assert "a named pipe" in refusal(act, path)
        os.unlink(path)
        assert "a named pipe" in refusal(s.save, path)


def test_files_are_read_and_written(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert not write_text(path, "one\r\ntwo\udcff\n")
    assert write_text(path, "three\n", append=True)
    assert read_bytes(path) == b"one\r\ntwo\xff\nthree\n"
    assert read_text(path) == "one\ntwo\udcff\nthree\n"
    assert write_text(path, "4")
    assert read_bytes(path) == b"4"
    assert read_text("/proc/self/comm"), "the size that /proc tells is 0"
    with pytest.raises(UsageError, match=r"%run: .*No such file"):
        read_text(str(tmp_path / "none"), "%run: ")
    assert refuse_irregular(str(tmp_path / "none")) is None


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="1099511627776 bytes are too many"):
        read_bytes(str(path))


def test_what_is_ours_is_ours_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        private_folder(str(tmp_path / "a" / "b" / "c"))
        create_private(str(tmp_path / "a" / "new"))
        (tmp_path / "a" / "old").write_text("kept")
        create_private(str(tmp_path / "a" / "old"))
        history = History(tmp_path / "data" / "jitkernel" / "history.sqlite")
        history.store(1, "@secret = i32 1")
        history.close()
        with Session(spare=False, capacity=16 << 20, store_path=str(tmp_path / "own.jks")) as s:
            s.run("@g = global i32 7")
            s.save(str(tmp_path / "copy.jks"))
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "old").read_text() == "kept"
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*")}
    assert modes
    wrong = {str(p): oct(m) for p, m in modes.items() if m != (0o700 if p.is_dir() else 0o600)}
    assert not wrong


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_in_place_of_the_cache_is_taken_for_none(
    odd: Callable[[str, str], str], tmp_path: Path, kind: str
) -> None:
    cache = CacheDatabase(str(tmp_path / "cache"), 1 << 20)
    os.rename(odd(kind, ""), tmp_path / "cache" / "objects.db")
    assert cache.read("ab") is None
    if kind != "folder":
        assert cache.write({"ab": b"again"}) and cache.read("ab") == b"again"


def test_a_cache_that_says_that_it_is_without_end(tmp_path: Path) -> None:
    cache = CacheDatabase(str(tmp_path / "cache"), 1 << 20)
    assert cache.write({"cd": b"entry"})
    cache.close()
    with (tmp_path / "cache" / "objects.db").open("r+b") as file:
        file.truncate(1 << 40)
    assert cache.read("cd") in (None, b"entry")


def test_a_folder_of_one_that_was_killed_goes_with_the_next(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = (
        "from jitkernel.files import scratch_folder\nwith scratch_folder() as folder:\n"
        "    open(folder + '/file', 'w').close()\n    print(folder, flush=True)\n    input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True
    ) as other:
        theirs = Path(other.stdout.readline().strip())
        with scratch_folder() as ours:
            assert theirs.exists() and Path(ours).exists()
        assert [*tmp_path.iterdir()] == [theirs]
        other.kill()
    assert theirs.exists()
    with scratch_folder() as ours:
        assert [*tmp_path.iterdir()] == [Path(ours)]
    assert not [*tmp_path.iterdir()]
