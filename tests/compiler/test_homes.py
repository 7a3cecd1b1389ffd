"""Modules compiled to be debugged: the same results, and DWARF that says where each value is."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from elftools.dwarf.ranges import RangeEntry
from elftools.elf.elffile import ELFFile

from jitkernel import Session
from jitkernel.compiler.cache import ObjectCache
from jitkernel.compiler.debugged import debugged as made_for
from jitkernel.compiler.homes import DEEPEST
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.errors import CompileError
from jitkernel.session.settings import options_for
from tests.random_ir import Function, Program, program, signed
from tests.seeds import seeds

DEBUG = Options(2, debug=True)
DATA = Path(__file__).parent.parent / "data"
_FBREG, _PUSH_RBP = 0x91, b"\x55\x48\x89\xe5"


class Variable(NamedTuple):
    name: str
    type: str
    line: int
    location: bytes
    is_argument: bool


class Scope(NamedTuple):
    """A function, or a lexical block in one; `name` is "" for that."""

    name: str
    ranges: list[tuple[int, int]]
    variables: list[Variable]
    inside: list[Scope]

    def holds(self, address: int) -> bool:
        return any(start <= address < stop for start, stop in self.ranges)

    def every(self) -> list[Variable]:
        return [*self.variables, *(v for scope in self.inside for v in scope.every())]

    def defined(self, address: int, line: int) -> set[str]:
        """What a debugger shows at an address of a line, by what homes.py says."""
        way = [self]
        while deeper := [scope for scope in way[-1].inside if scope.holds(address)]:
            assert len(deeper) == 1
            way += deeper
        found = {v.name for scope in way[:-1] for v in scope.variables}
        return found | {v.name for v in way[-1].variables if v.is_argument or v.line < line}


class Dwarf:
    """The functions and the line table, (address, line, is a statement's begin), of an object."""

    def __init__(self, data: bytes):
        self._info = ELFFile(io.BytesIO(data)).get_dwarf_info()
        self.functions: dict[str, Scope] = {}
        self.rows: list[tuple[int, int, bool]] = []
        for unit in self._info.iter_CUs():
            for die in unit.get_top_DIE().iter_children():
                if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
                    scope = self._scope(die)
                    self.functions[scope.name] = scope
            for entry in self._info.line_program_for_CU(unit).get_entries():
                if entry.state and not entry.state.end_sequence:
                    state = entry.state
                    self.rows.append((state.address, state.line, state.is_stmt))

    def _scope(self, die: Any) -> Scope:
        scope = Scope(_name(die), self._ranges(die), [], [])
        for child in die.iter_children():
            if child.tag == "DW_TAG_lexical_block":
                scope.inside.append(self._scope(child))
            elif "DW_AT_artificial" not in child.attributes:
                type_ = child.get_DIE_from_attribute("DW_AT_type")
                said = child.attributes
                scope.variables.append(
                    Variable(
                        _name(child), _name(type_), said["DW_AT_decl_line"].value,
                        bytes(said["DW_AT_location"].value),
                        child.tag == "DW_TAG_formal_parameter",
                    )
                )  # fmt: skip
        return scope

    def _ranges(self, die: Any) -> list[tuple[int, int]]:
        if "DW_AT_ranges" not in die.attributes:
            low = die.attributes["DW_AT_low_pc"].value
            return [(low, low + die.attributes["DW_AT_high_pc"].value)]
        found = self._info.range_lists().get_range_list_at_offset(
            die.attributes["DW_AT_ranges"].value
        )
        return [(e.begin_offset, e.end_offset) for e in found if isinstance(e, RangeEntry)]


def _name(die: Any) -> str:
    found = die.attributes.get("DW_AT_name")
    return found.value.decode("utf-8", "surrogateescape") if found else ""


def debugged(pool: CompilerPool, source: str, **given: Any) -> Dwarf:
    return Dwarf(pool.compile(Request(source, DEBUG, **given)).object)


def shown(pool: CompilerPool, source: str, name: str = "f") -> dict[str, str]:
    """The types of a function's variables by their names."""
    return {v.name: v.type for v in debugged(pool, source).functions[name].every()}


def has_debug_sections(data: bytes) -> bool:
    return ELFFile(io.BytesIO(data)).get_section_by_name(".debug_info") is not None


# -- results


@pytest.fixture(params=[False, True], ids=["ordinary", "debug"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session whose cells are compiled as they are, or to be debugged."""

    def options(*given: Any) -> Options:
        return options_for(*given)._replace(debug=request.param)

    monkeypatch.setattr("jitkernel.session.run.definer.options_for", options)
    with Session(object_cache=False, spare=False) as session:
        yield session


def compare(session: Session, programs: list[Program]) -> None:
    for each in programs:
        session.run(each.text)
        assert session.run(f"@{each.entry}()").text == f"i64 {signed(each.result, 64)}", each.entry


def test_results(session: Session) -> None:
    compare(session, [program(seed) for seed in range(8)])


@pytest.mark.slow
def test_results_of_many(session: Session) -> None:
    compare(session, [program(seed) for seed in range(8, 300)])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("lli"), reason="there is no lli")
def test_the_oracle_against_another(tmp_path: Path) -> None:
    """LLVM's interpreter gives what that of tests/random_ir.py gives."""
    every = [program(seed) for seed in range(300)]
    lines = [p.text for p in every]
    lines += ['@format = constant [6 x i8] c"%lld\\0A\\00"', "declare i32 @printf(ptr, ...)"]
    lines += ["define i32 @main() {"]
    for number, each in enumerate(every):
        lines += [f"  %r{number} = call i64 @{each.entry}()"]
        lines += [f"  %w{number} = call i32 (ptr, ...) @printf(ptr @format, i64 %r{number})"]
    path = tmp_path / "every.ll"
    path.write_text("\n".join([*lines, "  ret i32 0", "}"]))
    told = subprocess.run(["lli", "--version"], capture_output=True, text=True).stdout
    opaque = ["-opaque-pointers"] if "LLVM version 14" in told else []
    done = subprocess.run(
        ["lli", "-force-interpreter", *opaque, str(path)],
        capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert [int(n) for n in done.stdout.split()] == [signed(p.result, 64) for p in every], (
        done.stderr[:500]
    )


def test_tail_calls_reuse_the_frame(session: Session) -> None:
    session.run("""define i64 @must(i64 %n, i64 %sum) {
  %more = add i64 %sum, %n
  %less = sub i64 %n, 1
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %again
again:
  %r = musttail call i64 @must(i64 %less, i64 %more)
  ret i64 %r
end:
  ret i64 %more
}
define tailcc i64 @tail(i64 %n, i64 %sum) {
  %more = add i64 %sum, %n
  %less = sub i64 %n, 1
  %done = icmp eq i64 %n, 0
  br i1 %done, label %end, label %again
again:
  %r = tail call tailcc i64 @tail(i64 %less, i64 %more)
  ret i64 %r
end:
  ret i64 %more
}
define i64 @start(i64 %n) {
  %r = call tailcc i64 @tail(i64 %n, i64 0)
  ret i64 %r
}""")
    assert session.run("@must(1000000, 0)").text == "i64 500000500000"
    assert session.run("@start(1000000)").text == "i64 500000500000"


INVOKE = """declare i32 @pers(...)
define internal i32 @less(i32 %x) noinline { ; a call that may throw, for all that is known
  %y = sub i32 %x, 1
  ret i32 %y
}
define i32 @f(i32 %x) personality ptr @pers {
  %a = invoke i32 @less(i32 %x) to label %n unwind label %l
n:
  %p = phi i32 [ %a, %0 ], [ %b, %m ]
  %c = icmp eq i32 %p, 0
  br i1 %c, label %o, label %m
m:
  %b = invoke i32 @less(i32 %p)
    to label %n unwind label %l
o:
  ret i32 %p
l:
  %q = phi i32 [ 1, %0 ], [ %p, %m ]
  %e = landingpad { ptr, i32 } cleanup
  ret i32 %q
}"""


def test_what_else_runs(session: Session) -> None:
    """A value on the way from an invoke, allocas of all kinds, values of kilobytes, variadics."""
    session.run(INVOKE.replace("declare i32 @pers(...)", "define i32 @pers(...) { ret i32 8 }"))
    assert session.run("@f(5)").text == "i32 0"
    session.run("""define i32 @stack(i32 %n) {
  %wide = alloca <16 x float>, align 64
  store <16 x float> zeroinitializer, ptr %wide, align 64
  %many = alloca i32, i32 %n
  %last = sub i32 %n, 1
  %place = getelementptr i32, ptr %many, i32 %last
  store i32 7, ptr %place
  %bits = ptrtoint ptr %wide to i64
  %low = and i64 %bits, 63
  %small = trunc i64 %low to i32
  %seven = load i32, ptr %place
  %r = add i32 %seven, %small
  ret i32 %r
}
define i32 @large(i32 %n) {
  %a = insertvalue [1000 x i32] zeroinitializer, i32 %n, 999
  %b = insertvalue [2000 x i32] zeroinitializer, i32 %n, 1999
  %x = extractvalue [1000 x i32] %a, 999
  %y = extractvalue [2000 x i32] %b, 1999
  %r = add i32 %x, %y
  ret i32 %r
}
declare void @llvm.va_start(ptr)
define i32 @sum(i32 %n, ...) {
  %list = alloca [24 x i8], align 8
  call void @llvm.va_start(ptr %list)
  %a = va_arg ptr %list, i32
  %b = va_arg ptr %list, i32
  %r = add i32 %a, %b
  ret i32 %r
}
define i32 @summed() {
  %r = call i32 (i32, ...) @sum(i32 2, i32 30, i32 4)
  ret i32 %r
}""")
    assert session.run("@stack(9)").text == "i32 7"
    assert session.run("@large(4)").text == "i32 8"
    assert session.run("@summed()").text == "i32 34"


# -- DWARF


def check_dwarf(dwarf: Dwarf, function: Function, text: str) -> None:
    scope, lines = dwarf.functions[function.name], text.split("\n")
    defined = function.defined()
    named = function.lines
    variables = {v.name: v for v in scope.every()}
    assert variables.keys() == named.keys() | dict(function.parameters).keys()
    assert all(variables[name].line == line for name, line in named.items())
    assert all(v.location[0] == _FBREG for v in variables.values())
    for name, type_ in function.parameters:
        assert variables[name].type == str(type_) and variables[name].is_argument
    for name, line in named.items():
        words = lines[line - 1].partition(" = ")[2]
        if words.startswith(("phi ", "load ")):
            assert words.split(" ", 1)[1].startswith(variables[name].type)
        if words.startswith("alloca "):
            assert variables[name].type == f"ptr to {words.removeprefix('alloca ')}"
    first: dict[int, int] = {}
    for address, line, begins in dwarf.rows:
        if begins and scope.holds(address) and line in defined:
            first.setdefault(line, address)
            assert scope.defined(address, line) == defined[line], lines[line - 1]
    assert first.keys() == defined.keys()
    for block in function.blocks.values():
        order = [first[line] for line, _, _ in (*block.phis, *block.steps)] + [first[block.end]]
        assert order == sorted(set(order))


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_where_values_are_and_when(pool: CompilerPool, seed: int) -> None:
    """At the begin of each line exactly those values can be seen that are defined for certain,
    by a search of all ways through the function."""
    made = program(seed)
    dwarf = debugged(pool, made.text)
    for function in made.functions:
        check_dwarf(dwarf, function, made.text)


def test_types_are_called_as_llvm_has_them(pool: CompilerPool) -> None:
    source = """%pt = type { i32, ptr }
%0 = type { i64 }
define void @f(<4 x float> %v, { i8, [2 x i32] } %s, ptr addrspace(1) %a, %pt %p, %0 %u) {
  %one = alloca %pt
  %two = alloca [3 x i8], align 64
  %w = insertvalue %0 %u, i64 1, 0
  %e = fadd x86_fp80 0xK00000000000000000000, 0xK00000000000000000000
  ret void
}"""
    assert shown(pool, source) == {
        "%v": "<4 x float>", "%s": "{ i8, [2 x i32] }", "%a": "ptr addrspace(1)", "%p": "%pt",
        "%u": "%0", "%one": "ptr to %pt", "%two": "ptr to [3 x i8]", "%w": "%0", "%e": "x86_fp80",
    }  # fmt: skip


def test_names_are_those_that_llvm_prints(pool: CompilerPool) -> None:
    source = r"""%x = type { i8 }
define i32 @f(i32, i32 %"a b", i32 %"q\22\5C", i32 %jk.1) {
  %2 = add i32 %0, 1
  br label %3
3:
  %"4" = add i32 %2, 1
  %x = insertvalue %x zeroinitializer, i8 1, 0
  call void @f(i32 1, i32 2, i32 3, i32 4)
  %4 = add i32 %"4", %"a b"
  %5 = extractvalue %x %x, 0
  %"\E4" = zext i8 %5 to i32
  %jk.h1 = add i32 %"\E4", %jk.1
  ret i32 %jk.h1
}""".replace("call void", "%c = call i32")
    found = shown(pool, source)
    assert [*found] == [
        "%0", '%"a b"', r'%"q\22\5C"', "%jk.1", "%2", '%"4"', "%x", "%c", "%4", "%5", r'%"\E4"',
        "%jk.h1",
    ]  # fmt: skip
    assert found["%x"] == "%x"


def test_values_of_invokes_are_there_on_the_normal_way_alone(pool: CompilerPool) -> None:
    dwarf = debugged(pool, INVOKE)
    scope = dwarf.functions["f"]
    lines = INVOKE.split("\n")
    at = {line: address for address, line, begins in reversed(dwarf.rows) if begins}
    seen = {
        lines[line - 1].strip(): scope.defined(address, line)
        for line, address in at.items()
        if scope.holds(address) and line > 6
    }
    assert seen["ret i32 %q"] == {"%x", "%q", "%e"}
    assert seen["ret i32 %p"] == {"%x", "%a", "%p", "%c"}
    assert seen["%c = icmp eq i32 %p, 0"] == {"%x", "%a", "%p"}
    assert shown(pool, INVOKE).keys() == {"%x", "%a", "%p", "%c", "%b", "%q", "%e"}


def test_a_block_without_values_that_stands_above_its_dominator(pool: CompilerPool) -> None:
    source = """define i32 @f(i32 %n) {
  br label %last
first:
  ret i32 1
last:
  %x = add i32 %n, 1
  br label %first
}"""
    dwarf = debugged(pool, source)
    at = {line: address for address, line, begins in dwarf.rows if begins}
    assert dwarf.functions["f"].defined(at[4], 4) == {"%n", "%x"}
    assert dwarf.functions["f"].defined(at[6], 6) == {"%n"}


def test_every_line_can_be_stopped_at(pool: CompilerPool) -> None:
    """Also what LLVM makes no code of, and what is known when it is compiled."""
    source = """declare void @llvm.donothing()
define i32 @f({} %e) {
  %a = freeze {} %e
  br i1 true, label %x, label %y
x:
  switch i32 3, label %y [ i32 4, label %y ]
y:
  fence syncscope("singlethread") seq_cst
  store i32 undef, ptr null
  %u = add i32 undef, 1
  call void @llvm.donothing()
  call void asm sideeffect "", "~{memory}"()
  br label %z
z:
  ret i32 1
}"""
    lines = {line for _, line, begins in debugged(pool, source).rows if begins}
    assert lines >= {3, 4, 6, *range(8, 14), 15}


@pytest.mark.parametrize(
    "source, found",
    [
        (
            "declare void @h(ptr swifterror)\ndefine i32 @f(ptr swifterror %e) {\n"
            "  %a = alloca swifterror ptr\n  store ptr null, ptr %a\n"
            "  call void @h(ptr swifterror %a)\n  %v = load ptr, ptr %a\n"
            "  store ptr %v, ptr %e\n  ret i32 1\n}",
            {"%v"},
        ),
        (
            "declare void @h(ptr inalloca(i32))\ndefine void @f() {\n  %a = alloca inalloca i32\n"
            "  %b = load i32, ptr %a\n  call void @h(ptr inalloca(i32) %a)\n  ret void\n}",
            {"%b"},
        ),
        (
            'define i32 @f(i32 %x) {\n  %r = callbr i32 asm "", "=r,r,!i"(i32 %x)\n'
            "    to label %a [label %b]\na:\n  %y = add i32 %r, 1\n  ret i32 %y\nb:\n"
            "  ret i32 0\n}",
            {"%x", "%y"},
        ),
        (
            "declare x86_amx @llvm.x86.tilezero.internal(i16, i16)\ndefine void @f(i16 %n) "
            '"target-features"="+amx-tile" {\n'
            "  %t = call x86_amx @llvm.x86.tilezero.internal(i16 %n, i16 16)\n  ret void\n}",
            {"%n"},
        ),
        (
            "declare void @g()\ndeclare token @llvm.experimental.gc.statepoint.p0(i64 immarg, "
            "i32 immarg, ptr, i32 immarg, i32 immarg, ...)\n"
            'define void @f(i32 %n) gc "statepoint-example" {\n  %t = call token (i64, i32, ptr, '
            "i32, i32, ...) @llvm.experimental.gc.statepoint.p0(i64 0, i32 0, ptr "
            "elementtype(void ()) @g, i32 0, i32 0, i32 0, i32 0)\n  ret void\n}",
            {"%n"},
        ),
        ("define void @f(i32 %n) presplitcoroutine {\n  %x = add i32 %n, 1\n  ret void\n}", set()),
        (
            "define i32 @f(i32 %n) {\n  ret i32 1\ndead:\n  %x = add i32 %x, 1\n"
            "  br label %dead\n}",
            {"%n"},
        ),
        (
            "define i32 @f(i32 %n) {\n  %a = musttail call i32 @f(i32 %n)\n  ret i32 %a\n}",
            {"%n"},
        ),
        (
            "define i32 @f() {\n  %a = insertvalue [2000 x i32] zeroinitializer, i32 1, 5\n"
            "  %b = extractvalue [2000 x i32] %a, 5\n  ret i32 %b\n}",
            {"%b"},
        ),
    ],
    ids="swifterror inalloca callbr amx token coroutine unreachable musttail large".split(),
)  # fmt: skip
def test_what_is_left_alone(pool: CompilerPool, source: str, found: set[str]) -> None:
    assert shown(pool, source).keys() == found


def test_scalable_vectors_are_left_alone() -> None:
    """There is no code for those on x86: only the text is made."""
    made = made_for("""%s = type { <vscale x 4 x i32>, <vscale x 4 x i32> }
define i32 @f(i32 %n, <vscale x 4 x i32> %v, %s %w) {
  %x = add <vscale x 4 x i32> %v, %v
  %y = extractvalue %s %w, 0
  ret i32 %n
}""")
    assert made.count("!DILocalVariable(") == 1 and 'name: "%n"' in made


def test_naked_functions_are_left_alone(pool: CompilerPool) -> None:
    naked = (
        'define i32 @f(i32 %x) naked {\n  call void asm sideeffect "mov %edi, %eax; ret", ""()\n'
        "  unreachable\n}\n"
    )
    made = debugged(pool, naked + "define i32 @g(i32 %y) {\n  ret i32 %y\n}")
    assert made.functions["f"].every() == [] and len(made.functions["g"].every()) == 1
    elf = ELFFile(io.BytesIO(pool.compile(Request(naked, DEBUG)).object))
    assert elf.get_section_by_name(".text").data().startswith(b"\x89\xf8\xc3")


@pytest.mark.parametrize("words", ["", "minsize optsize", "optnone noinline", "alwaysinline"])
def test_functions_are_neither_optimised_nor_inlined(pool: CompilerPool, words: str) -> None:
    source = f"""define internal i32 @s(i32 %x) {words} "frame-pointer"="none" {{
  %y = mul i32 %x, 3
  ret i32 %y
}}
define i32 @f(i32 %x) {{
  %y = call i32 @s(i32 %x){" alwaysinline" if words == "alwaysinline" else ""}
  ret i32 %y
}}"""
    data = pool.compile(Request(source, DEBUG)).object
    elf = ELFFile(io.BytesIO(data))
    text = elf.get_section_by_name(".text").data()
    made = Dwarf(data).functions
    assert made["f"].ranges != made["s"].ranges
    for scope in made.values():
        assert text[scope.ranges[0][0] :].startswith(_PUSH_RBP)
    assert b"\x6b" in text or b"\x69" in text  # imul by 3 is still there


def test_frames_of_vectors_can_be_followed(pool: CompilerPool) -> None:
    """No stack is aligned for wide vectors, which would move what is at fixed places."""
    source = """define <16 x float> @f(<16 x float> %a, i32 %n) "target-features"="+avx" {
  br label %loop
loop:
  %v = phi <16 x float> [ %a, %0 ], [ %w, %loop ]
  %w = fadd <16 x float> %v, %a
  %c = icmp eq i32 %n, 3
  br i1 %c, label %loop, label %out
out:
  ret <16 x float> %w
}"""
    every = debugged(pool, source).functions["f"].every()
    assert len(every) == 5 and all(v.location[0] == _FBREG for v in every)


def test_arguments_are_at_home_before_the_first_line(pool: CompilerPool) -> None:
    data = pool.compile(Request("define i32 @f(i32 %x) {\n  ret i32 %x\n}", DEBUG)).object
    at = next(address for address, line, _ in Dwarf(data).rows if line == 2)
    text = ELFFile(io.BytesIO(data)).get_section_by_name(".text").data()
    assert b"\x89\x7d\xfc" in text[:at]  # mov %edi, -4(%rbp)


def test_operands_that_must_be_an_alloca_stay(pool: CompilerPool) -> None:
    source = """declare void @llvm.lifetime.start.p0(ptr)
define void @f() {
  %a = alloca i64
  call void @llvm.lifetime.start.p0(ptr %a)
  ret void
}"""
    assert shown(pool, source) == {"%a": "ptr to i64"}


# -- lines


def test_lines_count_from_the_cell(pool: CompilerPool) -> None:
    source = "%pt = type { i32 }\n; generated\ndefine void @f() {\n\n  ret void\n}"
    made = debugged(pool, source, first_line=3)
    assert {line for _, line, _ in made.rows} - {0} == {1, 3}


def test_several_instructions_on_a_line(pool: CompilerPool) -> None:
    source = """declare i32 @g(i32)
define i32 @f(i32 %x) { %a = call i32 @g(i32 %x) %b = mul i32 %a, 3  call void @h() ; call
  %c = icmp eq i32 %b, 4 br i1 %c, label %ret, label %o
ret: store i32 1, ptr @v ret i32 1
o: %p = tail call i32 @g(i32 %b) %s = load i32, ptr @v switch i32 %s, label %ret [ i32 3, label %o ]
}
declare void @h()
@v = global i32 0"""
    made = debugged(pool, source)
    assert made.functions["f"].every() and {
        v.name: v.line for v in made.functions["f"].every()
    } == {"%x": 2, "%a": 2, "%b": 2, "%c": 3, "%p": 5, "%s": 5}
    assert {line for _, line, begins in made.rows if begins} == {2, 3, 4, 5}


def test_lines_that_a_language_has_marked(pool: CompilerPool) -> None:
    source = """define i32 @f(i32 %x) {
  ; line 7
  %a = add i32 %x, 1
  %b = add i32 %a, 1
  ; line 5
  %c = add i32 %b, 1
  ret i32 %c
}"""
    made = debugged(pool, source, marked=True)
    assert [line for _, line, begins in made.rows if begins] == [7, 7, 5]
    assert {v.name: v.line for v in made.functions["f"].every()} == {
        "%x": 7, "%a": 7, "%b": 7, "%c": 7,
    }  # fmt: skip  # `%c` is not there yet where line 7 begins
    assert {line for _, line, _ in debugged(pool, source).rows} - {0} == {1, 3, 4, 6, 7}


def test_debug_information_of_its_own_stays(pool: CompilerPool) -> None:
    source = (DATA / "walk_g_O0.ll").read_text()
    data = pool.compile(Request(source, DEBUG)).object
    made = Dwarf(data)
    assert not any(v.name.startswith("%") for f in made.functions.values() for v in f.every())
    assert {v.name for f in made.functions.values() for v in f.every()} >= {"n", "sum", "v", "x"}
    assert all(
        v.location[0] == _FBREG for f in made.functions.values() for v in f.every()
    ) and ELFFile(io.BytesIO(data)).get_section_by_name(".text").data().startswith(_PUSH_RBP)


# -- what else there is to a request


@pytest.mark.parametrize("source", ["@g = global i32 0", ""])
def test_where_no_lines_can_be_told_there_are_no_sections(pool: CompilerPool, source: str) -> None:
    assert not has_debug_sections(pool.compile(Request(source, DEBUG)).object)


@pytest.mark.parametrize(
    "source", ["define i32 @f(i32 %x) {\n  ret i64 %x\n}", "define i32 @f() {\n  zork\n}"]
)
def test_errors_are_the_same(pool: CompilerPool, source: str) -> None:
    told = []
    for options in (Options(2), DEBUG):
        with pytest.raises(CompileError) as error:
            pool.compile(Request(source, options))
        told.append(error.value.diagnostics)
    assert told[0] == told[1]


def test_rows_of_options(tmp_path: Path) -> None:
    """What was stored before can be read; what is not debugged is stored as before."""
    assert len(Options().row()) == 10 and Options(*Options(3).row()) == Options(3)
    assert Options(*DEBUG.row()) == DEBUG != Options(2)
    cache = ObjectCache(str(tmp_path / "cache"), 1 << 20, "compiler")
    source = "define void @f() { ret void }"
    keys = {
        cache.key(Request(source, options, marked=marked))
        for options in (Options(2), DEBUG)
        for marked in (False, True)
    }
    cache.close()
    assert len(keys) == 3  # an ordinary object does not depend on marks


def test_the_summary_is_that_of_the_ordinary_object(pool: CompilerPool) -> None:
    source = program(8).text + INVOKE
    ordinary, made = (pool.compile(Request(source, options)) for options in (Options(2), DEBUG))
    assert ordinary.summary == made.summary
    assert not has_debug_sections(ordinary.object) and has_debug_sections(made.object)


def test_deep_trees_of_dominators(pool: CompilerPool) -> None:
    """841 blocks in each other: below `DEEPEST` of them lines say what is defined."""
    count = 841
    lines = ["define i32 @f(i32 %x) {", "  br label %b0"]
    for n in range(count):
        lines += [f"b{n}:", f"  %v{n} = add i32 %x, {n}", f"  %c{n} = icmp eq i32 %v{n}, 5"]
        lines += [f"  br i1 %c{n}, label %b{n + 1}, label %end"]
    lines += [f"b{count}:", "  ret i32 1", "end:", "  ret i32 0", "}"]
    dwarf = debugged(pool, "\n".join(lines))
    function = dwarf.functions["f"]

    def depth(scope: Scope) -> int:
        return max(map(depth, scope.inside), default=0) + 1

    assert depth(function) == DEEPEST  # the entry's has no variable, nor is it there
    assert len(function.every()) == 1 + 2 * count
    at = {line: address for address, line, begins in reversed(dwarf.rows) if begins}
    for n in (0, 100, DEEPEST, 700):
        assert len(function.defined(at[4 + 4 * n], 4 + 4 * n)) == 1 + 2 * n
    assert function.defined(at[len(lines) - 1], len(lines) - 1) == {"%x", "%v0", "%c0"}
