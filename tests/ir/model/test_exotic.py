"""Edits of what compilers of C seldom write: assembly with operands, exceptions of both kinds,
bundles, scalable vectors, types of targets, types with numbers, names with escapes."""

from __future__ import annotations

import pytest

from jitkernel.ir.model import Block, Constant, Function, Instruction, Module, const, parse
from tests.ir.model.corpus import HERE, check_operands, parsed, printed

EXOTIC = (HERE / "exotic.ll").read_text()


@pytest.fixture
def module() -> Module:
    return Module(EXOTIC)


def named(function: Function, name: str) -> Instruction:
    found = function.value(name)
    assert isinstance(found, Instruction)
    return found


def test_each_operand_can_be_replaced_and_put_back(module: Module) -> None:
    """In its own place and no other; read again, the others are what they were."""
    tried = 0
    for name, function in module.functions.items():
        for at, i in enumerate(function.instructions):
            before = [o.ref for o in i.operands]
            for k, operand in enumerate(i.operands):
                if str(operand.type) in ("token", "metadata", "label"):
                    others = [b for b in function.blocks if b is not operand]
                    if not isinstance(operand, Block) or not others:
                        continue
                    new: object = others[0]
                else:
                    new = const(operand.type, "poison")
                i.set_operand(k, new)
                again = Module(str(module)).functions[name].instructions[at]
                after = [o.ref for o in again.operands]
                assert after[:k] + after[k + 1 :] == before[:k] + before[k + 1 :], str(i)
                assert after[k] == getattr(new, "ref", None), str(i)
                i.set_operand(k, operand)
                assert str(module) == EXOTIC
                tried += 1
    assert tried > 120


def test_assembly_has_operands(module: Module) -> None:
    f = module.functions["assembly"]
    x, p = f.args
    swap, touch, jump = f.instructions[:3]
    assert [o.ref for o in swap.operands[:-1]] == ["%x"] and swap.callee is swap.operands[-1]
    assert [u for u, _ in p.uses] == [touch] and swap.has_side_effects in (True, False)
    assert jump.is_terminator and jump.name == "b"
    assert [b.name for b in jump.block.successors] == ["fall", "one", "two"]
    new = parse("%y = add i32 %x, 1", f).insert_before(swap)
    swap.set_operand(0, new)
    assert '"=r,0,~{dirflag},~{fpsr},~{flags}"(i32 %y) #1' in str(swap)
    swap.replace_with(x)
    assert "(i32 %x, ptr elementtype(i32) %p)" in str(touch)
    with pytest.raises(ValueError, match="still used by"):
        jump.erase()
    parsed(str(module))


def test_exceptions_of_itanium(module: Module) -> None:
    f = module.functions["throws"]
    first, second = (i for i in f.instructions if i.opcode == "invoke")
    assert [b.name for b in first.block.successors] == ["good", "bad"]
    bad = second.block.successors[1]
    assert sorted(b.name for b in bad.predecessors) == ["entry", "good"]
    assert [o.ref for o in second.operands] == [
        "%x", "null", "%x", "@g", "%done", "%bad", "@jumps"
    ]  # fmt: skip
    pad = named(f, "lp")
    assert pad.block.instructions[0] is pad and str(pad.type) == "{ ptr, i32 }"
    assert pad.operands[0].ref == '@"a\\\\b c"'
    block = second.block.split_before(second)
    assert [b.name for b in first.block.successors] == ["good", "bad"]
    assert block.instructions == (second,) and second.name == "r"
    second.name = 'odd "name"'
    assert 'ret i32 %"odd \\22name\\22"' in str(module)
    f.args[0].replace_all_uses_with(const("i32", 7))
    assert '"deopt"(i32 7, ptr @g), "other"()' in str(second)
    parsed(str(module))


def test_exceptions_of_windows(module: Module) -> None:
    f = module.functions["windows"]
    switch = named(f, "cs")
    assert switch.is_terminator
    assert [b.name for b in switch.block.successors] == ["handler", "second", "cleanup"]
    assert {u.opcode for u in switch.users} == {"catchpad"}
    assert {u.opcode for u in named(f, "cp").users} == {"invoke", "catchret"}
    ends = {i.block.name: [b.name for b in i.block.successors] for i in f.instructions
            if i.opcode in ("catchret", "cleanupret")}  # fmt: skip
    assert ends == {"leave": ["done"], "second": ["done"], "cleanup": []}
    switch.name = "dispatcher"
    f.args[0].replace_all_uses_with(const("i32", 1))
    text = str(module)
    assert "catchpad within %dispatcher [ptr @g, i32 1, ptr null]" in text
    parsed(text)


def test_a_collected_pointer_in_a_bundle(module: Module) -> None:
    f = module.functions["collected"]
    one, other = f.args
    token, moved, end = f.instructions
    assert [i for i, _ in one.uses] == [token] and [i for i, _ in token.uses] == [moved]
    other.replace_all_uses_with(one)
    assert '"gc-live"(ptr addrspace(1) %obj, ptr addrspace(1) %obj)' in str(token)
    assert str(moved.type) == "ptr addrspace(1)" and end.operands == (moved,)
    moved.set_operand(2, const("i32", 0))
    parsed(str(module))


def test_vectors_whose_length_is_the_machines(module: Module) -> None:
    f = module.functions["scalable"]
    v = f.args[0]
    assert str(v.type) == "<vscale x 4 x i32>"
    assert str(named(f, "c").type) == "<vscale x 4 x i1>"
    assert {str(named(f, n).type) for n in "wstri"} == {str(v.type)}
    three = named(f, "s").operands[1]
    assert isinstance(three, Constant) and three.ref == "splat (i32 3)"
    double = parse("%d = add <vscale x 4 x i32> %s, %s", f)
    double.insert_before(named(f, "t"))
    named(f, "t").set_operand(0, double)
    text = str(module)
    parsed(text)
    check_operands(printed(text))


def test_types_of_a_target_and_types_with_numbers(module: Module) -> None:
    image = module.functions["targets"].args[0]
    assert str(image.type) == 'target("spirv.Image", void, 0)'
    ((user, index),) = image.uses
    assert (user.opcode, index) == ("call", 0)
    f = module.functions["types"]
    assert str(f.args[0].type) == "ptr" and str(f.args[1].type) == "%0"
    assert f.args[1].ref == '%"b c"' and f.args[0].ref == "%0"
    made = parse('%pair = insertvalue %0 %"b c", ptr %0, 1', f).insert_before(f.instructions[0])
    assert str(made.type) == "%0" and made.operands == (f.args[1], f.args[0])
    place = parse("%room = alloca %0", f).insert_before(f.instructions[0])
    parse("store %0 %pair, ptr %room", f).insert_before(f.instructions[2])
    assert str(place.type) == "ptr"
    text = str(module)
    parsed(text)
    check_operands(printed(text))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain", "%plain"),
        ("a b", '%"a b"'),
        ('quo"te', '%"quo\\22te"'),
        ("back\\slash", '%"back\\5Cslash"'),
        ("new\nline", '%"new\\0Aline"'),
        ("0x", '%"0x"'),
        ("1.5", '%"1.5"'),
        ("%", '%"%"'),
        ("-dash", "%-dash"),
        ("ö", '%"\\C3\\B6"'),
    ],
)
def test_names_with_anything_in_them(name: str, written: str) -> None:
    """As LLVM reads and writes them; of a value, of a block, and where they are used."""
    module = Module(
        "define i32 @f(i32 %x) {\nb:\n  %y = add i32 %x, 1\n  br label %c\n\nc:\n"
        "  %p = phi i32 [ %y, %b ]\n  ret i32 %p\n}\n"
    )
    f = module.functions["f"]
    named(f, "y").name = name
    assert f.value(name).ref == written and f"[ {written}, %b ]" in str(module)
    text = printed(str(module))
    assert f"  {written} = add i32 %x, 1" in text.replace(r"\\", r"\5C")
    again = Module(text).functions["f"]
    assert again.value(name).users == [named(again, "p")]
    f.blocks[0].name = name  # it is taken
    assert f.blocks[0].name not in (name, "b") and parsed(str(module))
