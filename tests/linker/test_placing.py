"""What an object becomes: symbols of every kind, groups, constructors; nothing where it fails."""

from __future__ import annotations

import ctypes
import struct

import pytest
from books import state
from corpus import IR, KINDS
from native import lookup, mapped
from oracle import assert_like_ld
from toolchain import assemble, compile_c, compile_ir, needs

from jitkernel.arena import Arena
from jitkernel.elf import read_object
from jitkernel.errors import ArenaFull, LinkError
from jitkernel.linker import Former, Linker, SymbolState
from jitkernel.linker.archives import Taken, combine
from jitkernel.linker.prepare import prepared


def _call(linker, name: str, *arguments: int) -> int:
    types = [ctypes.c_int64] * (1 + len(arguments))
    return ctypes.CFUNCTYPE(*types)(linker.symbols[name].address)(*arguments)


@needs("as")
@pytest.mark.parametrize("section", [".data", ".bss", ".section .rodata"])
def test_a_variable_without_bytes_has_an_address(linker, section):
    text = f"{section}\n.globl nothing\n.type nothing, @object\nnothing:\n.size nothing, 0\n"
    image = linker.place(assemble(text), 1)
    assert linker.symbols["nothing"].address
    linker.unlink(image)


# -- where code goes -------------------------------------------------------------------------------

NOPS = """.text
.globl {name}
.type {name}, @function
{name}: .fill 160, 1, 0x90
.size {name}, 160
"""
TABLE = ".data\n.quad inner\n.text\n.type inner, @function\n.set inner, {name} + 16\n"


@needs("as")
@pytest.mark.parametrize("pointer", [False, True])
def test_code_that_comes_back_cuts_no_larger_hole_unless_pointers_lead_there(linker, pointer):
    """Two neighbours leave a hole of 320 bytes, and another one a hole of 160."""
    sources = {n: NOPS.format(name=n) + TABLE.format(name=n) * pointer for n in "abcdef"}
    placed = {n: linker.place(assemble(source), 1) for n, source in sources.items()}
    was = {n: image.text.start for n, image in placed.items()}
    assert was["b"] == was["a"] + 160
    for name in "abd":
        linker.unlink(placed[name])
    image = linker.place(assemble(sources["b"]), 1, former=Former(text=was["b"]))
    assert image.text.start == (was["b"] if pointer else was["d"])
    linker.unlink(placed["f"])
    # Where it fills the hole it is back, although another one would do as well.
    linker.unlink(image)
    linker.unlink(placed["c"])
    linker.place(assemble(NOPS.format(name="g").replace("160", "480")), 1)
    holes = {start: stop - start for start, stop in linker.arena.zones["text"].list.holes()}
    assert holes[was["d"]] == 160
    assert (
        linker.place(assemble(sources["d"]), 1, former=Former(text=was["d"])).text.start == was["d"]
    )


# -- failing ---------------------------------------------------------------------------------------

#: field, what it refers to, the value of `absolute`, the words of the error
OUT_OF_RANGE = [
    (".byte absolute", "R_X86_64_8 against absolute+0x0", 256),
    (".byte absolute", "R_X86_64_8 against absolute+0x0", -129),
    (".short absolute + 1", "R_X86_64_16 against absolute+0x1", 0xFFFF),
    (".long absolute", "R_X86_64_32 against absolute+0x0", 1 << 32),
    (".long absolute", "R_X86_64_32 against absolute+0x0", -1),
    ("movq $absolute, %rax", "R_X86_64_32S against absolute+0x0", 1 << 31),
    (".byte absolute - .", "R_X86_64_PC8 against absolute+0x0", 0),
    (".short absolute - .", "R_X86_64_PC16 against absolute+0x0", 0),
    (".long absolute - .", "R_X86_64_PC32 against absolute+0x0", 1 << 40),
    ("leaq absolute+7(%rip), %rax", "R_X86_64_PC32 against absolute+0x3", 1 << 40),
    (".long near@SIZE - 100", "R_X86_64_SIZE32 against near-0x64", 0),
    (".reloc ., R_X86_64_GOT32, near + 0x7fffffff; .long 0", "GOT32 against near", 0),
    (".reloc ., R_X86_64_GOTPCREL, near + 0x7fffffff; .long 0", "GOTPCREL against near", 0),
    (".reloc ., R_X86_64_PLT32, near + 0x7fffffff; .long 0", "PLT32 against near", 0),
    (".reloc ., R_X86_64_GOTPC32, near + 0x7fffffff; .long 0", "GOTPC32 against near", 0),
    (".long program_invocation_name", "R_X86_64_32 against program_invocation_name+0x0", 0),
    (
        "movl program_invocation_name(%rip), %eax",
        "R_X86_64_PC32 against program_invocation_name-0x4",
        0,
    ),
]


@needs("as")
@pytest.mark.parametrize("text, words, absolute", OUT_OF_RANGE)
def test_a_value_that_does_not_fit_is_refused(linker, text, words, absolute):
    value = absolute & (1 << 64) - 1
    linker.place(assemble(f".globl absolute\n.set absolute, {value:#x}"), 1)
    before = state(linker)
    data = assemble(
        f".text\nnop\nnop\n{text}\n.data\n.globl near\n.type near, @object\nnear: .quad 1\n"
        ".size near, 8"
    )
    with pytest.raises(LinkError) as caught:
        linker.place(data, 7, kinds={**KINDS, "absolute": "variable"})
    assert str(caught.value).startswith("cell 7: .text+0x")
    assert words in str(caught.value) and "does not fit" in str(caught.value)
    assert state(linker) == before
    linker.check()


@needs("as", "ld")
def test_a_variable_of_the_process_that_is_near_is_reached(arena):
    """As the copies are that a program linked for a fixed address has of libc's variables."""
    near = 0xA84280
    linker = Linker(arena, lambda names: [near for _ in names], {"jk_raise": arena.base + 0x100})
    arena.reserve("rodata", 48)
    data = assemble(
        ".long environ\nmovl environ(%rip), %eax\nmovq environ@GOTPCREL(%rip), %rax\n"
        ".data\n.quad environ"
    )
    image = linker.place(data, 1, kinds={"environ": "variable"})
    assert linker.symbols["environ"].state is SymbolState.FAR
    assert_like_ld(data, linker, image, "--no-relax")
    linker.check()
    linker.unlink(image)
    linker.check()


@needs("as")
def test_the_ends_of_each_range_fit(linker):
    for text, value in [
        (".byte absolute", 255), (".byte absolute", -128), (".short absolute", 0xFFFF),
        (".short absolute", -0x8000), (".long absolute", 0xFFFFFFFF), (".long absolute", 0),
        ("movq $absolute, %rax", 0x7FFFFFFF), ("movq $absolute, %rax", -0x80000000),
        (".quad absolute", -1), (".quad absolute", 1 << 63),
    ]:  # fmt: skip
        fixed = linker.place(
            assemble(f".globl absolute\n.set absolute, {value & (1 << 64) - 1:#x}"), 1
        )
        user = linker.place(assemble(text), 2, kinds={"absolute": "variable"})
        width = {".b": 1, ".s": 2, ".l": 4, "mo": 4, ".q": 8}[text[:2]]
        stop = user.text.stop
        field = linker.arena.read(stop - width, width)
        assert field == (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        linker.unlink(user)
        linker.unlink(fixed)


@needs("as")
@pytest.mark.parametrize(
    "text, words",
    [
        (".section .tdata,\"awT\",@progbits\n.quad 1", "is thread-local: see `prepared`"),
        ("movq x@GOTTPOFF(%rip), %rax", "@x is thread-local"),
        (".globl f\n.type f, @gnu_indirect_function\nf: ret", "@f is an ifunc"),
        (".type f, @gnu_indirect_function\nf: ret\ncall f", "ifunc"),
        (".section .preinit_array,\"aw\",@preinit_array\n.quad 1", ".preinit_array"),
        (".globl x\nx: .reloc ., R_X86_64_COPY, x\n.quad 0", "R_X86_64_COPY against x.0x0: that is for a program's loader"),
        (".globl x\nx: .reloc ., R_X86_64_TPOFF64, x\n.quad 0", "R_X86_64_TPOFF64 against"),
        (".section gone,\"\"\nx: .quad 1\n.text\n.quad x", "a section that is not loaded"),
        ("movq nobody(%rip), %rax", "reads @nobody, which nobody defines"),
    ],
)  # fmt: skip
def test_what_is_not_supported_says_so(linker, text, words):
    before = state(linker)
    with pytest.raises(LinkError, match=words):
        linker.place(assemble(text), 3)
    assert state(linker) == before


def test_an_object_for_another_machine_is_refused(linker):
    data = bytearray(compile_ir("define void @f() { ret void }"))
    struct.pack_into("<H", data, 18, 183)
    with pytest.raises(LinkError, match="ELF machine 183"):
        linker.place(bytes(data), 1)


class _Failing:
    """Makes the arena's reserve fail at the n-th call."""

    def __init__(self, arena, monkeypatch):
        self.left = 0
        self._reserve = arena.reserve
        monkeypatch.setattr(arena, "reserve", self)

    def __call__(self, zone, size, align=16):
        if self.left == 0:
            raise ArenaFull("no room", zone, size)
        self.left -= 1
        return self._reserve(zone, size, align)


@pytest.mark.parametrize("reloc, model", [("static", "small"), ("pic", "large")])
@pytest.mark.parametrize("name", IR)
def test_whatever_fails_on_the_way_leaves_nothing(linker, monkeypatch, name, reloc, model):
    """Fail at each reservation in turn, with users of the object's symbols already there."""
    known = compile_ir(IR[name], 0)
    linker.place(known, 1, kinds=KINDS)
    linker.place(compile_ir(IR["calls"], 2), 2, kinds=KINDS, weak=frozenset())
    data = compile_ir(IR[name], 2, reloc, model)
    before = state(linker)
    failing = _Failing(linker.arena, monkeypatch)
    for count in range(200):
        failing.left = count
        try:
            linker.place(data, 3, kinds=KINDS, weak=frozenset())
        except ArenaFull:
            assert state(linker) == before, f"after {count} reservations"
            linker.check()
        else:
            break
    assert 1 <= count < 100
    linker.check()


@needs("as")
def test_a_user_that_cannot_follow_takes_the_definition_back(linker):
    """The last step fails: another cell's 1-byte field cannot hold the new address."""
    linker.place(assemble(".globl n, m\n.set n, 5\n.set m, 6"), 1)
    user = linker.place(
        assemble(".data\n.quad n, m\n.text\n.byte n\n.quad m"), 2,
        kinds={"n": "variable", "m": "variable"},
    )  # fmt: skip
    before = state(linker)
    data = assemble(
        ".data\n.globl n, m\n.type n, @object\n.type m, @object\nm: .quad 1\nn: .quad 2"
    )
    with pytest.raises(LinkError, match="@n in cell 2"):
        linker.place(data, 3)
    assert state(linker) == before
    linker.check()
    linker.unlink(user)
    linker.place(data, 3)


@needs("as")
def test_no_room_for_the_stub_of_an_evicted_function(linker, monkeypatch):
    image = linker.place(assemble(".globl f\n.type f, @function\nf: ret"), 1)
    linker.place(assemble("call f"), 2)
    before = state(linker)
    failing = _Failing(linker.arena, monkeypatch)
    with pytest.raises(ArenaFull):
        linker.unlink(image)
    assert state(linker) == before
    failing.left = 1
    linker.unlink(image)
    linker.check()


# -- a high base -----------------------------------------------------------------------------------


@pytest.fixture
def high():
    """An arena above 2 GiB, as an inline executor may have to take."""
    arena = Arena(capacity=16 << 20, base=0x5000_0000_0000)
    arena.reserve("rodata", 48)
    yield Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    arena.close()


@pytest.mark.parametrize("name", IR)
@pytest.mark.parametrize("model", ["small", "large"])
def test_position_independent_code_links_anywhere(high, name, model):
    data = compile_ir(IR[name], 2, "pic", model)
    image = high.place(data, 1, kinds={**KINDS, "_Unwind_Resume": "function"})
    high.check()
    near = high.place(compile_ir("define void @later() { ret void }", 2, "pic"), 3)
    high.check()
    if model == "large":  # ld does not relax towards high addresses; here is nothing to relax
        assert_like_ld(data, high, image)
    with mapped(high.arena):
        if name == "calls":
            assert _call(high, "recursive", 5) & 0xFFFFFFFF == 120
        if name == "tables":
            assert [_call(high, "calls_through", i) & 0xFF for i in range(3)] == [1, 2, 3]
            assert _call(high, "same", high.canonical(high.symbols["one"])) & 1 == 1
        if name == "linkages":
            assert _call(high, "is_there") & 1 == 0
            code = "define void @maybe() { ret void }"
            high.place(compile_ir(code, 2, "pic"), 2)
            assert _call(high, "is_there") & 1 == 1
            _call(high, "calls_maybe")
    for gone in (near, image):
        high.unlink(gone)
        high.check()


def test_other_code_is_refused_there_with_the_reason(high):
    before = state(high)
    with pytest.raises(LinkError, match="only position-independent code links"):
        high.place(compile_ir(IR["switches"], 0, "static"), 1, kinds=KINDS)
    assert state(high) == before


# -- symbols ---------------------------------------------------------------------------------------


def test_weak_and_undefined_is_zero_until_it_is_defined(linker):
    image = linker.place(compile_ir(IR["linkages"]), 1, kinds=KINDS)
    assert linker.symbols["maybe"].state is SymbolState.NULL
    with mapped(linker.arena):
        assert _call(linker, "is_there") & 1 == 0
        assert _call(linker, "is_data_there") & 1 == 0
        linker.place(compile_ir("define void @maybe() { ret void }\n@maybe_data = global i32 1"), 2)
        assert _call(linker, "is_there") & 1 == 1
        assert _call(linker, "is_data_there") & 1 == 1
    linker.check()
    linker.unlink(image)
    linker.check()


@needs("as")
def test_an_undefined_weak_symbol_becomes_missing_when_somebody_needs_it(linker):
    first = linker.place(assemble(".weak w\ncall w\n.data\n.quad w"), 1, kinds={"w": "function"})
    assert linker.symbols["w"].state is SymbolState.NULL
    second = linker.place(assemble("call w"), 2)
    assert linker.symbols["w"].state is SymbolState.MISSING
    linker.check()
    linker.unlink(second)
    linker.unlink(first)
    assert "w" not in linker.symbols


@needs("gcc")
def test_common_symbols_are_shared_and_aligned(linker):
    first = linker.place(compile_c("int shared; char many[100]; int *p = &shared;", "-fcommon"), 1)
    address = linker.symbols["shared"].address
    linker.place(compile_c("int shared; int read_it(void) { return shared; }", "-fcommon"), 2)
    assert linker.symbols["shared"].address == address
    assert linker.arena.read(address, 4) == bytes(4)
    assert linker.symbols["many"].address % 32 == 0
    before = state(linker)
    with pytest.raises(LinkError, match="@shared has 4 bytes in the session and 40 here"):
        linker.place(compile_c("int shared[10];", "-fcommon"), 3)
    assert state(linker) == before
    # The cell itself, run again, has its own.
    linker.place(compile_c("int shared[10];", "-fcommon"), 4, weak=frozenset())
    assert linker.symbols["shared"].size == 40
    linker.check()
    linker.unlink(first)
    linker.check()


def test_another_copy_of_a_group_takes_over(linker):
    source = """
    $f = comdat any
    define linkonce_odr i32 @f(i32 %x) comdat { %r = mul i32 %x, 7  ret i32 %r }
    define i32 @NAME(i32 %x) noinline { %r = call i32 @f(i32 %x)  ret i32 %r }
    """
    objects = [compile_ir(source.replace("NAME", n), 0) for n in ("one", "two", "three")]
    images = [linker.place(o, i) for i, o in enumerate(objects, 1)]
    assert images[0].groups == ("f",) and images[1].copies == images[2].copies == ("f",)
    assert images[1].text.size < images[0].text.size  # its copy is not there
    assert linker.copies["f"] == images[1:]
    with mapped(linker.arena):
        assert [_call(linker, n, 3) for n in ("one", "two", "three")] == [21, 21, 21]
        heir = linker.place(
            objects[1], 2, former=Former(groups=frozenset(("f",))), weak=frozenset(("f",))
        )
        linker.check()
        linker.unlink(images[1])
        assert linker.symbols["f"].image is heir and linker.groups["f"] is heir
        linker.unlink(images[0])
        linker.check()
        assert [_call(linker, n, 3) for n in ("two", "three")] == [21, 21]
    assert linker.copies == {"f": [images[2]]}
    for image in (heir, images[2]):
        linker.unlink(image)
    linker.check()
    assert not linker.symbols and not linker.groups and not linker.copies


def test_a_relinked_image_keeps_its_variables_and_their_values(linker):
    data = compile_ir("""
        @n = global i32 1
        @text = constant [4 x i8] c"abc\\00"
        @tables = constant [2 x ptr] [ptr @n, ptr @get]
        define i32 @get() { %r = load i32, ptr @n  ret i32 %r }
        define ptr @where() { ret ptr @tables }
    """)
    first = linker.place(data, 1)
    linker.arena.write(linker.symbols["n"].address, struct.pack("<I", 99))
    places = {n: linker.symbols[n].address for n in ("n", "text", "tables")}
    constants = linker.arena.read(first.rodata.extent.start, first.rodata.extent.size)
    again = linker.place(
        data,
        1,
        weak=frozenset(),
        former=Former({"data": first.data, "rodata": first.rodata}, ("data",)),
    )
    linker.check()
    linker.unlink(first)
    linker.check()
    assert {n: linker.symbols[n].address for n in places} == places
    assert linker.arena.read(again.rodata.extent.start, again.rodata.extent.size) == constants
    # Constants somewhere else are written and relocated, although the variables are left alone.
    third = linker.place(data, 1, weak=frozenset(), former=Former({"data": again.data}, ("data",)))
    linker.check()
    table = linker.arena.read(linker.symbols["tables"].address, 16)
    assert struct.unpack("<2Q", table) == (places["n"], linker.canonical(linker.symbols["get"]))
    linker.unlink(again)
    with mapped(linker.arena):
        assert _call(linker, "get") & 0xFFFFFFFF == 99
    linker.unlink(third)
    linker.check()


def test_blocks_too_small_for_an_object_are_refused(linker):
    first = linker.place(compile_ir("@n = global i32 1"), 1)
    before = state(linker)
    with pytest.raises(LinkError, match="do not fit the extent"):
        linker.place(
            compile_ir("@n = global [90 x i32] zeroinitializer"),
            2,
            former=Former({"data": first.data}),
        )
    assert state(linker) == before


def test_pinned_variables_are_initialised_in_place(linker):
    first = linker.place(compile_ir("@n = global i32 1\n@p = global ptr @n"), 1)
    addresses = {n: linker.symbols[n].address for n in ("n", "p")}
    second = linker.place(
        compile_ir("@n = global i32 2\n@p = global ptr @f\ndefine i32 @f() { ret i32 1 }"),
        2, pins=addresses, weak=frozenset(),
    )  # fmt: skip
    linker.check()
    assert {n: linker.symbols[n].address for n in addresses} == addresses
    assert second.data is None and first.data in second.adopted
    assert linker.arena.read(addresses["n"], 4) == struct.pack("<I", 2)
    held = struct.unpack("<Q", linker.arena.read(addresses["p"], 8))[0]
    assert held == linker.canonical(linker.symbols["f"])
    linker.unlink(first)
    assert linker.arena.read(addresses["n"], 4) == struct.pack("<I", 2)
    linker.unlink(second)
    linker.check()
    assert linker.arena.usage()["data"]["extents"] == 0


@needs("as")
def test_pinned_variables_have_their_values_back_when_placing_fails(linker):
    linker.place(compile_ir("@n = global i32 1"), 1)
    at = linker.symbols["n"].address
    linker.arena.write(at, b"kept")
    before = state(linker)
    data = assemble(".data\n.globl n\n.type n, @object\nn: .long 5\n.size n, 4\n.quad nobody")
    with pytest.raises(LinkError, match="nobody defines"):
        linker.place(data, 2, pins={"n": at})
    data = assemble(".data\n.globl n\n.type n, @object\nn: .long 5\n.size n, 4\n.byte .data")
    with pytest.raises(LinkError, match="does not fit 8 bits"):
        linker.place(data, 2, pins={"n": at})
    assert state(linker) == before


def test_a_private_variable_between_pinned_ones_is_not_lost(linker):
    source = """
    @a = global i32 1
    @b = private global i32 2
    @c = global i32 3
    define i32 @get() { %r = load volatile i32, ptr @b  store volatile i32 9, ptr @b ret i32 %r }
    """
    linker.place(compile_ir(source), 1)
    pins = {n: linker.symbols[n].address for n in "ac"}
    linker.place(compile_ir(source), 2, pins=pins, weak=frozenset())
    linker.check()
    with mapped(linker.arena):
        assert [_call(linker, "get") & 0xFF for _ in range(2)] == [2, 9]


# -- what runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 2])
def test_constructors_and_destructors_in_order(linker, level):
    image = linker.place(compile_ir(IR["constructors"], level), 1)
    with mapped(linker.arena):
        for address in image.init + image.fini:
            ctypes.CFUNCTYPE(None)(address)()
    order = linker.arena.read(linker.symbols["order"].address, 8)
    assert order == b"abcde\0\0\0"


@needs("as")
def test_arrays_of_both_kinds_are_ordered_by_priority(linker):
    lines = [".text"]
    for i in range(9):
        lines.append(f".globl f{i}\n.type f{i}, @function\nf{i}: ret")
    for name, kind, functions in [
        (".init_array.00300", "@init_array", "f3"), (".ctors.65435", "@progbits", "f0"),
        (".init_array", "@init_array", "f4, f5"), (".init_array.00200", "@init_array", "f1, f2"),
        (".fini_array", "@fini_array", "f8"), (".fini_array.00100", "@fini_array", "f7, f6"),
    ]:  # fmt: skip
        lines.append(f'.section {name},"aw",{kind}\n.quad {functions}')
    image = linker.place(assemble("\n".join(lines)), 1)
    functions = [linker.symbols[f"f{i}"].address for i in range(9)]
    assert list(image.init) == functions[:6]
    assert list(image.fini) == [functions[8], functions[6], functions[7]]
    # Whoever redefines them: the image's destructors are its own.
    linker.place(assemble(".globl f8\n.type f8, @function\nf8: ret"), 2)
    assert list(image.fini) == [functions[8], functions[6], functions[7]]


@needs("gcc")
def test_start_stop_and_atexit_are_the_objects_own(linker):
    source = """
    #include <stdlib.h>
    __attribute__((section("list"))) long one = ONE, two = 2;
    extern long __start_list[], __stop_list[];
    extern void *__dso_handle;
    static int ran;
    static void bye(void) { ran++; }
    long NAME(void) {
        long sum = 0;
        for (long *p = __start_list; p < __stop_list; p++) sum += *p;
        return sum;
    }
    void *NAME_handle(void) { return &__dso_handle; }
    long NAME_register(void) { return atexit(bye); }
    long NAME_ran(void) { return ran; }
    """
    images = []
    for cell, (name, one) in enumerate([("a", 5), ("b", 50)], 1):
        text = source.replace("NAME", name).replace("ONE", str(one))
        text = text.replace("one", f"one_{name}").replace("two", f"two_{name}")
        images.append(linker.place(compile_c(text, "-O1", "-fno-pic"), cell))
    with mapped(linker.arena):
        assert (_call(linker, "a"), _call(linker, "b")) == (7, 52)
        handles = [_call(linker, f"{n}_handle") for n in "ab"]
        assert handles == [i.dso for i in images] and len(set(handles)) == 2
        assert _call(linker, "a_register") & 0xFFFFFFFF == 0
        assert _call(linker, "b_register") & 0xFFFFFFFF == 0
        ctypes.CDLL(None).__cxa_finalize(ctypes.c_void_p(images[0].dso))
        assert (_call(linker, "a_ran") & 0xFF, _call(linker, "b_ran") & 0xFF) == (1, 0)
        ctypes.CDLL(None).__cxa_finalize(ctypes.c_void_p(images[1].dso))
    for image in images:
        linker.unlink(image)
    linker.check()
    assert linker.symbols["__cxa_atexit"].users is None


def test_personality_pointers_are_not_shared(linker):
    """Position-independent code has them in COMDAT groups; cells must not depend on each other."""
    sources = [IR["exceptions"].replace("@c", f"@{n}_c").replace("3own", n) for n in ("x", "y")]
    kinds = {**KINDS, "_Unwind_Resume": "function"}
    images = [
        linker.place(compile_ir(s, 2, "pic"), i, kinds=kinds) for i, s in enumerate(sources, 1)
    ]
    assert all(not i.groups and not i.copies for i in images)
    assert linker.dependents(images[0]) == {}
    linker.unlink(images[0])
    linker.check()


# -- places without a name -------------------------------------------------------------------------


def test_a_function_without_a_name_leaves_the_name_alone(linker):
    """What the session has under it, and who uses that, is as before; the object calls its own."""
    own = linker.place(compile_ir("define i64 @f(i64 %x) { ret i64 1 }"), 1)
    linker.place(compile_ir("declare i64 @f(i64) define i64 @g() { %r = call i64 @f(i64 0) "
                            "ret i64 %r }"), 2)  # fmt: skip
    before = state(linker)
    source = """
        declare i64 @f(i64)
        define i64 @other(i64 %x) noinline { %r = call i64 @f2(i64 %x) ret i64 %r }
        define i64 @f2(i64 %x) { %c = icmp slt i64 %x, 5
          br i1 %c, label %a, label %b
        a:
          ret i64 2
        b:
          %y = call i64 @other(i64 0)
          %z = add i64 %y, 40
          ret i64 %z }
    """
    data = compile_ir(source).replace(b"\0f2\0", b"\0f\0\0")
    image, address = linker.place_unnamed(data, "f")
    assert [symbol.name for symbol, _, _ in image.exports] == ["other"]
    assert linker.symbols["f"].image is own
    with mapped(linker.arena):
        assert _call(linker, "g") == 1
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(9) == 42
    linker.check()
    linker.unlink(image)
    assert state(linker) == before


def test_a_place_without_a_name_needs_a_function_of_that_name(linker):
    before = state(linker)
    for source in ("define void @g() { ret void }", "@f = global i32 1"):
        with pytest.raises(LinkError, match=r"@?f is n"):
            linker.place_unnamed(compile_ir(source), "f")
        assert state(linker) == before


@needs("as")
def test_a_name_that_no_field_refers_to_leaves_nothing(linker):
    """R_X86_64_NONE is how assemblers ask for an archive's member and no more."""
    before = state(linker)
    image = linker.place(
        assemble("f: .reloc ., R_X86_64_NONE, wanted\nret"), 1, kinds={"wanted": "function"}
    )
    assert "wanted" not in linker.symbols
    linker.check()
    linker.unlink(image)
    assert state(linker) == before


# -- fields that overlap ---------------------------------------------------------------------------

_FIELDS = ".data\n{}\nat: .quad 0, 0, 0, 0, 0, 0, 0, 0\n"


@needs("as")
@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ([(0, "64"), (8, "32"), (12, "32"), (16, "16"), (18, "8")], ""),
        ([(16, "32"), (8, "64"), (0, "64")], ""),  # in no order
        ([(0, "64"), (0, "NONE"), (8, "64")], ""),
        ([(0, "64"), (4, "32")], "0x4"),
        ([(24, "32"), (8, "32"), (4, "64")], "0x8"),
        ([(0, "64"), (2, "NONE"), (7, "8")], "0x7"),
        ([(8, "32"), (8, "32")], "0x8"),
    ],
)
def test_each_field_is_written_once(linker, fields, wrong):
    lines = [f".reloc {offset}, R_X86_64_{type}, somewhere" for offset, type in fields]
    found = read_object(assemble(_FIELDS.format("\n".join(lines))))
    if wrong:
        with pytest.raises(LinkError, match=rf"\.data\+{wrong}: two relocations of one field"):
            prepared(found, "o.o", linker.resolver)
        with pytest.raises(LinkError, match=rf"\.data\+{wrong}: two relocations of one field"):
            combine([Taken("o.o", found)], linker.resolver)
    else:
        prepared(found, "o.o", linker.resolver)
        combine([Taken("o.o", found)], linker.resolver)
