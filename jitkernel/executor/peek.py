"""The registers and the stack of a cell that runs, who holds a stream's lock, and the signals that
threads block; all go on afterwards.  Start from `peek`, `lock_holder` and `unblock_faults`.

The kernel process holds the executor's thread for some 100 microseconds as a debugger would
(`ptrace`, "seize" and "interrupt"), reads what it needs and lets it go.  System calls that were
waiting go on waiting.  Source: ptrace(2), PTRACE_SEIZE; struct user_regs_struct, <sys/user.h>.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator

from jitkernel.errors import UsageError
from jitkernel.executor.abi import FAULTS, STACK_SIZE, signal_set
from jitkernel.executor.control import ControlBlock
from jitkernel.executor.records import FaultRecord, LockHolder
from jitkernel.procfs import memory, regions, threads_that_block

_SEIZE, _INTERRUPT, _GETREGS, _DETACH = 0x4206, 0x4207, 12, 17
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
_FAULTS = signal_set(FAULTS)
_WALL = 0x4000_0000
_TRIES = 1000  # a millisecond each
_STARTS = 0.002  # seconds that a thread takes to be started, where it has a processor
_STARTED, _LOOKS = 1.0, 10  # seconds that are waited for one that has none; looks beside that
_LIBCS = signal_set(
    [33]
)  # SIGSETXID (glibc, internal-signals.h), of which sigfillset knows nothing
_WHOLE = 8 << 20  # bytes of a stack, and more
_DEPTH = 4096  # bytes of a stack that are searched for a holder's frames
_FIELDS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi",
    "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs",
    "gs",
)  # fmt: skip


def unblock_faults(pid: int, spared: int) -> None:
    """Let every thread of a process get the signals of faults, but for its first and `spared`.

    The runtime stops threads by a fault, and the system ends a process of which a thread blocks the
    signal of its own fault.  Libraries start such threads (timer_create with SIGEV_THREAD).  What a
    thread starts blocks what the thread does, and while one is being started it blocks all, also
    what libc lets no program block, and then takes its starter's set: that is waited for.  So it is
    looked again, a while later, until none is found.  Where the system does not let us, threads
    stay as they are.
    """
    looks, until = 0, time.monotonic() + _STARTED
    while looks < _LOOKS:
        blocked = set(threads_that_block(pid, _FAULTS)) - {pid, spared}
        if not blocked:
            break
        if time.monotonic() < until and (starting := blocked & {*threads_that_block(pid, _LIBCS)}):
            blocked -= starting
        else:
            looks += 1
        for thread in blocked:
            unblock(thread, _FAULTS)
        time.sleep(_STARTS)


def unblock(thread: int, signals: int, code: range = range(0)) -> None:
    """Let a thread get these signals, where the system lets us do that; but for one that is in
    this `code`, which blocks them for a moment."""
    mask, words = ctypes.c_uint64(), (ctypes.c_uint64 * len(_FIELDS))()
    at = ctypes.addressof(mask)
    try:
        with _stopped(thread) as ptrace:
            ptrace(_GETREGS, thread, None, ctypes.addressof(words))
            if words[_FIELDS.index("rip")] in code:
                return
            if ptrace(_GETSIGMASK, thread, 8, at) == 0:
                mask.value &= ~signals
                ptrace(_SETSIGMASK, thread, 8, at)
    except UsageError:
        pass  # it has ended, or we may not


@contextlib.contextmanager
def _stopped(thread: int) -> Iterator[Callable[..., int]]:
    """While it lasts, a thread stands still; gives ptrace.  Raises UsageError."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(_SEIZE, thread, None, None) < 0:
        why = os.strerror(ctypes.get_errno())
        raise UsageError(f"this system does not let us look into a process that runs: {why}")
    try:
        libc.ptrace(_INTERRUPT, thread, None, None)
        # Where it has ended instead, its status is for whoever started it.
        try:
            event = os.waitid(os.P_PID, thread, os.WSTOPPED | os.WEXITED | os.WNOWAIT | _WALL)
        except ChildProcessError:
            event = None
        if event is None or event.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
            raise UsageError("the process is just ending")
        _, status = os.waitpid(thread, _WALL)
        if not os.WIFSTOPPED(status):
            raise UsageError("the process is just ending")
        yield libc.ptrace
    finally:
        for _ in range(_TRIES):  # it does not stand still where this was interrupted, or it ends
            if libc.ptrace(_DETACH, thread, None, None) == 0 or _has_ended(thread):
                break
            libc.ptrace(_INTERRUPT, thread, None, None)
            time.sleep(0.001)


def _has_ended(thread: int) -> bool:
    """True if a thread that is held has ended; its status is taken.  Only who holds it can, and
    before that its process does not end.  A first thread's is for whoever started the process."""
    try:
        kinds = os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL
        if os.waitid(os.P_PID, thread, kinds) is None:
            return False
        with open(f"/proc/{thread}/status") as file:
            process = next(line.split()[1] for line in file if line.startswith("Tgid:"))
        if int(process) != thread:
            os.waitpid(thread, _WALL)
    except (ChildProcessError, FileNotFoundError):
        pass  # nobody holds it any more
    return True


@contextlib.contextmanager
def _looked_at(thread: int) -> Iterator[dict[str, int]]:
    """While it lasts, a thread stands still; gives its registers.  Raises UsageError."""
    words = (ctypes.c_uint64 * len(_FIELDS))()
    with _stopped(thread) as ptrace:
        if ptrace(_GETREGS, thread, None, ctypes.addressof(words)):
            raise UsageError("the process is just ending")
        yield dict(zip(_FIELDS, map(int, words), strict=True))


def addresses(pid: int, threads: Iterable[int], code: range) -> set[int]:
    """The addresses within `code` that threads stand at, or have on their stacks, as those to which
    they return, and where a handler of a signal goes on.  Raises UsageError where the system does
    not let us look; threads that have ended have none."""
    found: set[int] = set()
    for thread in threads:
        try:
            with _looked_at(thread) as registers:
                stack = memory(pid, registers["rsp"], _WHOLE)
        except UsageError:
            if not os.path.exists(f"/proc/{pid}/task/{thread}"):
                continue
            raise
        words = struct.unpack_from(f"<{len(stack) // 8}Q", stack)
        found.update(word for word in (registers["rip"], *words) if word in code)
    return found


def lock_holder(control: ControlBlock, pid: int) -> LockHolder | None:
    """The thread that held a stream's lock when the last call ended; None where none did.

    A thread of the program may take stdout's lock and sleep; the runtime then leaves what was
    printed where it is (native/enter.ll, `flush_one`).
    """
    thread = control["lock_owner"]
    if not thread:
        return None
    at = control["tid_at"]
    tid = int.from_bytes(memory(pid, thread + at, 4) if at else b"", "little")
    if not os.path.exists(f"/proc/{pid}/task/{tid}"):
        tid = 0
    stack = b""
    with contextlib.suppress(UsageError), _looked_at(tid) as registers:
        stack = memory(pid, registers["rsp"], _DEPTH)
    low, high = control["text_start"], control["text_stop"]
    words = struct.unpack_from(f"<{len(stack) // 8}Q", stack)
    stream = "stdout" if control["lock_fd"] == 1 else "stderr"
    return LockHolder(stream, tid, tuple(w for w in words if low <= w < high))


def peek(pid: int, top: int, generation: int, thread: int = 0) -> FaultRecord:
    """The registers and stack of a thread of a process, the first unless it is named; `top` is
    where the cell's frames begin, on the first.

    Raises UsageError where the system lets nobody look, or the thread is just ending.
    """
    with _looked_at(thread or pid) as registers:
        sp = registers["rsp"]
        if thread or not sp < top:  # not where cells run: the end of what is mapped there
            top = next((r.stop for r in regions(pid) if r.start <= sp < r.stop), sp)
        stack = memory(pid, sp, min(STACK_SIZE, top - sp))
        if not stack and sp < top:
            raise UsageError("the process is just ending")
    kept = {name: registers[name] for name in _FIELDS[:15]}
    return FaultRecord(
        pc=registers["rip"],
        sp=sp,
        registers={**kept, "rip": registers["rip"], "rsp": sp, "eflags": registers["eflags"]},
        stack=stack,
        stack_top=top,
        generation=generation,
    )
