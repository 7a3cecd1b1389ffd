"""Code that left memory and came back elsewhere: byte for byte what a fresh link makes of it."""

from __future__ import annotations

import pytest
from corpus import C_SOURCES, IR, KINDS
from native import lookup
from oracle import assert_like_ld
from toolchain import assemble, compile_c, compile_ir, needs

from jitkernel.arena import Extent
from jitkernel.elf import read_object
from jitkernel.errors import ArenaFull
from jitkernel.linker import Image, Linker
from jitkernel.linker.hibernation import hibernate, wake
from jitkernel.linker.pinning import pin_reason
from tests.seeds import few

pytestmark = needs("ld")


@pytest.fixture
def linker(arena):
    arena.reserve("rodata", 48)  # where ld puts what _GLOBAL_OFFSET_TABLE_ is
    fixed = {"jk_raise": arena.base + 0x100, "jk_wake": arena.base + 0x200}
    yield Linker(arena, lookup, fixed=fixed)
    arena.check()


def _leave(linker: Linker, image: Image, data: bytes) -> None:
    """Take an image's code out of memory; skip the test where it has to stay."""
    obj = read_object(data)
    if image.fini or image.dso or pin_reason(obj):
        pytest.skip("its code has to stay")
    was = image.text
    hibernate(linker, image)
    linker.check()
    assert linker.unwind.find(was.start) == linker.unwind.find(was.stop - 1) == 0


def _come_back_elsewhere(linker: Linker, image: Image, data: bytes, was: Extent) -> None:
    taken = linker.arena.reserve_at("text", was.start, was.size)  # that place is somebody's now
    wake(linker, image, data)
    linker.check()
    assert image.text.start != was.start and image.text.size == was.size
    linker.arena.free(taken)


def _frames(linker: Linker, image: Image) -> list[bool]:
    """Which functions have unwind records."""
    start, stop = image.text.start, image.text.stop
    functions = [at for _, at, _ in image.exports if start <= at < stop]
    return [linker.unwind.find(at) != 0 for at in functions]


@pytest.mark.parametrize("reloc", ["static", "pic"])
@pytest.mark.parametrize("level", few([0, 2, 1, 3], 2))
@pytest.mark.parametrize("name", IR)
def test_llvm(linker, name, level, reloc):
    data = compile_ir(IR[name], level, reloc)
    image = linker.place(data, 2, kinds=KINDS)
    was, frames = image.text, _frames(linker, image)
    _leave(linker, image, data)
    _come_back_elsewhere(linker, image, data, was)
    assert_like_ld(data, linker, image)
    assert _frames(linker, image) == frames
    # What was undefined is defined while the code is away.
    hibernate(linker, image)
    linker.place(compile_ir("define void @later() { ret void }"), 1)
    linker.check()
    wake(linker, image, data)
    linker.check()
    assert_like_ld(data, linker, image)
    linker.unlink(image)
    linker.check()


@needs("gcc")
@pytest.mark.parametrize(
    "flags", ["-O0 -fno-pic", "-O2 -fno-pic", "-O0 -fpic", "-O2 -fpic", "-O2 -fpic -fno-plt",
              "-O1 -ffunction-sections -fdata-sections -fno-pic"],
)  # fmt: skip
@pytest.mark.parametrize("name", C_SOURCES)
def test_gcc(linker, name, flags):
    data = compile_c(C_SOURCES[name], *flags.split())
    image = linker.place(data, 2, kinds=KINDS)
    was, frames = image.text, _frames(linker, image)
    _leave(linker, image, data)
    _come_back_elsewhere(linker, image, data, was)
    assert _frames(linker, image) == frames
    assert_like_ld(data, linker, image)
    linker.unlink(image)
    linker.check()


@needs("as")
@pytest.mark.parametrize(
    "field",
    [
        "leaq _GLOBAL_OFFSET_TABLE_(%rip), %rax",
        "movabsq $here@GOTOFF, %rax",
        "movq local@GOTPCREL(%rip), %rax",
        "movabsq $__start_table, %rax",
        ".reloc ., R_X86_64_SIZE32, local; .long 0",
    ],
)
def test_fields_that_their_bytes_do_not_tell_apart(linker, field):
    data = assemble(
        f".text\n.globl f\n.type f, @function\nf: {field}\nret\nhere: ret\n"
        '.data\nlocal: .quad 1\n.section table, "a"\n.quad 5'
    )
    image = linker.place(data, 2)
    was = image.text
    hibernate(linker, image)
    linker.check()
    _come_back_elsewhere(linker, image, data, was)
    if "__start_" not in field:  # the script that ld is given has no such sections
        assert_like_ld(data, linker, image)


def _object(data: str = "") -> bytes:
    return assemble(
        f".text\n.globl f\n.type f, @function\nf: .cfi_startproc\ncall other\nleaq v(%rip), %rax\n"
        f"ret\n.cfi_endproc\n.size f, . - f\n.data\nv: .quad 1{data}"
    )


@needs("as")
def test_where_there_is_no_room_the_code_stays_away(linker):
    data = _object()
    image = linker.place(data, 2, kinds={"other": "function"})
    hibernate(linker, image)
    held = []
    while (size := linker.arena.usage()["text"]["largest"]) >= 16:
        held.append(linker.arena.reserve("text", size))
    exports = image.exports
    with pytest.raises(ArenaFull):
        wake(linker, image, data)
    assert image.exports == exports
    for extent in held:
        linker.arena.free(extent)
    linker.check()
    wake(linker, image, data)
    linker.check()


@needs("as")
def test_what_is_evicted_while_away_leaves_nothing(linker):
    before = linker.arena.usage()
    for _ in range(3):
        data = _object()
        image = linker.place(data, 2, kinds={"other": "function"})
        hibernate(linker, image)
        linker.unlink(image)
        linker.check()
    after = linker.arena.usage()
    for name in before:
        assert after[name]["used"] == before[name]["used"]


@needs("as")
def test_a_site_that_does_not_reach_leaves_the_code_away(linker):
    """Whatever keeps a site from being written, nothing has changed."""
    data = assemble(".text\n.globl f\n.type f, @function\nf: jmp *far@GOTPCREL(%rip)\nret\n")
    near = linker.place(assemble(".text\n.globl far\n.type far, @function\nfar: ret"), 1)
    image = linker.place(data, 2, kinds={"far": "function"})
    hibernate(linker, image)
    symbol = linker.symbols["far"]
    exports, users = image.exports, symbol.users[image]

    def refuse(*_):
        raise ArenaFull("no room", "rodata", 8)

    bind, apply = linker.bind, linker.bind.apply
    bind.apply = refuse
    with pytest.raises(ArenaFull):
        wake(linker, image, data)
    bind.apply = apply
    assert image.exports == exports and symbol.users[image] == users
    linker.check()
    wake(linker, image, data)
    assert near.text is not None
    linker.check()


@needs("as")
def test_a_function_that_another_object_has_redefined_stays_the_other_ones(linker):
    data = assemble(
        ".text\n.globl f, g\n.type f, @function\n.type g, @function\nf: .cfi_startproc\ncall f\nret\n"
        ".cfi_endproc\n.size f, . - f\ng: jmp f\n.section .rodata\n.globl t\nt: .quad f, g"
    )
    image = linker.place(data, 2)
    other = linker.place(assemble(".text\n.globl f\n.type f, @function\nf: ret"), 1)
    was, users = image.text, dict(linker.symbols["f"].users)
    hibernate(linker, image)
    linker.check()
    _come_back_elsewhere(linker, image, data, was)
    f, g = linker.symbols["f"], linker.symbols["g"]
    assert f.image is other and f.address == other.text.start
    assert g.image is image and g.address == image.exports[1][1]
    assert len(f.users[image]) == len(users[image])
    assert linker.unwind.find(image.text.start), "its own f has a record still"
    call = image.text.start + 1 - linker.arena.base
    distance = int.from_bytes(linker.arena.view[call : call + 4], "little", signed=True)
    assert linker.arena.base + call + 4 + distance == f.address
