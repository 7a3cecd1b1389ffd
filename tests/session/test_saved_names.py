"""Names beside a session's file: none of a writer that was killed, links that stay, permissions."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jitkernel import Session, publishing

SAVES = """
import sys
from jitkernel import Session
from jitkernel import publishing
if sys.argv[2] == "named":
    publishing._nameless = lambda folder, name: publishing._named(name)
s = Session(spare=False, capacity=16 << 20)
s.run("@a = global [200000 x i64] zeroinitializer")
s.save(sys.argv[1])
print(flush=True)
while True:
    s.save(sys.argv[1])
"""


@pytest.mark.parametrize("way", ["nameless", "named"])
def test_killed_saves_leave_nothing(tmp_path: Path, way: str) -> None:
    path, chance = tmp_path / "w.jks", random.Random(3)
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", SAVES, str(path), way], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None and writer.stdout.readline()
        time.sleep(chance.random() * 0.1)
        writer.kill()
        writer.wait()
        writer.stdout.close()
    with Session.restore(str(path), spare=False) as s:
        s.save(str(path))
    assert sorted(os.listdir(tmp_path)) == ["w.jks", "w.jks~"]


def test_only_names_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    left = [".w.jks.1", ".w.jks.2-"]
    others = [".w.jks.old", ".v.jks.1", "w.jks.1", ".w.jks.3", ".w.jks.4"]
    for name in left + others[:-1]:
        (tmp_path / name).write_bytes(b"x")
    os.mkfifo(tmp_path / ".w.jks.4")
    with Session(spare=False, capacity=16 << 20) as s, open(tmp_path / ".w.jks.3") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        s.save(str(tmp_path / "w.jks"))
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "w.jks"])


@pytest.mark.parametrize("way", ["nameless", "named"])
def test_many_threads_and_processes_publish_one_file(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "named":
        monkeypatch.setattr(publishing, "_nameless", lambda folder, name: publishing._named(name))
    path, failed = tmp_path / "w.jks", []

    def write(db: sqlite3.Connection) -> None:
        db.execute("create table t (n)")
        db.executemany("insert into t values (?)", [(n,) for n in range(500)])

    def publish() -> None:
        for _ in range(10):
            try:
                publishing.publish(str(path), write)
                with contextlib.closing(sqlite3.connect(path)) as db:
                    assert db.execute("select sum(n) from t").fetchone() == (124750,)
            except Exception as error:
                failed.append(error)

    pids: list[int] = []
    while len(pids) < 2 and 0 not in pids:
        pids.append(os.fork())
    threads = [threading.Thread(target=publish) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if 0 in pids:
        os._exit(len(failed) > 0)
    assert not failed
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
    assert os.listdir(tmp_path) == ["w.jks"]


def test_two_sessions_save_to_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "w.jks")
    with Session(spare=False, capacity=16 << 20) as a, Session(spare=False) as b:
        sizes = []
        for number, s in enumerate((a, b)):
            s.run(f"@x = global i32 {number}")

        def save(s: Session) -> None:
            sizes.extend([s.save(path) for _ in range(20)])

        threads = [threading.Thread(target=save, args=(s,)) for s in (a, b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(sizes) == 40
    with Session.restore(path, spare=False) as s:
        assert s["x"].value in (0, 1)


def test_a_link_stays_one_and_permissions_are_kept(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, target = tmp_path / "w.jks", tmp_path / "far" / "v.jks"
    link.symlink_to(target)
    with Session(spare=False, capacity=16 << 20) as s:
        s.run("@a = global i32 1")
        s.save(str(link))
        assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o600
        target.chmod(0o640)
        s.run("@b = global i32 2")
        s.save(str(link))
        assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o640
    with Session.restore(str(link), spare=False) as s:
        assert s["b"].value == 2


def test_logs_of_a_file_that_is_gone_are_not_taken_for_the_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "w.jks"
    with Session(spare=False, capacity=16 << 20, store_path=str(path), autosave=True) as s:
        s.run("@a = global i32 1")
        log = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    with Session(spare=False, capacity=16 << 20) as s:
        s.run("@b = global i32 2")
        s.save(str(path))
    with Session.restore(str(path), spare=False) as s:
        assert s["b"].value == 2 and "a" not in s


def test_a_file_is_moved_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_PIECE", 10_000)
    with Session(spare=False, capacity=16 << 20) as s:
        s.run("@a = global [9000 x i64] zeroinitializer")
        s.run("call ptr @memset(ptr @a, i32 1, i64 72000)")
        assert s.save(str(tmp_path / "w.jks")) == (tmp_path / "w.jks").stat().st_size > 72000
    with Session.restore(str(tmp_path / "w.jks"), spare=False) as s:
        assert s["a"].value[0] == s["a"].value[8999] == 0x0101010101010101
