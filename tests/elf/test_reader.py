"""Reading relocatable objects: what is there, against readelf; and what is malformed, refused."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from corpus import IR, KINDS
from native import lookup
from toolchain import assemble, compile_c, compile_ir, needs

from jitkernel.arena import Arena
from jitkernel.elf import constants as c
from jitkernel.elf import read_object
from jitkernel.errors import ArenaFull, LinkError
from jitkernel.linker import Linker


def _peer(data: bytes, folder: Path) -> ELFFile:
    path = folder / "a.o"
    path.write_bytes(data)
    return ELFFile(path.open("rb"))


@pytest.mark.parametrize("name", IR)
def test_tables_are_those_that_pyelftools_reads(name, tmp_path):
    data = compile_ir(IR[name], 2)
    obj, peer = read_object(data), _peer(data, tmp_path)
    with peer.stream:
        assert len(obj.sections) == peer.num_sections()
        for index, section in enumerate(peer.iter_sections()):
            ours = obj.section(index)
            assert obj.section_name(index) == section.name
            assert (ours.flags, ours.size, ours.align) == (
                section["sh_flags"], section["sh_size"], section["sh_addralign"],
            )  # fmt: skip
            if section["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
                assert obj.content(index) == section.data()
            if isinstance(section, RelocationSection):
                theirs = [(r["r_offset"], r["r_info"], r["r_addend"])
                          for r in section.iter_relocations()]  # fmt: skip
                assert obj.relocations[section["sh_info"]] == theirs
        symbols = peer.get_section_by_name(".symtab")
        assert len(obj.symbols) == symbols.num_symbols()
        for index, symbol in enumerate(symbols.iter_symbols()):
            entry = obj.symbol(index)
            assert (entry.value, entry.size) == (symbol["st_value"], symbol["st_size"])
            if symbol.name:
                assert obj.symbol_name(index) == symbol.name


@needs("as")
@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "not an ELF object"),
        (b"\x7fELF", "not a whole ELF object"),
        (b"!<arch>\n" + bytes(60), "not an ELF object"),
        (b"\x7fELF\x01\x01" + bytes(60), "not a 64-bit"),
        (b"\x7fELF\x02\x02" + bytes(60), "not a 64-bit"),
        (b"\x7fELF\x02\x01" + bytes(10) + b"\x03\0" + bytes(60), "ELF type 3"),
    ],
)
def test_what_is_no_object_is_refused(data, words):
    with pytest.raises(LinkError, match=words):
        read_object(data)


def test_relocations_in_another_form_are_refused():
    data = compile_ir(IR["tables"])
    out, at = bytearray(data), struct.unpack_from("<Q", data, 40)[0]
    for index, section in enumerate(read_object(data).sections):
        if section[1] == c.SHT_RELA:
            struct.pack_into("<I", out, at + 64 * index + 4, c.SHT_CREL)
    with pytest.raises(LinkError, match=r"compact \(CREL\): assemble it without --crel"):
        read_object(bytes(out))


def test_a_truncated_object_is_refused_at_every_length():
    data = compile_ir(IR["tables"])
    for size in range(0, len(data) - 1, 7):
        with pytest.raises(LinkError):
            read_object(data[:size])


def _mutants(data: bytes, count: int, rng: random.Random):
    """The object with some bytes of its header and tables replaced by others that like to hurt."""
    obj = read_object(data)
    tables = [(0, 64), (struct.unpack_from("<Q", data, 40)[0], 64 * len(obj.sections))]
    tables += [(s[4], s[5]) for s in obj.sections if s[1] in (2, 4, 17)]
    tables += [(s[4], s[5]) for i, s in enumerate(obj.sections)
               if obj.section_name(i) in (".eh_frame", ".gcc_except_table", ".strtab")]  # fmt: skip
    for _ in range(count):
        out = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 5])):
            start, size = rng.choice([t for t in tables if t[1]])
            at = start + rng.randrange(size)
            width = rng.choice([1, 2, 4, 8])
            value = rng.choice(
                [0, 1, 2, 0xFF, 0x7F, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, rng.getrandbits(64),
                 0xFFF1, 0xFFF2, 1 << 20, 4, 24, 64]
            )  # fmt: skip
            out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        yield bytes(out[: len(data)])


@pytest.mark.parametrize("name", IR)
def test_a_malformed_object_is_placed_or_refused_and_harms_nobody(name):
    rng = random.Random(f"mutants of {name}")
    arena = Arena(capacity=16 << 20)
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    kinds = {**KINDS, "_Unwind_Resume": "function"}
    witness = linker.place(
        compile_ir("""
            declare i32 @puts(ptr)
            @witness_text = constant [2 x i8] c"!\\00"
            define i32 @witness() { %r = call i32 @puts(ptr @witness_text)  ret i32 %r }
        """),
        1,
        kinds=kinds,
    )
    text = arena.read(witness.text.start, witness.text.size)
    placed = refused = 0
    variants = [(0, "static", "small"), (2, "static", "small"), (2, "pic", "large")]
    for level, reloc, model in variants:
        data = compile_ir(IR[name], level, reloc, model)
        for mutant in _mutants(data, 60, rng):
            try:
                image = linker.place(mutant, 2, kinds=kinds)
            except (LinkError, ArenaFull):
                refused += 1
            else:
                placed += 1
                linker.unlink(image)
            linker.arena.check()
            linker.unwind.check()
            assert arena.read(witness.text.start, witness.text.size) == text
    assert placed and refused
    linker.unlink(witness)
    assert arena.usage()["data"]["extents"] == 0
    arena.close()


@needs("gcc")
def test_sections_by_flags_not_by_names():
    """Code and data in sections of any name go where their flags say."""
    arena = Arena(capacity=16 << 20)
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    source = """
    __attribute__((section("hot"))) int f(void) { return 1; }
    __attribute__((section("cold"))) int v = 2;
    __attribute__((section("frozen"))) const int c = 3;
    """
    linker.place(compile_c(source), 1)
    zones = [arena.zone_of(linker.symbols[n].address) for n in ("f", "v", "c")]
    assert zones == ["text", "data", "rodata"]
    arena.close()


@needs("as")
def test_more_sections_than_sixteen_bits_can_count():
    """Indices from 65,280 on are in the table beside the symbols; the reserved ones stay apart."""
    lines = [f'.section s{i},"a"\n.globl n{i}\nn{i}: .long {i}' for i in range(65_500)]
    lines += [".globl fixed", "fixed = 7", ".comm shared,4,4"]
    data = assemble("\n".join(lines))
    obj = read_object(data)
    assert len(obj.sections) > 65_500
    arena = Arena(capacity=64 << 20)
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    linker.place(data, 1)
    for i in (0, 65_200, *range(65_260, 65_300), 65_499):
        assert arena.read(linker.symbols[f"n{i}"].address, 4) == struct.pack("<I", i)
    assert linker.symbols["fixed"].address == 7
    assert arena.zone_of(linker.symbols["shared"].address) == "data"
    arena.close()
