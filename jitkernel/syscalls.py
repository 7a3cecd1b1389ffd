"""The system calls of Linux that are made by number: start from `SYS`.

Those of x86-64, the one machine that there is; each has numbers of its own.  Source:
arch/x86/entry/syscalls/syscall_64.tbl.
"""

from __future__ import annotations

SYS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "readv": 19, "writev": 20, "select": 23, "sched_yield": 24, "mremap": 25, "mincore": 27,
    "dup2": 33, "pause": 34, "nanosleep": 35, "getpid": 39, "connect": 42, "accept": 43,
    "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "clone": 56, "execve": 59,
    "wait4": 61, "kill": 62, "semop": 65, "msgsnd": 69, "msgrcv": 70, "fcntl": 72, "flock": 73,
    "rt_sigtimedwait": 128, "rt_sigsuspend": 130, "sigaltstack": 131, "gettid": 186, "futex": 202,
    "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232, "tgkill": 234, "waitid": 247,
    "openat": 257, "newfstatat": 262, "pselect6": 270, "ppoll": 271, "unshare": 272,
    "epoll_pwait": 281, "accept4": 288, "perf_event_open": 298, "process_vm_readv": 310,
    "userfaultfd": 323, "close_range": 436, "restart_syscall": 219,
}  # fmt: skip
