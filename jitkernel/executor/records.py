"""What the executor reports: `Outcome` of a call, `FaultRecord` of what stopped it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jitkernel.record import NamedTuple

_EMPTY: Mapping[str, Any] = MappingProxyType({})


class FaultRecord(NamedTuple):
    """The record of where and how user code was stopped.

    `signal` is a name (`SIGSEGV`), "" where no signal was involved; `code` its si_code; `address`
    the address it concerns and `access` what was tried there ("read", "write", "execute" or "").
    `stack` holds the bytes from `sp` up towards `stack_top`, at most 32 KiB.  `stub` and `caller`
    are of a call to a symbol that nobody defines.  `library`: frames of a library were abandoned.
    `cause` says who ended the cell where no fault did: one of the words of `abi.CAUSES` ("exit",
    "stack smashed"), "timeout", "stdin", or "" for the user.  `generation` is of the process that
    the addresses belong to.
    `sent` says who sent the signal where it was no fault of the code: "the program itself",
    "process 17", "a timer"; then `address` is 0.
    """

    signal: str = ""
    code: int = 0
    address: int = 0
    pc: int = 0
    sp: int = 0
    registers: Mapping[str, int] = _EMPTY
    stack: bytes = b""
    stack_top: int = 0
    status: int = 0
    stub: int = 0
    caller: int = 0
    thread: str = "cell"
    access: str = ""
    library: bool = False
    cause: str = ""
    generation: int = 0
    sent: str = ""


class LockHolder(NamedTuple):
    """A thread of the program that holds a stream's lock: `stream` is "stdout" or "stderr", `tid`
    0 where it cannot be told.  `stack` has what of its stack may be addresses of
    session code, innermost first."""

    stream: str
    tid: int
    stack: tuple[int, ...]

    def words(self, code: Callable[[int], str]) -> str:
        """One sentence; `code` names an address of session code, or says nothing."""
        where = next(filter(None, map(code, self.stack)), "")
        who = f"thread {self.tid}" if self.tid else "a thread"
        at = f", at {where}," if where else ""
        return (
            f"{who} of the program{at} holds the lock of {self.stream}: what is printed there "
            "appears when it lets go, and a cell that prints waits for it"
        )


class Outcome(NamedTuple):
    """The outcome of a call.

    `kind` is one of
    "ok"           it returned; `result` is what it left in the result buffer
    "fault"        a signal, `abort` or a smashed stack
    "exit"         it asked to end the process; `record.status` is the status
    "stub"         it called a symbol that nobody defines
    "interrupted"  it was stopped on request, by the time limit, or because it wanted input
    "died"         the process is gone and left no record

    `respawned`: another process runs now and `lost` says what went with the old one.  `started`
    is False where the process was found dead before the call began.  `done` counts finished calls
    of `call_many`.  `lock_holder` is why what was printed is not written yet.
    """

    kind: str
    result: bytes = b""
    record: FaultRecord | None = None
    respawned: bool = False
    lost: str = ""
    started: bool = True
    done: int = 0
    lock_holder: LockHolder | None = None


class Unfit(Exception):
    """Of a direct call (direct.py): these arguments are for the ordinary call, which converts more,
    and says what is wrong."""


class NotReturned(Exception):
    """A direct call was stopped."""


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 62` for what has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
