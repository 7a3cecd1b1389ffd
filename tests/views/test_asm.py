"""Disassembly: what GNU objdump says of the same bytes, and what we add to it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.views.asm import asm, disassemble
from jitkernel.views.names import bare, written

LOOP = """\
@limit = global i64 100
@table = constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]
declare i32 @puts(ptr)
define i64 @loop(i64 %n, ptr %p) {
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %j, %again ]
  %v = load volatile i64, ptr @limit
  %e = getelementptr i64, ptr @table, i64 %v
  %w = load volatile i64, ptr %e
  %r = call i32 @puts(ptr %p)
  %j = add i64 %i, %w
  %c = icmp ult i64 %j, %n
  br i1 %c, label %again, label %done
done:
  ret i64 %j
}"""


@pytest.fixture(scope="module")
def session():
    with Session(capacity=64 << 20) as running:
        running.run(LOOP)
        yield running


@pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is the oracle")
def test_instructions_are_those_of_objdump(session: Session, tmp_path: Path) -> None:
    symbol = session.symbols["loop"]
    code = session.arena.read(symbol.address, symbol.size)
    path = tmp_path / "code.bin"
    path.write_bytes(code)
    said = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn",
         f"--adjust-vma={symbol.address:#x}", str(path)],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    theirs = [
        (int(m[1], 16) - symbol.address, m[2])
        for m in re.finditer(r"^ *([0-9a-f]+):\s+(\S+)", said, re.M)
    ]
    ours = []
    for line in disassemble(code, symbol.address, lambda address: ""):
        found = re.search(r"\+(\d+) +(?:[0-9a-f]{2} )+(?:… )? *(\S+)", line)
        assert found, line
        ours.append((int(found[1]), found[2]))
    same = {"movabs": "mov"}
    assert [(a, same.get(b, b)) for a, b in ours] == [(a, same.get(b, b)) for a, b in theirs]


def test_names_and_labels(session: Session) -> None:
    text = asm(session, "@loop").text
    assert text.startswith("@loop: i64 (i64, ptr), ")
    assert "; @limit" in text
    assert re.search(r"call .*; .*puts", text)
    assert re.search(r"^L1 +\+\d+ ", text, re.M) and re.search(r"jb .*; L1$", text, re.M)


def test_bytes_that_are_no_code() -> None:
    lines = list(disassemble(b"\x06\xc3", 0x1000, lambda address: ""))
    assert ".byte" in lines[0] and "ret" in lines[1]


def test_syntaxes(session: Session) -> None:
    assert "qword ptr" in asm(session, "loop").text
    assert "%r" in asm(session, "loop", "att").text


@pytest.mark.parametrize("name", ["sq", "a b", 'quo"te', "ünï", "$x.y-z", "1", "back\\slash"])
def test_names_are_written_as_ir_has_them(name: str) -> None:
    assert bare(written(name)) == name


def test_how_names_look() -> None:
    assert written("sq") == "@sq"
    assert written("a b") == '@"a b"'
    assert bare("@sq") == bare("sq") == "sq"
