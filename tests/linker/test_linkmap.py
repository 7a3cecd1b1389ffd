"""Where operands of instructions lead, as the link map reads them back from the bytes."""

from __future__ import annotations

import pytest
from native import lookup
from toolchain import assemble, needs

from jitkernel.linker import Linker
from jitkernel.linker.linkmap import read_link_map

#: Operands that count from behind an immediate of 0, 1, 2 or 4 bytes.
INSTRUCTIONS = {
    0: ["movl OF, %eax", "movl %eax, OF", "incl OF", "notl OF", "negq OF", "mulb OF", "divl OF",
        "shll %cl, OF", "movzbl OF, %eax", "addsd OF, %xmm0", "lea OF, %rax", "pushq OF"],
    1: ["addl $5, OF", "cmpq $5, OF", "cmpb $5, OF", "imul $5, OF, %eax", "movb $1, OF",
        "testb $1, OF", "shll $3, OF", "rolb $3, OF", "btl $3, OF", "shld $3, %eax, OF",
        "shrd $3, %eax, OF", "pshufd $1, OF, %xmm0", "cmpps $1, OF, %xmm0", "pinsrw $1, OF, %xmm0",
        "shufps $1, OF, %xmm0", "palignr $3, OF, %xmm0", "roundsd $1, OF, %xmm0"],
    2: ["cmpw $500, OF", "movw $500, OF", "imulw $500, OF, %ax", "testw $500, OF"],
    4: ["cmpl $500, OF", "movb $0x66, %al\ncmpl $500, OF", "addq $500, OF", "movl $500, OF", "movq $500, OF", "imul $500, OF, %eax",
        "testl $500, OF", "testq $500, OF"],
}  # fmt: skip


@needs("as")
@pytest.mark.parametrize("name", ["local", "shared"])
def test_where_operands_lead(arena, name):
    """The local one lies 40 bytes into the section that the relocations name; the other by name."""
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    lines = [one.replace("OF", f"{name}(%rip)") for many in INSTRUCTIONS.values() for one in many]
    source = (
        ".text\\n.globl f\\nf: nop; nop; nop; nop\\n"
        + "\\n".join(lines)
        + "\\nret\\n.data\\n.balign 16\\n"
        ".globl first, shared\\nfirst: .zero 40\\nlocal: .quad 1, 2\\nshared: .quad 3, 4\\n"
        ".section .debug_line\\n.quad local\\n"
    ).replace("\\n", chr(10))
    data = assemble(source)
    image = linker.place(data, 1)
    wanted = linker.symbols["first"].address + 40 + (16 if name == "shared" else 0)
    made = read_link_map(linker, image, data)
    assert len(made.relocations) == len(lines), "debug sections are left out"
    told = dict(zip(lines, (r.refers_to for r in made.relocations), strict=True))
    assert {line: to - wanted for line, to in told.items() if to != wanted} == {}
    targets = {r.target for r in made.relocations}
    assert targets == {linker.symbols["shared"] if name == "shared" else None}
