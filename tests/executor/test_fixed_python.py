"""A Python linked for a fixed address, as Debian's is: its heap may lie where the arena does."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from jitkernel import Session
from jitkernel.errors import Fault
from jitkernel.executor import spawn

_ET_EXEC = 2  # elf(5), e_type


def interpreter() -> str:
    """One that is linked for a fixed address; empty where there is none."""
    for name in ("/usr/bin/python3.11", "/usr/bin/python3.12", "/usr/bin/python3.13", "python3"):
        path = shutil.which(name)
        if path and Path(path).resolve().is_file():
            head = Path(path).resolve().read_bytes()[:18]
            if head[:4] == b"\x7fELF" and struct.unpack_from("<H", head, 16)[0] == _ET_EXEC:
                return path
    return ""


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    path = interpreter()
    if not path:
        pytest.skip("there is no Python here that is linked for a fixed address")
    monkeypatch.setattr(spawn, "sys", SimpleNamespace(executable=path))


def test_its_heap_gives_way_to_the_arena(fixed: None) -> None:
    """The heap begins at random below 1 GiB: in a dozen starts it would lie in the way of a few."""
    with Session(base=0x1000_0000, spare=False) as s:
        s.run("@n = global i64 0\ndeclare ptr @malloc(i64)")
        for i in range(12):
            s.run(f"@n = {i}")
            assert int(s.call("malloc", 100)) not in range(0x1000_0000, 0x5000_0000)
            assert s["n"].value == i
            s.respawn()


def test_programs_that_cells_start_have_random_addresses(fixed: None) -> None:
    with Session(base=0x1000_0000, spare=False) as s:
        s.run("declare i64 @labs(i64)")
        for _ in range(4):
            assert s.call("labs", -3) == 3  # what it starts as, it does not stay
            kind = Path(f"/proc/{s.inspect.engine.executor.pid}/personality").read_text()
            assert int(kind, 16) & 0x40000 == 0
            s.respawn()


def test_words_that_point_into_its_heap_are_counted(fixed: None, tmp_path: Path) -> None:
    """Its heap is low, where numbers are, too: in an undo, after its end, in a file."""
    path = str(tmp_path / "heap.jks")
    with Session(spare=False) as s:
        s.run("@p = global ptr null\n@n = global i64 12345678901\ndeclare i32 @raise(i32)")
        s.run("@p = @malloc(16)")
        assert s["p"].value < 1 << 32
        s.run("@p = null")
        assert "1 restored word points into the executor's heap" in s.undo()[0]
        with pytest.raises(Fault, match="1 word in globals still points into the one that ended"):
            s.run("@raise(9)")
        s.run("@p = @malloc(16)")
        s.save(path)
    with Session.restore(path, spare=False) as s:
        assert "1 word in globals may point into the process that ended" in str(s.restored)
        s.check()
