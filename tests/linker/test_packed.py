"""Which instructions are packed: by name and operands, of several machines and in both syntaxes."""

from __future__ import annotations

import pytest

from jitkernel.linker.packed import is_packed

PACKED = """
addps xmm0, xmm1
vaddps ymm0, ymm1, ymmword ptr [rdi + rax*4]
vaddps (%rdi), %ymm0, %ymm1
mulpd xmm0, xmm0
vfmadd231pd zmm0, zmm1, zmm2
paddd xmm0, xmm1
vpaddq ymm0, ymm1, ymm2
vpxor ymm0, ymm1, ymm2
pshufd xmm0, xmm1, 0
cvtdq2ps xmm0, xmm1
cvttps2dq xmm0, xmm1
vcvttpd2qq zmm0, zmm1
vgatherdps ymm0, ymmword ptr [rdi + ymm1*4], ymm2
vcvtneps2bf16 xmm0, ymm1
vcvtph2w zmm0, zmm1
vmpsadbw ymm0, ymm1, ymm2, 0
valignd zmm0, zmm1, zmm2, 1
vmovshdup xmm0, xmm1
maskmovdqu xmm0, xmm1
vgf2p8affineqb ymm0, ymm1, ymm2, 0
movups xmm0, xmmword ptr [rdi]
movaps xmmword ptr [rdi], xmm0
vmovdqu64 zmm0, zmmword ptr [rdi]
movntps xmmword ptr [rdi], xmm0
fadd v0.4s, v0.4s, v1.4s
ld1w { z0.s }, p0/z, [x0]
vadd.vv v8, v8, v9
vle32.v v8, (a0)
""".strip().splitlines()

NOT_PACKED = """
addss xmm0, xmm1
vfmadd231sd xmm0, xmm1, xmm2
movss xmm0, dword ptr [rdi]
movsd %xmm0, (%rdi)
movlpd xmm0, qword ptr [rdi]
vmovhpd xmm0, xmm1, qword ptr [rdi]
movd xmm0, eax
movq xmm0, rax
movaps xmm0, xmm1
movaps %xmm0, %xmm1
vmovdqa ymm0, ymm1
xorps xmm0, xmm0
vxorps xmm0, xmm0, xmm0
vpcmpeqd ymm0, ymm0, ymm0
pextrd eax, xmm0, 1
vpinsrd xmm0, xmm1, eax, 1
vbroadcastss ymm0, dword ptr [rdi]
vpbroadcastd ymm0, xmm1
insertps xmm0, xmm1, 16
vextractps eax, xmm0, 1
vextractf128 xmm0, ymm1, 1
cvtsi2ss xmm0, eax
cvtss2sd xmm0, xmm0
ucomiss xmm0, xmm1
popcnt eax, ecx
push rbx
vzeroupper
mov eax, dword ptr [rdi]
fadd s0, s0, s1
add x0, x0, x1
vsetvli a0, a1, e32, m1
fadd.s fa0, fa0, fa1
""".strip().splitlines()


@pytest.mark.parametrize(
    ("text", "expected"), [(t, True) for t in PACKED] + [(t, False) for t in NOT_PACKED]
)
def test_what_works_on_several_elements(text: str, expected: bool) -> None:
    mnemonic, _, operands = text.partition(" ")
    assert is_packed(mnemonic, operands) is expected
