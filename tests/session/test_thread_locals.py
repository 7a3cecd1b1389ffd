"""Thread-local variables and functions chosen at start, in objects of other compilers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel import Session, errors

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import assemble, compile_c, needs, tool

pytestmark = [pytest.mark.process, needs("gcc")]

_THREADS = """
#include <pthread.h>
#include <stdint.h>
__thread int counter = 40;
static __thread int own = 2;
static __thread long other[3] = {1, 2, 3};
__thread char zeroes[100] __attribute__((aligned(64)));
static __thread int *where = &(int){7};
__attribute__((visibility("hidden"))) __thread short hidden = 9;
int next(void) { own += 1; other[1] += own; hidden++; return ++counter + own + other[1] + hidden; }
static void *run(void *result) {
  for (int i = 0; i < 3; i++) next();
  zeroes[5]++;
  *(int *)result = next() + zeroes[5] + *where;
  if ((uintptr_t)zeroes % 64 != 0) *(int *)result = -1;
  return 0;
}
int in_thread(void) {
  pthread_t t; int result = 0;
  pthread_create(&t, 0, run, &result);
  pthread_join(t, 0);
  return result;
}
"""
#: what `next` gives the first times in a thread, and what a thread has after four and its own sums
_FIRST = [41 + 3 + 5 + 10, 42 + 4 + 9 + 11]
_THREAD = 44 + 6 + (2 + 3 + 4 + 5 + 6) + 13 + 1 + 7


def _link(s: Session, folder: Path, data: bytes, name: str = "a.o"):
    (folder / name).write_bytes(data)
    return s.link(str(folder / name))


@pytest.mark.parametrize(
    "flags",
    [
        "-O0 -fPIC", "-O2 -fPIC", "-O2 -fPIC -fno-plt", "-O1 -fPIC -g", "-O0", "-O2", "-O2 -g",
        "-O2 -fno-pic", "-O3 -march=native", "-Os -fPIE", "-O2 -mcmodel=large",
        "-O1 -fPIC -ftls-model=initial-exec", "-O2 -fPIC -ftls-model=local-exec",
        "-O2 -fPIC -mtls-dialect=gnu2", "-O0 -fPIC -mtls-dialect=gnu2", "-O2 -mtls-dialect=gnu2",
    ],
)  # fmt: skip
def test_every_thread_has_its_own(s, tmp_path, flags):
    _link(s, tmp_path, compile_c(_THREADS, *flags.split()))
    s.run("declare i32 @next()\ndeclare i32 @in_thread()")
    assert [s.run("@next()").value for _ in range(2)] == _FIRST
    assert s.run("@in_thread()").value == _THREAD
    assert s.run("@in_thread()").value == _THREAD
    assert s.run("@next()").value == 43 + 5 + 14 + 12


def test_they_begin_anew_in_another_process(s, tmp_path):
    _link(s, tmp_path, compile_c(_THREADS, "-fPIC"))
    s.run("declare i32 @next()\ndeclare i32 @in_thread()")
    assert s.run("@next()").value == _FIRST[0]
    s.respawn()
    assert [s.run("@next()").value for _ in range(2)] == _FIRST
    assert s.run("@in_thread()").value == _THREAD


def test_saved_and_restored(tmp_path):
    path = str(tmp_path / "a.jks")
    with Session() as s:
        _link(s, tmp_path, compile_c(_THREADS, "-fPIC"))
        s.run("declare i32 @next()\n@next()")
        s.save(path)
    with Session.restore(path) as s:
        assert s.run("@next()").value == _FIRST[0]


def test_undo_and_redo(s, tmp_path):
    _link(s, tmp_path, compile_c(_THREADS, "-fPIC"))
    s.undo()
    s.check()
    s.redo()
    s.run("declare i32 @next()")
    assert s.run("@next()").value == _FIRST[0]


@needs("ar")
@pytest.mark.parametrize("first, second", [("-fPIC", "-fPIC"), ("-fPIE", "-fPIC"),
                                           ("-fPIC", "-fno-pic"), ("-fPIE", "-fPIE")])  # fmt: skip
def test_objects_share_them(s, tmp_path, first, second):
    """One object's variable is the other's, in an archive and between cells."""
    user = "extern __thread int counter; int add(int n) { return counter += n; }"
    _link(s, tmp_path, compile_c(_THREADS, first))
    _link(s, tmp_path, compile_c(user, second, "-O2"), "b.o")
    s.run("declare i32 @next()\ndeclare i32 @add(i32)")
    assert s.run("@add(2)").value == 42
    assert s.run("@next()").value == _FIRST[0] + 2
    s.undo(4)
    tool("ar", "rcs", str(tmp_path / "x.a"), str(tmp_path / "b.o"), str(tmp_path / "a.o"))
    s.link(str(tmp_path / "x.a"))
    s.run("declare i32 @next()\ndeclare i32 @add(i32)")
    assert s.run("@add(2)").value == 42
    assert s.run("@next()").value == _FIRST[0] + 2


def test_a_cell_uses_what_an_archive_has(s, tmp_path):
    """A declaration in a cell is a use, as of any other variable."""
    _link(s, tmp_path, compile_c("__thread int counter = 40;", "-fPIC"))
    s.run("@counter = external thread_local global i32")
    assert s.run("@counter").value == 40
    s.run("define void @add() {\n  %v = load i32, ptr @counter\n  %w = add i32 %v, 2\n"
          "  store i32 %w, ptr @counter\n  ret void\n}\n@add()")  # fmt: skip
    assert s["counter"].value == 42


#: `cmp x@gottpoff(%rip), %rax`, which newer assemblers refuse.
_COMPARE = "cmp 0(%rip), %rax; .reloc . - 4, R_X86_64_GOTTPOFF, x - 4"


@pytest.mark.parametrize(
    "code, words",
    [
        ("pushq %fs:x@tpoff", "R_X86_64_TPOFF32 against @x: "),
        ("movq $x@tpoff, 8(%rax)", "R_X86_64_TPOFF32 against @x: "),
        ("mov %rsp, %fs:x@tpoff", "R_X86_64_TPOFF32 against @x: "),
        (_COMPARE, "R_X86_64_GOTTPOFF against @x: "),
        (".section .rodata; .quad x@tpoff", "R_X86_64_TPOFF64 against @x: "),
    ],
)
def test_what_is_not_done_is_refused_with_the_remedy(s, tmp_path, code, words):
    text = f"{code}\n.section .tbss\n.globl x\n.type x, @object\n.size x, 4\nx: .zero 4\n"
    with pytest.raises(errors.LinkError, match=f"{words}.*compile with -fPIC"):
        _link(s, tmp_path, assemble(text))
    assert s.cells == []


_CHOSEN = """
extern int puts(const char *);
int chosen_calls;
static int fast(int x) { return x * 2; }
static int slow(int x) { return x * 3; }
static int (*resolve(void))(int) { chosen_calls++; return fast; }
static int (*resolve_slow(void))(int) { return slow; }
int chosen(int x) __attribute__((ifunc("resolve")));
static int hidden(int x) __attribute__((ifunc("resolve_slow")));
int early;
__attribute__((constructor)) static void begin(void) { early = chosen(4) + hidden(4); }
int (*table[])(int) = {chosen};
int through(int x) { return table[0](x) + hidden(x); }
int same(void) { return table[0] == chosen; }
int calls_of_resolver(void) { return chosen_calls; }
int get_early(void) { return early; }
"""


@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O2 -fPIC", "-O1 -fno-pic"])
def test_functions_chosen_at_start(s, tmp_path, flags):
    """The resolver runs once, before constructors; calls and pointers lead to what it chose."""
    _link(s, tmp_path, compile_c(_CHOSEN, *flags.split()))
    s.run("\n".join(f"declare i32 @{n}()" for n in ("same", "calls_of_resolver", "get_early")))
    s.run("declare i32 @chosen(i32)\ndeclare i32 @through(i32)")
    assert s.run("@chosen(5)").value == 10
    assert s.run("@through(5)").value == 25
    assert s.run("@same()").value == 1
    assert s.run("@get_early()").value == 20
    assert s.run("@calls_of_resolver()").value == 1
    s.run("define i32 @chosen(i32 %x) {\n ret i32 1\n}")
    assert s.run("@through(5)").value == 16
    s.undo()
    assert s.run("@through(5)").value == 25


def test_sections_whose_pieces_a_linker_may_merge(s, tmp_path):
    """SHF_MERGE: strings and constants are right whether or not they are merged."""
    _link(s, tmp_path, assemble("""
        .section .rodata.str1.1, "aMS", @progbits, 1
        one: .asciz "prefix and end"
        two: .asciz "end"
        .section .rodata.cst8, "aM", @progbits, 8
        .quad 5, 5
        number: .quad 7
        .text
        .globl f
        f: lea two(%rip), %rax; mov (%rax), %eax; add number(%rip), %rax; add one+11(%rip), %eax; ret
    """))  # fmt: skip
    s.run("declare i32 @f()")
    end = int.from_bytes(b"end\0", "little")
    assert s.run("@f()").value == 2 * end + 7
