"""Sections of addresses that say where code is: stack maps, patchable entries, basic blocks."""

from __future__ import annotations

import struct

import pytest
from programs import constant

from jitkernel import Session, views
from jitkernel.elf.stack_maps import LocationKind
from jitkernel.errors import EvictError

READ = """@__LLVM_StackMaps = external global i8
define i64 @word(i64 %i) {
  %p = getelementptr i64, ptr @__LLVM_StackMaps, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}"""


def mapped(factor: int, filler: int = 0) -> str:
    """A function with a stack map, and so many bytes of code more."""
    return f"""declare void @llvm.experimental.stackmap(i64, i32, ...)
define i64 @f(i64 %x) {{
  %y = mul i64 %x, {factor}
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 {factor}, i32 8, i64 %y)
  call void asm sideeffect ".fill {filler}, 1, 0x90", ""()
  ret i64 %y
}}
@pointer = global ptr @f"""


def guarded(name: str, limit: int = 10) -> str:
    """A function that leaves by a `deopt` bundle where its argument is not below the limit."""
    return f"""declare i64 @llvm.experimental.deoptimize.i64(...)
define i64 @{name}(i64 %x) {{
  %fits = icmp ult i64 %x, {limit}
  br i1 %fits, label %on, label %out
on:
  ret i64 %x
out:
  %r = call i64 (...) @llvm.experimental.deoptimize.i64() [ "deopt"(i64 {limit}, i64 %x) ]
  ret i64 %r
}}"""


def body(s: Session, name: str) -> int:
    """Where a function's code is, behind its canonical entry."""
    return s.inspect.program.linker.symbols[name].address


def test_a_stack_map_has_the_address_of_the_code(s: Session) -> None:
    """Version 3, then two words of counts, then the function's address (LLVM "StackMaps")."""
    s.run(mapped(3))
    s.run(READ)
    assert s.call("word", 0) & 0xFF == 3
    assert s.call("word", 2) == body(s, "f") != s["f"].address
    text = s.inspect.engine.arena.read(s.inspect.program.linker.symbols["pointer"].address, 8)
    assert int.from_bytes(text, "little") == s["f"].address, "a pointer is to the canonical entry"
    s.run(constant("other", 1))
    assert s.run("@__LLVM_StackMaps").value == 3


def test_a_label_of_a_table_is_no_name_of_the_cells(s: Session) -> None:
    """Nobody wrote it: no list of a cell's names has it, and what the cell is made of can change."""
    cell = s.run(mapped(3)).cell
    assert cell.names == ["f", "pointer"]
    symbols = views.explain(s, cell.number).text.partition("== Symbols")[2]
    assert symbols and "StackMaps" not in views.cells(s).text + repr(cell) + symbols
    s.undo()
    s.run("define i64 @part(i64 %x) {\n  ret i64 %x\n}")
    s.run(mapped(3).replace("ret i64 %y", "%z = call i64 @part(i64 %y)\n  ret i64 %z"))
    s.run("define i64 @part(i64 %x) {\n  %r = add i64 %x, 1\n  ret i64 %r\n}")
    assert s.call("f", 5) == 16
    s.check()


def test_the_last_cells_map_is_the_one_that_is_read(s: Session) -> None:
    first = s.run(mapped(3), cell_id="a").cell
    s.run(READ)
    s.run(mapped(5), cell_id="a")
    assert s.call("word", 2) == body(s, "f") and s.call("f", 2) == 10
    s.undo()
    assert s.call("word", 2) == body(s, "f") and s.call("f", 2) == 6
    with pytest.raises(EvictError, match="word"):
        s.evict(first.number)


def test_a_cell_reads_its_own_map(s: Session) -> None:
    s.run(READ.replace("@word", "@mine") + "\n" + mapped(3))
    s.run(mapped(5).replace("@f(", "@g(").replace("ptr @f", "ptr @g").replace("@pointer", "@p"))
    assert s.call("mine", 2) == body(s, "f")


def test_code_with_a_map_stays_where_it_is(s: Session) -> None:
    s.run(mapped(3, filler=4000))
    cell, at = s.inspect.program.cells[s.cells[-1].number], body(s, "f")
    s.budget = 1
    s.run(constant("other", 1))
    s.run(READ)
    assert cell.pin_reason and s.call("word", 2) == body(s, "f") == at
    s.budget = 0


def test_entries_that_can_be_patched(s: Session) -> None:
    attributes = '"patchable-function-entry"="2"'
    s.run(f"@at = global ptr @f\ndefine i32 @f() {attributes} {{\n  ret i32 7\n}}")
    image = s.inspect.program.cells[s.cells[-1].number].image
    assert image is not None and image.data is not None
    held = s.inspect.engine.arena.read(image.data.extent.start, image.data.extent.size)
    words = struct.unpack(f"<{len(held) // 8}Q", held[: len(held) & -8])
    assert {body(s, "f"), s["f"].address} <= set(words), "the table's, and the variable's"


@pytest.mark.parametrize(
    ("section", "of_code"),
    [('.llvm_stackmaps,"a"', True), ('mine,"ao",@progbits,.text', True), ('mine,"a"', False)],
)
def test_any_section_that_goes_with_code(s: Session, section: str, of_code: bool) -> None:
    lines = [f".section {section}", ".globl table", "table:", ".quad f"]
    asm = "\n".join(f'module asm "{line.replace(chr(34), chr(92) + "22")}"' for line in lines)
    s.run(f"{asm}\n@table = external global i64\n@at = global ptr @f\n{constant('f', 7)}")
    assert s.run("@table").value == (body(s, "f") if of_code else s["f"].address)


def limits(s: Session) -> dict[str, int]:
    """By the function whose present code has a record: the constant of its bundle."""
    s.check()
    names = {body(s, name): name for name in s.symbols if s.symbols[name].kind == "function"}
    return {
        names[record.function.address]: record.statepoint.deopt[0].constant or 0
        for record in s.stack_maps.records
    }


def test_the_maps_of_all_cells_follow_their_code(s: Session) -> None:
    s.run(guarded("f"))
    s.run(guarded("g", 20), cell_id="g")
    assert limits(s) == {"f": 10, "g": 20}
    s.run(guarded("g", 30), cell_id="g")
    assert limits(s) == {"f": 10, "g": 30}
    s.undo()
    assert limits(s) == {"f": 10, "g": 20}
    s.redo()
    s.run(guarded("f", 40) + "\n" + guarded("h").split("\n", 1)[1])
    assert limits(s) == {"f": 40, "g": 30, "h": 10}
    s.evict("g")
    assert limits(s) == {"f": 40, "h": 10}
    s.undo()
    assert limits(s) == {"f": 40, "g": 30, "h": 10}
    for record in s.stack_maps.records:
        assert s.stack_maps.at(record.address) == record
        value = record.statepoint.deopt[1]
        assert (value.kind, value.register) == (LocationKind.INDIRECT, 7), "in the frame"


def test_code_that_was_replaced_goes_with_its_map(s: Session) -> None:
    """The label of the map alone is no reason to keep it: nobody reads the map by it."""
    first = s.run(guarded("f")).cell
    s.run("define i64 @f(i64 %x) {\n  ret i64 %x\n}")
    assert first is not None and first.number not in [c.number for c in s.cells]
    assert s.stack_maps.records == ()
    s.undo()
    assert limits(s) == {"f": 10}


def test_code_that_was_replaced_stays_for_who_reads_its_map(s: Session) -> None:
    s.run(mapped(3))
    s.run(READ)
    s.run("define i64 @f(i64 %x) {\n  ret i64 %x\n}\n@pointer = global ptr @f")
    assert s.call("word", 0) & 0xFF == 3


def test_a_map_of_other_code_is_found_by_check(s: Session) -> None:
    s.run(guarded("f"))
    table = s.inspect.program.linker.symbols["__LLVM_StackMaps"].address
    held = s.inspect.engine.arena.read(table + 16, 8)
    s.inspect.engine.arena.write(table + 16, bytes(8))
    with pytest.raises(AssertionError, match="stack map"):
        s.check()
    s.inspect.engine.arena.write(table + 16, held)
    s.check()


def test_a_function_that_deoptimises_is_not_lent(s: Session) -> None:
    """The continuation returns from the physical frame (LLVM Language Reference,
    `llvm.experimental.deoptimize`): inlined, it would leave its caller too."""
    s.run(guarded("f"))
    caller = "  %r = call i64 @f(i64 %x)\n  %s = add i64 %r, 1\n  ret i64 %s\n}"
    s.run(f"declare i64 @f(i64)\ndefine i64 @caller(i64 %x) {{\n{caller}")
    assert all("f" not in s.inspect.held(c.number) for c in s.cells)
    assert len(s.stack_maps.records) == 1, "the guard is there once"
