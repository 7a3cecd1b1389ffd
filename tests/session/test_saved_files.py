"""Files that are not what was written: damaged, cut off, of another time, machine, or owner."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from pictures import picture
from programs import SQ, caller, constant
from test_saved import killed

from jitkernel import Session
from jitkernel.errors import JitError, UsageError
from jitkernel.files import create_private
from jitkernel.session.saved import file
from jitkernel.session.saved.store import Store
from jitkernel.session.saved.tables import SCHEMA, Tables

SIZE = 16 << 20
CELLS = [
    SQ,
    constant("b", 7),
    "@g = global [600 x i64] zeroinitializer\n@p = global ptr @b",
    "declare i32 @b()\n" + caller("c", "b", 1),
    "@sq(5)",
    '@s = ptr "text"',
    "store i64 77, ptr @g",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        for cell in CELLS:
            s.run(cell)
        s.save(str(path))
    return path


def rows(path: Path) -> dict[str, list[Any]]:
    """What a session would be made from; raises UsageError where the file is refused."""
    store = Store(copy_of=str(path))
    try:
        found: dict[str, list[Any]] = dict(store.tables.prove(str(path)))
        assert store.file.saved
        found["records"] = [store.get(n) for n in store.numbers()]
        return found
    finally:
        store.close()


def refused(path: Path, words: str, **options: Any) -> None:
    with pytest.raises(UsageError, match=words):
        Session.restore(str(path), spare=False, **options).close()


# -- damage --------------------------------------------------------------------------------------


def test_a_row_that_others_name_and_that_is_lost_is_found(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lost.jks"
    copy.write_bytes(saved.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as db, db:
        db.execute("delete from cells where id = (select min(id) from cells)")
    refused(copy, "damaged")


@pytest.mark.parametrize("content", [b"", b"some text\n" * 50, b"\0" * 9000, b"SQLite format 3\0"])
def test_what_is_no_session_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    refused(path, "notes.txt")
    if content:
        with (
            Session(capacity=SIZE, spare=False) as s,
            pytest.raises(UsageError, match=r"notes\.txt"),
        ):
            s.save(str(path))
        with pytest.raises(UsageError, match=r"notes\.txt"):
            Session(capacity=SIZE, spare=False, store_path=str(path)).close()
    assert path.read_bytes() == content


def test_no_file_and_no_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none.jks", "No such file")
    with Session(capacity=SIZE, spare=False) as s, pytest.raises(UsageError, match="cannot be"):
        s.save(str(tmp_path / "no folder" / "s.jks"))
    with pytest.raises(UsageError, match="cannot be"):
        Session(store_path=str(tmp_path / "no folder" / "s.jks"))


def test_a_damaged_file_is_built_again_from_source(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged.jks"
    copy.write_bytes(saved.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as db, db:
        db.execute("update symbols set body = replace(body, 'sq', 'qs')")
        db.execute("update records set source = x'00' where number = 2")
    refused(copy, "damaged: ")
    with Session.restore(str(copy), rebuild=True, capacity=SIZE, spare=False) as s:
        assert s.call("sq", 6) == 36
        assert "b" not in s
        assert s.restored is not None
        words = str(s.restored)
        assert "built again from source" in words and "1 cell could not be read" in words
        s.check()


# -- the file before it ---------------------------------------------------------------------------


def test_the_file_before_a_saved_one_is_kept_and_comes_back(tmp_path: Path) -> None:
    path, before = tmp_path / "s.jks", tmp_path / "s.jks~"
    with Session(capacity=SIZE, spare=False) as s:
        for value in range(3):
            s.run(constant("a", value))
            there = path.read_bytes() if value else b""
            s.save(str(path))
            assert not value or before.read_bytes() == there
    assert sorted(os.listdir(tmp_path)) == ["s.jks", "s.jks~"]
    path.write_bytes(path.read_bytes()[:-4096])
    with Session.restore(str(path), spare=False) as s:
        assert s.call("a") == 1
        assert f"{path} is" in str(s.restored)
        assert f"; the whole file before it is {before}, which this is; what was" in str(s.restored)
        s.check()
    before.write_bytes(before.read_bytes()[:5000])
    refused(path, r"s\.jks is ")


def test_the_file_that_a_session_goes_on_in_is_kept_as_it_was(tmp_path: Path) -> None:
    path, before = tmp_path / "own.jks", tmp_path / "own.jks~"
    for value in range(3):
        with Session(capacity=SIZE, spare=False, store_path=str(path), autosave=True) as s:
            s.run(constant("a", value))
        assert before.exists() == (value > 0)
    assert before.stat().st_mode & 0o077 == 0
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(UsageError, match=r"the whole file before it is .*own\.jks~"):
        Session(capacity=SIZE, spare=False, store_path=str(path)).close()
    with Session.restore(str(path), spare=False) as s:
        assert s.call("a") == 1


def test_where_there_is_no_room_for_a_copy_a_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.jks"
    with Session(capacity=SIZE, spare=False, store_path=str(path)) as s:
        s.run(constant("a", 3))

    def full(name: str) -> None:
        create_private(name)
        if name.endswith("~new"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(file, "create_private", full)
    with Session(capacity=SIZE, spare=False, store_path=str(path)) as s:
        assert s.call("a") == 3
    assert os.listdir(tmp_path) == ["own.jks"]


# -- another schema, another machine -------------------------------------------------------------


def test_a_newer_schema_is_refused(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "new.jks"
    copy.write_bytes(saved.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as db:
        db.execute(f"pragma user_version = {SCHEMA + 1}")
    refused(copy, f"newer jitkernel: schema {SCHEMA + 1}")


def test_an_earlier_schema_is_refused_and_its_sources_are_compiled(
    saved: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "old.jks"
    copy.write_bytes(saved.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as db:
        db.execute(f"pragma user_version = {SCHEMA - 1}")
    refused(copy, f"earlier jitkernel: schema {SCHEMA - 1}.*--rebuild")
    with Session.restore(copy, rebuild=True) as s:
        assert s.cells
        s.check()


@contextlib.contextmanager
def _changed_fact(path: Path) -> Iterator[dict[str, Any]]:
    """The fact `session`, to be changed."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        head = json.loads(db.execute("select body from facts where id = 'session'").fetchone()[0])
        yield head
        Tables(db).put("facts", [("session", json.dumps(head), b"")])


@pytest.mark.parametrize("part", [0, 3, 4])
def test_code_of_another_machine_is_compiled_again(saved: Path, tmp_path: Path, part: int) -> None:
    """Part 0 of who compiled is LLVM's version, 3 the processor, 4 its features."""
    copy = tmp_path / "foreign.jks"
    copy.write_bytes(saved.read_bytes())
    with _changed_fact(copy) as head:
        head["identity"][part] = {0: "7.0.0", 3: "unheard-of", 4: "+avx9"}[part]
    with Session.restore(str(copy), spare=False) as s:
        assert "cells compiled again: the file is of LLVM" in str(s.restored)
        assert (s.call("sq", 6), s.call("c")) == (36, 8)
        assert s["g"].value[0] == 77
        assert s.run("%f = load ptr, ptr @p\n%r = call i32 %f()").value == 7
        s.check()


def test_code_for_a_named_processor_is_kept_on_another_one(tmp_path: Path) -> None:
    path = tmp_path / "plain.jks"
    with Session(capacity=SIZE, spare=False, cpu="x86-64-v2") as s:
        s.run(SQ)
        s.save(str(path))
        text = s.cells[0].image.text
    with _changed_fact(path) as head:
        head["identity"][3:] = ["unheard-of", "+avx9"]
    with Session.restore(str(path), spare=False) as s:
        assert "0 cells compiled again" in str(s.restored)
        assert s.cells[0].image.text == text and s.call("sq", 3) == 9


def test_a_library_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lib.jks"
    with Session(capacity=SIZE, spare=False) as s:
        s.load("libz.so.1")
        s.run("declare ptr @zlibVersion()\ndefine i32 @f() {\n  %v = call ptr @zlibVersion()\n"
              "  ret i32 1\n}\n@f()")  # fmt: skip
        s.save(str(path))
    with Session.restore(str(path), spare=False, trust=True) as s:
        assert s.call("f") == 1
    with _changed_fact(path) as head:
        head["libraries"] = ["/no/such/library.so"]
    with Session.restore(str(path), spare=False, trust=True) as s:
        assert "/no/such/library.so cannot be loaded" in str(s.restored)
        assert "missing now: 1 function of libraries: @zlibVersion" in str(s.restored)
        with pytest.raises(JitError, match="zlibVersion"):
            s.call("f")
        s.load("libz.so.1")
        assert s.call("f") == 1
        s.check()


def test_words_that_point_into_the_heap_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "heap.jks"
    with Session(capacity=SIZE, spare=False) as s:
        s.run("@h = global ptr null\n@k = global i64 5")
        s.run("%p = call ptr @malloc(i64 64)\nstore ptr %p, ptr @h")
        s.save(str(path))
    with Session.restore(str(path), spare=False) as s:
        assert "1 word in globals may point into the process that ended" in str(s.restored)


NUMBERS = {
    "int 0, 1, 2, ...": ("i32", "i4", range(40000)),
    "int, the same all over": ("i32", "i4", [0x7F00] * 40000),
    "int at random": ("i32", "i4", random.Random(1).choices(range(1 << 31), k=40000)),
    "short": ("i16", "i2", random.Random(2).choices(range(1 << 15), k=40000)),
    "long": ("i64", "i8", range(40000)),
    "unsigned char": ("i8", "u1", random.Random(3).choices(range(256), k=40000)),
    "float": ("float", "f4", [n / 7 for n in range(40000)]),
    "double": ("double", "f8", [n / 7 for n in range(40000)]),
}


def told(words: str) -> int:
    """How many words are said to be pointers; one of such numbers may be one, by chance."""
    found = re.search(r"(\d+) (restored )?words?", words)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_not_words_that_point_into_the_heap(tmp_path: Path, kind: str) -> None:
    element, dtype, values = NUMBERS[kind]
    path = str(tmp_path / "numbers.jks")
    with Session(capacity=SIZE, spare=False) as s:
        s.run(f"@t = global [40000 x {element}] zeroinitializer")
        s["t"].value = numpy.array(values, dtype)
        s.run("@h = global i64 5")
        s["t"].value = numpy.zeros(40000, dtype)
        assert told(s.undo()[0]) <= 1
        s["t"].value = numpy.array(values, dtype)
        s.save(path)
    with Session.restore(path, spare=False) as s:
        assert told(str(s.restored)) <= 1


# -- owners --------------------------------------------------------------------------------------


def test_a_file_belongs_to_one_session(tmp_path: Path) -> None:
    path = str(tmp_path / "own.jks")
    with Session(capacity=SIZE, spare=False, store_path=path, autosave=True) as s:
        s.run(SQ)
        with pytest.raises(UsageError, match="in use by another session"):
            Session(capacity=SIZE, spare=False, store_path=path, autosave=True)
        refused(Path(path), "in use by another session")
        in_use = pytest.raises(UsageError, match="in use by another session")
        with Session(capacity=SIZE, spare=False) as other, in_use:
            other.save(path)
        s.save(str(tmp_path / "copy.jks"))
        s.run(constant("b", 7))
    with Session(store_path=path, autosave=True, spare=False) as s:
        assert (s.call("sq", 3), s.call("b")) == (9, 7)
    with Session.restore(str(tmp_path / "copy.jks"), spare=False) as s:
        assert "b" not in s and s.call("sq", 3) == 9
    assert sorted(os.listdir(tmp_path)) == ["copy.jks", "own.jks", "own.jks~"]


def test_the_file_of_another_process_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "own.jks")
    program = (
        "import sys\nfrom jitkernel import Session\n"
        f"s = Session(capacity={SIZE}, spare=False, store_path={path!r}, autosave=True)\n"
        "s.run('define i32 @a() {\\n  ret i32 4\\n}')\nprint('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        refused(Path(path), "in use by another session")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    with Session.restore(path, spare=False) as s:  # a lock goes with its process
        assert s.call("a") == 4


def test_a_session_goes_on_in_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "own.jks")
    with Session(capacity=SIZE, spare=False, store_path=path) as s:
        s.run("@n = global i32 1\n" + SQ)
        base = s.inspect.engine.arena.base
    for _ in range(2):
        with Session(spare=False, store_path=path) as s:
            assert (
                s.inspect.program is not None
                and s.inspect.engine.arena.base == base
                and s.inspect.engine.arena.capacity == SIZE
            )
            s["n"].value += 1
            before = picture(s)
    with Session.restore(path, spare=False) as s:
        assert s["n"].value == 3 and picture(s) == before


def test_settings_come_back_unless_others_are_given(tmp_path: Path) -> None:
    path = str(tmp_path / "set.jks")
    with Session(capacity=SIZE, spare=False, opt_level=0, results_kept=7) as s:
        s.run(SQ)
        s.save(path)
    with Session.restore(path, spare=False, results_kept=9) as s:
        assert (s.settings.opt_level, s.settings.results_kept) == (0, 9)


def test_a_disk_that_is_full_is_told_and_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    with Session(capacity=SIZE, spare=False, store_path=str(path), autosave=True) as s:
        s.run(SQ)
        db = s.inspect.store.tables.db
        pages = db.execute("pragma page_count").fetchone()[0]
        db.execute(f"pragma max_page_count = {pages}")
        s.run("@big = global [90000 x i8] zeroinitializer\n@g = global i32 3")
        s.run("call ptr @memset(ptr @big, i32 1, i64 90000)")
        assert any("was not saved" in n for n in s.inspect.engine.notices)
        db.execute("pragma max_page_count = 1000000")
        s.run(constant("b", 7))
        before = picture(s)
        assert all(before["sources"].values())
    with Session.restore(str(path), spare=False) as s:
        assert picture(s) == before


def test_a_file_is_as_it_was_until_the_session_ends(tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    with Session(capacity=SIZE, spare=False, store_path=str(path)) as s:
        s.run("@n = global i32 1\n" + constant("a", 1))
    with Session(spare=False, store_path=str(path)) as s:
        s.run("@n = 2")
        s.run(constant("a", 2))
        s.run_many([constant(f"f{i}", i) for i in range(100)])
        s.reset()
        s.frontend.idle()
        with Session.restore(str(killed(path)), spare=False) as copy:
            assert (copy["n"].value, copy.call("a"), len(copy.cells)) == (1, 1, 1)
            assert copy.source(1).startswith("@n")


def test_many_cells_of_one_run_are_saved_together(tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    with Session(
        capacity=SIZE, spare=False, store_path=str(path), autosave=True, undo_depth=0
    ) as s:
        s.run(constant("a", 1))
        flush, seen = s.inspect.store.flush, []

        def flushed() -> None:
            flush()
            with Session.restore(str(killed(path)), spare=False) as copy:
                seen.append((copy.call("a"), len(copy.cells), copy.source(1)))

        s.inspect.store.flush = flushed  # type: ignore[method-assign]
        s.run_many([constant("a", 2), *[constant(f"f{i}", i) for i in range(150)]])
        s.inspect.store.flush = flush  # type: ignore[method-assign]
        assert seen and set(seen) == {(1, 1, constant("a", 1))}
        with Session.restore(str(killed(path)), spare=False) as copy:
            assert (copy.call("a"), len(copy.cells)) == (2, 151)


def test_what_does_not_come_back_is_said(saved: Path, tmp_path: Path) -> None:
    with Session.restore(str(saved), spare=False) as s:
        assert str(s.restored).endswith("what was run before cannot be undone")
    copy = tmp_path / "damaged.jks"
    copy.write_bytes(saved.read_bytes())
    with contextlib.closing(sqlite3.connect(copy)) as db, db:
        db.execute("update symbols set body = '[]'")
    with Session.restore(str(copy), rebuild=True, capacity=SIZE, spare=False) as s:
        words = str(s.restored)
        assert "globals have their initial values" in words and "cannot be undone" in words
        assert s["g"].value[0] == 0


# -- what is gone --------------------------------------------------------------------------------

SECRET = b"a secret of 24 letters.."
ROOM = "@room = global [200000 x i64] zeroinitializer"
GONE: dict[str, Any] = {
    "evicted": lambda s: s.evict("key", "room"),
    "defined again": lambda s: s.run("@key = global i8 1\n@room = global i8 2"),
    "undone": lambda s: s.undo(2),
}


def fill(s: Session) -> None:
    """A small variable, then a large one and one with a secret, which the cell's text has too."""
    s.run("@few = global i64 7")
    s.run(ROOM)
    s.run(f'@key = global [{len(SECRET)} x i8] c"{SECRET.decode()}"')
    s["room"].value = range(1, 200001)


@pytest.mark.parametrize("how", GONE)
@pytest.mark.parametrize("way", ["save", "autosave"])
def test_what_is_gone_is_not_in_the_file(tmp_path: Path, how: str, way: str) -> None:
    path = str(tmp_path / "s.jks")
    given = {"store_path": path, "autosave": True} if way == "autosave" else {}
    with Session(capacity=SIZE, spare=False, **given) as s:
        fill(s)
        there = picture(s)
        GONE[how](s)
        assert s.run("@few").value == 7  # saved with what it holds for the undo
        gone = picture(s)
        if how == "evicted":
            s.undo()
            assert (bytes(s["key"].value), s["room"].array[-1]) == (SECRET, 200000)
            assert picture(s)["cells"] == there["cells"]
            s.redo()
        if way == "save":
            s.save(path)
    assert SECRET not in Path(path).read_bytes()
    assert os.path.getsize(path) < 100_000
    with Session.restore(path, spare=False) as r:
        assert r["few"].value == 7
        r.check()
        assert picture(r)["cells"] == gone["cells"]


def test_what_came_back_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    with Session(capacity=SIZE, spare=False, store_path=str(path), autosave=True) as s:
        fill(s)
        s.evict("key", "room")
        s.undo()
        with Session.restore(str(killed(path)), spare=False) as r:
            assert (bytes(r["key"].value), r["room"].array[-1]) == (SECRET, 200000)
