"""The registers and the stack of a cell that runs, which goes on afterwards.  Start from `peek`.

The kernel process holds the executor's thread for some 100 microseconds as a debugger would
(`ptrace`, "seize" and "interrupt"), reads what it needs and lets it go.  System calls that were
waiting go on waiting.  Source: ptrace(2), PTRACE_SEIZE; struct user_regs_struct, <sys/user.h>.
"""

from __future__ import annotations

import ctypes
import os

from jitkernel.errors import UsageError
from jitkernel.executor.control import STACK_SIZE
from jitkernel.executor.procfs import regions
from jitkernel.executor.records import FaultRecord

__all__ = ["peek"]

_SEIZE, _INTERRUPT, _GETREGS, _DETACH = 0x4206, 0x4207, 12, 17
_WALL = 0x4000_0000
_FIELDS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi",
    "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs",
    "gs",
)  # fmt: skip


def peek(pid: int, top: int, generation: int) -> FaultRecord:
    """Where the first thread of a process is now; `top` is where the cell's frames begin.

    Raises UsageError where the system lets nobody look, or the thread is just ending.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    words = (ctypes.c_uint64 * len(_FIELDS))()
    if libc.ptrace(_SEIZE, pid, None, None) < 0:
        why = os.strerror(ctypes.get_errno())
        raise UsageError(f"this system does not let us look into a process that runs: {why}")
    try:
        libc.ptrace(_INTERRUPT, pid, None, None)
        # Where it has ended instead, its status is for whoever started it.
        event = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if event is None or event.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
            raise UsageError("the process is just ending")
        _, status = os.waitpid(pid, _WALL)
        if not os.WIFSTOPPED(status) or libc.ptrace(_GETREGS, pid, None, ctypes.addressof(words)):
            raise UsageError("the process is just ending")
        registers = dict(zip(_FIELDS, map(int, words), strict=True))
        sp = registers["rsp"]
        if not sp < top:  # not where cells run: the end of what is mapped there
            top = next((r.stop for r in regions(pid) if r.start <= sp < r.stop), sp)
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(sp)
            stack = memory.read(min(STACK_SIZE, top - sp))
    except OSError:
        raise UsageError("the process is just ending") from None
    finally:
        libc.ptrace(_DETACH, pid, None, None)
    kept = {name: registers[name] for name in _FIELDS[:15]}
    return FaultRecord(
        pc=registers["rip"],
        sp=sp,
        registers={**kept, "rip": registers["rip"], "rsp": sp, "eflags": registers["eflags"]},
        stack=stack,
        stack_top=top,
        generation=generation,
    )
