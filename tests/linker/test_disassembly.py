"""Machine code as text: what the disassembler does not know, and code of any length."""

from __future__ import annotations

from jitkernel.linker.disassembly import decode


def test_what_capstone_does_not_know_is_one_instruction() -> None:
    """Intel SDM, volume 2, 2.7: an EVEX prefix of map 5 or 6 (AVX512-FP16), as it is made of two
    bytes that go into a vector.  Objdump: vmovw; vfnmadd213ph, which has no immediate; ret."""
    code = bytes.fromhex("62f57d086e5c2405 62f66d40acc3 c3")
    found = [(i.address, i.mnemonic) for i in decode(code, 0)]
    assert found in (
        [(0, ".byte"), (8, ".byte"), (14, "ret")],
        [(0, "vmovw"), (8, "vfnmadd213ph"), (14, "ret")],  # a later one knows them
    )
    assert [i.mnemonic for i in decode(code[:5], 0)][:1] == [".byte"]  # it ends within it


def test_long_code_that_is_read_in_parts_is_read_once() -> None:
    """Of many instructions that capstone does not know, each is followed by a jump over it all."""
    one = bytes.fromhex("62f57c485800 e900000000 67 0f b9 40 05".replace(" ", ""))
    found = decode(one * 3000, 0x1000)
    assert [i.address for i in found if i.mnemonic == "jmp"] == [
        0x1006 + len(one) * n for n in range(3000)
    ]
    assert sum(len(i.code) for i in found) == len(one) * 3000
