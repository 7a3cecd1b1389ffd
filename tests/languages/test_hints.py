"""Hints under LLVM's own words: every message is made by LLVM here, none is typed in."""

import pytest

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.languages.llvm.assemble import assemble
from jitkernel.languages.llvm.hints import Context, explain
from jitkernel.languages.llvm.plan import parse_cell

CONTEXT = Context(
    symbols=("sq", "counter", "puts_all"), ended_locals={"x": 2, "total": 4}, private={".str": 3}
)


def complaint(cell, llvm, context=CONTEXT):
    """LLVM's complaint about a cell, as its author sees it."""
    plan = parse_cell(cell)
    found = assemble(plan, {"sq": "declare i32 @sq(i32)"}.get)
    line, column, words = llvm.error(found.source)
    assert words, "LLVM has nothing to say"
    raw = Diagnostic(words, line - found.first_line + 1, column, "")
    return explain(raw, plan.source, context)


def body(*lines):
    return "define i32 @f(i32 %a) {\n" + "\n".join(lines) + "\n}"


CASES = [
    (
        'define i32 @f() gc "x" noinline {\n ret i32 0\n}',
        "expected '{' in function body",
        'attributes stand in front of that: `noinline gc "x"`',
        (1, 24),
    ),
    (
        "define i32 @f() noinlin {\n ret i32 0\n}",
        "expected '{' in function body",
        "did you mean `noinline`?",
        (1, 17),
    ),
    (
        "define i32 @f()\n ret i32 0",
        "expected '{' in function body",
        "the line of `define` ends with `{`",
        (1, 16),
    ),
    (
        body(" br i32 %a, label %b, label %c", "b:", " ret i32 0", "c:", " ret i32 1"),
        "branch condition must have 'i1' type",
        "compare first: `%c = icmp ne i32 %a, 0`, then `br i1 %c, label %b, label %c`",
        (2, 5),
    ),
    (
        body(" %r = select i32 %a, i32 1, i32 2", " ret i32 %r"),
        "select condition must be i1",
        "compare first: `%c = icmp ne i32 %a, 0`",
        (2, 14),
    ),
    (
        body(" store ptr null, i32 %a", " ret i32 0"),
        "store operand must be a pointer",
        "the value stands first, then the address: `store i32 1, ptr %p`",
        (2, 18),
    ),
    (
        "%pair = type { i32, i32 }\n%x = extractvalue %pair zeroinitializer, 2",
        "invalid indices for extractvalue",
        "members and elements are counted from 0, and one stands behind each index",
        (2, 19),
    ),
    (
        "define i32 @f(%nosuch %p) {\n ret i32 1\n}",
        "invalid type for function argument",
        "nothing defines the type %nosuch: `%nosuch = type { i32, ptr }`",
        (1, 15),
    ),
    (
        "@t = global [3 x i32] {1, 2, 3}",
        "expected type",
        "an array stands in [ ], and each element has its type in front: `[i32 1, i32 2, i32 3]`",
        (1, 24),
    ),
    (
        "@t = global [3 x i32] {i32 1, i32 2, i32 3}",
        "constant expression type mismatch",
        "an array stands in [ ], and each element has its type in front: `[i32 1, i32 2, i32 3]`",
        (1, 23),
    ),
    # interface, section 1, row by row
    (
        "@g = global float 0.1",
        "floating point constant invalid",
        "not exact in float; the nearest is 0x3FB99999A0000000",
        (1, 19),
    ),
    (
        body(" %x = fadd float 1.0, 0.3", " ret i32 0"),
        "floating point constant invalid",
        "not exact in float; the nearest is 0x3FD3333340000000",
        (2, 23),
    ),
    (
        "@g = global half 0.1",
        "floating point constant invalid",
        "not exact in half; the nearest is 0xH2E66",
        (1, 18),
    ),
    (
        "@g = global i32 0x10",
        "floating point constant invalid",
        "hex integers are written u0x10",
        (1, 17),
    ),
    (
        "@g = global i32 1.5",
        "floating point constant invalid",
        "i32 is an integer: write a whole number, 1",
        (1, 17),
    ),
    ("@g = global double 1", "integer constant must have integer type", "write 1.0", (1, 20)),
    (
        body(" %x = fadd double 1.0, 2", " ret i32 0"),
        "integer constant must have integer type",
        "write 2.0",
        (2, 24),
    ),
    ("@g = global ptr 0", "integer constant must have integer type", "write null", (1, 17)),
    (
        "@g = global ptr 5",
        "integer constant must have integer type",
        "write inttoptr (i64 5 to ptr)",
        (1, 17),
    ),
    (
        "@g = global x86_fp80 1.0",
        "floating point constant does not have type",
        "write 0xK3FFF8000000000000000",
        (1, 22),
    ),
    (
        body(" %x = call i32 @sp(i32 1)", " ret i32 %x"),
        "use of undefined value '@sp'",
        "did you mean @sq? Otherwise `declare` it",
        (2, 16),
    ),
    (
        body(" ret i32 0")
        + "\ndefine i32 @caller() {\n %x = call i32 @calle(i32 1)\n ret i32 %x\n}"
        "\n@fm = global i32 0",
        "use of undefined value '@calle'",
        "did you mean @caller?",
        (5, 16),
    ),
    (
        body(" %x = call i32 @put(ptr null)", " ret i32 %x"),
        "use of undefined value '@put'",
        "did you mean @puts?",
        (2, 16),
    ),
    (
        body(" %x = call i32 @zzzzzzzzz(i32 1)", " ret i32 %x"),
        "use of undefined value",
        "`declare` it: declare i32 @zzzzzzzzz(i32)",
        (2, 16),
    ),
    (
        body(" %x = load i64, ptr @zzzzzzzzz", " ret i32 0"),
        "use of undefined value",
        "define it: @zzzzzzzzz = global i64 0",
        (2, 21),
    ),
    (
        body(" store double 1.0, ptr @zzzzzzzzz", " ret i32 0"),
        "use of undefined value",
        "define it: @zzzzzzzzz = global double zeroinitializer",
        (2, 24),
    ),
    (
        body(" %x = call i32 @sq(7)", " ret i32 %x"),
        "expected type",
        "write `call i32 @sq(i32 7)`",
        (2, 20),
    ),
    (
        "%y = add i32 %x, 1",
        "use of undefined value '%x'",
        "%x ended with cell 2, keep it with `@x = ...`",
        (1, 14),
    ),
    (
        body(" %sum = add i32 %a, 1", " ret i32 %sun"),
        "use of undefined value '%sun'",
        "did you mean %sum?",
        (3, 10),
    ),
    (
        body(" br label %don", "done:", " ret i32 0"),
        "use of undefined value '%don'",
        "did you mean %done?",
        (2, 11),
    ),
    (
        body(" %x = load ptr, ptr @.str", " ret i32 0"),
        "use of undefined value '@.str'",
        "@.str is private to cell 3: drop `private` there to share it",
        (2, 21),
    ),
    (
        body(" %x = add i32 %a, 1"),
        "expected instruction opcode",
        "the last block needs ret, br or unreachable",
        (3, 1),
    ),
    (
        body(" %x = add i32 %a, 1", "l:", " ret i32 %x"),
        "expected instruction opcode",
        "a block must end before its successor's label: add `br label %l`",
        (3, 1),
    ),
    (
        body(" // nothing", " ret i32 0"),
        "expected instruction opcode",
        "comments start with ;",
        (2, 2),
    ),
    (
        body(" %x = ad i32 1, 2", " ret i32 %x"),
        "expected instruction opcode",
        "did you mean `add`?",
        (2, 7),
    ),
    (
        body(" x = add i32 1, 2", " ret i32 %x"),
        "expected instruction opcode",
        "names of values begin with %: %x = ...",
        (2, 2),
    ),
    (
        body(" @sq(7)", " ret i32 0"),
        "expected instruction opcode",
        "inside a function a call is an instruction: `call i32 @sq(i32 7)`",
        (2, 2),
    ),
    (
        body(" %x = call void @nothing()", " ret i32 0") + "\ndeclare void @nothing()",
        "instructions returning void cannot have a name",
        "drop `%x =`",
        (2, 2),
    ),
    (
        body(" %x = add i32 1, 2", " %x = add i32 1, 2", " ret i32 %x"),
        "multiple definition of local value",
        "SSA: each %name is assigned once",
        (3, 2),
    ),
    (
        '@s = constant [5 x i8] c"hello\\00"',
        "got type '[6 x i8]' but expected '[5 x i8]'",
        '"hello\\00" is 6 bytes: write [6 x i8]',
        (1, 24),
    ),
    (body(" %x = add 1, 2", " ret i32 %x"), "expected type", "write `add i32 1, 2`", (2, 11)),
    (
        body(" %x = fadd fast 1.0, 2.0", " ret i32 0"),
        "expected type",
        "write `fadd fast double 1.0, 2.0`",
        (2, 17),
    ),
    (
        body(" %x = load int, ptr null", " ret i32 %x"),
        "expected type",
        "did you mean `i32`?",
        (2, 12),
    ),
    (
        body(" %x = call @sq(i32 1)", " ret i32 %x"),
        "expected type",
        "write `call i32 @sq(i32 1)`",
        (2, 12),
    ),
    (
        "declare i32 @f(i32)\n" + body(" ret i32 0"),
        "invalid redefinition of function 'f'",
        "declare and define of one name in one cell: drop the declare",
        (2, 12),
    ),
    (
        "declare i32 @f(i32)\ndeclare i64 @f(i32)",
        "invalid redefinition of function 'f'",
        "a cell declares a name once: drop one of them",
        (2, 13),
    ),
    (
        body(" %b = trunc i32 %a to i64", " ret i32 0"),
        "invalid cast opcode for cast from 'i32' to 'i64'",
        "from i32 to the wider i64: zext (unsigned) or sext (signed)",
        (2, 13),
    ),
    (
        body(" %b = sext i32 %a to i8", " ret i32 0"),
        "invalid cast opcode for cast from 'i32' to 'i8'",
        "from i32 to the narrower i8: trunc",
        (2, 12),
    ),
    (
        body(" %b = bitcast i32 %a to double", " ret i32 0"),
        "invalid cast opcode for cast from 'i32' to 'double'",
        "from i32 to double: sitofp (signed) or uitofp (unsigned)",
        (2, 15),
    ),
    (
        body(' %b = "hello"', " ret i32 0"),
        "expected instruction opcode",
        'text is a constant: `@text = constant [3 x i8] c"hi\\00"`',
        (2, 7),
    ),
    (
        "define i32 @f() { }",
        "function body requires at least one basic block",
        "a body ends with `ret` and a value, or `ret void`",
        (1, 19),
    ),
    (
        body(" ret i32 0") + "\n" + body(" ret i32 0"),
        "invalid redefinition of function 'f'",
        "one cell defines a name once",
        (4, 12),
    ),
    (
        "@g = global i32 1\n@g = global i32 2",
        "redefinition of global '@g'",
        "one cell defines a name once",
        (2, 1),
    ),
    # and others that beginners meet
    (
        body(" ret i64 0"),
        "value doesn't match function result type",
        "the function returns i32: convert",
        (2, 6),
    ),
    (
        "define void @f() {\n ret i32 0\n}",
        "value doesn't match function result type",
        "write `ret void`",
        (2, 6),
    ),
    (
        body(" %x = add i64 %a, 1", " ret i32 0"),
        "defined with type 'i32' but expected 'i64'",
        "convert it first: sext (or zext) i32 ... to i64",
        (2, 15),
    ),
    (
        "define i32 @f(ptr %p) {\n %x = add i32 %p, 1\n ret i32 %x\n}",
        "defined with type 'ptr' but expected 'i32'",
        "`load i32, ptr ...` first",
        (2, 15),
    ),
    (
        "define i32 @f(ptr %p) {\n %x = load i32, i64 %p, align 4\n ret i32 %x\n}",
        "defined with type 'ptr' but expected 'i64'",
        "an address has the type ptr: write ptr %p",
        (2, 21),
    ),
    (
        body(" %0 = add i32 1, 2", " ret i32 %0"),
        "instruction expected to be numbered '%1' or greater",
        "%0 is taken",
        (2, 2),
    ),
    ("@g = global i32 foo", "expected value token", "did you mean %foo or @foo?", (1, 17)),
    ("@g = global i1 ture", "expected value token", "did you mean `true`?", (1, 16)),
    ("@g = global i32", "expected value token", "a value is missing here", (1, 16)),
    ("%x = add i32 1,", "expected value token", "", None),
    ("%x = add i32 40, 2,", "expected", "", None),
    (
        body(" %x = add i32 1, 2", " %y = “add” i32 1, 2", " ret i32 %x"),
        "expected instruction opcode",
        'write " instead of “',
        (3, 7),
    ),
]


@pytest.mark.parametrize(("cell", "words", "hint", "place"), CASES)
def test_hint(cell, words, hint, place, llvm):
    found = complaint(cell, llvm)
    assert words in found.message
    assert hint in found.hint
    lines = cell.split("\n")
    assert 1 <= found.line <= len(lines)
    assert found.source == lines[found.line - 1]
    assert 1 <= found.column <= len(found.source) + 1
    if place:
        assert (found.line, found.column) == place
    found.render()


def test_what_stands_around_the_cell_is_never_shown(llvm):
    """The wrapper's head and tail stand in the module, not in messages."""
    with pytest.raises(CompileError, match="never closed"):
        complaint("call i32 @sq(", llvm)
    for cell in ("%x = add i32 40,", "%x = load i32, ptr", "store i32 1,"):
        found = complaint(cell, llvm)
        assert "jk." not in found.render()
        assert found.source == cell


def test_verifier_words_are_hinted():
    raw = Diagnostic("Instruction does not dominate all uses!", 1, 1, "")
    assert "use phi" in explain(raw, "%x = add i32 1, 2").hint


def test_own_hints_stay_and_places_may_be_missing():
    raw = Diagnostic("anything", 0, 0, "", "a hint")
    assert explain(raw, "cell") is raw
    assert explain(Diagnostic("unknown words", 99, 7, ""), "one\ntwo\n\n").line == 2
    assert explain(Diagnostic("unknown words", 1, 99, ""), "one").column == 4


def test_the_nearest_float_is_exact_for_llvm(llvm):
    hint = complaint("@g = global float 0.1", llvm).hint
    constant = hint.rsplit(" ", 1)[1]
    assert llvm.bytes_of(f"float {constant}", 4) == bytes.fromhex("cdcccc3d")
