"""What of a stranger's file runs: nothing, until the user trusts it or calls it."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import SQ

from jitkernel import Session
from jitkernel.errors import UndefinedSymbol
from jitkernel.session.saved.tables import Tables

SIZE = 16 << 20
LIBRARY = r"""
#include <stdio.h>
__attribute__((constructor)) static void begin(void) { fclose(fopen("%s", "w")); }
int forty(void) { return 40; }
int three = 3;
"""
CELLS = "int forty(void); extern int three; int call(void) { return forty(); } int read(void) { return three; }"
CONSTRUCTED = """#include <fcntl.h>
int n;
__attribute__((constructor)) static void begin(void) { n = 7; creat("{0}", 0600); }
__attribute__((destructor)) static void end(void) { creat("{0}", 0600); }"""


@pytest.fixture
def library(tmp_path: Path) -> tuple[Path, Callable[[], bool]]:
    """A library, and whether its constructor has run since that was asked last."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    mark, source, path = tmp_path / "ran", tmp_path / "l.c", tmp_path / "l.so"
    source.write_text(LIBRARY % mark)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)

    def ran() -> bool:
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found

    return path, ran


def test_a_library_is_loaded_only_where_the_file_is_trusted(
    library: tuple[Path, Callable[[], bool]], tmp_path: Path
) -> None:
    path, ran = library
    file = str(tmp_path / "s.jks")
    with Session(capacity=SIZE, spare=False) as s:
        s.load(str(path))
        s.run(CELLS, "c")
        s.save(file)
    assert ran()
    with Session.restore(file, spare=False) as s:
        assert not ran()
        assert s.frontend.core.withheld == [str(path)]
        assert f"not loaded, since loading them runs their code: {path}" in str(s.restored)
        for name in ("call", "read"):
            with pytest.raises(UndefinedSymbol):
                s.call(name)
        s.check()
        s.save(file)
    with Session(store_path=file, spare=False) as s:  # whose own file it is now
        assert len(s.cells) == 1
        assert s.frontend.core.withheld == [str(path)] and "not loaded" in str(s.restored)
        with pytest.raises(UndefinedSymbol):
            s.call("call")
    assert not ran()
    with Session.restore(file, spare=False) as s:
        s.load(str(path))
        assert ran() and (s.call("call"), s.call("read")) == (40, 3)
    for trusted in (
        lambda: Session.restore(file, spare=False, trust=True),
        lambda: Session(store_path=file, spare=False, trust=True),
    ):
        with trusted() as s:
            assert s.call("call") == 40 and ran() and not s.frontend.core.withheld
            assert (s.call("call"), s.call("read")) == (40, 3)
            s.check()


def test_a_forged_file_loads_nothing(
    library: tuple[Path, Callable[[], bool]], tmp_path: Path
) -> None:
    path, ran = library
    file = tmp_path / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        s.run(SQ)
        s.save(str(file))
    for key in ("libraries", "withheld"):
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            (body,) = db.execute("select body from facts where id = 'session'").fetchone()
            body = json.dumps(json.loads(body) | {key: [str(path)], "trust": True})
            tables = Tables(db)
            tables.put("facts", [("session", body, b"")])
        for rebuild in (False, True):
            with Session.restore(str(file), spare=False, rebuild=rebuild) as s:
                assert s.call("sq", 3) == 9
                s.respawn()
                assert s.call("sq", 3) == 9
            assert not ran(), (key, rebuild)


def test_constructors_run_when_a_file_that_is_trusted_is_rebuilt(tmp_path: Path) -> None:
    mark, file = tmp_path / "ran", tmp_path / "s.jks"
    with Session(capacity=SIZE, spare=False) as s:
        s.run(CONSTRUCTED.replace("{0}", str(mark)), "c")
        assert mark.exists() and s["n"].value == 7
        s.save(str(file))
    mark.unlink()
    with Session.restore(str(file), spare=False) as s:
        assert s["n"].value == 7
    assert not mark.exists()
    damaged = file.read_bytes()[:-4096] + bytes(4096)
    file.write_bytes(damaged)
    with Session.restore(str(file), spare=False, rebuild=True, capacity=SIZE) as s:
        assert s["n"].value == 0 and not mark.exists()
        assert "the constructors of cells 1 were not run" in str(s.restored)
        s.evict("n", cascade=True)
        s.check()
    assert not mark.exists(), "nor what takes back what was not done"
    with Session.restore(str(file), spare=False, rebuild=True, trust=True, capacity=SIZE) as s:
        assert s["n"].value == 7 and mark.exists()
