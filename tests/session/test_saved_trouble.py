"""Files that are damaged at random, disks that are full, folders that cannot be written: one line
that says so, a session that goes on, and the file that was there before."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pictures import picture
from programs import SQ, constant
from test_saved import killed
from test_saved_files import SIZE, rows, saved  # noqa: F401

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.session.saved.store import Store
from tests.seeds import sampled

DAMAGED = 500


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A bit, a run of bytes, a page, or the end of a file that is not as it was."""
    new, at = bytearray(data), chance.randrange(len(data))
    kind = chance.randrange(6)
    if kind == 0:
        new[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        new[at : at + 16] = chance.randbytes(16)
    elif kind == 2:
        del new[at:]
    elif kind == 3:
        at -= at % 4096
        new[at : at + 4096] = bytes(4096)
    elif kind == 4:
        at, other = at - at % 4096, chance.randrange(len(data)) & -4096
        new[at : at + 4096], new[other : other + 4096] = (
            data[other : other + 4096],
            data[at : at + 4096],
        )
    else:
        new += chance.randbytes(5000)
    return bytes(new)


def refusal(act: Any) -> str:
    """The one line that something is refused with, empty where it is not."""
    try:
        act()
    except UsageError as error:
        words = str(error)
        assert words and "\n" not in words and "Error(" not in words, words
        return words
    return ""


def test_damaged_at_random_it_is_refused_in_one_line_or_right(
    saved: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    chance, original = random.Random(11), saved.read_bytes()
    wanted, refused, whole = rows(saved), 0, 0
    copy = tmp_path / "damaged.jks"
    for _ in range(DAMAGED):
        copy.write_bytes(damaged(original, chance))
        found: dict[str, Any] = {}
        if refusal(lambda found=found: found.update(rows(copy))):
            refused += 1
        else:
            assert found == wanted
            whole += 1
    assert refused > DAMAGED // 3 and whole


@pytest.mark.parametrize("way", sampled(["go on", "restore", "rebuild"], 3))
def test_sessions_of_damaged_files_answer_rightly(
    saved: Path,  # noqa: F811
    tmp_path: Path,
    way: str,
) -> None:
    chance, original = random.Random(12), saved.read_bytes()
    copy = tmp_path / "damaged.jks"
    came = 0
    for _ in range(8):
        copy.write_bytes(damaged(original, chance))
        for suffix in ("-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
        made: list[Session] = []

        def begin(made: list[Session] = made) -> None:
            if way == "go on":
                made.append(Session(spare=False, store_path=str(copy)))
                assert made[0].inspect.program is not None
            else:
                options = {"capacity": SIZE} if way == "rebuild" else {}
                made.append(
                    Session.restore(str(copy), rebuild=way == "rebuild", spare=False, **options)
                )

        words = refusal(begin)
        with contextlib.ExitStack() as stack:
            for s in made:
                stack.callback(s.close)
            if words or not made:
                continue
            came += 1
            s = made[0]
            for name, answer in (("b", 7), ("c", 8)):
                if name in s and "b" in s:
                    assert s.call(name) == answer
            if "sq" in s:
                assert s.call("sq", 6) == 36
            if way != "rebuild":
                assert s["g"].value[0] == 77
            s.run(constant("more", 5))
            assert s.call("more") == 5
            s.check()
    assert came > 1


def test_raw_words_of_sqlite_never_come_through(
    saved: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The places where SQLite keeps its books: page heads, the schema, the file's head."""
    chance, original = random.Random(14), saved.read_bytes()
    copy = tmp_path / "damaged.jks"
    refused = 0
    for _ in range(300):
        new = bytearray(original)
        at = chance.randrange(len(new)) & -4096
        new[at + chance.randrange(100 if at == 0 else 8)] ^= 1 << chance.randrange(8)
        copy.write_bytes(new)

        def whole() -> None:
            store = Store(copy_of=str(copy))
            try:
                found = store.file.saved, store.numbers()
                store.tables.prove(str(copy))
                list(store.rows(range(9)))
                store.file.clear_state()
                assert found[0] and found[1]
            finally:
                store.close()

        refused += bool(refusal(whole))
    assert 100 < refused < 300


def records(path: Path) -> dict[int, Any]:
    """The cells of a session in a file, none where no session is."""
    store = Store(copy_of=str(path))
    try:
        store.tables.prove(str(path))
        found = {n: store.get(n) for n in store.numbers()}
        return found if store.file.saved else {}
    finally:
        store.close()


def test_a_log_that_is_damaged_is_left_out_or_the_file_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    chance = random.Random(13)
    with Session(
        capacity=SIZE, spare=False, store_path=str(path), autosave=True, undo_depth=0
    ) as s:
        s.run(SQ)
        pictures = [picture(s)["sources"]]
        for value in range(6):
            s.run(constant("a", value))
            pictures.append(picture(s)["sources"])
        log = Path(f"{path}-wal").read_bytes()
        assert log
        came = 0
        for _ in range(100):
            copy = killed(path)
            Path(f"{copy}-wal").write_bytes(damaged(log, chance))
            found: list[dict[int, Any]] = []
            if not refusal(lambda found=found, copy=copy: found.append(records(copy))) and found[0]:
                came += 1
                assert found[0] in pictures, "some finished cell's session"
        assert came > 10


# -- where nothing can be written ----------------------------------------------------------------

SMALL = """
import os, resource, signal, sys
from jitkernel import Session
from jitkernel.errors import UsageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, limit = sys.argv[1], int(sys.argv[2])
with Session(capacity=16 << 20, spare=False, object_cache=False) as s:
    s.run("define i32 @f() {\\n  ret i32 4\\n}")
    s.save(path)
    old = open(path, "rb").read()
    s.run("@big = global [900000 x i8] zeroinitializer\\n@g = global i32 3")
    s.run("define i32 @fill() {\\n  %v = call ptr @memset(ptr @big, i32 1, i64 900000)\\n"
          "  ret i32 1\\n}\\n@fill()")
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        s.save(path)
        print("saved")
    except UsageError as error:
        print("refused:", error)
    print("same:", open(path, "rb").read() == old, "left:", sorted(os.listdir(os.path.dirname(path))))
    s.run("define i32 @h() {\\n  ret i32 5\\n}")
    print("answers:", s.call("f"), s.call("h"), s["g"].value)
    s.check()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    s.save(path)
with Session.restore(path, spare=False) as s:
    print("restored:", s.call("h"), bytes(s["big"].value) == bytes([1]) * 900000)
"""


def test_no_room_for_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jks"
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(path), "200000"], capture_output=True, text=True,
        timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refused, same, answers, restored = done.stdout.splitlines()
    assert refused.startswith(f"refused: {path} cannot be written: "), refused
    assert same == "same: True left: ['s.jks']"
    assert answers == "answers: 4 5 3" and restored == "restored: 5 True"


@pytest.fixture
def tiny(tmp_path: Path) -> Any:
    """A file system of 400 KB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(tiny: Path) -> None:
    path = tiny / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        s.run(constant("f", 4))
        s.save(str(path))
        old = path.read_bytes()
        s.run("@big = global [900000 x i8] zeroinitializer")
        s.run("call ptr @memset(ptr @big, i32 1, i64 900000)")
        words = refusal(lambda: s.save(str(path)))
        assert "cannot be written" in words and "full" in words
        assert path.read_bytes() == old and os.listdir(tiny) == ["s.jks"]
        assert s.call("f") == 4
        s.check()


def test_a_full_disk_under_a_session_that_saves_after_each_cell(tiny: Path) -> None:
    path = tiny / "s.jks"
    with Session(capacity=SIZE, spare=False, store_path=str(path), autosave=True) as s:
        s.run(constant("f", 4))
        s.run("@big = global [900000 x i8] zeroinitializer")
        s.run("call ptr @memset(ptr @big, i32 1, i64 900000)")
        said: list[str] = []
        for number in range(3):
            answer = s.run(constant("h", 5 + number))
            said += [n for n in answer.notes if "saved" in n]
            assert (s.call("f"), s.call("h")) == (4, 5 + number)
        assert len(said) == 3, "it is told until it succeeds"
        assert all(n.startswith(f"the session was not saved: {path}: database or") for n in said)
        s.check()
        with Session.restore(str(killed_elsewhere(path)), spare=False) as copy:
            assert copy.call("f") == 4
        s.evict("big")
        s.gc(undo=True)
        told = s.run(constant("k", 6)).notes
        assert [n for n in told if "saved" in n][-1] == f"the session is saved again: {path}"
        assert not [n for n in s.run(constant("m", 9)).notes if "saved" in n]
    with Session.restore(str(path), spare=False) as s:
        assert (s.call("f"), s.call("h"), s.call("k")) == (4, 7, 6)


def test_a_session_that_ends_on_a_full_disk_says_so_and_is_restored_there(tiny: Path) -> None:
    path = tiny / "s.jks"
    s = Session(capacity=SIZE, spare=False, store_path=str(path), autosave=True)
    s.run(constant("f", 4))
    s.run("@big = global [900000 x i8] zeroinitializer")
    s.run("call ptr @memset(ptr @big, i32 1, i64 900000)")
    (tiny / "rest").write_bytes(b"x" * room(tiny))
    with pytest.warns(RuntimeWarning, match=r"not saved: .*s\.jks: database or disk is full"):
        s.close()
    with Session.restore(str(path), spare=False) as s:
        assert s.call("f") == 4


def room(folder: Path) -> int:
    """Bytes that are free there."""
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize


def killed_elsewhere(path: Path) -> Path:
    """As `killed`, where there is room."""
    folder = path.parent.parent / "copies"
    folder.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        if (found := Path(f"{path}{suffix}")).exists():
            Path(folder / f"{path.name}{suffix}").write_bytes(found.read_bytes())
    return folder / path.name


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "read only"
    folder.mkdir()
    path = folder / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        s.run(constant("f", 4))
        s.save(str(path))
        old = path.read_bytes()
        mount = ["mount", "--bind", str(folder), str(folder)]
        if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("file systems cannot be mounted here")
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
            s.run(constant("h", 5))
            assert "cannot be written" in refusal(lambda: s.save(str(path)))
            assert "cannot be written" in refusal(lambda: s.save(str(folder / "new.jks")))
            assert refusal(lambda: Session(store_path=str(path), spare=False).close())
            assert refusal(lambda: Session(store_path=str(folder / "n.jks"), spare=False).close())
            with Session.restore(str(path), spare=False) as copy:  # it is only read
                assert copy.call("f") == 4
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        assert path.read_bytes() == old and s.call("h") == 5


def open_copies() -> list[str]:
    """Temporary files of SQLite that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [name for name in found if name.endswith((".jks", ".jks (deleted)")) or "etilqs" in name]


def test_a_session_that_cannot_begin_leaves_nothing_open(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jks")
    with Session() as s:
        s.run(SQ)
        s.save(path)
    before = open_copies()
    with pytest.raises(UsageError, match="nonsense") as error:
        Session.restore(path, executor="nonsense", spare=False)
    assert open_copies() == before, error
