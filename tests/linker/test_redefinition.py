"""Symbols that move: every form of reference follows, and GNU ld says how each must look."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pytest
from native import lookup, mapped
from oracle import assert_like_ld
from toolchain import assemble, compile_ir, needs

from jitkernel.linker import Linker, SymbolState
from jitkernel.linker.records import sites

pytestmark = needs("ld", "as")

#: Every form in which code and tables refer to a function and to a variable.
USERS = """
.text
.globl users
.type users, @function
users:
    call FUNCTION
    call FUNCTION@PLT
    jmp FUNCTION
    jne FUNCTION
    call *FUNCTION@GOTPCREL(%rip)
    jmp *FUNCTION@GOTPCREL(%rip)
    movq FUNCTION@GOTPCREL(%rip), %r9
    movl FUNCTION@GOTPCREL(%rip), %ebx
    cmpq FUNCTION@GOTPCREL(%rip), %r13
    testl %esi, FUNCTION@GOTPCREL(%rip)
    pushq FUNCTION@GOTPCREL(%rip)
    leaq FUNCTION(%rip), %rax
    movabsq $FUNCTION, %rax
    movabsq $FUNCTION@GOT, %rax
    movabsq $FUNCTION@PLTOFF, %rax
    movq VARIABLE@GOTPCREL(%rip), %r10
    subl VARIABLE@GOTPCREL(%rip), %r11d
    movabsq $VARIABLE + 8, %rax
    movabsq $VARIABLE@GOT, %rax
NEAR
.section .rodata
    .quad FUNCTION, VARIABLE, VARIABLE + 16
.data
.globl pointers
.type pointers, @object
.size pointers, 24
pointers:
    .quad FUNCTION, VARIABLE, VARIABLE + 16
"""
#: Forms that hold only addresses near, as those of session symbols always are.
NEAR = """
    movl VARIABLE(%rip), %eax
    movl $VARIABLE + 4, %edx
    movq $VARIABLE, %rdx
    movl $FUNCTION, %edx
    cmpl $5, VARIABLE+4(%rip)
    leaq VARIABLE - 100000(%rip), %rax
"""
DEFINITION = """
.text
.globl FUNCTION
.type FUNCTION, @function
    .zero PAD, 0x90
FUNCTION: movl $RESULT, %eax
    ret
.size FUNCTION, . - FUNCTION
.data
.globl VARIABLE
.type VARIABLE, @object
.size VARIABLE, 24
    .zero PAD
VARIABLE: .quad RESULT, 2, 3
"""


def _source(text: str, function: str, variable: str, **more: object) -> str:
    for key, value in {"FUNCTION": function, "VARIABLE": variable, **more}.items():
        text = text.replace(key, str(value))
    return text


def _users(function: str = "f", variable: str = "v", near: bool = True) -> bytes:
    return assemble(_source(USERS, function, variable, NEAR=""
                            if not near else _source(NEAR, function, variable)))  # fmt: skip


def _definition(result: int, function: str = "f", variable: str = "v") -> bytes:
    return assemble(_source(DEFINITION, function, variable, RESULT=result, PAD=16 * result))


KINDS = {"f": "function", "v": "variable", "getpid": "function", "environ": "variable"}


def test_every_form_follows_a_redefinition(linker):
    old = linker.place(_definition(1), 1)
    users = _users()
    image = linker.place(users, 2, kinds=KINDS)
    assert_like_ld(users, linker, image)
    before = linker.arena.read(image.text.start, image.text.size)
    canonical = linker.canonical(linker.symbols["f"])
    was = linker.symbols["f"].definition, linker.symbols["v"].definition
    for result in range(2, 6):
        new = linker.place(_definition(result), 1 + result)
        linker.check()
        assert linker.canonical(linker.symbols["f"]) == canonical
        assert_like_ld(users, linker, image)
        assert linker.arena.read(image.text.start, image.text.size) != before
    # Back to the first: the bytes are what they were.
    for name, definition in zip("fv", was, strict=True):
        linker.redefine(linker.symbols[name], definition)
    linker.check()
    assert linker.arena.read(image.text.start, image.text.size) == before
    assert_like_ld(users, linker, image)
    for gone in (image, new, old):
        linker.unlink(gone)
        linker.check()


def test_a_check_writes_nothing(linker):
    """Threads of the program may run what is checked: a field that is zero for a moment, before it
    is again what it was, makes a call lead behind itself."""
    linker.place(_definition(1), 1)
    linker.place(_users(), 2, kinds=KINDS)
    linker.place(_users("getpid", "environ", near=False), 3, kinds=KINDS)
    arena = linker.arena
    before = arena.view
    arena.view = linker.bind.view = before.toreadonly()
    linker.check()
    arena.view = linker.bind.view = before


def _own(linker: Linker, name: str) -> Iterator[int]:
    """Places of what leads to a symbol, that nobody but its linker writes."""
    symbol = linker.symbols[name]
    data = linker.arena.zones["data"]
    yield from (at for at in (symbol.stub, symbol.slot, symbol.far_slot) if at)
    for packed in (symbol.users or {}).values():
        for site in sites(packed):
            at = linker.arena.base + site.offset
            if not data.start <= at < data.stop:
                yield at


def test_a_check_finds_what_is_not_up_to_date(linker):
    linker.place(_definition(1), 1)
    linker.place(_users(), 2, kinds=KINDS)
    linker.place(_users("getpid", "environ", near=False), 3, kinds=KINDS)
    for name in KINDS:
        for at in _own(linker, name):
            byte = linker.arena.read(at, 1)
            linker.arena.write(at, bytes([byte[0] ^ 0x40]))
            with pytest.raises(AssertionError, match="not up to date"):
                linker.check()
            linker.arena.write(at, byte)
        linker.check()
        symbol = linker.symbols[name]
        if symbol.slot:  # who refers to it says that there is none
            was, symbol.slot = symbol.slot, 0
            with pytest.raises(AssertionError, match="no GOT slot"):
                linker.check()
            symbol.slot = was
    linker.check()


def test_far_then_near_then_far_again(linker):
    users = _users("getpid", "environ", near=False)
    image = linker.place(users, 1, kinds=KINDS)
    linker.check()
    extents = (image.text, image.data.extent, image.rodata.extent)
    far = [linker.arena.read(e.start, e.size) for e in extents]
    near = linker.place(_definition(3, "getpid", "environ"), 2)
    linker.check()
    assert_like_ld(users, linker, image)
    fresh = linker.place(users, 3, kinds=KINDS)
    assert_like_ld(users, linker, fresh)
    assert linker.unlink(near) == []  # the process has both
    linker.check()
    assert linker.symbols["getpid"].state is SymbolState.FAR
    assert [linker.arena.read(e.start, e.size) for e in extents] == far
    linker.unlink(fresh)
    linker.check()


def test_a_pointer_that_the_program_replaced_stays(linker):
    linker.place(_definition(1), 1)
    linker.place(_users(), 2, kinds=KINDS)
    at = linker.symbols["pointers"].address
    stored = struct.pack("<QQ", 0xAAAA, 0xBBBB)
    linker.arena.write(at, stored)
    linker.place(_definition(2), 3)
    linker.check()
    assert linker.arena.read(at, 16) == stored
    last = struct.unpack("<Q", linker.arena.read(at + 16, 8))[0]
    assert last == linker.symbols["v"].address + 16


def test_relative_fields_in_writable_data_follow(linker):
    linker.place(_definition(1), 1)
    data = assemble(
        ".data\n.long v - .\n.long 7\n.quad v - .\n.globl table\n.type table, @object\ntable:"
    )
    image = linker.place(data, 2, kinds=KINDS)
    linker.place(_definition(2), 3)
    assert_like_ld(data, linker, image)


def test_function_addresses_are_equal_everywhere_and_lead_to_the_newest(linker):
    source = """
    @kept = global ptr null
    define i32 @f() { ret i32 RESULT }
    define i1 @keep() { store ptr @f, ptr @kept  %c = icmp eq ptr @f, @f  ret i1 %c }
    """
    asks = """
    declare i32 @f()
    @kept = external global ptr
    @table = global ptr @f
    define i32 @through() { %p = load ptr, ptr @kept  %r = call i32 %p()  ret i32 %r }
    define i32 @direct() { %r = call i32 @f()  ret i32 %r }
    define i32 @equal() {
      %p = load ptr, ptr @kept
      %q = load ptr, ptr @table
      %a = icmp eq ptr %p, @f
      %b = icmp eq ptr %p, %q
      %c = and i1 %a, %b
      %r = zext i1 %c to i32
      ret i32 %r
    }
    """
    first = linker.place(compile_ir(source.replace("RESULT", "1")), 1)
    linker.place(compile_ir(asks), 2, kinds={"f": "function", "kept": "variable"})
    with mapped(linker.arena):
        call = ctypes.CFUNCTYPE(ctypes.c_int)

        def ask() -> list[int]:
            names = ("through", "direct", "equal")
            return [call(linker.symbols[n].address)() for n in names]

        ctypes.CFUNCTYPE(ctypes.c_bool)(linker.symbols["keep"].address)()
        assert ask() == [1, 1, 1]
        linker.place(compile_ir("define i32 @f() { ret i32 2 }"), 3, weak=frozenset())
        assert ask() == [2, 2, 1]
        linker.redefine(linker.symbols["f"], (SymbolState.DEFINED, *_exported(first, "f")))
        assert ask() == [1, 1, 1]
        linker.check()


def _exported(image, name):
    symbol, address, size = next(e for e in image.exports if e[0].name == name)
    return address, size, image, symbol.kind, ""


def test_eviction_leaves_stubs_that_raise(linker):
    image = linker.place(_definition(1), 1)
    users = _users()
    user = linker.place(users, 2, kinds=KINDS)
    assert set(linker.dependents(image)) == {linker.symbols["f"], linker.symbols["v"]}
    orphans = linker.unlink(image)
    assert {s.name for s in orphans} == {"f", "v"}
    linker.check()
    stub = linker.symbols["f"].stub
    code = linker.arena.read(stub, 16)
    assert code[0] == 0xE8 and code[5:] == b"\xcc" * 11
    target = stub + 5 + struct.unpack("<i", code[1:5])[0]
    assert target == linker.arena.base + 0x100
    assert linker.entry(linker.symbols["f"]) == linker.canonical(linker.symbols["f"]) == stub
    assert_like_ld(users, linker, user)  # calls lead to the stub, the variable is nowhere
    linker.place(_definition(2), 3)
    linker.check()
    assert_like_ld(users, linker, user)


def test_a_field_that_cannot_name_address_zero_does_not_keep_an_eviction_from_happening(linker):
    image = linker.place(_definition(1), 1)
    linker.place(assemble(".globl v\nmovl $v - 4, %eax"), 2, kinds=KINDS)
    assert [s.name for s in linker.unlink(image)] == ["v"]
    linker.check()


def test_held_entries_stay_when_nobody_uses_them(linker):
    image = linker.place(_definition(1), 1)
    user = linker.place(_users(), 2, kinds=KINDS)
    symbol = linker.symbols["f"]
    stub = symbol.stub
    linker.retain_symbol(symbol)
    linker.unlink(user)
    linker.unlink(image)
    assert linker.symbols["f"] is symbol and symbol.stub == stub
    assert linker.arena.read(stub, 1) == b"\xe8"
    linker.release_symbol(symbol)
    assert "f" not in linker.symbols
    linker.check()


def test_a_function_that_the_runtime_has_can_be_defined_and_given_back(arena):
    fixed = {"jk_raise": arena.base + 0x100, "jk_exit": arena.base + 0x200}
    linker = Linker(arena, lookup, fixed=fixed, interposed={"exit": "jk_exit"})
    arena.reserve("rodata", 48)
    users = _users("exit", "program_invocation_name", near=False)
    image = linker.place(
        users, 1, kinds={"exit": "function", "program_invocation_name": "variable"}
    )
    assert linker.symbols["exit"].address == fixed["jk_exit"]
    own = linker.place(_definition(1, "exit", "program_invocation_name"), 2)
    linker.check()
    assert_like_ld(users, linker, image)
    linker.unlink(own)
    linker.check()
    assert linker.symbols["exit"].address == fixed["jk_exit"]
    assert linker.symbols["exit"].state is SymbolState.FIXED


def test_after_a_respawn_far_symbols_are_where_the_new_process_has_them(arena):
    where = {"getpid": 0x7F00_0000_1000, "environ": 0x7F00_0000_2000}
    linker = Linker(arena, lambda names: [where.get(n, 0) for n in names], fixed={"jk_raise": 1})
    arena.reserve("rodata", 48)
    users = _users("getpid", "environ", near=False)
    image = linker.place(users, 1, kinds=KINDS)
    where.update(getpid=0x7E00_0000_1000, environ=0x7E00_0000_2000)
    assert linker.resolver.renew_far() == []
    linker.check()
    slot = linker.symbols["getpid"].far_slot
    assert struct.unpack("<Q", arena.read(slot, 8))[0] == where["getpid"]
    pointers = struct.unpack("<3Q", arena.read(linker.symbols["pointers"].address, 24))
    assert pointers[1:] == (where["environ"], where["environ"] + 16)
    assert pointers[0] == linker.symbols["getpid"].stub
    where.clear()
    assert sorted(linker.resolver.renew_far()) == ["environ", "getpid"]
    linker.check()
    where.update(getpid=0x7E00_0000_1000, environ=0x7E00_0000_2000)
    assert {s.name for s in linker.resolver.retry_missing()} == {"environ", "getpid"}
    linker.check()
    assert struct.unpack("<3Q", arena.read(linker.symbols["pointers"].address, 24)) == pointers
    linker.unlink(image)
    linker.check()


def test_a_held_name_that_the_process_has_leads_there_when_asked_for_again(arena):
    where: dict[str, int] = {}
    linker = Linker(arena, lambda names: [where.get(n, 0) for n in names], {"jk_raise": arena.base})
    image = linker.place(_definition(1), 1)
    user = linker.place(_users(), 2, kinds=KINDS)
    symbol = linker.symbols["f"]
    linker.retain_symbol(symbol)
    linker.unlink(user)
    linker.unlink(image)
    linker.check()
    where["f"] = 0x7F00_0000_1000
    linker.place(assemble("call f"), 3)
    assert linker.symbols["f"] is symbol and symbol.state is SymbolState.FAR
    linker.check()
    linker.release_symbol(symbol)
    linker.check()
