"""Programs in C for the executor's tests: each defines `go`, a thunk of its own.

`program(body, *parts)` puts a body between the braces of `go`; `parts` are variables and functions
before it.  `HEADERS` are known to all of them.
"""

from __future__ import annotations

HEADERS = """#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <fenv.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>
"""


def program(body: str, *parts: str) -> str:
    """A text whose `go` has the given body, with `parts` before it."""
    return "\n".join([*parts, "void go(void *fn, long *args, long *ret) {", body, "}"])


#: A statement that faults, and a cell that does.
FAULT = "*(volatile long *)0;"
NULL = program(FAULT)
#: Signals of all numbers are blocked from here on.
BLOCK = "sigset_t every, before;\nsigfillset(&every);\nsigprocmask(SIG_BLOCK, &every, &before);\n"
GETCHAR = program("*ret = getchar();")
READ_ONE = program("read(0, ret, 1);")
FAULT_IN_A_LIBRARY = program("*ret = strlen(0);")
#: `args` holds a long; ret gets its square.
SQUARE = program("*ret = *args * *args;")
#: State that has to survive: a global and a block of the heap behind it.
KEEP = program("kept = malloc(100);\n*kept = 4711;\ncounter = 42;", "long *kept, counter;")
RECURSE = program(
    "deep(1);",
    """long deep(long x) {
  volatile long room[100];
  *room = x;
  return deep(x + 1) + *room;
}""",
)

#: Everything that must be as a C program expects, on the cell's thread and on one started now.
#: ret: five words a thread: mxcsr, x87 control word, direction flag, 1.0 / 3.0, allocated or not;
#: then the counter and what the kept pointer points at.
PROBE = program(
    """  pthread_t other;
  look(ret);
  pthread_create(&other, 0, look, ret + 5);
  pthread_join(other, 0);
  ret[10] = counter;
  ret[11] = *kept;""",
    """extern long *kept, counter;
void *look(void *at) {
  long *to = at;
  volatile double one = 1.0;
  unsigned short control;
  to[0] = __builtin_ia32_stmxcsr() & 0xFFC0;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  to[1] = control;
  to[2] = __builtin_ia32_readeflags_u64() & 0x400;
  *(double *)(to + 3) = one / 3.0;
  void *block = malloc(200);
  to[4] = block != 0;
  free(block);
  free(malloc(70000));
  fflush(0);
  return 0;
}""",
)

#: Functions that programs above build on.
THREAD = """pthread_t start(void *work(void *)) {
  pthread_t id;
  pthread_create(&id, 0, work, 0);
  return id;
}"""
SPIN_THREAD = "volatile long spins;\nvoid *spinner(void *x) { for (;;) spins++; }"
