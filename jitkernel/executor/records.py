"""What the executor reports: `Outcome` of a call, `FaultRecord` of what stopped it.

Records only.  The words of a fault record come from shared memory that user code can write to, so
nothing in them is trusted: any 64-bit value decodes.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from jitkernel.executor.abi import CAUSES, KINDS
from jitkernel.executor.control import RECORD, REGISTERS, STACK_SIZE

__all__ = [
    "ExecutorSettings",
    "FaultRecord",
    "LockHolder",
    "Outcome",
    "decode_record",
    "signal_name",
]

_CAUSES = tuple(CAUSES.values())
_EMPTY: Mapping[str, Any] = MappingProxyType({})
#: si_code of what kill, sigqueue, mq_notify and tgkill send; all have the sender's number.
_SENT, _SI_TIMER = (0, -1, -3, -6), -2
_PAGE_FAULT, _WRITE, _FETCH = 14, 2, 16  # x86: trap number, error code bits


class ExecutorSettings(NamedTuple):
    """How an executor runs; times in seconds, sizes in bytes, 0 for no limit.

    `memory_limit`, `stack_size`, `env` and `cwd` take effect when the process starts.
    """

    interrupt_grace: float = 2.0
    cell_timeout: float = 0.0
    memory_limit: int = 0
    stack_size: int = 8 << 20
    env: Mapping[str, str] = _EMPTY
    cwd: str = ""


class FaultRecord(NamedTuple):
    """Where and how user code was stopped.

    `signal` is a name (`SIGSEGV`), "" where no signal was involved; `code` its si_code; `address`
    the address it concerns and `access` what was tried there ("read", "write", "execute" or "").
    `stack` holds the bytes from `sp` up towards `stack_top`, at most 32 KiB.  `stub` and `caller`
    are of a call to a symbol that nobody defines.  `library`: frames of a library were abandoned.
    `cause` says who ended the cell where no fault did: "exit", "abort", "stack smashed",
    "timeout", ...  `generation` is of the process that the addresses belong to.
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
    stdin_refused: bool = False
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
    """How a call ended.

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


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 62` for what has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signed(word: int) -> int:
    """The C int in a word's low half."""
    return (word & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


def _sender(code: int, payload: int, pid: int) -> str:
    """Who sent a signal with this si_code, where the system or the processor did not.

    `payload` is the word of siginfo_t that has a fault's address, else the sender's process in its
    low half; `pid` is the program's own.  Source: sigaction(2), the union of siginfo_t.
    """
    if code > 0:
        return ""
    if code in _SENT:
        sender = _signed(payload)
        return "the program itself" if sender == pid else f"process {sender}"
    return "a timer" if code == _SI_TIMER else "the system"


def decode_record(
    words: Sequence[int], stack: bytes, generation: int, cause: str = "", pid: int = 0
) -> tuple[str, FaultRecord]:
    """The kind and the record that the runtime's words mean; `stack` is the whole stack buffer,
    `pid` the process's number."""
    word = words.__getitem__
    at = RECORD
    number = word(at["signal"])
    code = _signed(word(at["code"]))
    error, trap = word(at["error"]), word(at["trap"])
    access = ""
    # Codes up to 0 are signals that somebody sent: then the trap is an old one.
    if trap == _PAGE_FAULT and code > 0 and number in (signal.SIGSEGV, signal.SIGBUS):
        access = "execute" if error & _FETCH else "write" if error & _WRITE else "read"
    first = at[f"reg_{REGISTERS[0]}"]
    index = word(at["kind"])
    kind = KINDS[index] if 0 < index < len(KINDS) else "fault"
    index = word(at["cause"])
    # What a function of the runtime noted (`abort`) is no signal, though it has a signal's number.
    sent = _sender(code, word(at["address"]), pid) if kind == "fault" and not index else ""
    return kind, FaultRecord(
        signal="" if kind != "fault" or not number else signal_name(number),
        code=code,
        address=0 if sent else word(at["address"]),
        pc=word(at["pc"]),
        sp=word(at["sp"]),
        registers=dict(zip(REGISTERS, words[first : first + len(REGISTERS)], strict=False)),
        stack=stack[: min(word(at["stack_size"]), STACK_SIZE)],
        stack_top=word(at["stack_top"]),
        status=_signed(word(at["status"])),
        stub=word(at["stub"]),
        caller=word(at["caller"]),
        thread="other" if word(at["thread"]) else "cell",
        access=access,
        library=bool(word(at["library"])),
        stdin_refused=cause == "stdin",
        cause=cause or (_CAUSES[index] if index < len(_CAUSES) else ""),
        generation=generation,
        sent=sent,
    )
