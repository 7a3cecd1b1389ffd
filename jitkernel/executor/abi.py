"""The numbers that the kernel process, the executor's Python part and its native runtime share, and
where everything lies in the memory that they share.

`$NAME` in the folder native is the number that has this name in `NAMES`, `$name` the control word
of that name (`FIELDS`), `$r_name` one of the fault record (`RECORD`); child.py gets those it needs
with its first message.  Nothing here touches memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jitkernel.syscalls import SYS

# Messages on the socket: what is asked, and what the answer repeats.  From HELLO on they are
# child.py's, the others are the native loop's.
CALL, CHECK, PARK, UNPARK, WAKE, ASK, STOP = 1, 2, 3, 4, 5, 6, 7
HELLO, RARE = 16, 17
HEAD_SIZE = 64  # bytes of a message before its payload: eight words

#: What programs of conditions consist of (native/decide.ll, programs.py), numbered in this order.
PROGRAM_OPS = (
    "end word push register hits copy drop skip skip_if_not load signed unsigned swap add sub mul "
    "and or xor div rem udiv urem left right uright eq ne lt le ult ule fadd fsub fmul fdiv feq "
    "fne flt fle real ureal single usingle widen round whole"
).split()
#: Why a thread has stopped for a debugger, in the order of the control word `stop_why`.
WHYS = ("", "trap", "step", "pause", "fault", "watch")
#: The answers to that: go on, end the cell, it is the program's own trap or fault; go on as if no
#: debugger were there.
GO, END, OWN, PASS = 0, 1, 2, 3
#: How a call ended that did not return, in the order of the record's word `kind`.
KINDS = ("", "fault", "exit", "stub", "interrupted")
#: What ended it, in the order of the record's word `cause`: the function, and what users read.
CAUSES: Mapping[str, str] = {
    "none": "",
    "exit": "exit",
    "_exit": "_exit",
    "_Exit": "_Exit",
    "quick_exit": "quick_exit",
    "pthread_exit": "pthread_exit",
    "abort": "abort",
    "stack_chk_fail": "stack smashed",
    "undefined": "undefined symbol",
    "on_exit": "exit in a library",
}
NO_SOCKET = 97  # exit status of a process that can answer no more: the cell closed its descriptors

# Signals (signal(7)).
SIGINT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV = 2, 4, 5, 6, 7, 8, 9, 11
SIGINTERRUPT = 62  # a real-time signal of our own, to stop a cell
FAULTS = (SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV)
HANDLED = (*FAULTS, SIGABRT, SIGINTERRUPT)


def signal_set(signals: Iterable[int]) -> int:
    """Signals as the system has a set of them: bit n - 1 for signal n."""
    return sum(1 << (number - 1) for number in signals)


OUR_SIGNALS = signal_set(HANDLED)
OTHER_SIGNALS = ~OUR_SIGNALS
STOP_SIGNALS = signal_set((SIGTRAP, SIGINTERRUPT))  # of breakpoints, and of pauses
NO_STOP_SIGNALS = ~STOP_SIGNALS
ALL_SIGNALS = -1
SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK = 0, 1, 2
SA_FLAGS = 0x0C000004  # SA_SIGINFO | SA_ONSTACK | SA_RESTORER, no SA_RESTART
SIGSET_SIZE = 8
SIG_DFL, SIG_IGN = 0, 1
SA_RESETHAND = 0x80000000
SA_MASK, SA_FLAGS_AT, SIGACTION_SIZE = 8, 136, 152  # struct sigaction of glibc, in bytes

# Linux, on every machine: errno(3), mprotect(2), poll(2), futex(2), send(2), openat(2), mmap(2),
# lseek(2), mremap(2).
EINTR, EBADF, EAGAIN = 4, 9, 11
PROT_READ, PROT_READ_WRITE, PROT_READ_EXEC = 1, 3, 5
MAP_PRIVATE_ANONYMOUS_NORESERVE, MREMAP_MAYMOVE_FIXED = 0x4022, 3
O_RDONLY_CLOEXEC, SEEK_DATA, SEEK_HOLE = 0x80000, 3, 4
POLLIN, POLLOUT = 1, 4
FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 0, 1, 128, 129
MSG_NOSIGNAL, MSG_NOSIGNAL_DONTWAIT = 0x4000, 0x4040
AT_FDCWD = -100
F_GETFD = 1
INT_MAX, UINT_MAX, INT64_MIN = (1 << 31) - 1, (1 << 32) - 1, -1 << 63
# CLONE_VM | FS | FILES | SIGHAND | THREAD | SYSVSEM: a thread, of the only kind that qemu-user has;
# it makes its descriptors its own by unshare(2).
CLONE_THREAD_FLAGS, CLONE_FILES = 0x50F00, 0x400
LIFELINE_APART, LIFELINE_SHARES = 1, 2

# siginfo_t (sigaction(2)), and ucontext_t of x86-64 (asm/sigcontext.h): offsets in bytes.
SI_CODE, SI_ADDR = 8, 16
UC_REGISTERS, UC_RSP, UC_RIP, UC_EFLAGS, UC_ERR, UC_TRAPNO, UC_SIGMASK = (
    40, 160, 168, 176, 192, 200, 296,
)  # fmt: skip
UC_REGISTERS_SIZE = 144  # of the registers that a record keeps
SI_KERNEL, TRAP_TRACE, TRAP_HWBKPT, TRAP_PERF = 0x80, 2, 4, 6  # si_code of int3, and of others
SI_TKILL = -6  # of a signal that tgkill(2) sent
PLAIN_EFLAGS = 0x202  # interrupts enabled, the direction up
TRAP_INT3 = 3
INT3, INT = 0xCC, 0xCD  # instructions: the second has a byte behind it
TRAP_FLAG = 0x100
NO_TRAP_FLAG = ~TRAP_FLAG

# struct _IO_FILE of glibc, and the lock that it points to: offsets in bytes.
FILE_CHAIN, FILE_FD, FILE_LOCK = 104, 112, 136
LOCK_COUNT, LOCK_OWNER = 4, 8
LINE_BUFFERED, UNBUFFERED = 1, 2  # setvbuf(3)

# struct object of libgcc: offsets in bytes of `u` and `s`.
OBJECT_TABLE, OBJECT_FLAGS = 24, 32

# The region `runtime.data`, to whose start the symbol `jk_control` is bound: offsets and sizes in
# bytes.
RECORD_AT = 0x1000  # the fault record
STACK_AT, STACK_SIZE = 0x2000, 0x8000  # a copy of the stack where a cell was stopped
ARGS_AT, RESULT_AT, BUFFER_SIZE = 0x10000, 0x20000, 0x10000
LIST_AT, LIST_SIZE = 0x30000, 0x20000  # addresses for calls in a row
FRAME_AT, FRAME_SIZE = 0x50000, 0x40000  # the request being served
PAYLOAD_SIZE = 0x20000  # bytes that a request may have beside its head
ASK_AT, ASK_SIZE = 0x90000, 0x10000  # arguments and result of a function of Python's
# Who stands: a thread, its ucontext, the number of the stop for which it does, and a free word.
STOP_THREADS_AT, STOP_THREADS = 0xA0000, 1024
EVERY_STOP = -1
# Two tables: pairs of a breakpoint, and its slot with the place of its program, a number of words,
# from the bit STOP_PROGRAM on.
STOP_TABLES_AT, STOP_TABLE, STOP_COUNT = 0xA8000, 4096, 0xFFFF
STOP_PROGRAM, STOP_SLOT = 48, (1 << 48) - 1
# Counts of hits, of which the first is nobody's, and behind them programs, of one table and the
# other.
STOP_PROGRAMS_AT, STOP_CELLS, STOP_PROGRAM_WORDS = 0xC8000, 256, 4096
STOP_LAST_CELL, STOP_PROGRAM_LIMIT = STOP_CELLS - 1, STOP_PROGRAM_WORDS - 1

#: What the runtime and forked children use of the C library: the control word `libc_NAME` has the
#: address, 0 where there is none.  Those that end a process are in the order of their causes.
_LIBC = (
    "fork exit _exit _Exit quick_exit pthread_exit abort __stack_chk_fail on_exit fflush __fpurge "
    "clearerr_unlocked "
    "stdin stdout stderr _IO_list_all malloc free fopencookie fdopen setvbuf fclose "
    "pthread_attr_init pthread_attr_setstacksize pthread_create pthread_join "
    "ftrylockfile funlockfile "
    "__errno_location sigprocmask pthread_sigmask sigaction signal"
).split()

#: What `jk_up` uses of Python, in words called `python_NAME`.
_PYTHON = (
    "PyGILState_Ensure PyGILState_Release PyObject_CallFunction PyLong_AsUnsignedLongLong "
    "PyErr_Clear Py_DecRef"
).split()

#: In the order of the signal frame's general registers (ucontext `gregs`), then flags.
REGISTERS = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip", "eflags",
)  # fmt: skip

_CONTROL = (
    # who runs
    "pid",
    "tid",  # of the thread that runs cells
    "lifeline_tid",  # of the thread that watches for the kernel process's end
    "lifeline_state",  # LIFELINE_APART: it has descriptors of its own; 0: that is not known yet
    "own_links",  # of /proc/self/task while no thread of the program's is there
    "running",  # 1 while a thunk runs
    "service",  # 1 while the runtime itself runs under `jk_enter`: flushing, checking
    "seq",  # number of the request being served
    # set by the kernel process to stop the request with that number; taken back by the handler
    "interrupt_seq",
    "force_seq",  # from now on even where library frames are below
    # where what runs may be what the text was, since an emulator keeps that until it is asked for
    # the text's protection: where the code that there is ends, else 0
    "text_stale",
    "text_locked",  # a futex: 1 while the text zone is not executable
    "parked",  # 1 while the signals of the thread that runs cells are held back
    "park_mask",  # what was blocked before
    # what `jk_enter` saves
    "saved_rsp",
    "saved_mask",
    "mxcsr",
    "x87cw",
    # fixed at the start
    "has_avx",
    "stack_size",  # bytes of stack a cell may use
    "own_result",  # where thunks leave results: memory that a forked child has a copy of
    "text_start",
    "text_stop",
    "runtime_start",
    "runtime_stop",
    "alt_stack",  # a stack_t: address, flags, size
    "alt_flags",
    "alt_size",
    "has_xsave",
    "xsave_size",  # bytes, what `jk_wake` makes room for
    # code that is to come back (native/wake.ll): who asks, for which stub, and the answer
    "wake_lock",  # a futex: 1 while somebody asks
    "wake_tid",
    "wake_stub",
    "wake_alone",  # 1 where no other thread can be in session code
    "wake_target",
    "wake_done",  # a futex: 1 when there is an answer
    # a function of Python's that is called (native/ask.ll)
    "ask_lock",  # a futex: the thread that asks, 0 while none does
    "ask_number",
    "ask_size",
    "ask_done",  # a futex: 1 when there is an answer
    # threads that a debugger stops (native/stop.ll): the settings
    "stop_on",
    "stop_faults",
    "stop_table",  # place, number and size of the table of breakpoints
    "pause_seq",  # of the request that is to stop; taken back by the handler
    # who has stopped, and the answer
    "stop_lock",  # a futex: the thread, 0 while none has
    "stop_number",  # of the last stop
    "stop_standing",  # a futex: the same while all stand, else 0
    "stop_pending",  # 1 from the stop until it is answered
    "stop_why",
    "stop_tid",
    "stop_signal",
    "stop_code",
    "stop_address",
    "stop_context",
    "stop_answer",
    "stop_done",  # a futex: 1 when there is an answer
    "stop_listed",  # rows of `stop_threads` that were ever used
    *(f"stop_reg_{name}" for name in REGISTERS),
    # the program's own handler of SIGTRAP, while a debugger is there
    "trap_handler",
    "trap_mask",
    "trap_flags",
    # the unwinder's table of functions, set by the kernel process (linker/unwind_table.py), and the
    # object that is to lead there, in memory of the process's own
    "unwind_table",
    "unwind_flags",
    "unwind_object",
    # descriptors and their copies that the user's program does not know of
    "socket",
    "socket_inode",
    "keep_0",
    "keep_1",
    "keep_2",
    *(f"libc_{name}" for name in _LIBC),
    # a stream whose lock somebody keeps: its descriptor; the thread, as the library knows it, or 0
    "lock_fd",
    "lock_owner",
    "tid_at",  # where that has the system's number of the thread, 0 where this is not known
    # what happened
    "record_taken",  # somebody writes or wrote the record of this request
    "record_kept",  # it must not be overwritten
    "fresh_tid",  # of a health check's thread, 0 until it runs
    "progress",  # calls finished by `jk_each`
    "done_seq",  # the last request answered, and the answer
    "done_stopped",
    "done_sick",
    # requests and answers that nobody has to be woken for (doorbell.py)
    "patience",  # cycles for which the next request is looked for, before the process sleeps
    "listening",  # 1 while it looks
    "bell",  # the number of a request that lies in the frame; 1: there is something on the socket
    "watched",  # 1 while the kernel process looks for the answer
    "answered",  # the last request answered, and whether descriptors were opened again
    "answered_reopened",
    "reaper_path",
    "reaper_argv",
    "reaper_envp",
    # what tells of writes to the arena: two pages that only a fork changes, 0 where that is not had
    "fork_pages",
    # the data zone, and where it begins in the slab's file: what a forked child gets a copy of
    "data_start",
    "data_stop",
    "data_offset",
    # up to where cells have had data, set by the kernel process, and what can be accessed: beyond,
    # where nothing is, a write ends as a fault
    "data_high",
    "data_open",
    "fork_own",  # private memory of native/fork.ll
    "forks",  # how often the program has forked
    # where the kernel process runs code itself: an object of Python's that `jk_fetch` calls
    "upcall",
    "errno",  # of the program, between its calls
    *(f"python_{name}" for name in _PYTHON),
)

_RECORD = (
    "kind",  # see abi.py
    "cause",
    "signal",
    "code",
    "address",
    "error",  # the page fault's error code
    "trap",
    "pc",
    "sp",
    "status",
    "stub",
    "caller",
    "thread",  # 0: the cell's, 1: another
    "library",  # library frames were left behind
    "stack_top",
    "stack_size",
    "seq",  # written last: the record is whole
)

#: Offset of each control word, 8 bytes wide.
FIELDS: Mapping[str, int] = MappingProxyType({n: 8 * i for i, n in enumerate(_CONTROL)})
#: Index of each word of the fault record; the registers follow the words.
RECORD: Mapping[str, int] = MappingProxyType(
    {n: i for i, n in enumerate(_RECORD + tuple(f"reg_{r}" for r in REGISTERS))}
)
RECORD_SIZE = 8 * len(RECORD)

#: Every number above by its name, `SYS_futex`, `KIND_fault` and `CAUSE_abort` among them.
NAMES: Mapping[str, int] = {
    **{name: value for name, value in vars().items() if name.isupper() and isinstance(value, int)},
    **{f"SYS_{name}": number for name, number in SYS.items()},
    **{f"WHY_{name}": number for number, name in enumerate(WHYS)},
    **{f"DO_{name}": number for number, name in enumerate(PROGRAM_OPS)},
    **{f"KIND_{name}": number for number, name in enumerate(KINDS)},
    **{f"CAUSE_{name}": number for number, name in enumerate(CAUSES)},
}
