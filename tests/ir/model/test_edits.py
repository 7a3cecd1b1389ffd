"""Values, uses and edits: what LLVM's own rules are, and the traps that are known."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from jitkernel.ir.model import (
    Block,
    Constant,
    Function,
    Instruction,
    Module,
    alloca,
    binary,
    br,
    call,
    cast,
    cond_br,
    const,
    fcmp,
    freeze,
    gep,
    icmp,
    load,
    parse,
    phi,
    ret,
    select,
    store,
    unreachable,
)
from jitkernel.ir.types import IntType
from tests.ir.model.corpus import HERE, SOURCES, compiled, object_of, parsed

TEXT = """@g = global i32 7

define i32 @f(i32 %x, ptr %p) {
entry:
  %a = add nsw i32 %x, 8
  %b = mul i32 %a, %a
  %c = icmp slt i32 %b, 0
  br i1 %c, label %left, label %right

left:                                             ; preds = %entry
  store volatile i32 %b, ptr @g, align 4
  br label %right

right:                                            ; preds = %left, %entry
  %r = phi i32 [ %a, %entry ], [ 0, %left ]
  ret i32 %r
}
"""


def found(function: Function, name: str) -> Any:
    return function.value(name)


def values(module: Module) -> dict[str, Instruction]:
    return {i.name: i for i in module.functions["f"].instructions if i.name}


def test_what_a_value_says_of_itself() -> None:
    f = Module(TEXT).functions["f"]
    x, p = f.args
    a, b, c, branch, write, _, r, end = f.instructions
    assert (x.name, str(x.type), x.index, p.index, repr(x)) == (
        "x",
        "i32",
        0,
        1,
        "<Argument i32 %x>",
    )
    assert (a.opcode, a.name, a.ref, a.bits, a.flags) == ("add", "a", "%a", 32, ("nsw",))
    assert a.type == IntType(32) and str(c.type) == "i1" and str(end.type) == "void"
    assert a.uses == [(b, 0), (b, 1), (r, 0)] and a.users == [b, r]
    assert a.operands[0] is x and a.operands[1] == const("i32", 8)
    assert (c.predicate, a.predicate) == ("slt", "")
    assert write.is_volatile and write.has_side_effects and not a.has_side_effects
    assert a.is_pure and branch.is_terminator and f.blocks[0].terminator is branch
    assert f.entry.successors == [f.blocks[1], f.blocks[2]] == f.entry.edges
    assert f.blocks[2].predecessors == [f.entry, f.blocks[1]]
    assert r.incoming == [(a, f.entry), (const("i32", 0), f.blocks[1])]
    assert r.incoming_value(f.entry) is a
    assert found(f, "a") is a and found(f, "%right") is f.blocks[2] and found(f, "x") is x
    assert str(branch) == "br i1 %c, label %left, label %right"
    assert str(f.blocks[1]).split("\n")[1:] == [f"  {i}" for i in f.blocks[1].instructions]
    assert [g.name for g in Module(TEXT).globals.values()] == ["g"]


@pytest.mark.parametrize(
    ("type", "text", "value", "unsigned", "signed"),
    [
        ("i8", "-128", -128, 128, -128),
        ("i1", "true", 1, 1, -1),
        ("i1", "false", 0, 0, 0),
        ("i32", "zeroinitializer", 0, 0, 0),
        ("i64", "u0xFFFFFFFFFFFFFFFF", (1 << 64) - 1, (1 << 64) - 1, -1),
        ("i8", "s0x80", -128, 128, -128),
        ("i32", "undef", None, None, None),
        ("i32", "ptrtoint (ptr @g to i32)", None, None, None),
        ("ptr", "null", None, None, None),
        ("double", "1.500000e+00", 1.5, None, None),
        ("double", "0x3FF8000000000000", 1.5, None, None),
        ("float", "0x3FB99999A0000000", 0.10000000149011612, None, None),
        ("<2 x i32>", "splat (i32 1)", None, None, None),
    ],
)
def test_numbers_of_constants(type, text, value, unsigned, signed) -> None:
    made = const(type, text)
    assert (made.value, made.unsigned, made.signed) == (value, unsigned, signed)


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("i8", 255, "-1"), ("i8", 128, "-128"), ("i8", -129, "127"), ("i1", 1, "true"),
        ("i1", 2, "false"), ("i1", -1, "true"), ("i128", 1 << 127, str(-(1 << 127))),
        ("double", 0.1, "0x3FB999999999999A"), ("float", 0.1, "0x3FB99999A0000000"),
        ("ptr", "null", "null"), ("{ i32, i32 }", "zeroinitializer", "zeroinitializer"),
    ],
)  # fmt: skip
def test_constants_as_llvm_writes_them(type, value, text) -> None:
    made = const(type, value)
    assert made.ref == text and made == Constant(made.type, text)
    parsed(f"define {type} @f() {{\n  ret {type} {made.ref}\n}}")


def test_replacing_and_erasing() -> None:
    module = Module(TEXT)
    f, v = module.functions["f"], values(module)
    with pytest.raises(ValueError, match=r"%a is still used by: %b = mul i32 %a, %a"):
        v["a"].erase()
    with pytest.raises(TypeError, match=r"i1 %c cannot take the place of i32 %a in: %b = mul"):
        v["a"].replace_all_uses_with(v["c"])
    new = binary("sub", f.args[0], const("i32", -8), flags="nsw").insert_before(v["a"])
    v["a"].replace_with(new)
    assert v["a"].block is None and new.name == "t"
    assert [str(i) for i in f.entry.instructions[:2]] == [
        "%t = sub nsw i32 %x, -8",
        "%b = mul i32 %t, %t",
    ]
    assert parsed(str(module))
    with pytest.raises(ValueError, match="it is in no block"):
        v["a"].erase()


def test_a_refused_edit_changes_nothing() -> None:
    module = Module(TEXT)
    v = values(module)
    for edit in (
        v["a"].erase,
        lambda: v["b"].replace_all_uses_with(const("i64", 1)),
        lambda: v["r"].add_incoming(const("i64", 1), v["r"].block),
        lambda: v["r"].remove_incoming(v["r"].block),
        lambda: v["b"].add_incoming(v["a"], v["a"].block),
        lambda: module.functions["f"].blocks[1].erase(),
        lambda: module.functions["f"].entry.erase(),
        lambda: v["r"].block.split_before(v["r"]),
        lambda: v["r"].block.split_before(v["a"]),
        lambda: parse("%q = add i32 %nothing, 1", module.functions["f"]),
        lambda: parse("%q = frobnicate i32 1", module.functions["f"]),
        lambda: parse("%q = add i32 %x", module.functions["f"]),
    ):
        with pytest.raises((ValueError, TypeError, KeyError)):
            edit()
        assert str(module) == TEXT


def test_every_builder() -> None:
    """LLVM reads what they write, and sees the types that they say."""
    module = Module(
        "define i32 @f(i32 %x, ptr %p, double %d, <2 x i32> %v, i1 %c) {\n  ret i32 %x\n}\n"
    )
    f = module.functions["f"]
    x, p, d, v, c = f.args
    end = f.entry.terminator
    puts = module.declare("declare i32 @puts(ptr)")
    printf = module.declare("declare i32 @printf(ptr, ...)")
    made = [
        binary("add", x, const("i32", 1), "sum", "nuw nsw"),
        binary("fmul", d, d, flags=["fast"]),
        icmp("ult", x, const("i32", 9)),
        icmp("eq", p, const("ptr", "null")),
        icmp("sgt", v, v),
        fcmp("olt", d, const("double", 0.5)),
        cast("zext", x, "i64", "wide"),
        cast("fptosi", d, "i32"),
        select(c, x, const("i32", 4)),
        freeze(x),
        alloca("[4 x i32]", "room"),
        load("i32", p),
        gep("i32", p, const("i64", 2), flags="inbounds"),
        gep("{ i32, [2 x i8] }", p, const("i64", 0), const("i32", 1), const("i64", 1), name="in"),
        gep("i8", p, const("<2 x i64>", "<i64 1, i64 2>")),
        store(x, p),
        call(puts, "i32", [p]),
        call(printf, "i32 (ptr, ...)", [p, x, d]),
        call(module.declare("declare void @abort()"), "void"),
        parse("%m = call i32 @llvm.smax.i32(i32 %x, i32 7) ; seven", f),
        parse("fence seq_cst", f),
        parse("extractvalue { i32, i64 } zeroinitializer, 1", f),
    ]
    module.declare("declare i32 @llvm.smax.i32(i32, i32)")
    module.declare("declare i32 @puts(ptr)")
    for instruction in made:
        assert instruction.block is None
        instruction.insert_before(end)
    then, other = f.append_block("then"), f.append_block("other")
    f.entry.append(end)  # it moves
    end.remove()
    f.entry.append(cond_br(c, then, other))
    then.append(br(other))
    merged = phi("i32", "merged", (x, f.entry), (const("i32", 3), then))
    other.append(merged)
    other.append(ret(merged))
    f.append_block().append(unreachable())
    text = str(module)
    theirs = parsed(text).get_function("f")
    expected = [str(i.type) for block in theirs.blocks for i in block.instructions]
    assert [str(i.type) for i in f.instructions] == expected
    assert text.count("@puts(ptr)") == 1
    assert str(Module(text)) == text
    again = Module(text).functions["f"]
    assert [i.form for i in again.instructions] == [i.form for i in f.instructions]
    assert [str(i.type) for i in again.instructions] == expected
    with pytest.raises(TypeError, match="add of i32 %x and i64 1"):
        binary("add", x, const("i64", 1))
    with pytest.raises(ValueError, match="neither a declaration nor a variable"):
        module.declare("ret void")


# -- the traps


def test_blocks_keep_the_numbers_that_a_table_outside_names() -> None:
    text = (
        "@table = constant [2 x ptr] [ptr blockaddress(@f, %3), ptr blockaddress(@f, %5)]\n\n"
        "define i32 @f(i32 %0, ptr %1) {\n  indirectbr ptr %1, [label %3, label %5]\n\n"
        "3:                                                ; preds = %2\n  %4 = add i32 %0, 1\n"
        "  br label %5\n\n5:                                                ; preds = %3, %2\n"
        "  %6 = phi i32 [ 7, %2 ], [ %4, %3 ]\n  ret i32 %6\n}\n"
    )
    module = Module(text)
    assert parsed(text)
    f = module.functions["f"]
    three = found(f, "3")
    assert isinstance(three, Block) and three.has_address and not f.entry.has_address
    four = found(f, "%4")
    four.replace_with(binary("sub", f.args[0], const("i32", -1), "4").insert_before(four))
    binary("mul", f.args[0], f.args[0]).insert_before(f.entry.terminator)
    moved = found(f, "6")
    assert isinstance(moved, Instruction)
    moved.remove().insert_before(found(f, "5").terminator)
    made = str(module)
    assert "blockaddress(@f, %3), ptr blockaddress(@f, %5)" in made and "\n3:" in made
    assert parsed(made) and moved.name == "t6"
    with pytest.raises(ValueError, match="%3 is named by a blockaddress"):
        three.name = "elsewhere"
    found(f, "5").phis[0].remove_incoming(three)
    assert str(Module(made)) == made


def test_numbers_rise_though_blocks_are_put_elsewhere() -> None:
    """Gaps are nothing to LLVM; numbers that fall are."""
    module = Module(
        "define i32 @f(i32 %0) {\n  %2 = add i32 %0, 1\n  %3 = add i32 %0, 2\n"
        "  %4 = mul i32 %2, %3\n  ret i32 %4\n}\n"
    )
    f = module.functions["f"]
    two, three, _four, _ = f.instructions
    three.insert_before(two)
    assert [i.name for i in f.instructions] == ["t3", "2", "4", ""]
    assert "%4 = mul i32 %2, %t3" in str(module) and parsed(str(module))
    f.blocks[0].split_before(f.instructions[2])
    assert parsed(str(module))


def test_types_and_values_that_are_written_alike() -> None:
    text = (
        "%0 = type { i32, i64 }\n\ndefine i64 @f(i64 %0, %0 %1) {\n  %3 = alloca %0, align 8\n"
        "  store %0 %1, ptr %3, align 8\n  %4 = extractvalue %0 %1, 1\n  %5 = add i64 %4, %0\n"
        "  ret i64 %5\n}\n"
    )
    module = Module(text)
    f = module.functions["f"]
    first, pair = f.args
    assert [i.opcode for i in first.users] == ["add"] and str(pair.type) == "%0"
    assert str(found(f, "4").type) == "i64" and str(found(f, "3").allocated_type) == "%0"
    first.replace_all_uses_with(const("i64", 3))
    made = str(module)
    assert made == text.replace("%4, %0", "%4, 3") and parsed(made)


DEBUG = """define i32 @f(i32 %x) !dbg !4 {
  %a = add i32 %x, 1, !dbg !7
    #dbg_value(i32 %a, !8, !DIExpression(), !7)
    #dbg_value(!DIArgList(i32 %a, i32 %x), !8, !DIExpression(DW_OP_LLVM_arg, 0, DW_OP_LLVM_arg, 1, DW_OP_plus, DW_OP_stack_value), !7)
  %b = add i32 %x, 2, !dbg !7
    #dbg_value(i32 %b, !8, !DIExpression(), !7)
    #dbg_label(!9, !7)
  ret i32 %b, !dbg !7
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3}

!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "a.c", directory: "")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "f", scope: !1, file: !1, line: 1, type: !5, unit: !0)
!5 = !DISubroutineType(types: !{null})
!7 = !DILocation(line: 2, scope: !4)
!8 = !DILocalVariable(name: "v", scope: !4, file: !1, line: 2, type: !10)
!9 = !DILabel(scope: !4, name: "l", file: !1, line: 2)
!10 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
"""


def test_debug_records_are_uses_that_do_not_count() -> None:
    assert parsed(DEBUG)
    module = Module(DEBUG)
    assert str(module) == DEBUG
    f = module.functions["f"]
    a, b, end = f.instructions
    assert a.users == [] and a.uses == [] and len(a.debug_users) == 2
    assert len(f.entry.records) == 4 and a.metadata == {"dbg": "!7"}
    a.erase()
    made = str(module)
    assert "#dbg_value(i32 poison, !8" in made and "!DIArgList(i32 poison, i32 %x)" in made
    b.replace_all_uses_with(f.args[0])
    assert "#dbg_value(i32 %x, !8" in str(module) and b.debug_users == []
    b.erase()
    assert parsed(str(module))
    new = f.entry.split_before(end)
    assert [i.opcode for i in new.records] == [
        "#dbg_value",
        "#dbg_value",
        "#dbg_value",
        "#dbg_label",
    ]
    assert f.entry.records == () and parsed(str(module))


def test_a_phi_goes_before_debug_records() -> None:
    module = Module(DEBUG.replace("  %a = add", "  br label %1\n\n1:\n  %a = add"))
    f = module.functions["f"]
    a, b, _ = f.blocks[1].instructions
    new = phi("i32", "", (f.args[0], f.entry)).insert_before(b)
    assert f.blocks[1]._items.index(new) == 1
    new.insert_before(a)
    a.erase()
    b.set_operand(0, new)
    assert parsed(str(module)) and f.blocks[1].first_non_phi is b


SWITCH = """define i32 @f(i32 %x) {
entry:
  switch i32 %x, label %other [
    i32 1, label %same
    i32 2, label %same
  ]

same:                                             ; preds = %entry, %entry
  %p = phi i32 [ %x, %entry ], [ %x, %entry ]
  br label %other

other:                                            ; preds = %same, %entry
  %q = phi i32 [ 0, %entry ], [ %p, %same ]
  ret i32 %q
}
"""


def test_a_phi_has_an_entry_for_each_edge() -> None:
    module = Module(SWITCH)
    f = module.functions["f"]
    entry, same, other = f.blocks
    assert entry.edges == [other, same, same] and entry.successors == [other, same]
    assert same.predecessors == [entry] and len(same.phis[0].incoming) == 2
    new = phi("i32", "new").insert_before(same.instructions[0])
    for successor in entry.edges:
        if successor is same:
            new.add_incoming(f.args[0], entry)
    same.phis[1].replace_with(new)
    assert parsed(str(module))
    new.remove_incoming(entry)
    assert str(new) == "%new = phi i32 "
    new.add_incoming(const("i32", 1), entry)
    assert str(new) == "%new = phi i32 [ 1, %entry ]"
    with pytest.raises(RuntimeError, match="one entry for each predecessor"):
        parsed(str(module))


def test_the_phis_behind_a_block_that_is_cut_follow() -> None:
    module = Module(SWITCH)
    f = module.functions["f"]
    new = f.entry.split_before(f.entry.terminator, "rest")
    assert [str(p) for p in found(f, "other").phis] == ["%q = phi i32 [ 0, %rest ], [ %p, %same ]"]
    assert f.entry.successors == [new] and f.blocks[1] is new
    assert parsed(str(module))
    loop = Module(
        "define void @f(i1 %c) {\nentry:\n  br label %loop\n\nloop:\n"
        "  %i = phi i32 [ 0, %entry ], [ %j, %loop ]\n  %j = add i32 %i, 1\n"
        "  br i1 %c, label %loop, label %end\n\nend:\n  ret void\n}\n"
    )
    head = loop.functions["f"].blocks[1]
    head.split_before(head.instructions[1])
    assert "%i = phi i32 [ 0, %entry ], [ %j, %loop.split ]" in str(loop)
    assert parsed(str(loop))


def test_taking_out_a_block() -> None:
    module = Module(SWITCH)
    f = module.functions["f"]
    _, same, other = f.blocks
    with pytest.raises(ValueError, match="%same is still used by: switch"):
        same.erase()
    f.entry.terminator.replace_uses_of(same, other)
    for _ in range(2):
        other.phis[0].add_incoming(const("i32", 5), f.entry)
    same.phis[0]._set_incoming([])
    same.erase()
    assert [b.name for b in f.blocks] == ["entry", "other"]
    assert str(other.phis[0]) == "%q = phi i32 [ 0, %entry ], [ 5, %entry ], [ 5, %entry ]"
    with pytest.raises(RuntimeError, match="multiple entries for the same basic block"):
        parsed(str(module))


def test_a_call_keeps_the_order_of_its_text() -> None:
    module = Module(
        "define i32 @f(ptr %g, i32 %x) {\n  %r = call i32 %g(i32 %x, i32 2)\n  ret i32 %r\n}\n"
    )
    f = module.functions["f"]
    g, x = f.args
    r = f.instructions[0]
    assert r.operands == (x, const("i32", 2), g) and r.callee is g
    r.set_operand(0, const("i32", 1))
    assert str(r) == "%r = call i32 %g(i32 1, i32 2)"


def test_names() -> None:
    module = Module(TEXT)
    f, v = module.functions["f"], values(module)
    v["a"].name = "with blank"
    assert v["a"].ref == '%"with blank"' and found(f, "with blank") is v["a"]
    v["b"].name = "with blank"
    assert v["b"].ref == '%"with blank.0"'
    v["c"].name = "7"
    assert v["c"].ref == '%"7"'  # a name, not a number
    f.blocks[1].name = "right"
    assert f.blocks[1].name == "right.0"
    with pytest.raises(KeyError, match="no value %left in @f"):
        found(f, "left")
    for _ in range(3):
        binary("add", f.args[0], f.args[0], "x").insert_before(f.entry.terminator)
    assert [i.name for i in f.entry.instructions[3:6]] == ["x.0", "x.1", "x.2"]
    assert parsed(str(module)) and str(Module(str(module))) == str(module)


def test_functions_that_are_taken_out() -> None:
    text = "@a = global i32 1\n" + TEXT + "\n@b = global i32 2\ndefine void @h() {\n  ret void\n}\n"
    module = Module(text)
    del module.functions["h"]
    assert "@h" not in str(module) and "@b" in str(module) and parsed(str(module))
    del module.functions["f"]
    assert "@a" in str(module) and "define" not in str(module)


def test_comments_that_tell_of_lines_stay_with_what_follows() -> None:
    """A language other than IR says in a comment of which line all is that stands below it."""
    module = Module(
        "define i32 @f(i32 %x) {\n  ; line 2\n  %a = add i32 %x, 1\n  %b = add i32 %x, 2 ; b\n"
        "  ; line 3\n  %c = add i32 %x, 3\n  ret i32 %c\n}\n"
    )
    f = module.functions["f"]
    a, b, c, _ = f.instructions
    binary("mul", c.operands[0], const("i32", 4), "new").insert_before(c)
    binary("mul", c.operands[0], const("i32", 5), "other").insert_after(b)
    a.erase()
    assert str(f).split("\n") == [
        "define i32 @f(i32 %x) {",
        "  ; line 2",
        "  %b = add i32 %x, 2 ; b",
        "  %other = mul i32 %x, 5",
        "  ; line 3",
        "  %new = mul i32 %x, 4",
        "  %c = add i32 %x, 3",
        "  ret i32 %c",
        "}",
    ]
    assert [str(f).split("\n")[n - 1].strip().split(" ;")[0] for n, _ in f.lines()] == [
        str(i) for i in f.instructions
    ]


def test_text_that_is_cut_anywhere_is_refused_or_read() -> None:
    """What LLVM has not seen may be anything."""
    text = (HERE / "exotic.ll").read_text()
    module = Module(text)
    rng = random.Random(5)
    for function in module.functions.values():
        for instruction in function.instructions:
            line = str(instruction)
            for _ in range(2):
                at, end = sorted(rng.randrange(len(line) + 1) for _ in range(2))
                wrong = rng.choice(
                    (
                        line[:at],
                        line[:at] + line[end:],
                        line[:at] + rng.choice('%@"([{!,;') + line[at:],
                    )
                )
                with contextlib.suppress(ValueError):
                    parse(wrong, function)
    for _ in range(30):
        at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        with contextlib.suppress(ValueError):
            str(Module(text[:at] + text[min(end, at + 40) :]))


def test_ten_thousand_edits_of_one_block() -> None:
    """A name is found at once, and a value that is used by many lets each go at once."""
    module = Module("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
    f = module.functions["f"]
    last = f.args[0]
    for _ in range(10_000):
        new = binary("add", last, f.args[0], "sum")
        f.entry.append(new)
        last = new
    f.entry.instructions[0].erase()
    f.entry.append(ret(last))
    assert len(f.args[0].uses) >= 10_000
    text = str(module)
    assert text.count("add i32") == 10_000
    f.args[0].replace_all_uses_with(const("i32", 1))
    assert f.args[0].uses == []
    assert parsed(str(module))


@pytest.mark.parametrize("level", ["O0", "O2g"])
def test_each_instruction_read_again_is_the_same(level: str) -> None:
    """`parse` of what an instruction prints, put in its place, is the same code."""
    text = compiled(SOURCES[0], level)
    module = Module(text)
    for function in module.functions.values():
        for old in function.instructions:
            new = parse(str(old), function).insert_before(old)
            assert (str(new.type), new.operands) == (str(old.type), old.operands)
            assert (new.form, new.flags, new.metadata) == (old.form, old.flags, old.metadata)
            old.replace_with(new)
    assert object_of(str(module)) == object_of(text)
