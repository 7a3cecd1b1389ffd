"""Every type through a thunk, there and back, against LLVM's own LLJIT in this process.

A row is a module with `@f`, and the arguments of one call.  LLJIT compiles the same module with a
caller that has the arguments as constants; both results must read the same.
"""

from __future__ import annotations

import ctypes
import itertools

import pytest
from llvmlite import binding as llvm

from jitkernel.values.value import TypedValue
from tests.seeds import sampled

_COUNT = itertools.count()


@pytest.fixture(scope="module")
def oracle():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("libgcc_s.so.1")  # arithmetic of fp128
    machine = llvm.Target.from_default_triple().create_target_machine(
        jit=True, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    jit = llvm.create_lljit_compiler(machine, use_jit_link=False, suppress_errors=False)

    def run(module: str, result: str, call: str) -> bytes:
        name = f"t{next(_COUNT)}"
        text = (
            f"{module}\ndefine void @{name}(ptr %out) {{\n  %r = {call}\n"
            f"  store {result} %r, ptr %out, align 1\n  ret void\n}}\n"
        )
        library = (
            llvm.JITLibraryBuilder().add_ir(text).export_symbol(name).add_current_process()
            .link(jit, name)
        )  # fmt: skip
        out = ctypes.create_string_buffer(4096)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library[name])(ctypes.addressof(out))
        library.close()
        return out.raw

    return run


def same(s, oracle, module: str, result: str, arguments: str, attributes: tuple[str, ...] = ()):
    """Run `@f(arguments)` in both.  `attributes` are those of the parameters, in order."""
    s.run(module)
    ours = s.run(f"@f({arguments})")
    words = arguments if not attributes else _with_attributes(arguments, attributes)
    theirs = oracle(module, result, f"call {result} @f({words})")
    size = len(ours.typed.data)
    wanted = TypedValue(ours.typed.type, theirs[:size], ours.typed.layouts)
    assert ours.text == wanted.text()
    return ours


def _with_attributes(arguments: str, attributes: tuple[str, ...]) -> str:
    parts = arguments.split(", ")
    return ", ".join(
        " ".join([*p.split(" ")[:1], a, *p.split(" ")[1:]])
        for p, a in zip(parts, attributes, strict=True)
    )


WIDTHS = [1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 200, 256]  # fmt: skip


@pytest.mark.parametrize("bits", sampled(WIDTHS, 3))
def test_integers_of_every_width(s, oracle, bits):
    t = f"i{bits}"
    module = f"define {t} @f({t} %a, {t} %b) {{\n  %m = mul {t} %a, %b\n  %x = xor {t} %m, -1\n  ret {t} %x\n}}"
    top = (1 << bits - 1) - 1
    for a, b in ((top, top), (-top - 1, top), (0, -1), (top // 3, 3 if bits > 3 else 1)):
        if t == "i1":
            a, b = abs(a) & 1, abs(b) & 1
        same(s, oracle, module, t, f"{t} {a}, {t} {b}")


FLOATS = [
    ("half", "0xH3E00", "0xHC100"),
    ("bfloat", "0xR3FC0", "0xRC020"),
    ("float", "1.5", "-2.5"),
    ("double", "0.1", "-2.5e300"),
    ("x86_fp80", "0xK3FFFC000000000000000", "0xKC000A000000000000000"),
    ("fp128", "0xL00000000000000003FFF800000000000", "0xL0000000000000000C000400000000000"),
    ("float", "0x7FF0000000000000", "0x7FF8000000000000"),
    ("double", "0x8000000000000000", "0x0000000000000001"),
]


@pytest.mark.parametrize(("type", "a", "b"), FLOATS)
def test_floating_point(s, oracle, type, a, b):
    module = (
        f"define {type} @f({type} %a, {type} %b) {{\n  %m = fmul {type} %a, %b\n  ret {type} %m\n}}"
    )
    same(s, oracle, module, type, f"{type} {a}, {type} {b}")
    # The bits themselves, not only what arithmetic makes of them.
    module = f"define {type} @f({type} %a, {type} %b) {{\n  ret {type} %b\n}}"
    same(s, oracle, module, type, f"{type} {a}, {type} {b}")


AGGREGATES = [
    ("{ i32, i32 }", "{ i32 1, i32 -2 }"),
    ("{ i8, i64, i8 }", "{ i8 1, i64 -2, i8 3 }"),
    ("<{ i8, i64, i16 }>", "<{ i8 1, i64 -2, i16 3 }>"),
    ("{ float, double, half }", "{ float 0.5, double 0.1, half 0xH3C00 }"),
    ("{ i1, i7, i33 }", "{ i1 true, i7 -5, i33 4294967296 }"),
    ("{ { i8, i16 }, [3 x i8] }", "{ { i8, i16 } { i8 1, i16 2 }, [3 x i8] [i8 1, i8 2, i8 3] }"),
    ("{ x86_fp80, i8 }", "{ x86_fp80 0xK3FFFC000000000000000, i8 7 }"),
    ("{ i128, i8 }", "{ i128 -170141183460469231731687303715884105728, i8 7 }"),
    ("[4 x i16]", "[i16 1, i16 -1, i16 2, i16 -2]"),
    ("[2 x { i8, ptr }]", "[{ i8, ptr } { i8 1, ptr null }, { i8, ptr } { i8 2, ptr null }]"),
    ("[64 x i8]", "zeroinitializer"),
    ("{ <4 x float>, i32 }", "{ <4 x float> <float 1.0, float 2.0, float 3.0, float 4.0>, i32 5 }"),
    ("{}", "{}"),
]


@pytest.mark.parametrize(("type", "value"), AGGREGATES)
def test_aggregates_by_value(s, oracle, type, value):
    module = f"define {type} @f(i32 %before, {type} %a, i32 %after) {{\n  ret {type} %a\n}}"
    s.run(module)
    if type == "{}":
        assert s.run("@f(i32 1, {} {}, i32 2)").text == "{} {}"
        return
    same(s, oracle, module, type, f"i32 1, {type} {value}, i32 2")


VECTORS = [
    ("<4 x float>", "fadd"),
    ("<2 x double>", "fmul"),
    ("<8 x float>", "fadd"),
    ("<16 x float>", "fadd"),
    ("<4 x i32>", "mul"),
    ("<8 x i32>", "mul"),
    ("<16 x i32>", "add"),
    ("<3 x i32>", "add"),
    ("<3 x i8>", "add"),
    ("<16 x i8>", "add"),
    ("<2 x i64>", "sub"),
    ("<8 x i1>", "xor"),
    ("<3 x i1>", "xor"),
    ("<16 x i1>", "xor"),
    ("<64 x i1>", "xor"),
    ("<4 x half>", "fadd"),
    ("<1 x i64>", "add"),
    ("<2 x ptr>", ""),
]


@pytest.mark.parametrize(("type", "op"), VECTORS)
def test_vectors(s, oracle, type, op):
    count, _, element = type.strip("<>").partition(" x ")
    n = int(count)
    if element == "i1":
        values = ["true" if i % 3 else "false" for i in range(n)]
    elif element == "ptr":
        values = ["null"] * n
    elif element == "half":
        values = [f"0xH{0x3C00 + 64 * i:04X}" for i in range(n)]
    elif element in ("float", "double"):
        values = [f"{i + 0.5}" for i in range(n)]
    else:
        values = [str(i * 3 - 5) for i in range(n)]
    value = "<" + ", ".join(f"{element} {v}" for v in values) + ">"
    body = f"  %r = {op} {type} %a, %b\n  ret {type} %r" if op else f"  ret {type} %a"
    module = f"define {type} @f({type} %a, {type} %b) {{\n{body}\n}}"
    same(s, oracle, module, type, f"{type} {value}, {type} {value}")


ATTRIBUTES = [
    ("define signext i8 @f(i8 signext %a) {\n  %b = sub i8 %a, 1\n  ret i8 %b\n}", "i8", "i8 -128", ("signext",)),
    ("define zeroext i16 @f(i16 zeroext %a) {\n  %b = sub i16 %a, 1\n  ret i16 %b\n}", "i16", "i16 0", ("zeroext",)),
    ("define i32 @f(i32 inreg %a, i32 inreg %b) {\n  %c = sub i32 %a, %b\n  ret i32 %c\n}", "i32", "i32 9, i32 4", ("inreg", "inreg")),
]  # fmt: skip


@pytest.mark.parametrize(("module", "result", "arguments", "attributes"), ATTRIBUTES)
def test_extensions_and_registers(s, oracle, module, result, arguments, attributes):
    same(s, oracle, module, result, arguments, attributes)


@pytest.mark.parametrize("cc", ["ccc", "fastcc", "coldcc", "preserve_mostcc", "tailcc"])
def test_calling_conventions(s, cc):
    # What must agree is caller and callee: the same cell with a caller of its own is the oracle.
    parameters = ", ".join(f"i32 %a{i}" for i in range(9))
    arguments = ", ".join(f"i32 {i + 1}" for i in range(9))
    sums = "\n".join(f"  %s{i} = add i32 %s{i - 1}, %a{i}" for i in range(1, 9))
    s.run(
        f"define {cc} i32 @f({parameters}) {{\n  %s0 = add i32 %a0, 0\n{sums}\n  ret i32 %s8\n}}\n"
        f"define i32 @inner() {{\n  %r = call {cc} i32 @f({arguments})\n  ret i32 %r\n}}"
    )
    assert s.call("f", *range(1, 10)) == s.call("inner") == 45
    s.run(f"define i32 @outer() {{\n  %r = call {cc} i32 @f({arguments})\n  ret i32 %r\n}}")
    assert s.call("outer") == 45


def test_struct_returned_through_memory(s):
    s.run(
        "%big = type { i64, i64, i64, i64 }\n@room = global %big zeroinitializer\n"
        "define void @make(ptr sret(%big) %out, i64 %n) {\n  store i64 %n, ptr %out\n"
        "  %p = getelementptr %big, ptr %out, i32 0, i32 3\n  store i64 7, ptr %p\n  ret void\n}"
    )
    s.run("@make(@room, 5)")
    assert s["room"].value == (5, 0, 0, 7)


def test_struct_by_value_on_the_stack(s):
    s.run(
        "%big = type { i64, i64, i64, i64 }\n"
        "@arg = global %big { i64 1, i64 2, i64 3, i64 4 }\n"
        "define i64 @last(i32 %x, ptr byval(%big) %b, i32 %y) {\n"
        "  %p = getelementptr %big, ptr %b, i32 0, i32 3\n  %v = load i64, ptr %p\n"
        "  store i64 9, ptr %p\n  %w = zext i32 %y to i64\n  %r = add i64 %v, %w\n  ret i64 %r\n}"
    )
    assert s.run("@last(1, @arg, 10)").value == 14
    assert s["arg"].value == (1, 2, 3, 4), "the callee had a copy"


def test_a_returned_struct_larger_than_the_registers(s, oracle):
    t = "{ i64, i64, i64, i64, i64 }"
    module = (
        f"define {t} @f(i64 %a) {{\n  %x = insertvalue {t} zeroinitializer, i64 %a, 0\n"
        f"  %y = insertvalue {t} %x, i64 -1, 4\n  ret {t} %y\n}}"
    )
    same(s, oracle, module, t, "i64 77")


def test_more_arguments_than_registers(s, oracle):
    n = 20
    parameters = ", ".join(f"{'i64' if i % 2 else 'double'} %a{i}" for i in range(n))
    lines = ["  %s0 = fptosi double %a0 to i64"]
    for i in range(1, n):
        value = f"%a{i}"
        if i % 2 == 0:
            lines.append(f"  %c{i} = fptosi double %a{i} to i64")
            value = f"%c{i}"
        lines.append(f"  %m{i} = mul i64 {value}, {i}\n  %s{i} = add i64 %s{i - 1}, %m{i}")
    body = "\n".join(lines)
    module = f"define i64 @f({parameters}) {{\n{body}\n  ret i64 %s{n - 1}\n}}"
    arguments = ", ".join(f"i64 {i}" if i % 2 else f"double {i}.0" for i in range(n))
    assert same(s, oracle, module, "i64", arguments).value == sum(i * i for i in range(n))


@pytest.mark.process
def test_variadic_calls(s):
    assert s.run('@printf("%d %ld %.2f %s %c|", 42, 5000000000, 2.5, "text", 33)').stdout == (
        "42 5000000000 2.50 text !|"
    )
    s.run("@b = global [64 x i8] zeroinitializer")
    r = s.run('@snprintf(@b, 64, "%s=%g,%x", "pi", 3.25, 255)')
    assert r.value == 10
    assert bytes(b & 255 for b in s["b"].value[:11]) == b"pi=3.25,ff\0"
    assert s.call("printf", "%d-%s-%.1f\n", 7, "x", 0.5) == 8


def test_a_variadic_function_of_a_cell(s):
    s.run(
        "%va = type { i32, i32, ptr, ptr }\ndeclare void @llvm.va_start(ptr)\ndeclare void @llvm.va_end(ptr)\n"
        "define i32 @second(i32 %n, ...) {\n  %l = alloca %va\n  call void @llvm.va_start(ptr %l)\n"
        "  %a = va_arg ptr %l, i32\n  %b = va_arg ptr %l, i32\n  call void @llvm.va_end(ptr %l)\n  ret i32 %b\n}"
    )
    assert s.run("@second(2, 10, 20)").value == 20
    assert s.call("second", 2, 10, 30) == 30


def test_pointers_to_functions_and_data(s):
    s.run(
        "define i32 @twice(i32 %x) {\n  %r = shl i32 %x, 1\n  ret i32 %r\n}\n"
        "define i32 @apply(ptr %f, i32 %x) {\n  %r = call i32 %f(i32 %x)\n  ret i32 %r\n}\n"
        "@v = global [3 x i32] [i32 4, i32 5, i32 6]\n"
        "define ptr @at(i64 %i) {\n  %p = getelementptr i32, ptr @v, i64 %i\n  ret ptr %p\n}\n"
        "define ptr @null() {\n  ret ptr null\n}"
    )
    assert s.run("@apply(@twice, 21)").value == 42
    assert s.run("@at(0)").text == "ptr @v"
    assert s.run("@at(1)").text == "ptr @v+4"
    assert s.run("@null()").text == "ptr null"
    assert s.run("@malloc(8)").text.endswith("(heap)")
    for number in ("0x4", "0xffffffffffffffff"):  # nothing is there, and no heap either
        made = (
            f"define ptr @odd() {{\n  ret ptr inttoptr (i64 {int(number, 16)} to ptr)\n}}\n@odd()"
        )
        assert s.run(made).text == f"ptr {number}"
    s.run(
        "@stdout = external global ptr\n"
        "define ptr @out() {\n  %p = load ptr, ptr @stdout\n  ret ptr %p\n}"
    )
    shown = s.run("@out()").text
    assert shown.endswith(" (stdout, libc.so.6)")
    assert s.run(f"@kept = {shown}\n@kept").text == shown


def test_named_types_keep_their_name(s):
    s.run(
        "%pt = type { i32, i32 }\ndefine %pt @flip(%pt %p) {\n  %x = extractvalue %pt %p, 0\n"
        "  %y = extractvalue %pt %p, 1\n  %a = insertvalue %pt poison, i32 %y, 0\n"
        "  %b = insertvalue %pt %a, i32 %x, 1\n  ret %pt %b\n}"
    )
    assert s.run("@flip(%pt { i32 1, i32 2 })").text == "%pt { i32 2, i32 1 }"
    assert s.call("flip", (3, 4)) == (4, 3)


def test_void_shows_nothing(s):
    r = s.run("define void @f() {\n  ret void\n}\n@f()")
    assert (r.value, r.text) == (None, "")
    assert s.call("f") is None
