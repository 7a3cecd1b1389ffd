"""LLVM watched: what is told is what was compiled, step by step, in order."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from jitkernel.compiler import answers
from jitkernel.compiler.line_table import extent
from jitkernel.compiler.machine_ir import blocks_of
from jitkernel.compiler.pass_trace import LOOPS, MANAGER
from jitkernel.compiler.passes import (
    KNOWN,
    SINGLE,
    TEXTS,
    name_of,
    parse_passes,
)
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.compiler.traces import Traces
from jitkernel.elf import read_object
from jitkernel.elf.constants import SHF_EXECINSTR
from jitkernel.errors import CompileError, Interrupted, WorkerDied
from jitkernel.ir.model.module import function_of
from jitkernel.ir.module import functions
from jitkernel.ir.names import decode_name, written
from jitkernel.ir.printed import parts, quiet
from jitkernel.settings import SessionSettings
from tests.busy import until
from tests.processes import python
from tests.seeds import few

LOOP = """
define i32 @sum(ptr %p, i32 %n) {
entry:
  %i = alloca i32
  %s = alloca i32
  store i32 0, ptr %i
  store i32 0, ptr %s
  br label %loop
loop:
  %iv = load i32, ptr %i
  %c = icmp slt i32 %iv, %n
  br i1 %c, label %body, label %exit
body:
  %g = getelementptr i32, ptr %p, i32 %iv
  %v = load i32, ptr %g
  %sv = load i32, ptr %s
  %s2 = add i32 %sv, %v
  store i32 %s2, ptr %s
  %i2 = add i32 %iv, 1
  store i32 %i2, ptr %i
  br label %loop
exit:
  %r = load i32, ptr %s
  ret i32 %r
}
"""
CALLS = """
@t = global [2 x ptr] [ptr @twice, ptr @twice]
declare double @sqrt(double)
define internal i32 @twice(i32 %x) {
  %y = add i32 %x, %x
  ret i32 %y
}
define i32 @user(i32 %x) {
  %a = call i32 @twice(i32 %x)
  %b = call i32 @twice(i32 %a)
  ret i32 %b
}
define double @root(double %x) {
  %y = call double @sqrt(double %x)
  ret double %y
}
"""
FROZEN = """
define i32 @slow(i32 %x) noinline optnone {
  %a = alloca i32
  store i32 %x, ptr %a
  %v = load i32, ptr %a
  ret i32 %v
}
"""


def _code(made: bytes) -> list[bytes]:
    """The bytes of the sections that are executed."""
    elf = read_object(made)
    return [elf.content(n) for n, s in enumerate(elf.sections) if s[2] & SHF_EXECINSTR]


@pytest.mark.parametrize("source", [LOOP, CALLS, FROZEN], ids=["loop", "calls", "optnone"])
@pytest.mark.parametrize(
    "options",
    [
        Options(opt_level=0),
        Options(opt_level=1),
        Options(),
        Options(opt_level=3, closed=True),
        Options(passes="sroa,instcombine"),
        Options(passes="mem2reg,loop-rotate,licm,simplifycfg"),
    ],
    ids=str,
)
def test_what_is_told_is_what_was_compiled(
    pool: CompilerPool, source: str, options: Options
) -> None:
    request = Request(source, options, nobuiltin=frozenset({"sum", "user"}))
    seen = pool.traces.passes(request)
    assert seen.verified and seen.ran >= len(seen.steps)
    compiled = pool.compile(request).object
    made = pool.traces.machine(request, code=compiled)
    assert made.same == sum(map(len, _code(compiled))) and made.lines
    assert made.stages, "code generation always does something"
    before, after = pool.ends(request)
    assert (seen.before, seen.after) == (parts(before), parts(after))
    # Names change no code: emitted, both are the same.
    nothing = Options(passes="none")
    emitted = [pool.compile(Request(t, nothing)).object for t in (after, pool.printed(request))]
    assert emitted[0] == emitted[1]


@pytest.mark.parametrize("source", [LOOP, CALLS], ids=["loop", "calls"])
@pytest.mark.parametrize("only", ["", "sum", "user"])
def test_the_steps_lead_from_the_first_text_to_the_last(
    pool: CompilerPool, source: str, only: str
) -> None:
    seen = pool.traces.passes(Request(source), only)
    own = {n: t for n, t in seen.before.items() if only in ("", n[1:])}
    for step in seen.steps:
        assert any(own.get(name, "") != text for name, text in step.texts.items())
        own |= step.texts
    last = {n: t for n, t in seen.after.items() if only in ("", n[1:])}
    settled = [{n: quiet(t) for n, t in found.items() if t} for found in (own, last)]
    assert settled[0] == settled[1]
    names = [step.name for step in seen.steps]
    if source == LOOP and only != "user":
        assert {"sroa", "instcombine", "simplifycfg", LOOPS} <= set(names)
        loops = next(step for step in seen.steps if step.name == LOOPS)
        assert dict(loops.ran)["loop-rotate"] == 1 and loops.unit == "sum"


LOG_ALL = """
import os, sys, json
from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.records import Request
request = Request(sys.stdin.read())
log = os.memfd_create("log")
binding.set_option("-print-changed=quiet", "-pass-remarks=^$", "-print-module-scope")
os.dup2(log, 2)
def watch(stage, module):
    if stage == "optimised":
        raise pipeline.Seen
pipeline.watched(request, watch)
from jitkernel.compiler.pass_log import read_log
from jitkernel.compiler.forks import content
from tests.seeds import few
print(json.dumps([[e.title, e.unit] for e in read_log(content(log)) if e.kind == "after"]))
"""


@pytest.mark.parametrize("source", [LOOP, CALLS], ids=["loop", "calls"])
def test_who_changed_something_is_whom_llvm_names(pool: CompilerPool, source: str) -> None:
    """LLVM's own log, of the module without names, printed whole before and after each pass."""
    found = json.loads(python(LOG_ALL, input=source))
    named = [name_of(title) for title, unit in found if not unit.startswith("loop %")]
    told = [
        step.name
        for step in pool.traces.passes(Request(source)).steps
        if step.name not in (LOOPS, MANAGER)
    ]
    assert told == named
    loops = {name_of(title) for title, unit in found if unit.startswith("loop %")}
    ran = {
        n for s in pool.traces.passes(Request(source)).steps if s.name == LOOPS for n, _ in s.ran
    }
    assert loops <= ran


@pytest.mark.parametrize("skipped", [0, 1, 2, 5])
def test_one_function_of_several_is_what_was_compiled(pool: CompilerPool, skipped: int) -> None:
    """It alone gets code, where it stood, with its lines and stages; and its passes are counted."""
    source = many(skipped) + LOOP + CALLS
    request = Request(source, nobuiltin=frozenset({"user"}))
    compiled = pool.compile(request).object
    whole, one = (pool.traces.machine(request, only, None, compiled, True) for only in ("", "sum"))
    start, size = extent(compiled, "sum")
    assert one.same == size > 0 and one.stages["sum"] == whole.stages["sum"]
    inside = [row for row in whole.lines if start <= row[1] < start + size]
    assert [row for row in one.lines if row[1] < start + size] == inside != []
    assert parts(one.before)["@sum"] == parts(whole.before)["@sum"] and one.after == whole.after
    known, fresh = (
        pool.traces.passes(request, "sum"),
        Traces(pool._answer, pool.compile, pool._lock),
    )
    seen = fresh.passes(request, "sum")
    assert [s.texts for s in known.steps] == [s.texts for s in seen.steps]
    assert known.ran == seen.ran == len(one.runs)


def test_passes_that_were_counted_wrongly_are_counted_anew(pool: CompilerPool) -> None:
    request = Request(LOOP)
    seen = pool.traces.passes(request)
    runs = tuple(
        run._replace(number=run.number + 1)
        for run in pool.traces.machine(request, counted=True).runs
    )
    pool.traces._traced = {
        "machine": ((request, ""), pool.traces.machine(request)._replace(runs=runs, same=1))
    }
    assert pool.traces.passes(request).steps[0].texts == seen.steps[0].texts


def test_one_function_of_those_that_cannot_be_left_out(pool: CompilerPool) -> None:
    """Of one whose blocks' addresses somebody has, or that has another name."""
    other = """
define i32 @goes(i32 %x) {
  %p = getelementptr [2 x ptr], ptr @to, i32 0, i32 %x
  %t = load ptr, ptr %p
  indirectbr ptr %t, [label %a, label %b]
a:
  ret i32 1
b:
  ret i32 2
}
@to = global [2 x ptr] [ptr blockaddress(@goes, %a), ptr blockaddress(@goes, %b)]
"""
    for source in (other, CALLS + "@again = alias i32 (i32), ptr @user\n"):
        request = Request(LOOP + source)
        compiled = pool.compile(request).object
        assert (
            pool.traces.machine(request, "sum", None, compiled).same == extent(compiled, "sum")[1]
        )


def test_blocks_that_have_only_a_number_are_called_by_it_in_machine_ir(pool: CompilerPool) -> None:
    source = re.sub(r"%(entry|loop|body|exit)\b", lambda m: f"%{NUMBERS[m[1]]}", LOOP)
    source = re.sub(r"(?m)^(\w+):", lambda m: f"{NUMBERS[m[1]]}:", source)
    source = re.sub(r"%(i|s)\b", r"%\1.addr", source).replace("0:\n", "")
    made = pool.traces.machine(Request(source, Options(opt_level=0)), "sum")
    final = next(s for s in made.stages["sum"] if s.name == "final")
    printed = [block.name for block in function_of(next(functions(made.after, "define"))).blocks]
    assert [*dict.fromkeys(filter(None, blocks_of(final)))] == printed == ["0", "1", "2", "3"]


NUMBERS = {"entry": "0", "loop": "1", "body": "2", "exit": "3"}


def test_times_are_told_for_every_step(pool: CompilerPool) -> None:
    seen = pool.traces.passes(Request(LOOP))
    assert all(step.nanoseconds >= 0 for step in seen.steps)
    assert 0 < sum(step.nanoseconds for step in seen.steps) <= seen.spent


RECURSION = """
define i64 @depth(i64 %n) {
  %more = icmp ne i64 %n, 0
  br i1 %more, label %go, label %done
go:
  %less = sub i64 %n, 1
  %r = call i64 @depth(i64 %less)
  %s = add i64 %r, 1
  ret i64 %s
done:
  ret i64 0
}
"""


def test_times_where_a_pass_removes_a_loop(pool: CompilerPool) -> None:
    """LLVM logs no text for it, and its pass managers end with it."""
    seen = pool.traces.passes(Request(RECURSION))
    assert "br " not in seen.after["@depth"]
    assert all(step.nanoseconds >= 0 for step in seen.steps) and seen.spent > 0
    assert not any("invalidated" in text for step in seen.steps for text in step.texts.values())


def many(count: int) -> str:
    """Functions that have no use for each other."""
    return "".join(
        f"define i32 @f{k}(i32 %x) {{\n  %a = alloca i32\n  store i32 %x, ptr %a\n"
        f"  %v = load i32, ptr %a\n  ret i32 %v\n}}\n"
        for k in range(count)
    )


def test_a_function_of_a_large_module_is_told_alone(pool: CompilerPool) -> None:
    request = Request(many(30))
    every, one = pool.traces.passes(request), pool.traces.passes(request, "f7")
    assert {step.unit for step in every.steps} >= {f"f{k}" for k in range(30)}
    assert {name for step in one.steps for name in step.texts} == {"@f7"}
    texts = [step.texts["@f7"] for step in every.steps if "@f7" in step.texts]
    assert [step.texts["@f7"] for step in one.steps] == texts
    assert set(pool.traces.machine(request).stages) == {f"f{k}" for k in range(30)}
    assert set(pool.traces.machine(request, "f7").stages) == {"f7"}


@pytest.mark.parametrize("name", ['"a,b"', '"*"', '"with space"', '"new\\0Aline"', '"*** IR"'])
def test_names_that_cannot_be_said_in_an_option(pool: CompilerPool, name: str) -> None:
    source = LOOP.replace("@sum", f"@{name}") + many(2)
    only = decode_name(name)
    one = pool.traces.passes(Request(source), only)
    assert {n for step in one.steps for n in step.texts} == {written(only)}
    assert "alloca" not in one.after[written(only)] and one.verified
    assert {"sroa", LOOPS} <= {step.name for step in one.steps}


def test_values_without_a_name_are_called_by_their_number(pool: CompilerPool) -> None:
    source = (
        "define i32 @f(i32, i32 %b) {\n  %2 = add i32 %0, %b\n  store i32 %2, ptr null\n"
        "  br label %3\n3:\n  %4 = mul i32 %2, %0\n  ret i32 %4\n}\n"
    )
    seen = pool.traces.passes(Request(source, Options(passes="none")))
    assert seen.named and not seen.steps
    body = seen.before["@f"]
    assert re.findall(r"%\w+", body)[:2] == ["%v0", "%b"]
    assert "%v2 = add i32 %v0, %b" in body and "label %b3" in body and "\nb3:" in body
    assert "%v4 = mul i32 %v2, %v0" in body
    assert not pool.traces.passes(Request(LOOP)).named


NESTED = """
define i64 @nest(ptr %p, i64 %n) {
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i1, %latch ]
  %s = phi i64 [ 0, %entry ], [ %t1, %latch ]
  %c = icmp slt i64 %i, %n
  br i1 %c, label %inner, label %end
inner:
  %j = phi i64 [ 0, %outer ], [ %j1, %body ]
  %t = phi i64 [ %s, %outer ], [ %t0, %body ]
  %d = icmp slt i64 %j, %i
  br i1 %d, label %body, label %latch
body:
  %g = getelementptr i64, ptr %p, i64 %j
  %v = load i64, ptr %g
  %k = mul i64 %n, %n
  %w = mul i64 %v, %k
  %t0 = add i64 %t, %w
  %j1 = add i64 %j, 1
  br label %inner
latch:
  %t1 = phi i64 [ %t, %inner ]
  %i1 = add i64 %i, 1
  br label %outer
end:
  ret i64 %s
}
"""


def test_one_loop_of_several(pool: CompilerPool) -> None:
    seen = pool.traces.loop(Request(NESTED), "nest", "%inner")
    assert [labels[0] for labels, _ in seen.loops][:2] == ["%inner", "%outer"]
    labels, ran = next(row for row in seen.loops if "%inner" in row[0])
    assert "%body" in labels and ran == seen.ran  # loop-rotate gives it another header
    names = [step.name for step in seen.steps]
    assert {"loop-rotate", "licm"} <= set(names) and "sroa" not in names
    licm = next(step for step in seen.steps if step.name == "licm")
    assert licm.before != licm.after and "mul i64 %n, %n" in licm.before
    after = pool.traces.loop(Request(NESTED), "nest", "%body")
    assert after.steps == seen.steps
    assert pool.traces.loop(Request(NESTED), "nest", "%end").steps == ()
    assert pool.traces.loop(Request(LOOP), "no", "%x").loops == ()


#: What a function text without its module leaves open: types, variables of several kinds, calls to
#: what is defined elsewhere, aliases, comdats, metadata at instructions, in calls and in records.
NEIGHBOURS = """
%pt = type { i32, [2 x %in] }
%in = type { i64, ptr }
$c = comdat any
@tls = thread_local global i32 4
@table = constant [2 x ptr] [ptr @w0, ptr @other]
@other = alias i32 (i32), ptr @w1
@0 = private constant [3 x i8] c"hi\\00"
declare void @llvm.dbg.value(metadata, metadata, metadata)
declare ptr @llvm.threadlocal.address.p0(ptr)
declare i32 @puts(ptr)
define i32 @w0(i32 %x) comdat($c) !dbg !5 {
  #dbg_value(i32 %x, !9, !DIExpression(), !8)
  %p = alloca %pt
  %f = getelementptr %pt, ptr %p, i32 0, i32 1, i32 1, i32 1
  store ptr @0, ptr %f, !tbaa !12
  %g = load ptr, ptr %f, !tbaa !12
  %h = call i32 @puts(ptr %g), !dbg !8
  %t = call ptr @llvm.threadlocal.address.p0(ptr @tls)
  %v = load i32, ptr %t, !range !11
  %s = add i32 %v, %h, !dbg !8
  ret i32 %s, !dbg !8
}
define i32 @w1(i32 %x) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %c = call i32 @other(i32 %i)
  %k = getelementptr [2 x ptr], ptr @table, i32 0, i32 %c
  %q = load ptr, ptr %k
  %r = call i32 %q(i32 %i)
  %j = add i32 %i, %r
  %d = icmp slt i32 %j, %x
  br i1 %d, label %loop, label %end, !llvm.loop !10
end:
  %l = call i32 @inner(i32 %j, ptr null, ptr @tls)
  ret i32 %l
}
define internal i32 @inner(i32 %x, ptr noalias %a, ptr noalias %b) {
  store i32 %x, ptr %b
  %v = load i32, ptr %a
  ret i32 %v
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "a.c", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 5}
!4 = !DISubroutineType(types: !6)
!5 = distinct !DISubprogram(name: "w0", file: !1, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!6 = !{!7, !7}
!7 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!8 = !DILocation(line: 3, column: 2, scope: !5)
!9 = !DILocalVariable(name: "x", arg: 1, scope: !5, file: !1, type: !7)
!10 = distinct !{!10}
!11 = !{i32 0, i32 9}
!12 = !{!13, !13, i64 0}
!13 = !{!"pointer", !14}
!14 = !{!"root"}
"""


@pytest.mark.parametrize("level", few([2, 1, 3], 1))
def test_neighbours_of_all_kinds(pool: CompilerPool, level: int) -> None:
    loops = "".join(
        f"define i64 @f{k}(i64 %n, ptr %p) {{\n  %a = alloca i64\n  store i64 %n, ptr %a\n"
        f"  br label %l\nl:\n  %i = phi i64 [ 0, %0 ], [ %j, %l ]\n  %v = load i64, ptr %a\n"
        f"  %j = add i64 %i, 1\n  %w = mul i64 %v, %i\n  store i64 %w, ptr %a\n"
        f"  %c = icmp ult i64 %j, %n\n  br i1 %c, label %l, label %e\ne:\n"
        f"  %r = call i64 @f{(k + 1) % 14}(i64 %w, ptr %p)\n  ret i64 %r\n}}\n"
        for k in range(14)
    )
    plain = Options(opt_level=level, inline=False)  # each by itself
    seen = pool.traces.passes(Request(loops + NEIGHBOURS, plain))
    assert {step.unit for step in seen.steps} >= {"w0", "w1", "f3"} and seen.verified
    assert {"@w0", "@w1", "@f3"} <= {name for step in seen.steps for name in step.texts}
    quiets = [quiet(t) for step in seen.steps for n, t in step.texts.items() if t]
    assert not any("!tbaa" in t or "!dbg" in t or "#dbg" in t or "!llvm" in t for t in quiets)


def test_optnone_is_left_alone(pool: CompilerPool) -> None:
    seen = pool.traces.passes(Request(FROZEN))
    assert "slow" not in {step.unit for step in seen.steps}


def test_a_text_that_does_not_compile_is_refused(pool: CompilerPool) -> None:
    with pytest.raises(CompileError, match="use of undefined value"):
        pool.traces.passes(Request("define i32 @f() {\n  ret i32 %x\n}\n"))


def big() -> str:
    """A module whose inspection takes many seconds."""
    lines = "".join(
        f"  %v{k} = mul i64 {f'%v{k - 1}' if k else '%x'}, %x\n  %w{k} = call i64 @f(i64 %v{k})\n"
        for k in range(20000)
    )
    return f"define i64 @f(i64 %x) {{\n{lines}  ret i64 %v19999\n}}\n"


def children(pid: int) -> list[str]:
    """The processes that its first thread has started."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_an_inspection_can_be_interrupted_and_the_next_one_works() -> None:
    with CompilerPool() as pool:

        def stop() -> None:
            while not pool.workers.interrupt():
                time.sleep(0.01)

        thread = threading.Thread(target=stop)
        thread.start()
        with pytest.raises(Interrupted):
            pool.traces.passes(Request(big()))
        thread.join()
        assert pool.traces.passes(Request(LOOP)).steps


def test_who_waits_is_called_back_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the first worker is still on its way."""
    monkeypatch.setattr(answers, "_TICK", 0.001)
    ticks: list[int] = []
    with CompilerPool(SessionSettings(spare=False)) as pool:
        pool.traces.passes(Request(LOOP), tick=lambda what: ticks.append(1))
    assert ticks


def test_an_inspection_whose_worker_dies_is_told_and_the_next_one_works() -> None:
    """Also where its children had only just been started: none of them goes on."""
    with CompilerPool() as pool:

        def kill() -> None:
            while not children(pid):  # until it has begun
                pass
            os.kill(pid, signal.SIGKILL)

        for _ in range(10):
            pool.compile(Request(LOOP))
            pid = next(m.pid for m in pool.memory() if m.role == "worker")
            thread = threading.Thread(target=kill)
            thread.start()
            with pytest.raises(WorkerDied, match="killed"):
                pool.traces.passes(Request(big()))
            thread.join()
        assert pool.traces.passes(Request(LOOP)).steps


def test_options_of_llvm_stay_in_the_children(pool: CompilerPool) -> None:
    """The process that forks compiles undisturbed ever after, and no child is left."""
    pool.traces.passes(Request(LOOP))
    pool.traces.passes(Request(CALLS, Options(passes="licm")))
    pid = pool.processes()[0][0]
    assert until(lambda: children(pid) == [])


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_pass_runs_alone(pool: CompilerPool, name: str) -> None:
    compiled = pool.compile(Request(LOOP + CALLS, Options(passes=name), nobuiltin=frozenset()))
    assert compiled.object.startswith(b"\x7fELF")


@pytest.mark.parametrize("name", ["licm", "gvn", "early-cse", "mem2reg", "loop-vectorize"])
def test_a_pass_that_is_read_from_text_runs_alone(pool: CompilerPool, name: str) -> None:
    seen = pool.traces.passes(Request(LOOP, Options(passes=name)))
    assert {step.name for step in seen.steps} <= {name, "loop-simplify", "lcssa", LOOPS}
    assert {n for step in seen.steps for n, _ in step.ran} <= {name, "loop-simplify", "lcssa"}
    if name == "mem2reg":
        assert name in {step.name for step in seen.steps}


def test_the_names_of_passes() -> None:
    assert parse_passes(" sroa, instcombine ") == ("sroa", "instcombine")
    assert set(SINGLE) | set(TEXTS) < set(KNOWN)
    assert "loop-vectorize" in KNOWN and "verify" not in KNOWN
    with pytest.raises(
        CompileError, match="no pass 'instcombin'; did you mean instcombine"
    ) as error:
        parse_passes("sroa,instcombin")
    assert re.search(r"There are: adce, .*, vector-combine", str(error.value), re.S)
    with pytest.raises(CompileError, match="empty pipeline"):
        parse_passes(" , ")


def test_a_pipeline_is_part_of_the_key_of_what_was_compiled(pool: CompilerPool) -> None:
    plain, chosen = (pool.compile(Request(LOOP, Options(passes=p))).object for p in ("", "sroa"))
    assert plain != chosen
    rows = {tuple(Options(passes=p).row()) for p in ("", "sroa", "sroa,sroa")}
    assert len(rows) == 3
    assert Options(*Options(passes="sroa").row()) == Options(passes="sroa")
