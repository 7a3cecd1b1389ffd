"""`Compiler.clang_flags` takes what clang's driver takes, and C is told which processor it is for.

What cannot be is refused when it is set, with what there is instead; what is taken, works in the
next cell.
"""

from __future__ import annotations

import glob
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.errors import LinkError, UsageError
from tests.seeds import sampled

pytest.importorskip("ziglang")

CELL = """
#include <stdio.h>
#include <math.h>
typedef struct { int n; double d[2]; } kind;
static int hidden(int x) { return x + 1; }
kind k = {3, {0.5, 1.5}};
double use(kind *p, int x) { return p->n * sqrt(p->d[1] + hidden(x)); }
"""


@pytest.fixture(scope="module")
def kept() -> Iterator[Session]:
    with Session(capacity=64 << 20) as session:
        yield session


@pytest.mark.parametrize(
    "flags",
    sampled([
        "-O0 -g -fPIC -fno-inline -fcommon", "-O1 -g3 -ggdb -fpic -fstack-protector-all",
        "-O3 -g0 -fPIE -funroll-loops -fno-plt", "-Ofast -march=native -mtune=native",
        "-Os -fno-pic -fno-common -ffunction-sections -fdata-sections", "-march=x86-64-v2",
        "-pthread -pipe -fexceptions -fcf-protection -fno-semantic-interposition", "-msse4.2 -mno-avx",
        "-fno-strict-aliasing -fwrapv -fomit-frame-pointer", "-ffast-math -fno-math-errno",
        "-ftrapv -fno-omit-frame-pointer -fno-stack-protector", "-std=c11 -pedantic -Weverything",
        "-std=gnu99 -Wall -Wextra -Werror", "-w -DX=1 -UX -D X -I. -isystem /tmp", "-fno-builtin",
        "-ffreestanding -fvisibility=default", "-fshort-enums -funsigned-char -fms-extensions",
        "-Xclang -fwrapv",
    ], 2),
)  # fmt: skip
def test_taken_and_then_cells_run(kept: Session, flags: str) -> None:
    kept.configure("clang_flags", flags)
    try:
        kept.run(CELL, "c", cell_id="a")
        assert kept.run("use(&k, 5)", "c", cell_id="b").value == pytest.approx(3 * 7.5**0.5)
        again = CELL.replace("x + 1", "x + 2")
        kept.run(again, "c", cell_id="a")
        assert kept.call("use", kept["k"], 5) == pytest.approx(3 * 8.5**0.5)
    finally:
        kept.settings.clang_flags = ""


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("-lm", "the C library is there already"),
        ("-Wall -lz", "%lib -lz"),
        ("-L/usr/lib", "%lib and %link"),
        ("-Wl,-z,now", "%lib and %link"),
        ("-static", "%lib and %link"),
        ("-fsanitize=address", "%%c --sanitize"),
        ("-fsanitize=undefined", "%%c --sanitize"),
        ("-c", "%ir and %asm"),
        ("-S -o x.s", "%ir and %asm"),
        ("-E", "%ir and %asm"),
        ("-MMD", "%ir and %asm"),
        ("--version", "%ir and %asm"),
        ("-include stdio.h", "#include it in a cell"),
        ("-m32", "%asm --target"),
        ("--target=aarch64-linux-gnu", "%asm --target"),
        ("-flto", "linked at once"),
        ("--coverage", "linked at once"),
        ("-fprofile-generate", "linked at once"),
        ("-fvisibility=hidden", "cells see"),
        ("-mno-sse", "C library"),
        ("-fms-compatibility", "conforming compiler"),
        ("-fplugin=x.so", "driver's flags"),
        ("-load x.so", "driver's flags"),
        ("x.o", "%link"),
        ("-mavx9", "unknown argument"),
        ("-Wbogus", "unknown warning option '-Wbogus'"),
        ("-march=bogus", "unknown target CPU 'bogus'"),
        ("-std=c++17", "not allowed with 'C'"),
        ("-std=c47", "invalid value 'c47'"),
        ("-I", "argument to '-I' is missing"),
        ("'", "No closing quotation"),
    ],
)
def test_refused_with_what_there_is_instead(kept: Session, flags: str, words: str) -> None:
    kept.settings.clang_flags = ""
    with pytest.raises(UsageError, match=r"^Compiler\.clang_flags: ") as refused:
        kept.configure("clang_flags", flags)
    assert words in str(refused.value)
    assert kept.settings.clang_flags == ""
    assert kept.run("20 + 1", "c").value == 21


def test_a_level_is_the_one_that_cells_are_compiled_with() -> None:
    with Session(clang_flags="-O0") as s:
        s.run("int f(int a) { int b = a; return b + b; }", "c")
        assert "rsp" in str(views.asm(s, "f"))
        s.configure("clang_flags", "-O3")
        s.run("int f(int a) { int b = a; return b + b; }", "c")
        assert "rsp" not in str(views.asm(s, "f"))


WHICH = "#ifdef __AVX2__\n2\n#elif defined(__SSE4_2__)\n1\n#else\n0\n#endif"


def test_clang_is_told_the_processor() -> None:
    with Session(cpu="haswell") as s:
        assert s.run(WHICH, "c").value == 2
        s.configure("cpu", "x86-64")
        assert s.run(WHICH, "c").value == 0
        s.configure("cpu", "x86-64-v2")
        assert s.run(WHICH, "c").value == 1
        s.configure("clang_flags", "-march=x86-64")
        assert s.run(WHICH, "c").value == 0


def has(feature: str) -> bool:
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return f" {feature} " in file.read()


@pytest.mark.skipif(not has("avx2"), reason="this processor has no AVX2")
def test_intrinsics_of_this_processor(s: Session) -> None:
    assert s.run(WHICH, "c").value == 2
    s.run(
        "#include <immintrin.h>\n"
        "__m256d twice(__m256d x) { return _mm256_add_pd(x, x); }\n"
        "void store(double *p, double x) { _mm256_storeu_pd(p, twice(_mm256_set1_pd(x))); }",
        "c",
    )
    s.run("double d[4]; store(d, 1.5);", "c")
    assert list(s["d"].value) == [3.0] * 4


@pytest.mark.skipif(not has("avx2"), reason="this processor has no AVX2")
def test_functions_for_another_processor_than_the_cells() -> None:
    """`target` is for the function that has it, in a cell where all others are for the session's."""
    with Session(cpu="x86-64") as s:
        s.run(
            "#include <immintrin.h>\n"
            '__attribute__((target("avx2"))) void wide(float *p) '
            "{ _mm256_storeu_ps(p, _mm256_set1_ps(2.5f)); }\n"
            "float sum(float *p) { float t = 0; for (int i = 0; i < 8; i++) t += p[i]; return t; }",
            "c",
        )  # fmt: skip
        s.run("float a[8]; wide(a);", "c")
        assert s.run("sum(a)", "c").value == 20
        assert "ymm" in str(views.asm(s, "wide")) and "ymm" not in str(views.asm(s, "sum"))


@pytest.mark.skipif(has("amx_tile"), reason="this processor has AMX")
def test_what_this_machine_has_not_is_refused(kept: Session) -> None:
    with pytest.raises(UsageError, match="this machine has no amx-tile"):
        kept.configure("clang_flags", "-mamx-tile")


def test_openmp_where_its_runtime_is_loaded(s: Session) -> None:
    with pytest.raises(UsageError, match=r"-fopenmp needs LLVM's OpenMP: .*%lib ") as refused:
        s.configure("clang_flags", "-fopenmp")
    assert s.settings.clang_flags == ""
    found = glob.glob("/usr/lib/llvm-*/lib/libomp.so")
    if not found:
        assert "libomp-dev" in str(refused.value)
        return
    s.load(found[0])
    s.configure("clang_flags", "-fopenmp")
    s.run(
        "#include <omp.h>\n"
        "long sum(long n) {\n  long t = 0;\n  #pragma omp parallel for reduction(+:t)\n"
        "  for (long i = 0; i < n; i++) t += i;\n  return t;\n}\n"
        "int team(void) {\n  int n = 0;\n  #pragma omp parallel num_threads(3)\n"
        "  {\n    #pragma omp atomic\n    n++;\n  }\n  return n;\n}", "c",
    )  # fmt: skip
    assert s.run("sum(100000)", "c").value == 4999950000
    assert s.run("team()", "c").value == 3


FEATURES = (
    "cmov mmx popcnt sse sse2 sse3 ssse3 sse4.1 sse4.2 avx avx2 sse4a fma4 xop fma avx512f bmi bmi2 "
    "aes pclmul avx512vl avx512bw avx512dq avx512cd avx512vbmi avx512ifma avx512vpopcntdq "
    "avx512vbmi2"
).split()
PROCESSORS = "intel amd corei7 haswell skylake znver1 znver2 znver3 amdfam17h amdfam19h".split()
ASKED = [
    *(f'!!__builtin_cpu_supports("{name}")' for name in FEATURES),
    *(f'!!__builtin_cpu_is("{name}")' for name in PROCESSORS),
]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to compare with")
@pytest.mark.parametrize("executor", ["process", "inline"])
def test_what_the_processor_has_is_what_gcc_says(tmp_path: Path, executor: str) -> None:
    lines = "".join(f'printf("%d ", {asked});\n' for asked in ASKED)
    (tmp_path / "it.c").write_text(f"#include <stdio.h>\nint main(void) {{\n{lines}}}\n")
    subprocess.run(["gcc", "it.c", "-o", "it"], cwd=tmp_path, check=True)
    said = subprocess.run(["./it"], cwd=tmp_path, capture_output=True, text=True).stdout.split()
    assert "1" in said and "0" in said
    with Session(executor=executor, spare=False) as s:
        s.run("__builtin_cpu_init();", "c")
        found = [s.run(asked, "c").value for asked in ASKED]
        assert dict(zip(ASKED, found, strict=True)) == dict(zip(ASKED, map(int, said), strict=True))
        s.run('int f(void) { __builtin_cpu_init(); return !!__builtin_cpu_supports("avx2"); }', "c")
        assert s.call("f") == found[ASKED.index('!!__builtin_cpu_supports("avx2")')]
        s.check()


def test_features_that_libgcc_does_not_tell(kept: Session) -> None:
    with pytest.raises(LinkError, match=r"ask the processor itself, by <cpuid\.h>"):
        kept.run('__builtin_cpu_supports("x86-64-v3")', "c")


def test_a_function_with_clones_for_processors(kept: Session) -> None:
    clones = '__attribute__((target_clones("avx2", "default")))'
    kept.run(f"{clones} int cloned(int a) {{ return a + 1; }}", "c")
    kept.run("int calls(int x) { return cloned(x); }", "c")
    assert kept.run("cloned(1) * 10 + calls(4)", "c").value == 25
