"""A system call that ended because a thread was made to stand is begun again when it goes on.

The signal that makes a thread stand ends what it waits in, as every signal with a handler does
(signal(7), "Interruption of system calls"): the program would see EINTR, of which it knows nothing.
So the thread is set back to the instruction, as the system does with SA_RESTART, which is not for
us: an interrupt has to end the same calls.  Start from `begun_again`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jitkernel.executor.abi import EINTR
from jitkernel.procfs import SystemCall
from jitkernel.syscalls import SYS

_WORD = (1 << 64) - 1
_SYSCALL, _MOV_EAX, _XOR_EAX = b"\x0f\x05", 0xB8, (b"\x31\xc0", b"\x33\xc0")
_LENGTH = len(_SYSCALL)
LOOKED_AT = 5 + _LENGTH
_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_NEGATIVE = range(1 << 31, 1 << 32)  # a C int, as a word has it
_FUTEX_WAIT, _FUTEX_COMMAND, _TIMER_ABSTIME = 0, 0x7F, 1

Change = Mapping[str, int] | None


def _always(arguments: Sequence[int]) -> Change:
    return {}


def _without_limit(which: int) -> Callable[[Sequence[int]], Change]:
    """For calls whose limit of time, in milliseconds, is an argument: none where it is negative."""
    return lambda arguments: {} if arguments[which] & 0xFFFFFFFF in _NEGATIVE else None


def _futex(arguments: Sequence[int]) -> Change:
    """A limit of time is from now on for FUTEX_WAIT alone."""
    relative = arguments[1] & _FUTEX_COMMAND == _FUTEX_WAIT and arguments[3]
    return None if relative else {}


def _nanosleep(arguments: Sequence[int]) -> Change:
    """The rest, where the program asked what it is."""
    return {"rdi": arguments[1]} if arguments[1] else None


def _clock_nanosleep(arguments: Sequence[int]) -> Change:
    if arguments[1] & _TIMER_ABSTIME:
        return {}
    return {"rdx": arguments[3]} if arguments[3] else None


def _signals(arguments: Sequence[int]) -> Change:
    return None if arguments[2] else {}


#: By number of a call: the arguments that change, None where it is not begun again: the system does
#: not say how much of its time is left (usleep).  select, pselect and ppoll write that down.
_CALLS: Mapping[int, Callable[[Sequence[int]], Change]] = {
    **{
        SYS[name]: _always
        for name in (
            "read write readv writev open openat connect accept accept4 sendto recvfrom sendmsg "
            "recvmsg wait4 waitid semop msgsnd msgrcv fcntl flock pause rt_sigsuspend select "
            "pselect6 ppoll"
        ).split()
    },
    SYS["poll"]: _without_limit(2),
    SYS["epoll_wait"]: _without_limit(3),
    SYS["epoll_pwait"]: _without_limit(3),
    SYS["futex"]: _futex,
    SYS["nanosleep"]: _nanosleep,
    SYS["clock_nanosleep"]: _clock_nanosleep,
    SYS["rt_sigtimedwait"]: _signals,
}


def just_begun(registers: Mapping[str, int], code: bytes) -> SystemCall | None:
    """The system call from which a thread has just come back, by the `LOOKED_AT` bytes of code in
    front of where it is: the number is put into eax right before the instruction, as libc's
    functions do it; None where that is not so.

    For a thread that began to wait after it was looked up what it does, before the signal came.
    """
    if len(code) != LOOKED_AT or not code.endswith(_SYSCALL):
        return None
    if code[0] == _MOV_EAX:
        number = int.from_bytes(code[1:5], "little")
    elif code[3:5] in _XOR_EAX:
        number = 0
    else:
        return None
    arguments = tuple(registers[name] for name in _ARGUMENTS)
    return SystemCall(number, arguments, registers["rip"])


def begun_again(call: SystemCall, registers: Mapping[str, int]) -> dict[str, int]:
    """The registers to change of a thread that waited in this call before it was sent the signal;
    none where the call had ended otherwise, or is not begun again."""
    arguments = tuple(registers[name] for name in _ARGUMENTS)
    ended = registers["rax"] == -EINTR & _WORD and registers["rip"] == call.pc
    if not ended or arguments != call.arguments or call.number not in _CALLS:
        return {}
    change = _CALLS[call.number](arguments)
    if change is None:
        return {}
    return {**change, "rax": call.number, "rip": call.pc - _LENGTH}
