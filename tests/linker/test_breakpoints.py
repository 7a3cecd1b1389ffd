"""Breakpoints by int3 and slots: every instruction of what compilers make is gone over, and nothing
differs from a run without; then the books, against a model."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import test_exceptions
from c_functions import PROGRAMS
from corpus import IR, KINDS
from hypothesis import settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import sampled_from
from native import free_base, lookup, unwinding
from oracle import section_addresses
from toolchain import assemble, compile_c, compile_ir, needs
from trapped import Call, Outcome, Runs, first_difference, in_child

from jitkernel.arena import Arena, Extent
from jitkernel.elf import read_object
from jitkernel.linker import Image, Linker
from jitkernel.linker.backtrace import unwind
from jitkernel.linker.breakpoints import Breakpoints
from jitkernel.linker.displaced import ROOM, NotDisplaced, displace
from jitkernel.linker.instructions import decode
from tests.seeds import few

capstone = pytest.importorskip("capstone")
pytestmark = needs("gcc")


@pytest.fixture
def linker(arena):
    made = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    yield made
    assert made.breakpoints.table() == []
    arena.check()


def _starts(data: bytes, linker: Linker, image: Image) -> list[int]:
    """Where instructions begin, as capstone finds them in each function of an object."""
    obj, found = read_object(data), set()
    where = section_addresses(obj, image)
    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    for number, entry in enumerate(obj.symbols):
        symbol = obj.symbol(number)
        if entry[1] & 15 == 2 and symbol.section in where:
            at, size = where[symbol.section] + symbol.value, entry[5]
            code = linker.arena.read(at, size)
            each = list(machine.disasm_lite(code, at))
            assert sum(size for _, size, _, _ in each) == size
            for address, length, _, _ in each:
                assert decode(code, address - at).end == address - at + length
                found.add(address)
    return sorted(found)


def _check(linker: Linker, data: bytes, image: Image, calls: list[Call]) -> tuple[int, int]:
    """Run calls without breakpoints, with one at every instruction at once, with one at each that
    they come to in turn: the results are the same, and so is what an oracle sees of the way.

    Returns how many instructions can have one, and how many were met.
    """
    points, starts = linker.breakpoints, _starts(data, linker, image)
    text = linker.arena.zones["text"]
    before = linker.arena.read(text.start, text.high - text.start)

    def work() -> int:
        runs, met = Runs(linker.arena, points, image.text), set()
        for call in calls:
            runs(call)  # what libraries do the first time
            expected, stepped = runs(call), runs(call, stepping=True)
            assert expected.signal == 0 and stepped.effect == expected.effect
            for address in starts:
                points.insert(address)
            points.arm()
            trapped = runs(call)
            assert trapped.effect == expected.effect
            difference = first_difference(stepped.noted, trapped.noted)
            assert (trapped.count, trapped.path) == (stepped.count, stepped.path), difference
            assert trapped.hash == stepped.hash or not call.exact, difference
            points.disarm()
            for address in starts:
                points.remove(address)
            for address in {at for at, _ in stepped.noted} - met:
                points.insert(address)
                points.arm()
                assert (found := runs(call)).effect == expected.effect, hex(address)
                assert found.count > 0
                points.disarm()
                points.remove(address)
                met.add(address)
        assert linker.arena.read(text.start, text.high - text.start) == before
        return len(met)

    met = in_child(linker.arena, work)
    assert linker.arena.read(text.start, text.high - text.start) == before
    return len(starts), met


@functools.cache
def _clang(source: str, flags: str) -> bytes:
    pytest.importorskip("ziglang")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "a.o")
        command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu", "-c"]
        done = subprocess.run(
            [*command, "-fno-sanitize=all", *flags.split(), "-x", "c", "-", "-o", str(out)],
            input=source.encode(), capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return out.read_bytes()


@pytest.mark.parametrize("flags", few(["-O2", "-O0", "-Os -fPIC"], 1))
@pytest.mark.parametrize("name", PROGRAMS)
def test_clang(linker, name, flags):
    data = _clang(PROGRAMS[name], flags)
    image = linker.place(data, 1)
    function = linker.symbols["f"].address
    calls = [Call(function, 5, 3), Call(function, -12345678901, 77, 0.75)]
    exact = name not in ("library", "structs")
    starts, met = _check(linker, data, image, [c._replace(exact=exact) for c in calls])
    assert met > 5 and starts >= met


@pytest.mark.parametrize("flags", few(["-O2 -fpic -fno-plt", "-O0 -fno-pic"], 1))
@pytest.mark.parametrize("name", PROGRAMS)
def test_gcc(linker, name, flags):
    data = compile_c(PROGRAMS[name], *flags.split())
    image = linker.place(data, 1)
    function = linker.symbols["f"].address
    exact = name not in ("library", "structs")
    assert _check(linker, data, image, [Call(function, 6, 4, exact=exact)])[1] > 5


def _processor_has(*names: str) -> bool:
    words = Path("/proc/cpuinfo").read_text().split()
    return all(name in words for name in names)


@pytest.mark.parametrize(
    "march, needed",
    [("haswell", ("avx2", "bmi2", "fma")), ("skylake-avx512", ("avx512vl", "avx512bw"))],
)
@pytest.mark.parametrize("name", ["vectors", "floats", "structs", "arithmetic"])
def test_newer_instructions(linker, name, march, needed):
    if not _processor_has(*needed):
        pytest.skip(f"this processor has no {' '.join(needed)}")
    data = compile_c(PROGRAMS[name], "-O3", f"-march={march}", "-fpic")
    image = linker.place(data, 1)
    call = Call(linker.symbols["f"].address, 6, 4, exact=name != "structs")
    assert _check(linker, data, image, [call])[1] > 20


#: Of the modules that the linker's tests have, functions that can be called, and what with.
_CALLABLE = {
    "calls": [("callee", 3), ("tail", 4), ("recursive", 5), ("far_tail", 0), ("caller", 2)],
    "variables": [("reads", 2), ("element", 0), ("adds", 9), ("outside", 0), ("compares", 1)],
    "tables": [("address_of", 1), ("calls_through", 1), ("same", 0)],
    "switches": [("switches", 2), ("switches", 99), ("looked_up", 3)],
    "block addresses": [("jumps", 0), ("jumps", 1)],
    "constant pools": [("scaled", 0), ("vector", 0), ("unsigned", -5)],
    "linkages": [("uses", 0), ("is_there", 0), ("is_data_there", 0)],
    "constructors": [("first", 0), ("second", 0), ("bye", 0)],
    "exceptions": [("catches", 0), ("cleans", 0)],
    "memory": [("copies", 299), ("stack", 40)],
    "names": [("->", 0)],
}


@pytest.mark.parametrize(
    "level, reloc", few([(0, "static"), (2, "pic"), (0, "pic"), (2, "static")], 2)
)
@pytest.mark.parametrize("name", _CALLABLE)
def test_llvm(linker, name, level, reloc):
    data = compile_ir(IR[name], level, reloc)
    linker.place(compile_ir("define void @later() { ret void }"), 1)
    image = linker.place(data, 2, kinds=KINDS)
    calls = [
        Call(linker.symbols[f].address, a, exact=f not in ("caller",)) for f, a in _CALLABLE[name]
    ]
    assert _check(linker, data, image, calls)[1] > 1


@pytest.mark.parametrize("name", ["calls", "recursion", "switches", "structs", "goto"])
def test_far_up(name):
    """Where addresses have more than 31 bits, a return address takes two instructions."""
    far = Arena(capacity=64 << 20, base=0x0000_1234_5678_0000)
    linker = Linker(far, lookup, fixed={"jk_raise": far.base + 0x100})
    data = compile_c(PROGRAMS[name], "-O1", "-fpic")
    image = linker.place(data, 1)
    call = Call(linker.symbols["f"].address, 6, 4, exact=name != "structs")
    try:
        assert _check(linker, data, image, [call])[1] > 5
    finally:
        far.close()


#: One of each form that is treated in its own way, and of what is near to it.
_FORMS = """
    .globl f, callee
    .data
    .balign 64
g:  .quad callee, 0x1122334455667788, 3, -4, 5, 6, 7, 8
x:  .double 1.5, 2.5, -3.5, 4
    .text
    .type callee, @function
callee: lea 1(%rax), %rax; ret
    .size callee, .-callee
    .type pops, @function
pops: ret $16
    .size pops, .-pops
    .type f, @function
f:  endbr64; push %rbx; push %r12; push %rbp; mov %rsp, %rbp; sub $64, %rsp; xor %eax, %eax
    lea callee(%rip), %r11; mov %r11, (%rsp); mov %r11, 8(%rsp); mov %r11, 40(%rsp)
    mov %r11, -8(%rsp); mov %r11, -24(%rsp); lea g(%rip), %r12; mov $0, %ebx
    call callee; .byte 0x67; call callee; .byte 0x66, 0x66, 0x48; call callee
    call *%r11; call *g(%rip); call *(%rsp); call *8(%rsp); mov %r11, -8(%rsp); call *-8(%rsp)
    call *(%r12,%rbx,8); call *(%r12); call *40(%rsp); call *-64(%rbp); notrack call *%r11
    mov %r11, -24(%rsp); call *-24(%rsp); call *%ds:(%r12); lea g(%rip), %r13
    movabs $0x10000000000, %r8; or %r8, %r13; call *(%r13d)
    mov %r11d, %r10d; call *%r10; bnd call callee; rex.W call *%r11; mov %r11, %rdi; call *%rdi
    push %rax; push %rax; lea 1f(%rip), %rdi; push %rsp; pop %rsi; push $5; push 8(%rsp); pop %r8
    pop %r8; jmp *%rdi; ud2
1:  lea 1f(%rip), %rdi; mov %rdi, (%rsp); jmp *(%rsp); ud2
1:  sub $16, %rsp; call pops; add $16, %rsp; mov $0, %r8d; jmp 1f; ud2
1:  jmp.d32 1f; ud2
1:  bnd jmp 1f; ud2
1:  lea 1f(%rip), %rdi; notrack jmp *%rdi; ud2
1:  mov $3, %ecx
2:  add $1, %rax; loop 2b; mov $3, %ecx
2:  cmp $2, %ecx; loopne 2b; mov $3, %ecx
2:  cmp %eax, %eax; loope 2b; mov $5, %rcx; movabs $0x100000003, %rcx
2:  inc %rdx; .byte 0x67; loop 2b; mov $0, %ecx; jrcxz 1f; ud2
1:  jecxz 1f; ud2
1:  mov $1, %ecx; jrcxz 1f; jecxz 1f; mov $1, %ecx; loop 1f
1:  cmp $3, %ecx
    .irp c, o, no, b, nb, e, ne, be, nbe, s, ns, p, np, l, nl, le, nle
    j\\c 1f; inc %rbx
1:  j\\c\\().d32 1f; inc %rbx
1:
    .endr
    test %rax, %rax; jne,pt 1f; nop
1:  nop
    mov g+8(%rip), %rax; lea g(%rip), %rdx; .byte 0x67; lea g(%rip), %rdx; cmpb $7, g(%rip)
    cmpl $0x12345678, g+16(%rip); movw $0x1234, g+24(%rip); addq $-1, g+32(%rip); movb $1, g+40(%rip)
    imul $300, g+16(%rip), %esi; imul $3, g+16(%rip), %esi; lock xadd %rax, g+48(%rip); btl $3, g(%rip)
    shld $3, %rax, g+48(%rip); movzbl g+8(%rip), %esi; cmovne g+16(%rip), %rdi; testl $5, g+16(%rip)
    incl g+40(%rip); notq g+48(%rip); xchg %rsi, g+56(%rip); setc g+41(%rip); fldl x(%rip); fstpl x+8(%rip)
    movsd x(%rip), %xmm0; pshufd $3, x(%rip), %xmm1; pcmpistri $0, x(%rip), %xmm1; movups x+16(%rip), %xmm2
    cvttsd2si x(%rip), %rdi; addpd x(%rip), %xmm0; crc32q g(%rip), %rax; mov %fs:0, %rsi; movabs $-2, %r8
    lea g(%rip), %rsi; lea x(%rip), %rdi; mov $5, %ecx; rep movsb; mov $2, %ecx; rep stosw
    mov $9, %ecx; repne scasb; lea g(%rip), %rsi; lea g(%rip), %rdi; mov $40, %ecx; repe cmpsb
    mov $0, %ecx; rep movsb; enter $32, $0; leave; xor %edx, %edx; mov $7, %ecx; mov $100, %eax
    div %ecx; cpuid; push $7; pop %rdx; nopw 0x200(%rax,%rax,1); data16 nopl 0(%rax); pause
    lea g(%rip), %rbx; xor %eax, %eax; xlat
    VEX
    mov %rbp, %rsp; pop %rbp; pop %r12; pop %rbx; rep ret
    .size f, .-f
"""
_VEX_FORMS = """
    vaddpd x(%rip), %ymm0, %ymm1; vpshufd $3, x(%rip), %ymm2; vmovups x(%rip), %xmm3; vzeroupper
    andn g+16(%rip), %rax, %rcx; rorx $7, g+16(%rip), %rdx; vpextrq $1, %xmm3, g+16(%rip)
    vaddps g(%rip), %zmm1, %zmm2; vpternlogd $9, g(%rip), %zmm20, %zmm21; vmovdqu64 %zmm2, g(%rip)
    vaddpd x(%rip){1to8}, %zmm1, %zmm2; kmovq g(%rip), %k1; vmovdqu8 g(%rip), %xmm17{%k1}
"""


@needs("as")
def test_one_of_each_form(linker):
    newer = _processor_has("avx512vl", "avx512bw", "bmi2")
    data = assemble(_FORMS.replace("VEX", _VEX_FORMS if newer else "nop"))
    image = linker.place(data, 1)
    assert _check(linker, data, image, [Call(linker.symbols["f"].address)])[1] > 200


@needs("as")
def test_system_calls(linker):
    """The trap flag is of no use here: it misses the instruction behind one."""
    image = linker.place(
        assemble("""
            .globl f, here
            .type f, @function
            f: mov $186, %eax
            here: syscall
            1: lea 1b(%rip), %rsi; sub %rsi, %rcx; mov %rcx, (%rdx); mov %r11, 8(%rdx); ret
            .size f, .-f
        """),
        1,
    )
    points, here = linker.breakpoints, linker.symbols["here"].address

    def work() -> tuple[Outcome, Outcome]:
        runs = Runs(linker.arena, points, image.text)
        plain = runs(Call(linker.symbols["f"].address))
        points.insert(here)
        points.arm()
        return plain, runs(Call(linker.symbols["f"].address))

    plain, trapped = in_child(linker.arena, work)
    assert plain.rax > 1 and trapped.count == 1
    assert trapped.effect == plain.effect


#: Instructions that meet a fault, each in its own state.
_FAULTS = {
    "load": ("xor %eax, %eax", "mov 8(%rax), %rbx"),
    "store to code": ("", "mov %rax, f(%rip)"),
    "call through nothing": ("xor %eax, %eax", "call *(%rax)"),
    "call of nothing": ("xor %eax, %eax", "call *%rax"),
    "call of what is no address": ("movabs $0x8000000000000000, %rax", "call *%rax"),
    "call through the stack": ("push $0", "call *(%rsp)"),
    "call of the stack": ("", "call *%rsp"),
    "call without a stack": ("mov $64, %esp", "call callee"),
    "indirect call without a stack": ("lea callee(%rip), %rax; mov $64, %esp", "call *%rax"),
    "jump through nothing": ("xor %eax, %eax", "jmp *(%rax)"),
    "jump to nothing": ("xor %eax, %eax", "jmp *%rax"),
    "return to what is no address": ("movabs $-1 << 60, %rax; push %rax", "ret"),
    "push": ("xor %eax, %eax", "push (%rax)"),
    "division": ("xor %ecx, %ecx", "div %ecx"),
    "ud2": ("", "ud2"),
    "its own trap": ("", "int3"),
    "its own trap, long": ("", ".byte 0xcd, 3"),
    "hlt": ("", "hlt"),
    "interrupt": ("", "int $5"),
    "misaligned": ("lea g+1(%rip), %rax", "movaps (%rax), %xmm0"),
    "string": ("lea g(%rip), %rsi; lea f(%rip), %rdi; mov $9, %ecx", "rep movsb"),
}


@needs("as")
@pytest.mark.parametrize("name", _FAULTS)
def test_faults_in_slots_are_told_at_their_place(linker, name):
    before, instruction = _FAULTS[name]
    image = linker.place(
        assemble(f"""
            .globl f, g, callee, here, call
            .data
            .balign 64
            g: .quad 1, 2, 3, 4
            .text
            callee: ret
            f: .cfi_startproc
            sub $24, %rsp
            .cfi_adjust_cfa_offset 24
            call: call inner; add $24, %rsp; ret
            .cfi_endproc
            inner: .cfi_startproc
            push %rbx
            .cfi_adjust_cfa_offset 8
            {before}
            here: {instruction}
            nop; pop %rbx; ret
            .cfi_endproc
        """),
        1,
    )
    names = linker.symbols
    points, here, caller = linker.breakpoints, names["here"].address, names["call"].address

    def work() -> tuple[Outcome, list[int], Outcome, list[int], int]:
        runs = Runs(linker.arena, points, image.text)
        plain = runs(Call(names["f"].address))
        frames = unwind(plain.registers, runs.stack, linker)
        points.insert(here)
        points.insert(caller)
        points.arm()
        trapped = runs(Call(names["f"].address))
        told = points.original_registers(trapped.registers)
        found = unwind(trapped.registers, runs.stack, linker)
        assert points.place(trapped.registers["rip"]) == told["rip"]
        points.disarm()
        return plain, frames, trapped._replace(registers=told), found, trapped.registers["rip"]

    plain, frames, trapped, found, pc = in_child(linker.arena, work)
    assert plain.signal == trapped.signal != 0
    assert plain.registers == trapped.registers
    assert plain.effect == trapped.effect
    if here <= plain.registers["rip"] <= here + 2:
        low, high = linker.arena.slots
        assert low <= pc < high
    if "stack" not in name and "jump" not in name and "return" not in name:
        assert frames == found and frames[-1] == caller + 5


@pytest.mark.parametrize("level", [0, 2])
def test_exceptions_go_through_displaced_calls(linker, level):
    if not lookup(["__cxa_throw"])[0]:
        pytest.skip("no libstdc++ in this process")
    thrower, catcher = (
        linker.place(compile_ir(source, level), cell, kinds=test_exceptions.KINDS)
        for cell, source in enumerate((test_exceptions.THROWS, test_exceptions.CATCHES), 1)
    )
    points = linker.breakpoints
    starts = [
        *_starts(compile_ir(test_exceptions.THROWS, level), linker, thrower),
        *_starts(compile_ir(test_exceptions.CATCHES, level), linker, catcher),
    ]

    def throws() -> list[int]:
        runs = Runs(linker.arena, points, catcher.text)
        for address in starts:
            points.insert(address)
        points.arm()
        found = []
        for name, value in (("catches", 42), ("catches_all", 5), ("catches", -7 & 0xFFFFFFFF)):
            outcome = runs(Call(linker.symbols[name].address, value))
            found += [outcome.signal, outcome.rax & 0xFFFFFFFF]
            assert outcome.count > 5
        return found

    def work() -> list[int]:
        with unwinding(linker):
            return throws()

    assert in_child(linker.arena, work) == [0, 42, 0, 77, 0, -7 & 0xFFFFFFFF]


# -- what cannot be displaced --------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, why",
    [
        ("48 8b", "ends within"),
        ("06", "no instruction"),
        ("d5 00 90", "newer"),  # REX2
        ("62 f4 7c 08 01 c0", "map"),  # EVEX map 4, APX
        ("c4 e0 78 10 c0", "map"),
        ("66 e8 00 00 00 00", "prefix 66"),
        ("66 ff d0", "prefix 66"),
        ("66 75 00", "prefix 66"),
        ("ff 18", "another code segment"),  # lcall *(%rax)
        ("8f e9 78 81 c0", "XOP"),
        ("48 c5 f8 77", "no instruction"),  # REX in front of VEX
        ("48 66 90", "no instruction"),
    ],
)
def test_what_has_no_copy(code, why):
    with pytest.raises(NotDisplaced, match=f"0x10000000.*{why}.*another instruction"):
        displace(bytes.fromhex(code), 0x10000000, 0x10001000)


@pytest.mark.parametrize(
    "code", ["e8 00 00 00 80", "0f 84 f0 ff ff 7f", "48 8d 05 00 00 00 80", "ff 15 f0 ff ff 7f"]
)
@pytest.mark.parametrize("off", [1 << 30, -(1 << 30)])
def test_what_does_not_reach(code, off):
    """Two ways of being out of reach, by where the copy is: one of them at least."""
    data = bytes.fromhex(code)
    reached = 0
    try:
        reached = displace(data, 0x40000000, 0x40000000 + off)[0]
    except NotDisplaced as error:
        assert "does not reach" in str(error)
    forward = data[-1] == 0x7F
    assert reached == (len(data) if (off > 0) == forward else 0)


@pytest.mark.parametrize(
    "code, rows",
    [
        # By offset into the slot: the distance from the original, the bytes pushed.
        ("89 c3", {0: (0, 0), 2: (2, 0)}),  # mov
        ("75 10", {0: (0, 0), 6: (2, 0)}),  # jne: the long one has 6 bytes
        ("eb 10", {0: (0, 0)}),
        ("e2 10", {0: (0, 0), 2: (2, 0), 4: (0x12, 0), 9: (2, 0)}),  # loop, jmp, jmp, jmp
        ("e8 10 00 00 00", {0: (0, 0), 5: (0, 8)}),  # push; jmp
        ("ff d0", {0: (0, 0), 2: (0, 8), 5: (0, 16), 14: (0, 16)}),  # push, push, mov, ret
        ("0f 05", {0: (0, 0), 2: (2, 0), 9: (2, 0)}),  # syscall, mov, jmp
        ("cc", {0: (0, 0), 1: (1, 0)}),  # its own trap tells the place behind it
    ],
)
def test_places_in_a_slot(arena, code, rows):
    extent = arena.reserve("text", 16)
    arena.write(extent.start, bytes.fromhex(code))
    points = Breakpoints(arena)
    points.insert(extent.start)
    slot = points.slot(extent.start)
    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    copy = arena.read(slot, ROOM)
    begins = {at for at, _, _, _ in machine.disasm_lite(copy, 0)}
    assert rows.keys() <= begins
    for offset in begins:
        place, pushed = rows[max(at for at in rows if at <= offset)]
        registers = {"rip": slot + offset, "rsp": 0x7000 - pushed}
        assert points.place(slot + offset) == extent.start + place
        assert points.original_registers(registers) == {"rip": extent.start + place, "rsp": 0x7000}
    assert points.place(slot + ROOM) == slot + ROOM and points.place(slot - 1) == slot - 1
    points.remove(extent.start)


def test_every_copy_has_room():
    """The longest there are, at addresses that take the most bytes."""
    longest = [
        "65 67 43 ff 94 24 78 56 34 12",  # call *%gs:0x12345678(%r12d,%r12d)
        "64 64 64 64 64 67 43 ff 94 24 78 56 34 12",
        "f2 67 40 e8 00 00 00 00", "67 67 67 67 67 67 67 67 67 67 67 67 67 0f 05",
        "67 67 67 67 67 67 67 67 67 67 67 67 67 e2 7f", "f0 65 67 48 81 84 88 78 56 34 12 78 56 34 12",
    ]  # fmt: skip
    for code in map(bytes.fromhex, longest):
        size, copy = displace(code, 0x7000_0000_0000, 0x7000_0001_0000)
        assert size == len(code) <= 15
        assert len(copy.code) <= ROOM
        assert [row.offset for row in copy.rows] == sorted({row.offset for row in copy.rows})


# -- the books ----------------------------------------------------------------------------------

#: `cmp`, `jne` over a `nop`, `call`, an `int3` of its own, `ret`: instructions of 1 to 5 bytes
_CODE = bytes.fromhex("39 c0  75 01  90  90  e8 f4 ff ff ff  cc  89 05 00 00 00 00  c3 90 90 90")
_STARTS = [0, 2, 4, 5, 6, 11, 12, 18, 19, 20, 21]


@pytest.fixture
def code(arena):
    extent = arena.reserve("text", len(_CODE))
    arena.write(extent.start, _CODE)
    return extent


@pytest.fixture
def points(arena, code):
    made = Breakpoints(arena)
    held = arena.resident_regions()["runtime.text"]
    yield made
    made.disarm()
    for address in range(code.start, code.start + code.size):
        while address in made:
            made.remove(address)
    assert made.table() == []
    assert arena.resident_regions()["runtime.text"] == held  # slots hold no memory any more
    arena.check()


def _text(arena, code) -> bytes:
    return arena.read(code.start, code.size)


def test_in_the_text_only_while_armed(arena, code, points):
    first, second = code.start, code.start + 2
    points.insert(first)
    points.insert(second)
    assert _text(arena, code) == _CODE and points.table() == []
    points.arm()
    assert _text(arena, code) == b"\xcc" + _CODE[1:2] + b"\xcc" + _CODE[3:]
    assert points.original(code.start, _text(arena, code)) == _CODE
    assert points.original(code.start + 2, arena.read(code.start + 2, 1)) == _CODE[2:3]
    assert points.original(code.start + 3, arena.read(code.start + 3, 5)) == _CODE[3:8]
    assert points.table() == [(first, points.slot(first)), (second, points.slot(second))]
    points.insert(code.start + 4)
    points.remove(first)
    assert _text(arena, code) == _CODE[:2] + b"\xcc\x01\xcc" + _CODE[5:]
    points.disarm()
    assert _text(arena, code) == _CODE
    points.arm()
    assert _text(arena, code) == _CODE[:2] + b"\xcc\x01\xcc" + _CODE[5:]


def test_neighbours_are_seen_through(arena, code, points):
    points.arm()
    for offset in reversed(_STARTS):
        points.insert(code.start + offset)
    copies = {}
    for offset in _STARTS:
        slot = points.slot(code.start + offset)
        copies[offset] = arena.read(slot, ROOM)
        assert points.place(slot) == code.start + offset
    points.disarm()
    for offset in _STARTS:
        points.remove(code.start + offset)
    for offset in _STARTS:
        points.insert(code.start + offset)
        size = decode(_CODE, offset).end - offset
        slot, copy = points.slot(code.start + offset), copies[offset]
        if offset not in (2, 6, 12):  # what has a distance in it
            assert copy[:size] == arena.read(slot, size) == _CODE[offset : offset + size]
    assert copies[6][0] == 0x68 and copies[6][1:5] == (code.start + 11).to_bytes(4, "little")


def test_counted(arena, code, points):
    points.arm()
    points.insert(code.start)
    slot = points.slot(code.start)
    points.insert(code.start)
    points.remove(code.start)
    assert _text(arena, code)[0] == 0xCC
    points.remove(code.start)
    points.remove(code.start)
    assert _text(arena, code) == _CODE and code.start not in points
    with pytest.raises(KeyError):
        points.slot(code.start)
    assert points.place(slot) == code.start  # somebody may still be there
    points.insert(code.start)
    assert points.slot(code.start) == slot
    points.remove(code.start)
    points.disarm()
    assert points.place(slot) == slot


def test_slots_stay_while_threads_run(arena, code, points):
    arena.in_use = lambda: True
    points.arm()
    points.insert(code.start)
    slot = points.slot(code.start)
    points.disarm()
    points.remove(code.start)
    assert points.place(slot) == code.start
    arena.in_use = None
    points.disarm()
    assert points.place(slot) == slot


def test_slots_stay_while_a_call_stands(arena, code, points):
    """A frame below may go back into one: that of a handler of signals, of what it interrupted."""
    points.insert(code.start)
    points.arm()
    slot = points.slot(code.start)
    held = arena.read(slot, ROOM)
    points.disarm(stands=True)
    assert _text(arena, code) == _CODE
    points.remove(code.start)
    points.insert(code.start + 1)
    points.arm()
    assert points.slot(code.start + 1) != slot
    assert arena.read(slot, ROOM) == held
    points.disarm(stands=True)
    points.insert(code.start)
    assert points.slot(code.start) == slot
    points.remove(code.start)
    points.remove(code.start + 1)
    assert arena.read(slot, ROOM) == held
    points.disarm()
    assert points.place(slot) == slot  # it is nobody's


def test_what_is_no_code(arena, code, points):
    for address in (arena.base, arena.zones["text"].high, 0, arena.zones["data"].start):
        with pytest.raises(NotDisplaced, match="no code"):
            points.insert(address)
        assert address not in points


def test_there_is_room_for_so_many(arena, code):
    start, _ = arena.slots
    arena.slots = start, start + 3 * ROOM
    points = Breakpoints(arena)
    for offset in (0, 2, 4):
        points.insert(code.start + offset)
    with pytest.raises(NotDisplaced, match="room for 3"):
        points.insert(code.start + 5)
    points.remove(code.start)
    points.insert(code.start + 5)
    assert code.start not in points


def test_code_that_leaves_takes_them_along(arena, code, points):
    points.insert(code.start)
    points.insert(code.start + 2)
    points.arm()
    arena.free(code)
    assert code.start not in points and points.table() == []
    points.disarm()
    arena.check()  # poison, and nothing else


def test_code_that_comes_back_has_them_again(arena, code, points):
    points.insert(code.start)
    points.arm()
    with pytest.raises(ZeroDivisionError), arena.rollback.atomic():
        points.insert(code.start + 2)
        arena.free(code)
        assert points.table() == []
        raise ZeroDivisionError
    assert [address for address, _ in points.table()] == [code.start]
    assert _text(arena, code) == b"\xcc" + _CODE[1:]
    points.disarm()
    assert _text(arena, code) == _CODE


def test_taken_back_with_the_code_they_are_in(arena, code, points):
    points.arm()
    with pytest.raises(ZeroDivisionError), arena.rollback.atomic():
        new = arena.reserve("text", 64)
        arena.write(new.start, _CODE)
        points.insert(new.start)
        points.insert(code.start)
        points.insert(code.start)
        raise ZeroDivisionError
    assert points.table() == [] and new.start not in points and code.start not in points
    arena.check()


def test_hidden(arena, code, points):
    points.insert(code.start)
    points.arm()
    slot = points.slot(code.start)
    with points.hidden():
        assert _text(arena, code) == _CODE
        points.remove(code.start)
        points.insert(code.start + 2)
        assert points.place(slot) == code.start
    assert _text(arena, code) == _CODE[:2] + b"\xcc" + _CODE[3:]


def test_code_that_others_write(arena, linker):
    """A call that is relaxed otherwise begins with another byte: its callee moved, or went."""
    source = compile_c("int g(void); int f(void) { return g() + 1; }", "-O1", "-fpic", "-fno-plt")
    image = linker.place(source, 1)
    call = next(at for at in range(image.text.start, image.text.start + 16)
                if linker.arena.read(at, 2) in (b"\xff\x15", b"\x67\xe8"))  # fmt: skip
    points = linker.breakpoints
    points.insert(call)
    points.arm()
    callee = compile_ir("define i32 @g() { ret i32 41 }")
    for _ in range(2):
        made = linker.place(callee, 2)
        points.refresh()
        result = in_child(
            linker.arena,
            lambda: Runs(linker.arena, points, image.text)(Call(linker.symbols["f"].address)),
        )
        assert (result.rax, result.count) == (42, 1)
        assert points.original(call, linker.arena.read(call, 2)) == b"\x67\xe8"
        linker.unlink(made)
        points.refresh()
    points.disarm()
    linker.check()
    points.remove(call)


def test_frames_are_found_while_armed(arena, linker):
    """A return address follows a call, whatever is over that; `test_faults...` has the rest."""
    image = linker.place(assemble("f: .globl f; nop; call g; ret; g: ret"), 1)
    call = image.text.start + 1
    stack = {0x1000: (call + 5).to_bytes(8, "little")}
    registers = {"rip": image.text.start + 7, "rsp": 0x1000}
    expected = unwind(registers, lambda at, size: stack.get(at), linker)
    linker.breakpoints.insert(call)
    linker.breakpoints.arm()
    assert unwind(registers, lambda at, size: stack.get(at), linker) == expected == [call + 5]
    # Half a call, in the slot: its own return address is on the stack, and no frame of its own.
    slot = linker.breakpoints.slot(call)
    half = {"rip": slot + 5, "rsp": 0xFF8}
    assert linker.breakpoints.original_registers(half) == {"rip": call, "rsp": 0x1000}
    assert linker.breakpoints.original_registers(registers) == registers
    linker.breakpoints.disarm()
    linker.breakpoints.remove(call)


class Books(RuleBasedStateMachine):
    """`Breakpoints` against a dictionary of counts and a copy of the text."""

    def __init__(self):
        super().__init__()
        self.arena = Arena(capacity=16 << 20, base=free_base(16 << 20))
        self.points = Breakpoints(self.arena)
        self.running = False
        self.arena.in_use = lambda: self.running
        self.texts: dict[Extent, bytearray] = {}
        self.counts: dict[int, int] = {}
        self.armed = False

    def teardown(self):
        self.arena.close()

    @initialize()
    def begin(self):
        self.place()
        self.place()

    @rule()
    @precondition(lambda self: len(self.texts) < 3)
    def place(self):
        extent = self.arena.reserve("text", len(_CODE))
        self.arena.write(extent.start, _CODE)
        self.texts[extent] = bytearray(_CODE)

    def _pick(self, data):
        extent = data.draw(sampled_from(sorted(self.texts)))
        return extent, extent.start + data.draw(sampled_from([0, 4, 5, 6, 11]))

    @rule(data=strategies.data(), many=strategies.integers(1, 5))
    @precondition(lambda self: self.texts)
    def insert(self, data, many):
        for _ in range(many):
            _, address = self._pick(data)
            self.points.insert(address)
            self.counts[address] = self.counts.get(address, 0) + 1

    @rule(data=strategies.data())
    @precondition(lambda self: self.texts)
    def remove(self, data):
        _, address = self._pick(data)
        self.points.remove(address)
        if self.counts.get(address, 0) > 1:
            self.counts[address] -= 1
        else:
            self.counts.pop(address, None)

    @rule(data=strategies.data())
    @precondition(lambda self: len(self.texts) > 1)
    def free(self, data):
        extent, _ = self._pick(data)
        self.running = False
        self.arena.defer_frees(False)
        self.arena.free(extent)
        del self.texts[extent]
        self._forget(extent)

    def _forget(self, extent):
        for at in [a for a in self.counts if extent.start <= a < extent.start + extent.size]:
            del self.counts[at]

    @rule(data=strategies.data(), other=sampled_from(["nop", "jump"]))
    @precondition(lambda self: self.texts)
    def write(self, data, other):
        """Others write an instruction over another one."""
        extent = data.draw(sampled_from(sorted(self.texts)))
        offset, code = (4, b"\xf8") if other == "nop" else (6, b"\xe9\x07\0\0\0")
        self.arena.write(extent.start + offset, code)
        self.texts[extent][offset : offset + len(code)] = code
        self.points.refresh()

    @rule(data=strategies.data(), many=strategies.integers(1, 4))
    @precondition(lambda self: self.texts)
    def fail(self, data, many):
        """An operation that does this and that, and leaves nothing."""
        try:
            with self.arena.rollback.atomic():
                for _ in range(many):
                    _, address = self._pick(data)
                    data.draw(sampled_from([self.points.insert, self.points.remove]))(address)
                new = self.arena.reserve("text", len(_CODE))
                self.arena.write(new.start, _CODE)
                self.points.insert(new.start)
                if not self.running and data.draw(strategies.booleans()):
                    self.arena.free(self._pick(data)[0])
                if data.draw(strategies.booleans()):
                    self.points.disarm() if self.armed else self.points.arm()
                    self.armed = not self.armed
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    @rule()
    def arm(self):
        self.points.arm()
        self.armed = True

    @rule()
    def disarm(self):
        self.points.disarm()
        self.armed = False

    @rule(running=strategies.booleans())
    def threads(self, running):
        self.running = running
        if not running:
            self.arena.defer_frees(False)

    @rule()
    def hide(self):
        with self.points.hidden():
            for extent, content in self.texts.items():
                assert self.arena.read(extent.start, extent.size) == content

    @invariant()
    def text_is_as_it_should_be(self):
        inside = sorted(self.counts) if self.armed else []
        for extent, content in self.texts.items():
            expected = bytearray(content)
            for address in inside:
                if extent.start <= address < extent.start + extent.size:
                    expected[address - extent.start] = 0xCC
            found = self.arena.read(extent.start, extent.size)
            assert found == expected
            assert self.points.original(extent.start, found) == content
            assert self.points.original(extent.start + 5, found[5:9]) == content[5:9]
        assert [address for address, _ in self.points.table()] == inside
        assert not self.points.unset

    @invariant()
    def slots_are_copies(self):
        slots = {self.points.slot(address): address for address in self.counts}
        assert len(slots) == len(self.counts)
        for slot, address in slots.items():
            extent = next(e for e in self.texts if e.start <= address < e.start + e.size)
            now = bytes(self.texts[extent][address - extent.start :])
            _, copy = displace(now, address, slot)
            assert self.arena.read(slot, len(copy.code)) == copy.code
            assert self.points.place(slot) == address

    @invariant()
    def nothing_else_is_touched(self):
        self.arena.check()


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=15, stateful_step_count=50, derandomize=True)


@pytest.mark.soak
def test_the_books_after_many_walks():
    run_state_machine_as_test(Books, settings=settings(max_examples=300, stateful_step_count=50))
