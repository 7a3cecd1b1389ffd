"""The object cache: what makes a key, what comes back, what is left on the disk."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.compiler import cache as cache_module
from jitkernel.compiler.cache import ObjectCache, fingerprint, open_cache
from jitkernel.compiler.cache_database import CacheDatabase, cache_home
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Compiled, Lent, Options, Request, Summary
from jitkernel.compiler.worker_process import packages
from jitkernel.errors import CompileError, Diagnostic
from jitkernel.session.settings import CellOptions
from jitkernel.settings import SessionSettings

WHO = "the compiler of these tests"
MADE = Compiled(b"\x7fELF" + bytes(range(256)), Summary((), (), {}, ()), {"parse": 5, "emit": 9})
ROOT = str(Path(__file__).resolve().parents[2])


def square(name: str, k: int = 0) -> str:
    return f"define i32 @{name}(i32 %x) {{\n  %a = mul i32 %x, %x\n  %r = add i32 %a, {k}\n  ret i32 %r\n}}\n"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def on_disk(folder: Path) -> int:
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in files(folder))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ObjectCache]:
    cache = ObjectCache(str(tmp_path / "objects"), 64 << 20, WHO)
    yield cache
    cache.close()


# -- keys

REQUEST = Request("define void @f() {\n  ret void\n}\n", Options())

# Each ingredient of a key, changed by itself.
OTHERS: dict[str, Callable[[Request], Request]] = {
    "source": lambda r: r._replace(source=r.source + " "),
    "opt_level": lambda r: r._replace(options=r.options._replace(opt_level=1)),
    "cpu": lambda r: r._replace(options=r.options._replace(cpu="x86-64-v2")),
    "reloc": lambda r: r._replace(options=r.options._replace(reloc="pic")),
    "code_model": lambda r: r._replace(options=r.options._replace(code_model="large")),
    "closed": lambda r: r._replace(options=r.options._replace(closed=True)),
    "ignore_optnone": lambda r: r._replace(options=r.options._replace(ignore_optnone=True)),
    "internal": lambda r: r._replace(options=r.options._replace(internal=True)),
    "passes": lambda r: r._replace(options=r.options._replace(passes="sroa")),
    "inline": lambda r: r._replace(options=r.options._replace(inline=False)),
    "debug": lambda r: r._replace(options=r.options._replace(debug=True)),
    "regalloc": lambda r: r._replace(options=r.options._replace(regalloc="fast")),
    "near": lambda r: r._replace(near=frozenset({"f"})),
    "bodies": lambda r: r._replace(bodies=(Lent("k", "f", "define i32 @f() { ret i32 1 }"),)),
    "keep_cpu": lambda r: r._replace(options=r.options._replace(keep_cpu=True)),
    "nobuiltin": lambda r: r._replace(nobuiltin=frozenset({"pow"})),
    "first_line": lambda r: r._replace(first_line=2),
}


def test_every_option_is_in_the_table() -> None:
    assert set(OTHERS) >= set(Options._fields)


@pytest.mark.parametrize("what", OTHERS)
def test_each_ingredient_of_a_request_changes_the_key(cache: ObjectCache, what: str) -> None:
    assert cache.key(OTHERS[what](REQUEST)) != cache.key(REQUEST)


def test_compiler_schema_and_the_package_change_the_key(
    tmp_path: Path, cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(compiler: str = WHO) -> str:
        return ObjectCache(str(tmp_path / "objects"), 64 << 20, compiler).key(REQUEST)

    keys = [cache.key(REQUEST), key("another")]
    monkeypatch.setattr(cache_module, "SCHEMA", 99)
    keys.append(key())
    monkeypatch.setattr(cache_module, "sources_digest", lambda: "other")
    keys.append(key())
    assert len(set(keys)) == 4


def test_label_and_cell_are_no_part_of_the_key(cache: ObjectCache) -> None:
    other = REQUEST._replace(label="cell 8", cell=8)
    assert cache.key(other) == cache.key(REQUEST)


def test_the_fingerprint_follows_the_library(tmp_path: Path) -> None:
    library = tmp_path / "llvmlite" / "binding" / "libllvmlite.so"
    with pytest.raises(FileNotFoundError):
        fingerprint(str(tmp_path))
    library.parent.mkdir(parents=True)
    library.write_bytes(b"one")
    one = fingerprint(str(tmp_path))
    assert one and one == fingerprint(str(tmp_path))
    library.write_bytes(b"other")
    assert fingerprint(str(tmp_path)) != one


# -- what comes back


def test_a_hit_is_what_was_kept_with_the_times_it_took(cache: ObjectCache) -> None:
    warning = Diagnostic("careful", 3, 4, "  %x = ...", "look", "warning")
    made = MADE._replace(warnings=(warning,))
    cache.put(REQUEST, made)
    for written in (False, True):
        if written:
            cache.flush()
        found = cache.get(REQUEST)
        assert found is not None and found.cached and found.times == made.times
        assert any(made.times.values())
        assert found == made._replace(cached=True)
    assert (cache.hits, cache.misses) == (2, 0)


HARD = """%in = type { i8, half }
%pt = type { i32, %in }
@"a b" = global %pt zeroinitializer
@k = constant [2 x i8] c"\\01\\FF"
@al = alias i32 (i32), ptr @f
declare i32 @puts(ptr)
define i32 @f(i32 signext %x) noinline optnone {
  %r = call i32 @puts(ptr @k)
  ret i32 %r
}
define void @by(ptr sret(%pt) %p, <8 x float> %v) {
  ret void
}
define i32 @"\\c3\\28"() {
  ret i32 1
}
"""


def test_hit_and_miss_are_equal_byte_for_byte(tmp_path: Path) -> None:
    def compiled(cached: bool) -> list[Compiled]:
        with CompilerPool(SessionSettings(spare=False), cache=open_at(tmp_path)) as pool:
            found = [pool.compile(r) for r in requests]
            found += [r for r in pool.compile_many(requests) if isinstance(r, Compiled)]
            assert [f.cached for f in found] == [cached] * len(requests) + [True] * len(requests)
            assert pool.memory()[0].compiles == (0 if cached else len(requests))
            return found

    requests = [
        Request(HARD, Options(opt_level=level), f"cell {level}", frozenset({"puts"}), 2)
        for level in (0, 2)
    ]
    cold, warm = compiled(False), compiled(True)
    for one, other in zip(cold, warm, strict=True):
        assert one.object == other.object
        assert one.summary == other.summary
        assert one.warnings == other.warnings
    assert cold[0].warnings and "cell" not in cold[0].warnings[0].render()
    assert {f.name for f in warm[0].summary.functions} >= {"f", "by", "al", "\udcc3("}


def open_at(folder: Path, size: int = 64 << 20) -> ObjectCache:
    return ObjectCache(str(folder / "objects"), size, fingerprint(packages()[0]))


def test_errors_are_not_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with CompilerPool(SessionSettings(spare=False), cache=open_at(tmp_path)) as pool:
            for _ in range(2):
                with pytest.raises(CompileError, match="line 2"):
                    pool.compile(Request("define i32 @f() {\n  ret i33 %q\n}\n", label="cell 3"))


# -- the disk


def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert open_cache(1 << 20, "") is None, "nobody can tell what compiles"
    cache = open_cache(1 << 20, packages()[0])
    assert cache is not None
    cache.put(REQUEST, MADE)
    cache.close()
    folder = tmp_path / "cache" / "jitkernel"
    assert folder.stat().st_mode & 0o077 == 0
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
    next(folder.glob("objects-*")).chmod(0o777)
    assert open_cache(1 << 20, packages()[0]) is None, "others could put code there"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_home() == str(tmp_path / "home" / ".cache" / "jitkernel")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert open_cache(1 << 20, packages()[0]) is None, "no folder can be made there"


@pytest.mark.parametrize("enabled", [False, True])
def test_disabled_is_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    from jitkernel import Session

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Session(object_cache=enabled, spare=False) as s:
        s.run(square("sq") + "@sq(7)")
        account = s.memory()["object_cache"]
    assert bool(files(tmp_path)) == enabled
    assert (account is not None) == enabled


def test_a_second_session_needs_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jitkernel import Session

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cell = "%pt = type { i32, i32 }\n" + square("sq") + "@g = global %pt zeroinitializer\n@sq(7)"
    for warm in (False, True):
        with Session(object_cache=True, spare=False) as s:
            result = s.run(cell)
            assert result.value == 49 and s.call("sq", 3) == 9
            assert s.run("%y = add i32 40, 2").value == 42
            account = s.memory()
            assert ("compiled earlier" in " ".join(result.notes)) == warm
            assert (account["object_cache"]["misses"] == 0) == warm
            assert (account["workers"][0]["compiles"] == 0) == warm
    assert account["object_cache"]["hits"] >= 2
    assert 0 < account["object_cache"]["bytes"] <= on_disk(tmp_path)


def database(folder: Path) -> Path:
    return next(folder.rglob("objects.db"))


def damage_cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def damage_flip(path: Path) -> None:
    """A bit of each object."""
    data = bytearray(path.read_bytes())
    at = -1
    while (at := data.find(b"\x7fELF", at + 1)) >= 0:
        data[at + 70] ^= 0x40
    path.write_bytes(data)


def damage_empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_head(path: Path) -> None:
    path.write_bytes(b"\0" * 64 + path.read_bytes()[64:])


def damage_name(path: Path) -> None:
    """Entries that have each other's content."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update entries set content = (select max(content) from entries)")


def damage_columns(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update entries set content = 5")


@pytest.mark.parametrize(
    "damage", [damage_cut, damage_flip, damage_empty, damage_head, damage_name, damage_columns]
)
def test_what_is_damaged_is_dropped(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    requests = [Request(square("f", k)) for k in range(3)]
    with CompilerPool(SessionSettings(spare=False), cache=open_at(tmp_path)) as pool:
        whole = [pool.compile(r) for r in requests]
    damage(database(tmp_path))
    for cached in (False, True):
        with CompilerPool(SessionSettings(spare=False), cache=open_at(tmp_path)) as pool:
            again = [pool.compile(r) for r in requests]
            assert [a.object for a in again] == [w.object for w in whole]
            assert pool.cache is not None
            if cached:
                assert all(a.cached for a in again), "it is made again"
            elif damage is not damage_empty:
                assert not all(a.cached for a in again) and pool.cache.memory().damaged >= 1


def test_a_full_or_vanished_disk_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    cache = ObjectCache(str(tmp_path / "objects"), 64 << 20, WHO)
    cache.put(REQUEST, MADE)

    def full(*arguments: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("jitkernel.compiler.cache_database.CacheDatabase._make_room", full)
        cache.flush()
    assert cache.stored == 0 and cache.get(REQUEST) is None
    cache.put(REQUEST, MADE)
    cache.flush()
    shutil.rmtree(tmp_path / "objects")
    assert cache.get(REQUEST) is None
    cache.put(REQUEST, MADE)
    cache.flush()
    assert cache.get(REQUEST) is not None, "the folder is made again"
    cache.close()


def test_the_size_is_a_bound_and_what_was_used_last_stays(tmp_path: Path) -> None:
    size = 1 << 20
    store = CacheDatabase(str(tmp_path), size)
    most = 0
    names = [f"{i:064x}" for i in range(1024)]
    for i, name in enumerate(names):
        assert store.write({name: b"x" * 3000}, [names[0]]) == 1  # that is used again and again
        most = max(most, on_disk(tmp_path)) if i % 64 == 0 else most
    assert most <= size and on_disk(tmp_path) <= size
    assert on_disk(tmp_path) >= size // 2, "it is not emptied for nothing"
    assert store.read(names[0]) is not None, "the first one was used last"
    there = [store.read(name) is not None for name in names]
    last = there.index(True, 1)
    assert all(there[last:]) and not any(there[1:last]), "the oldest went"
    assert not store.write({"0" * 64: b"x" * (size // 16 + 1)}), "a sixteenth is the most"
    entries, taken = store.usage()
    assert entries == sum(there) and size // 2 <= taken <= size
    store.close()


# -- several processes

WRITER = """
    import sys, time
    from jitkernel.compiler.cache_database import CacheDatabase
    store, seed, seconds = CacheDatabase(sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), float(sys.argv[4])
    print("ready", flush=True)
    end, i, found = time.monotonic() + seconds, seed, 0
    while time.monotonic() < end or found <= 100:
        i = (i * 1103515245 + 12345) % 400
        name = f"{i:064x}"
        content = bytes([i % 251]) * (1000 + 37 * i)
        read = store.read(name)
        assert read is None or read == content, "torn"
        found += read is not None
        if read is None:
            store.write({name: content})
        else:
            store.write({}, [name])
    print(found, store.damaged, flush=True)
"""


def writer(folder: Path, size: int, seed: int, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(folder), str(size), str(seed), str(seconds)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_two_processes_on_one_cache(tmp_path: Path) -> None:
    size = 2 << 20
    both = [writer(tmp_path, size, seed, 1.5) for seed in (1, 200)]
    most = 0
    while any(p.poll() is None for p in both):
        try:
            most = max(most, on_disk(tmp_path))
        except FileNotFoundError:
            continue  # it was evicted between listing and looking
    for process in both:
        out, _ = process.communicate()
        found, damaged = map(int, out.split())
        assert process.returncode == 0 and found > 100 and damaged == 0
    assert 0 < max(most, on_disk(tmp_path)) <= size


def test_killed_while_writing(tmp_path: Path) -> None:
    """Whatever a killed writer leaves, all that is read is whole."""
    for seed in range(12):
        process = writer(tmp_path, 64 << 20, seed * 31 + 1, 60)
        time.sleep(0.005 + 0.004 * seed)
        process.kill()
        process.communicate()
    store = CacheDatabase(str(tmp_path), 64 << 20)
    whole = 0
    for i in range(400):
        content = store.read(f"{i:064x}")
        assert content is None or content == bytes([i % 251]) * (1000 + 37 * i)
        whole += content is not None
    assert whole > 0 and store.damaged == 0
    store.close()


# -- times


def test_what_was_compiled_earlier_keeps_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    times, words, cached = [], [], []
    for fresh in (False, False, True, False):
        with Session(capacity=64 << 20, spare=False, object_cache=True) as s:
            r = s.run(square("f"), options=CellOptions(fresh=fresh))
            assert r.cell is not None
            times.append(r.cell.times[1:5])
            cached.append(r.cell.cached)
            words.append(views.timeline(s, 1).text)
            s.save(str(tmp_path / "work.jks"))
        with Session.restore(str(tmp_path / "work.jks")) as s:
            assert views.timeline(s, 1).text == words[-1]
    assert cached == [False, True, False, True]
    assert all(times[0]) and times[1] == times[0] and times[3] == times[2] != times[0]
    assert ["took place earlier" in text for text in words] == cached
