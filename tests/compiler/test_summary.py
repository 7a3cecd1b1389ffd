"""What a module offers and asks for, and how its exports stay replaceable."""

from __future__ import annotations

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import CallInfo, Compiled, FunctionInfo, Options, Request
from jitkernel.elf import read_object
from jitkernel.linker.layout import ReadObject

FUNCTIONS = [
    ("define i32 @f(i32 %x) {\n ret i32 %x\n}", FunctionInfo("f", True, "external", "i32 (i32)")),
    ("declare i32 @f(ptr, ...)", FunctionInfo("f", False, "external", "i32 (ptr, ...)")),
    (
        "define internal fastcc signext i8 @f(i8 zeroext %x) {\n ret i8 %x\n}",
        FunctionInfo("f", True, "internal", "i8 (i8)", "fastcc", "signext|0:zeroext"),
    ),
    (
        "%p = type { i64, i64, i64 }\ndeclare void @f(ptr byval(%p) align 8, ptr sret(%p))",
        FunctionInfo(
            "f", False, "external", "void (ptr, ptr)", "", "|0:byval(%p) align 8,1:sret(%p)"
        ),
    ),
    (
        "define weak_odr void @f() {\n ret void\n}",
        FunctionInfo("f", True, "weak_odr", "void ()"),
    ),
    ("declare extern_weak void @f()", FunctionInfo("f", False, "extern_weak", "void ()")),
    (
        'define void @"a b"() {\n ret void\n}',
        FunctionInfo("a b", True, "external", "void ()"),
    ),
    (
        'declare zeroext i8 @"\\C3\\BC"(i1)',
        FunctionInfo("ü", False, "external", "i8 (i1)", "", "zeroext|"),
    ),
    (
        'declare void @f(half, <8 x float>) "target-features"="+avx"',
        FunctionInfo(
            "f",
            False,
            "external",
            "void (half, <8 x float>)",
            features="vectors of 256 bits, sse2",
        ),
    ),
]


@pytest.mark.parametrize(("source", "info"), FUNCTIONS)
def test_functions(pool: CompilerPool, source: str, info: FunctionInfo) -> None:
    assert pool.compile(Request(source)).summary.functions == (info,)


# source, (type, linkage, constant, thread_local)
VARIABLES = [
    ("@g = global i32 0", ("i32", "external", False, False)),
    ("@g = constant i32 0", ("i32", "external", True, False)),
    ("@g = external global ptr", ("ptr", "external", False, False)),
    (
        '@g = dso_local unnamed_addr constant [2 x i8] c"a\\00", align 1',
        ("[2 x i8]", "external", True, False),
    ),
    ("@g = internal thread_local(initialexec) global i8 0", ("i8", "internal", False, True)),
    ("@g = common global i64 0", ("i64", "common", False, False)),
    ("@g =\n  constant i32 0", ("i32", "external", True, False)),
    ("%p = type { i8 }\n@g = global %p zeroinitializer", ("%p", "external", False, False)),
]


@pytest.mark.parametrize(("source", "facts"), VARIABLES)
def test_variables(pool: CompilerPool, source: str, facts: tuple[object, ...]) -> None:
    (info,) = pool.compile(Request(source)).summary.variables
    assert (info.type, info.linkage, info.constant, info.thread_local) == facts
    assert info.defined == ("external global" not in source)


def test_types_that_the_text_defines(pool: CompilerPool) -> None:
    source = (
        "%a = type { i32, %b }\n%b = type <{ i8, ptr }>\n%unused = type { i64 }\n"
        '%"x y" = type { %z }\n%z = type opaque\n'
        "declare void @f(%a)\ndeclare void @h(ptr byval({ i8 }))\n"
        '@g = external global [2 x %b]\ndeclare void @k(ptr sret(%"c d"))\n%"c d" = type { i16 }'
    )
    assert pool.compile(Request(source)).summary.types == {
        "a": "{ i32, %b }",
        "b": "<{ i8, ptr }>",
        "c d": "{ i16 }",
        "unused": "{ i64 }",
        "x y": "{ %z }",
        "z": "opaque",
    }


@pytest.mark.parametrize("more", ["", "declare void @copy(ptr noalias, ptr noalias)\n"])
def test_aliases_are_exports(pool: CompilerPool, more: str) -> None:
    source = (
        f"{more}@g = global i32 5\n@a = alias i32, ptr @g\n@b = alias i32, ptr @a\n"
        "define i32 @f(i32 %x) {\n %v = load i32, ptr @b\n ret i32 %v\n}\n"
        "@h = alias i32 (i32), ptr @f\n@i = internal alias i32, ptr @g"
    )
    compiled = pool.compile(Request(source))
    assert [(v.name, v.linkage) for v in compiled.summary.variables] == [
        ("g", "external"),
        ("a", "external"),
        ("b", "external"),
        ("i", "internal"),
    ]
    functions = [(f.name, f.type) for f in compiled.summary.functions if f.name != "copy"]
    assert functions == [("f", "i32 (i32)"), ("h", "i32 (i32)")]
    assert (
        _bindings(compiled)
        >= {"g": "weak", "a": "weak", "b": "weak", "f": "weak", "h": "weak"}.items()
    )


def _bindings(compiled: Compiled) -> set[tuple[str, str]]:
    elf = read_object(compiled.object)
    names = {0: "local", 1: "global", 2: "weak"}
    return {
        (elf.symbol_name(i), names[s[1] >> 4]) for i, s in enumerate(elf.symbols) if s[0] and s[3]
    }


EXPORTS = (
    "define i32 @f(i32 %x) {\n  ret i32 7\n}\n@c = constant i32 5\n"
    "define i32 @g(i32 %x) {\n  %a = call i32 @f(i32 %x)\n  %b = load i32, ptr @c\n"
    "  %r = add i32 %a, %b\n  ret i32 %r\n}\n"
    "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
    "[{ i32, ptr, ptr } { i32 1, ptr @k, ptr null }]\ndefine internal void @k() {\n  ret void\n}\n"
)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("marks", ["", "dso_local ", "hidden ", "protected "])
def test_exports_are_not_copied_into_their_users(
    pool: CompilerPool, level: int, marks: str
) -> None:
    source = EXPORTS.replace("define i32", f"define {marks}i32").replace(
        "= const", f"= {marks}const"
    )
    open_ = pool.compile(Request(source, Options(level, inline=False)))
    assert _bindings(open_) >= {("f", "weak"), ("c", "weak"), ("g", "weak")}
    assert _referenced(open_) >= {"f", "c"}
    closed = pool.compile(Request(source, Options(level, closed=True)))
    assert _bindings(closed) >= {("f", "global"), ("g", "global")}
    if level >= 2:
        assert not _referenced(closed) & {"f", "c"}
    inlined = pool.compile(Request(source, Options(level)))
    assert _bindings(inlined) >= {("f", "weak"), ("c", "weak"), ("g", "weak")}
    assert ReadObject.of(inlined.object).held() >= ({"f", "c"} if level else {"c"})
    if level >= 2:
        assert not _referenced(inlined) & {"f", "c"}, "and the object says so"


def _referenced(compiled: Compiled) -> set[str]:
    elf = read_object(compiled.object)
    return {
        elf.symbol_name(info >> 32)
        for index, rows in elf.relocations.items()
        if elf.section_name(index).startswith(".text")
        for _, info, _ in rows
    }


def test_linkages_that_stay_as_they_are(pool: CompilerPool) -> None:
    source = (
        "@w = weak global i32 0\n@c = common global i32 0\n@e = external global i32\n"
        "define linkonce_odr void @l() {\n  ret void\n}\n"
        "define void @f() {\n  call void @l()\n  ret void\n}"
    )
    compiled = pool.compile(Request(source, Options(0)))
    assert _bindings(compiled) >= {("w", "weak"), ("c", "global"), ("l", "weak"), ("f", "weak")}


def test_a_function_of_the_session_is_not_taken_for_libc(pool: CompilerPool) -> None:
    source = (
        "declare double @pow(double, double)\ndefine double @f() {\n"
        "  %r = call double @pow(double 2.0, double 3.0)\n  ret double %r\n}"
    )
    assert "pow" not in _referenced(pool.compile(Request(source)))
    assert "pow" in _referenced(pool.compile(Request(source, nobuiltin=frozenset({"pow"}))))
    own = source.replace("declare double @pow(double, double)", "") + (
        "\ndefine double @pow(double %x, double %y) {\n  ret double 0.0\n}"
    )
    assert "pow" in _referenced(pool.compile(Request(own, Options(inline=False))))
    assert ReadObject.of(pool.compile(Request(own)).object).held() == {"pow"}


CALLS = [
    ("declare i32 @f(i32)", "call i32 @f(i64 1)", ("f", "i32 (i64)", 4)),
    ("declare i32 @f(i32)", "call void @f(i32 1)", ("f", "void (i32)", 4)),
    ("declare i32 @f(i32)", "call fastcc i32 @f(i32 1)", ("f", "fastcc i32 (i32)", 4)),
    ("declare i32 @f(ptr, ...)", "call i32 @f(ptr null)", ("f", "i32 (ptr)", 4)),
    ("declare i32 @f(ptr, ...)", "call i32 (ptr, ...) @f(ptr null, i8 1)", None),
    ("declare %p @f(%p)", "call %p @f(%p zeroinitializer)", None),
    ("declare %p @f(%p)", "call %q @f(%q zeroinitializer)", None),
    ("declare %p @f(%p)", "call %r @f(%p zeroinitializer)", ("f", "%r (%p)", 4)),
    ("declare void @f(i8 signext)", "call void @f(i8 1)", None),
    ("@f = external global i32", "call void @f()", None),
]


@pytest.mark.parametrize(("declaration", "call", "info"), CALLS)
def test_calls(
    pool: CompilerPool, declaration: str, call: str, info: tuple[str, str, int] | None
) -> None:
    source = (
        "%p = type { i32 } %q = type { i32 } %r = type { i64 }\n"
        f"{declaration}\ndefine void @main() {{\n  {call}\n  ret void\n}}"
    )
    found = pool.compile(Request(source)).summary.calls
    assert found == ((CallInfo(*info),) if info else ())


def test_internal_code_has_no_summary_and_keeps_its_symbols(pool: CompilerPool) -> None:
    compiled = pool.compile(Request(EXPORTS, Options(1, internal=True)))
    assert compiled.summary.functions == () and compiled.summary.variables == ()
    assert _bindings(compiled) >= {("f", "global")}


def test_alignment_follows_the_machine(pool: CompilerPool) -> None:
    """An `i64` without `align` is aligned to 8 only where LLVM knew the data layout in time."""
    compiled = pool.compile(Request("@a = global i8 1\n@g = global i64 1\n", Options(0)))
    elf = read_object(compiled.object)
    assert [s[4] for i, s in enumerate(elf.symbols) if elf.symbol_name(i) == "g"] == [8]


def test_an_empty_cell(pool: CompilerPool) -> None:
    assert pool.compile(Request("")).summary.functions == ()
    assert pool.compile(Request("; only a comment")).summary.variables == ()


def test_calls_are_compared_as_llvm_reads_their_types(pool: CompilerPool) -> None:
    """Pointers with a type are `ptr`, functions' too; only the last call is another one."""
    source = """declare i32 @printf(i8*, ...)
declare i32 @a(void (i32)*, i32 (i8*)*)
define i32 @g() {
  %1 = call i32 (i8*, ...) @printf(i8* null, i32 1)
  %2 = call i32 @a(void (i32)* null, i32 (i8*)* null)
  %3 = call i32 (void (i32)*, i32 (i8*)*) @a(void (i32)* null, i32 (i8*)* null)
  %4 = call i32 (i64) @a(i64 5)
  ret i32 %1
}
"""
    calls = pool.compile(Request(source)).summary.calls
    assert [tuple(call) for call in calls] == [("a", "i32 (i64)", 7)]
