"""Whatever is typed: a plan and a module's text, or a CompileError, in linear time."""

import random
import time
from contextlib import suppress

import pytest

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.languages.llvm.assemble import assemble
from jitkernel.languages.llvm.assignment import assign
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.languages.llvm.hints import explain
from jitkernel.languages.llvm.language import is_complete
from jitkernel.languages.llvm.plan import AssignAction, CallAction, parse_cell
from tests.busy import within
from tests.seeds import sampled

CELLS = [
    """%pt = type { i32, [2 x i8] }
define internal i32 @f(%pt %p) #0 {
entry:
  %x = extractvalue %pt %p, 0
  ret i32 %x
}
attributes #0 = { nounwind }""",
    """@s = private constant [6 x i8] c"hello\\00"
%n = call i64 @strlen(ptr @s)
%m = add nuw i64 %n, 4294967296""",
    """%v = load %pt, ptr @p
%w = insertvalue %pt %v, i32 5, 0
extractvalue %pt %w, 1, 1""",
    """@two(@sq(2), i32 -0x1f)
@printf("%d\\n", 1.5e3, true, _)
@take(%pt { i32 1, 2 })
@text([i8 1, i8 2])""",
    """@n = i64 5
@r = @sq(7)
@s = c"hello\\00"
@q = <{ i8, i32 }> <{ i8 1, i32 2 }>
@f = <4 x float> zeroinitializer""",
    """br i1 true, label %a, label %b
a:
 ret double 0.5
b:
 %c = phi <2 x i1> [ zeroinitializer, %0 ]
 switch i32 1, label %a [
 i32 1, label %b ]""",
    """%asm @sq ; c
!ls \\
 -l
@sq?
target triple = "x86_64-pc-linux-gnu"
%time @sq(1)""",
]
WORDS = 'i32 ptr %pt @sq define ret x 0x c" 1e zeroinitializer é i1 load _5 -> /* null { %pt }'
NOISE = [*"(){}[]<>\"';\n@%!=?,x \\.-0_", *WORDS.split(), " = type ", "\r\n", "\t", "i1 2 "]


def mutants(count, seed=7):
    chance = random.Random(seed)
    for _ in range(count):
        text = chance.choice(CELLS)
        for _ in range(chance.randint(1, 5)):
            at, length = chance.randrange(len(text) + 1), chance.choice((0, 0, 1, 3, 12))
            piece = chance.choice(NOISE)
            if chance.random() < 0.2:  # a piece of another cell
                other = chance.choice(CELLS)
                begin = chance.randrange(len(other))
                piece = other[begin : begin + chance.randint(1, 30)]
            text = text[:at] + piece + text[at + length :]
        yield text


def test_mutants_are_planned_or_refused(host, llvm):
    host.results[None] = host.value("i32", bytes(4))
    planned = accepted = 0
    for text in mutants(1500):
        is_complete(text)
        try:
            plan = parse_cell(text)
            found = assemble(plan, named_types={"pt": "{ i32, i32 }"})
        except CompileError as error:
            assert all(d.message for d in error.diagnostics), text
            error.args[0].encode()
            continue
        planned += 1
        if planned % 5 == 0:  # LLVM reads it, or its complaint lands in the cell
            line, column, words = llvm.error(found.source)
            accepted += not words
            if words and line >= found.first_line:
                raw = Diagnostic(words, line - found.first_line + 1, column)
                shown = explain(raw, plan.source)
                assert shown.source == plan.source.split("\n")[shown.line - 1]
        for action in plan.actions:
            try:
                if isinstance(action, CallAction):
                    evaluate(action.expr, None, host, plan.source)
                elif isinstance(action, AssignAction):
                    assign(action.name, action.expr, host, plan.source)
            except (CompileError, KeyError):  # KeyError: the fake memory
                pass
    assert planned > 200
    assert accepted > 5


@pytest.mark.parametrize(
    "unit",
    sampled(
        [
            "%t " + " " * 50,
            "add ",
            "@a(",
            "i32 5, ",
            '"a" ',
            "; c\n",
            "@x = i32 1\n",
            "@f(1, 2)\n",
            "%x = add i32 1, 2\n",
            "!ls\n",
            "sq(7)\n",
            "declare void @f()\n",
            "a:",
            "@g = global i32 5 ",
            "{",
            "[1 x ",
            "\\\n",
            "%y = getelementptr i8, ptr @g, i64 5\n",
            "é",
            "' ;",
            "@sq?\n",
            "%pt = type { %pt }\n",
        ],
        3,
    ),
)
def test_long_texts_take_linear_time(unit):
    def seconds(start: str, size: int) -> float:
        begin = time.process_time()
        with suppress(CompileError):
            assemble(parse_cell(start + unit * (size // len(unit))))
        return time.process_time() - begin

    for start in ("", "%t "):
        within(lambda: seconds(start, 80_000) / max(seconds(start, 20_000), 0.05), 9)  # noqa: B023


DOUBLING = "".join(f"%t{i} = type {{ %t{i + 1}, %t{i + 1} }}\n" for i in range(60))


@pytest.mark.parametrize(
    "cell",
    [
        "%a = type { %a }\n%x = load %a, ptr null",
        "%a = type { %b, %b }\n%b = type { %a, %a }\n%x = load %a, ptr null",
        "%a = type { i32, foo }\n%x = load %a, ptr null\nextractvalue %a %x, 1",
        "%a = type opaque\n%x = load %a, ptr null",
        "%x = load %unknown, ptr null",
        "%a = type %a\n%x = load %a, ptr null",
        DOUBLING + "%x = load %t0, ptr null",
    ],
)
def test_types_that_do_not_end(cell):
    """They are LLVM's to refuse; only one that would be shown is looked into."""
    if cell.startswith(DOUBLING):
        with pytest.raises(CompileError, match="scalars cannot be shown"):
            assemble(parse_cell(cell))
    else:
        assert cell.partition("\n")[0] in assemble(parse_cell(cell)).source


def test_generated_modules_keep_every_line():
    """Each statement of a large cell stands in the module where it stands in the cell."""
    chance = random.Random(3)
    lines = []
    for index in range(300):
        lines += [""] * chance.randint(0, 2)
        pad = " " * chance.randint(0, 4)
        lines.append(pad + f"define i32 @f{index}() {{ ; comment {{")
        lines += [f"  ret i32 {index}", "}" + chance.choice(["", " ; tail", "  "])]
    lines += ["%x = add i32 1, 2 ; last", "  %y = call i32 @f0()", "", "\tcall i32 @f1()"]
    source = "\n".join(lines)
    found = assemble(parse_cell(source))
    built = found.source.split("\n")[found.first_line - 1 :]
    for number, line in enumerate(lines):
        code = line.partition(";")[0].strip()
        if code:
            assert code in built[number]
            assert built[number].index(code) == len(line) - len(line.lstrip())
