"""Functions as files: what was exported gives the same results where there is no jitkernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.elf import read_object
from jitkernel.elf.stack_maps import read_stack_maps
from jitkernel.errors import LinkError, UsageError
from jitkernel.portable import FORMS

COUNTER = """@n = global i32 4
define i32 @bump(i32 %x) {
  %a = load i32, ptr @n
  %b = add i32 %a, %x
  store i32 %b, ptr @n
  ret i32 %b
}"""
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
needs_ld = pytest.mark.skipif(shutil.which("ld") is None, reason="there is no ld")


def python(source: str, folder: Path) -> str:
    """What a fresh Python without any package prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source], cwd=folder, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def call(library: Path, name: str, *arguments: str, result: str = "c_int") -> str:
    source = (
        f"import ctypes; l = ctypes.CDLL({str(library)!r}); f = l[{name!r}]; "
        f"f.restype = ctypes.{result}; print(f({', '.join(arguments)}))"
    )
    return python(source, library.parent).strip()


def compiled(main: str, folder: Path, *more: str) -> str:
    """What a C program prints that was linked with an export."""
    (folder / "main.c").write_text(main)
    subprocess.run(["gcc", "main.c", *more, "-o", "main"], cwd=folder, check=True, timeout=60)
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@needs_ld
def test_callees_of_other_cells_and_present_values(s: Session, tmp_path: Path) -> None:
    s.run(COUNTER)
    s.run(
        "define i32 @twice(i32 %x) {\n  %a = call i32 @bump(i32 %x)\n  %b = mul i32 %a, 2\n  ret i32 %b\n}"
    )
    assert s.call("twice", 1) == 10
    done = s.export("twice", str(tmp_path / "libt.so"))
    assert (done.names, done.cells) == (("twice",), tuple(cell.number for cell in s.cells))
    assert done.variables == done.present == ("n",)
    assert done.size == (tmp_path / "libt.so").stat().st_size
    assert call(tmp_path / "libt.so", "twice", "1") == str(2 * (4 + 1 + 1))
    assert s.call("twice", 1) == 2 * (4 + 1 + 1), "the session has its own"
    first = s.export("twice", str(tmp_path / "first.so"), globals="first")
    assert first.variables == ("n",) and first.present == ()
    assert call(tmp_path / "first.so", "twice", "1") == str(2 * (4 + 1))


@needs_ld
def test_safepoints_leave_with_their_functions(s: Session, tmp_path: Path) -> None:
    """A program's own collector finds them where a linker leaves `.llvm_stackmaps`."""
    s.run(
        "declare i64 @labs(i64)\ndefine i64 @far(i64 %x) noinline {\n"
        "  %y = call i64 @labs(i64 %x)\n  ret i64 %y\n}"
    )
    s.run(
        'define i64 @held(ptr addrspace(1) %o) gc "statepoint-example" {\n'
        "  %a = call i64 @far(i64 3)\n  %b = load i64, ptr addrspace(1) %o\n"
        "  %r = add i64 %a, %b\n  ret i64 %r\n}"
    )
    [point] = s.stack_maps.safepoints()
    s.export("held", str(tmp_path / "held.o"))
    obj = read_object((tmp_path / "held.o").read_bytes())
    [index] = [i for i in range(len(obj.sections)) if obj.section_name(i) == ".llvm_stackmaps"]
    [left] = read_stack_maps(bytes(obj.content(index))).safepoints()
    assert (left.frame, left.pointers) == (point.frame, point.pointers) and left.pointers


def test_handles_name_what_they_stand_for(s: Session, tmp_path: Path) -> None:
    s.run("@n = global i32 5\ndefine i32 @get() {\n  %x = load i32, ptr @n\n  ret i32 %x\n}")
    assert s.export(s["get"], tmp_path / "one.o").names == ("get",)
    assert s.export([s["get"], "n"], tmp_path / "two.o").names == ("get", "n")
    assert s.export(s["n"], tmp_path / "three.o").names == ("n",)
    with Session() as other:
        other.run("define void @get() {\n  ret void\n}")
        with pytest.raises(UsageError, match=r"<@get void \(\)> is another session's"):
            s.export([other["get"]], tmp_path / "other.o")


@needs_ld
def test_what_each_library_has_of_its_own_is_in_it(s: Session, tmp_path: Path) -> None:
    """`atexit` and its like, which libc leaves to each program's linker."""
    names = ("atexit", "at_quick_exit")
    text = "".join(f"declare i32 @{n}(ptr)\n" for n in names)
    text += "declare i32 @pthread_atfork(ptr, ptr, ptr)\n@n = internal global i32 1\n"
    text += "define internal void @at() {\n store i32 7, ptr @n\n ret void\n}\n"
    text += "declare i32 @fork()\ndeclare void @_exit(i32)\ndefine i32 @go() {\n"
    text += "".join(f" %{n} = call i32 @{n}(ptr @at)\n" for n in names)
    text += """ %r = call i32 @pthread_atfork(ptr @at, ptr null, ptr null)
 %p = call i32 @fork()
 %c = icmp eq i32 %p, 0
 br i1 %c, label %child, label %on
child:
 call void @_exit(i32 0)
 unreachable
on:
 %v = load i32, ptr @n
 ret i32 %v
}"""
    s.run(text)
    s.export("go", str(tmp_path / "go.so"))
    assert call(tmp_path / "go.so", "go") == str(s.call("go")) == "7"


@needs_ld
def test_only_exports_are_seen(s: Session, tmp_path: Path) -> None:
    s.run(COUNTER)
    s.run("define i32 @one() {\n  %a = call i32 @bump(i32 1)\n  ret i32 %a\n}")
    s.export("one", str(tmp_path / "one.so"))
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "one.so"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    assert [line.split()[-1] for line in out.splitlines()] == ["one"]


@needs_ld
def test_pointers_in_variables(s: Session, tmp_path: Path) -> None:
    """To variables, into them, behind them, to functions, text and constants; and rings."""
    s.run(
        "@t = global [3 x i32] [i32 1, i32 2, i32 3]\ndefine i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"
    )
    s.run(
        "%node = type { ptr, i32 }\n@x = global %node { ptr @y, i32 1 }\n@y = global %node { ptr @x, i32 2 }"
    )
    s.run('@fn = ptr @sq\n@end = ptr null\n@text = ptr "abc"\n@number = i64 1125899906842624')
    s.run("store ptr getelementptr (i32, ptr @t, i64 3), ptr @end\nret void")
    s.run("""define i32 @walk() {
  %f = load ptr, ptr @fn
  %a = call i32 %f(i32 5)
  %e = load ptr, ptr @end
  %l = getelementptr i32, ptr %e, i64 -1
  %b = load i32, ptr %l
  %p = load ptr, ptr @x
  %q = load ptr, ptr %p
  %r = getelementptr %node, ptr %q, i64 0, i32 1
  %c = load i32, ptr %r
  %s = load ptr, ptr @text
  %d8 = load i8, ptr %s
  %d = zext i8 %d8 to i32
  %ab = add i32 %a, %b
  %cd = add i32 %c, %d
  %sum = add i32 %ab, %cd
  ret i32 %sum
}""")
    assert s.call("walk") == 25 + 3 + 1 + ord("a")
    done = s.export("walk", str(tmp_path / "w.so"))
    assert set(done.present) == {"fn", "end", "x", "y", "t", "text"}
    assert call(tmp_path / "w.so", "walk") == str(25 + 3 + 1 + ord("a"))


def test_integers_that_look_like_addresses_stay(s: Session, tmp_path: Path) -> None:
    s.run("@g = global i64 0\ndefine i64 @get() {\n  %v = load i64, ptr @g\n  ret i64 %v\n}")
    s["g"].value = address = s["g"].address
    s.export("get", str(tmp_path / "g.so"))
    assert call(tmp_path / "g.so", "get", result="c_int64") == str(address)


def test_a_pointer_to_the_heap_cannot_leave(s: Session, tmp_path: Path) -> None:
    s.run("@p = global ptr null\ndefine ptr @get() {\n  %v = load ptr, ptr @p\n  ret ptr %v\n}")
    s.run("%m = call ptr @malloc(i64 8)\nstore ptr %m, ptr @p\nret void")
    with pytest.raises(UsageError, match=r"@p holds the address 0x\w+, in the program's heap"):
        s.export("get", str(tmp_path / "g.so"))
    assert not os.listdir(tmp_path)
    assert s.export("get", str(tmp_path / "g.o"), globals="first").variables == ("p",)


def test_what_only_a_statement_gave_a_value_keeps_it(s: Session, tmp_path: Path) -> None:
    s.run("@r = i64 5")
    s.run("@own = i64 1\n@more = i64 2")
    s.run(
        "define i64 @get() {\n  %a = load i64, ptr @r\n  %b = load i64, ptr @more\n  %c = add i64 %a, %b\n  ret i64 %c\n}"
    )
    done = s.export("get", str(tmp_path / "g.so"), globals="first")
    assert set(done.present) == {"r", "more"}
    assert call(tmp_path / "g.so", "get", result="c_int64") == "7"


@needs_gcc
def test_c_cells(s: Session, tmp_path: Path) -> None:
    """With the types of C in the header; statics of functions, libm, the archive, the object."""
    s.run(
        "#include <math.h>\ntypedef struct { double x, y; } pt;\n"
        "double norm(const pt *p) { static int calls; calls++; return hypot(p->x, p->y) + calls; }",
        language="c",
    )
    s.run("pt z = {3, 4};\nnorm(&z)", language="c")
    s.run("define i64 @plain(i32 %x, i1 zeroext %b, ptr %p, double %d) {\n  ret i64 9\n}")
    names = ["norm", "plain"]
    for ending in (".h", ".o", ".a"):
        done = s.export(names, str(tmp_path / f"libn{ending}"))
        assert [os.path.basename(p) for p in done.needs.values()] == ["libm.so.6"]
    main = (
        '#include "libn.h"\n#include <stdio.h>\nint main(void) { pt z = {3, 4};\n'
        "  int64_t n = plain(1, true, 0, 2.0); double a = norm(&z);\n"
        '  printf("%g %g %d", a, norm(&z), (int) n); }'
    )
    assert compiled(main, tmp_path, "libn.o", "-lm") == "7 8 9"
    assert compiled(main, tmp_path, "-L.", "-ln", "-lm") == "7 8 9"
    assert "int64_t plain(int32_t, bool, void *, double);" in (tmp_path / "libn.h").read_text()
    assert "double norm(const pt *p);" in (tmp_path / "libn.h").read_text()


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_a_header_of_c_can_be_included_in_cpp(s: Session, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    s.run(
        "_Bool any(const int *restrict p, int n) { while (n--) if (*p++) return 1; return 0; }", "c"
    )
    s.export(["any"], tmp_path / "any.h")
    (tmp_path / "a.cc").write_text('#include "any.h"\nbool f(int *p) { return any(p, 3); }\n')
    subprocess.run(["g++", "-fsyntax-only", "-Wall", "-Werror", "a.cc"], cwd=tmp_path, check=True)


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_a_header_has_names_that_are_words_of_cpp(s: Session, tmp_path: Path) -> None:
    """Those of parameters and members have others there; C++ cannot call a function of such a
    name, and does not see it."""
    pytest.importorskip("ziglang")
    s.run(
        """struct old { int new, class; };
int f(struct old *this) { return this->new; }
int try(int with) { return with; }
int and = 3;""",
        "c",
    )
    s.run("define i32 @not() {\n  ret i32 1\n}")
    s.export(["f", "try", "and", "not"], tmp_path / "words.h")
    (tmp_path / "a.cc").write_text(
        '#include "words.h"\nint g() { old o{1, 2}; o.new_ = 3; class A {}; return f(&o); }\n'
    )
    (tmp_path / "a.c").write_text('#include "words.h"\nint g(void) { return try(and) + not(); }\n')
    for name, compiler in (("a.cc", "g++"), ("a.c", "gcc")):
        command = [compiler, "-fsyntax-only", "-Wall", "-Werror", name]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_a_header_says_what_c_cannot_call(s: Session, tmp_path: Path) -> None:
    s.run("""define fastcc i32 @quick(i32 %x) {
  ret i32 %x
}
define { i32, i32 } @two() {
  ret { i32, i32 } zeroinitializer
}
define <4 x float> @four(<4 x float> %x) {
  ret <4 x float> %x
}
define i32 @"a b"() {
  ret i32 1
}
@table = constant [2 x [3 x i16]] zeroinitializer""")
    path = tmp_path / "x.h"
    s.export(["quick", "two", "four", "a b", "table"], str(path))
    text = path.read_text()
    assert "/* @quick, fastcc i32 (i32): its calling convention is fastcc */" in text
    assert "/* @two, { i32, i32 } (): C has no type that is passed as { i32, i32 } is */" in text
    assert '/* @"a b" is no name in C */' in text
    assert "extern const int16_t table[2][3];" in text
    assert "float __attribute__((vector_size(16))) four(float" in text
    if shutil.which("gcc"):
        assert compiled('#include "x.h"\nint main(void) { return 0; }', tmp_path) == ""


@needs_gcc
def test_objects_of_other_compilers_are_merged(s: Session, tmp_path: Path) -> None:
    """Both ways: the cell calls the object, which calls a cell and has a variable and statics."""
    (tmp_path / "o.c").write_text(
        "extern int back(int); int kept = 3; static int own = 2; int gone(void) { return 1; }\n"
        "int there(int x) { return back(x) * kept + own++ + gone(); }"
    )
    subprocess.run(["gcc", "-O1", "-fPIC", "-c", "o.c"], cwd=tmp_path, check=True, timeout=60)
    s.run("define i32 @back(i32 %x) {\n  %r = add i32 %x, 1\n  ret i32 %r\n}")
    s.link(str(tmp_path / "o.o"))
    s.run(
        "declare i32 @gone()\ndeclare i32 @there(i32)\ndefine i32 @f(i32 %x) {\n  %r = call i32 @there(i32 %x)\n  ret i32 %r\n}"
    )
    s.run("define i32 @gone() {\n  ret i32 100\n}")
    done = s.export("f", str(tmp_path / "f.so"))
    assert call(tmp_path / "f.so", "f", "1") == str(2 * 3 + 2 + 100) == str(s.call("f", 1))
    assert done.cells == tuple(cell.number for cell in s.cells)
    with pytest.raises(UsageError, match="machine code that other compilers made has no IR"):
        s.export("f", str(tmp_path / "f.ll"))


CONSTRUCTED = """
static int hidden = 1;
int seen = 1, other = 1;
void add(int *p, int n) { *p += n; }
__attribute__((constructor(200))) static void first(void) { add(&hidden, 10); }
__attribute__((constructor(300))) static void second(void) { add(&seen, 20); }
__attribute__((constructor(400))) static void third(void) { __builtin_printf("at work\\n"); }
int sum(void) { return hidden * 10000 + seen * 100; }
"""


@needs_ld
def test_constructors_do_not_run_over_values_that_were_exported(s: Session, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    s.run(CONSTRUCTED, "c")
    assert s.call("sum") == 112100
    for globals, wanted in (("present", 112100), ("first", 112100)):
        s.export("sum", str(tmp_path / f"{globals}.so"), globals=globals)
        out = call(tmp_path / f"{globals}.so", "sum")
        assert sorted(out.split("\n")) == [str(wanted), "at work"]
    s["seen"].value = 50
    s.export("sum", str(tmp_path / "later.so"))
    assert "115000" in call(tmp_path / "later.so", "sum")


@needs_ld
def test_ir_and_bitcode_are_whole(s: Session, tmp_path: Path) -> None:
    s.run("@pi = constant double 0x400921FB54442D18\n" + COUNTER)
    s.run("define i32 @up() {\n  %a = call i32 @bump(i32 3)\n  ret i32 %a\n}")
    for ending in (".ll", ".bc"):
        s.export("up", str(tmp_path / f"up{ending}"))
    text = (tmp_path / "up.ll").read_text()
    assert "define i32 @up()" in text and "define internal i32 @bump" in text and "@pi" not in text
    assert (tmp_path / "up.bc").read_bytes()[:4] == b"BC\xc0\xde"
    with Session(capacity=64 << 20) as other:
        other.run(text)
        assert other.call("up") == 7


@needs_ld
def test_a_python_module(s: Session, tmp_path: Path) -> None:
    s.run("""define double @sum(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %a = phi double [ 0.0, %entry ], [ %b, %loop ]
  %q = getelementptr double, ptr %p, i64 %i
  %v = load double, ptr %q
  %b = fadd double %a, %v
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret double %b
}
define i1 @odd(i8 %x) {
  %r = trunc i8 %x to i1
  ret i1 %r
}""")
    s.export(["sum", "odd"], str(tmp_path / "mine.py"))
    source = """
import sys; sys.path.insert(0, ".")
import mine, array
print(mine.sum(array.array("d", [1, 2, 4]), 3), mine.odd(-1), mine.odd(6), mine.sum.__doc__)
for call in (lambda: mine.odd(300), lambda: mine.odd(1.5), lambda: mine.sum(b"12345678"),
             lambda: mine.sum(object(), 1), lambda: mine.sum([1.0], 1)):
    try:
        print("taken", call())
    except (TypeError, OverflowError) as error:
        print(error)
"""
    assert python(source, tmp_path).splitlines() == [
        "7.0 True False double (ptr, i64)",
        "odd: argument 1: 300 does not fit i8",
        "odd: argument 1 is a float, not an integer",
        "sum takes 2 arguments (double (ptr, i64)), 1 given",
        "sum: argument 1 is a object, which has no buffer",
        "sum: argument 1 is a list, which has no buffer",
    ]
    s.run("define { i32, i32 } @two() {\n  ret { i32, i32 } zeroinitializer\n}")
    with pytest.raises(UsageError, match="ctypes cannot call it"):
        s.export("two", str(tmp_path / "two.py"))


@needs_ld
def test_numpy_arrays_are_not_copied(s: Session, tmp_path: Path) -> None:
    """In a fresh process that cannot import jitkernel; what would not be right there is refused."""
    pytest.importorskip("numpy")
    s.run(
        "define void @put(ptr %p, i64 %at) {\n  %q = getelementptr double, ptr %p, i64 %at\n  store double 5.0, ptr %q\n  ret void\n}"
    )
    s.run("define i64 @where(ptr %p) {\n  %a = ptrtoint ptr %p to i64\n  ret i64 %a\n}")
    s.export(["put", "where"], str(tmp_path / "putter.py"))
    source = """
import sys; sys.path.insert(0, "."); sys.modules["jitkernel"] = None
import putter, numpy
a = numpy.zeros((2, 3))
putter.put(a, 4)
print(a.tolist(), putter.where(a) == a.ctypes.data, putter.where(a[1:]) == a.ctypes.data + 24)
fixed = numpy.zeros(3); fixed.flags.writeable = False
for wrong in (a.T, a[:, 1], a[::-1], fixed, numpy.array([None])):
    try:
        print("taken", putter.put(wrong, 0))
    except TypeError as error:
        print(error)
print(fixed.tolist(), putter.where(numpy.zeros(0)) >= 0)
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    beside = "put: argument 1: the array's elements do not lie side by side"
    assert done.stdout.splitlines() == [
        "[[0.0, 0.0, 0.0], [0.0, 5.0, 0.0]] True True",
        beside, beside, beside,
        "put: argument 1: the array is read-only; a copy of it is not",
        "put: argument 1: the array's elements are Python's objects, not numbers",
        "[0.0, 0.0, 0.0] True",
    ]  # fmt: skip


def test_what_is_missing(s: Session, tmp_path: Path) -> None:
    s.run(
        "declare i32 @nowhere_at_all()\ndefine i32 @f() {\n  %r = call i32 @nowhere_at_all()\n  ret i32 %r\n}"
    )
    with pytest.raises(LinkError, match="@nowhere_at_all would be missing"):
        s.export("f", str(tmp_path / "f.so"))
    done = s.export("f", str(tmp_path / "f.o"))
    assert done.needs == {"nowhere_at_all": ""} and "defined by nobody here" in str(done)
    for names, path, words in (
        ("g", "g.so", "@g cannot leave: no cell defines it"),
        ("f", "f.exe", r"\.o \(a relocatable object\), \.a"),
        ([], "f.so", "export what"),
        ("f", "no/such/folder/f.o", "No such file"),
        ("f", "", "the ending says"),
    ):
        with pytest.raises(UsageError, match=words):
            s.export(names, str(tmp_path / path))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("f", "it needs @one, @two, @three, functions of Python's"),
        ("one_only", "it needs @one, a function of Python's"),
        (["one_only", "inner"], "they need @one, @two, @three, functions of Python's"),
        (["one", "plain"], "they need @one, a function of Python's"),
        (["two", "one"], "they are functions of Python's"),
        ("at", "it needs @two, a function of Python's"),
    ],
)
def test_every_function_of_python_that_is_in_the_way_is_named(
    s: Session, tmp_path: Path, names: str | list[str], said: str
) -> None:
    """Each once, and none that only the cell beside needs."""
    for name in ("one", "two", "three", "unused"):
        s.export_python(name, lambda x: x + 1, "i32 (i32)")
    call = "  %{0} = call i32 @{2}(i32 %{1})\n"
    body = (
        call.format("a", "x", "two") + call.format("b", "a", "three") + call.format("r", "b", "two")
    )
    s.run(f"define i32 @inner(i32 %x) {{\n{body}  ret i32 %r\n}}")
    body = (
        call.format("a", "x", "one") + call.format("b", "a", "inner") + call.format("r", "b", "one")
    )
    s.run(
        f"define i32 @f(i32 %x) {{\n{body}  ret i32 %r\n}}\n"
        f"define i32 @one_only(i32 %x) {{\n{call.format('r', 'x', 'one')}  ret i32 %r\n}}\n"
        "define i32 @plain() {\n  ret i32 1\n}\n@at = global ptr @two"
    )
    for ending in FORMS:
        with pytest.raises(UsageError) as refused:
            s.export(names, str(tmp_path / f"f{ending}"))
        leaving, _, why = str(refused.value).partition(" cannot leave: ")
        named = re.findall(r"@\w+", said) or sorted(leaving.split(", "))
        assert why == (
            f"{said}, which this process alone has; define {', '.join(named)} in a cell instead, "
            "in IR or C"
        )
    assert not os.listdir(tmp_path)


def test_without_a_linker(s: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s.run(COUNTER)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LinkError, match=r"needs a linker, and there is none: install binutils"):
        s.export("bump", str(tmp_path / "b.so"))
    assert not os.listdir(tmp_path)
    s.export("bump", str(tmp_path / "b.a"))


@pytest.mark.skipif(shutil.which("ld") is None, reason="there is no ld")
def test_what_is_there_stays_until_the_new_one_is_whole(s: Session, tmp_path: Path) -> None:
    path = tmp_path / "f.so"
    path.write_bytes(b"old")
    s.run(
        "declare i32 @nowhere_at_all()\ndefine i32 @f() {\n  %r = call i32 @nowhere_at_all()\n  ret i32 %r\n}"
    )
    with pytest.raises(LinkError):
        s.export("f", str(path))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["f.so"]


def test_hibernated_cells(s: Session, tmp_path: Path) -> None:
    s.run(COUNTER)
    s.run("define i32 @one() {\n  %a = call i32 @bump(i32 1)\n  ret i32 %a\n}")
    s.hibernate("bump")
    s.export("one", str(tmp_path / "one.so"))
    assert call(tmp_path / "one.so", "one") == "5"
    assert s.cells[0].state.value == "hibernated", "looking does not bring it back"


@needs_ld
def test_a_python_module_has_the_types_of_c(s: Session, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("ziglang")
    s.run(
        "typedef float real;\n"
        "real sum(const real *p, long n) { real t = 0; while (n--) t += *p++; return t; }\n"
        "void set(unsigned *p) { p[0] = 7; }",
        language="c",
    )
    s.export(["sum", "set"], tmp_path / "typed.py")
    source = """
import sys; sys.path.insert(0, "."); sys.modules["jitkernel"] = None
import array, ctypes, typed, numpy
fixed = numpy.ones(3, "f4"); fixed.flags.writeable = False
print(typed.sum(fixed, 3))
signed = numpy.zeros(1, "i4"); typed.set(signed); print(signed)
for call in (lambda: typed.sum(numpy.ones(3), 3), lambda: typed.sum(fixed.astype(">f4"), 3),
             lambda: typed.set(numpy.zeros(1, "i8")), lambda: typed.set(fixed.view("u4")),
             lambda: typed.sum(array.array("d", [1]), 1), lambda: typed.set(ctypes.c_short()),
             lambda: typed.sum(ctypes.pointer(ctypes.c_double()), 1),
             lambda: typed.sum((ctypes.c_float.__ctype_be__ * 1)(), 1),
             lambda: typed.sum(array.array("f", [1]), 1), lambda: typed.sum(bytearray(4), 1),
             lambda: typed.sum((ctypes.c_float * 2)(1, 2), 2)):
    try:
        print("taken", call())
    except TypeError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "3.0",
        "[7]",
        "sum: argument 1 is const real *, and an array of <f8 is given",
        "sum: argument 1 is const real *, and an array of >f4 is given",
        "set: argument 1 is unsigned *, and an array of <i8 is given",
        "set: argument 1: the array is read-only; a copy of it is not",
        "sum: argument 1 is const real *, and an array of <f8 is given",
        "set: argument 1 is unsigned *, and an array of <i2 is given",
        "sum: argument 1 is const real *, and an array of <f8 is given",
        "sum: argument 1 is const real *, and an array of >f4 is given",
        "taken 1.0",
        "taken 0.0",
        "taken 3.0",
    ]
