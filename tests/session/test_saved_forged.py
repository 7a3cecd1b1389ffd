"""Files that somebody has forged, checksums and all: refused in one line, or a session that answers,
whatever its rows say, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from forging import BOMB, forged

from jitkernel import Session, views
from jitkernel.errors import JitError, UsageError
from jitkernel.session.saved import store
from jitkernel.session.saved.tables import Tables
from jitkernel.sqlite_transaction import Transaction

SIZE = 64 << 20
FORGED = 12
SECONDS = 60  # for what it is asked, on a busy machine
C = [
    "#include <stdio.h>\n#include <string.h>\n#define N 12\nstruct p { int x, y[N]; char *name; };",
    'typedef struct p point;\nstatic int count = 3;\npoint origin = {1, {2}, "here"};',
    "int next(void) { static int n; count++; return ++n + N; }\n_Thread_local int own = 4;",
    "double mean(const double *a, int n) { double s = 0; for (int i = 0; i < n; i++) s += a[i];"
    ' return s / n; }\nint say(void) { return printf("%s %d\\n", origin.name, own); }',
    "next() + strlen(origin.name)",
    "origin",
    "inline int twice(int n) { return 2 * n; }\nenum colour { RED, GREEN = 5 } c = GREEN;",
    "int (*table[3])(int) = {twice};\ntable[0](21)",
]
IR = [
    """%pair = type { i32, ptr }
@g = global %pair { i32 7, ptr null }
@z = global [600 x i64] zeroinitializer""",
    """$sum = comdat any
define weak_odr i64 @sum(i64 %n) comdat {
  %r = add i64 %n, 1
  ret i64 %r
}
declare i64 @missing(i64)
define i64 @calls(i64 %n) {
  %r = call i64 @missing(i64 %n)
  ret i64 %r
}""",
    '@sum(4)\n@text = ptr "some text"\n@puts("hello")',
    "store i64 77, ptr getelementptr (i8, ptr @z, i64 8)",
    "@other = alias i64 (i64), ptr @local\ndefine i64 @local(i64 %n) {\n  ret i64 %n\n}",
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forged") / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        for cell in C:
            s.run(cell, "c", cell_id=f"c{C.index(cell)}")
        for cell in IR:
            s.run(cell)
        s.run("def twiddle(a b) a + b * 2", "kaleidoscope")
        s.load("libz.so.1")
        s.save(str(path))
    return path


ASKED = [
    lambda s: s.check(),
    lambda s: [(c.number, c.state, c.names, str(c)) for c in s.cells],
    lambda s: [(n, y.type, y.size, str(y)) for n, y in s.symbols.items()],
    lambda s: str(s.memory()),
    lambda s: [s.source(c.number) for c in s.cells],
    lambda s: views.arena(s).text,
    lambda s: views.symbols(s).text,
    lambda s: s.run("next() + say() + origin.x", "c").value,
    lambda s: s.call("mean", [1.0, 2.0], 2),
    lambda s: s.call("sum", 3),
    lambda s: (s["g"].value, s["z"].array, s["count"].value),
    lambda s: s.run("int next(void) { return 5; }\nstruct p again = {3};", "c"),
    lambda s: s.run("define i64 @sum(i64 %n) {\n  ret i64 %n\n}"),
    lambda s: views.asm(s, "mean").text,
    lambda s: views.ir(s, "calls").text,
    lambda s: s.undo(),
    lambda s: s.evict("origin", cascade=True),
    lambda s: s.gc(undo=True),
]


def ask(path: Path, away: str) -> list[str]:
    """What goes wrong with a file: what is no error of ours, or more than a line."""
    try:
        s = Session.restore(str(path), spare=False, cell_timeout=5.0)
    except UsageError as error:
        words = str(error)
        return [f"refused with {words}"] if "\n" in words or "Error" in words else []
    except Exception as error:
        return [f"restore: {type(error).__name__}: {error}"]
    wrong: list[str] = []
    with s:
        for number, question in enumerate([*ASKED, lambda s: s.save(away), lambda s: s.reset()]):
            try:
                question(s)
            except (JitError, AssertionError):  # what is forged need not hold together
                pass
            except Exception as error:
                wrong.append(f"question {number}: {type(error).__name__}: {error}")
    return wrong


def check(original: Path, folder: Path, seeds: range) -> None:
    copy, wrong = folder / "copy.jks", []
    for seed in seeds:
        what = forged(original, copy, random.Random(seed))
        began = time.monotonic()
        wrong += [f"seed {seed}: {what}: {w}" for w in ask(copy, str(folder / "away.jks"))]
        if time.monotonic() - began > SECONDS:
            wrong.append(f"seed {seed}: {what}: it took {time.monotonic() - began:.0f} s")
    assert not wrong, "\n".join(wrong)


def test_rows_that_were_forged(original: Path, tmp_path: Path) -> None:
    check(original, tmp_path, range(FORGED))


@pytest.mark.soak
def test_many_rows_that_were_forged(original: Path, tmp_path: Path) -> None:
    check(original, tmp_path, range(FORGED, 1000))


@pytest.mark.parametrize("column", ["source", "module", "object"])
def test_what_unpacks_to_gigabytes_is_refused(
    original: Path, tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_LONGEST_TEXT", 1 << 20)
    monkeypatch.setattr(store, "_LARGEST_OBJECT", 1 << 20)
    copy = tmp_path / "copy.jks"
    shutil.copyfile(original, copy)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as db:
        tables = Tables(db)
        row = list(db.execute("select * from records where number = 3").fetchone()[:-1])
        row[("source", "module", "first_line", "options", "object").index(column) + 1] = BOMB
        with Transaction(db):
            tables.put("records", [tuple(row)])
    with Session.restore(str(copy), spare=False) as s:
        with pytest.raises(UsageError, match="cell 3 cannot be read: more than 1048576 bytes"):
            s.source(3)
        assert s.run("count", "c").value == 4
