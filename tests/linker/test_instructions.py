"""The lengths of instructions, against objdump: of what compilers make and of hand-written code."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolchain import assemble, compile_c, needs, tool

from jitkernel.linker.instructions import decode, instruction_at

_LINE = re.compile(r"\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+) *\t(\S*)(.*)")

_C = """
#include <string.h>
#include <complex.h>
typedef float V __attribute__((vector_size(32)));
struct s { char c; short h; long l; __int128 w; double d; long double e; } g;
long sum(const int *p, long n) { long t = 0; for (long i = 0; i < n; i++) t += p[i] * 77; return t; }
V mix(V a, V b) { return a * b + a; }
int sw(int x) { switch (x) { case 1: return 7; case 2: return 70000; case 9: return x * x;
                case 4: return -1; case 5: return x / 3; default: return x % 10; } }
double dot(double *a, double *b, int n) { double t = 0; while (n--) t += a[n] * b[n]; return t; }
__int128 mul(__int128 a, __int128 b) { return a * b / 3; }
void set(struct s *p) { p->c = 1; p->h = 300; p->l = 1L << 40; p->w = -1; p->d = 1.5; p->e = 2.5L; }
int cas(int *p) { return __sync_val_compare_and_swap(p, 1, 2) + __sync_fetch_and_add(p, 5); }
unsigned bits(unsigned x) { return __builtin_popcount(x) + __builtin_clz(x) + (x << 7 | x >> 25); }
double _Complex cm(double _Complex a, double _Complex b) { return a * b; }
void copy(char *a, const char *b) { memcpy(a, b, 100); memset(a + 200, 7, 64); }
"""

_ASM = """
    movabs $0x1122334455667788, %rax; movabs 0x1122334455667788, %al; mov $1, %r9; mov $1, %ax
    enter $16, $2; ret $8; lock cmpxchg16b (%rdi); xchg %ax, %ax; pause; rep movsb; in $3, %al
    test $5, %bl; test $500, %bx; not %rbx; testq $7, 8(%rsp); fldt g(%rip); fsin; call *g(%rip)
    pshufd $3, %xmm1, %xmm2; pclmulqdq $1, %xmm3, %xmm9; crc32b (%rax), %ecx; pinsrw $1, %eax, %xmm1
    vpshufd $3, g(%rip), %ymm9; vaddps g(%rip), %ymm1, %ymm2; vfmadd213ps %zmm1, %zmm2, %zmm3
    vpternlogd $9, g(%rip), %zmm20, %zmm21{%k1}; vzeroupper; vpalignr $4, %ymm1, %ymm2, %ymm3
    andn %rax, %rbx, %rcx; shld $3, %rax, %rbx; bt $3, %eax; movzbl g(%rip), %esi; cpuid; syscall
    movw $0x1234, g(%rip); movl $0x12345678, g(%rip); movq $-1, g(%rip); movb $1, g(%rip); rdtsc
    imul $300, g(%rip), %eax; imul $3, %rax, %rbx; push $5; push $500; jrcxz .; loop .; jmp .+1000
    jne .+1000; mov %fs:0x28, %rax; mov 0x10(,%rax,8), %rbx; mov (%rsp), %r12; lea 8(%r13), %rax
    endbr64; nopw 0x200(%rax,%rax,1); data16 nopl 0(%rax); movbe (%rax), %ebx; bswap %r10; ud2
    vmovw g(%rip), %xmm3; vfnmadd213ph %zmm3, %zmm18, %zmm0; vaddsh g(%rip), %xmm3, %xmm4
    xabort $1; int $3; int3; prefetcht0 (%rax); movdir64b (%rax), %rbx; tzcnt %eax, %ebx; .byte 0xc3
"""


def _lengths(data: bytes) -> list[tuple[bytes, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.o")
        path.write_bytes(data)
        text = tool("objdump", "-d", "-w", "--insn-width=16", str(path)).decode()
    found = (_LINE.match(line) for line in text.splitlines())
    return [
        (bytes.fromhex(m[1]), m[2] + m[3])
        for m in found
        if m and m[2] and not m[2].startswith(("(bad)", "rex"))
    ]


def _check(data: bytes) -> int:
    lines = _lengths(data)
    wrong = [
        (code.hex(" "), text)
        for code, text in lines
        if decode(code + bytes(16), 0).end != len(code)
    ]
    assert wrong == []
    return len(lines)


@needs("gcc", "objdump")
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O3 -march=haswell", "-O3 -march=skylake-avx512"])
def test_compiled_code(flags):
    assert _check(compile_c(_C, *flags.split())) > 100


@needs("as", "objdump")
def test_one_of_each_form():
    assert _check(assemble(_ASM)) > 60


@needs("objdump")
@pytest.mark.soak
@pytest.mark.parametrize("name", ["libgmp.a", "libzstd.a", "libsqlite3.a"])
def test_libraries(name, tmp_path, monkeypatch):
    path = Path("/usr/lib/x86_64-linux-gnu", name)
    if not path.exists():
        pytest.skip(f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    tool("ar", "x", str(path))
    assert sum(_check(p.read_bytes()) for p in tmp_path.glob("*.o")) > 10_000


def test_where_the_operand_is():
    #      nop; cmpl $7, 0x11223344(%rip); movabs
    code = bytes.fromhex("90 83 3d 44 33 22 11 07 48 b8") + bytes(8)
    found = instruction_at(code, 0, 3)
    assert found is not None
    assert (found.start, found.modrm, found.displacement, found.immediate, found.end) == (
        1, 2, 3, 7, 8,
    )  # fmt: skip
    assert instruction_at(code, 8, 10).start == 8
    assert instruction_at(code[:5], 0, 3) is None  # the code ends within it


@given(st.binary(min_size=1, max_size=40), st.integers(0, 39), st.booleans())
def test_what_a_field_belongs_to(data, field, wide):
    """Found as by one instruction after the other; what has a REX prefix comes often."""
    code, start = (b"\x48" if wide else b"") + data, 0
    found = None
    try:
        while start <= field:
            found = decode(code, start)
            start = found.end
    except IndexError:
        found = None
    assert instruction_at(code, 0, field) == found
