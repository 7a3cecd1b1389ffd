"""Printed modules compared: against difflib, against the readers of whole bodies, and against what
LLVM numbers."""

from __future__ import annotations

import random
import re
from difflib import SequenceMatcher

import pytest

from jitkernel.ir.instructions import Instruction, blocks
from jitkernel.ir.module import functions
from jitkernel.ir.names import written
from jitkernel.ir.printed import REST, Counts, Steady, counts_of, matching, parts, quiet

PRINTED = """; ModuleID = '<string>'
source_filename = "<string>"

@g = global i32 1
@table = internal constant [1 x ptr] [ptr blockaddress(@f, %b)]

declare void @llvm.dbg.value(metadata, metadata, metadata)

declare i32 @puts(ptr)

; Function Attrs: nounwind
define weak_odr i32 @f(i32 %0, ptr "a"="}" %p) local_unnamed_addr #0 !dbg !5 {
    #dbg_value(i32 %0, !9, !DIExpression(), !8)
  %2 = call i32 @puts(ptr %p) #3, !dbg !8
  switch i32 %2, label %b [
    i32 0, label %3
    i32 1, label %b
  ], !prof !7

3:                                                ; preds = %1
  %4 = tail call i32 @llvm.smax.i32(i32 %2, i32 %0), !tbaa !12
  br label %b

b:                                                ; preds = %3, %1, %1
  %5 = phi i32 [ %2, %1 ], [ %2, %1 ], [ %4, %3 ]
  %6 = invoke i32 @"odd name"(i32 %5)
          to label %7 unwind label %cleanup

7:                                                ; preds = %b
  ret i32 %6

cleanup:                                          ; preds = %b
  %8 = landingpad { ptr, i32 }
          cleanup
  resume { ptr, i32 } %8
}

define i32 @"odd name"(i32 %x) {
  ret i32 %x
}

attributes #0 = { nounwind }

!5 = !{}
"""


def test_a_printed_module_in_parts() -> None:
    found = parts(PRINTED)
    assert list(found) == ["@f", '@"odd name"', REST]
    assert found["@f"].startswith("define weak_odr") and found["@f"].endswith("%8\n}")
    assert found['@"odd name"'] == 'define i32 @"odd name"(i32 %x) {\n  ret i32 %x\n}'
    assert quiet(found[REST]).splitlines()[1:] == [
        "@g = global i32 1",
        "@table = internal constant [1 x ptr] [ptr blockaddress(@f, %b)]",
        "declare i32 @puts(ptr)",
    ]
    assert not re.search(r"!dbg|!tbaa|!prof|#\d|#dbg|preds", quiet(found["@f"]))
    assert "%4 = tail call i32 @llvm.smax.i32(i32 %2, i32 %0)\n" in quiet(found["@f"])


def test_a_typed_module_in_parts() -> None:
    """Its functions may stand in one line, be indented, and have comments: nothing is left out."""
    own = "  define i32 @f() { ret i32 1 } define void @g() {\nret void }\n; why\n"
    text = f"{own}declare i32 @llvm.ctlz.i32(i32, i1)\n"
    found = parts(text, typed=True)
    assert found["@f"] == "define i32 @f() { ret i32 1 }"
    assert found["@g"] == "define void @g() {\nret void }"
    assert found[REST] == "; why\ndeclare i32 @llvm.ctlz.i32(i32, i1)"
    assert {name: text for name, text in parts(PRINTED, typed=True).items() if name} == {
        name: text for name, text in parts(PRINTED).items() if name
    }


def test_counts_are_those_of_the_reader_of_bodies() -> None:
    """A block called `cleanup` is no clause of the instruction before it."""
    for function in functions(PRINTED, "define"):
        begin, end = function.body()
        found = blocks(PRINTED, begin + 1, end - 1)
        texts = [
            PRINTED[a:z] for b in found for a, z in b.instructions
            if not PRINTED.startswith("#dbg", a)
        ]  # fmt: skip
        calls = [
            t
            for t in texts
            if Instruction.read(t).opcode in ("call", "invoke") and "@llvm" not in t
        ]
        counts = Counts(len(texts), len(found), len(calls))
        assert counts_of(parts(PRINTED)[written(function.name)]) == counts
    begin, end = next(functions(PRINTED, "define")).body()
    assert blocks(PRINTED, begin + 1, end - 1)[-1].label == "cleanup"


@pytest.mark.parametrize("letters", ["ab", "abcdefgh", "abcdefghijklmnopqrstuvwxyz"])
def test_blocks_of_equal_lines(letters: str) -> None:
    dice = random.Random(letters)
    for _ in range(200):
        old, new = ([dice.choice(letters) for _ in range(dice.randint(0, 30))] for _ in "on")
        at_old = at_new = 0
        for a, b, n in matching(old, new):
            assert n and a >= at_old and b >= at_new and old[a : a + n] == new[b : b + n]
            assert (a, b) != (at_old, at_new) or not at_old, "neighbours are one block"
            at_old, at_new = a + n, b + n


def test_about_as_short_as_difflibs() -> None:
    """Lines of IR define names: of such a text, some lines changed, moved, gone and new."""
    dice = random.Random(3)
    for size in (10, 100, 1000):
        old = [f"  %v{k} = add i32 %v{k // 2}, {dice.randint(0, 3)}" for k in range(size)]
        new = list(old)
        for _ in range(size // 10):
            at = dice.randrange(len(new))
            match dice.randrange(4):
                case 0:
                    del new[at]
                case 1:
                    new.insert(at, f"  store i32 {dice.randint(0, 2)}, ptr %p")
                case 2:
                    new[at] += ", 1"
                case _:
                    new.insert(dice.randrange(len(new)), new.pop(at))
        own = sum(n for _, _, n in matching(old, new))
        his = sum(n for _, _, n in SequenceMatcher(None, old, new, False).get_matching_blocks())
        assert len(old) + len(new) - 2 * own <= 1.5 * (len(old) + len(new) - 2 * his)


def numbered(names: list[str], size: int) -> str:
    """A body whose values are counted as LLVM does it, in the order of `names`."""
    number = {name: k for k, name in enumerate(names)}
    lines = [f"  %{number[n]} = mul i32 %x, {n}" for n in names]
    lines += [f"  call void @use(i32 %{number[n]})" for n in names if int(n) % 3 == 0]
    return "define void @f(i32 %x) {\n" + "\n".join(lines) + "\n}" * size


def test_a_value_without_a_name_keeps_its_number() -> None:
    dice = random.Random(5)
    names = [str(k) for k in range(1, 60)]
    steady = Steady(numbered(names, 1))
    shown = dict(re.findall(r"%(\d+) = mul i32 %x, (\d+)", "\n".join(steady.lines)))
    for round_ in range(20):
        gone = dice.sample(names, 3)
        names = [n for n in names if n not in gone]
        fresh = str(100 + round_)
        names.insert(dice.randrange(len(names)), fresh)
        text = numbered(names, 1)
        before, block = steady.lines, steady.follow(text)
        now = dict(re.findall(r"%(\d+) = mul i32 %x, (\d+)", "\n".join(steady.lines)))
        assert len(now) == len(names), "no two have one number"
        assert {v: k for k, v in now.items()} | {fresh: ""} == {
            v: k for k, v in shown.items() if v in names
        } | {fresh: ""}
        assert not {k for k, v in now.items() if v == fresh} & shown.keys(), "none had it"
        same = sum(n for _, _, n in block)
        uses = sum(int(n) % 3 == 0 for n in gone) + (int(fresh) % 3 == 0)
        assert len(before) + len(steady.lines) - 2 * same == 4 + uses
        shown |= now
        # Renamed back in order of definition it is LLVM's text.
        order = {k: str(at) for at, k in enumerate(now)}
        pieces = re.split(r"%(\d+)\b", "\n".join(steady.lines))
        pieces[1::2] = ["%" + order[n] for n in pieces[1::2]]
        assert "".join(pieces) == text


def test_calls_whose_values_are_named_after_them() -> None:
    """As clang names them: `%call`."""
    body = """  %call = call i32 @f(i32 1)
  %tail call = tail call i32 @f(i32 %call)
  %call2 = call i32 @llvm.smax.i32(i32 %call, i32 1)
  store i32 %call, ptr %call.addr
  notail call void %call.p(i32 %call)
  call void @llvm.assume(i1 true)
  ret i32 %call""".replace("%tail call", '%"tail call"')
    assert counts_of(f"define i32 @g() {{\n{body}\n}}") == Counts(7, 1, 3)
    assert counts_of(f"\n{body}").calls == 3  # lines that came
