"""Large objects and merged ones: what is done to their relocations in bulk is what is done to the
few of a small one."""

from __future__ import annotations

import struct

import pytest
from native import lookup
from toolchain import assemble, compile_c, needs

from jitkernel.arena import Arena
from jitkernel.elf import read_object
from jitkernel.errors import LinkError
from jitkernel.linker import Linker, instructions, plan
from jitkernel.linker.prepare import prepared

pytestmark = needs("gcc")

_FUNCTIONS = 40
_SOURCE = (
    "#include <string.h>\n#include <stdlib.h>\nint shared = 3; static long counts[9];\n"
    + "".join(
        f"""
__attribute__((noinline)) int f{i}(int x) {{
  counts[x % 9] += {i} + (long)strlen("text {i}");
  switch (x & 7) {{
    case 0: return {i}; case 1: return shared++; case 2: return x * 3; case 3: return abs(x);
    case 4: return 77 + x; case 5: return x ^ {i}; case 6: return (int)counts[1];
  }}
  return x > 100 ? {f"f{i - 1}(x - 1)" if i else "x"} : (int)(long)getenv("PATH");
}}"""
        for i in range(_FUNCTIONS)
    )
    + "\nint (*const table[])(int) = {"
    + ", ".join(f"f{i}" for i in range(_FUNCTIONS))
    + "};\nlong *places[] = {"
    + ", ".join(f"counts + {i % 9}" for i in range(_FUNCTIONS))
    + "};"
)


def _picture(data, few: int, monkeypatch) -> tuple[object, object]:
    """The bytes that placing an object writes, and who refers to what."""
    monkeypatch.setattr(plan, "_FEW", few)
    arena = Arena(capacity=16 << 20, base=1 << 28)
    try:
        linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
        linker.place(read_object(data), 1)
        linker.check()
        content = {
            (zone, start): arena.read(start, size)
            for zone, found in arena.zones.items()
            for start, size in found.list.live.items()
        }
        uses = {
            name: sorted(p[i : i + 16] for p in (s.users or {}).values() for i in range(0, len(p), 16))
            for name, s in linker.symbols.items()
        }  # fmt: skip
        return content, uses
    finally:
        arena.close()


@pytest.mark.parametrize("flags", ["-O2", "-O2 -fPIC", "-O1 -fno-pic", "-O2 -ffunction-sections"])
def test_in_bulk_as_one_by_one(flags, monkeypatch):
    data = compile_c(_SOURCE, *flags.split())
    one_by_one = _picture(data, 1 << 30, monkeypatch)
    assert _picture(data, 0, monkeypatch) == one_by_one
    assert _picture(data, 16 * 24, monkeypatch) == one_by_one


def test_a_field_out_of_reach_is_told_of_in_bulk_too(monkeypatch):
    data = compile_c("extern int f(int); int g(int x) { return f(x) + f(x + 1); }", "-O1")
    obj = read_object(data)
    index = next(i for i in obj.relocations if obj.section_name(i) == ".text")
    (offset, info, _), _ = obj.relocations[index]
    wrong = data.replace(
        struct.pack("<QQq", offset, info, -4), struct.pack("<QQq", offset, info, 1 << 40)
    )
    assert wrong != data
    for few in (1 << 30, 0):
        with pytest.raises(LinkError, match=r"\.text\+0x.*does not fit 32"):
            _picture(wrong, few, monkeypatch)


def test_far_data_reads_each_instruction_a_few_times(monkeypatch):
    uses = 300
    source = ".text\n.globl f\n.type f, @function\nf:\n" + "".join(
        "mov stderr(%rip), %rdi\nxor %eax, %eax\ncall puts\n" for _ in range(uses)
    )
    decoded = 0
    decode = instructions.decode

    def counted(code, start):
        nonlocal decoded
        decoded += 1
        return decode(code, start)

    monkeypatch.setattr(instructions, "decode", counted)
    arena = Arena(capacity=16 << 20)
    linker = Linker(arena, lookup, fixed={"jk_raise": arena.base + 0x100})
    made = prepared(read_object(assemble(source + "ret\n")), "a.o", linker.resolver)
    arena.close()
    code = next(i for i, _ in enumerate(made.sections) if made.section_name(i) == ".text.far")
    assert len(made.relocations[code]) == 2 * uses
    assert decoded <= 10 * uses


def test_a_name_that_does_not_end_is_refused_of_a_local_symbol_too():
    data = compile_c("extern int f(int); int g(int x) { return f(x) + 1; }", "-O1")
    obj = read_object(data)
    number, entry = next(
        (i, s) for i, s in enumerate(obj.symbols) if obj.symbol_name(i) == "f" and s[3] == 0
    )
    row = struct.Struct("<IBBHQQ")
    wrong = data.replace(row.pack(*entry), row.pack(1 << 28, 0, *entry[2:]))
    assert wrong != data and number
    arena = Arena(capacity=16 << 20)
    resolver = Linker(arena, lookup, fixed={"jk_raise": arena.base}).resolver
    with pytest.raises(LinkError, match="does not end inside its string table"):
        prepared(read_object(wrong), "a.o", resolver)
    arena.close()
