"""Programs in LLVM IR for the executor's tests: each defines `@go`, a thunk of its own.

`program(body, *parts)` puts a body between the braces of `@go(ptr %fn, ptr %args, ptr %ret)` and
declares the C functions that it names.
"""

from __future__ import annotations

import re

_DECLARED = """
declare i32 @puts(ptr)
declare i32 @printf(ptr, ...)
declare i32 @putchar(i32)
declare i32 @fflush(ptr)
declare i32 @scanf(ptr, ...)
declare i32 @getchar()
declare ptr @fgets(ptr, i32, ptr)
declare i64 @read(i32, ptr, i64)
declare i64 @write(i32, ptr, i64)
declare i32 @close(i32)
declare i32 @pipe(ptr)
declare i32 @poll(ptr, i64, i32)
declare i32 @select(i32, ptr, ptr, ptr, ptr)
declare i32 @dup2(i32, i32)
declare i32 @chdir(ptr)
declare i32 @fclose(ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @strlen(ptr)
declare ptr @getenv(ptr)
declare i32 @getpid()
declare i32 @fork()
declare i32 @waitpid(i32, ptr, i32)
declare i32 @kill(i32, i32)
declare i32 @raise(i32)
declare i32 @usleep(i32)
declare i32 @sleep(i32)
declare i32 @system(ptr)
declare i32 @setsid()
declare void @exit(i32)
declare void @_exit(i32)
declare void @_Exit(i32)
declare void @quick_exit(i32)
declare void @pthread_exit(ptr)
declare void @abort()
declare void @__stack_chk_fail()
declare void @err(i32, ptr, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare ptr @signal(i32, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigprocmask(i32, ptr, ptr)
declare i32 @fesetround(i32)
declare void @qsort(ptr, i64, i64, ptr)
declare i64 @syscall(i64, ...)
declare ptr @memset(ptr, i32, i64)
declare i32 @setenv(ptr, ptr, i32)
declare i64 @_Unwind_Backtrace(ptr, ptr)
declare i32 @alarm(i32)
declare i32 @clone(ptr, ptr, i32, ptr)
"""
DECLARATIONS = {m[2]: m[1] for m in re.finditer(r"(declare [^@\n]*@(\w+)\(.*)", _DECLARED)}


def program(body: str, *parts: str) -> str:
    """A module whose `@go` has the given body; `parts` are globals and functions beside it."""
    text = "\n".join(
        [*parts, "define void @go(ptr %fn, ptr %args, ptr %ret) {", body, "  ret void", "}"]
    )
    defined = set(re.findall(r"define [^@]*@(\w+)", text))
    used = dict.fromkeys(re.findall(r"@(\w+)", text))
    return "\n".join(
        [DECLARATIONS[n] for n in used if n in DECLARATIONS and n not in defined] + [text]
    )


def string(name: str, text: str) -> str:
    """A constant C string."""
    data = text.encode() + b"\0"
    body = "".join(f"\\{b:02x}" for b in data)
    return f'@{name} = private constant [{len(data)} x i8] c"{body}"'


#: `args` holds an i64; ret gets its square.
SQUARE = program(
    """  %x = load i64, ptr %args
  %y = mul i64 %x, %x
  store i64 %y, ptr %ret"""
)

#: State that has to survive: a global and a block of the heap behind it.
KEEP = program(
    """  %p = call ptr @malloc(i64 100)
  store i64 4711, ptr %p
  store ptr %p, ptr @kept
  store i64 42, ptr @counter""",
    "@kept = global ptr null",
    "@counter = global i64 0",
)

#: Everything that must be as a C program expects, on the cell's thread and on one started now.
#: ret: five words a thread: mxcsr, x87 control word, direction flag, 1.0 / 3.0, allocated or not;
#: then the counter and what the kept pointer points at.
PROBE = program(
    """  call ptr @look(ptr %ret)
  %t = alloca i64
  %second = getelementptr i64, ptr %ret, i64 5
  %c = call i32 @pthread_create(ptr %t, ptr null, ptr @look, ptr %second)
  %id = load i64, ptr %t
  %j = call i32 @pthread_join(i64 %id, ptr null)
  %counter = load i64, ptr @counter
  %a = getelementptr i64, ptr %ret, i64 10
  store i64 %counter, ptr %a
  %p = load ptr, ptr @kept
  %v = load i64, ptr %p
  %b = getelementptr i64, ptr %ret, i64 11
  store i64 %v, ptr %b""",
    "@kept = external global ptr",
    "@counter = external global i64",
    """
define ptr @look(ptr %to) {
  %m = alloca i32
  call void asm sideeffect "stmxcsr $0", "=*m"(ptr elementtype(i32) %m)
  %mx = load i32, ptr %m
  %mx6 = zext i32 %mx to i64
  %mxc = and i64 %mx6, 65472
  store i64 %mxc, ptr %to
  %w = alloca i16
  call void asm sideeffect "fnstcw $0", "=*m"(ptr elementtype(i16) %w)
  %cw = load i16, ptr %w
  %cw6 = zext i16 %cw to i64
  %p1 = getelementptr i64, ptr %to, i64 1
  store i64 %cw6, ptr %p1
  %fl = call i64 asm sideeffect "pushfq; popq $0", "=r"()
  %df = and i64 %fl, 1024
  %p2 = getelementptr i64, ptr %to, i64 2
  store i64 %df, ptr %p2
  %one = alloca double
  store volatile double 1.0, ptr %one
  %o = load volatile double, ptr %one
  %q = fdiv double %o, 3.0
  %p3 = getelementptr i64, ptr %to, i64 3
  store double %q, ptr %p3
  %h = call ptr @malloc(i64 200)
  %n = icmp ne ptr %h, null
  %ok = zext i1 %n to i64
  call void @free(ptr %h)
  %big = call ptr @malloc(i64 70000)
  call void @free(ptr %big)
  %f = call i32 @fflush(ptr null)
  %p4 = getelementptr i64, ptr %to, i64 4
  store i64 %ok, ptr %p4
  ret ptr null
}""",
)

#: Functions that programs above build on.
THREAD = """
define i64 @start(ptr %f) {
  %t = alloca i64
  %c = call i32 @pthread_create(ptr %t, ptr null, ptr %f, ptr null)
  %id = load i64, ptr %t
  ret i64 %id
}"""
SPIN_THREAD = """
define ptr @spinner(ptr %x) {
  br label %l
l:
  %v = load volatile i64, ptr @spins
  %w = add i64 %v, 1
  store volatile i64 %w, ptr @spins
  br label %l
}
@spins = global i64 0"""
