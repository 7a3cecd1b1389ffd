"""The unwind region: records with the meaning that the objects' own have, and the table of them."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import pytest
from corpus import IR, KINDS
from native import lookup
from toolchain import assemble, compile_c, compile_ir, needs, tool

from jitkernel.errors import LinkError
from jitkernel.linker import Linker
from jitkernel.linker.cfi import row_at
from jitkernel.linker.unwind import pad, split


@pytest.fixture
def linker(arena):
    return Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})


C_PLUS = """
void later(void);
static void clean(int *p) { later(); }
int with_cleanup(int n) { __attribute__((cleanup(clean))) int x = n; later(); return x; }
int with_frame(int n) { volatile char a[n]; a[0] = 1; later(); return a[0]; }
int many(int a, int b, int c, int d, int e, int f, int g, int h) {
    later(); a += b * c; later(); return a * d + e * f + g * h;
}
"""


def _frames(path: Path) -> list[tuple[int, int, str]]:
    """What readelf says of each function: start, stop, its rows of the unwind table."""
    text = tool("readelf", "--debug-dump=frames-interp", "--wide", str(path)).decode()
    found = []
    for block in re.split(r"\n\n+", text):
        head = re.search(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", block)
        if head:
            rows = block.partition("\n")[2]
            found.append((int(head[1], 16), int(head[2], 16), rows))
    return found


def _dump(linker: Linker, path: Path) -> None:
    """The region as an ELF file with an .eh_frame at its address: records that say nothing are
    where nothing is."""
    zone = linker.arena.zones["unwind"]
    raw = bytearray(linker.arena.read(zone.start, zone.high - zone.start))
    nothing = struct.Struct("<IIBBBBB3x")  # a CIE
    holes = [*zone.list.holes(), (linker.unwind._next, linker.unwind._stop)]
    for start, stop in holes:
        if start < zone.high:
            what = nothing.pack(stop - start - 4, 0, 1, 0, 1, 0x78, 16)
            raw[start - zone.start : start - zone.start + len(what)] = what
    path.with_suffix(".bin").write_bytes(raw + bytes(4))
    tool(
        "objcopy", "-I", "binary", "-O", "elf64-x86-64", "-B", "i386:x86-64",
        "--rename-section", ".data=.eh_frame,alloc,load,readonly,data,contents",
        "--change-section-address", f".data={zone.start:#x}", str(path.with_suffix(".bin")),
        str(path),
    )  # fmt: skip


@needs("ld", "gcc", "readelf", "objcopy")
@pytest.mark.parametrize("flags", ["-O2 -fno-pic -fno-reorder-blocks-and-partition", "-O0 -fpic"])
def test_readelf_reads_what_it_reads_in_an_executable(linker, tmp_path, flags):
    linker.place(compile_ir("define void @later() uwtable { ret void }"), 1)
    first = linker.place(compile_ir(IR["switches"], 2), 2, kinds=KINDS)
    data = compile_c(C_PLUS, *flags.split(), "-fexceptions")
    image = linker.place(data, 3)
    linker.unlink(first)  # a hole before it
    linker.place(compile_ir(IR["calls"], 0), 4, kinds=KINDS)
    linker.unwind.check()
    whole = tmp_path / "whole.o"
    _dump(linker, whole)
    ours = {start: (stop, rows) for start, stop, rows in _frames(whole)}
    # The same object linked by ld at the same address of .text.
    object_path, linked = tmp_path / "in.o", tmp_path / "out"
    object_path.write_bytes(data)
    names = [
        f"--defsym={n}={linker.canonical(linker.symbols[n]):#x}"
        for n in ("later", "__gcc_personality_v0", "_Unwind_Resume")
        if n in linker.symbols
    ]
    tool(
        "ld", "-nostdlib", "-e", "0", f"-Ttext={image.text.start:#x}", *names, "-o", str(linked),
        str(object_path),
    )  # fmt: skip
    judged = _frames(linked)
    assert len(judged) >= 3
    for start, stop, rows in judged:
        assert ours[start] == (stop, rows)


def test_a_random_walk_keeps_the_table_up_to_date(linker):
    rng = random.Random(3)
    objects = [compile_ir(IR[n], level) for n in ("calls", "switches", "exceptions")
               for level in (0, 2)]  # fmt: skip
    kinds = {**KINDS, "_Unwind_Resume": "function"}
    frames = {id(o): _count(o) for o in objects}
    live: list = []
    peak = held = 0
    for step in range(300):
        if live and rng.random() < (0.3 if step < 200 else 0.6):
            image, data = live.pop(rng.randrange(len(live)))
            held -= frames[id(data)]
            linker.unlink(image)
        else:
            data = rng.choice(objects)
            live.append((linker.place(data, step + 1, kinds=kinds, weak=frozenset()), data))
            held += frames[id(data)]
        peak = max(peak, held)
        assert linker.unwind.check() == held
    zone = linker.arena.usage()["unwind"]
    assert zone["high"] <= 2048 + 130 * peak  # bytes of records, holes and all
    for image, _ in live:
        linker.unlink(image)
    assert linker.unwind.check() == 0


def _count(data: bytes) -> int:
    from jitkernel.elf import read_object

    obj = read_object(data)
    index = next(i for i in range(len(obj.sections)) if obj.section_name(i) == ".eh_frame")
    return sum(cie >= 0 for _, _, cie in split(obj.content(index)))


def test_functions_are_found_by_address(linker):
    sources = [f"define void @f{i}() uwtable {{ ret void }}" for i in range(20)]
    images = [linker.place(compile_ir(s), i) for i, s in enumerate(sources, 1)]
    for i, image in enumerate(images):
        address = linker.symbols[f"f{i}"].address
        fde = linker.unwind.find(address)
        assert image.unwind.start <= fde < image.unwind.stop
        assert linker.unwind.find(address + image.text.size - 1) == fde
        assert row_at(linker.arena.read, fde, address) == (7, 8, {16: -8})
    assert linker.unwind.find(0) == 0
    assert linker.unwind.find(images[0].text.start - 1) == 0
    gone = linker.symbols["f7"].address
    linker.unlink(images[7])
    assert linker.unwind.find(gone) == 0


def test_identical_cies_are_there_once(linker):
    for i in range(50):
        linker.place(compile_ir(f"define void @f{i}() uwtable {{ ret void }}"), i)
    used = linker.arena.usage()["unwind"]["used"]
    assert used == 2048 + 50 * 24


def test_a_function_of_a_dropped_group_has_no_record(linker):
    source = """
    $f = comdat any
    define linkonce_odr i32 @f(i32 %x) uwtable comdat { ret i32 %x }
    define i32 @NAME(i32 %x) uwtable noinline { %r = call i32 @f(i32 %x)  ret i32 %r }
    """
    linker.place(compile_ir(source.replace("NAME", "one"), 0), 1)
    assert linker.unwind.check() == 2
    linker.place(compile_ir(source.replace("NAME", "two"), 0), 2)
    assert linker.unwind.check() == 3


@needs("as")
@pytest.mark.parametrize(
    "records, words",
    [
        (".long 100, 0", "does not fit its section"),
        (".long 0xffffffff, 0, 0, 0", "does not fit its section"),
        (".long 2\n.short 0", "does not fit its section"),
        (".long 12, 4\n.quad .text", "names no CIE before it"),
        (".long 12, 0, 0, 0\n.long 0\n.quad .text", "behind the last record"),
    ],
)
def test_broken_records_are_refused(linker, records, words):
    with pytest.raises(LinkError, match=words):
        linker.place(assemble(f'.text\nnop\n.section .eh_frame,"a",@unwind\n{records}'), 1)
    linker.check()


def test_records_are_padded_to_eight_bytes():
    short, whole = struct.pack("<III", 8, 0, 7), struct.pack("<IIQ", 12, 0, 7)
    assert pad(bytearray(short)) == struct.pack("<IIII", 12, 0, 7, 0)
    assert pad(bytearray(short + short), 12) == struct.pack("<III", 8, 0, 7) * 2
    assert pad(bytearray(whole + short), 16) == whole + struct.pack("<IIII", 12, 0, 7, 0)
    assert pad(bytearray(whole)) == whole
    assert [at for at, _, _ in split(whole + whole + bytes(4))] == [0, 16]


@needs("as")
def test_when_there_is_no_room_for_another_kind_of_cie_images_bring_their_own(linker):
    for i in range(90):
        directives = "\n".join(f".cfi_offset r{8 + n}, -{8 * n + 16}" for n in range(i % 8))
        linker.place(
            assemble(
                f".cfi_startproc simple\n.cfi_return_column 16\nnop\n{directives}\n.cfi_endproc"
            ),
            i,
        )
        kind = struct.pack("<IIB3sBBB", 20, 0, 1, b"zR\0", 1, 0x78, 16) + bytes([1, 0x1B, i, 0, 0])
        raw = ", ".join(map(str, kind + bytes(4)))
        fde = "1: .long 3f - 2f\n2: .long 2b - .eh_frame\n.long .text - .\n.long 1, 0, 0\n3:"
        linker.place(
            assemble(f'.text\nnop\n.section .eh_frame,"a",@unwind\n.byte {raw}\n{fde}'), 100 + i
        )
        linker.check()
    assert linker.unwind.check() == 180


def record(length: int, back: int, size: int | None = None) -> bytes:
    """A record that says it has `length` bytes behind its length, and has `size` of them."""
    return struct.pack("<II", length, back) + bytes((length if size is None else size) - 4)


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        (b"", []),
        (bytes(4), []),
        (record(12, 0), [(0, 16, -1)]),
        (record(12, 0) + bytes(4), [(0, 16, -1)]),
        # An FDE at 16, whose field at 20 counts back to the CIE at 0; one at 32, likewise.
        (record(12, 0) + record(12, 20) + record(8, 36), [(0, 16, -1), (16, 16, 0), (32, 12, 0)]),
        (record(12, 0) + bytes(4) + record(12, 0), [(0, 16, -1)]),  # nothing behind the end
        (record(4, 4), [(0, 8, 0)]),
    ],
)
def test_where_records_begin(frames, found):
    assert split(frames) == found


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (record(13, 0, 12), r"\.eh_frame\+0x0: a record of 13 bytes does not fit"),
        (record(20, 0, 12), r"\.eh_frame\+0x0: a record of 20 bytes does not fit"),
        (record(12, 0) + record(13, 20, 12), r"\.eh_frame\+0x10: a record of 13 bytes"),
        (struct.pack("<II", 3, 0), "a record of 3 bytes"),
        (record(12, 5), "names no CIE before it"),
        (record(12, 0) + record(12, 21), r"\.eh_frame\+0x10 names no CIE"),
        (record(12, 0) + b"\1\0\0\0", r"\.eh_frame\+0x10: a record does not fit"),
    ],
)
def test_records_that_do_not_fit(frames, said):
    with pytest.raises(LinkError, match=said):
        split(frames)


BY_HAND = """
.text
.globl f
f: .fill 16, 1, 0x90
local: .fill 16, 1, 0x90
.section .eh_frame, "a", @progbits
cie: .long 2f - 1f
1: .long 0
.byte 1
.asciz "zR"
.uleb128 1
.sleb128 -8
.byte 16
.uleb128 1
.byte 0x1b
.byte 0x0c, 7, 8, 0x90, 1
.balign 4
2: .long 4f - 3f
3: .long 3b - cie
.long NAME - .
.long 16
.uleb128 0
.balign 4
4:
"""


@needs("as")
@pytest.mark.parametrize(("name", "at"), [("f", 0), ("local", 16)])
def test_a_record_names_its_function_by_a_global_or_by_its_section(linker, name, at):
    """Also where pointers to the function have made a canonical entry, which is no code of it."""
    pointer = ".data\n.globl p\np: .quad f\n"
    linker.place(assemble(BY_HAND.replace("NAME", name) + pointer), 1)
    start = linker.symbols["f"].address + at
    assert linker.unwind.find(start) == linker.unwind.find(start + 15) != 0
    fde = linker.unwind.find(start)
    row = row_at(linker.arena.read, fde, start)
    assert row is not None and (row.register, row.offset) == (7, 8)
    other = linker.symbols["f"].address + 16 - at
    assert not linker.unwind.find(other)
