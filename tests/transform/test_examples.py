"""The passes and analyses that come with jitkernel: on C, against LLVM's own and by running it."""

from __future__ import annotations

import itertools
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import Interrupted, JitError
from jitkernel.ir.model import Constant, Function, Instruction, Module
from jitkernel.kernel.verdicts import analysis_view
from jitkernel.session import CellOptions
from jitkernel.session.run.results import Collector
from jitkernel.transform import analyse, apply_pass, examples
from jitkernel.transform.examples.linear_scan import REGISTERS, allocate, intervals
from tests.ir.model.corpus import SOURCES, compiled, folder, parsed, printed

FOLDER = Path(examples.__file__).parent
Pass = Callable[[Function], None]
#: In the order in which one makes room for the next.
ORDER = ("mem2reg", "fold", "strength", "lvn", "gvn", "licm", "dce")


def example(name: str) -> Pass:
    found: Pass = getattr(import_module(f"jitkernel.transform.examples.{name}"), name)
    return found


def applied(text: str, *names: str) -> str:
    """A module's text after some passes, each of which LLVM accepts."""
    module = Module(text)
    for name in names:
        for function in module.functions.values():
            example(name)(function)
        parsed(str(module))
    return str(module)


def test_all_are_there_and_short() -> None:
    files = {path.stem: path.read_text() for path in FOLDER.glob("*.py")}
    assert {*examples.PASSES, *examples.ANALYSES} == files.keys() - {"__init__"}
    assert set(ORDER) == set(examples.PASSES)
    for name, text in files.items():
        assert text.count("\n") <= 60, name
        assert name == "__init__" or examples.source(name) == text


@pytest.mark.parametrize("level", ["O0g", "O2g"])
def test_llvm_accepts_what_they_leave(level: str) -> None:
    for source in SOURCES:
        text = compiled(source, level)
        assert len(Module(applied(text, *ORDER)).functions) == len(Module(text).functions)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_llvm_accepts_what_they_leave_of_a_folder() -> None:
    for path in folder():
        text = printed(path.read_text())
        assert len(Module(applied(text, *ORDER)).functions) == len(Module(text).functions)


def test_they_change_nothing_that_can_be_seen(s: Session) -> None:
    """The program prints the same, and its functions of numbers give the same of 100 inputs."""
    text = compiled(SOURCES[0], "O0")
    rng = random.Random(1)
    edges = [0, 1, -1, 2, 7, -8, 2**31 - 1, -(2**31), 12345]
    calls: list[tuple[str, tuple[int, ...]]] = [
        ("collatz", (rng.randrange(2**31),)) for _ in range(100)
    ]
    calls += [("matrix", (rng.randrange(-9, 9),)) for _ in range(100)]
    calls += [("computed", (rng.randrange(2**20),)) for _ in range(100)]
    calls += [
        ("edges", (rng.choice(edges), rng.choice(edges), rng.choice(edges))) for _ in range(100)
    ]

    def seen(text: str) -> tuple[list[object], bytes]:
        s.reset()
        s.run(text)
        out = Collector()
        s.run("@main()", sink=out)
        return [s.call(name, *arguments) for name, arguments in calls], bytes(out.out)

    before, after = seen(text), seen(applied(text, *ORDER))
    assert before[1] and before == after


#: Types of parameters whose values are numbers, and that of buffers.
NUMBERS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 0, "double": 0}
BUFFERS, SIZE = 3, 512
SMALL = bytes(n % 16 for n in range(256))


def callable_functions(text: str) -> dict[str, list[str]]:
    """The functions of numbers and buffers that call nobody else's, with their parameters."""
    found: dict[str, list[str]] = {}
    functions = Module(text).functions
    for name, f in functions.items():
        types = [str(a.type) for a in f.args]
        others = [
            i for i in f.instructions
            if i.opcode in ("call", "invoke") and not (
                i.callee is not None and (i.callee.name in functions or "llvm." in i.callee.ref)
            )
        ]  # fmt: skip
        fit = {*types} <= {*NUMBERS, "ptr"} and types.count("ptr") <= BUFFERS
        if types and fit and not others and "..." not in f.head and name != "main":
            found[name] = types
    return found


def answers(
    s: Session, text: str, calls: dict[str, list[list[Any]]], level: int = 0
) -> dict[str, list[Any]]:
    """What each call gives, what it leaves in its buffers, or the kind of error that ends it; as
    far as there is time for it."""
    s.reset()
    s.run(text, options=CellOptions(opt_level=level))
    s.run("".join(f"@in{k} = global [{SIZE} x i8] zeroinitializer\n" for k in range(BUFFERS)))
    places = [s.symbols[f"in{k}"].address for k in range(BUFFERS)]
    found: dict[str, list[Any]] = {}
    for name, inputs in calls.items():
        told = found[name] = []
        clock = Timer(2.0, s.interrupt)
        clock.start()
        try:
            for arguments in inputs:
                buffers = [a for a in arguments if isinstance(a, bytes)]
                for k, data in enumerate(buffers):
                    s[f"in{k}"].value = list(data)
                at = iter(places)
                given = [next(at) if isinstance(a, bytes) else a for a in arguments]
                made = s.call(name, *given)
                told.append(
                    (
                        repr(made),
                        [bytes(b & 255 for b in s[f"in{k}"].value) for k in range(len(buffers))],
                    )
                )
        except Interrupted:
            told.append("interrupted")
        except JitError as error:
            told.append(type(error).__name__)
        finally:
            clock.cancel()
    return found


def _both(one: list[Any], other: list[Any]) -> list[tuple[Any, Any]]:
    """Answers to the same inputs, as far as there was time for both."""
    return [x for x in zip(one, other, strict=False) if "interrupted" not in x]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_equal_results_of_100_inputs_in_a_folder() -> None:
    """Of functions of numbers and buffers, before and after all passes: see `folder`.  What LLVM's
    own passes change, too, has no defined answer: it writes past a buffer, or gives an address."""
    rng = random.Random(1)
    edges = [0, 1, -1, 2, 3, 7, -8, 100]
    compared, undefined = 0, 0
    wrong = []
    with Session(timeout=60) as s:
        for path in folder():
            text = printed(re.sub(r"(?m)^define internal", "define", path.read_text()))
            functions = callable_functions(text)
            calls: dict[str, list[list[Any]]] = {}
            for name, types in functions.items():
                calls[name] = [
                    [
                        rng.randbytes(SIZE).translate(SMALL) if type == "ptr"
                        else rng.choice(edges) / 2 if not NUMBERS[type]
                        else rng.choice(edges) & 1 if type == "i1"
                        else rng.choice(edges)
                        for type in types
                    ]
                    for _ in range(100)
                ]  # fmt: skip
            if not calls:
                continue
            try:
                before = answers(s, text, calls)
            except JitError:
                continue  # it needs others' variables
            after = answers(s, applied(text, *ORDER), calls)
            theirs = answers(s, text, calls, level=2) if before != after else before
            for name in calls:
                both = _both(before[name], after[name])
                if unlike := [x for x in both if x[0] != x[1]]:
                    if any(a != b for a, b in _both(before[name], theirs[name])):
                        undefined += 1
                    else:
                        wrong.append((path.name, name, unlike[0]))
                compared += len(both) == 100 and not unlike
    print(compared, "functions gave equal results of 100 inputs;", undefined, "have no defined")
    print(len(wrong), "did not:", [one[:2] for one in wrong])
    assert not wrong and compared


def figures(text: str) -> dict[str, Counter[str]]:
    return {
        name: Counter(i.opcode for i in f.instructions)
        for name, f in Module(text).functions.items()
    }


def test_memory_to_values_leaves_what_llvms_pass_leaves(s: Session) -> None:
    text = compiled(SOURCES[0], "O0")
    made = s.compile(text, CellOptions(passes="mem2reg"))
    theirs = figures(s.inspect.printed(made.request))
    ours = figures(applied(text, "mem2reg"))
    assert ours.keys() == theirs.keys() and sum(c["phi"] for c in ours.values()) > 10
    for name, counts in ours.items():
        assert (counts["phi"], counts["alloca"]) == (theirs[name]["phi"], theirs[name]["alloca"])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_memory_to_values_leaves_what_llvms_pass_leaves_in_a_folder(s: Session) -> None:
    """As many phis and allocas in 99 of 100 functions; see `folder`."""
    equal, other = 0, list[str]()
    for path in folder():
        text = printed(path.read_text())
        made = s.compile(text, CellOptions(passes="mem2reg"))
        theirs = figures(s.inspect.printed(made.request))
        for name, counts in figures(applied(text, "mem2reg")).items():
            same = all(counts[what] == theirs[name][what] for what in ("phi", "alloca"))
            equal += same
            other += [] if same else [f"{path.name} {name}"]
    print(equal, "functions have as many as LLVM's pass leaves, these have not:", other)
    assert len(other) <= 0.01 * equal


SUITE = Path(os.environ.get("C_TESTSUITE", "")) / "tests" / "single-exec"


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not SUITE.is_dir(), reason="C_TESTSUITE names no checkout of c-testsuite")
def test_programs_of_a_suite_print_what_they_should(tmp_path, monkeypatch) -> None:
    """After all passes: what they print and return is what their authors say."""
    monkeypatch.chdir(tmp_path)  # they write files
    wrong = []
    programs = sorted(SUITE.glob("*.c"))
    with Session(capacity=64 << 20) as s:
        for source in programs:
            s.reset()
            s.run(applied(compiled(source, "O0"), *ORDER), options=CellOptions(opt_level=0))
            takes = s.inspect.program.linker.symbols["main"].info.shown
            out = Collector()
            done = s.run("@main(i32 0, ptr null)" if "i32 (i32" in takes else "@main()", sink=out)
            if bytes(out.out) != Path(f"{source}.expected").read_bytes() or done.text != "i32 0":
                wrong.append((source.name, done.text, bytes(out.out)[:80]))
    print(len(programs) - len(wrong), "of", len(programs), "programs print what they should")
    assert programs and not wrong


BITS = (1, 8, 32)
BINARY = "add sub mul and or xor udiv urem shl lshr ashr".split()
PREDICATES = "eq ne ugt uge ult ule sgt sge slt sle".split()


def test_constants_are_folded_as_the_machine_computes(s: Session) -> None:
    """Of each operation and of numbers at the edges: the constant is what the code gives."""
    cells, wanted = list[str](), dict[str, str]()
    for bits, what in itertools.product(BITS, [*BINARY, *PREDICATES]):
        words = what if what in BINARY else f"icmp {what}"
        to = f"i{bits}" if what in BINARY else "i1"
        name = f"{what}{bits}"
        cells.append(
            f"define {to} @{name}(i{bits} %a, i{bits} %b) {{\n  %r = {words} i{bits} %a, %b\n  ret {to} %r\n}}"
        )
        wanted[name] = f"{words} i{bits} {{}}, {{}}|{to}"
    s.run("\n".join(cells), options=CellOptions(opt_level=0))
    for name, form in wanted.items():
        words, _, to = form.partition("|")
        bits = int(name.lstrip("".join(map(chr, range(97, 123)))))
        numbers = sorted({0, 1, 2, bits - 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1})
        for a, b in itertools.product([n for n in numbers if n < 2**bits], repeat=2):
            shown = [str(n) if bits > 1 else ("false", "true")[n] for n in (a, b)]
            f = Module(f"define {to} @f() {{\n  %r = {words.format(*shown)}\n  ret {to} %r\n}}\n")
            function = f.functions["f"]
            example("fold")(function)
            (*left, end) = function.instructions
            undefined = (name[0] == "u" and name[1:4] in ("div", "rem") and b == 0) or (
                name[:3] in ("shl", "lsh", "ash") and b >= bits
            )
            assert bool(left) == undefined, (name, a, b)
            if not undefined:
                value = end.operands[0]
                assert isinstance(value, Constant)
                assert value.unsigned == int(s.call(name, a, b)) % 2 ** int(to[1:]), (name, a, b)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("%r = sext i1 true to i8", "ret i8 -1"),
        ("%r = zext i1 true to i8", "ret i8 1"),
        ("%r = sext i4 -8 to i8", "ret i8 -8"),
        ("%r = zext i4 -8 to i8", "ret i8 8"),
        ("%r = trunc i32 511 to i8", "ret i8 -1"),
        ("%r = select i1 false, i8 %x, i8 3", "ret i8 3"),
        ("%r = select i1 true, i8 %x, i8 3", "ret i8 %x"),
        ("%r = select i1 undef, i8 %x, i8 3", ""),
        ("%r = add i8 undef, 1", ""),
        ("%r = udiv i8 1, 0", ""),
        ("%r = urem i8 1, 0", ""),
        ("%r = shl i8 1, 8", ""),
        ("%r = ptrtoint ptr null to i8", ""),
        ("%r = freeze i8 poison", ""),
    ],
)
def test_what_is_folded_and_what_not(line: str, left: str) -> None:
    text = f"define i8 @f(i8 %x) {{\n  {line}\n  ret i8 %r\n}}\n"
    assert applied(text, "fold") == (
        text.replace(f"  {line}\n  ret i8 %r", f"  {left}") if left else text
    )


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("mul i8 %x, 8", "shl i8 %x, 3"),
        ("mul nsw nuw i8 8, %x", "shl nsw nuw i8 %x, 3"),
        ("mul nsw i8 %x, -128", "shl i8 %x, 7"),
        ("mul nuw i8 %x, -128", "shl nuw i8 %x, 7"),
        ("udiv exact i8 %x, -128", "lshr exact i8 %x, 7"),
        ("urem i8 %x, 16", "and i8 %x, 15"),
        ("mul i8 %x, 1", "shl i8 %x, 0"),
        ("mul i8 %x, 0", ""),
        ("mul i8 %x, 6", ""),
        ("sdiv i8 %x, 8", ""),
        ("udiv i8 8, %x", ""),
        ("mul i8 %x, undef", ""),
    ],
)
def test_strength(line: str, new: str, s: Session) -> None:
    text = f"define i8 @f(i8 %x) {{\n  %r = {line}\n  ret i8 %r\n}}\n"
    made = applied(text, "strength")
    assert str(Module(made).functions["f"].instructions[0]).endswith(new or line)
    if new:
        plain = text.replace("nsw ", "").replace("nuw ", "").replace("exact ", "")
        s.run(plain)
        inputs = [x for x in range(256) if "exact" not in line or x % 128 == 0]
        before = [s.call("f", x) for x in inputs]
        s.run(applied(plain, "strength"))
        assert before == [s.call("f", x) for x in inputs]


def test_a_division_stays_in_its_loop() -> None:
    text = (
        "define i32 @f(i32 %n, i32 %k) {\nentry:\n  br label %loop\n\nloop:\n"
        "  %i = phi i32 [ 0, %entry ], [ %j, %next ]\n  %c = icmp slt i32 %i, %n\n"
        "  br i1 %c, label %next, label %end\n\nnext:\n  %m = mul i32 %k, %k\n"
        "  %a = add i32 %m, 1\n  %d = sdiv i32 %a, %k\n  %j = add i32 %i, %d\n  br label %loop\n\n"
        "end:\n  ret i32 %i\n}\n"
    )
    f = Module(applied(text, "licm")).functions["f"]
    assert [i.name for i in f.entry.instructions[:-1]] == ["m", "a"]
    assert [i.name for i in f.blocks[2].instructions[:-1]] == ["d", "j"]


def test_equal_values_are_found_in_a_block_and_below_it() -> None:
    text = (
        "define i32 @f(i32 %x, i32 %y, i1 %c) {\nentry:\n  %a = add i32 %x, %y\n  %b = add i32 %y, %x\n"
        "  %n = add nsw i32 %x, %y\n  br i1 %c, label %one, label %two\n\none:\n  %d = add i32 %x, %y\n"
        "  %e = mul i32 %d, %b\n  ret i32 %e\n\ntwo:\n  %g = mul i32 %a, %b\n  %h = sub i32 %y, %x\n"
        "  %k = sub i32 %x, %y\n  %l = add i32 %h, %k\n  %m = add i32 %l, %n\n  ret i32 %m\n}\n"
    )
    local, all = applied(text, "lvn"), applied(text, "gvn")
    assert "%b =" not in local and "%d =" in local and "%d =" not in all
    assert all.count("add i32 %x, %y") == 1 and "%n = add nsw" in all and "%k =" in all
    assert "%e = mul i32 %a, %a" in all and "%g = mul i32 %a, %a" in all  # neither dominates


def test_dead_circles_go() -> None:
    text = (
        "define void @f(i1 %c) {\na:\n  br label %b\n\nb:\n  %p = phi i32 [ 0, %a ], [ %q, %b ]\n"
        "  %q = add i32 %p, 1\n  br i1 %c, label %b, label %d\n\nd:\n  ret void\n}\n"
    )
    left = Module(applied(text, "dce")).functions["f"].instructions
    assert [i.opcode for i in left] == ["br", "br", "ret"]


def test_no_two_values_are_in_one_register_at_once() -> None:
    spilled = 0
    for source, level in itertools.product(SOURCES, ("O0", "O2")):
        module = Module(applied(compiled(source, level), "mem2reg"))
        for f in module.functions.values():
            spans = intervals(f)
            where = allocate(spans)
            for one, other in itertools.combinations(spans, 2):
                if where[one] == where[other] != "stack":
                    (a, b), (c, d) = spans[one], spans[other]
                    assert b <= c or d <= a, (f.name, one, other)
            spilled += "stack" in where.values()
            live = f.liveness()
            for block in f.reverse_post_order():  # what is live there is in its interval
                first, last = (
                    f_place(f, i) for i in (block.instructions[0], block.instructions[-1])
                )
                assert all(spans[v][0] <= first <= spans[v][1] for v in live.live_in[block])
                assert all(spans[v][0] <= last <= spans[v][1] for v in live.live_out[block])
    assert spilled and len(REGISTERS) == 4


def f_place(f: Function, wanted: Instruction) -> int:
    places = [i for b in f.reverse_post_order() for i in b.instructions]
    return places.index(wanted)


def test_they_run_in_a_cell(s: Session) -> None:
    text = applied(compiled(SOURCES[1], "O0"))
    s.run(text)
    effect = apply_pass(s, examples.source("mem2reg"), "mem2reg", "total")
    assert effect.complaint == "" and "alloca" not in effect.made.after
    for name in examples.ANALYSES:
        view = analysis_view(analyse(s, examples.source(name), name, "total"))
        assert "total" in view.text and "first" in view.text
