"""Where everything lies in the runtime's own data, in one place.

The kernel process, the executor's Python part and its native runtime all use these offsets; they
count from the start of the region `runtime.data`, to which the symbol `jk_control` is bound.
Nothing here touches memory.  Start from `FIELDS` and `RECORD`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["FIELDS", "RECORD", "REGISTERS"]

RECORD_AT = 0x1000  # the fault record
STACK_AT, STACK_SIZE = 0x2000, 0x8000  # a copy of the stack where a cell was stopped
ARGS_AT, RESULT_AT, BUFFER_SIZE = 0x10000, 0x20000, 0x10000
LIST_AT, LIST_SIZE = 0x30000, 0x20000  # addresses for calls in a row
FRAME_AT, FRAME_SIZE = 0x50000, 0x40000  # the request being served
PAYLOAD_SIZE = 0x20000  # bytes that a request may have beside its head
REAPER_AT = 0x90000  # argv and strings for the program that cleans up

#: What the runtime and forked children use of the C library: the control word `libc_NAME` has the
#: address, 0 where there is none.  Those that end a process are in the order of their causes.
_LIBC = (
    "fork exit _exit _Exit quick_exit pthread_exit abort __stack_chk_fail on_exit fflush __fpurge "
    "stdin stdout stderr _IO_list_all malloc free fopencookie fdopen setvbuf fclose "
    "pthread_attr_init pthread_attr_setstacksize pthread_create pthread_join "
    "__register_frame __deregister_frame ftrylockfile funlockfile"
).split()

_CONTROL = (
    # who runs
    "pid",
    "tid",  # of the thread that runs cells
    "lifeline_tid",  # of the thread that watches for the kernel process's end
    "running",  # 1 while a thunk runs
    "service",  # 1 while the runtime itself runs under `jk_enter`: flushing, checking
    "seq",  # number of the request being served
    # set by the kernel process to stop the request with that number; taken back by the handler
    "interrupt_seq",
    "force_seq",  # from now on even where library frames are below
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
    # unwind tables: set by the kernel process, and what is registered now
    "unwind_start",
    "unwind_generation",
    "seen_start",
    "seen_generation",
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
    "reaper_path",
    "reaper_argv",
    "reaper_envp",
    # what tells of writes to the arena: two pages that only a fork changes, 0 where that is not had
    "fork_pages",
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

#: In the order of the signal frame's general registers (ucontext `gregs`), then flags.
REGISTERS = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip", "eflags",
)  # fmt: skip

#: Offset of each control word, 8 bytes wide.
FIELDS: Mapping[str, int] = MappingProxyType({n: 8 * i for i, n in enumerate(_CONTROL)})
#: Index of each word of the fault record; the registers follow the words.
RECORD: Mapping[str, int] = MappingProxyType(
    {n: i for i, n in enumerate(_RECORD + tuple(f"reg_{r}" for r in REGISTERS))}
)
