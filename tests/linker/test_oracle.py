"""Linked bytes against GNU ld's, for all that compilers emit.  See `oracle` for what differs."""

from __future__ import annotations

import pytest
from corpus import C_SOURCES, IR, KINDS
from elftools.elf.enums import ENUM_RELOC_TYPE_x64
from oracle import assert_like_ld
from toolchain import assemble, compile_c, compile_ir, needs

from jitkernel.elf import read_object
from jitkernel.linker import Linker, x86_64
from jitkernel.linker.x86_64 import TABLE
from tests.seeds import few

pytestmark = needs("ld")

MODES = [("static", "small"), ("pic", "small"), ("static", "large"), ("pic", "large")]


def _later(linker: Linker, level: int = 0) -> None:
    linker.place(compile_ir("define void @later() { ret void }", level), 1)


@pytest.mark.parametrize("reloc, model", MODES)
@pytest.mark.parametrize("level", few([0, 2, 1, 3], 2))
@pytest.mark.parametrize("name", IR)
def test_llvm(linker, name, level, reloc, model):
    data = compile_ir(IR[name], level, reloc, model)
    image = linker.place(data, 2, kinds=KINDS)
    linker.check()
    counted = assert_like_ld(data, linker, image)
    loaded = read_object(data).relocations
    assert counted or not loaded
    # What was undefined, and what was far, comes near: the bytes are those of a fresh link.
    _later(linker)
    linker.check()
    assert_like_ld(data, linker, image)
    linker.unlink(image)
    linker.check()


@pytest.mark.parametrize("name", IR)
def test_llvm_strong_definitions(linker, name):
    """As a cell with `--closed` has them: not made weak, so LLVM refers to sections."""
    for level in (0, 2):
        data = compile_ir(IR[name], level, weak=False)
        image = linker.place(data, 2 + level, kinds=KINDS, weak=frozenset())
        linker.check()
        assert_like_ld(data, linker, image)
        linker.unlink(image)


@needs("gcc")
@pytest.mark.parametrize(
    "flags", ["-O0 -fno-pic", "-O2 -fno-pic", "-O0 -fpic", "-O2 -fpic", "-O2 -fpic -fno-plt",
              "-O2 -mcmodel=large -fno-pic", "-O1 -ffunction-sections -fdata-sections -fno-pic",
              "-O2 -fcommon -fpic -fcf-protection=full -fstack-protector-all"],
)  # fmt: skip
@pytest.mark.parametrize("name", C_SOURCES)
def test_gcc(linker, name, flags):
    data = compile_c(C_SOURCES[name], *flags.split())
    image = linker.place(data, 2, kinds=KINDS)
    linker.check()
    extra = {}
    if name == "attributes":
        start = linker.symbols["special_one"].address
        extra = {"__start_special": start, "__stop_special": start + 4}
    assert_like_ld(data, linker, image, extra=extra)
    linker.unlink(image)
    linker.check()
    assert all(zone["extents"] == 0 for n, zone in linker.arena.usage().items() if n == "data")


def test_every_relocation_that_llvm_emits_was_met(linker):
    met: set[int] = set()
    for reloc, model in MODES:
        for level in range(4):
            for source in IR.values():
                obj = read_object(compile_ir(source, level, reloc, model))
                for index, entries in obj.relocations.items():
                    if obj.section(index).flags & 2:
                        met.update(info & 0xFFFFFFFF for _, info, _ in entries)
    # 64 PC32 PLT32 GOTPCREL 32 32S PC64 GOTOFF64 GOT64 GOTPC64 REX_GOTPCRELX GOTPCRELX
    assert met >= {1, 2, 4, 10, 11, 24, 25, 27, 29, 42}, met


#: name, type number, directive; each against a local label, a global variable, a function
FIELDS = [
    ("8", ".byte small"),
    ("8 negative", ".byte small - 200"),
    ("16", ".short small + 0x7000"),
    ("32", ".long VALUE + 5"),
    ("32S", "movq $VALUE + 5, %rax"),
    ("64", ".quad VALUE - 3"),
    ("PC8", ".byte here - ."),
    ("PC16", ".short here - ."),
    ("PC32", ".long VALUE - . + 8"),
    ("PC64", ".quad VALUE - . + 8"),
    ("PLT32", ".reloc ., R_X86_64_PLT32, VALUE - 4; .long 0"),
    ("call", "call VALUE"),
    ("jmp", "jmp VALUE"),
    ("jcc", "jne VALUE"),
    ("GOTPCREL", ".long VALUE@GOTPCREL + 4"),
    ("GOTPCREL push", "pushq VALUE@GOTPCREL(%rip)"),
    ("GOT32", ".long VALUE@GOT"),
    ("GOT64", ".quad VALUE@GOT"),
    ("GOTPLT64", ".reloc ., R_X86_64_GOTPLT64, VALUE; .quad 0"),
    ("GOTOFF64", "movabsq $VALUE@GOTOFF, %rax"),
    ("PLTOFF64", "movabsq $VALUE@PLTOFF, %rax"),
    ("GOTPC32", "leaq _GLOBAL_OFFSET_TABLE_(%rip), %rax"),
    ("GOTPC64", "movabsq $_GLOBAL_OFFSET_TABLE_ - ., %rax"),
    ("SIZE32", ".long VALUE@SIZE + 2"),
    ("SIZE64", ".quad VALUE@SIZE"),
    ("absolute call", "call 0x40000000"),
]


@needs("as")
@pytest.mark.parametrize(
    "name, text, value",
    [
        (name, text, value)
        for name, text in FIELDS
        for value in ("inside", "variable", "function", "outside", "outside_data")
        if not ("SIZE" in name and "outside" in value)  # ld knows no size of a name from outside
    ],
)
def test_each_field(linker, name, text, value):
    linker.place(
        assemble("""
            .globl outside, outside_data, small
            .set small, 100
            .text
            .type outside, @function
            outside: ret
            .data
            .type outside_data, @object
            outside_data: .quad 1
        """),
        1,
    )
    data = assemble(f"""
        .text
        .type inside, @object
        .size inside, 12
        here: nop
        inside: .zero 12
        {text.replace("VALUE", value)}
        .globl function, variable
        .type function, @function
        function: ret
        .size function, . - function
        .data
        .type variable, @object
        variable: .quad 1, 2, 3
        .size variable, 24
    """)
    image = linker.place(data, 2, kinds={"outside": "function", "outside_data": "variable"})
    linker.check()
    assert_like_ld(data, linker, image)
    linker.unlink(image)
    linker.check()


REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
NARROW = "eax ecx edx ebx esp ebp esi edi r8d r9d r10d r11d r12d r13d r14d r15d".split()
INSTRUCTIONS = "mov test adc add and cmp or sbb sub xor".split()


def _relaxable(symbol: str) -> str:
    lines = []
    for op in INSTRUCTIONS:
        for register in REGISTERS + NARROW:
            got = f"{symbol}@GOTPCREL(%rip)"
            lines.append(f"{op} %{register}, {got}" if op == "test" else f"{op} {got}, %{register}")
    lines += [f"call *{symbol}@GOTPCREL(%rip)", f"jmp *{symbol}@GOTPCREL(%rip)"]
    return "\n".join(lines)


@needs("as")
@pytest.mark.parametrize("symbol", ["inside", "function", "variable", "near_function", "near_data"])
def test_every_relaxable_instruction(linker, symbol):
    linker.place(
        assemble("""
            .globl near_function, near_data
            .type near_function, @function
            near_function: ret
            .data
            .type near_data, @object
            near_data: .quad 1
        """),
        1,
    )
    data = assemble(f"""
        .globl function, variable
        .type function, @function
        inside:
        function: {_relaxable(symbol)}
        .data
        .type variable, @object
        variable: .quad 1
    """)
    image = linker.place(data, 2, kinds={"near_function": "function", "near_data": "variable"})
    linker.check()
    counted = assert_like_ld(data, linker, image)
    assert counted == {"R_X86_64_REX_GOTPCRELX": 10 * 24, "R_X86_64_GOTPCRELX": 10 * 8 + 2}


@needs("as")
def test_what_cannot_be_relaxed_keeps_its_slot(linker):
    """A far variable: no instruction but through the GOT, as ld has it with --no-relax."""
    data = assemble(".text\n" + _relaxable("program_invocation_name"))
    image = linker.place(data, 2, kinds={"program_invocation_name": "variable"})
    linker.check()
    assert_like_ld(data, linker, image, "--no-relax")
    # It comes near: everything is relaxed now.  It is gone again: as in the beginning.
    near = linker.place(
        assemble(".data\n.globl program_invocation_name\nprogram_invocation_name: .quad 1"), 3
    )
    linker.check()
    assert_like_ld(data, linker, image)
    linker.unlink(near)
    linker.check()
    assert_like_ld(data, linker, image, "--no-relax")


def test_every_type_has_the_psabis_name():
    """As pyelftools has them: each is done, refused for a reason, or nothing to do."""
    for name, number in ENUM_RELOC_TYPE_x64.items():
        if not isinstance(number, int) or not name.startswith("R_X86_64_"):
            continue
        if number in x86_64.IGNORED:
            continue
        assert x86_64.type_name(number) == name
        assert (number in TABLE) != (number in x86_64.REFUSED)
    assert sorted({*TABLE, *x86_64.REFUSED} - {x86_64.SLOT32}) == [*range(1, 52)]
    assert x86_64.type_name(99) == "relocation type 99"
