"""`%object` and `%asm` against GNU ld and objdump: every address, byte, target and value."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus import IR
from elftools.elf.elffile import ELFFile
from oracle import Linked, link_like
from stripped import assert_complete
from toolchain import needs, tool

from jitkernel import Session
from jitkernel.elf import read_object
from jitkernel.errors import UsageError
from jitkernel.linker import SymbolState
from jitkernel.linker.disassembly import Instruction, decode
from jitkernel.linker.linkmap import LinkMap, MappedRelocation, read_link_map
from jitkernel.linker.x86_64 import TABLE
from jitkernel.views import callgraph, compare
from jitkernel.views.asm import asm, code_of
from jitkernel.views.object import ROWS
from jitkernel.views.object import object as object_view
from tests.seeds import few, sampled

#: Modules that a session runs as they are; the others define what the process has, or throw.
NAMES = [n for n in IR if n not in ("constructors",)]


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20, object_cache=False) as running:
        running.inspect.engine.ready()
        running.inspect.engine.arena.reserve(
            "rodata", 48
        )  # where ld puts what _GLOBAL_OFFSET_TABLE_ is
        yield running


def placed(session: Session, name: str, level: int) -> tuple[LinkMap, Linked]:
    """A module of the corpus as a cell; what the view reads back, and what ld makes of it."""
    session.settings.opt_level = level
    cell = session.run(IR[name]).cell
    assert cell is not None and cell.image is not None
    record = session.inspect.store.get(cell.number)
    assert record is not None
    linker = session.inspect.program.linker
    return read_link_map(linker, cell.image, record.object), link_like(
        record.object, linker, cell.image
    )


@needs("ld", "objdump")
@pytest.mark.parametrize("level", few([2, 0], 1))
@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_what_is_read_back_is_what_ld_makes(session, tmp_path: Path, name: str, level: int) -> None:
    made, linked = placed(session, name, level)
    elf = ELFFile(io.BytesIO(linked.elf))
    sections = {s.name: (s["sh_addr"], s.data()) for s in elf.iter_sections()}
    table = elf.get_section_by_name(".symtab")
    symbols = {s.name: s["st_value"] for s in table.iter_symbols() if s.name}
    for section in made.sections:
        if section.address and section.zone != "unwind":
            assert section.address == sections[f"s{section.index}"][0], section
    for symbol in made.symbols:
        if symbol.address and symbol.kind != "section":
            assert symbol.address == symbols[symbol.name], symbol
    compared = sum(check_field(session, r, linked, sections, symbols) for r in made.relocations)
    assert compared == len(
        [r for r in made.relocations if made.sections[r.section - 1].zone != "unwind"]
    )
    compare_code(session, tmp_path, made, linked, sections)
    view = object_view(session)
    assert_complete(view)
    for relocation in made.relocations:
        shown = re.escape(f"{relocation.value:#x}")
        assert re.search(
            rf"^ *\+{relocation.offset:#x} .* {shown} +{relocation.refers_to:#x}\b", view.text, re.M
        ), relocation


def check_field(session, made: MappedRelocation, linked: Linked, sections, symbols) -> bool:
    """One relocation's value and what it leads to, from ld's bytes and ld's symbols."""
    if f"s{made.section}" not in sections:
        return False  # unwind records: the region has them, each by itself
    start, content = sections[f"s{made.section}"]
    row = next(r for r in TABLE.values() if r.name.removeprefix("R_X86_64_") == made.type)
    at = start + made.offset
    field = content[made.offset : made.offset + row.field]
    value = int.from_bytes(field, "little", signed=row.relative or made.value < 0)
    entry = linked.names.get(f"{made.symbol}.entry")
    where = [a for a in (linked.names.get(made.symbol), symbols.get(made.symbol), entry) if a]
    if made.target is not None and made.target.state == SymbolState.NULL:
        where.append(0)
    if made.how == "relaxed":
        opcodes = session.inspect.engine.arena.read(made.at - 2, 2)
        if made.form == "lea" and content[made.offset - 2] == 0xC7:  # ld: mov $address, %reg
            assert value == made.refers_to and opcodes[0] == 0x8D
        elif made.form == "jmp":
            assert content[made.offset - 2] == 0xE9
            early = struct.unpack_from("<i", content, made.offset - 1)[0]
            assert (made.at, made.value) == (at - 1, early)
        else:
            assert (made.at, made.value & 0xFFFFFFFF) == (at, value & 0xFFFFFFFF)
        assert made.refers_to in where
        return True
    assert made.at == at
    if row.base == "G":
        slot = (
            value - made.addend + (at if row.relative else session.inspect.program.linker.bind.got)
        )
        first, slots = sections[".got"]
        held = struct.unpack_from("<Q", slots, slot - first)[0]
        assert made.how == "GOT slot"
        assert (
            made.final
            == held
            == struct.unpack("<Q", session.inspect.engine.arena.read(made.refers_to, 8))[0]
        )
        return True
    assert made.value == value, made
    if where:
        assert (
            made.refers_to in where or made.refers_to - made.addend in where or row.base in "Z0"
        ), made
    return True


def compare_code(session, folder: Path, made: LinkMap, linked: Linked, sections) -> None:
    """Every instruction of every function: address, bytes, mnemonic and target."""
    path = folder / "linked"
    path.write_bytes(linked.elf)
    slots = {r.at for r in made.relocations if r.how in ("GOT slot", "relaxed") and r.at}
    code = {i: s for i, s in enumerate(made.sections, 1) if s.zone == "text" and s.size}
    for index, section in code.items():
        said = tool("objdump", "-d", "-M", "intel", "-j", f"s{index}", "-w", str(path)).decode()
        theirs = dict(map(_objdump_row, re.findall(r"^ +[0-9a-f]+:\t.*$", said, re.M)))
        _, functions = code_of(session, session.number)
        for function in functions:
            if not section.address <= function.address < section.address + section.size:
                continue
            content = session.inspect.engine.arena.read(function.address, function.size)
            for ours in decode(content, function.address, lambda address: "x"):
                assert ours.address in theirs, hex(ours.address)
                raw, target = theirs[ours.address]
                if any(ours.address < s < ours.address + len(ours.code) for s in slots):
                    continue  # compared by what it leads to: ld has its slots elsewhere
                assert ours.code == raw, hex(ours.address)
                if target and ours.target:
                    assert ours.target == target, hex(ours.address)
                elif _is_branch(ours):
                    assert not target and not ours.target, hex(ours.address)


def _is_branch(instruction: Instruction) -> bool:
    return instruction.mnemonic.startswith(("call", "j"))


def _objdump_row(line: str) -> tuple[int, tuple[bytes, int]]:
    address, raw, *text = line.split("\t")
    words = text[0] if text else ""
    found = re.search(r"# ([0-9a-f]{4,})\b|^\S+\s+(?:bnd )?([0-9a-f]{4,})(?: <|$)", words)
    target = int(found[1] or found[2], 16) if found else 0
    return int(address.strip(" :"), 16), (bytes.fromhex(raw), target)


def test_it_follows_redefinition(session: Session) -> None:
    session.run("declare i32 @sq(i32)\ndefine i32 @twice(i32 %x) {\n  %r = call i32 @sq(i32 %x)\n"
                "  %s = add i32 %r, %r\n  ret i32 %s\n}\n@p = global ptr @sq")  # fmt: skip
    before = object_view(session, "twice").text
    assert re.search(r"PLT32 +@sq-0x4 +raising stub .* nobody's$", before, re.M)
    assert re.search(r"@sq +global +none +undefined +missing$", before, re.M)
    session.run("define i32 @sq(i32 %x) {\n  ret i32 %x\n}")
    after = object_view(session, 1).text
    address = session.symbols["sq"].address
    assert re.search(rf"PLT32 +@sq-0x4 +direct .* {address:#x} +@sq$", after, re.M)
    assert re.search(r" 64 +@sq +canonical entry ", after)
    assert f"cell 2's: {address:#x}" in after
    session.run("define i32 @twice(i32 %x) {\n  ret i32 1\n}")
    assert re.search(r"@twice .* cell 3's: 0x", object_view(session, 1).text)


def test_unwind_records_are_read_without_going_through_all_for_each(session, monkeypatch) -> None:
    class Watched(list):
        read = 0

        def __iter__(self):
            Watched.read += len(self)
            return super().__iter__()

    def watched(data: bytes):
        obj = read_object(data)
        obj.relocations.update((s, Watched(entries)) for s, entries in obj.relocations.items())
        return obj

    session.run("\n".join(f"define i32 @f{n}() {{\n  ret i32 {n}\n}}" for n in range(50)))
    cell = session.cells[-1]
    monkeypatch.setattr("jitkernel.linker.linkmap.read_object", watched)
    made = read_link_map(
        session.inspect.program.linker, cell.image, session.inspect.store.get(cell.number).object
    )
    assert len([r for r in made.relocations if r.at]) >= 50 and Watched.read < 500


def test_operands_before_an_immediate(session: Session) -> None:
    """A field that is not the last of its instruction counts from behind the immediate."""
    session.run(
        "@n = internal global [9 x i32] zeroinitializer\n@m = internal global i8 3\n"
        "define void @f() {\n  %p = getelementptr i32, ptr @n, i64 5\n"
        "  store volatile i32 9, ptr %p\n  store volatile i16 9, ptr %p\n"
        "  store volatile i8 9, ptr @m\n  ret void\n}"
    )
    cell = session.cells[-1]
    made = read_link_map(
        session.inspect.program.linker, cell.image, session.inspect.store.get(cell.number).object
    )
    names = {s.name: s.address for s in made.symbols}
    relocations = [r for r in made.relocations if ".text" in made.sections[r.section - 1].name]
    wanted = [names["n"] + 20, names["n"] + 20, names["m"]]
    assert [r.refers_to for r in relocations] == wanted, relocations
    targets = [i.target for i in decode(
        session.inspect.engine.arena.read(session.symbols["f"].address, session.symbols["f"].size),
        session.symbols["f"].address) if i.target]  # fmt: skip
    assert targets in (wanted, [])


def test_what_the_program_has_stored_over_is_said(session: Session) -> None:
    session.run("@a = global i32 1\n@p = global ptr @a\ndefine void @null() {\n"
                "  store ptr null, ptr @p\n  ret void\n}")  # fmt: skip
    assert re.search(r"@a +direct ", object_view(session).text)
    session.run("@null()")
    assert re.search(r"@a +stored over +0x0 +0x0", object_view(session, 1).text)


def test_the_object_that_was_run_again(session: Session) -> None:
    """A variable that stays where it was lies in no section of the new object."""
    cell = "@n = global i64 5\n@m = global ptr @n\ndefine i64 @get() {\n  %v = load i64, ptr @n\n  ret i64 %v\n}"
    session.run(cell, cell_id="a")
    where = session.symbols["n"].address
    session.run(cell, cell_id="a")
    text = object_view(session, "get").text
    assert f"{where:#x}" in text and "in its old place" in text
    assert re.search(rf" 64 +@n +direct +{where:#x} +{where:#x} +@n$", text, re.M)


def test_hibernated_cells_come_back_to_be_looked_at(s: Session) -> None:
    s.configure("inlining", False)
    s.run(
        'define i64 @f(i64 %x) {\n  call void asm sideeffect ".fill 64, 1, 0x90", ""()\n'
        "  %y = mul i64 %x, 3\n  ret i64 %y\n}"
    )
    s.run(
        "declare i64 @f(i64)\ndefine i64 @g(i64 %x) {\n  %y = call i64 @f(i64 %x)\n  %z = add i64 %y, 1\n  ret i64 %z\n}"
    )
    for view in (asm, object_view, callgraph):
        s.hibernate("f")
        assert "@f (cell 1, on disk) is called by @g" in callgraph(s, "g").text
        assert "@f" in view(s, "f").text
        assert s.cells[0].state.value == "live"
    s.hibernate("f")
    assert "@f at -O0 | @f at -O2" in compare(s, "@f", levels=[0, 2]).text
    s.budget = 1  # nothing can stay
    for view in (asm, object_view, callgraph):
        with pytest.raises(UsageError, match="hibernated, and the budget") as caught:
            view(s, "f")
        assert "\n" not in str(caught.value)


def test_long_tables_are_cut_unless_all_is_asked_for() -> None:
    count = ROWS + 20
    with Session() as s:
        s.run("".join(f"@g{i} = global ptr @g{(i + 1) % count}\n" for i in range(count)))
        some, every = object_view(s), object_view(s, everything=True)
        assert f"{count} symbols; {ROWS} are listed, --all lists all" in some.text
        assert f"{count} relocations; {ROWS} are listed, --all lists all" in some.text
        assert "listed" not in every.text
        assert all(f"@g{i} " in every.text for i in range(count))
        assert len(some.text) < 0.9 * len(every.text)
