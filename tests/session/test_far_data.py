"""Objects that take a library's variable for one of their own program: `gcc -c` without -fPIC."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel import Session, errors

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import assemble, compile_c, needs

pytestmark = [pytest.mark.process, needs("gcc")]

_FLAGS = ["", "-fPIC", "-fno-pic", "-fPIE -mcmodel=small"]

_WARN = """
#include <stdio.h>
#include <unistd.h>
#include <stdlib.h>
int warn(int x) { fprintf(stderr, "w %d\\n", x); return x; }
int same(void) { return &stderr == (FILE **)0 || stdout == stderr; }
int options(void) {
  char *args[] = {"p", "-a", "-b", "value", "rest", 0};
  int seen = 0, c;
  optind = 1;
  while ((c = getopt(4, args, "ab:")) != -1) seen = seen * 10 + (c == 'b' ? optarg[0] == 'v' : 5);
  return seen * 10 + optind;
}
int redirect(void) {          /* libc's own puts() goes where the program says */
  FILE *was = stdout;
  char *text; size_t size;
  stdout = open_memstream(&text, &size);
  puts("inside");
  fclose(stdout);
  stdout = was;
  int length = size;
  free(text);
  return length;
}
extern char **environ;
int variables(void) {
  int before = 0, after = 0;
  for (char **e = environ; *e; e++) before++;
  setenv("JK_FAR_DATA", "1", 1);
  for (char **e = environ; *e; e++) after++;
  unsetenv("JK_FAR_DATA");
  return after - before;
}
"""


def _link(s: Session, tmp_path: Path, data: bytes):
    path = tmp_path / "a.o"
    path.write_bytes(data)
    return s.link(str(path))


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("flags", _FLAGS)
def test_the_variable_is_libcs_own(s, flags, level, tmp_path):
    _link(s, tmp_path, compile_c(_WARN, level, *flags.split()))
    s.run("\n".join(f"declare i32 @{n}()" for n in ("same", "options", "redirect", "variables")))
    s.run("declare i32 @warn(i32)")
    warned = s.run("@warn(3)")
    assert (warned.value, warned.stderr) == (3, "w 3\n")
    assert s.run("@same()").value == 0
    assert s.run("@options()").value == 514
    assert s.run("@redirect()").value == 7
    assert s.run("@variables()").value == 1
    s.check()
    s.respawn()
    assert s.run("@warn(4)").stderr == "w 4\n"  # libc is elsewhere now
    s.undo()
    s.check()


# Every operand form with libc's `optind` (an int) and `environ` (a pointer): what each of them does
# is compared with the same instruction on a variable that is near.
_FORMS = [
    "mov V(%rip), %eax",
    "mov V(%rip), %r12; mov %r12, %rax",
    "mov V(%rip), %rbp; mov %rbp, %rax",
    "lea V(%rip), %rcx; mov (%rcx), %eax",
    "movslq V(%rip), %rax",
    "movzbl V+1(%rip), %eax",
    "add V(%rip), %eax",
    "add %ecx, V(%rip); mov V(%rip), %eax",
    "movl $77, V(%rip); mov V(%rip), %eax",
    "movw $7, V+2(%rip); mov V(%rip), %eax",
    "movb $5, V(%rip); mov V(%rip), %eax",
    "cmpl $0x12345678, V(%rip); sete %al; movzbl %al, %eax",
    "cmpl $3, V(%rip); setb %al",
    "xor %ah, V(%rip); mov V(%rip), %eax",
    "mov %dil, V(%rip); mov V(%rip), %eax",
    "mov %sil, V(%rip); mov %r14b, V+1(%rip); mov V(%rip), %eax",
    "incl V(%rip); mov V(%rip), %eax",
    "movd V(%rip), %xmm4; movd %xmm4, %eax",
    "imul $3, V(%rip), %eax",
    "negl V(%rip); mov V(%rip), %eax",
    "lock xadd %ecx, V(%rip); mov V(%rip), %eax; add %ecx, %eax",
    "shll %cl, V(%rip); mov V(%rip), %eax",
    "vmovd V(%rip), %xmm9; vmovd %xmm9, %eax",
    "vpaddd V(%rip), %xmm2, %xmm13; vmovd %xmm13, %eax",
    "mull V(%rip); add %edx, %eax",
    "cmpxchg %ecx, V(%rip); sete %dl; add %edx, %eax",
    "cmovnel V(%rip), %eax",
    "xchg %r8d, V(%rip); mov %r8d, %eax",
    "bt $3, V(%rip); setc %al",
    "mov V(%rip), %r11d; mov %r11d, %eax",
    "mov V(%rip), %esi; mov V(%rip), %edi; lea (%rsi,%rdi), %eax",
]


_AROUND = """
    .text
    .globl {name}
    .type {name}, @function
{name}:
    push %rbp; push %r12; push %r14
    mov $0x1111, %eax; mov $3, %ecx; mov $0x2222, %edx; mov $0x4444, %esi; mov $0x5555, %edi
    mov $0x6666, %r8d; mov $0x777777, %r14d; movd %eax, %xmm2
    movq $0x99, -8(%rsp); movq $0x98, -120(%rsp)
    movl $0x12345678, {variable}(%rip)
    cmp $1, %ecx
    {form}
    adc -8(%rsp), %eax
    adc -120(%rsp), %eax
    movl $1, {variable}(%rip)
    pop %r14; pop %r12; pop %rbp
    ret
    .size {name}, .-{name}
"""


def test_every_form_does_what_it_does_with_a_near_variable(tmp_path):
    """The red zone, the flags and every register but the result's are as they were."""
    code, functions = ".data\nnear: .quad 0, 0\n", []
    for number, form in enumerate(_FORMS):
        for variable in ("optind", "near"):
            name = f"{variable}{number}"
            functions.append(f"declare i32 @{name}()")
            form_of = form.replace("V", variable)
            code += _AROUND.format(name=name, variable=variable, form=form_of)
    with Session() as s:
        _link(s, tmp_path, assemble(code))
        s.run("\n".join(functions))
        for number, form in enumerate(_FORMS):
            found = s.run(f"@optind{number}()").value, s.run(f"@near{number}()").value
            assert found[0] == found[1], form
        s.check()


def test_calls_through_slots_one_behind_the_other(s, tmp_path):
    """Their opcodes are changed with their fields, which follow each other without a gap."""
    calls = "call *tick@GOTPCREL(%rip)\n" * 3
    _link(s, tmp_path, assemble(
        f".globl tick\ntick: incl count(%rip); ret\n.section .text.f,\"ax\"\n.globl f\nf: {calls}"
        "mov count(%rip), %eax; ret\n.bss\ncount: .long 0"
    ))  # fmt: skip
    s.run("declare i32 @f()")
    assert s.run("@f()").value == 3


def test_another_symbol_in_the_same_instruction(s, tmp_path):
    """Its immediate is relocated too, and goes along."""
    _link(s, tmp_path, assemble(
        ".globl f\nf: mov environ(%rip), %rdx; movq $here + 3, environ(%rip)\n"
        "mov environ(%rip), %rax; mov %rdx, environ(%rip); sub $here, %rax; ret\n"
        ".data\nhere: .quad 0"
    ))  # fmt: skip
    s.run("declare i64 @f()")
    assert s.run("@f()").value == 3
    s.check()


# A variable of which no Python has a copy of its own, near the arena.
@pytest.mark.parametrize(
    "form", ["call *X(%rip)", "push X(%rip)", "mov X(%rip), %rsp", "mov X, %rax"]
)
def test_what_has_no_other_form_is_refused_with_the_remedy(s, form, tmp_path):
    far = form.replace("X", "program_invocation_name")
    with pytest.raises(errors.LinkError, match=r"program_invocation_name.*-fPIC"):
        _link(s, tmp_path, assemble(f".globl f\nf: {far}\nret"))
    assert s.run('@puts("x")').stdout == "x\n"
    s.check()


def test_an_address_that_code_holds_as_a_number(s, tmp_path):
    _link(s, tmp_path, assemble(
        ".globl f, g\nf: mov $stdout, %r9d; mov (%r9), %rax; ret\n"
        "g: mov $stdout, %rdx; mov (%rdx), %rax; sub stdout(%rip), %rax; ret"
    ))  # fmt: skip
    s.run("declare ptr @f()\ndeclare i64 @g()")
    assert s.run("@f()").value != 0
    assert s.run("@g()").value == 0


_SHARED = """
  .section .text.shared,"axG",@progbits,shared,comdat
  .weak shared
  .type shared, @function
shared:
  mov stderr(%rip), %rax
  mov %fs:own@tpoff, %ecx
  add $1, %ecx
  mov %ecx, %fs:own@tpoff
  sub stderr(%rip), %rax
  lea (%rax,%rcx), %eax
  ret
  .text
  .globl NAME
  .type NAME, @function
NAME:
  call shared
  add stdout(%rip), %rax
  sub stdout(%rip), %rax
  add $1, %eax
  ret
  .section .tdata.own,"awTG",@progbits,own,comdat
  .weak own
  .type own, @object
own: .long 40
  .size own, 4
"""


def test_functions_that_several_objects_have(s, tmp_path):
    """Only the first one's is taken, with what was made of it, and its variable stays: inline
    functions of C++, and its inline thread_local variables."""
    for number, name in enumerate(("one", "two", "three")):
        _link(s, tmp_path, assemble(_SHARED.replace("NAME", name)))
        s.run(f"declare i32 @{name}()")
        assert s.call(name) == 42 + number
    _link(s, tmp_path, assemble(_SHARED.replace("NAME", "one")))  # the one that has them
    first = s.call("one")
    assert [s.call(name) for name in ("two", "three", "one")] == [first + n for n in (1, 2, 3)]
    s.check()
    while s.cells:
        s.undo()
    s.check()
