"""Disassembly: what GNU objdump says of the same bytes, and what we add to it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from stripped import assert_complete

from jitkernel import Session
from jitkernel.errors import CompileError, UsageError
from jitkernel.ir.names import bare, written
from jitkernel.linker.disassembly import decode
from jitkernel.views.asm import asm, disassemble
from jitkernel.views.foreign import foreign, unplaced

CELLS = [
    """\
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
]


@pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is the oracle")
def test_instructions_are_those_of_objdump(session: Session, tmp_path: Path) -> None:
    symbol = session.symbols["loop"]
    code = session.inspect.engine.arena.read(symbol.address, symbol.size)
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
    for line in disassemble(decode(code, symbol.address)):
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
    assert re.search(r"^ 9  L1 +\+\d+ ", text, re.M) and re.search(r"jb .*; L1$", text, re.M)


def test_lines_of_the_cell_are_shared_markers(session: Session) -> None:
    view = asm(session, "loop")
    code, lines = view.text.split("\n\n")
    used = set(re.findall(r"^ *(\d+)  (?:L\d| )", code, re.M))
    assert used == set(re.findall(r"^ *(\d+)  ", lines.partition("\n")[2], re.M)) > {"12"}
    assert "12    %r = call i32 @puts(ptr %p)" in lines
    assert re.search(r"^12 .* call .*; the entry of @puts$", code, re.M)
    assert "Lines of" not in asm(session, "loop", lines=False).text
    assert_complete(view)


def test_functions_that_only_their_cell_knows(s: Session) -> None:
    s.run("@k = internal constant i32 7\ndefine internal i32 @own(i32 %x) noinline {\n  %v = load volatile i32, ptr @k\n"
          "  ret i32 %v\n}\ndefine i32 @f(i32 %x) {\n  %r = call i32 @own(i32 %x)\n  ret i32 %r\n}")  # fmt: skip
    text = asm(s, 1).text
    assert "@own: known to its cell only, " in text and "; @k" in text
    assert re.search(r"(?:call|jmp) .*; @own$", asm(s, "f").text, re.M)


def test_all_bytes_of_long_instructions_are_there() -> None:
    code = bytes.fromhex("48b8efcdab8967452301c3")  # movabs rax, 0x123456789abcdef; ret
    lines = list(disassemble(decode(code, 0x1000)))
    assert [line.split("  ")[1] if i == 0 else line.split()[-1] for i, line in enumerate(lines)]
    assert " ".join(lines).count("23 01") == 1 and len(lines) == 3


@pytest.mark.parametrize(
    ("machine", "cpu", "words"),
    [
        ("aarch64", "", "bl      puts"),
        ("riscv64", "", "call    puts"),
        ("riscv64", "sifive-u74", "sifive-u74"),
        ("x86_64", "", "ret"),
        ("i686", "", "dword ptr [e"),
        ("s390x-unknown-linux-gnu", "", "brasl"),
        ("nvptx64", "", ".func"),
    ],
)
def test_other_machines_for_reading(session: Session, machine: str, cpu: str, words: str) -> None:
    view = foreign(session, "loop", machine, cpu)
    assert words in view.text
    assert not re.search(r"\.(cfi|loc|debug|Ltmp|size)\b", view.text)
    if machine != "nvptx64":
        assert "12    %r = call i32 @puts(ptr %p)" in view.text
        count = re.search(r": (\d+) instructions?, not placed here", view.text)
        assert count is not None
        body = view.text.split("\n\n")[0].splitlines()[1:]
        assert int(count[1]) == sum(not line.endswith(":") for line in body)
    assert_complete(view, cut=machine == "nvptx64")


def test_x86_is_written_as_here(session: Session) -> None:
    """Intel's syntax beside Intel's; AT&T's where that is asked for, and as often as one likes."""
    for _ in range(2):
        assert re.search(r"\bcall    puts", foreign(session, "loop", "x86_64").text)
        assert re.search(r"\bcallq   puts", foreign(session, "loop", "x86_64", syntax="att").text)
    # A module's own assembly is AT&T's: all is, then.
    own = 'module asm "own: movl %eax, %ebx"\ndefine i32 @h() {\n  ret i32 7\n}'
    assert "movl    $7, %eax" in unplaced(session, own, "x86_64").text
    one = "define i32 @one(i32 %x) {\n  ret i32 %x\n}"
    assert ": 1 instruction, not placed here" in unplaced(session, one, "aarch64").text


def test_a_machine_that_llvm_has_not(session: Session) -> None:
    with pytest.raises(CompileError, match="no such machine: vax"):
        foreign(session, "loop", "vax")


def test_a_pasted_cell_of_another_machine_is_read_not_run(session: Session) -> None:
    pasted = 'target triple = "riscv64-unknown-linux-gnu"\ndefine i64 @f(i64 %x) {\n  %r = mul i64 %x, 3\n  ret i64 %r\n}\n'
    with pytest.raises(CompileError, match="%%asm --target riscv64-unknown-linux-gnu"):
        session.run(pasted)
    view = unplaced(session, pasted, "riscv64-unknown-linux-gnu")
    assert "3    %r = mul i64 %x, 3" in view.text and "f" not in session.symbols
    with pytest.raises(UsageError, match="definitions only"):
        unplaced(session, "@loop(1, null)", "riscv64")
    with pytest.raises(CompileError, match="line 2"):
        unplaced(session, "define i64 @f() {\n  ret i64 %x\n}", "riscv64")


def test_bytes_that_are_no_code() -> None:
    lines = list(disassemble(decode(b"\x06\xc3", 0x1000)))
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


@pytest.mark.parametrize("zone", ["text", "data"])
def test_a_number_is_no_address_where_nothing_is(s: Session, zone: str) -> None:
    """As 0x40000000, which is 2.0 as well."""
    number = s.inspect.engine.arena.zones[zone].stop - 64
    s.run(f"define i64 @f() {{\n  ret i64 {number}\n}}")
    assert f"{number:#x}" in (text := asm(s, "f").text) and ";" not in text


def test_the_stub_of_a_far_function_and_the_entry_of_a_near_one(s: Session) -> None:
    """Where calls from afar, and pointers, lead; it is patched when the function is redefined."""
    s.run(
        "define i32 @shout(ptr %t) {\n  %r = call i32 @puts(ptr %t)\n  ret i32 %r\n}\n"
        "define i32 @op(i32 %x) {\n  ret i32 %x\n}\n@keep = global ptr @op"
    )
    stub = asm(s, "@puts").text
    assert stub.startswith("the stub of @puts, 16 bytes at 0x") and "int3" not in stub
    assert re.search(r"jmp +qword ptr \[rip .*; @puts in its slot", stub)
    before = asm(s, "@op", entry=True).text
    s.run("define i32 @op(i32 %x) {\n  %r = add i32 %x, 1\n  ret i32 %r\n}")
    after = asm(s, "@op", entry=True).text
    assert before != after and before.split("\n")[0] == after.split("\n")[0]
    assert re.search(r"e9 [0-9a-f ]+jmp +0x[0-9a-f]+ +; @op$", after)
    with pytest.raises(UsageError, match="@shout has no entry"):
        asm(s, "@shout", entry=True)
    with pytest.raises(UsageError, match="an entry is one function's"):
        asm(s, 1, entry=True)


def test_a_number_that_lies_in_the_arena_has_no_name(s):
    """Only what is there has: no part of the arena that holds nothing."""
    zones = s._core.engine.arena.zones
    for name in ("text", "data"):
        number = zones[name].stop - 0x1235
        s.run(f"define i32 @n(i32 %x) {{\n  %r = xor i32 %x, {number}\n  ret i32 %r\n}}")
        shown = asm(s, "n").text
        assert re.search(rf"xor +.*{number:#x}$", shown, re.M), shown
