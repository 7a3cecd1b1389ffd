"""Text to values and back: the same text, the same object, the operands that LLVM sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitkernel.ir.model import Module
from tests.ir.model.corpus import (
    HERE,
    LEVELS,
    SOURCES,
    check_operands,
    compiled,
    folder,
    object_of,
    parsed,
    printed,
)

EXOTIC = (HERE / "exotic.ll").read_text()


def test_what_compilers_of_c_do_not_write() -> None:
    """Inline assembly, exceptions of two kinds, bundles, scalable vectors, types without names."""
    assert str(Module(EXOTIC)) == EXOTIC
    text = printed(EXOTIC)
    assert str(Module(text)) == text
    check_operands(text)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_what_clang_makes_of_c(source: Path, level: str) -> None:
    text = compiled(source, level)
    module = Module(text)
    assert str(module) == text
    check_operands(text)
    for function in module.functions.values():  # what each line says by itself
        for instruction in function.instructions:
            assert str(instruction) in text and instruction.function is function


LAID_OUT = """@g = global i32 0
define i32 @one(i32, i32 %x) { %s = add i32 %0, %x ret i32 %s }
define void @two() { ret void } ; behind
define i32 @three(i1 %c) { ; a brace
; above
  store i32 1, ptr @g store i32 2, ptr @g ; two
  br i1 %c, label %"a b", label %d
"a b":   ; a label
  %v = load i32, ; in the middle
         ptr @g
  ret i32 %v ; the end


d: ret i32
    7
}
define i32 @four(i1 %c) {
  add i32 1, 2
  br i1 %c, label %2, label %4
  call i32 @one(i32 1, i32 2)
  ret i32 %1
  /* the last */ ret i32 4
}
"""


def test_any_layout() -> None:
    """Several instructions a line, comments, numbers that are not written."""
    module = Module(LAID_OUT)
    assert printed(str(module)) == printed(LAID_OUT)
    four = module.functions["four"]
    assert [b.name for b in four.blocks] == ["0", "2", "4"]
    assert [len(b.instructions) for b in four.blocks] == [2, 2, 1]
    assert [i.name for i in four.instructions if i.name] == ["1", "3"]
    three = str(module.functions["three"])
    assert three in LAID_OUT


def test_use_list_orders_go_where_uses_change() -> None:
    text = (
        "define i32 @f(i32 %x) {\n  %a = add i32 %x, 1\n  %b = add i32 %x, %a\n  ret i32 %b\n\n"
        "  uselistorder i32 %x, { 1, 0 }\n}\n"
    )
    module = Module(text)
    assert str(module) == text
    f = module.functions["f"]
    a, b, _ = f.instructions
    b.set_operand(0, a)
    assert "uselistorder" not in str(module) and parsed(str(module))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_folder_of_modules() -> None:
    """Of programs that nobody here wrote: see `folder`."""
    for path in folder():
        text = printed(path.read_text())
        made = str(Module(text))
        assert made == text, path
        assert object_of(made) == object_of(text), path
