"""The cache of precompiled headers: shared, damaged, full, and added to."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import pytest

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.languages.c import clang, precompiled
from tests.busy import meanwhile
from tests.seeds import sampled

pytest.importorskip("ziglang")

INCLUDES = "#include <math.h>\n#include <string.h>\n"
USE = 'int q{}(const char *s) {{ return (int) strlen(s) + (int) hypot(3, 4); }}\nq{}("abc")'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the cache is: it is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "jitkernel" / "c"


@pytest.fixture
def built(monkeypatch):
    """What clang precompiles: the directives of each."""
    found = []
    build = clang.Clang._precompile

    def noted(self, text, *rest):
        found.append(text.splitlines())
        return build(self, text, *rest)

    monkeypatch.setattr(clang.Clang, "_precompile", noted)
    return found


def entries(folder):
    return sorted(p for p in folder.iterdir() if precompiled._NAME.fullmatch(p.name))


def used(session, number=0):
    return session.run(USE.format(number, number), "c").value


def own_headers(folder, count):
    """Headers that are no longer new."""
    for number in range(count):
        path = folder / f"h{number}.h"
        path.write_text(f"#pragma once\n#define N{number} {number}\nint f{number}(int);\n")
        os.utime(path, (1e9, 1e9))
    return [f"#include <h{number}.h>\n" for number in range(count)]


# -- what is made --------------------------------------------------------------------------------


def test_a_header_that_is_added_is_compiled_alone(folder, tmp_path, built):
    lines = own_headers(tmp_path, 101)
    with Session(clang_flags=f"-I{tmp_path}") as s:
        s.run("".join(lines[:100]), "c")
        assert s.run("N99", "c").value == 99
        s.run(lines[100], "c")
        assert s.run("N100 + N0", "c").value == 100
    assert [len(text) for text in built] == [100, 1]


def test_many_that_are_added_one_by_one(folder, tmp_path, built):
    """Each is compiled a few times, and chains stay short."""
    lines = own_headers(tmp_path, 40)
    with Session(clang_flags=f"-I{tmp_path}") as s:
        for number, line in enumerate(lines):
            s.run(line, "c")
            assert s.run(f"N{number} + N0", "c").value == number
        cache = clang._header_cache(str(folder))
        assert max(map(len, cache._chains.values())) < 10
    assert len(built) == 40 and sum(map(len, built)) < 40 * 5
    with Session(clang_flags=f"-I{tmp_path}") as s:  # the next finds them all
        s.run("".join(lines), "c")
        assert s.run("N39", "c").value == 39
    assert len(built) == 40


def test_what_is_taken_back_and_defined_again_on_the_way(folder, tmp_path):
    """Later entries of a chain change what earlier ones say."""
    for number in range(6):
        path = tmp_path / f"h{number}.h"
        path.write_text(
            f'#undef N\n#define N {number}\n#pragma push_macro("M")\n#undef M\n#define M {number}\n'
            f"#ifndef FIRST\n#define FIRST {number}\nstruct s;\n#endif\n"
            + ("struct s { int a[N]; };\n" if number == 3 else "")
            + ('#pragma pop_macro("M")\n' if number % 2 else "")
        )
        os.utime(path, (1e9, 1e9))
    with Session(clang_flags=f"-I{tmp_path}") as s:
        for number in range(6):
            s.run(f"#include <h{number}.h>", "c")
            assert s.run("N * 100 + FIRST", "c").value == 100 * number
        assert s.run("M + (int) sizeof(struct s)", "c").value == 4 + 12


def test_a_header_that_changes_within_a_second(folder, tmp_path):
    """clang compares its time in whole seconds, and its size."""
    path = tmp_path / "own.h"
    with Session(clang_flags=f"-I{tmp_path}") as s:
        for number in range(4):
            path.write_text(f"#define N {number}\n")
            s.run("#include <own.h>", "c", cell_id="a")
            assert s.run("N", "c").value == number


def test_a_header_that_changes_later(folder, tmp_path, built):
    lines = own_headers(tmp_path, 3)
    with Session(clang_flags=f"-I{tmp_path}") as s:
        for line in lines:
            s.run(line, "c")
            s.run("N0", "c")
        (tmp_path / "h1.h").write_text("#pragma once\n#define N1 100\n")
        os.utime(tmp_path / "h1.h", (1.1e9, 1.1e9))
        s.run(lines[1], "c")
        assert s.run("N1 + N2", "c").value == 102
        assert s.run("N1 + N0", "c").value == 100
        os.unlink(tmp_path / "h2.h")
        with pytest.raises(JitError, match=r"h2\.h"):
            s.run("N1", "c")


# -- damage --------------------------------------------------------------------------------------


def rewritten(path, change):
    """Change a file's content and nothing that is said of it."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    path.write_bytes(change(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flipped(data):
    for _ in range(3):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def replaced(path, make):
    path.unlink()
    make(path)


def each(change):
    return lambda folder: [change(path) for path in entries(folder)]


def first(change):
    return lambda folder: change(
        max(entries(folder), key=lambda p: p.name.split("-")[1] == "0" * 16)
    )


def exchanged(folder):
    """Each entry has the content of another."""
    found = entries(folder)
    contents = [path.read_bytes() for path in found]
    for path, content in zip(found, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content[:-4] + b"\0" * 4 if len(found) == 1 else content)


def emptied(folder):
    for path in folder.iterdir():
        path.unlink()


def gone(folder):
    emptied(folder)
    folder.rmdir()


def a_file_instead(folder):
    gone(folder)
    folder.write_text("")


def a_dead_link_instead(folder):
    gone(folder)
    folder.symlink_to("/nowhere/at/all")


def renamed(folder):
    for path in entries(folder):
        key, below, sum_ = path.name.split("-")
        path.rename(folder / f"{key}-{below}-{sum_[::-1]}")


DAMAGE = {
    "empty": each(lambda path: path.write_bytes(b"")),
    "half": each(lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])),
    "a byte short": each(lambda path: rewritten(path, lambda data: data[:-1])),
    "a byte longer": each(lambda path: rewritten(path, lambda data: data + b"\0")),
    "zeros": each(lambda path: path.write_bytes(bytes(path.stat().st_size))),
    "zeros, times as before": each(lambda path: rewritten(path, lambda data: bytes(len(data)))),
    "last page zero": each(lambda path: rewritten(path, lambda data: data[:-4096] + bytes(4096))),
    "bits": each(lambda path: rewritten(path, flipped)),
    "bits of the first": first(lambda path: rewritten(path, flipped)),
    "text": each(lambda path: path.write_text("int x;\n" * 1000)),
    "touched": each(lambda path: os.utime(path)),
    "exchanged": exchanged,
    "renamed": renamed,
    "a folder": each(lambda path: replaced(path, lambda p: p.mkdir())),
    "a full folder": each(lambda path: replaced(path, lambda p: (p.mkdir(), (p / "x").mkdir()))),
    "a named pipe": each(lambda path: replaced(path, os.mkfifo)),
    "a link to itself": each(lambda path: replaced(path, lambda p: p.symlink_to(p))),
    "a link to a device": each(lambda path: replaced(path, lambda p: p.symlink_to("/dev/zero"))),
    "the first is gone": first(lambda path: path.unlink()),
    "emptied": emptied,
    "the cache is gone": gone,
    "the cache is a file": a_file_instead,
    "the cache is a dead link": a_dead_link_instead,
}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A session whose headers are two entries of a cache, and where that is."""
    home = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        with Session() as s:
            yield s, home / "jitkernel" / "c"


@pytest.mark.parametrize("kind", sampled(DAMAGE, 5))
def test_damage_is_repaired_in_the_same_cell(lasting, kind):
    s, folder = lasting
    for line in INCLUDES.splitlines():
        s.run(line, "c")
        assert s.run("M_PI > 3", "c").value == 1
    assert len(entries(folder)) == 2
    DAMAGE[kind](folder)
    assert used(s) == 8
    assert folder.is_dir() and entries(folder)
    DAMAGE[kind](folder)
    clang._header_cache.cache_clear()  # as a process that has seen nothing of it
    assert used(s, 1) == 8
    cache = precompiled.HeaderCache(str(folder))
    assert any(map(cache._is_sound, cache._entries()))
    s.reset()
    emptied(folder)


def test_removed_and_damaged_at_every_moment(folder):
    """As other processes may do it, between a look and clang's use."""

    def harm():
        time.sleep(random.random() * 0.02)
        for path in entries(folder):
            try:
                path.unlink() if random.random() < 0.5 else path.write_bytes(b"CPCHxyz")
            except OSError:
                pass

    with Session() as s:
        s.run(INCLUDES, "c")
        used(s)
        with meanwhile(harm):
            for number in range(15):
                assert used(s, number) == 8


def test_a_cache_where_others_can_write_is_not_used(s, folder):
    s.run(INCLUDES, "c")
    assert used(s) == 8
    os.chmod(folder, 0o777)
    emptied(folder)
    assert used(s, 1) == 8 and not list(folder.iterdir())


def test_without_a_place(tmp_path, monkeypatch):
    (tmp_path / "jitkernel").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Session() as s:
        s.run(INCLUDES, "c")
        assert used(s) == 8


# -- its limit -----------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes_first(folder, monkeypatch):
    headers = ["stdio", "stdlib", "math", "time"]

    def run(name):
        with Session() as s:
            s.run(f"#include <{name}.h>", "c")
            s.run("1 + 1", "c")

    for name in headers:
        clang._header_cache.cache_clear()
        run(name)
    before = entries(folder)
    assert len(before) == 4
    for path in before:  # days pass
        os.utime(path, ns=(1_500_000_000_000_000_000, path.stat().st_mtime_ns))
    clang._header_cache.cache_clear()
    run("stdlib")
    monkeypatch.setattr(clang, "_HEADERS", sum(p.stat().st_size for p in before) // 2)
    run("string")
    left = {path.name for path in entries(folder)} & {path.name for path in before}
    latest = max(before, key=lambda p: p.stat().st_atime_ns if p.exists() else 0)
    assert latest.name in left and len(left) < 4
    assert sum(p.stat().st_size for p in entries(folder)) <= clang._HEADERS


def test_what_a_killed_process_has_left_goes(folder):
    folder.mkdir(parents=True)
    names = ["tmp-1-2-3", "tmp-1-2-3.d", "0" * 64, f"{'0' * 64}.h"]
    for name in names:
        (folder / name).write_text("x")
        os.utime(folder / name, (1e9, 1e9))
    (folder / "tmp-4-5-6").write_text("x")  # somebody is at it
    with Session() as s:
        s.run(INCLUDES, "c")
        assert used(s) == 8
    assert [p.name for p in folder.iterdir() if p not in entries(folder)] == ["tmp-4-5-6"]


SHARED = """
import json, random, sys
from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.languages.c import clang

clang._HEADERS = int(sys.argv[2])
chosen, refused, right = random.Random(int(sys.argv[1])), [], 0
names = "stdio math string stdlib ctype time errno sys/stat unistd signal".split()
cells = int(sys.argv[3])
while right + len(refused) < cells:
    with Session() as s:
        for number in range(min(20, cells)):
            try:
                s.run(f"#include <{chosen.choice(names)}.h>", "c")
                text = f"int f(int x) {{ return x + {number}; }}\\nf(1)"
                right += s.run(text, "c").value == number + 1
            except JitError as error:
                refused.append(str(error)[:300])
print(json.dumps([right, refused]))
"""


def shared(folder, processes, limit, cells):
    """Sessions that share a cache: cells that were right, and what was refused."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED, str(seed), str(limit), str(cells)],
            stdout=subprocess.PIPE,
        )
        for seed in range(processes)
    ]  # fmt: skip
    answers = [json.loads(process.communicate(timeout=900)[0]) for process in started]
    return sum(a[0] for a in answers), [text for a in answers for text in a[1]]


def test_sessions_that_share_a_cache_past_its_limit(folder):
    assert shared(folder, 2, 1 << 20, 12) == (24, [])
    assert sum(path.stat().st_size for path in entries(folder)) < 4 << 20


@pytest.mark.soak
def test_many_sessions_that_share_a_cache_past_its_limit(folder):
    assert shared(folder, 3, 2 << 20, 100) == (300, [])
    begun = time.monotonic()
    assert shared(folder, 3, 2 << 20, 20) == (60, [])
    assert time.monotonic() - begun < 300
