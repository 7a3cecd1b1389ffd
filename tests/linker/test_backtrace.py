"""Backtraces over session code: exact frames by their tables, others by searching the stack."""

from __future__ import annotations

import ctypes
import struct

import pytest
from native import lookup, mapped
from toolchain import assemble, compile_ir, needs

from jitkernel.errors import LinkError
from jitkernel.linker import Linker
from jitkernel.linker.backtrace import unwind, walk

#: Stores rbx rbp rsp(after return) r12 r13 r14 r15 rip and 2 KB of stack.
CAPTURE = """
.text
.globl capture
.type capture, @function
capture:
    .cfi_startproc
    movq %rbx, registers(%rip)
    movq %rbp, registers+8(%rip)
    leaq 8(%rsp), %rax
    movq %rax, registers+16(%rip)
    movq %r12, registers+24(%rip)
    movq %r13, registers+32(%rip)
    movq %r14, registers+40(%rip)
    movq %r15, registers+48(%rip)
    movq (%rsp), %rax
    movq %rax, registers+56(%rip)
    movq %rsp, %rsi
    leaq stack(%rip), %rdi
    movl $2048, %ecx
    rep movsb
    ret
    .cfi_endproc
.bss
.balign 16
.globl registers
.type registers, @object
.size registers, 64
registers: .zero 64
.globl stack
.type stack, @object
.size stack, 2048
stack: .zero 2048
"""

#: Callee-saved registers, a frame pointer (a variable alloca), and a plain frame, in turn.
CHAIN = """
declare void @capture()
declare void @use(ptr)
define i64 @inner(i64 %x) uwtable {
  call void @capture()
  %r = add i64 %x, 1
  ret i64 %r
}
define i64 @saves(i64 %a, i64 %b, i64 %c) uwtable {
  %p = mul i64 %a, %b
  %q = mul i64 %b, %c
  %r = call i64 @inner(i64 %p)
  %s = mul i64 %r, %q
  %t = xor i64 %s, %p
  ret i64 %t
}
define i64 @dynamic(i64 %n) uwtable {
  %p = alloca i8, i64 %n
  store volatile i8 1, ptr %p
  %r = call i64 @saves(i64 %n, i64 3, i64 4)
  %v = load volatile i8, ptr %p
  %w = zext i8 %v to i64
  %s = add i64 %r, %w
  ret i64 %s
}
define i64 @outer(i64 %n) uwtable {
  %r = call i64 @dynamic(i64 %n)
  %s = mul i64 %r, %n
  ret i64 %s
}
"""


def _frames(linker: Linker) -> list[str]:
    """Names of the functions that `capture` was called from, innermost first."""
    arena = linker.arena
    words = struct.unpack("<8Q", arena.read(linker.symbols["registers"].address, 64))
    names = ("rbx", "rbp", "rsp", "r12", "r13", "r14", "r15", "rip")
    registers = dict(zip(names, words, strict=True))
    stack = arena.read(linker.symbols["stack"].address, 2048)
    low = registers["rsp"] - 8

    def read(address: int, size: int) -> bytes | None:
        at = address - low
        return stack[at : at + size] if 0 <= at and at + size <= len(stack) else None

    functions = sorted((s.address, s.name) for s in linker.symbols.values() if s.is_function)
    # `rip` is the return address of capture: the call before it is what counts.
    found = []
    for address in [registers["rip"], *unwind(registers, read, linker)]:
        found.append(max((a, n) for a, n in functions if a < address)[1])
    return found


@needs("as")
@pytest.mark.parametrize("level", [0, 2])
def test_frames_with_tables_are_exact(arena, level):
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    linker.place(assemble(CAPTURE), 1)
    linker.place(compile_ir(CHAIN, level), 2, kinds={"capture": "function", "use": "function"})
    with mapped(arena):
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linker.symbols["outer"].address)(40)
    assert _frames(linker) == ["inner", "saves", "dynamic", "outer"]


@needs("as")
def test_library_frames_and_functions_without_tables_are_crossed(arena):
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    linker.place(assemble(CAPTURE), 1)
    source = """
    declare void @capture()
    declare void @qsort(ptr, i64, i64, ptr)
    @array = global [2 x i32] [i32 2, i32 1]
    define i32 @compare(ptr %a, ptr %b) uwtable {
      call void @capture()
      ret i32 0
    }
    define void @sorts() nounwind {
      call void @qsort(ptr @array, i64 2, i64 4, ptr @compare)
      ret void
    }
    define i32 @starts(i32 %x) uwtable {
      call void @sorts()
      ret i32 %x
    }
    """
    linker.place(compile_ir(source, 0), 2, kinds={"capture": "function", "qsort": "function"})
    with mapped(arena):
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(linker.symbols["starts"].address)(1)
    assert _frames(linker) == ["compare", "sorts", "starts"]


def test_nonsense_registers_and_an_unreadable_stack_give_no_frames(arena):
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    image = linker.place(compile_ir("define void @f() uwtable { ret void }"), 1)
    for rip in (0, image.text.start, image.text.start + 3, 1 << 63, (1 << 64) - 1):
        registers = {"rip": rip, "rsp": (1 << 64) - 8, "rbp": 0}
        assert unwind(registers, lambda a, n: None, linker) == []
        assert unwind(registers, lambda a, n: b"\xff" * n if a < 1 << 64 else None, linker) == []


#: `decoy` has where `inner` was returned to, once, in four words of its frame.
DECOY = """
@registers = external global [8 x i64]
declare void @capture()
define i64 @inner(i64 %x) noinline uwtable {
  call void @capture()
  %r = add i64 %x, 1
  ret i64 %r
}
define i64 @decoy(i64 %n) noinline uwtable {
  %words = alloca [4 x i64]
  %a = call i64 @inner(i64 1)
  %rip = load volatile i64, ptr getelementptr (i8, ptr @registers, i64 56)
  %p0 = getelementptr i64, ptr %words, i64 0
  %p1 = getelementptr i64, ptr %words, i64 1
  %p2 = getelementptr i64, ptr %words, i64 2
  %p3 = getelementptr i64, ptr %words, i64 3
  store volatile i64 %rip, ptr %p0
  store volatile i64 %rip, ptr %p1
  store volatile i64 %rip, ptr %p2
  store volatile i64 %rip, ptr %p3
  %b = call i64 @inner(i64 %n)
  %s = add i64 %a, %b
  ret i64 %s
}
define i64 @outer(i64 %n) uwtable {
  %r = call i64 @decoy(i64 %n)
  %s = mul i64 %r, %n
  ret i64 %s
}
"""


@needs("as")
@pytest.mark.parametrize("level", [0, 2])
def test_tables_are_believed_more_than_what_lies_on_the_stack(arena, level):
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    linker.place(assemble(CAPTURE), 1)
    kinds = {"capture": "function", "registers": "variable"}
    linker.place(compile_ir(DECOY, level), 2, kinds=kinds)
    with mapped(arena):
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linker.symbols["outer"].address)(40)
    assert _frames(linker) == ["inner", "decoy", "outer"]


#: Every form of operand that a call has: registers, memory without and with a displacement of one
#: and four bytes, an index, no base, relative to the program counter.
CALLS = [
    "call f", "call *%rax", "call *%r12", "call *(%rax)", "call *(%r13)", "call *8(%rax)",
    "call *0x1000(%rax)", "call *(%rsp)", "call *8(%r12)", "call *0x1000(%rsp)",
    "call *(%rax,%rbx)", "call *8(%rax,%rbx,4)", "call *0x1000(%rax,%rbx,4)",
    "call *0x1000(,%rbx,8)", "call *0x1000", "call *f(%rip)",
]  # fmt: skip
OTHERS = ["jmp *%rax", "push (%rax)", "incl 8(%rax)", "mov (%rax), %rbx", "jmp *f(%rip)", "nop"]


@needs("as")
@pytest.mark.parametrize("instruction", [*CALLS, *OTHERS])
def test_a_return_address_lies_behind_a_call(arena, instruction):
    """GNU as says how long a call is; of a stack without tables only such words are frames."""
    pad = ".fill 16, 1, 0x90"
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    source = f".text\n.globl f, after\nf: {pad}\n{instruction}\nafter: {pad}\n"
    linker.place(assemble(source), 1)
    after = linker.symbols["after"].address
    stack = struct.pack("<4Q", 0, after + 3, after, 7)

    def read(address: int, size: int) -> bytes | None:
        return stack[address - 4096 :][:size] if address >= 4096 else None

    found = unwind({"rip": 1 << 40, "rsp": 4096}, read, linker)
    assert found == ([after] if instruction in CALLS else [])
    (here, *callers) = walk({"rip": 1 << 40, "rsp": 4096}, read, linker)
    assert not here.certain and here.library
    assert here.returns == (4096 + 16 if instruction in CALLS else 0)
    assert [c.pc for c in callers] == found


@needs("as")
@pytest.mark.parametrize("branch", ["call", "jmp"])
def test_what_is_called_through_the_got_is_a_function(arena, branch):
    """So it may be missing until it is called; what is read there may not."""
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    linker.place(assemble(f".globl g\ng: {branch} *nobody_has_it@GOTPCREL(%rip)\n"), 1)
    assert linker.symbols["nobody_has_it"].is_function
    with pytest.raises(LinkError, match="nor_this"):
        linker.place(assemble(".globl h\nh: addl nor_this@GOTPCREL(%rip), %eax\n"), 2)
    assert "nor_this" not in linker.symbols
