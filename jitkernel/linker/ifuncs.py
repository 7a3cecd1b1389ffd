"""Functions that are chosen when a program starts (STT_GNU_IFUNC), made ordinary ones.

A resolver is called once, before every constructor, and says which function it is to be
(psABI 4.4.1, R_X86_64_IRELATIVE).  A linker of programs leaves that to the loader; here each such
function becomes a stub that jumps through a slot, and a constructor of the object's own fills the
slots.  Start from `make_ordinary`; `chooser` finds that constructor, which runs again where the
object is linked anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.elf import constants as c
from jitkernel.elf import read_object
from jitkernel.linker.builder import Builder
from jitkernel.linker.x86_64 import BRANCH, PC32

_ABSOLUTE, _SIZE = 1, 16  # R_X86_64_64; bytes of a stub
_WRITTEN, _CODE = c.SHF_ALLOC | c.SHF_WRITE, c.SHF_ALLOC | c.SHF_EXECINSTR


def make_ordinary(builder: Builder) -> None:
    """Let every symbol that a resolver chooses be a stub; nothing where there is none."""
    if c.STT_GNU_IFUNC not in builder.kinds:
        return
    chosen = [s for s in builder.symbols if s.info & 15 == c.STT_GNU_IFUNC and s.is_defined]
    if not chosen:
        return
    code = builder.add_section(".text.ifunc", _CODE, bytearray())
    slots = builder.add_section(c.IFUNC_SLOTS, _WRITTEN, bytearray(8 * len(chosen)), 8)
    here = builder.add_symbol("", c.STT_SECTION, code)
    there = builder.add_symbol("", c.STT_SECTION, slots)
    start = bytearray(b"\x48\x83\xec\x08")  # sub $8, %rsp
    begins = _SIZE * len(chosen)
    for number, symbol in enumerate(chosen):
        resolver = builder.add_symbol(
            f"{symbol.name}.resolver", c.STT_FUNC, symbol.section, symbol.value, symbol.size
        )
        at, slot = _SIZE * number, 8 * number
        code.content += b"\xff\x25\0\0\0\0\x0f\x0b" + b"\xcc" * 8  # jmp *slot(%rip); ud2
        code.relocations.append((at + 2, PC32, there, slot - 4))
        slots.relocations.append((slot, _ABSOLUTE, here, at + 6))  # until the resolver has run
        calls = begins + len(start)
        start += b"\xe8\0\0\0\0\x48\x89\x05\0\0\0\0"  # call resolver; mov %rax, slot(%rip)
        code.relocations.append((calls + 1, BRANCH, resolver, -4))
        code.relocations.append((calls + 8, PC32, there, slot - 4))
        symbol.info = symbol.info & ~15 | c.STT_FUNC
        symbol.section, symbol.value, symbol.size = code, at, _SIZE
    code.content += start + b"\x48\x83\xc4\x08\xc3"  # add $8, %rsp; ret
    code.size = len(code.content)
    first = builder.add_section(".init_array.00000", _WRITTEN, bytes(8), 8, c.SHT_INIT_ARRAY)
    first.relocations.append((0, _ABSOLUTE, here, begins))


def chooser(object: bytes, init: Sequence[int]) -> Sequence[int]:
    """The first of an object's constructors, `init`, where it fills such slots; else none."""
    made = read_object(object)
    names = map(made.section_name, range(len(made.sections)))
    return init[:1] if c.IFUNC_SLOTS in names else ()
