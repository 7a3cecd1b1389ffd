"""The numbers that the kernel process, the executor's Python part and its native runtime share.

`$NAME` in the folder native is the number that has this name in `NAMES`; child.py gets those it
needs with its first message.  Where things lie in shared memory is in control.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitkernel.syscalls import SYS

__all__ = ["CAUSES", "KINDS", "NAMES", "signal_set"]

# Messages on the socket: what is asked, and what the answer repeats.  From HELLO on child.py
# serves them, the others are the native loop's.
CALL, CHECK, PARK, UNPARK, WAKE = 1, 2, 3, 4, 5
HELLO, LOOKUP, LIBRARY, LOCATE, CHDIR, SETENV = 16, 17, 18, 19, 20, 21
HEAD_SIZE = 64  # bytes of a message before its payload: eight words

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
ALL_SIGNALS = -1
SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK = 0, 1, 2
SA_FLAGS = 0x0C000004  # SA_SIGINFO | SA_ONSTACK | SA_RESTORER, no SA_RESTART
SIGSET_SIZE = 8

# Linux, on every machine: errno(3), mprotect(2), poll(2), futex(2), send(2), openat(2).
EINTR, EBADF, EAGAIN = 4, 9, 11
PROT_READ, PROT_READ_EXEC = 1, 5
POLLIN, POLLOUT = 1, 4
FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 0, 1, 128, 129
MSG_NOSIGNAL, MSG_NOSIGNAL_DONTWAIT = 0x4000, 0x4040
AT_FDCWD = -100
F_GETFD = 1
INT_MAX, UINT_MAX = (1 << 31) - 1, (1 << 32) - 1
# CLONE_VM | FS | SIGHAND | THREAD | SYSVSEM: a thread with descriptors of its own.
CLONE_THREAD = 0x50B00

# siginfo_t (sigaction(2)), and ucontext_t of x86-64 (asm/sigcontext.h): offsets in bytes.
SI_CODE, SI_ADDR = 8, 16
UC_REGISTERS, UC_RSP, UC_RIP, UC_EFLAGS, UC_ERR, UC_TRAPNO, UC_SIGMASK = (
    40, 160, 168, 176, 192, 200, 296,
)  # fmt: skip
UC_REGISTERS_SIZE = 144  # of the registers that a record keeps
PLAIN_EFLAGS = 0x202  # interrupts enabled, the direction up
TRAP_INT3 = 3

# struct _IO_FILE of glibc, and the lock that it points to: offsets in bytes.
FILE_CHAIN, FILE_FD, FILE_LOCK = 104, 112, 136
LOCK_COUNT, LOCK_OWNER = 4, 8
LINE_BUFFERED, UNBUFFERED = 1, 2  # setvbuf(3)

#: Every number above by its name, `SYS_futex`, `KIND_fault` and `CAUSE_abort` among them.
NAMES: Mapping[str, int] = {
    **{name: value for name, value in vars().items() if name.isupper() and isinstance(value, int)},
    **{f"SYS_{name}": number for name, number in SYS.items()},
    **{f"KIND_{name}": number for number, name in enumerate(KINDS)},
    **{f"CAUSE_{name}": number for number, name in enumerate(CAUSES)},
}
